"""ONNX Runtime for the benchmark beside this file and for tests/e2e/onnx_export_test.py.

It comes from npm, into build/onnx_runtime, and runs in Node (run_model.js).
"""

import json
import os
import shutil
import subprocess
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "..", "..", "build", "onnx_runtime")
MODULES = os.path.join(FOLDER, "node_modules")
TIMEOUT = 600  # seconds a call


def missing():
    """Why ONNX Runtime cannot be run here; None when it can."""
    if shutil.which("node") is None:
        return "no node in PATH"
    if not os.path.isdir(os.path.join(MODULES, "onnxruntime-node")):
        return "ONNX Runtime is not in build/onnx_runtime; ./run bench onnx fetches it"
    return None


def fetch():
    """Puts the version of package-lock.json into build/onnx_runtime, unless it is there."""
    lock = os.path.join(HERE, "package-lock.json")
    copy = os.path.join(FOLDER, "package-lock.json")
    if missing() is None and os.path.exists(copy) and open(copy).read() == open(lock).read():
        return
    os.makedirs(FOLDER, exist_ok=True)
    shutil.copy(os.path.join(HERE, "package.json"), FOLDER)
    shutil.copy(lock, copy)
    # The scripts would only fetch what GPUs need.
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", FOLDER]
    try:
        subprocess.run(command, check=True, timeout=TIMEOUT, stdout=subprocess.DEVNULL)
    except BaseException:
        os.remove(copy)  # what is there is not complete
        raise


def _node(*arguments):
    command = ["node", os.path.join(HERE, "run_model.js"), *map(str, arguments)]
    environment = {**os.environ, "NODE_PATH": MODULES}
    finished = subprocess.run(command, env=environment, check=True, timeout=TIMEOUT, stdout=subprocess.PIPE)
    return json.loads(finished.stdout)


def run(model, images):
    """The outputs, by name, for images float32 [N][channels][height][width] in [0, 1]."""
    with tempfile.TemporaryDirectory(prefix="ckn_onnx_") as folder:
        source, out = os.path.join(folder, "in"), os.path.join(folder, "out")
        np.ascontiguousarray(images, np.float32).tofile(source)
        shapes = _node("run", model, source, out, len(images))["outputs"]
        return {name: np.fromfile(f"{out}.{name}", np.float32).reshape(shape) for name, shape in shapes.items()}


def images_per_second(model, batch, threads, seconds):
    """By the median batch of at least five."""
    return _node("time", model, batch, threads, seconds)["images_per_second"]


def as_input(pixels):
    """Bytes [N][height][width][channels] as the graph takes them."""
    return np.transpose(np.asarray(pixels, np.float32) / 255, (0, 3, 1, 2))


def relative_error(got, expected):
    """Largest difference, by how far the expected rows lie apart: a mean that is the same for all hides nothing."""
    assert got.shape == expected.shape, (got.shape, expected.shape)
    assert np.isfinite(got).all()
    spread = np.abs(expected - expected.mean(axis=0)).max()
    assert spread > 1e-3 * np.abs(expected).max(), "the rows are all alike: nothing to compare"
    return np.abs(got - expected).max() / spread
