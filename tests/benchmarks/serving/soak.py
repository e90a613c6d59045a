"""Everything at once for a long time: good calls, images that are none, calls given up, reloads. Does memory grow?"""

import json
import os
import statistics
import tempfile
import time

import harness
from harness import Figure
from overload import Memory

RELOAD_SECONDS = 2
WARM_UP = 1 / 3  # of the time, before memory counts
OWN_ERRORS = {"DEADLINE_EXCEEDED", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "CANCELLED"}  # that the clients cause


def slope(points):
    """Of the line through the points, by least squares."""
    return statistics.linear_regression(*zip(*points)).slope


def measure(programs, seconds):
    with tempfile.TemporaryDirectory(prefix="ckn_bench_") as folder:
        models = os.path.join(folder, "models")
        os.mkdir(models)
        # Two files that take turns under one name.
        turns = [harness.random_model(programs, folder, name) for name in ("ckn-gm1", "ckn-pm1")]
        place = os.path.join(models, "m.ckn")
        bad = os.path.join(folder, "bad.png")
        with open(bad, "wb") as file:
            file.write(open(os.path.join(harness.DIGITS, "7_00000.png"), "rb").read()[:100])

        def put(turn):
            copy = os.path.join(folder, "copy")
            with open(copy, "wb") as file:
                file.write(open(turns[turn % 2], "rb").read())
            os.rename(copy, place)

        put(0)
        clients = []
        with harness.Server(programs, models) as server, Memory(server) as memory:
            for arguments in (
                (harness.DIGITS, "--rate", 300),
                (harness.DIGITS, "--rate", 50, "--batch", 8, "--protocol", "oip", "--method", "encode"),
                (harness.DIGITS, "--rate", 50, "--protocol", "oip", "--stream"),
                (bad, "--rate", 100),
                # A deadline that most calls do not meet: the client cancels them wherever they are then.
                (harness.DIGITS, "--rate", 100, "--batch", 32, "--timeout", 0.004),
            ):
                clients.append(harness.start_load(programs, server.address, *arguments, "--duration", seconds,
                                                  "--tolerate", ",".join(sorted(OWN_ERRORS))))
            reloads = 0
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(RELOAD_SECONDS)
                reloads += 1
                put(reloads)
                server.reload()
            reports = [json.loads(client.communicate(timeout=harness.TIMEOUT)[0]) for client in clients]
        errors = server.errors()
    calls = {}
    for report in reports:
        for code, count in harness.calls_by_code(report).items():
            calls[code] = calls.get(code, 0) + count
    others = {code: count for code, count in calls.items() if code != "OK" and code not in OWN_ERRORS}
    warm = [(at, mib) for at, mib in memory.rss if at > WARM_UP * seconds and at < seconds]
    minutes = (warm[-1][0] - warm[0][0]) / 60
    growth = slope(warm) * 60 * minutes
    yield Figure("soak: minutes", seconds / 60, "min")
    yield Figure(f"soak: calls {calls}", sum(calls.values()), "")
    yield Figure("soak: reloads", reloads, "")
    yield Figure(f"soak: calls with errors of the server {others or ''}".rstrip(), sum(others.values()), "", ("at most", 0))
    yield Figure(f"soak: errors in the server's log {errors[:1] or ''}".rstrip(), len(errors), "", ("at most", 0))
    yield Figure("soak: resident memory at the end", warm[-1][1], "MiB")
    # In less than ten minutes the slope is mostly noise.
    yield Figure(f"soak: growth of memory over the last {minutes:.1f} minutes", growth, "MiB",
                 ("at most", max(1.0, minutes / 10)))
