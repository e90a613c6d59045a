"""Three times more calls than the server can take, and what becomes of it."""

import tempfile
import threading
import time

import harness
from harness import Figure

# A call costs about 15 ms: the client and refusing, which take from the same two cores, count for little beside it. (With
# ckn-gm-stl10, 4 ms a call, the client alone takes an eighth of both.)
ARCHITECTURE = "ckn-pm-stl10"
THREADS = 2
QUEUE = 64 * THREADS
FACTOR = 3
WARM_UP = 10  # seconds before memory counts
BACK = 2  # seconds, after which latency must be what it was


def low_load(programs, server, seconds):
    return harness.load(programs, server.address, "--rate", 10, "--duration", seconds)["codes"]["OK"]["p50_ms"]


class Memory(threading.Thread):
    """Follows the memory of a server; rss: [(seconds since the start, MiB)]."""

    def __init__(self, server):
        super().__init__()
        self.server, self.rss, self.end = server, [], threading.Event()

    def run(self):
        start = time.monotonic()
        while not self.end.wait(0.5):
            self.rss.append((time.monotonic() - start, self.server.rss_mib()))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.join()


def measure(programs, seconds):
    with tempfile.TemporaryDirectory(prefix="ckn_bench_") as folder:
        harness.random_model(programs, folder, ARCHITECTURE)
        with harness.Server(programs, folder, "--threads", str(THREADS), "--queue", str(QUEUE)) as server:
            before = low_load(programs, server, 2)
            capacity = harness.load(programs, server.address, "--in-flight", 16, "--duration", 5)["calls_per_second"]
            with Memory(server) as memory:
                report = harness.load(programs, server.address, "--rate", FACTOR * capacity, "--duration", seconds,
                                      "--tolerate", "RESOURCE_EXHAUSTED")
            end = time.monotonic()
            back = None
            while back is None and time.monotonic() - end < 10 * BACK:
                if low_load(programs, server, 0.5) <= 1.5 * before:
                    back = time.monotonic() - end
    good = report["codes"]["OK"]["calls"] / report["seconds"]
    warm = [mib for at, mib in memory.rss if at > min(WARM_UP, seconds / 2)]
    # It goes up and down by some messages; what would grow is the most of it.
    early, late = (max(half) for half in (warm[: len(warm) // 2], warm[len(warm) // 2:]))
    bound_ms = 1e3 * QUEUE / capacity
    yield Figure(f"{FACTOR} x capacity, {ARCHITECTURE}: capacity", capacity, "1/s")
    yield Figure(f"{FACTOR} x capacity: calls sent", report["calls"] / report["seconds"], "1/s")
    yield Figure(f"{FACTOR} x capacity: goodput, of capacity", 100 * good / capacity, "%", ("at least", 90))
    yield Figure(f"{FACTOR} x capacity: p99 of accepted calls, of a full queue's time ({bound_ms:.0f} ms)",
                 report["codes"]["OK"]["p99_ms"] / bound_ms, "x", ("at most", 3))
    others = {code: n for code, n in harness.calls_by_code(report).items() if code not in ("OK", "RESOURCE_EXHAUSTED")}
    yield Figure(f"{FACTOR} x capacity: calls neither good nor RESOURCE_EXHAUSTED", sum(others.values()), "", ("at most", 0))
    yield Figure(f"{FACTOR} x capacity: growth of memory, {early:.0f} MiB at first", late - early, "MiB", ("at most", 4))
    yield Figure("after that: seconds until p50 at low load is what it was", float("inf") if back is None else back, "s",
                 ("at most", BACK))
