"""The page of a report: one HTML file that needs no other, with its plots and pictures in it.

The same results give the same bytes.
"""
import base64
import html
import io
import os
import re
import subprocess
import sys
import tempfile

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.ticker import LogLocator  # noqa: E402

from results import cell_name, display_name  # noqa: E402

matplotlib.rcParams.update({"svg.hashsalt": "ckn", "svg.fonttype": "none", "font.family": "sans-serif",
                            "axes.spines.top": False, "axes.spines.right": False})

MAX_PICTURES = 120  # of misclassified images

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #222;
       background: #fff; }
h1, h2 { line-height: 1.2; font-weight: 600; } h2 { margin-top: 2.5rem; } p { max-width: 50rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } th { font-weight: 600; text-align: right; }
th:first-child { text-align: left; } th, td { padding: .3rem .9rem; border-bottom: 1px solid #ddd; }
td { text-align: right; } td small { display: block; color: #666; } .better { background: #d9efe0; }
.near { background: #f6f6e6; } .worse { background: #f7dcd3; } .other { color: #666; }
.row { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start; } svg { max-width: 100%; height: auto; }
figure { margin: 0; } figure img { image-rendering: pixelated; max-width: 100%; }
.row figure { width: 34rem; max-width: 100%; } figcaption { color: #666; font-size: .9rem; }
"""


def document(title, parts, command):
    """A whole page of parts that are HTML already; empty ones are left out."""
    return "\n".join([f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>",
                      f"<style>{STYLE}</style>", f"<h1>{html.escape(title)}</h1>", *(part for part in parts if part),
                      f"<p>Made by <code>{html.escape(command)}</code></p></html>", ""])


def paragraph(text):
    return f"<p>{html.escape(text)}</p>"


def section(title, *parts):
    """Nothing when there is nothing to show."""
    shown = [part for part in parts if part]
    return f"<h2>{html.escape(title)}</h2>\n" + "\n".join(shown) if shown else ""


def row(parts):
    shown = [part for part in parts if part]
    return '<div class=row>' + "\n".join(shown) + "</div>" if shown else ""


def svg(figure, label):
    stream = io.StringIO()
    # Without metadata: they hold the time of day.
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(stream, format="svg", bbox_inches="tight", transparent=True, metadata=metadata)
    plt.close(figure)
    text = stream.getvalue()
    text = re.sub(r"\s+$", "", text[text.index("<svg"):], flags=re.MULTILINE)
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}"', 1)


def image_file(path, caption):
    with open(path, "rb") as file:
        encoded = base64.b64encode(file.read()).decode()
    caption = html.escape(caption)
    return (f'<figure><img alt="{caption}" src="data:image/png;base64,{encoded}">'
            f"<figcaption>{caption}</figcaption></figure>")


def plot_objective(axis, curve, style, **options):
    axis.plot(*zip(*curve), style, **options)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.grid(alpha=0.3)
    axis.set_xlabel("iteration of L-BFGS-B")
    axis.set_ylabel("objective of problem (4)")


def objective_plot(results, colours):
    """How the objective fell, of seed 1. Variants are left out: not all of them minimise it."""
    networks = [network for network in results.layers if network["seed"] == 1 and not network.get("variant")]
    curves = [(network["architecture"], layer["layer"], layer is network["layers"][-1], layer["curve"])
              for network in networks for layer in network["layers"] if layer["curve"]]
    if not curves:
        return ""
    figure, axis = plt.subplots(figsize=(7, 4))
    for architecture, layer, last, curve in curves:
        plot_objective(axis, curve, "-" if last else ":", color=colours.get(architecture, "#555555"),
                       label=f"{display_name(architecture)} layer {layer}")
    axis.legend(fontsize=8)
    return svg(figure, "objective against iterations")


def validation_plot(cells, colours):
    """How C was chosen."""
    if not cells:
        return ""
    figure, axis = plt.subplots(figsize=(7, 4))
    for cell in cells:
        line, = axis.plot(*zip(*cell["validation_curve"]), "o-", markersize=3, linewidth=1,
                          color=colours.get(cell["architecture"]), label=display_name(cell["architecture"]))
        axis.plot(cell["svm_c"], cell["validation_error_percent"], "o", markersize=9, markerfacecolor="none",
                  color=line.get_color())
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    axis.grid(alpha=0.3)
    axis.set_xlabel("C")
    axis.set_ylabel("validation error, %")
    axis.legend(fontsize=8)
    return svg(figure, "validation error against C")


def confusion_plot(title, matrix, classes):
    matrix = np.array(matrix)
    shown = matrix.astype(float)
    np.fill_diagonal(shown, np.nan)
    side = 0.42 * len(matrix)
    figure, axis = plt.subplots(figsize=(side, side))
    axis.imshow(shown, cmap="Oranges", vmin=0, interpolation="none")
    dark = 0.6 * np.nanmax(shown)  # from here on white is easier to read
    for (true, predicted), count in np.ndenumerate(matrix):
        if true == predicted or count:
            colour = "#777777" if true == predicted else "#ffffff" if count > dark else "#000000"
            axis.text(predicted, true, count, ha="center", va="center", fontsize=7, color=colour)
    long_names = max(map(len, classes)) > 2
    axis.set_xticks(range(len(matrix)), classes, rotation=90 if long_names else 0, fontsize=8)
    axis.set_yticks(range(len(matrix)), classes, fontsize=8)
    axis.set_xlabel("predicted")
    axis.set_ylabel("true")
    axis.set_title(title, fontsize=10)
    return svg(figure, f"confusion matrix, {title}")


def misclassified_section(cell, images, classes):
    """The images themselves; nothing without the test set that the cell was counted on."""
    if cell is None or images is None or len(images) != cell["test_count"] or not cell["misclassified"]:
        return ""
    wrong = cell["misclassified"][:MAX_PICTURES]
    errors = cell["test_errors"]
    which = f"All {errors}" if len(wrong) == errors else f"The first {len(wrong)} of {errors:,}"
    fold = f"fold {cell['fold']}, " if "fold" in cell else ""
    title = f"{which} test images that {display_name(cell['architecture'])} ({fold}seed {cell['seed']}) gets wrong"
    columns = 12
    rows = -(-len(wrong) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(columns, 1.35 * rows), squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    arrow = "\n→ " if max(map(len, classes)) > 2 else " → "
    for axis, (index, label, predicted) in zip(axes.flat, wrong):
        axis.imshow(images[index], cmap="gray_r", interpolation="none")
        axis.set_title(f"{classes[label]}{arrow}{classes[predicted]}", fontsize=7)
    return section(title, paragraph("True class → predicted class."), svg(figure, title))


def filter_picture(program, results, architecture):
    """The filters of a model file that the cells left in cache/, drawn by `ckn inspect`."""
    models = [os.path.join(results.folder, "cache", f"{cell_name(cell)}.ckn") for cell in results.cells
              if cell["architecture"] == architecture and not cell.get("variant")]
    models = [model for model in models if os.path.exists(model)]
    if not program or not models:
        return ""
    with tempfile.TemporaryDirectory() as work:
        picture = os.path.join(work, "filters.png")
        done = subprocess.run([program, "inspect", models[0], "--filters", picture], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"no picture of the filters: {done.stderr.strip()}", file=sys.stderr)
            return ""
        return image_file(picture, f"{display_name(architecture)}, first learned layer, largest eta first")
