"""The report of an experiment that `ckn reproduce` ran, and the Markdown of all that were run.

usage: report EXPERIMENT RESULTS_ROOT --markdown FILE [--data FOLDER] [--ckn PROGRAM]

Reads RESULTS_ROOT/EXPERIMENT, writes RESULTS_ROOT/EXPERIMENT/report.html and FILE. A run that was interrupted is
reported as far as it got.
"""
import argparse
import os
import sys

# The fits are small: threads of the BLAS would only wait for each other. Read when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import markdown  # noqa: E402


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(prog="report", description=__doc__, usage=argparse.SUPPRESS,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=markdown.EXPERIMENTS)
    parser.add_argument("root", metavar="RESULTS_ROOT", help="holds a folder an experiment")
    parser.add_argument("--markdown", metavar="FILE", required=True)
    parser.add_argument("--data", metavar="FOLDER", help="the data set, for pictures of misclassified images")
    parser.add_argument("--ckn", metavar="PROGRAM", help="the ckn program, for pictures of filters")
    arguments = parser.parse_args()

    experiment = markdown.EXPERIMENTS[arguments.experiment]
    folder = os.path.join(arguments.root, arguments.experiment)
    results = experiment.load(folder)
    if results is None:
        sys.exit(f"report: {folder}: got no results, expected those of ckn reproduce {arguments.experiment}")
    write(os.path.join(folder, "report.html"), experiment.html(results, arguments.data, arguments.ckn))
    write(arguments.markdown, markdown.text(arguments.root, arguments.markdown))


if __name__ == "__main__":
    main()
