"""Two servers are restarted one after the other while a client asks both in turn."""

import json
import tempfile
import time

import harness
from harness import Figure

RATE = 500  # calls a second


def measure(programs, seconds):
    with tempfile.TemporaryDirectory(prefix="ckn_bench_") as folder:
        harness.run(programs.write_tiny_model, f"{folder}/tiny.ckn")
        servers = [start(programs, folder, "127.0.0.1:0") for _ in range(2)]
        addresses = [server.address for server in servers]
        client = harness.start_load(programs, "ipv4:" + ",".join(addresses), "--pixels", "8x8x1", "--rate", RATE,
                                    "--connections", 4, "--duration", seconds)
        restarts = 0
        end = time.monotonic() + seconds - 4
        while time.monotonic() < end:
            time.sleep(2)
            which = restarts % 2
            servers[which].__exit__(None, None, None)
            servers[which] = start(programs, folder, addresses[which])
            restarts += 1
        out, _ = client.communicate(timeout=harness.TIMEOUT)
        for server in servers:
            server.__exit__(None, None, None)
        calls = harness.calls_by_code(json.loads(out))
    failed = {code: count for code, count in calls.items() if code != "OK"}
    yield Figure("rolling restart: restarts", restarts, "")
    yield Figure("rolling restart: good calls", calls.get("OK", 0), "")
    yield Figure(f"rolling restart: failed calls {failed or ''}".rstrip(), sum(failed.values()), "", ("at most", 0))


def start(programs, folder, listen):
    return harness.Server(programs, folder, listen=listen).__enter__()
