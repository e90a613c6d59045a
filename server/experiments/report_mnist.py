#!/usr/bin/python3
"""Table 1 as measured: RESULTS/report.html and a Markdown table, from the cells that `ckn reproduce mnist` wrote.

usage: report_mnist.py RESULTS --markdown FILE [--data FOLDER] [--ckn PROGRAM]
"""
import argparse
import base64
import collections
import glob
import gzip
import html
import io
import json
import os
import statistics
import subprocess
import tempfile

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

SIZES = [300, 1000, 2000, 5000, 10000, 20000, 40000, 60000]
ARCHITECTURES = ["ckn-gm1", "ckn-gm2", "ckn-pm1", "ckn-pm2"]
# Test error in % as printed in the paper's table 1.
PAPER = {
    "ckn-gm1": [4.39, 2.60, 1.85, 1.41, 1.17, 0.89, 0.68, 0.58],
    "ckn-gm2": [4.24, 2.05, 1.51, 1.21, 0.88, 0.60, 0.51, 0.39],
    "ckn-pm1": [5.98, 3.23, 1.97, 1.41, 1.18, 0.83, 0.64, 0.63],
    "ckn-pm2": [4.15, 2.76, 2.28, 1.56, 1.10, 0.77, 0.58, 0.53],
}
PAPER_OTHERS = {
    "CNN": [7.18, 3.21, 2.53, 1.52, 0.85, 0.76, 0.65, 0.53],
    "Scat-1": [4.7, 2.3, 1.3, 1.03, 0.88, 0.79, 0.74, 0.70],
    "Scat-2": [5.6, 2.6, 1.8, 1.4, 1.0, 0.58, 0.53, 0.4],
}
COLOURS = {"ckn-gm1": "#0072b2", "ckn-gm2": "#d55e00", "ckn-pm1": "#009e73", "ckn-pm2": "#cc79a7"}


def size_name(size):
    return f"{size // 1000}K" if size >= 1000 else str(size)


def allowed(paper):
    """What counts as reproduced: the paper's figure + 0.2 points or + 15 % of it, whichever is larger."""
    return paper + max(0.2, 0.15 * paper)


class Results:
    """The cells of a results folder."""

    def __init__(self, folder):
        self.folder = folder
        self.cells = [json.load(open(path)) for path in sorted(glob.glob(os.path.join(folder, "cells", "*.json")))]
        self.layers = [json.load(open(path)) for path in sorted(glob.glob(os.path.join(folder, "layers", "*.json")))]
        self.errors = collections.defaultdict(list)
        for cell in self.cells:
            self.errors[cell["architecture"], cell["train_size"]].append(cell["test_error_percent"])

    def cell(self, architecture, size, seed=1):
        for cell in self.cells:
            if (cell["architecture"], cell["train_size"], cell["seed"]) == (architecture, size, seed):
                return cell
        return None

    def best(self):
        full = [cell for cell in self.cells if cell["train_size"] == 60000]
        return min(full, key=lambda cell: cell["test_errors"], default=None)


def mean_and_deviation(errors):
    deviation = statistics.stdev(errors) if len(errors) > 1 else None
    return statistics.fmean(errors), deviation


