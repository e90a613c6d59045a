"""One Markdown file of all experiments that were run."""
import os

import cifar10
import gabor
import mnist
import stl10
import tables

EXPERIMENTS = {"mnist": mnist, "cifar10": cifar10, "stl10": stl10, "gabor": gabor}


def table_extras(results, accuracy):
    """What only the tables of the paper have: variants and costs."""
    lines = []
    variants = tables.variant_table(results, accuracy)
    if variants:
        lines += ["", "### Variants", "", tables.variant_note(results), "", *tables.markdown_table(*variants)]
    lines += ["", "### Filters", "", tables.FILTERS_NOTE, "", *tables.markdown_table(*tables.filters_table(results))]
    return lines + ["", "### Time and memory", "", tables.COST_NOTE + tables.machine_note(results), "",
                    *tables.markdown_table(*tables.cost_table(results))]


def text(root, path):
    """The whole file; links are relative to its place, `path`."""
    lines = ["# Results", "", "Written by the commands it names; not edited by hand."]
    for name, experiment in EXPERIMENTS.items():
        folder = os.path.join(root, name)
        results = experiment.load(folder)
        if results is None:
            continue
        lines += ["", f"## {experiment.TITLE}", "", *experiment.markdown(results)]
        if experiment is not gabor:
            lines += table_extras(results, accuracy=experiment is not mnist)
        report = os.path.relpath(os.path.join(folder, "report.html"), os.path.dirname(path) or ".")
        lines += ["", f"Command: `{experiment.COMMAND}`. It also writes the [report with plots]({report})."]
    return "\n".join(lines) + "\n"
