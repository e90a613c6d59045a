#!/usr/bin/python3
"""Runs an ONNX model that `ckn export` has written in PyTorch, on the CPU: what a user of PyTorch would have.

usage: pytorch.py run MODEL IMAGES.npy FEATURES.npy
       pytorch.py time MODEL BATCH THREADS SECONDS

The graph's operators are taken one by one from torch, then traced, frozen and optimised for inference. `time` prints
JSON, images_per_second, by the median batch as in `ckn bench`. Needs Debian's python3-torch and python3-onnx.
"""
import json
import statistics
import sys
import time

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import torch

WARM_UP_BATCHES = 4
MIN_BATCHES = 5


def reduce_dims(attributes, value):
    return tuple(attributes["axes"]), bool(attributes.get("keepdims", 1)), value


def pad(attributes, value, amounts):
    assert attributes["mode"] == b"edge"
    top, left, bottom, right = amounts[2], amounts[3], amounts[6], amounts[7]
    return torch.nn.functional.pad(value, (left, right, top, bottom), mode="replicate")


def take_slice(_, value, starts, ends, axes, steps=(1,)):
    (start,), (end,), (axis,), (step,) = starts, ends, axes, steps
    if step == -1:
        assert start == -1 and end == -value.shape[axis] - 1, "only whole axes are turned around"
        return torch.flip(value, (axis,))
    return value.narrow(axis, start, end - start)


def reduce_mean(attributes, value):
    dims, keep, value = reduce_dims(attributes, value)
    return value.mean(dims, keepdim=keep)


def reduce_sum_square(attributes, value):
    dims, keep, value = reduce_dims(attributes, value)
    return value.square().sum(dims, keepdim=keep)


def gemm(attributes, a, b, c):
    assert set(attributes) <= {"transB"}
    return torch.addmm(c, a, b.t() if attributes.get("transB") else b)


# attributes, inputs -> output. Integer inputs come as lists.
OPERATORS = {
    "Add": lambda _, a, b: a + b,
    "Concat": lambda attributes, *values: torch.cat(values, attributes["axis"]),
    "Conv": lambda attributes, *values: torch.nn.functional.conv2d(*values),
    "Div": lambda _, a, b: a / b,
    "Exp": lambda _, a: a.exp(),
    "Gemm": gemm,
    "Log": lambda _, a: a.log(),
    "MatMul": lambda _, a, b: a @ b,
    "Max": lambda _, a, b: torch.maximum(a, b),
    "Min": lambda _, a, b: torch.minimum(a, b),
    "Mul": lambda _, a, b: a * b,
    "Pad": pad,
    "ReduceMean": reduce_mean,
    "ReduceSumSquare": reduce_sum_square,
    "Reshape": lambda _, a, shape: a.reshape(shape),
    "Slice": take_slice,
    "Softmax": lambda attributes, a: a.softmax(attributes["axis"]),
    "Sqrt": lambda _, a: a.sqrt(),
    "Sub": lambda _, a, b: a - b,
    "Transpose": lambda attributes, a: a.permute(attributes["perm"]),
}


class Network(torch.nn.Module):
    """From images float32 [N][channels][height][width] in [0, 1] to the graph's output "features"."""

    def __init__(self, path):
        super().__init__()
        graph = onnx.load(path).graph
        self.input = graph.input[0].name
        self.shape = [dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim[1:]]
        self.integers = {}
        for i, tensor in enumerate(graph.initializer):
            value = onnx.numpy_helper.to_array(tensor)
            if value.dtype == np.int64:
                self.integers[tensor.name] = value.tolist()
            else:
                self.register_buffer(f"constant_{i}", torch.from_numpy(value.copy()))
        self.constants = {tensor.name: f"constant_{i}" for i, tensor in enumerate(graph.initializer)
                          if tensor.name not in self.integers}
        self.nodes = self.needed(graph)

    @staticmethod
    def needed(graph):
        """What the features need, in order: not the scores."""
        wanted, nodes = {"features"}, []
        for node in reversed(graph.node):
            if node.output[0] not in wanted:
                continue
            if node.op_type not in OPERATORS:
                sys.exit(f"pytorch.py: operator {node.op_type}: not known here")
            wanted.update(node.input)
            attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
            nodes.append((node.op_type, attributes, list(node.input), node.output[0]))
        return nodes[::-1]

    def forward(self, images):
        values = {self.input: images, **self.integers}
        values.update({name: getattr(self, buffer) for name, buffer in self.constants.items()})
        for kind, attributes, inputs, output in self.nodes:
            values[output] = OPERATORS[kind](attributes, *(values[name] for name in inputs))
        return values["features"]


def optimised(network, images):
    traced = torch.jit.freeze(torch.jit.trace(network.eval(), images))
    return torch.jit.optimize_for_inference(traced)


def run(model, images, features):
    images = torch.from_numpy(np.load(images))
    np.save(features, optimised(Network(model), images)(images).numpy())


def images_per_second(model, batch, threads, seconds):
    torch.set_num_threads(threads)
    network = Network(model)
    images = torch.randint(0, 256, (batch, *network.shape)).float() / 255
    compute = optimised(network, images)
    for _ in range(WARM_UP_BATCHES):
        compute(images)
    times = []
    start = time.perf_counter()
    while len(times) < MIN_BATCHES or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        compute(images)
        times.append(time.perf_counter() - begin)
    return batch / statistics.median(times)


def main(command, model, *rest):
    with torch.inference_mode():
        if command == "run":
            run(model, *rest)
        else:
            batch, threads, seconds = rest
            print(json.dumps({"images_per_second": images_per_second(model, int(batch), int(threads), float(seconds)),
                              "version": torch.__version__}))


if __name__ == "__main__":
    if len(sys.argv) < 2 or (sys.argv[1], len(sys.argv)) not in (("run", 5), ("time", 6)):
        sys.exit(__doc__)
    main(*sys.argv[1:])
