"""Tables that are made once and written both as HTML and as Markdown.

A table is a header and rows of strings or Fields; the first column names the row.
"""
import dataclasses
import html
import math

from results import accuracy_by_fold, display_name, machine, mean_and_deviation, size_name, spread

COST_NOTE = ("A cell's time is without learning the filters, and without encoding where several cells shared it. "
             "Run by ")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclasses.dataclass(frozen=True)
class Field:
    """A measured figure beside the paper's; kind is a class of page.STYLE."""

    text: str
    paper: str = ""
    difference: str = ""
    kind: str = ""

    def html(self):
        below = ", ".join(part for part in (self.paper and f"paper {self.paper}", self.difference) if part)
        return f"{html.escape(self.text)}{f'<small>{html.escape(below)}</small>' if below else ''}"

    def markdown(self):
        text = f"**{self.text}**" if self.difference else self.text
        return "; ".join(part for part in (text, self.paper, self.difference) if part)


def as_field(value):
    return value if isinstance(value, Field) else Field(str(value))


def html_table(header, rows):
    lines = ["<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in header) + "</tr>"]
    for first, *rest in rows:
        fields = [as_field(value) for value in rest]
        cells = "".join(f"<td{f' class={field.kind}' if field.kind else ''}>{field.html()}</td>" for field in fields)
        lines.append(f"<tr><th>{html.escape(first)}</th>{cells}</tr>")
    return "<table>" + "\n".join(lines) + "</table>"


def markdown_table(header, rows):
    lines = [header, ["---"] * len(header)]
    lines += [[as_field(value).markdown().replace("|", "\\|") for value in row] for row in rows]
    return ["| " + " | ".join(line) + " |" if line is not lines[1] else "|" + "|".join(line) + "|" for line in lines]


def power_of_two(value):
    return "2" + f"{math.log2(value):.0f}".translate(SUPERSCRIPTS)


def run_name(entry):
    """ "CKN-GM1, nystrom, 300 images, seed 1" of a cell, "CKN-GM1, seed 1" of learned layers."""
    parts = [display_name(entry["architecture"]), entry.get("variant", "")]
    if "fold" in entry:
        parts.append(f"fold {entry['fold']}")
    elif "train_size" in entry:
        parts.append(f"{size_name(entry['train_size'])} images")
    return ", ".join(part for part in [*parts, f"seed {entry['seed']}"] if part)


def learning(entry):
    """ "filters, 1,000 iterations on 300,000 pairs in 64 components" of learned layers: what the last of them took."""
    last = entry["layers"][-1]
    effort = f"{last['iterations']:,} iterations on" if last["iterations"] else "from"
    components = last.get("principal_components", 0)
    where = f" in {components} components" if components else ""
    return f"filters, {effort} {last['pairs']:,} pairs{where}"


def cost_table(results):
    """Time and memory of everything that was run. On several machines the last column says on which."""
    machines = results.machines()
    rows = []
    for entry in results.layers:
        rows.append([f"{run_name(entry)}: {learning(entry)}", "", "",
                     f"{entry['seconds']:.0f}", f"{entry['cpu_seconds']:.0f}", ""])
    for cell in results.cells:
        rows.append([run_name(cell), f"{cell['test_error_percent']:.2f} %", power_of_two(cell["svm_c"]),
                     f"{cell['seconds']:.0f}", f"{cell['cpu_seconds']:.0f}", f"{cell['peak_mib']:.0f}"])
    header = ["run", "test error", "C", "seconds", "CPU seconds", "peak MiB"]
    if len(machines) > 1:
        header.append("machine")
        for row, entry in zip(rows, results.layers + results.cells):
            row.append(str(machines.index(machine(entry)) + 1))
    return header, rows


FILTERS_NOTE = ("Of each learned layer: filters whose eta is 0, the kernel's sigma, what L-BFGS-B was given, and the mean "
                "squared error of the approximated kernel on the pairs that were learned from and on as many or fewer "
                "that were not. Components: principal components of the patches that the filters are in the span of.")


def filters_table(results):
    """How well the layers approximate their kernels, and what they were learned from."""
    rows = []
    for entry in results.layers:
        # Of nystrom's layers the files have the activations' sigma.
        scale = 2**0.5 if "nystrom" in entry.get("variant", "").split("+") else 1
        for layer in entry["layers"]:
            rows.append([f"{run_name(entry)}: layer {layer['layer']}", f"{layer['dead']} of {layer['filters']}",
                         f"{layer['sigma'] / scale:.3f}", f"{layer['pairs']:,}",
                         str(layer.get("principal_components") or "all"), f"{layer['iterations']:,}",
                         f"{layer['objective']:.3g}", f"{layer['held_out_objective']:.3g}"])
    return ["filters", "dead", "sigma", "pairs", "components", "iterations", "error", "on unseen pairs"], rows


def machine_note(results):
    """The sentence that goes with the cost table."""
    machines = results.machines()
    if len(machines) == 1:
        return f"{machines[0]}."
    return "; ".join(f"{number}: {name}" for number, name in enumerate(machines, 1)) + "."


# What the names of variants stand for, see `ckn reproduce mnist --help`.
VARIANTS = {
    "defaults": "sigma is the 0.1 quantile of the distances, the pooling filter reaches as far as gamma and filters are "
                "looked for anywhere, where the table's networks have settings chosen by validation error",
    "sgd": "filters by stochastic gradients on pairs drawn as it goes, instead of L-BFGS-B on a fixed set",
    "nystrom": "filters by spherical k-means, and the Nystrom projection",
    "centred": "each channel's mean over a patch is subtracted in the first layer",
    "uncentred": "no mean is subtracted in the first layer",
    "whitened": "patches of the first layer are whitened",
}


def variant_note(results):
    """The sentence that goes with the table of variants."""
    measured = {part for _, _, variant in results.variants() for part in variant.split("+")}
    names = [name for name in VARIANTS if name in measured]
    return "; ".join(f"{name}: {VARIANTS[name]}" for name in names) + "."


def variant_table(results, accuracy):
    """Networks learned in other ways beside those of the table; None when there are none."""
    def values(cells):
        return accuracy_by_fold(cells) if accuracy else [cell["test_error_percent"] for cell in cells]

    rows = []
    for architecture, size, variant in results.variants():
        measured = values(results.of(architecture, size, variant))
        baseline = values(results.of(architecture, size))
        row = [f"{display_name(architecture)}, {size_name(size)} images", variant, spread(measured)]
        if baseline:
            difference = mean_and_deviation(measured)[0] - mean_and_deviation(baseline)[0]
            row += [spread(baseline), f"{difference:+.2f}"]
        else:
            row += ["–", "–"]
        rows.append(row)
    what = "accuracy" if accuracy else "error"
    header = ["network", "variant", f"{what} in %", f"{what} in %, as in the table", "difference"]
    return (header, rows) if rows else None
