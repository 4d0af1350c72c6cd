#!/usr/bin/env python3
"""Writes models with Dropout nodes as every operator set from 7 on has them, to be switched on.

Made with Python 3.11 and onnx 1.23.2:

    python3 -m venv venv && venv/bin/pip install onnx==1.23.2 numpy==2.4.6 && venv/bin/python make.py

All take x, [N,4096], and give a and b of the same shape: two Dropout nodes that are the same but for their outputs, as what
looks for common parts of a graph would join. In constant.onnx both drop from a constant of ones, [1,4096], as what folds
constants would work out, and x is added. ratio is 0.25, and in half.onnx and in opset12.onnx that of the operator, 0.5.
"""

import os

import numpy as np
from onnx import TensorProto as T, checker, helper as oh, numpy_helper as nh, save

here = os.path.dirname(os.path.abspath(__file__))


def write(name, opset, nodes, weights=(), ir=8):
    tensor = lambda n: oh.make_tensor_value_info(n, T.FLOAT, ["N", 4096])
    graph = oh.make_graph(nodes, "g", [tensor("x")], [tensor("a"), tensor("b")], [nh.from_array(v, k) for k, v in weights])
    m = oh.make_model(graph, ir_version=ir, producer_name="mfgs fixtures", opset_imports=[oh.make_opsetid("", opset)])
    checker.check_model(m)
    save(m, os.path.join(here, name + ".onnx"))


def pair(ins, outs=("a", "b"), **attributes):
    return [oh.make_node("Dropout", ins, [o], **attributes) for o in outs]


ratio = ("p", np.array(0.25, dtype=np.float32))
off, on = [("t", np.array(v)) for v in (False, True)]
write("opset7", 7, pair(["x"], ratio=0.25), ir=3)
write("opset10", 10, pair(["x"], ratio=0.25), ir=5)
write("opset12", 12, pair(["x"]))
write("opset13", 13, pair(["x", "p", "t"]), [ratio, off])
write("opset22", 22, pair(["x", "p"]), [ratio], ir=10)
write("training", 17, pair(["x", "p", "t"]), [ratio, on])
for name, kind in ("half", T.FLOAT16), ("double", T.DOUBLE):
    cast = lambda i, o, to: oh.make_node("Cast", [i], [o], to=to)
    write(name, 17, [cast("x", "c", kind)] + pair(["c"] + (["p"] if name == "double" else []), ("ca", "cb")) + [cast("ca", "a", T.FLOAT), cast("cb", "b", T.FLOAT)],
          [ratio] if name == "double" else [])
write("constant", 17, pair(["ones", "p"], ("ca", "cb")) + [oh.make_node("Add", ["x", c], [o]) for c, o in (("ca", "a"), ("cb", "b"))],
      [ratio, ("ones", np.ones((1, 4096), dtype=np.float32))])
