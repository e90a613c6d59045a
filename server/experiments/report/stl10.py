"""Table 2: STL-10, mean over its ten predefined folds."""
import os

import numpy as np

import table2


def read_test_images(folder):
    for inner in ("stl10_binary", ""):
        path = os.path.join(folder, inner, "test_X.bin")
        if os.path.exists(path):
            # Planes of red, green and blue, column by column. Mapped: few of the 220 MB are shown.
            return np.memmap(path, np.uint8, "r").reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1)
    return None


TABLE = table2.Table(
    data_set="STL-10",
    command="./run reproduce stl10",
    train_size=1000,
    folds=10,
    paper={"ckn-gm-stl10": 60.04, "ckn-pm-stl10": 60.25, "ckn-co-stl10": 62.32},
    others={"Coates and Ng 2011": "60.1", "Sohn and Lee 2012": "58.7", "Coates, Lee and Ng 2011": "51.5",
            "Bo et al. 2013": "64.5", "Gens and Domingos 2012": "62.3"},
    classes=["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"],
    read_test_images=read_test_images,
)
TITLE, COMMAND = TABLE.title, TABLE.command
load, markdown, html = TABLE.load, TABLE.markdown, TABLE.html
