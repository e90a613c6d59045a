#!/usr/bin/python3
"""Once the threads have seen an image, no more memory is asked for, from pixels to features.

usage: allocations_test.py BENCH_ALLOCATIONS
"""
import json
import subprocess
import sys

command = [sys.argv[1], "bench", "--arch", "ckn-gm1", "ckn-pm2", "ckn-pm-cifar10", "--batch", "1", "8", "--threads", "1",
           "--seconds", "0", "--json"]
for precision in ("float32", "bfloat16"):
    report = subprocess.run([*command, "--precision", precision], check=True, stdout=subprocess.PIPE, timeout=100).stdout
    rows = json.loads(report)["rows"]
    assert len(rows) == 6, rows
    for row in rows:
        assert row["precision"] == precision, row
        assert row["allocated_bytes_per_image"] == 0, row
