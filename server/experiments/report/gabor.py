"""Figure 3: how many of the filters that `ckn reproduce gabor` learned are Gabor-like.

A filter is Gabor-like when one Gabor function

    A exp(-(u^2 / (2 a^2) + v^2 / (2 b^2))) cos(2 pi f u + phase),   (u, v) = (x, y) - centre, turned by theta,

fitted by least squares from several starts, explains at least 75 % of its energy (after its mean is subtracted), with
the centre of the envelope inside the patch, and no single pixel has more than half of the energy: a narrow enough
Gabor function fits a lone pixel, too.
"""
import hashlib
import json
import os

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import page
import tables

TITLE = "Gabor-like filters, figure 3"
COMMAND = "./run reproduce gabor"
EXPLAINED = 0.75
MAX_PIXEL = 0.5
CRITERION = (f"one Gabor function, centred in the patch, explains at least {100 * EXPLAINED:.0f} % of the energy, and "
             f"no single pixel has more than {100 * MAX_PIXEL:.0f} % of it")


def gabor(parameters, x, y):
    amplitude, x0, y0, theta, log_a, log_b, frequency, phase = parameters
    u = (x - x0) * np.cos(theta) + (y - y0) * np.sin(theta)
    v = -(x - x0) * np.sin(theta) + (y - y0) * np.cos(theta)
    envelope = np.exp(-u**2 / (2 * np.exp(2 * log_a)) - v**2 / (2 * np.exp(2 * log_b)))
    return amplitude * envelope * np.cos(2 * np.pi * frequency * u + phase)


