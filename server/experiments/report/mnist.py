"""Table 1: test errors on MNIST."""
import gzip
import os

import matplotlib.pyplot as plt
import numpy as np

import page
import tables
from results import Results, allowed_error, display_name, mean_and_deviation, no_worse, size_name, spread

TITLE = "MNIST, table 1"
COMMAND = "./run reproduce mnist"
SIZES = [300, 1000, 2000, 5000, 10000, 20000, 40000, 60000]
ARCHITECTURES = ["ckn-gm1", "ckn-gm2", "ckn-pm1", "ckn-pm2"]
COMBINATION = "ckn-co-mnist"  # beside the table
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
COLOURS = {"ckn-gm1": "#0072b2", "ckn-gm2": "#d55e00", "ckn-pm1": "#009e73", "ckn-pm2": "#cc79a7",
           COMBINATION: "#56b4e9"}
DIGITS = [str(digit) for digit in range(10)]
FULL = SIZES[-1]


def load(folder):
    """None when nothing was run."""
    results = Results(folder, [*ARCHITECTURES, COMBINATION])
    return results if results.cells else None


def error_field(errors, paper):
    if not errors:
        return tables.Field("–", f"{paper:.2f}")
    mean, _ = mean_and_deviation(errors)
    kind = "better" if round(mean, 4) <= paper else "near" if no_worse(mean, paper) else "worse"
    return tables.Field(spread(errors), f"{paper:.2f}", f"{mean - paper:+.2f}", kind)


def error_table(results):
    header = ["images", *map(display_name, ARCHITECTURES)]
    rows = [[size_name(size)] + [error_field(results.errors(name, size), PAPER[name][i]) for name in ARCHITECTURES]
            for i, size in enumerate(SIZES)]
    return header, rows


def with_other_methods(header, rows):
    rows = [row + [tables.Field(f"{errors[i]:g}", kind="other") for errors in PAPER_OTHERS.values()]
            for i, row in enumerate(rows)]
    return [*header, *PAPER_OTHERS], rows


def summary(results):
    """Sentences: how much of the table is there, how much of that is reproduced, the best cell."""
    fields = [field for _, *row in error_table(results)[1] for field in row]
    done = [field for field in fields if field.kind]
    within = sum(field.kind != "worse" for field in done)
    missing = f"; {len(fields) - len(done)} are still to be done." if len(done) < len(fields) else "."
    sentences = [f"{within} of {len(done)} cells are no worse than the paper's figure + 0.2 points or + 15 %, "
                 f"whichever is larger{missing}"]
    seed = 1
    if all(any(cell["seed"] == seed for cell in results.of(name, size)) for name in ARCHITECTURES for size in SIZES):
        hours = results.cpu_seconds(seed, ARCHITECTURES, ARCHITECTURES) / 3600
        sentences.append(f"The whole table with one seed, filters and cells of seed {seed}: {hours:.1f} hours of "
                         "processor time, without encoding.")
    combined = results.errors(COMBINATION, FULL)
    if combined:
        sentences.append("Not in the paper's table: the features of CKN-GM2 and CKN-PM1 in one model, "
                         f"{display_name(COMBINATION)}, on 60,000 images: {spread(combined)} %.")
    best = results.best(FULL)
    if best:
        sentences.append(f"Best on 60,000 images: {best['test_error_percent']:.2f} % "
                         f"({display_name(best['architecture'])}, seed {best['seed']}; the paper's best: 0.39 %).")
    return sentences


def markdown(results):
    return ["Test error in %: measured, mean over the seeds (± standard deviation, number of seeds when there are",
            "several); the paper's figure; the difference.", "", *tables.markdown_table(*error_table(results)), "",
            *summary(results), "",
            "Filters are learned once an architecture and seed, on all 60,000 training images without their labels;",
            "subsets are drawn balanced by the seed. C is chosen out of 2^-15 … 2^15, by 5-fold cross-validation below",
            "20,000 images and on 10,000 held-out training images from there on."]


