"""ONNX Runtime for the benchmark beside this file and for tests/e2e/onnx_export_test.py.

It comes from npm, into build/onnx_runtime, and runs in Node (run_model.js).
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "testing"))
from npm_packages import NpmPackages  # noqa: E402, from the folder above

PACKAGES = NpmPackages(HERE, "onnx_runtime")
MODULES = PACKAGES.modules
TIMEOUT = 600  # seconds a call


def missing():
    """Why ONNX Runtime cannot be run here; None when it can."""
    reason = PACKAGES.missing()
    return reason and f"{reason}; ./run fetch gets it"


def fetch():
    """Puts the version of package-lock.json into build/onnx_runtime, unless it is there."""
    PACKAGES.fetch()


def _node(*arguments):
    command = ["node", os.path.join(HERE, "run_model.js"), *map(str, arguments)]
    finished = subprocess.run(command, env=PACKAGES.environment(), check=True, timeout=TIMEOUT, stdout=subprocess.PIPE)
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
