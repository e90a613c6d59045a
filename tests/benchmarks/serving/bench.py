#!/usr/bin/python3
"""Serving, measured with ckn-client load against servers that this starts: overhead, overload, rolling restart, soak.

usage: bench.py BIN [--only NAME ...] [--seconds X] [--overload-seconds X] [--soak-minutes X] [--json FILE]

Client and server share the machine. Prints each figure with the bar that it has to reach; exit code 1 when one is
missed.
"""
import argparse
import json
import os
import sys

import harness
import overhead
import overload
import restart
import soak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="folder with ckn, ckn-client and the programs of tests/benchmarks")
    parser.add_argument("--seconds", type=float, default=4, help="of one measurement of the overhead (default: 4)")
    parser.add_argument("--overload-seconds", type=float, default=60, help="(default: 60)")
    parser.add_argument("--restart-seconds", type=float, default=20, help="(default: 20)")
    parser.add_argument("--soak-minutes", type=float, default=1.5, help="30 for a serious one (default: 1.5)")
    parser.add_argument("--json", help="also write the figures to this file")
    parts = {"overhead": lambda: overhead.measure(programs, arguments.seconds),
             "overload": lambda: overload.measure(programs, arguments.overload_seconds),
             "restart": lambda: restart.measure(programs, arguments.restart_seconds),
             "soak": lambda: soak.measure(programs, 60 * arguments.soak_minutes)}
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), metavar="NAME",
                        help="some of " + ", ".join(parts))
    arguments = parser.parse_args()
    programs = harness.Programs(*(os.path.join(arguments.bin, name) for name in (
        "ckn", "ckn-client", "write_random_model", "write_tiny_model", "in_process_benchmark")))

    print(f"{'':<76} {'measured':>10} {'':<10} bar")
    figures = []
    for name in arguments.only:
        for figure in parts[name]():
            print(figure, flush=True)
            figures.append({"part": name, "name": figure.name, "value": figure.value, "unit": figure.unit,
                            "bar": figure.bar, "good": figure.good()})
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"cpus": len(os.sched_getaffinity(0)), "figures": figures}, file, indent=2)
    sys.exit(0 if all(figure["good"] for figure in figures) else 1)


if __name__ == "__main__":
    main()
