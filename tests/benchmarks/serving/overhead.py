"""What serving costs beside the work itself."""

import json
import os
import statistics
import tempfile

import harness
from harness import Figure

ARCHITECTURE = "ckn-gm1"
ROUNDS = 3
SIDE = 8  # of the null model's images


def measure(programs, seconds):
    yield from single_images(programs, seconds)
    yield from null_model(programs, seconds)
    yield from raw_batches(programs, seconds)


def single_images(programs, seconds):
    """One 28x28 PNG file a call."""
    with tempfile.TemporaryDirectory(prefix="ckn_bench_") as folder:
        model = harness.random_model(programs, folder, ARCHITECTURE)
        cpu, latency, rates, alone = [], [], [], []
        with harness.Server(programs, folder) as server:
            for _ in range(ROUNDS):
                alone.append(harness.in_process(programs, model, harness.DIGITS, seconds / 4))
                before = server.cpu_seconds()
                report = harness.load(programs, server.address, harness.DIGITS, "--in-flight", 8, "--duration", seconds)
                cpu.append(1e6 * (server.cpu_seconds() - before) / report["calls"])
                rates.append(report["calls_per_second"])
                low = harness.load(programs, server.address, harness.DIGITS, "--duration", seconds / 2)
                latency.append(1e3 * low["codes"]["OK"]["p50_ms"])
    own_cpu = statistics.median(result["cpu_us"] for result in alone)
    own_p50 = statistics.median(result["p50_us"] for result in alone)
    yield Figure(f"{ARCHITECTURE}, one PNG: decoding and classifying in process, CPU", own_cpu, "us")
    yield Figure(f"{ARCHITECTURE}, one PNG a call: calls/s, 8 in flight", statistics.median(rates), "1/s")
    yield Figure(f"{ARCHITECTURE}, one PNG a call: server CPU above that, a call", statistics.median(cpu) - own_cpu, "us",
                 ("at most", 60))
    yield Figure(f"{ARCHITECTURE}, one PNG a call: p50 latency above in process, one caller",
                 statistics.median(latency) - own_p50, "us", ("at most", 250))


def null_model(programs, seconds):
    """The smallest network there is: what is left is the server."""
    with tempfile.TemporaryDirectory(prefix="ckn_bench_") as folder:
        harness.run(programs.write_tiny_model, os.path.join(folder, "tiny.ckn"))
        per_core = []
        with harness.Server(programs, folder) as server:
            for _ in range(ROUNDS):
                before = server.cpu_seconds()
                report = harness.load(programs, server.address, "--pixels", f"{SIDE}x{SIDE}x1", "--in-flight", 64,
                                      "--connections", 4, "--duration", seconds)
                per_core.append(report["calls"] / (server.cpu_seconds() - before))
    yield Figure("null model: calls a second of server CPU, 64 in flight, 4 connections", statistics.median(per_core),
                 "1/s", ("at least", 12000))


def raw_batches(programs, seconds):
    """64 images as raw pixels a call, beside `ckn bench` with the same model, batch and threads.

    With one worker, what receives and sends, and the client, have a core of their own; with a worker a core, they take
    their time from the workers, the client's, too.
    """
    with tempfile.TemporaryDirectory(prefix="ckn_bench_") as folder:
        model = harness.random_model(programs, folder, ARCHITECTURE)
        for threads, what, bar in ((1, "one worker", ("at least", 90)), (os.cpu_count(), "a worker a core", None)):
            ratios = {"ckn": [], "oip": []}
            with harness.Server(programs, folder, "--threads", str(threads)) as server:
                for _ in range(4 * ROUNDS):  # short ones: the cores of a virtual machine change their speed
                    for protocol, of_protocol in ratios.items():
                        before = in_process_rate(programs, model, threads, seconds / 16)
                        report = harness.load(programs, server.address, "--batch", 64, "--in-flight", 4, "--protocol",
                                              protocol, "--duration", seconds / 4)
                        after = in_process_rate(programs, model, threads, seconds / 16)
                        of_protocol.append(2 * report["images_per_second"] / (before + after))
            for protocol, of_protocol in ratios.items():
                yield Figure(f"{ARCHITECTURE}, 64 raw images a call, {protocol}, {what}: of ckn bench's rate",
                             100 * statistics.median(of_protocol), "%", bar)


def in_process_rate(programs, model, threads, seconds):
    rows = json.loads(harness.run(programs.ckn, "bench", model, "--batch", 64, "--threads", threads, "--seconds",
                                  seconds, "--json"))["rows"]
    return rows[0]["images_per_second"]
