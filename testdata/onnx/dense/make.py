#!/usr/bin/env python3
"""Writes the model files of this folder, classifiers that end in several dense layers, and golden.json beside them.

Made with Python 3.11, onnx 1.23.2, onnxruntime 1.31.1 and numpy 2.4.6:

    python3 -m venv venv && venv/bin/pip install onnx==1.23.2 onnxruntime==1.31.1 numpy==2.4.6 && venv/bin/python make.py

golden.json has an entry for each: the layers that must be found, the lowest first, as [operator, in, out, bias, activation];
a part of the reason why there are no more; a sample input, what goes into the lowest layer, and the logits. Both are
computed by onnxruntime without optimisation, and what goes into the layer is chosen here, by the tensor's name.
"""

import json
import os

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as oh, numpy_helper as nh

here = os.path.dirname(os.path.abspath(__file__))
golden = []
N, I, D, K = 3, 5, 6, 4  # examples, inputs, hidden units and classes
ort.set_default_logger_severity(3)


def rng(name):
    return np.random.default_rng(list(name.encode()))


def numbers(a):
    return [float("%.9g" % x) for x in np.asarray(a, dtype=np.float64).ravel()]


def i64(*v):
    return np.array(v, dtype=np.int64)


def f32(*v):
    return np.array(v[0] if len(v) == 1 else v, dtype=np.float32)


def model(nodes, weights, x, opset, ir=10):
    """Nodes are (op, inputs, outputs, attributes); an operator's domain stands before "::", and "-" for what is left out."""
    made = []
    for op, ins, outs, *attributes in nodes:
        domain, _, op = op.rpartition("::")
        ins = ["" if i == "-" else i for i in ins.split()]
        made.append(oh.make_node(op, ins, outs.split(), domain=domain, name="", **(attributes[0] if attributes else {})))
    inits = [nh.from_array(np.asarray(v), k) for k, v in weights.items()]
    graph = oh.make_graph(made, "g", [oh.make_tensor_value_info("x", *x)], [oh.make_empty_tensor_value_info("y")], inits)
    return oh.make_model(graph, ir_version=ir, producer_name="mfgs fixtures",
                         opset_imports=[oh.make_opsetid("", opset), oh.make_opsetid("com.microsoft", 1)])


def run(m, feed, names):
    m2 = onnx.ModelProto()
    m2.CopyFrom(m)
    del m2.graph.output[:]
    m2.graph.output.extend(oh.make_empty_tensor_value_info(n) for n in names)
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(m2.SerializeToString(), o, providers=["CPUExecutionProvider"]).run(list(names), feed)


def write(name, nodes, weights, layers, end, tail, logits="y", x=(T.FLOAT, ["N", I]), opset=17, tolerance=0, ir=10):
    """tail is the name of what goes into the lowest layer, or a function of it: (name, function)."""
    m = model(nodes, weights, x, opset, ir)
    kind = oh.tensor_dtype_to_np_dtype(x[0])
    feed = {"x": (rng(name).normal(size=[N] + x[1][1:]) * (1 if kind.kind == "f" else 50)).astype(kind)}
    tail, of = tail if isinstance(tail, tuple) else (tail, lambda a: a)
    get = lambda t: feed["x"] if t == "x" else run(m, feed, [t])[0]
    low, high = of(get(tail)).reshape(N, -1), get(logits).reshape(N, -1)
    assert low.shape[1] == layers[0][1] and high.shape[1] == layers[-1][2], (name, low.shape, high.shape)
    onnx.save(m, os.path.join(here, name + ".onnx"))
    golden.append({"file": name + ".onnx", "layers": layers, "end": end, "tolerance": tolerance,
                   "inputs": {"x": {"type": kind.name, "shape": list(feed["x"].shape), "data": numbers(feed["x"])}},
                   "examples": N, "tail": numbers(low), "logits": numbers(high)})


def weights(name, *sizes):
    """w1 [sizes[1],sizes[0]], b1, and so on."""
    r = rng(name + " weights")
    w = {}
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        w["w%d" % (i + 1)] = r.normal(size=(b, a)).astype(np.float32)
        w["b%d" % (i + 1)] = r.normal(size=b).astype(np.float32)
    return w


