"""The image, for real: builds it, runs it the way a cluster does, measures it. `./run e2e-container` calls this.

Every check starts its own containers, on the loopback interface, and ends with what it measured. A figure that misses
its goal is a failure. Runs as root with podman; takes about three minutes besides the build.
"""

import argparse
import contextlib
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import client
from podman import Container, Pod, build, configure, make_base_image, podman

BASE = "localhost/ckn-base:bookworm"  # made here; see make_base_image
GRPC, HTTP = 8500, 8501  # the image's ports
ADDRESS = f"127.0.0.1:{GRPC}"
USER = 65532

# What Kubernetes' "restricted" profile asks for, and a root file system that cannot be written.
HARDENED = ["--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges",
            "--memory", "256m", "--pids-limit", "256"]


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def ready_container(http_port, image, arguments, options):
    expect(not client.is_ready(http_port), f"port {http_port} of this machine is taken by another server")
    container = Container(image, *arguments, options=[*HARDENED, *options])
    try:
        client.wait_until_ready(http_port)
    except AssertionError:
        container.__exit__(*sys.exc_info())
        raise
    return container


def server(image, *arguments, options=()):
    """A hardened server on the image's ports that is ready."""
    return ready_container(HTTP, image, arguments, options)


def second_server(image, grpc_port, *arguments, options=()):
    """One more beside it: HTTP is on the port after gRPC's."""
    addresses = ["--env", f"CKN_LISTEN=127.0.0.1:{grpc_port}", "--env", f"CKN_HTTP=127.0.0.1:{grpc_port + 1}"]
    return ready_container(grpc_port + 1, image, arguments, [*addresses, *options])


# --- What is in the image


def compressed_megabytes(image):
    with tempfile.TemporaryDirectory() as folder:
        podman("push", "--compress", image, f"dir:{folder}")
        return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)) / 1e6


@contextlib.contextmanager
def mounted(image):
    root = podman("image", "mount", image).stdout.strip()
    try:
        yield root
    finally:
        podman("image", "umount", image)


def files_below(root):
    """Regular files and their sizes, by path in the image."""
    sizes = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                sizes["/" + os.path.relpath(path, root)] = os.path.getsize(path)
    return sizes


def size_table(sizes, packages):
    """Lines `| what | files | MB |` that add up to the image."""
    groups = [("`ckn`", r"/usr/bin/ckn$"), ("`ckn-client`", r"/usr/bin/ckn-client$"),
              ("oneDNN", r"^/usr/lib.*/libdnnl"),
              ("gRPC, Protocol Buffers, Abseil, OpenSSL",
               r"^/usr/lib.*/lib(grpc|gpr|address_sorting|upb|re2|cares|proto|absl|ssl|crypto)"),
              ("BLAS, LAPACK, L-BFGS-B, Fortran", r"^/usr/lib.*/lib(blas|openblas|lapack|lbfgsb|gfortran|quadmath)"),
              ("C and C++", r"^/usr/lib.*/lib(c|m|stdc\+\+|gcc_s|gomp)\.so|/ld-linux"),
              ("other shared objects", r"^/usr/lib.*\.so"), ("models", r"/models/"),
              (f"certificates; licences and database entries of {packages} Debian packages", "")]
    rest = dict(sizes)
    lines = []
    for name, pattern in groups:
        group = [path for path in rest if re.search(pattern, path)]
        lines.append(f"| {name} | {len(group)} | {sum(rest.pop(path) for path in group) / 1e6:.1f} |")
    return lines


def check_contents(image):
    with mounted(image) as root:
        sizes = files_below(root)
        programs = [path for path in sizes if os.access(root + path, os.X_OK) and ".so" not in path]
        expect(sorted(programs) == ["/usr/bin/ckn", "/usr/bin/ckn-client"], f"programs: {programs}, expected ours only")
        privileged = [path for path in sizes if os.stat(root + path).st_mode & 0o6000]
        expect(not privileged, f"set-user-id or set-group-id: {privileged}")
        packages = len(glob.glob(f"{root}/var/lib/dpkg/status.d/*"))
        licences = len(glob.glob(f"{root}/usr/share/doc/*/copyright"))
        expect(packages == licences > 0, f"{packages} packages, {licences} licences")
    compressed = compressed_megabytes(image)
    print(*size_table(sizes, packages), sep="\n")
    expect(compressed <= 80, f"{compressed:.1f} MB compressed, goal 80 MB")
    return f"{compressed:.1f} MB compressed (goal 80), {sum(sizes.values()) / 1e6:.1f} MB unpacked, no shell"


