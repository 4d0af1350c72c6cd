#!/usr/bin/env python3
"""Writes values.json: every pattern of bits of the element types of a byte and less, what it is worth, and how onnx stores it;
and sparse.onnx, whose weights are sparse initializers.

Made with Python 3.11, onnx 1.23.2 and ml_dtypes 0.6:

    python3 -m venv venv && venv/bin/pip install onnx==1.23.2 && venv/bin/python make.py
"""

import json
import os

import numpy as np
import onnx
from onnx import TensorProto as T, helper as oh, numpy_helper as nh

here = os.path.dirname(os.path.abspath(__file__))


def number(x):
    x = float(x)
    return x if np.isfinite(x) else str(x)


cases = []
for name in ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4", "INT4", "FLOAT4E2M1", "FLOAT8E8M0", "UINT2", "INT2", "INT8", "UINT8"]:
    typ = getattr(T, name)
    bits = int(name[-1]) if "INT" in name else 4 if name == "FLOAT4E2M1" else 8
    per = 8 // bits
    # Every pattern, and one more element, so that the last byte is not full.
    n = 2**bits + (1 if per > 1 else 0)
    patterns = [i % 2**bits for i in range(n)]
    packed = bytes(sum(p << (bits * j) for j, p in enumerate(patterns[i:i + per])) for i in range(0, n, per))
    raw = onnx.TensorProto(data_type=typ, dims=[n], raw_data=packed)
    typed = onnx.TensorProto(data_type=typ, dims=[n], int32_data=[b - 256 if name == "INT8" and b > 127 else b for b in packed])
    a = nh.to_array(raw).astype(np.float32)
    np.testing.assert_array_equal(a, nh.to_array(typed).astype(np.float32))
    cases.append({"type": typ, "name": name, "dims": [n], "raw": packed.hex(), "int32": list(typed.int32_data), "values": [number(x) for x in a]})
with open(os.path.join(here, "values.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")

# A head with a sparse weight whose positions are given by one number each, and a body with one given by pairs.
r = np.random.default_rng(5)


def sparse(name, a, linear):
    at = np.argwhere(a)
    indices = np.ravel_multi_index(at.T, a.shape) if linear else at
    return oh.make_sparse_tensor(nh.from_array(a[a != 0], name), nh.from_array(indices.astype(np.int64), name + "_indices"), a.shape)


w1, w = [np.where(r.random(s) < 0.6, r.normal(size=s), 0).astype(np.float32) for s in [(5, 6), (6, 4)]]
graph = oh.make_graph([oh.make_node("MatMul", ["x", "w1"], ["a"]), oh.make_node("Relu", ["a"], ["phi"]), oh.make_node("MatMul", ["phi", "w"], ["y"])], "g",
                      [oh.make_tensor_value_info("x", T.FLOAT, ["N", 5])], [oh.make_tensor_value_info("y", T.FLOAT, ["N", 4])],
                      sparse_initializer=[sparse("w1", w1, False), sparse("w", w, True)])
m = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)])
m.ir_version = 8
with open(os.path.join(here, "sparse.onnx"), "wb") as f:
    f.write(m.SerializeToString())
with open(os.path.join(here, "sparse.json"), "w") as f:
    json.dump({"w1": w1.astype(float).ravel().tolist(), "w": w.astype(float).ravel().tolist()}, f)
    f.write("\n")
