#!/usr/bin/python3
"""Renders the chart into deploy/kubernetes/ckn.yaml, for those who do not use helm.

usage: manifests.py [--check]    --check: writes nothing; exit code 1 and the difference when the file is out of date
"""

import difflib
import os
import re
import sys

import tools

FILE = os.path.join(tools.DEPLOY, "kubernetes", "ckn.yaml")
VALUES = os.path.join(tools.DEPLOY, "kubernetes", "values.yaml")
HEADER = """# Rendered from deploy/helm/ckn with deploy/kubernetes/values.yaml by `./run manifests`; not edited by hand.
# kubectl apply -k deploy/kubernetes, or on one machine: podman kube play deploy/kubernetes/ckn.yaml
"""


def rendered():
    text = tools.render("--skip-tests", "--values", VALUES)
    # Nothing that says that helm manages it.
    text = re.sub(r"^ +(app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n|^# Source: .*\n", "", text, flags=re.M)
    return HEADER + re.sub(r"^---\n(?=---\n)", "", text, flags=re.M)


def difference():
    """What would change, as a unified diff; empty: nothing."""
    before = open(FILE).read() if os.path.exists(FILE) else ""
    return "".join(difflib.unified_diff(before.splitlines(True), rendered().splitlines(True), FILE, "rendered"))


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    tools.fetch()
    if check:
        changes = difference()
        sys.stdout.write(changes)
        sys.exit(1 if changes else 0)
    with open(FILE, "w") as file:
        file.write(rendered())


if __name__ == "__main__":
    main()