def check_configuration(image):
    details = podman("image", "inspect", "--format",
                     "{{.User}} {{index .Labels \"org.opencontainers.image.version\"}} {{.Config.StopSignal}}",
                     image).stdout.split()
    version = podman("run", "--rm", *HARDENED, image, "--version").stdout.strip()
    expect(details == [f"{USER}:{USER}", version, "SIGTERM"], f"user, version label and stop signal: {details}")
    shell = podman("run", "--rm", "--entrypoint", "/bin/sh", image, "-c", "true", check=False)
    expect(shell.returncode == 127, f"/bin/sh: exit code {shell.returncode}, expected 127, not found")
    return f"version {version}, user {USER}"


# --- One container


def check_restrictions(image):
    with server(image) as container:
        with open(f"/proc/{container.pid}/status", encoding="ascii") as file:
            status = dict(line.rstrip().split(":\t", 1) for line in file if ":\t" in line)
        with open(f"/proc/{container.pid}/mountinfo", encoding="ascii") as file:
            root = next(line.split() for line in file if line.split()[4] == "/")
        expect(status["Uid"].split() == [str(USER)] * 4, f"user ids {status['Uid']}")
        for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            expect(int(status[capabilities], 16) == 0, f"{capabilities} {status[capabilities]}, expected none")
        expect(status["NoNewPrivs"] == "1", "new privileges are allowed")
        expect(status["NSpid"].split()[-1] == "1", f"process ids {status['NSpid']}, expected 1 inside")
        expect("ro" in root[5].split(","), f"the root file system is mounted {root[5]}")
        digits = client.correct(ADDRESS, "mnist", "mnist")
        clothes = client.correct(ADDRESS, "fashion-mnist", "fashion")
        expect(digits == 10 and clothes == 9, f"right: {digits} of 10 digits, {clothes} of 10 clothes; expected 10, 9")
        exit_code = container.stop()
        expect(exit_code == 0, f"exit code {exit_code} after SIGTERM\n{container.log()}")
    return "process 1, read-only root, no capabilities, 19 of the 20 samples right, exit code 0 after SIGTERM"


def check_start(image):
    whole, own = [], []
    for _ in range(5):
        began = time.time()
        with server(image) as container:
            ready = time.time()
            whole.append(ready - began)
            own.append(ready - container.started_at())
    text = (f"ready {statistics.median(own):.2f} s after the process began, {statistics.median(whole):.2f} s after "
            f"podman run did (medians of 5; goal 1 s)")
    expect(statistics.median(whole) <= 1, text)
    return text


def check_stop_under_load(image):
    with server(image) as container, client.Load(ADDRESS, images=32) as load:
        time.sleep(1)
        began = time.monotonic()
        exit_code = container.stop()
        seconds = time.monotonic() - began
        log = container.log()
    expect(exit_code == 0, f"exit code {exit_code}\n{log}")
    # CANCELLED: the request was still being received.
    expect(load.answers["OK"] > 0 and set(load.answers) <= {"OK", "UNAVAILABLE", "CANCELLED"},
           f"answers: {dict(load.answers)}: {load.messages}")
    taken = int(re.search(r"calls taken since the start: (\d+)", log).group(1))
    expect(taken == load.answers["OK"], f"{taken} calls taken, {load.answers['OK']} answered")
    return f"all {taken} calls that were taken were answered, {seconds:.2f} s from SIGTERM to the end"


def check_healthcheck(image):
    with server(image) as container:
        expect(container.healthcheck(), "the health check fails on a server that is ready")
        container_models = podman("exec", container.name, "/usr/bin/ckn-client", "health", "--model", "mnist")
        expect(container_models.stdout == "SERVING\n", f"health of mnist: {container_models.stdout}")
    # Nobody listens where the check asks.
    with second_server(image, 8700) as container:
        expect(not container.healthcheck(), "the health check succeeds without a server on its port")
    # The server is stopping.
    with server(image, "serve", "--lame-duck-ms", "60000") as container:
        podman("kill", "--signal", "TERM", container.name)
        time.sleep(0.5)
        expect(not container.healthcheck(), "the health check succeeds on a server that is stopping")
    return "healthy when ready; unhealthy when nobody listens and when stopping"


def large_png(side):
    """A picture of one colour, three bytes a pixel: small as a file."""
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(1)
    row = b"\0" * (1 + 3 * side)
    data = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", data) + chunk(b"IEND", b""))