def gemm(x, i, y):
    return ("Gemm", "%s w%d b%d" % (x, i, i), y, {"transB": 1})


MLP = ["Gemm", I, D, True], ["Gemm", D, K, True]
INPUT = '"x" is an input of the model'


def two(name, nodes, activation, extra=None, **options):
    """A network of two layers, with the nodes from h to a between them."""
    write(name, [gemm("x", 1, "h")] + nodes + [gemm("a", 2, "y")], {**weights(name, I, D, K), **(extra or {})},
          [MLP[0] + [activation], MLP[1] + ["Identity"]], INPUT, "x", **options)


def one(name, nodes, end, extra=None, sizes=(I, D, K), **options):
    """A network in which something other than an activation makes the features a of what comes before."""
    write(name, nodes + [gemm("a", 2, "y")], {**weights(name, *sizes), **(extra or {})}, [["Gemm", sizes[1], K, True, "Identity"]], end, "a", **options)


def activations():
    for name, attributes, found, opset in [
            ("Relu", {}, "Relu", 7), ("Tanh", {}, "Tanh", 17), ("Sigmoid", {}, "Sigmoid", 17), ("Softplus", {}, "Softplus", 17),
            ("LeakyRelu", {}, "LeakyRelu(0.01)", 17), ("LeakyRelu", {"alpha": 0.25}, "LeakyRelu(0.25)", 9), ("Elu", {}, "Elu(1)", 17),
            ("Elu", {"alpha": 0.5}, "Elu(0.5)", 17), ("Selu", {}, "Selu(1.67326, 1.0507)", 17), ("HardSwish", {}, "HardSwish", 17),
            ("Gelu", {}, "Gelu", 20), ("Gelu", {"approximate": "tanh"}, "GeluTanh", 20), ("Swish", {}, "Swish(1)", 24),
            ("com.microsoft::Gelu", {}, "Gelu", 17), ("com.microsoft::FastGelu", {}, "GeluTanh", 17),
            ("com.microsoft::QuickGelu", {}, "Swish(1.702)", 17)]:
        label = name.lower().replace("com.microsoft::", "ms_") + "".join("_" + str(v).replace(".", "") for v in attributes.values())
        two(label, [(name, "h", "a", attributes)], found, opset=opset)
    two("prelu_one", [("PRelu", "h s", "a")], "LeakyRelu(0.25)", {"s": f32([0.25])})
    two("clip_relu", [("Clip", "h zero", "a")], "Relu", {"zero": f32(0)})
    two("clip_relu_opset7", [("Clip", "h", "a", {"min": 0.0})], "Relu", opset=7)
    two("max_relu", [("Max", "zero h", "a")], "Relu", {"zero": f32(0)})
    # Written out, as PyTorch, Keras and JAX do.
    two("gelu_torch", [("Div", "h r", "t"), ("Erf", "t", "e"), ("Add", "e one", "p"), ("Mul", "h p", "q"), ("Mul", "q half", "a")], "Gelu",
        {"r": f32(1.4142135), "one": f32(1), "half": f32(0.5)})
    two("gelu_keras", [("Mul", "h half", "s"), ("Mul", "h r", "t"), ("Erf", "t", "e"), ("Add", "one e", "p"), ("Mul", "s p", "a")], "Gelu",
        {"r": f32(0.70710677), "one": f32(1), "half": f32(0.5)})
    two("gelu_halved", [("Div", "h r", "t"), ("Erf", "t", "e"), ("Add", "e one", "p"), ("Mul", "half p", "q"), ("Mul", "h q", "a")], "Gelu",
        {"r": f32(1.4142135), "one": f32(1), "half": f32(0.5)})
    two("gelu_tanh_pow", [("Pow", "h three", "c"), ("Mul", "c k", "d"), ("Add", "h d", "e"), ("Mul", "e s", "f"), ("Tanh", "f", "t"), ("Add", "t one", "p"),
                          ("Mul", "h half", "g"), ("Mul", "g p", "a")], "GeluTanh",
        {"three": f32(3), "k": f32(0.044715), "s": f32(0.7978846), "one": f32(1), "half": f32(0.5)})
    two("gelu_tanh_mul", [("Mul", "h h", "c2"), ("Mul", "h c2", "c"), ("Mul", "k c", "d"), ("Add", "d h", "e"), ("Mul", "s e", "f"), ("Tanh", "f", "t"),
                          ("Add", "one t", "p"), ("Mul", "half p", "g"), ("Mul", "g h", "a")], "GeluTanh",
        {"k": f32(0.044715), "s": f32(0.7978846), "one": f32(1), "half": f32(0.5)})
    two("silu", [("Sigmoid", "h", "s"), ("Mul", "h s", "a")], "Swish(1)")
    two("quick_gelu", [("Mul", "h k", "t"), ("Sigmoid", "t", "s"), ("Mul", "s h", "a")], "Swish(1.702)", {"k": f32(1.702)})
    two("hard_sigmoid_swish", [("HardSigmoid", "h", "s", {"alpha": 1 / 6, "beta": 0.5}), ("Mul", "h s", "a")], "HardSwish")
    two("hard_swish_keras", [("Add", "h three", "s"), ("Clip", "s zero six", "c"), ("Mul", "c sixth", "t"), ("Mul", "h t", "a")], "HardSwish",
        {"three": f32(3), "zero": f32(0), "six": f32(6), "sixth": f32(1 / 6)})
    two("hard_swish_torch", [("Add", "h three", "s"), ("Clip", "s", "c", {"min": 0.0, "max": 6.0}), ("Mul", "h c", "t"), ("Div", "t six", "a")], "HardSwish",
        {"three": f32(3), "six": f32(6)}, opset=10)
    two("sigmoid_by_hand", [("Neg", "h", "n"), ("Exp", "n", "e"), ("Add", "e one", "p"), ("Div", "one p", "a")], "Sigmoid", {"one": f32(1)})
    # What only looks like one of these.
    name = "gelu_other_factor"
    one(name, [gemm("x", 1, "h"), ("Div", "h r", "t"), ("Erf", "t", "e"), ("Add", "e one", "p"), ("Mul", "h p", "a")], 'Mul "a" stands below',
        {"r": f32(1.4142135), "one": f32(1)})
    one("gate_of_another", [gemm("x", 1, "h"), ("Relu", "h", "z"), ("Sigmoid", "h", "s"), ("Mul", "z s", "a")], 'Mul "a" stands below')
    one("relu6", [gemm("x", 1, "h"), ("Clip", "h zero six", "a")], 'Clip "a" stands below', {"zero": f32(0), "six": f32(6)})
    one("prelu_many", [gemm("x", 1, "h"), ("PRelu", "h s", "a")], 'PRelu "a" stands below', {"s": f32(*[0.1 * i for i in range(D)])})
    one("fast_gelu_bias", [gemm("x", 1, "h"), ("com.microsoft::FastGelu", "h s", "a")], 'com.microsoft.FastGelu "a" stands below', {"s": f32(*range(D))})


