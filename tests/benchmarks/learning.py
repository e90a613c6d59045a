#!/usr/bin/python3
"""Learning a layer: ckn's L-BFGS-B on problem (4) beside SciPy's on the same problem in NumPy, one after the other, in
rounds. Prints the medians and their ratio.

usage: learning.py PROGRAM [--pairs N] [--dim N] [--filters N] [--iterations N] [--rounds N] [--threads N]

NumPy's objective uses the same form as ours, one matrix product forward and one back in single precision, so the
comparison is of the programs and not of the formulas. Its products run on the BLAS that NumPy is linked to.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
from scipy.optimize import minimize

SIGMA = 0.7


class Objective:
    """Problem (4) and its gradient, as in server/training/kernel_approximation.h."""

    def __init__(self, x, y, filters):
        self.sums = x + y
        distance = np.sum((x.astype(np.float64) - y) ** 2, axis=1)
        self.targets = np.exp(-distance / (2 * SIGMA**2)).astype(np.float32)
        self.filters = filters
        self.evaluations = 0

    def __call__(self, variables):
        self.evaluations += 1
        n, dim = self.sums.shape
        w = variables[: self.filters * dim].reshape(self.filters, dim).astype(np.float32)
        eta = variables[self.filters * dim:].astype(np.float32)
        q = self.sums @ w.T
        q -= 1 + np.sum(w**2, axis=1)
        q *= 2 / SIGMA**2
        np.exp(q, out=q)
        residual = q @ eta - self.targets
        value = np.mean(residual.astype(np.float64) ** 2)
        q *= residual[:, None]
        weighted = q.sum(axis=0, dtype=np.float64)
        grad_w = (4 * eta / (n * SIGMA**2))[:, None] * (q.T @ self.sums - 2 * weighted[:, None] * w)
        return value, np.concatenate([grad_w.ravel(), 2 / n * weighted]).astype(np.float64)


def run_scipy(folder, eta, iterations):
    x, y = np.load(os.path.join(folder, "pairs.npy"))
    w = np.load(os.path.join(folder, "filters.npy"))
    objective = Objective(x, y, len(w))
    start = np.concatenate([w.ravel().astype(np.float64), np.full(len(w), eta)])
    bounds = [(None, None)] * w.size + [(0, None)] * len(w)
    first = objective(start)[0]
    objective.evaluations = 0
    begin = time.perf_counter()
    result = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds,
                      options={"maxiter": iterations, "maxcor": 10, "ftol": 2.2e-15, "gtol": 1e-10})
    seconds = time.perf_counter() - begin
    return {"start": first, "objective": result.fun, "evaluations": objective.evaluations,
            "seconds_per_evaluation": seconds / objective.evaluations}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    for name, default in (("pairs", 100000), ("dim", 108), ("filters", 200), ("iterations", 20), ("rounds", 5),
                          ("threads", len(os.sched_getaffinity(0)))):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    problem = [str(value) for value in (arguments.pairs, arguments.dim, arguments.filters)]
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([arguments.program, "write", folder, *problem], check=True)
        for _ in range(arguments.rounds):
            command = [arguments.program, "run", *problem, str(arguments.iterations), str(arguments.threads)]
            ours.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            theirs.append(run_scipy(folder, ours[-1]["eta"], arguments.iterations))
    # The same problem, or the times mean nothing.
    assert abs(ours[0]["start"] - theirs[0]["start"]) < 1e-4 * theirs[0]["start"], (ours[0], theirs[0])

    def median(results, key):
        return statistics.median(result[key] for result in results)

    print(f"{arguments.pairs} pairs of {arguments.dim} values, {arguments.filters} filters, {arguments.threads} threads, "
          f"medians of {arguments.rounds} rounds")
    print("                     seconds an evaluation   objective after the same iterations")
    for name, results in (("ckn", ours), ("NumPy and SciPy", theirs)):
        print(f"{name:20} {median(results, 'seconds_per_evaluation'):16.4f} {median(results, 'objective'):24.4e}")
    ratio = median(theirs, "seconds_per_evaluation") / median(ours, "seconds_per_evaluation")
    print(f"SciPy takes {ratio:.1f} times as long; ckn runs {median(ours, 'gflops'):.0f} GFLOP/s")


if __name__ == "__main__":
    main()
