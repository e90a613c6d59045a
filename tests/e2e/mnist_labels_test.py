"""All 10,000 MNIST test images over gRPC get exactly the labels that `ckn evaluate` counts.

The data are looked for in CKN_DATA_DIR, default ../shared/data beside the source tree.
"""

import csv
import gzip
import json
import os
import shutil
import struct
import subprocess
import sys

import ckn_e2e
import grpc

BATCH = 200


def read_idx(folder, name):
    """(sizes, bytes) of an IDX file of unsigned bytes, plain or .gz; None when there is none."""
    path = os.path.join(folder, name)
    if os.path.exists(path):
        content = open(path, "rb").read()
    elif os.path.exists(path + ".gz"):
        content = gzip.open(path + ".gz", "rb").read()
    else:
        return None
    dimensions = content[3]
    sizes = struct.unpack(f">{dimensions}I", content[4 : 4 + 4 * dimensions])
    return sizes, content[4 + 4 * dimensions :]


def main():
    arguments = ckn_e2e.parse_arguments()
    model = os.path.join(arguments.source, "models", "mnist.ckn")
    if not os.path.exists(model):
        ckn_e2e.skip(f"no model {model}")
    data = os.environ.get("CKN_DATA_DIR") or os.path.join(arguments.source, "..", "shared", "data")
    images = read_idx(data, "t10k-images-idx3-ubyte")
    labels = read_idx(data, "t10k-labels-idx1-ubyte")
    if images is None or labels is None:
        ckn_e2e.skip(f"no MNIST test images in {os.path.abspath(data)}; set CKN_DATA_DIR")
    (count, height, width), pixels = images
    assert (count,) == labels[0], f"{count} images, {labels[0]} labels"
    pb, pb_grpc = ckn_e2e.import_stubs(arguments)

    with ckn_e2e.temporary_folder() as folder:
        predictions_file = os.path.join(folder, "predictions.csv")
        command = [arguments.ckn, "evaluate", model, "--data", f"mnist:{data}", "--json", "--predictions", predictions_file]
        evaluation = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        with open(predictions_file, newline="") as file:
            expected = [int(row["predicted"]) for row in csv.DictReader(file)]
        assert len(expected) == evaluation["count"] == count, (len(expected), evaluation["count"], count)

        models = os.path.join(folder, "models")
        os.mkdir(models)
        shutil.copy(model, models)
        predicted = []
        with ckn_e2e.Server(arguments.ckn, models) as server, grpc.insecure_channel(server.address) as channel:
            stub = pb_grpc.InferenceStub(channel)
            for begin in range(0, count, BATCH):
                request = pb.ClassifyRequest()
                for index in range(begin, min(begin + BATCH, count)):
                    gray = pixels[index * height * width : (index + 1) * height * width]
                    # Both ways in: image files and raw pixels.
                    if index % 2 == 0:
                        request.images.add(encoded=ckn_e2e.png(height, width, gray))
                    else:
                        request.images.add(pixels=pb.Pixels(height=height, width=width, channels=1, data=gray))
                for result in stub.Classify(request, timeout=300).results:
                    assert result.status.code == 0, result.status
                    predicted.append(result.classes[0].index)

    different = [index for index in range(count) if predicted[index] != expected[index]]
    assert not different, f"{len(different)} labels differ from ckn evaluate's, first at image {different[0]}"
    classes = len(evaluation["confusion"])
    confusion = [[0] * classes for _ in range(classes)]
    for label, guess in zip(labels[1], predicted):
        confusion[label][guess] += 1
    assert confusion == evaluation["confusion"], "the confusion matrix differs from ckn evaluate's"
    errors = sum(label != guess for label, guess in zip(labels[1], predicted))
    assert abs(evaluation["error_percent"] - 100 * errors / count) < 1e-9, (evaluation["error_percent"], errors)
    print(f"{count} images: every label as ckn evaluate's, {errors} errors ({100 * errors / count:.2f} %)")


if __name__ == "__main__":
    main()
