#!/usr/bin/env python3
"""Writes a classifier with more than 2 GiB of weights, and data for it, to a folder.

    python3 make.py FOLDER        (needs onnx and numpy)

Nearly all weights are zeros that take no disk space: a table of 2 GiB of which one row is looked up, and two square layers of
256 MiB that add zero. The rest is a small network with random weights, so that the files behave like any model's except
for their size.
"""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as oh, numpy_helper as nh

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
r = np.random.default_rng(1)
WIDE, D, K = 8192, 32, 10
data = "big.onnx.data"
offset = 0
inits = []


def hole(name, *shape):
    """A tensor of zeros at the end of the external data."""
    global offset
    size = 4 * int(np.prod(shape, dtype=np.int64))
    t = onnx.TensorProto(name=name, data_type=T.FLOAT, dims=shape, data_location=T.EXTERNAL)
    for k, v in dict(location=data, offset=offset, length=size).items():
        t.external_data.add(key=k, value=str(v))
    inits.append(t)
    offset += size


def weight(name, *shape):
    inits.append(nh.from_array((r.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32), name))


hole("table", 1 << 16, WIDE)
hole("z1", WIDE, WIDE)
hole("z2", WIDE, WIDE)
weight("w0", 16, WIDE)
weight("w1", WIDE, D)
weight("w", D, K)
weight("b", K)
inits.append(nh.from_array(np.array(5, np.int64), "row"))
nodes = [oh.make_node(*n) for n in [
    ("MatMul", ["x", "w0"], ["a0"]), ("Relu", ["a0"], ["h0"]), ("Gather", ["table", "row"], ["e"]), ("Add", ["h0", "e"], ["h1"]),
    ("MatMul", ["h1", "z1"], ["m1"]), ("Add", ["h1", "m1"], ["h2"]), ("MatMul", ["h2", "z2"], ["m2"]), ("Add", ["h2", "m2"], ["h3"]),
    ("MatMul", ["h3", "w1"], ["a"]), ("Relu", ["a"], ["phi"]), ("Gemm", ["phi", "w", "b"], ["logits"]), ("Softmax", ["logits"], ["p"])]]
graph = oh.make_graph(nodes, "big", [oh.make_tensor_value_info("x", T.FLOAT, ["N", 16])], [oh.make_tensor_value_info("p", T.FLOAT, ["N", K])], inits)
m = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)])
m.ir_version = 8
with open(os.path.join(folder, "big.onnx"), "wb") as f:
    f.write(m.SerializeToString())
with open(os.path.join(folder, data), "wb") as f:
    f.truncate(offset)

# Labels drawn from the network's probabilities: a calibrated classifier.
values = {t.name: nh.to_array(t) for t in inits if t.data_location != T.EXTERNAL}
for name, n in [("train", 512), ("val", 512)]:
    x = r.normal(size=(n, 16)).astype(np.float32)
    a = np.maximum(np.maximum(x @ values["w0"], 0) @ values["w1"], 0) @ values["w"] + values["b"]
    p = np.exp(a - a.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    np.savez(os.path.join(folder, name + ".npz"), x=x, labels=(p.cumsum(1) < r.random((n, 1))).sum(1))
print(f"{offset / 2**30:.2f} GiB of weights")
