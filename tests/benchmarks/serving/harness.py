"""What the measurements of this folder share: a server and its use of the machine, load on it, and figures."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import ckn_e2e  # noqa: E402, from the folder above

DIGITS = os.path.join(ROOT, "tests", "data", "mnist")
TIMEOUT = 600  # seconds a program


@dataclasses.dataclass
class Programs:
    ckn: str
    ckn_client: str
    write_random_model: str
    write_tiny_model: str
    in_process_benchmark: str


@dataclasses.dataclass
class Figure:
    """A measured value; `bar`: what it must reach, as ("at most" or "at least", value); None: for information."""

    name: str
    value: float
    unit: str
    bar: tuple = None

    def good(self):
        if self.bar is None:
            return True
        return self.value <= self.bar[1] if self.bar[0] == "at most" else self.value >= self.bar[1]

    def __str__(self):
        bar = "" if self.bar is None else f"{self.bar[0]} {self.bar[1]:.4g}"
        return f"{self.name:<76} {self.value:>10.4g} {self.unit:<10} {bar:<16} {'' if self.good() else 'MISSED'}"


def run(*command):
    return subprocess.run(list(map(str, command)), check=True, timeout=TIMEOUT, stdout=subprocess.PIPE, text=True).stdout


class Server(ckn_e2e.Server):
    """`ckn serve`, and what it uses of the machine."""

    def __init__(self, programs, models, *options, **more):
        super().__init__(programs.ckn, models, *options, **more)

    def cpu_seconds(self):
        """By the scheduler's clock; /proc/PID/stat counts whole ticks, to whoever runs when they come."""
        return time.clock_gettime(~self.process.pid << 3 | 2)  # clock_getcpuclockid(), which Python has for threads only

    def rss_mib(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def errors(self):
        """The lines of its log that tell of errors."""
        return [line for line in self.log if " error " in line or " critical " in line]


def load_command(programs, address, *arguments):
    return [programs.ckn_client, "--server", address, "load", "--json", *map(str, arguments)]


def load(programs, address, *arguments):
    """The report of ckn-client load, all calls of which must be good or tolerated."""
    return json.loads(run(*load_command(programs, address, *arguments)))


def start_load(programs, address, *arguments):
    return subprocess.Popen(load_command(programs, address, *arguments), stdout=subprocess.PIPE, text=True)


def calls_by_code(report):
    return {code: of_code["calls"] for code, of_code in report["codes"].items()}


def random_model(programs, folder, architecture):
    path = os.path.join(folder, f"{architecture}.ckn")
    run(programs.write_random_model, architecture, path)
    return path


def in_process(programs, model, images, seconds):
    files = [os.path.join(images, name) for name in sorted(os.listdir(images))] if os.path.isdir(images) else [images]
    return json.loads(run(programs.in_process_benchmark, model, seconds, *files))
