"""Images and containers of this machine, through podman's command line."""

import datetime
import json
import os
import re
import subprocess
import sys
import tempfile

# What podman needs to work as root on a machine without systemd: the runtime that takes control groups of version 1,
# control groups without systemd's help, limits that every kernel grants, and no bridge.
CONFIGURATION = """\
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=4096:4096"]
netns = "host"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def configure(folder):
    """Uses the configuration above, unless the caller has chosen one with CONTAINERS_CONF."""
    os.environ.setdefault("DISABLE_HC_SYSTEMD", "true")  # health checks run when a test asks for them
    if "CONTAINERS_CONF" not in os.environ:
        path = os.path.join(folder, "containers.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION)
        os.environ["CONTAINERS_CONF"] = path


def podman(*arguments, check=True, timeout=120, cwd=None):
    """Runs `podman ARGUMENT...`; returns the finished process, output as text. Fails with podman's own words."""
    command = ["podman", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, cwd=cwd)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done


def make_base_image(name):
    """Debian 12 without a registry: from the packages that this machine's apt knows."""
    if podman("image", "exists", name, check=False).returncode == 0:
        return
    sources = [path for path in ("/etc/apt/sources.list", "/etc/apt/sources.list.d/debian.sources")
               if os.path.exists(path)]
    with tempfile.TemporaryDirectory() as folder:
        archive = os.path.join(folder, "base.tar")
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates", "--components=main",
                        "bookworm", archive, *sources], check=True)
        podman("import", "--change", 'CMD ["bash"]', archive, name, timeout=300)


def build(source, image, base):
    """Builds the Dockerfile of the source tree; its output goes to stderr."""
    subprocess.run(["podman", "build", "--format", "docker", "--build-arg", f"BASE={base}", "--tag", image, source],
                   stdout=sys.stderr, check=True)


class Container:
    """A container in the background; removed at the end of the `with`."""

    count = 0

    def __init__(self, image, *arguments, options=()):
        Container.count += 1
        self.name = f"ckn-e2e-{os.getpid()}-{Container.count}"
        self.folder = tempfile.TemporaryDirectory()  # where a container that is killed for its memory leaves a file "oom"
        podman("run", "--detach", "--name", self.name, *options, image, *arguments, cwd=self.folder.name)

    def __enter__(self):
        return self

    def __exit__(self, exception_type, *_):
        if exception_type is not None:
            sys.stderr.write(f"log of {self.name}:\n{self.log()}")
        podman("rm", "--force", "--time", 0, self.name, check=False)
        self.folder.cleanup()

    def inspect(self):
        return json.loads(podman("container", "inspect", self.name).stdout)[0]

    def started_at(self):
        """Seconds since 1970 at which the container's process began."""
        text = self.inspect()["State"]["StartedAt"]  # 2026-11-28T17:00:00.123456789Z
        return datetime.datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", text)).timestamp()

    @property
    def pid(self):
        return self.inspect()["State"]["Pid"]

    def log(self):
        done = podman("logs", self.name, check=False)
        return done.stdout + done.stderr

    def stop(self):
        """SIGTERM, then waits; returns the exit code."""
        podman("stop", "--time", 60, self.name)
        return self.inspect()["State"]["ExitCode"]

    def healthcheck(self):
        """True: the image's HEALTHCHECK succeeds now."""
        return podman("healthcheck", "run", self.name, check=False).returncode == 0


class Pod:
    """The Deployment of a Kubernetes manifest, on the network of this machine; taken down at the end of the `with`."""

    def __init__(self, manifest, folder):
        with open(manifest, encoding="utf-8") as file:
            text = file.read()
        changed, count = re.subn(r"(?m)^    spec:$", "    spec:\n      hostNetwork: true", text)
        if count != 1:
            raise RuntimeError(f"{manifest}: got {count} pod templates, expected 1")
        # Podman would publish each port, which it can only do through a bridge.
        changed = re.sub(r"(?m)^          ports:\n(            - .*\n)+", "", changed)
        self.manifest = os.path.join(folder, os.path.basename(manifest))
        with open(self.manifest, "w", encoding="utf-8") as file:
            file.write(changed)
        try:
            podman("kube", "play", self.manifest)
        except RuntimeError:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        podman("kube", "down", self.manifest, check=False)
