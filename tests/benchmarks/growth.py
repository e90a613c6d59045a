#!/usr/bin/python3
"""How the cost of encoding grows: with image area, filters, patch size, batch, threads and the number of loaded models.

usage: growth.py CKN MODEL [--rounds N] [--seconds X] [--json FILE] [--plot FILE]

Prints a Markdown table of the fastest of the rounds, since other work on the machine only slows. Each line changes one
thing about a network of two layers (patches of 3x3 and 50 filters, then patches of 3x3 and 100 filters, subsampling 2
each, images of 32x32, batch 8, one thread; for threads images of 128x128; loaded models are those of MODEL). Memory is
the process's.
"""
import argparse
import json
import os
import shutil
import subprocess
import tempfile

TIMEOUT = 600  # seconds a call
SIZES = [28, 64, 128, 256, 512]
FILTERS = [25, 50, 100, 200, 400, 800]
PATCH_SIZES = [1, 2, 3, 5, 7]
BATCHES = [1, 4, 16, 64, 256]
MODELS = [1, 4, 16, 64]


def recipe(folder, filters=100, patch_size=3):
    path = os.path.join(folder, f"{filters}_{patch_size}.recipe")
    with open(path, "w") as file:
        file.write("layers { patch_size: 3 filters: 50 subsampling: 2 }\n"
                   f"layers {{ patch_size: {patch_size} filters: {filters} subsampling: 2 }}\n")
    return path


def fastest(rounds):
    """Of measurements [(what grows, its value, the bench row)] of the same points."""
    return [max(same, key=lambda point: point[2]["images_per_second"]) for same in zip(*rounds)]


def bench(ckn, seconds, *arguments, batch=(8,), threads=(1,)):
    command = [ckn, "bench", *map(str, arguments), "--batch", *map(str, batch), "--threads", *map(str, threads),
               "--seconds", str(seconds), "--json"]
    return json.loads(subprocess.run(command, check=True, timeout=TIMEOUT, stdout=subprocess.PIPE).stdout)["rows"]


def measure(ckn, model, seconds, folder):
    """[(what grows, its value, the bench row)]"""
    rows = []
    plain = recipe(folder)
    for size in SIZES:
        rows.append(("image side", size, bench(ckn, seconds, "--recipe", plain, "--size", size)[0]))
    for filters in FILTERS:
        rows.append(("filters", filters, bench(ckn, seconds, "--recipe", recipe(folder, filters), "--size", 32)[0]))
    for patch_size in PATCH_SIZES:
        path = recipe(folder, patch_size=patch_size)
        rows.append(("patch size", patch_size, bench(ckn, seconds, "--recipe", path, "--size", 32)[0]))
    for batch in BATCHES:
        rows.append(("batch", batch, bench(ckn, seconds, "--recipe", plain, "--size", 32, batch=[batch])[0]))
    for threads in range(1, len(os.sched_getaffinity(0)) + 1):
        for batch in (1, 64):
            row = bench(ckn, seconds, "--recipe", plain, "--size", 128, batch=[batch], threads=[threads])[0]
            rows.append((f"threads, batch {batch}", threads, row))
    copies = []
    for count in MODELS:
        while len(copies) < count:
            copies.append(os.path.join(folder, f"{len(copies)}.ckn"))
            shutil.copy(model, copies[-1])
        rows.append(("loaded models", count, bench(ckn, 0, *copies)[-1]))
    return rows


def table(rows):
    """A line for each thing that grows; figures in the order of its values."""
    lines = ["| what grows | to | ms an image | GFLOP/s | memory, MiB |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(name for name, _, _ in rows):
        points = [(value, row) for other, value, row in rows if other == name]
        columns = [[str(value) for value, _ in points],
                   [f"{1e3 / row['images_per_second']:.2g}" if row["images_per_second"] > 10
                    else f"{1e3 / row['images_per_second']:.0f}" for _, row in points],
                   [f"{row['gflops']:.0f}" for _, row in points],
                   [f"{row['peak_memory_mib']:.0f}" for _, row in points]]
        lines.append(f"| {name} | " + " | ".join(" / ".join(column) for column in columns) + " |")
    return "\n".join(lines)


def plot(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    names = list(dict.fromkeys(name for name, _, _ in rows))
    figure, axes = pyplot.subplots(2, len(names), figsize=(2.6 * len(names), 5), squeeze=False)
    for column, name in enumerate(names):
        points = [(value, row) for other, value, row in rows if other == name]
        values = [value for value, _ in points]
        for axis, label, of in ((axes[0][column], "ms an image", lambda row: 1e3 / row["images_per_second"]),
                                (axes[1][column], "memory, MiB", lambda row: row["peak_memory_mib"])):
            axis.plot(values, [of(row) for _, row in points], marker="o")
            # Straight lines are powers; what hardly grows stays flat.
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xticks(values, [str(value) for value in values])
            axis.minorticks_off()
            low, high = axis.get_ylim()
            middle = (low * high) ** 0.5
            axis.set_ylim(min(low, middle / 3), max(high, middle * 3))
            axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda tick, _: f"{tick:g}"))
            axis.yaxis.set_minor_locator(ticker.NullLocator())
            axis.set_xlabel(name)
            if column == 0:
                axis.set_ylabel(label)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ckn", help="the ckn binary")
    parser.add_argument("model", help="a model file, loaded several times")
    parser.add_argument("--rounds", type=int, default=3, help="each measures every point once")
    parser.add_argument("--seconds", type=float, default=1, help="time of one measurement")
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--plot", help="also draw them into this file (PNG, SVG, PDF)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ckn_growth_") as folder:
        rounds = [measure(arguments.ckn, arguments.model, arguments.seconds, folder) for _ in range(arguments.rounds)]
    rows = fastest(rounds)
    print(table(rows))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump([{"what": name, "value": value, **row} for name, value, row in rows], file, indent=2)
    if arguments.plot:
        plot(rows, arguments.plot)


if __name__ == "__main__":
    main()
