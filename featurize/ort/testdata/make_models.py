"""Writes the small models that the tests of this package run.

    pip install onnx && python make_models.py

Each is described where it is made. The files are checked in.
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

HERE = pathlib.Path(__file__).parent


def write(name, nodes, inputs, outputs, initializers=()):
    graph = h.make_graph(nodes, name, inputs, outputs, initializers)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())


value = h.make_tensor_value_info

# linear: y = x W + b for x [N,3]; total = the sum of each row of y. The weights
# stand among the inputs too, as old exporters have it.
W = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
b = np.array([0.5, -0.5], np.float32)
write(
    "linear",
    [h.make_node("Gemm", ["x", "W", "b"], ["y"]), h.make_node("ReduceSum", ["y", "axis"], ["total"], keepdims=0)],
    [value("x", T.FLOAT, ["N", 3]), value("W", T.FLOAT, [3, 2])],
    [value("y", T.FLOAT, ["N", 2]), value("total", T.FLOAT, ["N"])],
    [nh.from_array(W, "W"), nh.from_array(b, "b"), nh.from_array(np.array([1]), "axis")],
)

# subtract: difference = a - b, for telling the inputs apart.
write(
    "subtract",
    [h.make_node("Sub", ["a", "b"], ["difference"])],
    [value("a", T.FLOAT, ["N"]), value("b", T.FLOAT, ["N"])],
    [value("difference", T.FLOAT, ["N"])],
)

# types: a copy [2,2] of an input of every element type.
TYPES = {
    "float32": T.FLOAT, "float64": T.DOUBLE, "int8": T.INT8, "int16": T.INT16, "int32": T.INT32, "int64": T.INT64,
    "uint8": T.UINT8, "uint16": T.UINT16, "uint32": T.UINT32, "uint64": T.UINT64, "bool": T.BOOL,
    "float16": T.FLOAT16, "bfloat16": T.BFLOAT16, "string": T.STRING,
}
write(
    "types",
    [h.make_node("Identity", [t], [t + "_copy"]) for t in TYPES],
    [value(t, code, [2, 2]) for t, code in TYPES.items()],
    [value(t + "_copy", code, [2, 2]) for t, code in TYPES.items()],
)

# half: a float16 copy of open shape.
write("half", [h.make_node("Identity", ["x"], ["y"])], [value("x", T.FLOAT16, ["N"])], [value("y", T.FLOAT16, ["N"])])

# half_huge: a float16 copy that is declared larger than any memory.
write(
    "half_huge", [h.make_node("Identity", ["x"], ["y"])], [value("x", T.FLOAT16, ["N"])], [value("y", T.FLOAT16, [2**50])]
)

# scalar: y = s times the sum of x, both scalars.
write(
    "scalar",
    [h.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), h.make_node("Mul", ["sum", "s"], ["y"])],
    [value("x", T.FLOAT, ["N"]), value("s", T.FLOAT, [])],
    [value("y", T.FLOAT, [])],
)

# loop: x + n, by adding 1 for n times. A large n takes long.
body = h.make_graph(
    [h.make_node("Identity", ["go"], ["go_on"]), h.make_node("Add", ["v", "one"], ["w"])],
    "body",
    [value("i", T.INT64, []), value("go", T.BOOL, []), value("v", T.FLOAT, ["N"])],
    [value("go_on", T.BOOL, []), value("w", T.FLOAT, ["N"])],
    [nh.from_array(np.array([1], np.float32), "one")],
)
write(
    "loop",
    [h.make_node("Loop", ["n", "", "x"], ["y"], body=body)],
    [value("n", T.INT64, []), value("x", T.FLOAT, ["N"])],
    [value("y", T.FLOAT, ["N"])],
)

# external: y = x + w, with w [256] = 0..255 in external/weights.bin.
w = np.arange(256, dtype=np.float32)
(HERE / "external").mkdir(exist_ok=True)
(HERE / "external" / "weights.bin").write_bytes(w.tobytes())
tensor = nh.from_array(w, "w")
onnx.external_data_helper.set_external_data(tensor, location="weights.bin", offset=0, length=w.nbytes)
tensor.ClearField("raw_data")
graph = h.make_graph(
    [h.make_node("Add", ["x", "w"], ["y"])], "external",
    [value("x", T.FLOAT, [256])], [value("y", T.FLOAT, [256])], [tensor],
)
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
(HERE / "external" / "model.onnx").write_bytes(model.SerializeToString())

# sequence: an output that is no tensor. sequence_in: an input that is none.
write(
    "sequence",
    [h.make_node("SequenceConstruct", ["x", "x"], ["s"]), h.make_node("Identity", ["x"], ["y"])],
    [value("x", T.FLOAT, ["N"])],
    [value("y", T.FLOAT, ["N"]), h.make_tensor_sequence_value_info("s", T.FLOAT, ["N"])],
)
write(
    "sequence_in",
    [h.make_node("SequenceLength", ["s"], ["n"])],
    [h.make_tensor_sequence_value_info("s", T.FLOAT, ["N"])],
    [value("n", T.INT64, [])],
)
