"""Table 2: CIFAR-10."""
import os

import numpy as np

import table2


def read_test_images(folder):
    for inner in ("cifar-10-batches-bin", ""):
        path = os.path.join(folder, inner, "test_batch.bin")
        if os.path.exists(path):
            records = np.fromfile(path, np.uint8).reshape(-1, 1 + 3 * 32 * 32)
            # Planes of red, green and blue after the label.
            return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return None


TABLE = table2.Table(
    data_set="CIFAR-10",
    command="./run reproduce cifar10",
    train_size=50000,
    folds=0,
    paper={"ckn-gm-cifar10": 74.84, "ckn-pm-cifar10": 78.30, "ckn-co-cifar10": 82.18},
    others={"Coates and Ng 2011": "82.0", "Sohn and Lee 2012": "82.2", "Goodfellow et al. 2013": "88.32",
            "Coates, Lee and Ng 2011": "79.6", "Gens and Domingos 2012": "83.96", "Zeiler and Fergus 2013": "84.87"},
    classes=["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
    read_test_images=read_test_images,
    beyond={("ckn-wide-cifar10", "nystrom"):
            "a combination of a gradient map and of a patch map with whitened patches, 1,024 filters in the last layers "
            "of both, features averaged with those of the mirror image, learned by nystrom"},
)
TITLE, COMMAND = TABLE.title, TABLE.command
load, markdown, html = TABLE.load, TABLE.markdown, TABLE.html