def layers():
    """What may stand between two layers, and what may not."""
    name = "mlp_dropout_opset9"
    write(name, [gemm("x", 1, "h"), ("Relu", "h", "r"), ("Dropout", "r", "d", {"ratio": 0.2}), gemm("d", 2, "h2"), ("Tanh", "h2", "r2"),
                 ("Dropout", "r2", "d2"), gemm("d2", 3, "z"), ("Softmax", "z", "y", {"axis": 1})],
          weights(name, I, D, D, K), [MLP[0] + ["Relu"], ["Gemm", D, D, True, "Tanh"], MLP[1] + ["Identity"]], INPUT, "x", logits="z", opset=9, ir=4)
    name = "mlp_dropout_opset13"
    w = weights(name, I, D, D, K)
    w = {k: v.T.copy() for k, v in w.items()}
    write(name, [("MatMul", "x w1", "m"), ("Add", "b1 m", "h"), ("Relu", "h", "r"), ("Dropout", "r p off", "d"), ("MatMul", "d w2", "m2"),
                 ("Add", "m2 b2", "h2"), ("Relu", "h2", "r2"), ("Dropout", "r2 p2", "d2"), ("MatMul", "d2 w3", "m3"), ("Add", "m3 b3", "y")],
          {**w, "p": f32(0.25), "p2": f32(0.5), "off": np.array(False)},
          [["MatMul", I, D, True, "Relu"], ["MatMul", D, D, True, "Relu"], ["MatMul", D, K, True, "Identity"]], INPUT, "x", opset=13)
    two("no_activation", [("Identity", "h", "a")], "Identity")
    name = "image"
    write(name, [("Flatten", "x", "f"), gemm("f", 1, "h"), ("Relu", "h", "r"), ("Unsqueeze", "r axes", "u"), ("Conv", "u w2 b2", "c"), ("Sigmoid", "c", "s"),
                 ("Reshape", "s rows", "a"), gemm("a", 3, "y")],
          {**weights(name, 16, D, D, K), "w2": weights(name, 16, D, D, K)["w2"].reshape(D, D, 1, 1), "axes": i64(2, 3), "rows": i64(-1, D)},
          [["Gemm", 16, D, True, "Relu"], ["Conv", D, D, True, "Sigmoid"], ["Gemm", D, K, True, "Identity"]], INPUT, "x", x=(T.FLOAT, ["N", 1, 4, 4]))
    name = "normalised_below"  # folded into the layer, where the activation comes behind
    r = rng(name)
    norm = {k: r.uniform(0.5, 2, size=D).astype(np.float32) for k in ("g", "o", "m", "v")}
    two(name, [("BatchNormalization", "h g o m v", "n"), ("Relu", "n", "a")], "Relu", norm)
    name = "normalised_above"
    one(name, [gemm("x", 1, "h"), ("Relu", "h", "r"), ("BatchNormalization", "r g o m v", "a")], 'BatchNormalization "a" stands below', norm)
    two("units_chosen", [("Relu", "h", "r"), ("Gather", "r order", "a", {"axis": 1})], "Relu", {"order": i64(*reversed(range(D)))})
    write("bytes", [("Cast", "x", "c", {"to": T.FLOAT}), gemm("c", 1, "h"), ("Relu", "h", "r"), ("Cast", "r", "a", {"to": T.FLOAT}), gemm("a", 2, "y")],
          weights("bytes", I, D, K), [MLP[0] + ["Relu"], MLP[1] + ["Identity"]], INPUT, "c", x=(T.INT32, ["N", I]))
    name = "half"
    write(name, [("Cast", "x", "c", {"to": T.FLOAT16}), gemm("c", 1, "h"), ("Relu", "h", "a"), gemm("a", 2, "y")],
          {k: v.astype(np.float16) for k, v in weights(name, I, D, K).items()}, [MLP[0] + ["Relu"], MLP[1] + ["Identity"]], INPUT, "c", tolerance=2e-2)
    one("residual", [gemm("x", 1, "h"), ("Relu", "h", "r"), ("Add", "r x", "a")], 'Add "a" stands below', sizes=(D, D, K), x=(T.FLOAT, ["N", D]))
    name = "convolution"
    one(name, [("Conv", "x w c", "h"), ("Relu", "h", "r"), ("Flatten", "r", "a")], 'Conv "h" is not a linear layer', sizes=(5, 8, K), x=(T.FLOAT, ["N", 1, 4, 4]),
        extra={"w": rng(name).normal(size=(2, 1, 3, 3)).astype(np.float32), "c": f32(1, 2)})
    one("pooled", [("MaxPool", "x", "m", {"kernel_shape": [2, 2], "strides": [2, 2]}), ("Flatten", "m", "a")], 'MaxPool "m" stands below', sizes=(5, 4, K),
        x=(T.FLOAT, ["N", 1, 4, 4]))
    name = "map_flattened"  # a layer at every place of a map is none of rows
    one(name, [("Conv", "x w c", "h"), ("Relu", "h", "r"), ("Flatten", "r", "a")], 'Flatten "a"', sizes=(5, 8, K), x=(T.FLOAT, ["N", 3, 2, 2]),
        extra={"w": rng(name).normal(size=(2, 3, 1, 1)).astype(np.float32), "c": f32(1, 2)})
    one("softmax_between", [gemm("x", 1, "h"), ("Softmax", "h", "s"), ("Relu", "s", "a")], "Softmax")
    name = "left"
    w = weights(name, I, D, K)
    write(name, [gemm("x", 1, "h"), ("Relu", "h", "r"), ("Transpose", "r", "a"), ("MatMul", "w2 a", "t"), ("Transpose", "t", "y")],
          {k: v for k, v in w.items() if k != "b2"}, [["MatMul", D, K, False, "Identity"]], '"a" has the examples along its last axis', ("a", lambda a: a.T))


