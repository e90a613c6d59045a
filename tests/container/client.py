"""A client of the server under test, and load on it that counts what fails."""

import argparse
import collections
import glob
import os
import shutil
import sys
import threading
import time
import urllib.request

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import ckn_e2e  # noqa: E402

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

pb = None  # ckn.v1.inference_pb2 and the stubs beside it, see generate_stubs
pb_grpc = None


def generate_stubs(folder):
    global pb, pb_grpc
    pb, pb_grpc = ckn_e2e.import_stubs(argparse.Namespace(
        work=folder, source=SOURCE, protoc=shutil.which("protoc"), plugin=shutil.which("grpc_python_plugin")))


# Calls take turns among the addresses whose server is SERVING. A client that does not watch the servers' health learns
# of a stop by the end of the connection, and a call that is on its way at that moment is cancelled.
# Calls go to each of the servers that say they serve. Not behind a proxy, which follows their health itself: what such
# a client sees is the health of whichever server its one connection to the proxy leads to.
FOLLOW_HEALTH = '{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}'


def open_channel(address, service_config="{}"):
    """`address`: HOST:PORT, or ipv4:A:P,A:P."""
    return grpc.insecure_channel(address, options=[("grpc.service_config", service_config),
                                                   ("grpc.use_local_subchannel_pool", 1)])


def sample_files(data_set):
    """The ten test images of tests/data/mnist or tests/data/fashion: pairs of class index and file."""
    samples = []
    for path in sorted(glob.glob(os.path.join(SOURCE, "tests", "data", data_set, "*.png"))):
        with open(path, "rb") as file:
            samples.append((int(os.path.basename(path)[0]), file.read()))
    return samples


def request(model, files):
    return pb.ClassifyRequest(model=model, images=[pb.Image(encoded=file) for file in files])


def models(address):
    with open_channel(address) as channel:
        reply = pb_grpc.InferenceStub(channel).ListModels(pb.ListModelsRequest(), timeout=10)
        return sorted(model.name for model in reply.models)


def correct(address, model, data_set):
    """How many of the ten samples get their class."""
    samples = sample_files(data_set)
    with open_channel(address) as channel:
        reply = pb_grpc.InferenceStub(channel).Classify(request(model, [file for _, file in samples]), timeout=30)
    return sum(result.classes[0].index == index for (index, _), result in zip(samples, reply.results))


def is_ready(http_port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/readyz", timeout=1) as reply:
            return reply.status == 200
    except OSError:
        return False


def wait_until_ready(http_port, seconds=30, interval=0.01):
    deadline = time.monotonic() + seconds
    while not is_ready(http_port):
        if time.monotonic() > deadline:
            raise AssertionError(f"http://127.0.0.1:{http_port}/readyz: not ready after {seconds} s")
        time.sleep(interval)


def good_images(http_port, model):
    """ckn_images_total{model,outcome="ok"} of the server's metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=10) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith(f'ckn_images_total{{model="{model}",outcome="ok"}} '):
                return float(line.split()[-1])
    raise AssertionError(f"no ckn_images_total of {model}")


class Load:
    """Threads that call Classify one after the other, without retries, from `with` to its end."""

    def __init__(self, address, images, threads=4, processor=None, service_config="{}"):
        samples = [file for _, file in sample_files("mnist")]
        self.processor = processor  # None: any
        self.request = request("mnist", [samples[i % len(samples)] for i in range(images)])
        self.channel = open_channel(address, service_config)
        self.stub = pb_grpc.InferenceStub(self.channel)
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.answers = collections.Counter()  # by status code
        self.messages = set()
        self.threads = [threading.Thread(target=self.work) for _ in range(threads)]

    def work(self):
        if self.processor is not None:
            os.sched_setaffinity(0, {self.processor})  # of this thread; a container would inherit the program's
        while not self.stopping.is_set():
            try:
                self.stub.Classify(self.request, timeout=20)
                code, message = "OK", None
            except grpc.RpcError as error:
                code, message = error.code().name, error.details()
            with self.lock:
                self.answers[code] += 1
                if message:
                    self.messages.add(message)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        self.channel.close()

    def failed(self):
        return sum(self.answers.values()) - self.answers["OK"]