def check_memory_limit(image):
    bomb = client.request("mnist", [large_png(14000)])  # 588 MB decoded: more than the limit, with as much swap
    with second_server(image, 8700) as neighbour:
        with server(image, "serve", "--max-pixels", "200000000") as victim:
            with client.open_channel(ADDRESS) as channel:
                try:
                    client.pb_grpc.InferenceStub(channel).Classify(bomb, timeout=60)
                    outcome = "OK"
                except client.grpc.RpcError as error:
                    outcome = error.code().name
            podman("wait", victim.name)
            state = victim.inspect()["State"]
        expect(outcome == "UNAVAILABLE" and state["ExitCode"] == 137, f"call {outcome}, exit code {state['ExitCode']}")
        expect(client.correct("127.0.0.1:8700", "mnist", "mnist") == 10, "the other server does not answer any more")
        # With the limit on pixels that the image has by default the same call is refused, and costs nothing.
        with client.open_channel("127.0.0.1:8700") as channel:
            try:
                client.pb_grpc.InferenceStub(channel).Classify(bomb, timeout=60)
                outcome = "OK"
            except client.grpc.RpcError as error:
                outcome = error.code().name
        expect(outcome == "INVALID_ARGUMENT", f"call {outcome}, expected INVALID_ARGUMENT")
        with open(f"/proc/{neighbour.pid}/status", encoding="ascii") as file:
            peak = int(re.search(r"VmHWM:\s*(\d+) kB", file.read()).group(1)) * 1024 / 1e6
    return f"killed alone, exit code 137; the one beside it serves on (peak {peak:.0f} MB resident)"


def check_mounted_models(image):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        model = os.path.join(folder, "clothes.ckn")
        with open(os.path.join(client.SOURCE, "models", "fashion-mnist.ckn"), "rb") as source, open(model, "wb") as out:
            out.write(source.read())
        with server(image, options=["--volume", f"{folder}:/models:ro"]):
            names = client.models(ADDRESS)
    expect(names == ["fashion-mnist"], f"models {names}, expected the mounted one only")
    return "a mount on /models replaces the models"


# --- Processor limit


def cpu_statistics(pid):
    """The container's cpu.stat: seconds throttled, periods, periods throttled."""
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
        groups = {name: path for _, names, path in (line.rstrip().split(":", 2) for line in file)
                  for name in names.split(",")}
    path = f"/sys/fs/cgroup/cpu{groups['cpu']}" if "cpu" in groups else f"/sys/fs/cgroup{groups['']}"
    with open(f"{path}/cpu.stat", encoding="ascii") as file:
        values = {name: int(value) for name, value in (line.split() for line in file)}
    seconds = values["throttled_usec"] / 1e6 if "throttled_usec" in values else values["throttled_time"] / 1e9
    return seconds, values["nr_periods"], values["nr_throttled"]


def images_per_second(image, options, seconds=2.5):
    """Under load from the last processor. Also the seconds for which the server was throttled meanwhile."""
    processor = max(os.sched_getaffinity(0))
    with server(image, options=options) as container, client.Load(ADDRESS, images=64, processor=processor) as load:
        time.sleep(1)
        first, began = client.good_images(HTTP, "mnist"), time.monotonic()
        throttled, periods, throttled_periods = cpu_statistics(container.pid)
        time.sleep(seconds)
        images, elapsed = client.good_images(HTTP, "mnist") - first, time.monotonic() - began
        now = cpu_statistics(container.pid)
        threads = re.search(r"with (\d+) worker threads?", container.log()).group(1)
    expect(load.failed() == 0, f"{dict(load.answers)}: {load.messages}")
    expect(threads == "1", f"{threads} worker threads, expected 1")
    return images / elapsed, now[0] - throttled, now[1] - periods, now[2] - throttled_periods


def check_cpu_limit(image):
    processors = sorted(os.sched_getaffinity(0))
    expect(len(processors) >= 2, "one processor: a limit of 1 limits nothing")
    limited, pinned = [], []
    for _ in range(7):  # by turns, since the machine is faster at one time than at another
        limited.append(images_per_second(image, ["--cpus", "1"]))
        pinned.append(images_per_second(image, ["--cpuset-cpus", str(processors[0])]))
    limited_rate = statistics.median(result[0] for result in limited)
    pinned_rate = statistics.median(result[0] for result in pinned)
    throttled, periods, throttled_periods = (sum(column) for column in list(zip(*limited))[1:])
    ratio = statistics.median(one[0] / other[0] for one, other in zip(limited, pinned))
    text = (f"limit of 1: {limited_rate:.0f} images/s, one thread on one processor: {pinned_rate:.0f}, ratio "
            f"{ratio:.2f} by pairs (goal 0.90); throttled {throttled:.2f} s in all, in {throttled_periods} of {periods} "
            "periods")
    expect(ratio >= 0.9, text)
    return text


