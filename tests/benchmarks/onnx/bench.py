#!/usr/bin/python3
"""Encoding: ckn beside ONNX Runtime on the same networks, exported by `ckn export`, one after the other, in rounds.

usage: bench.py CKN WRITE_RANDOM_MODEL [--arch NAME ...] [--batch N] [--threads N ...] [--rounds N] [--seconds X]
                [--json FILE]

Prints medians over the rounds, and their ratio. The filters are random, which costs what learned ones do; that both
give the same features is checked before anything is measured. ckn's time includes the way from bytes to the input map;
ONNX Runtime's the standardisation and the scores of ten classes, less than a hundredth of the work. Of several threads,
ONNX Runtime's way to wait for work is the one that is faster in that round (run_model.js).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx_runtime

ARCHITECTURES = ["ckn-gm1", "ckn-gm2", "ckn-pm1", "ckn-pm2", "ckn-gm-cifar10", "ckn-pm-cifar10"]
TOLERANCE = 1e-4
CHECKED_IMAGES = 8
TIMEOUT = 600  # seconds a call


def run(*command):
    return subprocess.run(list(map(str, command)), check=True, timeout=TIMEOUT, stdout=subprocess.PIPE, text=True).stdout


def quiet(*command):
    subprocess.run(list(map(str, command)), check=True, timeout=TIMEOUT, stderr=subprocess.DEVNULL)


def test_pixels(height, width, channels):
    """Noise on shades: bytes [N][height][width][channels]."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:height, :width]
    shades = [128 + 90 * np.sin(0.2 * x + 0.1 * i * y + i) for i in range(CHECKED_IMAGES)]
    noise = rng.integers(0, 30, (CHECKED_IMAGES, height, width, channels))
    return np.clip(np.stack(shades)[..., None] + noise, 0, 255).astype(np.uint8)


def difference(ckn, model, exported, folder):
    """Relative difference of the features; fails when it is not small."""
    facts = json.loads(run(ckn, "inspect", model, "--json"))
    size = [facts["input"][key] for key in ("height", "width", "channels")]
    pixels = test_pixels(*size)
    paths = []
    for i, image in enumerate(pixels):
        paths.append(os.path.join(folder, f"{i}.pnm"))
        with open(paths[-1], "wb") as file:
            kind = "P5" if size[2] == 1 else "P6"
            file.write(f"{kind}\n{size[1]} {size[0]}\n255\n".encode() + image.tobytes())
    features = os.path.join(folder, "features.npy")
    quiet(ckn, "encode", model, "--images", *paths, "--out", features)
    got = onnx_runtime.run(exported, onnx_runtime.as_input(pixels))["features"]
    error = onnx_runtime.relative_error(got, np.load(features))
    if not error < TOLERANCE:
        sys.exit(f"bench.py: {model}: features differ by {error:.2e}, expected less than {TOLERANCE}")
    return error


def measure(arguments, model, exported, threads):
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        report = run(arguments.ckn, "bench", model, "--batch", arguments.batch, "--threads", threads, "--seconds",
                     arguments.seconds, "--json")
        ours.append(json.loads(report)["rows"][0]["images_per_second"])
        theirs.append(onnx_runtime.images_per_second(exported, arguments.batch, threads, arguments.seconds))
    # Neighbours in time share whatever else the machine does: their ratio is steadier than that of the medians.
    ratios = [a / b for a, b in zip(ours, theirs)]
    return {"batch": arguments.batch, "threads": threads, "ckn": statistics.median(ours),
            "onnx_runtime": statistics.median(theirs), "ratio": statistics.median(ratios),
            "ratio_min": min(ratios), "ratio_max": max(ratios)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ckn", help="the ckn binary")
    parser.add_argument("write_random_model", help="the write_random_model binary")
    parser.add_argument("--arch", nargs="+", default=ARCHITECTURES)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1, help="time of one measurement")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds: expected at least 1")

    onnx_runtime.fetch()
    rows = []
    print(f"images a second, batches of {arguments.batch}, medians of {arguments.rounds} rounds\n"
          f"{'network':<16} {'threads':>7} {'ckn':>9} {'ONNX Runtime':>13} {'ratio':>6} {'least to most':>14} "
          f"{'difference':>11}")
    with tempfile.TemporaryDirectory(prefix="ckn_bench_") as folder:
        for name in arguments.arch:
            model, exported = (os.path.join(folder, f"{name}.{kind}") for kind in ("ckn", "onnx"))
            run(arguments.write_random_model, name, model)
            quiet(arguments.ckn, "export", model, "--onnx", exported)
            error = difference(arguments.ckn, model, exported, folder)
            for threads in arguments.threads:
                row = {"network": name, **measure(arguments, model, exported, threads), "difference": float(error)}
                rows.append(row)
                spread = f"{row['ratio_min']:.2f} to {row['ratio_max']:.2f}"
                print(f"{name:<16} {threads:>7} {row['ckn']:>9.0f} {row['onnx_runtime']:>13.0f} {row['ratio']:>6.2f} "
                      f"{spread:>14} {error:>11.1e}", flush=True)
    if arguments.json:
        version = json.load(open(os.path.join(onnx_runtime.MODULES, "onnxruntime-node", "package.json")))["version"]
        with open(arguments.json, "w") as file:
            json.dump({"onnx_runtime_version": version, "rounds": arguments.rounds, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