def tokens():
    """Layers on every token, of which one is chosen: at once, between, or at last."""
    x = (T.FLOAT, ["N", 3, I])
    body = [("Sin", "x", "s")]  # whatever the layers do not reach beyond
    dense = [["MatMul", I, D, True, "Tanh"], ["MatMul", D, K, True, "Identity"]]
    end = 'Sin "s" stands below'
    def made(name):
        return {**{k: v.T.copy() for k, v in weights(name, I, D, K).items()}, "zero": np.array(0, dtype=np.int64), "i": i64(1)}
    tail = lambda i: ("s", lambda a: a[:, i])
    layer = lambda x, i, y: [("MatMul", "%s w%d" % (x, i), y + "m"), ("Add", "%sm b%d" % (y, i), y)]
    name = "token_first"
    write(name, body + [("Gather", "s zero", "t", {"axis": 1})] + layer("t", 1, "h") + [("Tanh", "h", "a")] + layer("a", 2, "y"), made(name), dense,
          end, tail(0), x=x)
    name = "token_between"
    write(name, body + layer("s", 1, "h") + [("Tanh", "h", "a"), ("Gather", "a zero", "t", {"axis": 1})] + layer("t", 2, "y"), made(name), dense, end, tail(0), x=x)
    name = "token_last"
    write(name, body + layer("s", 1, "h") + [("Tanh", "h", "a")] + layer("a", 2, "z") + [("Gather", "z i", "g", {"axis": 1}), ("Squeeze", "g i", "y")],
          made(name), dense, end, tail(1), x=x)
    name = "tokens_mean"  # the mean of Tanh is not Tanh of the mean
    w = made(name)
    write(name, body + layer("s", 1, "h") + [("Tanh", "h", "a")] + layer("a", 2, "z") + [("ReduceMean", "z", "y", {"axes": [1], "keepdims": 0})],
          w, dense[1:], 'ReduceMean "y" stands between', ("a", lambda a: a.mean(axis=1)), x=x)