def starting_points(patch):
    """Parameters to start from: the strongest frequencies, two centres, widths and phases."""
    side = patch.shape[0]
    y, x = np.mgrid[0:side, 0:side]
    weight = patch**2 / np.sum(patch**2)
    peak = np.unravel_index(np.argmax(np.abs(patch)), patch.shape)[::-1]
    centres = [(np.sum(weight * x), np.sum(weight * y)), peak]
    size = 4 * side  # a grid finer than the patch's own
    spectrum = np.abs(np.fft.fft2(patch, (size, size)))
    frequencies = np.fft.fftfreq(size)
    order = np.argsort(spectrum[: size // 2].ravel())[::-1]
    for index in order[[0, 8, 24]]:
        row, column = np.unravel_index(index, (size // 2, size))
        fy, fx = frequencies[row], frequencies[column]
        for centre in centres:
            for width in (1.5, 3.0):
                for phase in (0.0, np.pi / 2):
                    yield [np.abs(patch).max(), *centre, np.arctan2(fy, fx), np.log(width), np.log(width),
                           max(np.hypot(fx, fy), 0.02), phase]


def fit(patch):
    """The part of the patch's energy that the best Gabor function explains; 0 of a constant or a one-pixel patch."""
    side = patch.shape[0]
    patch = patch - patch.mean()
    energy = np.sum(patch**2)
    if np.max(patch**2) > MAX_PIXEL * energy or energy == 0:
        return 0.0
    y, x = np.mgrid[0:side, 0:side].astype(float)
    narrow, wide = np.log(0.5), np.log(2.0 * side)
    lower = np.array([-np.inf, -0.5, -0.5, -np.inf, narrow, narrow, 0, -np.inf])
    upper = np.array([np.inf, side - 0.5, side - 0.5, np.inf, wide, wide, 0.5, np.inf])
    best = 0.0
    for start in starting_points(patch):
        start = np.clip(start, lower + 1e-3, upper - 1e-3)
        result = least_squares(lambda p: (gabor(p, x, y) - patch).ravel(), start, bounds=(lower, upper), max_nfev=60)
        best = max(best, 1 - 2 * result.cost / energy)
        if best > 0.9:
            break
    return float(best)


class Gabor:
    """The filters, figure3.json, and gabor.json with the fits: made anew when the filters or the criterion changed."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "figure3.json"), encoding="utf-8") as file:
            self.run = json.load(file)
        path = os.path.join(folder, "filters.npy")
        self.filters = np.load(path)
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        self.explained = self.kept_fits(digest)
        if self.explained is None:
            self.explained = [round(fit(patch.astype(float)), 4) for patch in self.filters]
            self.keep_fits(digest)
            draw_filters(self.filters, self.explained, self.picture())

    def kept_fits(self, digest):
        path = os.path.join(self.folder, "gabor.json")
        if not (os.path.exists(path) and os.path.exists(self.picture())):
            return None
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
        known = kept.get("criterion") == CRITERION and kept.get("filters_sha256") == digest
        return kept["explained"] if known else None

    def keep_fits(self, digest):
        kept = {"criterion": CRITERION, "gabor_like": self.count(), "filters": len(self.filters),
                "filters_sha256": digest, "explained": self.explained}
        with open(os.path.join(self.folder, "gabor.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(kept) + "\n")

    def picture(self):
        return os.path.join(self.folder, "filters.png")

    def count(self):
        return sum(value >= EXPLAINED for value in self.explained)

    def sentence(self):
        return f"{self.count()} of {len(self.filters)} filters are Gabor-like: {CRITERION}."


def load(folder):
    """None when nothing was run to its end."""
    complete = all(os.path.exists(os.path.join(folder, name)) for name in ("figure3.json", "filters.npy"))
    return Gabor(folder) if complete else None


def draw_filters(filters, explained, path):
    columns = 16
    rows = -(-len(filters) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(columns * 0.55, rows * 0.55), squeeze=False)
    for axis in axes.flat[len(filters):]:
        axis.axis("off")
    for axis, patch, value in zip(axes.flat, filters, explained):
        limit = np.abs(patch).max()
        axis.imshow(patch, cmap="gray", vmin=-limit, vmax=limit)
        axis.set_xticks([])
        axis.set_yticks([])
        for spine in axis.spines.values():
            spine.set(visible=True, linewidth=1.5, color="#009e73" if value >= EXPLAINED else "#d55e00")
    figure.subplots_adjust(0.01, 0.01, 0.99, 0.99, 0.08, 0.08)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def run_table(results):
    run = results.run
    rows = [["photographs", f"{run['photographs']}"],
            ["patches", f"{run['patch_size']}x{run['patch_size']}, whitened, {run['components']} principal components"],
            ["least standard deviation of a patch's pixels, in [0, 1]", f"{run['min_contrast']:g}"],
            ["pairs of patches", f"{run['pairs']:,}"], ["sigma", f"{run['sigma']:.4f}"],
            ["iterations of L-BFGS-B", f"{run['iterations']:,}"],
            ["objective, first → last", f"{run['objective_start']:.4e} → {run['objective']:.4e}"],
            ["objective on unseen pairs", f"{run['held_out_objective']:.4e}"],
            ["seconds", f"{run['seconds']:.0f}"], ["CPU seconds", f"{run['cpu_seconds']:.0f}"],
            ["run by", f"{run['cpu']}, {run['threads']} threads, {run['simd']}, ckn {run['program_version']}"]]
    return ["", "value"], rows


def markdown(results):
    return [results.sentence(), "", *tables.markdown_table(*run_table(results))]


def explained_plot(results):
    figure, axis = plt.subplots(figsize=(7, 3))
    axis.hist(results.explained, bins=np.linspace(0, 1, 41), color="#0072b2")
    axis.axvline(EXPLAINED, color="#d55e00", linestyle="--")
    axis.set_xlabel("part of a filter's energy that one Gabor function explains")
    axis.set_ylabel("filters")
    return page.svg(figure, "how well Gabor functions fit the filters")


def objective_plot(results):
    if not results.run["curve"]:
        return ""
    figure, axis = plt.subplots(figsize=(7, 4))
    page.plot_objective(axis, results.run["curve"], "-", color="#0072b2")
    return page.svg(figure, "objective against iterations")


def html(results, data=None, ckn=None):
    parts = [
        page.paragraph(results.sentence()),
        page.image_file(results.picture(),
                        "The filters, largest eta first, in the whitened space. Green frame: Gabor-like."),
        page.section("How well Gabor functions fit", explained_plot(results)),
        page.section("Learning the filters", objective_plot(results)),
        page.section("The run", tables.html_table(*run_table(results))),
    ]
    return page.document("Gabor-like filters: figure 3 of “Convolutional Kernel Networks”, measured", parts, COMMAND)
