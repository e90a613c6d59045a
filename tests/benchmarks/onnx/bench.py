#!/usr/bin/python3
"""Encoding: ckn beside ONNX Runtime on the same networks, exported by `ckn export`, one after the other, in rounds;
with --pytorch beside PyTorch, too (pytorch.py).

usage: bench.py CKN WRITE_RANDOM_MODEL [--pytorch] [--arch NAME ...] [--batch N] [--threads N ...] [--rounds N]
                [--seconds X] [--json FILE]

Prints medians over the rounds, and those of the ratios. The filters are random, which costs what learned ones do; that
all give the same features is checked before anything is measured. ckn's time includes the way from bytes to the input map;
ONNX Runtime's the standardisation and the scores of ten classes, less than a hundredth of the work; PyTorch's the
standardisation. Of several threads,
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

HERE = os.path.dirname(os.path.abspath(__file__))
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


def pytorch(*arguments):
    return run(sys.executable, "-B", os.path.join(HERE, "pytorch.py"), *arguments)


def difference(arguments, model, exported, folder):
    """Largest relative difference of the features; fails when it is not small."""
    ckn = arguments.ckn
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
    images, expected = onnx_runtime.as_input(pixels), np.load(features)
    others = {"ONNX Runtime": onnx_runtime.run(exported, images)["features"]}
    if arguments.pytorch:
        source, out = os.path.join(folder, "images.npy"), os.path.join(folder, "pytorch.npy")
        np.save(source, np.ascontiguousarray(images, np.float32))
        pytorch("run", exported, source, out)
        others["PyTorch"] = np.load(out)
    errors = []
    for name, got in others.items():
        errors.append(float(onnx_runtime.relative_error(got, expected)))
        if not errors[-1] < TOLERANCE:
            sys.exit(f"bench.py: {model}: {name}: features differ by {errors[-1]:.2e}, expected less than {TOLERANCE}")
    return max(errors)


def measure(arguments, model, exported, threads):
    ours, theirs = [], {"onnx_runtime": []}
    if arguments.pytorch:
        theirs["pytorch"] = []
    for _ in range(arguments.rounds):
        report = run(arguments.ckn, "bench", model, "--batch", arguments.batch, "--threads", threads, "--seconds",
                     arguments.seconds, "--json")
        ours.append(json.loads(report)["rows"][0]["images_per_second"])
        theirs["onnx_runtime"].append(
            onnx_runtime.images_per_second(exported, arguments.batch, threads, arguments.seconds))
        if arguments.pytorch:
            report = pytorch("time", exported, arguments.batch, threads, arguments.seconds)
            theirs["pytorch"].append(json.loads(report)["images_per_second"])
    row = {"batch": arguments.batch, "threads": threads, "ckn": statistics.median(ours)}
    for name, rates in theirs.items():
        # Neighbours in time share whatever else the machine does: their ratio is steadier than that of the medians.
        ratios = [a / b for a, b in zip(ours, rates)]
        row[name] = {"images_per_second": statistics.median(rates), "ratio": statistics.median(ratios),
                     "ratio_min": min(ratios), "ratio_max": max(ratios)}
    return row


def columns(other):
    spread = f"{other['ratio_min']:.2f} to {other['ratio_max']:.2f}"
    return f"{other['images_per_second']:>13.0f} {other['ratio']:>6.2f} {spread:>14}"


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ckn", help="the ckn binary")
    parser.add_argument("write_random_model", help="the write_random_model binary")
    parser.add_argument("--pytorch", action="store_true", help="time PyTorch, too")
    parser.add_argument("--arch", nargs="+", choices=ARCHITECTURES, default=ARCHITECTURES, metavar="NAME",
                        help=f"of {', '.join(ARCHITECTURES)}; default: all")
    parser.add_argument("--batch", type=positive, default=32, help="images at a time; default: 32")
    parser.add_argument("--threads", type=positive, nargs="+", default=[1, 2], help="default: 1 and 2")
    parser.add_argument("--rounds", type=positive, default=5, help="default: 5")
    parser.add_argument("--seconds", type=float, default=1, help="time of one measurement; default: 1")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    if not 0 < arguments.seconds <= TIMEOUT / 4:
        parser.error(f"--seconds: got {arguments.seconds}, expected more than 0 and at most {TIMEOUT // 4}")

    onnx_runtime.fetch()
    rows = []
    names = {"onnx_runtime": "ONNX Runtime"}
    if arguments.pytorch:
        names["pytorch"] = "PyTorch"
    heads = " ".join(f"{name:>13} {'ratio':>6} {'least to most':>14}" for name in names.values())
    print(f"images a second, batches of {arguments.batch}, medians of {arguments.rounds} rounds\n"
          f"{'network':<16} {'threads':>7} {'ckn':>9} {heads} {'difference':>11}")
    with tempfile.TemporaryDirectory(prefix="ckn_bench_") as folder:
        for name in arguments.arch:
            model, exported = (os.path.join(folder, f"{name}.{kind}") for kind in ("ckn", "onnx"))
            run(arguments.write_random_model, name, model)
            quiet(arguments.ckn, "export", model, "--onnx", exported)
            error = difference(arguments, model, exported, folder)
            for threads in arguments.threads:
                row = {"network": name, **measure(arguments, model, exported, threads), "difference": error}
                rows.append(row)
                others = " ".join(columns(row[other]) for other in names)
                print(f"{name:<16} {threads:>7} {row['ckn']:>9.0f} {others} {error:>11.1e}", flush=True)
    if arguments.json:
        version = json.load(open(os.path.join(onnx_runtime.MODULES, "onnxruntime-node", "package.json")))["version"]
        with open(arguments.json, "w") as file:
            json.dump({"onnx_runtime_version": version, "rounds": arguments.rounds, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
