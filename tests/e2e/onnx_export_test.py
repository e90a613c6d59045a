"""Models of all kinds, exported by `ckn export` and run in ONNX Runtime, give what ckn gives.

Features are compared with those of `ckn encode`, labels with those of `ckn evaluate --predictions`, scores and
probabilities with the library's.
"""

import argparse
import csv
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77  # CMakeLists.txt tells ctest
TOLERANCE = 1e-4


def skip(reason):
    line = "#" * 80
    print(f"{line}\n# SKIPPED, nothing was tested: {reason}\n{line}")
    sys.exit(SKIPPED)


for module in ("matplotlib", "numpy"):
    if importlib.util.find_spec(module) is None:
        skip(f"python3-{module} is not installed")

import matplotlib.image  # noqa: E402
import numpy as np  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "benchmarks", "onnx"))
import onnx_runtime  # noqa: E402


def run(*command):
    subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


class Check:
    def __init__(self, ckn, folder):
        self.ckn = ckn
        self.folder = folder
        self.worst = 0.0

    def outputs(self, model, pixels):
        exported = os.path.join(self.folder, "exported.onnx")
        run(self.ckn, "export", model, "--onnx", exported)
        return onnx_runtime.run(exported, onnx_runtime.as_input(pixels))

    def encoded(self, model, paths):
        features = os.path.join(self.folder, "features.npy")
        run(self.ckn, "encode", model, "--images", *paths, "--out", features)
        return np.load(features)

    def near(self, what, got, expected):
        error = onnx_runtime.relative_error(got, expected)
        print(f"{what}: {error:.1e}")
        assert error < TOLERANCE, f"{what}: relative difference {error:.2e}, expected less than {TOLERANCE}"
        self.worst = max(self.worst, error)


def check_kinds(check, write_model_kinds):
    folder = os.path.join(check.folder, "kinds")
    os.mkdir(folder)
    run(write_model_kinds, folder)
    models = sorted(glob.glob(os.path.join(folder, "*.ckn")))
    assert len(models) >= 10, models
    calibrated = 0
    for model in models:
        path = model[: -len(".ckn")]
        name = os.path.basename(path)
        pixels = np.load(path + ".pixels.npy")
        outputs = check.outputs(model, pixels)
        paths = [f"{path}-{i}.pnm" for i in range(len(pixels))]
        check.near(f"{name}, features", outputs["features"], check.encoded(model, paths))
        check.near(f"{name}, scores", outputs["scores"], np.load(path + ".scores.npy"))
        has_probabilities = os.path.exists(path + ".probabilities.npy")
        assert has_probabilities == ("probabilities" in outputs), name
        if has_probabilities:
            calibrated += 1
            check.near(f"{name}, probabilities", outputs["probabilities"], np.load(path + ".probabilities.npy"))
    assert calibrated >= 2
    return len(models)


def check_mnist(check, source):
    """The trained model on real digits: also the labels."""
    model = os.path.join(source, "models", "mnist.ckn")
    files = sorted(glob.glob(os.path.join(source, "tests", "data", "mnist", "*.png")))
    assert len(files) >= 10, files
    data = os.path.join(check.folder, "digits")
    for file in files:
        label = os.path.basename(file).split("_")[0]
        os.makedirs(os.path.join(data, "test", label), exist_ok=True)
        shutil.copy(file, os.path.join(data, "test", label))
    predictions = os.path.join(check.folder, "predictions.csv")
    run(check.ckn, "evaluate", model, "--data", f"images:{data}", "--predictions", predictions)
    with open(predictions, newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(files), (rows, files)
    paths = [os.path.join(data, "test", row["file"]) if not os.path.isabs(row["file"]) else row["file"] for row in rows]
    pixels = np.stack([np.rint(255 * matplotlib.image.imread(path)) for path in paths])[..., None]
    outputs = check.outputs(model, pixels)
    check.near("mnist.ckn, features", outputs["features"], check.encoded(model, paths))
    labels = outputs["scores"].argmax(axis=1).tolist()
    assert labels == [int(row["predicted"]) for row in rows], (labels, rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ckn", required=True, help="the ckn binary")
    parser.add_argument("--write-model-kinds", required=True, help="the write_model_kinds binary")
    parser.add_argument("--source", required=True, help="root of the source tree")
    arguments = parser.parse_args()
    reason = onnx_runtime.missing()
    if reason is not None:
        skip(reason)
    with tempfile.TemporaryDirectory(prefix="ckn_test_") as folder:
        check = Check(arguments.ckn, folder)
        count = check_kinds(check, arguments.write_model_kinds)
        check_mnist(check, arguments.source)
    print(f"{count} kinds of models and mnist.ckn: largest relative difference {check.worst:.1e}")


if __name__ == "__main__":
    main()
