"""A results folder as `ckn reproduce` writes it, and the figures computed from it."""
import glob
import json
import os
import statistics


def read_folder(folder):
    contents = []
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as file:
            contents.append(json.load(file))
    return contents


class Results:
    """Cells and learned layers, in the order of `architectures`; what the paper does not have comes last."""

    def __init__(self, folder, architectures):
        def order(entry):
            name = entry["architecture"]
            rank = architectures.index(name) if name in architectures else len(architectures)
            size, fold = entry.get("train_size", 0), entry.get("fold", -1)
            return rank, name, entry.get("variant", ""), size, entry["seed"], fold

        self.folder = folder
        self.cells = sorted(read_folder(os.path.join(folder, "cells")), key=order)
        self.layers = sorted(read_folder(os.path.join(folder, "layers")), key=order)

    def of(self, architecture, size, variant=""):
        """The cells of all seeds and folds. Without a variant: those learned as the paper does."""
        wanted = (architecture, size, variant)
        return [c for c in self.cells if (c["architecture"], c["train_size"], c.get("variant", "")) == wanted]

    def errors(self, architecture, size, variant=""):
        return [cell["test_error_percent"] for cell in self.of(architecture, size, variant)]

    def first(self, architecture, size):
        """The cell of the lowest seed, learned as the paper does."""
        return next(iter(self.of(architecture, size)), None)

    def best(self, size):
        """The cell with the fewest errors among those learned as the paper does."""
        cells = [c for c in self.cells if c["train_size"] == size and not c.get("variant")]
        return min(cells, key=lambda cell: cell["test_errors"], default=None)

    def variants(self):
        """(architecture, train size, variant) of all that was not learned as the paper does."""
        keys = [(c["architecture"], c["train_size"], c["variant"]) for c in self.cells if c.get("variant")]
        return list(dict.fromkeys(keys))

    def cpu_seconds(self, seed, layers_of, cells_of):
        """Of the filters and the cells of these architectures, learned as the paper does."""
        entries = [layer for layer in self.layers if layer["architecture"] in layers_of]
        entries += [cell for cell in self.cells if cell["architecture"] in cells_of]
        return sum(e["cpu_seconds"] for e in entries if e["seed"] == seed and not e.get("variant"))

    def machines(self):
        return list(dict.fromkeys(machine(entry) for entry in self.layers + self.cells))


def machine(entry):
    return f"{entry['cpu']}, {entry['threads']} threads, {entry['simd']}, ckn {entry['program_version']}"


def cell_name(cell):
    """As ckn names the cell's files."""
    variant = f"-{cell['variant']}" if cell.get("variant") else ""
    part = f"fold{cell['fold']}" if "fold" in cell else cell["train_size"]
    return f"{cell['architecture']}{variant}-{part}-seed{cell['seed']}"


def display_name(architecture):
    """ckn-gm-cifar10 -> CKN-GM"""
    for suffix in ("-mnist", "-cifar10", "-stl10"):
        architecture = architecture.removesuffix(suffix)
    return architecture.upper()


def size_name(size):
    return f"{size // 1000}K" if size >= 1000 and size % 1000 == 0 else str(size)


def mean_and_deviation(values):
    """The deviation of one value is None."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def spread(values):
    """"1.25", or "1.25 ± 0.07 (3)" of several."""
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f} ({len(values)})"


def allowed_error(paper):
    """What counts as reproduced on MNIST: the paper's error + 0.2 points or + 15 % of it, whichever is larger."""
    return paper + max(0.2, 0.15 * paper)


def no_worse(error, paper):
    # Rounded, since 0.7 + 0.2 is a little less than 0.9 in binary.
    return round(error, 4) <= round(allowed_error(paper), 4)


def accuracy_by_fold(cells):
    """Accuracy in %, one value a fold (its mean over the seeds), or one a seed for data without folds."""
    groups = {}
    for cell in cells:
        groups.setdefault(cell.get("fold", ("seed", cell["seed"])), []).append(100 - cell["test_error_percent"])
    return [statistics.fmean(values) for values in groups.values()]