def error_plot(results):
    figure, axes = plt.subplots(1, 4, figsize=(15, 4), sharey=True)
    styles = {"CNN": ":", "Scat-1": "--", "Scat-2": "-."}
    for axis, name in zip(axes, ARCHITECTURES):
        for other, errors in PAPER_OTHERS.items():
            axis.plot(SIZES, errors, styles[other], color="#999999", linewidth=1, label=f"{other} (paper)")
        bar = [allowed_error(error) for error in PAPER[name]]
        axis.fill_between(SIZES, PAPER[name], bar, color="#555555", alpha=0.12, linewidth=0, label="allowed")
        axis.plot(SIZES, PAPER[name], "o-", color="#555555", markersize=4, linewidth=1, label="paper")
        points = [(size, *mean_and_deviation(errors)) for size in SIZES if (errors := results.errors(name, size))]
        if points:
            sizes, means, deviations = zip(*points)
            axis.errorbar(sizes, means, yerr=[deviation or 0 for deviation in deviations], fmt="s-",
                          color=COLOURS[name], markersize=5, capsize=3, label="measured")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(SIZES, [size_name(size) for size in SIZES], fontsize=8, rotation=45)
        axis.set_yticks([0.4, 0.5, 0.7, 1, 2, 3, 5, 7], ["0.4", "0.5", "0.7", "1", "2", "3", "5", "7"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.set_title(display_name(name))
        axis.set_xlabel("training images")
        axis.legend(fontsize=7)
    axes[0].set_ylabel("test error, %")
    return page.svg(figure, "test error against training images")


def read_test_images(folder):
    """None when they are not there."""
    for name in ("t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"):
        for suffix, opener in (("", open), (".gz", gzip.open)):
            path = os.path.join(folder, name + suffix)
            if os.path.exists(path):
                with opener(path, "rb") as file:
                    raw = file.read()
                count, height, width = (int.from_bytes(raw[4 * i:4 * i + 4], "big") for i in (1, 2, 3))
                return np.frombuffer(raw, np.uint8, offset=16).reshape(count, height, width)
    return None


def html(results, data=None, ckn=None):
    full = [cell for name in (*ARCHITECTURES, COMBINATION) if (cell := results.first(name, FULL))]
    confusions = [page.confusion_plot(f"{display_name(cell['architecture'])}, {cell['test_errors']} errors",
                                      cell["confusion"], DIGITS) for cell in full]
    variants = tables.variant_table(results, accuracy=False)
    parts = [
        page.paragraph("Test error in %, without data augmentation. Green: no worse than the paper; yellow: at most "
                       "0.2 points or 15 % of it worse, whichever is larger; red: worse than that. ± is the standard "
                       "deviation over seeds (subsets and learning), their number in brackets."),
        tables.html_table(*with_other_methods(*error_table(results))),
        page.paragraph(" ".join(summary(results))),
        page.section("Error against training size", error_plot(results)),
        page.section("Variants", variants and page.paragraph(tables.variant_note(results)) +
                     tables.html_table(*variants)),
        page.section("Learning the filters", page.objective_plot(results, COLOURS)),
        page.section("Filters", page.row(page.filter_picture(ckn, results, name) for name in ARCHITECTURES)),
        page.section("Choosing C, 60,000 training images", page.validation_plot(full, COLOURS)),
        page.section("Confusion, 60,000 training images", page.row(confusions)),
        page.misclassified_section(results.best(FULL), read_test_images(data) if data else None, DIGITS),
        page.section("Filters", page.paragraph(tables.FILTERS_NOTE), tables.html_table(*tables.filters_table(results))),
        page.section("Time and memory", page.paragraph(tables.COST_NOTE + tables.machine_note(results)),
                     tables.html_table(*tables.cost_table(results))),
    ]
    return page.document("MNIST: table 1 of “Convolutional Kernel Networks”, measured", parts, COMMAND)