def quantised():
    """Layers with quantised weights and activations, as tools write them."""
    r = rng("quantised")
    w = {}
    for i, (a, b) in enumerate([(I, D), (D, K)], 1):
        w.update({"w%dq" % i: r.integers(-127, 127, size=(a, b)).astype(np.int8), "w%ds" % i: f32(0.02), "w%dz" % i: np.array(0, dtype=np.int8),
                  "b%d" % i: r.normal(size=b).astype(np.float32)})
    w.update({"s": f32(0.05), "z": np.array(0, dtype=np.int8), "u": np.array(0, dtype=np.uint8), "ys": f32(0.05)})
    q = lambda x, y, z="z": [("QuantizeLinear", "%s s %s" % (x, z), y + "q"), ("DequantizeLinear", "%sq s %s" % (y, z), y)]
    layer = lambda x, i, y: [("DequantizeLinear", "w%dq w%ds w%dz" % (i, i, i), "w%d" % i), ("MatMul", "%s w%d" % (x, i), y + "m"), ("Add", "%sm b%d" % (y, i), y)]
    found = [["MatMul", I, D, True, "Relu"], ["MatMul", D, K, True, "Identity"]]
    name = "qdq"
    write(name, q("x", "xd") + layer("xd", 1, "h") + q("h", "hd") + [("Relu", "hd", "r")] + q("r", "a") + layer("a", 2, "y"), w, found, INPUT, "xd", tolerance=0.5)
    name = "qdq_range"  # unsigned integers are the activation
    write(name, q("x", "xd") + layer("xd", 1, "h") + q("h", "a", "u") + layer("a", 2, "y"), w, found[1:],
          "the range of the integers may stand for an activation", "a")


activations()
layers()
tokens()
quantised()
with open(os.path.join(here, "golden.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(g) for g in golden) + "\n]\n")
print(len(golden), "models")