def markdown(results, command):
    lines = ["# Results", "", "Written by the commands it names; not edited by hand.", "", "## MNIST, table 1", ""]
    lines += ["Test error in %: measured, mean over the seeds (± standard deviation, number of seeds when there are", "several); the paper's figure; the difference.", ""]
    lines += ["| images | " + " | ".join(name.upper() for name in ARCHITECTURES) + " |", "|---|" + "---|" * len(ARCHITECTURES)]
    within = total = 0
    for row, size in enumerate(SIZES):
        fields = []
        for name in ARCHITECTURES:
            errors, paper = results.errors.get((name, size)), PAPER[name][row]
            if not errors:
                fields.append(f"– ; {paper:.2f}")
                continue
            mean, deviation = mean_and_deviation(errors)
            total += 1
            within += round(mean, 4) <= allowed(paper)
            spread = f" ± {deviation:.2f} ({len(errors)})" if deviation is not None else ""
            fields.append(f"**{mean:.2f}**{spread}; {paper:.2f}; {mean - paper:+.2f}")
        lines.append(f"| {size_name(size)} | " + " | ".join(fields) + " |")
    missing = len(SIZES) * len(ARCHITECTURES) - total
    lines += ["", f"{within} of {total} cells are no worse than the paper's figure + 0.2 points or + 15 %, whichever is larger" + (f"; {missing} are still to be done." if missing else ".")]
    best = results.best()
    if best:
        lines += [f"Best on 60,000 images: {best['test_error_percent']:.2f} % ({best['architecture'].upper()}, seed {best['seed']}; the paper's best: 0.39 %)."]
    lines += ["", "Filters are learned once an architecture and seed, on all 60,000 training images without their labels; subsets are", "drawn balanced by the seed. C is chosen out of 2^-15 … 2^15, by 5-fold cross-validation below 20,000 images and on", "10,000 held-out training images from there on.", ""]
    lines += ["| | seconds | CPU seconds | peak memory | learned on |", "|---|---|---|---|---|"]
    for layer in results.layers:
        lines.append(f"| {layer['architecture']} seed {layer['seed']}: filters | {layer['seconds']:.0f} | {layer['cpu_seconds']:.0f} | | {layer['cpu']}, {layer['threads']} threads, {layer['simd']} |")
    for name in ARCHITECTURES:
        for size in SIZES:
            for cell in (c for c in results.cells if c["architecture"] == name and c["train_size"] == size):
                lines.append(f"| {name} {size_name(size)} seed {cell['seed']} | {cell['seconds']:.0f} | {cell['cpu_seconds']:.0f} | {cell['peak_mib']:.0f} MiB | {cell['cpu']}, {cell['threads']} threads, {cell['simd']} |")
    lines += ["", f"Command: `{command}`. The report with plots: `models/results/mnist/report.html`.", ""]
    return "\n".join(lines)


def svg(figure):
    stream = io.StringIO()
    figure.savefig(stream, format="svg", bbox_inches="tight", transparent=True)
    plt.close(figure)
    text = stream.getvalue()
    return text[text.index("<svg"):]


