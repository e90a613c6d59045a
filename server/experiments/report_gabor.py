#!/usr/bin/python3
"""Figure 3 as measured: how many of the filters that `ckn reproduce gabor` learned are Gabor-like, and their picture.

usage: report_gabor.py RESULTS

Criterion: a filter is Gabor-like when one Gabor function

    A exp(-(u^2 / (2 a^2) + v^2 / (2 b^2))) cos(2 pi f u + phase),   (u, v) = (x, y) - centre, turned by theta,

fitted by least squares from several starts, explains at least 75 % of its energy (after its mean is subtracted), with
the centre of the envelope inside the patch. Writes RESULTS/gabor.json and RESULTS/filters.png.
"""
import argparse
import json
import os

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from scipy.optimize import least_squares  # noqa: E402

EXPLAINED = 0.75


def gabor(parameters, x, y):
    amplitude, x0, y0, theta, log_a, log_b, frequency, phase = parameters
    u = (x - x0) * np.cos(theta) + (y - y0) * np.sin(theta)
    v = -(x - x0) * np.sin(theta) + (y - y0) * np.cos(theta)
    envelope = np.exp(-u**2 / (2 * np.exp(2 * log_a)) - v**2 / (2 * np.exp(2 * log_b)))
    return amplitude * envelope * np.cos(2 * np.pi * frequency * u + phase)


def fit(patch):
    """The part of the patch's energy that the best Gabor function explains, and its parameters."""
    side = patch.shape[0]
    patch = patch - patch.mean()
    energy = np.sum(patch**2)
    y, x = np.mgrid[0:side, 0:side].astype(float)
    weight = patch**2 / energy
    centres = [(np.sum(weight * x), np.sum(weight * y)), np.unravel_index(np.argmax(np.abs(patch)), patch.shape)[::-1]]
    # The strongest frequencies, on a grid finer than the patch's own.
    size = 4 * side
    spectrum = np.abs(np.fft.fft2(patch, (size, size)))
    frequencies = np.fft.fftfreq(size)
    starts = []
    order = np.argsort(spectrum[: size // 2].ravel())[::-1]
    for index in order[[0, 8, 24]]:
        row, column = np.unravel_index(index, (size // 2, size))
        fy, fx = frequencies[row], frequencies[column]
        for centre in centres:
            for width in (1.5, 3.0):
                for phase in (0.0, np.pi / 2):
                    starts.append([np.abs(patch).max(), *centre, np.arctan2(fy, fx), np.log(width), np.log(width),
                                   max(np.hypot(fx, fy), 0.02), phase])
    lower = [-np.inf, -0.5, -0.5, -np.inf, np.log(0.5), np.log(0.5), 0, -np.inf]
    upper = [np.inf, side - 0.5, side - 0.5, np.inf, np.log(2.0 * side), np.log(2.0 * side), 0.5, np.inf]
    best, best_parameters = -1.0, None
    for start in starts:
        start = np.clip(start, np.array(lower) + 1e-3, np.array(upper) - 1e-3)
        result = least_squares(lambda p: (gabor(p, x, y) - patch).ravel(), start, bounds=(lower, upper), max_nfev=60)
        explained = 1 - 2 * result.cost / energy
        if explained > best:
            best, best_parameters = explained, result.x
        if best > 0.9:
            break
    return best, best_parameters


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    folder = parser.parse_args().results
    filters = np.load(os.path.join(folder, "filters.npy"))
    explained = [fit(patch.astype(float))[0] for patch in filters]
    count = int(sum(value >= EXPLAINED for value in explained))
    summary = {"criterion": f"one Gabor function explains at least {EXPLAINED:.0%} of the energy", "gabor_like": count,
               "filters": len(filters), "explained": [round(float(value), 4) for value in explained]}
    with open(os.path.join(folder, "gabor.json"), "w") as file:
        file.write(json.dumps(summary) + "\n")
    columns = 16
    rows = -(-len(filters) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(columns * 0.55, rows * 0.55))
    for axis, patch, value in zip(axes.flat, filters, explained):
        limit = np.abs(patch).max()
        axis.imshow(patch, cmap="gray", vmin=-limit, vmax=limit)
        axis.set_xticks([])
        axis.set_yticks([])
        for spine in axis.spines.values():
            spine.set_color("#009e73" if value >= EXPLAINED else "#d55e00")
    figure.subplots_adjust(0.01, 0.01, 0.99, 0.99, 0.08, 0.08)
    figure.savefig(os.path.join(folder, "filters.png"), dpi=110)
    print(f"{count} of {len(filters)} filters are Gabor-like: one Gabor function explains at least {EXPLAINED:.0%} of the energy")


if __name__ == "__main__":
    main()
