"""What the Python tests share: stubs made from the .proto files, and a running server.

Uses only Debian's python3-grpcio and python3-protobuf, protoc and its Python plugin.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

SKIPPED = 77  # tests/e2e/CMakeLists.txt tells ctest


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ckn", required=True, help="the ckn binary")
    parser.add_argument("--ckn-client", required=True, help="the ckn-client binary")
    parser.add_argument("--write-tiny-model", required=True, help="the write_tiny_model binary")
    parser.add_argument("--protoc", required=True)
    parser.add_argument("--plugin", required=True, help="grpc_python_plugin")
    parser.add_argument("--source", required=True, help="root of the source tree")
    parser.add_argument("--work", required=True, help="folder for generated files")
    return parser.parse_args()


def import_stubs(arguments):
    """Returns the modules ckn.v1.inference_pb2 and _pb2_grpc, generated from the source tree, and beside them
    inference.open_inference_pb2 and _pb2_grpc.
    """
    out = os.path.join(arguments.work, os.path.splitext(os.path.basename(sys.argv[0]))[0])
    os.makedirs(out, exist_ok=True)
    proto = os.path.join(arguments.source, "proto")
    subprocess.run(
        [
            arguments.protoc,
            f"--plugin=protoc-gen-grpc_python={arguments.plugin}",
            f"--python_out={out}",
            f"--grpc_python_out={out}",
            f"-I{proto}",
            os.path.join(proto, "ckn/v1/inference.proto"),
            os.path.join(proto, "inference/open_inference.proto"),
        ],
        check=True,
    )
    sys.path.insert(0, out)
    from ckn.v1 import inference_pb2, inference_pb2_grpc

    return inference_pb2, inference_pb2_grpc


class Server:
    """`ckn serve` on free ports, gRPC on .address and HTTP on .http; stopped with SIGTERM, which must give exit code 0."""

    def __init__(self, ckn, models, *options, listen="127.0.0.1:0"):
        self.process = subprocess.Popen(
            [ckn, "serve", "--models", models, "--listen", listen, "--http", "127.0.0.1:0", *options],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log = []
        self.address = self.http = None
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"HTTP: http://([^/]+)/", line)
            if found:
                self.http = found.group(1)
            found = re.search(r"serving gRPC on (\S+)", line)
            if found:
                self.address = found.group(1)
                break
        # Someone must read on, or the server would block on a full pipe.
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr))
        self.reader.start()

    def __enter__(self):
        if self.address is None:
            self.reader.join()
            raise AssertionError("the server did not start:\n" + "".join(self.log))
        return self

    def __exit__(self, exception_type, *_):
        self.process.send_signal(signal.SIGTERM)
        exit_code = self.process.wait()
        self.reader.join()
        self.process.stderr.close()
        if exception_type is not None or exit_code != 0:
            sys.stderr.write("server log:\n" + "".join(self.log))
        if exception_type is None and exit_code != 0:
            raise AssertionError(f"the server ended with exit code {exit_code}, expected 0")


def skip(reason):
    """Ends the test as skipped, in a way that is seen."""
    line = "#" * 80
    print(f"{line}\n# SKIPPED, nothing was tested: {reason}\n{line}")
    sys.exit(SKIPPED)


def temporary_folder():
    return tempfile.TemporaryDirectory(prefix="ckn_test_")


def png(height, width, gray):
    """A gray PNG file of the bytes `gray`, [height][width]."""
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + gray[y * width : (y + 1) * width] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