def error_plot(results):
    figure, axes = plt.subplots(1, 4, figsize=(15, 4), sharey=True)
    styles = {"CNN": ":", "Scat-1": "--", "Scat-2": "-."}
    for axis, name in zip(axes, ARCHITECTURES):
        for other, errors in PAPER_OTHERS.items():
            axis.plot(SIZES, errors, styles[other], color="#999999", linewidth=1, label=f"{other} (paper)")
        axis.plot(SIZES, PAPER[name], "o-", color="#555555", markersize=4, linewidth=1, label="paper")
        points = [(size, *mean_and_deviation(results.errors[name, size])) for size in SIZES if (name, size) in results.errors]
        if points:
            axis.errorbar([p[0] for p in points], [p[1] for p in points], yerr=[p[2] or 0 for p in points], fmt="s-",
                          color=COLOURS[name], markersize=5, capsize=3, label="measured")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(SIZES, [size_name(s) for s in SIZES], fontsize=8)
        axis.set_yticks([0.4, 0.5, 0.7, 1, 2, 3, 5, 7], ["0.4", "0.5", "0.7", "1", "2", "3", "5", "7"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.set_title(name.upper())
        axis.set_xlabel("training images")
        axis.legend(fontsize=7)
    axes[0].set_ylabel("test error, %")
    return svg(figure)


def objective_plot(results):
    figure, axis = plt.subplots(figsize=(7, 4))
    for layers in results.layers:
        if layers["seed"] != 1:
            continue
        for layer in layers["layers"]:
            iterations, values = zip(*layer["curve"])
            line = "-" if layer is layers["layers"][-1] else ":"
            axis.plot(iterations, values, line, color=COLOURS[layers["architecture"]],
                      label=f"{layers['architecture'].upper()} layer {layer['layer']}")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.grid(alpha=0.3)
    axis.set_xlabel("iteration of L-BFGS-B")
    axis.set_ylabel("objective of problem (4)")
    axis.legend(fontsize=8)
    return svg(figure)


def confusion_plot(cell):
    matrix = np.array(cell["confusion"])
    shown = matrix.astype(float)
    np.fill_diagonal(shown, np.nan)
    figure, axis = plt.subplots(figsize=(4.2, 4.2))
    axis.imshow(shown, cmap="Oranges", vmin=0)
    for (row, column), count in np.ndenumerate(matrix):
        if row == column or count:
            axis.text(column, row, count, ha="center", va="center", fontsize=7, color="#888888" if row == column else "#000000")
    axis.set_xticks(range(len(matrix)))
    axis.set_yticks(range(len(matrix)))
    axis.set_xlabel("predicted")
    axis.set_ylabel("true")
    axis.set_title(f"{cell['architecture'].upper()}, {cell['test_errors']} errors", fontsize=10)
    return svg(figure)


def read_idx_images(folder):
    for name in ("t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"):
        for suffix, opener in (("", open), (".gz", gzip.open)):
            path = os.path.join(folder, name + suffix)
            if os.path.exists(path):
                with opener(path, "rb") as file:
                    raw = file.read()
                count, height, width = (int.from_bytes(raw[4 * i:4 * i + 4], "big") for i in (1, 2, 3))
                return np.frombuffer(raw, np.uint8, offset=16).reshape(count, height, width)
    return None


def misclassified_plot(cell, images):
    wrong = cell["misclassified"]
    columns = 12
    rows = max(1, -(-len(wrong) // columns))
    figure, axes = plt.subplots(rows, columns, figsize=(columns * 1.0, rows * 1.25), squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, (index, label, predicted) in zip(axes.flat, wrong):
        axis.imshow(images[index], cmap="gray_r")
        axis.set_title(f"{label} → {predicted}", fontsize=8)
    return svg(figure)


def filter_picture(program, folder, name):
    model = os.path.join(folder, "cache", f"{name}-60000-seed1.ckn")
    if not program or not os.path.exists(model):
        return ""
    with tempfile.TemporaryDirectory() as work:
        picture = os.path.join(work, "filters.png")
        subprocess.run([program, "inspect", model, "--filters", picture], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        encoded = base64.b64encode(open(picture, "rb").read()).decode()
    return (f'<figure><img alt="filters of {name}" src="data:image/png;base64,{encoded}">'
            f"<figcaption>{name.upper()}, first learned layer, largest eta first</figcaption></figure>")


def error_table(results):
    rows = ["<tr><th>images</th>" + "".join(f"<th>{name.upper()}</th>" for name in ARCHITECTURES) +
            "".join(f"<th class=other>{name}</th>" for name in PAPER_OTHERS) + "</tr>"]
    for row, size in enumerate(SIZES):
        fields = []
        for name in ARCHITECTURES:
            errors, paper = results.errors.get((name, size)), PAPER[name][row]
            if not errors:
                fields.append(f"<td>–<small>paper {paper:.2f}</small></td>")
                continue
            mean, deviation = mean_and_deviation(errors)
            kind = "better" if mean <= paper else "near" if mean <= allowed(paper) else "worse"
            spread = f" ± {deviation:.2f}" if deviation is not None else ""
            fields.append(f"<td class={kind}>{mean:.2f}{spread}<small>paper {paper:.2f}</small></td>")
        others = "".join(f"<td class=other>{PAPER_OTHERS[name][row]:g}</td>" for name in PAPER_OTHERS)
        rows.append(f"<tr><th>{size_name(size)}</th>{''.join(fields)}{others}</tr>")
    return "<table>" + "\n".join(rows) + "</table>"


def cost_table(results):
    rows = ["<tr><th>cell</th><th>test error</th><th>C</th><th>seconds</th><th>CPU seconds</th><th>peak MiB</th></tr>"]
    for name in ARCHITECTURES:
        for size in SIZES:
            for cell in (c for c in results.cells if c["architecture"] == name and c["train_size"] == size):
                rows.append(f"<tr><th>{name.upper()} {size_name(size)}, seed {cell['seed']}</th><td>{cell['test_error_percent']:.2f} %</td>"
                            f"<td>2<sup>{np.log2(cell['svm_c']):.0f}</sup></td><td>{cell['seconds']:.0f}</td>"
                            f"<td>{cell['cpu_seconds']:.0f}</td><td>{cell['peak_mib']:.0f}</td></tr>")
    return "<table>" + "\n".join(rows) + "</table>"


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff; }
h1, h2 { line-height: 1.2; font-weight: 600; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } th { font-weight: 600; text-align: left; }
th, td { padding: .3rem .9rem; border-bottom: 1px solid #ddd; } td { text-align: right; }
td small { display: block; color: #777; } .better { background: #d9efe0; } .near { background: #f6f6e6; } .worse { background: #f7dcd3; }
.other { color: #777; } .row { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start; } svg { max-width: 100%; height: auto; }
figure { margin: 0; } figure img { image-rendering: pixelated; max-width: 34rem; } figcaption { color: #777; font-size: .9rem; }
"""


def report(results, arguments):
    full = [cell for name in ARCHITECTURES if (cell := results.cell(name, 60000))]
    best = results.best()
    images = read_idx_images(arguments.data) if arguments.data else None
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>MNIST, table 1</title><style>{STYLE}</style>",
             "<h1>MNIST: table 1 of “Convolutional Kernel Networks”, measured</h1>",
             "<p>Test error in %, without data augmentation. Green: no worse than the paper; yellow: within 0.2 points or 15 % of it; "
             "red: worse. ± is the standard deviation over seeds (subsets and learning).</p>", error_table(results),
             "<h2>Error against training size</h2>", error_plot(results)]
    if results.layers:
        parts += ["<h2>Learning the filters</h2>", objective_plot(results)]
    pictures = [filter_picture(arguments.ckn, results.folder, name) for name in ARCHITECTURES]
    if any(pictures):
        parts += ["<h2>Filters</h2><div class=row>", *pictures, "</div>"]
    if full:
        parts += ["<h2>Confusion, 60,000 training images</h2><div class=row>", *map(confusion_plot, full), "</div>"]
    if best and images is not None:
        parts += [f"<h2>All {best['test_errors']} digits that {best['architecture'].upper()} (seed {best['seed']}) gets wrong</h2>",
                  misclassified_plot(best, images)]
    machines = sorted({f"{html.escape(c['cpu'])}, {c['threads']} threads, {c['simd']}, ckn {c['program_version']}" for c in results.cells})
    parts += ["<h2>Time and memory</h2>", f"<p>{'; '.join(machines)}. Without learning and encoding, which the cells of an architecture share.</p>",
              cost_table(results), f"<p><code>{html.escape(arguments.command)}</code></p></html>"]
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("--markdown", required=True)
    parser.add_argument("--data", help="folder of MNIST, for the pictures of misclassified digits")
    parser.add_argument("--ckn", help="the ckn program, for the pictures of filters")
    parser.add_argument("--command", default="./run reproduce mnist")
    arguments = parser.parse_args()
    # The same results give the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "ckn", "svg.fonttype": "none", "font.family": "sans-serif", "axes.spines.top": False, "axes.spines.right": False})
    results = Results(arguments.results)
    with open(os.path.join(arguments.results, "report.html"), "w", encoding="utf-8") as file:
        file.write(report(results, arguments))
    with open(arguments.markdown, "w", encoding="utf-8") as file:
        file.write(markdown(results, arguments.command))


if __name__ == "__main__":
    main()