# --- Many containers


def check_kubernetes_manifest(image, manifest):
    with tempfile.TemporaryDirectory() as folder, Pod(manifest, folder):
        client.wait_until_ready(HTTP)
        digits = client.correct(ADDRESS, "mnist", "mnist")
        health = podman("run", "--rm", "--entrypoint", "/usr/bin/ckn-client", image, "health").stdout
        expect(digits == 10 and health == "SERVING\n", f"{digits} of 10 digits right, health {health}")
    return "podman kube play: SERVING, 10 of 10 digits right"


HAPROXY = """\
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
frontend ckn
  bind 127.0.0.1:{port} proto h2
  default_backend servers
backend servers
  balance roundrobin
  option httpchk GET /readyz
  default-server proto h2 check inter 200ms fall 1 rise 1
  server one 127.0.0.1:{one} check port {one_http} check-proto h1
  server two 127.0.0.1:{two} check port {two_http} check-proto h1
"""


@contextlib.contextmanager
def haproxy(port, one, two):
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
        file.write(HAPROXY.format(port=port, one=one, one_http=one + 1, two=two, two_http=two + 1))
        file.flush()
        process = subprocess.Popen(["haproxy", "-db", "-q", "-f", file.name])
        try:
            time.sleep(1)
            expect(process.poll() is None, f"haproxy ended with exit code {process.returncode}")
            yield
        finally:
            process.terminate()
            process.wait()


def replace_each(image, ports, load):
    """Stops one server after the other, each followed by a new one; the load goes on. Returns answers by server."""
    arguments = ["serve", "--lame-duck-ms", "1500"]
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(second_server(image, port, *arguments)) for port in ports]
        with load() as running:
            time.sleep(1)
            for old, port in zip(servers, ports):
                exit_code = old.stop()
                expect(exit_code == 0, f"exit code {exit_code}\n{old.log()}")
                stack.enter_context(second_server(image, port, *arguments))
                time.sleep(1.5)
            after = [client.good_images(port + 1, "mnist") for port in ports]
    expect(running.failed() == 0, f"failed calls: {dict(running.answers)}: {running.messages}")
    expect(min(after) > 0, f"images by the two new servers: {after}, expected some by each")
    return f"both servers replaced, {running.answers['OK']} calls, 0 failed"


def check_rolling_client_side(image):
    ports = (8700, 8710)
    address = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    return replace_each(image, ports, lambda: client.Load(address, images=4, service_config=client.FOLLOW_HEALTH))


def check_rolling_haproxy(image):
    ports = (8700, 8710)
    with haproxy(8720, *ports):
        return replace_each(image, ports, lambda: client.Load("127.0.0.1:8720", images=4))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", default="localhost/ckn:0.1.0")
    parser.add_argument("--no-build", action="store_true", help="test the image that is there")
    parser.add_argument("--manifest", default=os.path.join(client.SOURCE, "deploy", "kubernetes", "ckn.yaml"))
    parser.add_argument("--only", metavar="WORD", default="", help="only the checks with this word in their name")
    arguments = parser.parse_args()
    image = arguments.image

    checks = [("contents", check_contents), ("configuration", check_configuration),
              ("restrictions", check_restrictions), ("start", check_start), ("stop under load", check_stop_under_load),
              ("health check", check_healthcheck), ("memory limit", check_memory_limit),
              ("mounted models", check_mounted_models), ("processor limit", check_cpu_limit),
              ("kubernetes manifest", lambda name: check_kubernetes_manifest(name, arguments.manifest)),
              ("rolling replacement, client-side", check_rolling_client_side),
              ("rolling replacement, haproxy", check_rolling_haproxy)]
    checks = [(name, check) for name, check in checks if arguments.only in name]
    passed = 0
    with tempfile.TemporaryDirectory(prefix="ckn_container_") as folder:
        configure(folder)
        client.generate_stubs(folder)
        if not arguments.no_build:
            make_base_image(BASE)
            build(client.SOURCE, image, BASE)
        for name, check in checks:
            try:
                print(f"{name}: {check(image)}", flush=True)
                passed += 1
            except Exception:  # noqa: BLE001: the other checks still run
                traceback.print_exc()
                print(f"{name}: FAILED", flush=True)
    print(f"{passed} passed, {len(checks) - passed} failed")
    return 0 if passed == len(checks) > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
