#!/usr/bin/env python3
"""Writes the model files of this folder, one for each operator or idiom beside plain Gemm, MatMul and Conv that ends a
classifier, and golden.json beside them.

Made with Python 3.11, onnx 1.23.2, onnxruntime 1.31.1 and numpy 2.4.6:

    python3 -m venv venv && venv/bin/pip install onnx==1.23.2 onnxruntime==1.31.1 numpy==2.4.6 && venv/bin/python generate.py

golden.json has the form of the one above. Features and logits are computed here, by numpy from the definition of the
operator and from tensors that onnxruntime gives; they are not read from what mfgs calls features and logits.
"""

import json
import os

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as oh, numpy_helper as nh

here = os.path.dirname(os.path.abspath(__file__))
golden = []
N, D, K = 3, 6, 4  # examples, features and classes
NAMES = ["ash", "birch", "cedar", "döner"]
ort.set_default_logger_severity(3)


def rng(name):
    return np.random.default_rng(list(name.encode()))


def numbers(a):
    return [float("%.9g" % x) for x in np.asarray(a, dtype=np.float64).ravel()]


def head(op, features, logits, bias=True, link="softmax", tail=(), d=D, classes=K):
    return {"op": op, "features": features, "logits": logits, "feature_dim": d, "classes": classes, "bias": bias, "link": link, "tail": list(tail)}


def const(**values):
    return values


def i64(*v):
    return np.array(v, dtype=np.int64)


def model(nodes, weights, outputs=("y",), x=(T.FLOAT, ["N", 5]), opset=17):
    """Nodes are (op, inputs, outputs, attributes); an operator's domain stands before "::"."""
    made = []
    for op, ins, outs, *attributes in nodes:
        domain, _, op = op.rpartition("::")
        ins = ["" if i == "-" else i for i in ins.split()]
        made.append(oh.make_node(op, ins, outs.split(), domain=domain, name="", **(attributes[0] if attributes else {})))
    inits = [nh.from_array(np.asarray(v), k) for k, v in weights.items()]
    graph = oh.make_graph(made, "g", [oh.make_tensor_value_info("x", *x)], [oh.make_empty_tensor_value_info(o) for o in outputs], inits)
    return oh.make_model(graph, ir_version=10, producer_name="mfgs fixtures",
                         opset_imports=[oh.make_opsetid("", opset), oh.make_opsetid("com.microsoft", 1), oh.make_opsetid("ai.onnx.ml", 3)])


def run(m, feed, names):
    """The values of tensors, whether they are outputs or not, without optimisation."""
    m2 = onnx.ModelProto()
    m2.CopyFrom(m)
    del m2.graph.output[:]
    m2.graph.output.extend(oh.make_empty_tensor_value_info(n) for n in names)
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(m2.SerializeToString(), o, providers=["CPUExecutionProvider"]).run(list(names), feed)


def write(name, m):
    onnx.save(m, os.path.join(here, name + ".onnx"))


def found(name, m, h, phi, logits, options=None, tolerance=0, feed=None, labels=None, gives=None, n=None):
    """phi and logits: a tensor's name, or a function of a function that gives tensors by name. gives: the output that holds
    what the model itself makes of the probabilities. n: the rows, if not one for each example."""
    feed = feed or {"x": rng(name).normal(size=(N, 5)).astype(np.float32)}
    get = lambda t: run(m, feed, [t])[0]
    value = lambda f: np.asarray(f(get) if callable(f) else get(f), dtype=np.float64)
    p, a = value(phi), value(logits)
    n = n or len(next(iter(feed.values())))
    p, a = p.reshape(n, -1), a.reshape(n, -1)
    assert p.shape == (n, h["feature_dim"]) and a.shape == (n, h["classes"]), (name, p.shape, a.shape)
    run(m, feed, [o.name for o in m.graph.output])
    write(name, m)
    golden.append({"file": "operators/" + name + ".onnx", "options": options or {}, "head": {**h, "labels": labels}, "tolerance": tolerance,
                   "inputs": {k: {"type": v.dtype.name, "shape": list(v.shape), "data": numbers(v)} for k, v in feed.items()},
                   "examples": n, "phi": numbers(p), "logits": numbers(a), **({"gives": numbers(get(gives))} if gives else {})})


def refused(name, m, reason, options=None, runs=True, nearest=None):
    """nearest: the layers that are suggested, as "features logits"."""
    if runs:
        run(m, {"x": rng(name).normal(size=(N, 5)).astype(np.float32)}, [o.name for o in m.graph.output])
    write(name, m)
    golden.append({"file": "operators/" + name + ".onnx", "options": options or {}, "refused": reason, **({"nearest": nearest} if nearest is not None else {})})


def body(name, width=D, k=K):
    """The weights of a first layer, and those of the head, [k,width]."""
    r = rng(name + " weights")
    f = lambda *s: r.normal(size=s).astype(np.float32)
    return {"bw": f(5, width), "bb": f(width)}, f(k, width), f(k)


BODY = [("MatMul", "x bw", "bm"), ("Add", "bm bb", "bo"), ("Relu", "bo", "phi")]


def plain():
    """Operators that are linear, and what may follow."""
    def linear(name, nodes, weights, h, phi="phi", logits="y", **options):
        b0, _, _ = body(name)
        decided = {"Softmax", "LogSoftmax", "Sigmoid"} & set(h["tail"]) and not {"TopK", "ArgMax"} & set(h["tail"])
        found(name, model(BODY + nodes, {**b0, **weights}), h, phi, logits, gives="y" if decided else None, **options)

    _, w, b = body("einsum")
    linear("einsum_nd_kd", [("Einsum", "phi w", "y", {"equation": "nd,kd->nk"})], {"w": w}, head("Einsum", "phi", "y", bias=False))
    linear("einsum_nd_dk", [("Einsum", "phi w", "e", {"equation": "nd, dk -> nk"}), ("Add", "e b", "y")], {"w": w.T.copy(), "b": b}, head("Einsum", "phi", "y"))
    linear("einsum_weights_first", [("Einsum", "w phi", "y", {"equation": "kd,nd->nk"})], {"w": w}, head("Einsum", "phi", "y", bias=False))
    linear("einsum_rest", [("Einsum", "phi w", "y", {"equation": "...d,kd->...k"})], {"w": w}, head("Einsum", "phi", "y", bias=False))
    linear("einsum_two_axes", [("Reshape", "phi s", "p"), ("Einsum", "p w3", "y", {"equation": "nhd,khd->nk"})],
           {"s": i64(-1, 2, 3), "w3": w.reshape(K, 2, 3)}, head("Einsum", "y/a_rows", "y", bias=False))
    linear("einsum_map", [("Reshape", "phi s", "p"), ("Einsum", "p w2", "m", {"equation": "nchw,kc->nkhw"}), ("GlobalAveragePool", "m", "g"), ("Flatten", "g", "y")],
           {"s": i64(-1, 3, 1, 2), "w2": w[:, :3].copy()}, head("Einsum", "m/a", "y", bias=False, tail=["Transpose", "GlobalAveragePool", "Flatten"], d=3),
           phi=lambda get: get("p").mean(axis=(2, 3)))
    b0, _, _ = body("einsum_bilinear")
    refused("einsum_bilinear", model(BODY + [("Einsum", "phi phi", "y", {"equation": "nd,md->nm"})], b0), 'Einsum "y"')

    linear("fused_matmul", [("com.microsoft::FusedMatMul", "phi w", "e", {"transB": 1, "alpha": 0.5}), ("Add", "e b", "y")], {"w": w, "b": b},
           head("com.microsoft.FusedMatMul", "phi", "y"))
    linear("fused_gemm", [("com.microsoft::FusedGemm", "phi w b", "y", {"transB": 1, "activation": "Sigmoid"})], {"w": w, "b": b},
           head("com.microsoft.FusedGemm", "phi", "y/linear", link="sigmoid", tail=["Sigmoid"]), logits=lambda get: get("phi") @ w.T + b)
    b0, _, _ = body("fused_gemm_relu")
    m = model(BODY + [("com.microsoft::FusedGemm", "phi w b", "y", {"transB": 1, "activation": "Relu"})], {**b0, "w": w, "b": b})
    refused("fused_gemm_relu", m, 'Relu of com.microsoft.FusedGemm "y" stands between the linear layer Gemm of')
    conv = [("Reshape", "phi s", "p"), ("com.microsoft::FusedConv", "p w4 b", "c", {"activation": "Relu"}), ("GlobalAveragePool", "c", "g"), ("Flatten", "g", "y")]
    weights = {"s": i64(-1, 3, 1, 2), "w4": w[:, :3].reshape(K, 3, 1, 1), "b": b}
    b0, _, _ = body("fused_conv_relu")
    m = model(BODY + conv, {**b0, **weights})
    refused("fused_conv_relu", m, "which Approximate relu would skip")
    found("fused_conv_relu", m, head("com.microsoft.FusedConv", "p", "y", tail=["Relu", "GlobalAveragePool", "Flatten"], d=3),
          lambda get: get("p").mean(axis=(2, 3)), lambda get: get("p").mean(axis=(2, 3)) @ w[:, :3].T + b, {"Approximate": "relu"})

    # Several layers.
    _, w2, c = body("second")
    two = {"w": w, "b": b, "w2": w2, "c": c}
    gemm = {"transB": 1}
    linear("sum_same_features", [("Gemm", "phi w b", "a", gemm), ("Gemm", "phi w2 c", "d", gemm), ("Add", "a d", "s"), ("Div", "s two", "y")],
           {**two, "two": np.float32(2)}, head("Gemm+Gemm", "phi", "y", tail=["Div"]))
    linear("sum_difference", [("Tanh", "phi", "psi"), ("Gemm", "phi w b", "a", gemm), ("Gemm", "psi w2 c", "d", gemm), ("Sub", "a d", "y")],
           two, head("Gemm+Gemm", "phi,psi", "y", d=2 * D), phi=lambda get: np.concatenate([get("phi"), get("psi")], axis=1))
    linear("sum_mean", [("Gemm", "phi w b", "a", gemm), ("Gemm", "bo w2 c", "d", gemm), ("Mean", "a d", "y")],
           two, head("Gemm+Gemm", "phi,bo", "y", d=2 * D), phi=lambda get: np.concatenate([get("phi"), get("bo")], axis=1))
    linear("sum_and_constant", [("Gemm", "phi w b", "a", gemm), ("MatMul", "bo wt", "d"), ("Sum", "a d c", "y")], {**two, "wt": w2.T.copy()}, head("Gemm+MatMul", "phi,bo", "y", d=2 * D),
           phi=lambda get: np.concatenate([get("phi"), get("bo")], axis=1))
    linear("weights_factored", [("MatMul", "u v", "uv"), ("MatMul", "phi uv", "y")], {"u": w[:2].T.copy(), "v": w2[:, :2].T.copy()}, head("MatMul", "phi", "y", bias=False))
    b0, _, _ = body("weights_dropped")
    refused("weights_dropped", model(BODY + [("Dropout", "w half on", "wd"), ("Gemm", "phi wd b", "y", gemm)], {**b0, "w": w, "b": b, "half": np.float32(0.5), "on": np.bool_(True)}), 'Gemm "y" multiplies two tensors that both depend on the input')
    linear("sum_stacked", [("Gemm", "phi w b", "a", gemm), ("Gemm", "bo w2 c", "d", gemm), ("Unsqueeze", "a zero", "a1"), ("Unsqueeze", "d zero", "d1"),
                           ("Concat", "a1 d1", "s", {"axis": 0}), ("ReduceMean", "s", "m", {"axes": [0], "keepdims": 0}), ("Softmax", "m", "y")],
           {**two, "zero": i64(0)}, head("Gemm+Gemm", "phi,bo", "m", d=2 * D, tail=["Softmax"]),
           phi=lambda get: np.concatenate([get("phi"), get("bo")], axis=1), logits="m")
    b0, _, _ = body("sum_residual")
    refused("sum_residual", model(BODY + [("Gemm", "phi w b", "a", gemm), ("Tanh", "a", "t"), ("Add", "a t", "y")], {**b0, "w": w, "b": b}), 'Add "y" adds "t"')

    # Choices of classes and tokens.
    linear("classes_gathered", [("Gemm", "phi w b", "a", gemm), ("Gather", "a pick", "y", {"axis": 1})], {"w": w, "b": b, "pick": i64(2, 0)},
           head("Gemm", "phi", "y", tail=["Gather"], classes=2))
    linear("classes_sliced", [("Gemm", "phi w b", "a", gemm), ("Slice", "a one far one", "s"), ("Mul", "s temperature", "y")],
           {"w": w, "b": b, "one": i64(1), "far": i64(99), "temperature": np.array([[1, 2, 3]], np.float32)}, head("Gemm", "phi", "y", tail=["Slice", "Mul"], classes=3))
    tokens = [("Reshape", "phi s", "p"), ("MatMul", "p w3", "l"), ("Shape", "x", "xs"), ("Slice", "xs zero one", "n"), ("Squeeze", "n", "n0"), ("Range", "z0 n0 o0", "i"),
              ("ReduceMax", "x", "top", {"axes": [1], "keepdims": 0}), ("Greater", "top half", "last"), ("Cast", "last", "at", {"to": 7}),
              ("Unsqueeze", "i one", "i1"), ("Unsqueeze", "at one", "at1"), ("Concat", "i1 at1", "where", {"axis": 1}), ("GatherND", "l where", "y")]
    linear("token_chosen_by_input", tokens, {"s": i64(-1, 2, 3), "w3": w[:, :3].T.copy(), "zero": i64(0), "one": i64(1), "z0": np.int64(0), "o0": np.int64(1), "half": np.float32(0.9)},
           head("MatMul", "p", "y", bias=False, tail=["GatherND"], d=3), phi=lambda get: get("p")[np.arange(N), get("at")])
    # Decoders: the last token of each row, out of all tokens of all rows.
    linear("token_of_all_tokens", tokens[:2] + [("Flatten", "l", "f", {"axis": 2})] + tokens[2:9] + [("Mul", "i two", "i2"), ("Add", "i2 at", "where"), ("Gather", "f where", "r", {"axis": 0}), ("Reshape", "r rows", "y")],
           {"s": i64(-1, 2, 3), "w3": w[:, :3].T.copy(), "zero": i64(0), "one": i64(1), "z0": np.int64(0), "o0": np.int64(1), "half": np.float32(0.9), "two": np.int64(2), "rows": i64(-1, 4)},
           head("MatMul", "p", "y", bias=False, tail=["Flatten", "Gather", "Reshape"], d=3), phi=lambda get: get("p")[np.arange(N), get("at")])
    # Of 200 classes 150, by a list that is long enough to stay in the file.
    b0, wide, bias = body("classes_of_many", D, 200)
    pick = np.random.default_rng(3).permutation(200)[:150]
    found("classes_of_many", model(BODY + [("Gemm", "phi w b", "a", gemm), ("Gather", "a pick", "y", {"axis": 1})], {**b0, "w": wide, "b": bias, "pick": i64(*pick)}),
          head("Gemm", "phi", "y", tail=["Gather"], classes=150), "phi", "y")

    # Tails.
    z = ("Gemm", "phi w b", "z", gemm)
    tail = {"w": w, "b": b, "axis": i64(1)}
    linear("tail_softmax_by_hand", [z, ("ReduceMax", "z", "top", {"axes": [1], "keepdims": 1}), ("Sub", "z top", "s"), ("Exp", "s", "e"), ("ReduceSum", "e axis", "t", {"keepdims": 1}), ("Div", "e t", "y")],
           tail, head("Gemm", "phi", "z", tail=["Softmax"]), logits="z")
    b0, _, _ = body("tail_exp_of_sigmoid")
    refused("tail_exp_of_sigmoid", model(BODY + [z, ("Sigmoid", "z", "p"), ("Exp", "p", "e"), ("LpNormalization", "e", "y", {"axis": 1, "p": 1})], {**b0, **tail}), "follows Sigmoid")
    linear("tail_log_sum_exp", [z, ("ReduceLogSumExp", "z", "t", {"axes": [1], "keepdims": 1}), ("Sub", "z t", "l"), ("Exp", "l", "y")], tail, head("Gemm", "phi", "z", tail=["LogSoftmax", "Exp"]), logits="z")
    linear("tail_exp_log_softmax", [z, ("LogSoftmax", "z", "l"), ("Exp", "l", "y")], tail, head("Gemm", "phi", "z", tail=["LogSoftmax", "Exp"]), logits="z")
    linear("tail_clipped_logits", [z, ("Clip", "z lo hi", "c"), ("Softmax", "c", "y")], {**tail, "lo": np.float32(-30), "hi": np.float32(30)},
           head("Gemm", "phi", "c", tail=["Clip", "Softmax"]), logits="z")
    b0, _, _ = body("tail_cut_logits")
    refused("tail_cut_logits", model(BODY + [z, ("Clip", "z lo hi", "y")], {**b0, **tail, "lo": np.float32(0), "hi": np.float32(6)}), 'Clip "y" cuts off logits')
    linear("tail_sigmoids_normalised", [z, ("Sigmoid", "z", "p"), ("ReduceSum", "p axis", "t", {"keepdims": 1}), ("Div", "p t", "y")],
           tail, head("Gemm", "phi", "z", link="one-vs-rest", tail=["Sigmoid", "LpNormalization"]), logits="z")
    linear("tail_sigmoid_arg_max", [z, ("Sigmoid", "z", "p"), ("ArgMax", "p", "y", {"axis": 1})], tail, head("Gemm", "phi", "z", link="one-vs-rest", tail=["Sigmoid", "ArgMax"]), logits="z")
    linear("tail_sigmoid_by_hand", [z, ("Neg", "z", "n"), ("Exp", "n", "e"), ("Add", "e one", "s"), ("Reciprocal", "s", "y")], {**tail, "one": np.float32(1)},
           head("Gemm", "phi", "z", link="sigmoid", tail=["Sigmoid"]), logits="z")
    w1, b1 = w[:1], b[:1]
    one = ("Gemm", "phi w b", "z", gemm)
    binary = {"w": w1, "b": b1, "one": np.float32(1)}
    linear("tail_both_classes", [one, ("Sigmoid", "z", "p"), ("Sub", "one p", "q"), ("Concat", "q p", "y", {"axis": 1})], binary,
           head("Gemm", "phi", "z", link="sigmoid", tail=["Sigmoid", "Concat"], classes=1), logits="z")
    linear("tail_both_classes_stacked", [one, ("Sigmoid", "z", "p"), ("Squeeze", "p axis", "p0"), ("Sub", "one p0", "q"), ("Unsqueeze", "q axis", "q1"), ("Unsqueeze", "p0 axis", "p1"), ("Concat", "q1 p1", "y", {"axis": 1})],
           {**binary, "axis": i64(1)}, head("Gemm", "phi", "z", link="sigmoid", tail=["Sigmoid", "Squeeze", "Unsqueeze", "Concat"], classes=1), logits="z")
    b0, _, _ = body("tail_both_classes_below")
    refused("tail_both_classes_below", model(BODY + [one, ("Sigmoid", "z", "p"), ("Sub", "one p", "q"), ("Concat", "q p", "y", {"axis": 0})], {**b0, **binary}), "along the examples")
    b0, _, _ = body("tail_other_pair")
    refused("tail_other_pair", model(BODY + [one, ("Sigmoid", "z", "p"), ("Mul", "p p", "q"), ("Concat", "q p", "y", {"axis": 1})], {**b0, **binary}), 'Concat "y"')


def quantize(w, axis=None, dtype=np.int8):
    """Symmetric quantisation: numbers, scales, zero points."""
    top = np.abs(w).max() if axis is None else np.abs(w).max(axis=tuple(i for i in range(w.ndim) if i != axis))
    scale = (np.asarray(top) / 127).astype(np.float32)
    shape = [1] * w.ndim
    if axis is not None:
        shape[axis] = -1
    q = np.clip(np.round(w / scale.reshape(shape)), -127, 127)
    if dtype == np.uint8:
        return (q + 128).astype(np.uint8), scale, np.full(scale.shape, 128, np.uint8)
    return q.astype(dtype), scale, np.zeros(scale.shape, dtype)


def quantised():
    """Eight bits and fewer."""
    _, w, b = body("quantised")
    scales = {"ps": np.float32(0.05), "pz": np.uint8(3), "ys": np.float32(0.25), "yz": np.uint8(120)}
    q8 = [("QuantizeLinear", "phi ps pz", "pq")]
    deq = lambda get: (get("pq").astype(np.float64) - 3) * 0.05

    def case(name, nodes, weights, h, phi, logits, tolerance=0, **options):
        b0, _, _ = body(name)
        found(name, model(BODY + nodes, {**b0, **scales, **weights}, **options), h, phi, logits, tolerance=tolerance)

    wq, ws, wz = quantize(w, axis=0)
    wt, wts, wtz = quantize(w.T.copy())
    wu, wus, wuz = quantize(w.T.copy(), axis=1, dtype=np.uint8)
    wr, wur = wq * ws[:, None], (wu.astype(np.float64) - 128) * wus
    case("qdq", q8 + [("DequantizeLinear", "pq ps pz", "pd"), ("DequantizeLinear", "wq ws wz", "w", {"axis": 0}), ("Gemm", "pd w b", "z", {"transB": 1}),
                      ("QuantizeLinear", "z ys yz", "zq"), ("DequantizeLinear", "zq ys yz", "y")],
         {"wq": wq, "ws": ws, "wz": wz, "b": b}, head("Gemm", "pd", "y", tail=["QuantizeLinear", "DequantizeLinear"]), deq, "y", tolerance=0.126)
    case("quantised_constant", [("QuantizeLinear", "w ws wz", "wq", {"axis": 0}), ("DequantizeLinear", "wq ws wz", "wd", {"axis": 0}), ("Gemm", "phi wd b", "y", {"transB": 1})],
         {"w": w, "ws": ws, "wz": wz, "b": b}, head("Gemm", "phi", "y"), "phi", "y")
    case("qdq_softmax", q8 + [("DequantizeLinear", "pq ps pz", "pd"), ("DequantizeLinear", "wq ws wz", "w", {"axis": 0}), ("Gemm", "pd w b", "z", {"transB": 1}),
                              ("QuantizeLinear", "z ys yz", "zq"), ("DequantizeLinear", "zq ys yz", "zd"), ("Softmax", "zd", "p"), ("QuantizeLinear", "p us uz", "uq"), ("DequantizeLinear", "uq us uz", "y")],
         {"wq": wq, "ws": ws, "wz": wz, "b": b, "us": np.float32(1 / 256), "uz": np.uint8(0)},
         head("Gemm", "pd", "zd", tail=["QuantizeLinear", "DequantizeLinear", "Softmax", "QuantizeLinear", "DequantizeLinear"]), deq, "zd", tolerance=0.126)
    case("qdq_temperature", q8 + [("DequantizeLinear", "pq ps pz", "pd"), ("DequantizeLinear", "wq ws wz", "w", {"axis": 0}), ("Gemm", "pd w b", "z", {"transB": 1}),
                                  ("QuantizeLinear", "z ys yz", "zq"), ("DequantizeLinear", "zq ys yz", "zd"), ("Div", "zd t", "u"), ("Add", "u b", "v"), ("Softmax", "v", "y")],
         {"wq": wq, "ws": ws, "wz": wz, "b": b, "t": np.float32(-0.25)}, head("Gemm", "pd", "v", tail=["QuantizeLinear", "DequantizeLinear", "Div", "Add", "Softmax"]), deq, "v", tolerance=0.501)
    case("qdq_sum", q8 + [("DequantizeLinear", "pq ps pz", "pd"), ("DequantizeLinear", "wq ws wz", "w", {"axis": 0}), ("Gemm", "pd w b", "z", {"transB": 1}), ("QuantizeLinear", "z ys yz", "zq"), ("DequantizeLinear", "zq ys yz", "zd"),
                          ("Gemm", "pd w", "u", {"transB": 1}), ("Add", "zd u", "y")],
         {"wq": wq, "ws": ws, "wz": wz, "b": b}, head("Gemm+Gemm", "pd", "y", tail=["QuantizeLinear", "DequantizeLinear"]), deq, "y", tolerance=0.126)
    bq = np.round(b / (0.05 * ws)).astype(np.int32)
    case("qgemm", q8 + [("com.microsoft::QGemm", "pq ps pz wq ws wz bq", "y", {"transB": 1, "alpha": 0.5})], {"wq": wq, "ws": ws, "wz": wz, "bq": bq},
         head("com.microsoft.QGemm", "y/a", "y"), deq, "y")
    case("qgemm_rounded", q8 + [("com.microsoft::QGemm", "pq ps pz wq ws wz bq ys yz", "zq", {"transB": 1}), ("DequantizeLinear", "zq ys yz", "y")],
         {"wq": wq, "ws": ws, "wz": wz, "bq": bq}, head("com.microsoft.QGemm", "zq/a", "y", tail=["QuantizeLinear", "DequantizeLinear"]), deq, "y", tolerance=0.126)
    case("qlinear_matmul", q8 + [("QLinearMatMul", "pq ps pz wt wts wtz ys yz", "zq"), ("DequantizeLinear", "zq ys yz", "zd"), ("Add", "zd b", "y")],
         {"wt": wt, "wts": wts, "wtz": wtz, "b": b}, head("QLinearMatMul", "zq/a", "y", tail=["QuantizeLinear", "DequantizeLinear"]), deq, "y", tolerance=0.126)
    case("qlinear_matmul_qlinear_add", q8 + [("QLinearMatMul", "pq ps pz wt wts wtz ys yz", "zq"), ("com.microsoft::QLinearAdd", "zq ys yz bq8 bs bz ys yz", "aq"), ("DequantizeLinear", "aq ys yz", "y")],
         {"wt": wt, "wts": wts, "wtz": wtz, "bq8": np.clip(np.round(b / 0.02), -127, 127).astype(np.int8).view(np.uint8) ^ np.uint8(128), "bs": np.float32(0.02), "bz": np.uint8(128)},
         head("QLinearMatMul", "zq/a", "y", tail=["QuantizeLinear", "DequantizeLinear", "QuantizeLinear", "DequantizeLinear"]), deq, "y", tolerance=0.251)
    case("dynamic", [("DynamicQuantizeLinear", "phi", "pq ds dz"), ("MatMulInteger", "pq wu dz wuz", "i"), ("Cast", "i", "f", {"to": 1}), ("Mul", "ds wus", "s"), ("Mul", "f s", "m"), ("Add", "m b", "y")],
         {"wu": wu, "wus": wus, "wuz": wuz, "b": b}, head("MatMulInteger", "i/a", "y", tail=["Cast", "Mul"]),
         lambda get: (get("pq").astype(np.float64) - get("dz")) * get("ds"), "y")
    case("dynamic_to_float", [("DynamicQuantizeLinear", "phi", "pq ds dz"), ("com.microsoft::MatMulIntegerToFloat", "pq wu ds wus dz wuz b", "y")],
         {"wu": wu, "wus": wus, "wuz": wuz, "b": b}, head("com.microsoft.MatMulIntegerToFloat", "y/a", "y"),
         lambda get: (get("pq").astype(np.float64) - get("dz")) * get("ds"), "y")
    case("dynamic_fused", [("com.microsoft::DynamicQuantizeMatMul", "phi wu wus wuz b", "y"), ("DynamicQuantizeLinear", "phi", "pq ds dz")],
         {"wu": wu, "wus": wus, "wuz": wuz, "b": b}, head("com.microsoft.DynamicQuantizeMatMul", "y/a", "y"),
         lambda get: (get("pq").astype(np.float64) - get("dz")) * get("ds"), "y")
    w4 = w[:, :3].reshape(K, 3, 1, 1).copy()
    cq, cs, cz = quantize(w4, axis=0)
    map8 = [("Reshape", "phi s", "p"), ("QuantizeLinear", "p ps pz", "pq")]
    conv = {"s": i64(-1, 3, 1, 2), "cq": cq, "cs": cs, "cz": cz}
    pooled = lambda get: deq(get).mean(axis=(2, 3))
    case("qlinear_conv", map8 + [("QLinearConv", "pq ps pz cq cs cz ys yz bq", "zq"), ("com.microsoft::QLinearGlobalAveragePool", "zq ys yz ys yz", "gq", {"channels_last": 0}),
                                 ("DequantizeLinear", "gq ys yz", "g"), ("Flatten", "g", "y")],
         {**conv, "bq": np.round(b / (0.05 * cs)).astype(np.int32)},
         head("QLinearConv", "zq/x", "y", tail=["QuantizeLinear", "DequantizeLinear", "GlobalAveragePool", "QuantizeLinear", "DequantizeLinear", "Flatten"], d=3), pooled, "y", tolerance=0.251)
    # onnxruntime has ConvInteger for unsigned weights only.
    cu, cus, cuz = quantize(w4, dtype=np.uint8)
    case("conv_integer", [("Reshape", "phi s", "p"), ("DynamicQuantizeLinear", "p", "pq ds dz"), ("ConvInteger", "pq cu dz cuz", "i"), ("Cast", "i", "f", {"to": 1}), ("Mul", "ds cus", "sc"),
                          ("Mul", "f sc", "m"), ("Add", "m b4", "a"), ("GlobalAveragePool", "a", "g"), ("Flatten", "g", "y")],
         {"s": conv["s"], "cu": cu, "cus": cus, "cuz": cuz, "b4": b.reshape(1, K, 1, 1)}, head("ConvInteger", "i/x", "y", tail=["Cast", "Mul", "GlobalAveragePool", "Flatten"], d=3),
         lambda get: ((get("pq").astype(np.float64) - get("dz")) * get("ds")).mean(axis=(2, 3)), "y")
    blocked = rng("blocked")
    m8, sc8, z8 = blocked.integers(0, 16, size=(K, D), dtype=np.uint8), blocked.uniform(0.1, 0.3, size=(K, 2)).astype(np.float32), blocked.integers(0, 16, size=(K, 2), dtype=np.uint8)
    case("dequantized_blocks", [("DequantizeLinear", "m8 sc8 z8", "w", {"axis": 1, "block_size": 3}), ("Gemm", "phi w b", "y", {"transB": 1})],
         {"m8": m8, "sc8": sc8, "z8": z8, "b": b}, head("Gemm", "phi", "y"), "phi", lambda get: get("phi") @ ((m8.astype(np.float64) - z8.repeat(3, axis=1)) * sc8.repeat(3, axis=1)).T + b, opset=21)
    # Four bits in blocks of 16 along K: MatMulNBits wants at least 16.
    b0, w40, b40 = body("four_bits", 40, 5)
    r = rng("four bits")
    packed, blocks = r.integers(0, 256, size=(5, 3, 8), dtype=np.uint8), r.uniform(0.02, 0.1, size=15).astype(np.float32)
    zeros = r.integers(0, 256, size=(5, 2), dtype=np.uint8)
    for name, z in (("four_bits", None), ("four_bits_zeros", zeros)):
        m = model(BODY + [("com.microsoft::MatMulNBits", "phi q s" + (" z" if z is not None else ""), "m", {"K": 40, "N": 5, "bits": 4, "block_size": 16}), ("Add", "m b", "y")],
                  {**b0, "q": packed, "s": blocks, "b": b40, **({"z": z.ravel()} if z is not None else {})})
        found(name, m, head("com.microsoft.MatMulNBits", "phi", "y", d=40, classes=5), "phi", "y")


def scikit_learn():
    """What skl2onnx writes, by hand."""
    r = rng("scikit-learn")
    ml = "ai.onnx.ml::"
    w, b = r.normal(size=(K, 5)).astype(np.float32), r.normal(size=K).astype(np.float32)
    x = lambda get: get("x")
    affine = lambda w, b: lambda get: get("x").astype(np.float64) @ w.T.astype(np.float64) + b

    def classifier(w, b, post, labels=None):
        return (ml + "LinearClassifier", "x", "label scores", {"coefficients": w.ravel().tolist(), "intercepts": b.tolist(), "post_transform": post,
                                                               "multi_class": 0, "classlabels_ints": list(range(labels or len(b)))})

    def case(name, nodes, weights, h, logits, outputs=("label", "y"), phi=x, feed=None, labels=None, **options):
        m = model(nodes, weights, outputs=outputs, **options)
        plain = h["link"] == "softmax" and not any(op.endswith("ZipMap") for op, *_ in nodes) and "y" in outputs and len(nodes) < 4
        found(name, m, h, phi, logits, feed=feed, labels=labels, gives="y" if plain or h["link"] == "sigmoid" and h["tail"][-1] != "Gather" and not name.endswith("raw") else None)

    op = "ai.onnx.ml.LinearClassifier"
    lh = lambda *a, **k: head(op, *a, **{"d": 5, **k})
    case("linear_classifier", [classifier(w, b, "SOFTMAX"), (ml + "Normalizer", "scores", "n", {"norm": "L1"}), (ml + "ZipMap", "n", "y", {"classlabels_int64s": [0, 1, 2, 3]})], {},
         lh("label/features", "label/logits", tail=["Softmax", "Normalizer", "ZipMap"]), affine(w, b))
    named = classifier(w, b, "SOFTMAX")
    named[3].pop("classlabels_ints")
    named[3]["classlabels_strings"] = NAMES
    case("linear_classifier_named", [named, (ml + "ZipMap", "scores", "y", {"classlabels_strings": NAMES})], {}, lh("label/features", "label/logits", tail=["Softmax", "ZipMap"]), affine(w, b), labels=NAMES)
    numbered = classifier(w, b, "SOFTMAX")
    numbered[3]["classlabels_ints"] = [3, 7, 12, 100]
    case("linear_classifier_numbered", [numbered, ("Identity", "scores", "y")], {}, lh("label/features", "label/logits", tail=["Softmax", "Identity"]), affine(w, b), labels=["3", "7", "12", "100"])
    case("names_by_index", [("MatMul", "x wt", "m"), ("Add", "m b", "z"), ("Softmax", "z", "y"), ("ArgMax", "y", "at", {"axis": 1}), (ml + "ArrayFeatureExtractor", "names at", "label")],
         {"wt": w.T.copy(), "b": b, "names": np.array(NAMES, dtype=object)}, head("MatMul", "x", "z", d=5, tail=["Softmax"]), "z", labels=NAMES)
    case("linear_classifier_raw", [classifier(w, b, "NONE"), ("Identity", "scores", "y")], {}, lh("label/features", "y", tail=["Identity"]), affine(w, b))
    case("linear_classifier_one_vs_rest", [classifier(w, b, "LOGISTIC"), (ml + "Normalizer", "scores", "y", {"norm": "L1"})], {},
         lh("label/features", "label/logits", link="one-vs-rest", tail=["Sigmoid", "Normalizer"]), affine(w, b))
    w1, b1 = w[:1], b[:1]
    pair = np.concatenate([-w1, w1]), np.concatenate([-b1, b1])
    case("linear_classifier_binary", [classifier(*pair, "LOGISTIC"), (ml + "Normalizer", "scores", "y", {"norm": "L1"})], {},
         lh("label/features", "label/logits", link="sigmoid", tail=["Sigmoid", "Concat", "Normalizer"], classes=1), affine(w1, b1))
    case("linear_classifier_one_row", [classifier(w1, b1, "LOGISTIC", 2), ("Identity", "scores", "y")], {},
         lh("label/features", "label/logits", link="sigmoid", tail=["Sigmoid", "Concat", "Identity"], classes=1), affine(w1, b1))
    case("linear_classifier_one_row_raw", [classifier(w1, b1, "NONE", 2), ("Identity", "scores", "y")], {}, lh("label/features", "label/logits", link="sigmoid", tail=["Sigmoid", "Concat", "Identity"], classes=1), affine(w1, b1))
    case("linear_classifier_margin", [classifier(*pair, "NONE"), (ml + "ArrayFeatureExtractor", "scores one", "y")], {"one": np.int64(1)},
         lh("label/features", "y", link="sigmoid", tail=["Gather"], classes=1), affine(w1, b1))
    case("linear_classifier_int64", [classifier(w, b, "SOFTMAX"), ("Identity", "scores", "y")], {}, lh("label/features", "label/logits", tail=["Softmax", "Identity"]), affine(w, b), x=(T.INT64, ["N", 5]), feed={"x": r.integers(-3, 4, size=(N, 5))})
    # No operator of the default domain, and no import of it.
    for name, nodes, h in (("ml_alone", [named, (ml + "ZipMap", "scores", "y", {"classlabels_strings": NAMES})], lh("label/features", "label/logits", tail=["Softmax", "ZipMap"])),
                           ("ml_alone_normalised", [(ml + "Scaler", "x", "xs", {"offset": [0.5], "scale": [2.0]}), (*classifier(w, b, "LOGISTIC")[:1], "xs", *classifier(w, b, "LOGISTIC")[2:]), (ml + "Normalizer", "scores", "y", {"norm": "L1"})],
                            lh("label/features", "label/logits", link="one-vs-rest", tail=["Sigmoid", "Normalizer"]))):
        m = model(nodes, {}, outputs=("label", "y"))
        del m.opset_import[:2]
        found(name, m, h, "xs" if "normalised" in name else x, (lambda get: get("xs").astype(np.float64) @ w.T.astype(np.float64) + b) if "normalised" in name else affine(w, b),
              labels=None if "normalised" in name else NAMES)
    m = model([("MatMul", "x wt", "y")], {"wt": w.T.copy()})
    del m.opset_import[:]
    m.opset_import.append(oh.make_opsetid("ai.onnx.ml", 3))
    refused("no_default_domain", m, "does not import them", runs=False)
    refused("linear_classifier_probit", model([classifier(w, b, "PROBIT"), ("Identity", "scores", "y")], {}, outputs=("label", "y")), "ai.onnx.ml.LinearClassifier")
    parts, columns = [], []
    for k in range(K):
        n = classifier(np.stack([-w[k], w[k]]), np.array([-b[k], b[k]]), "LOGISTIC")
        parts.append((n[0], "x", f"label_{k} scores_{k}", n[3]))
        columns.append(("Slice", f"scores_{k} one two one", f"p_{k}"))
    names = " ".join(f"p_{k}" for k in range(K))
    case("linear_classifiers_joined", parts + columns + [("Concat", names, "p", {"axis": 1}), ("LpNormalization", "p", "y", {"axis": 1, "p": 1})], {"one": i64(1), "two": i64(2)},
         head("Concat", "p/features", "p/logits", link="one-vs-rest", tail=["Sigmoid", "LpNormalization"], d=5), affine(w, b), outputs=("y",))
    second = ("Slice", "scores one two one", "p")
    case("linear_classifier_joined_alone", [classifier(*pair, "LOGISTIC"), second, ("Concat", "p", "q", {"axis": 1}), ("Sub", "unit q", "rest"),
         ("Concat", "rest q", "both", {"axis": 1}), ("LpNormalization", "both", "y", {"axis": 1, "p": 1})], {"one": i64(1), "two": i64(2), "unit": np.float32(1)},
         head("Concat", "q/features", "q/logits", link="sigmoid", tail=["Sigmoid", "Concat", "LpNormalization"], d=5, classes=1), affine(w1, b1), outputs=("y",))
    # A layer for each class, as SGDClassifier has it in OneVsRestClassifier.
    layers, weights = [], {"unit": np.float32(1), "one": i64(1), "two": i64(2)}
    for k in range(K):
        layers += [("MatMul", f"x w{k}", f"m{k}"), ("Add", f"m{k} b{k}", f"z{k}"), ("Sigmoid", f"z{k}", f"s{k}"), ("Sub", f"unit s{k}", f"r{k}"),
                   ("Concat", f"r{k} s{k}", f"both{k}", {"axis": 1}), ("Slice", f"both{k} one two one", f"p{k}")]
        weights |= {f"w{k}": w[k:k + 1].T.copy(), f"b{k}": b[k:k + 1]}
    names = " ".join(f"p{k}" for k in range(K))
    each = "+".join(["MatMul"] * K)
    case("layers_of_each_class", layers + [("Concat", names, "p", {"axis": 1}), ("LpNormalization", "p", "y", {"axis": 1, "p": 1})], weights,
         head(each, "x", "p/logits", link="one-vs-rest", tail=["Sigmoid", "LpNormalization"], d=5), affine(w, b), outputs=("y",))
    raw = [layer for layer in layers if layer[0] in ("MatMul", "Add")]
    case("logits_of_each_class", raw + [("Concat", " ".join(f"z{k}" for k in range(K)), "y", {"axis": -1})], {k: v for k, v in weights.items() if k[0] in "wb"},
         head(each, "x", "y", tail=[], d=5), affine(w, b), outputs=("y",))
    case("score_and_its_negative", [*raw[:2], ("Mul", "z0 minus", "n"), ("Concat", "n z0", "s", {"axis": 1}), (ml + "ZipMap", "s", "y", {"classlabels_int64s": [0, 1]})],
         {"w0": weights["w0"], "b0": weights["b0"], "minus": np.float32(-1)}, head("MatMul", "x", "s", tail=["Mul", "ZipMap"], d=5, classes=2), affine(*pair), outputs=("y",))
    other = [("MatMul", "x w0", "m0"), ("Add", "m0 b0", "z0"), ("Relu", "x", "phi"), ("MatMul", "phi w1", "m1"), ("Add", "m1 b1", "z1"), ("Concat", "z0 z1", "y", {"axis": 1})]
    few = {k: weights[k] for k in ("w0", "b0", "w1", "b1")}
    refused("logits_of_other_features", model(other, few), 'Concat "y" stands between')
    refused("two_tasks_side_by_side", model([("MatMul", "x wt", "m"), ("Add", "m b", "z"), ("MatMul", "x wt2", "z2"), ("Concat", "z z2", "y", {"axis": 1})],
            {"wt": w.T.copy(), "b": b, "wt2": w[::-1].T.copy()}), 'Concat "y" stands between')
    case("normalised_by_absolute_values", [("MatMul", "x wt", "m"), ("Add", "m b", "z"), ("Sigmoid", "z", "p"), ("Abs", "p", "a"), ("ReduceSum", "a axis", "n", {"keepdims": 1}),
         ("Div", "p n", "y")], {"wt": w.T.copy(), "b": b, "axis": i64(1)}, head("MatMul", "x", "z", link="one-vs-rest", tail=["Sigmoid", "LpNormalization"], d=5), "z", outputs=("y",))
    terms = {"pool_int64s": [-1, 0, 1], "ngram_counts": [0], "ngram_indexes": [0, 1, 2], "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "mode": "TF"}
    case("naive_bayes_of_terms", [("Cast", "x", "n", {"to": 7}), ("TfIdfVectorizer", "n", "t", terms), ("MatMul", "t wt", "m"), ("Add", "m b", "z"),
         ("ReduceLogSumExp", "z", "e", {"axes": [1], "keepdims": 0}), ("Reshape", "e column", "r"), ("Sub", "z r", "l"), ("Exp", "l", "y")],
         {"wt": w[:, :3].T.copy(), "b": b, "column": i64(-1, 1)}, head("MatMul", "t", "z", tail=["LogSoftmax", "Exp"], d=3), "z", phi="t", outputs=("y",))
    hinge = [("MatMul", "x wt", "m"), ("Add", "m b", "score"), ("Mul", "score minus", "neg"), ("Exp", "neg", "e"), ("Add", "e unity", "e1"), ("Reciprocal", "e1", "p"),
             ("ReduceSum", "p axis", "sum", {"keepdims": 1}), ("Cast", "sum", "some", {"to": 9}), ("Not", "some", "none"), ("Cast", "none", "g", {"to": 1}), ("Add", "p g", "pg"), ("Mul", "g k", "gk"),
             ("Add", "sum gk", "total"), ("Div", "pg total", "y"), ("ArgMax", "y", "label", {"axis": 1})]
    case("sgd_one_vs_rest", hinge, {"wt": w.T.copy(), "b": b, "minus": np.float32(-1), "unity": np.float32(1), "axis": i64(1), "k": np.float32(K)},
         head("MatMul", "x", "score", link="one-vs-rest", tail=["Sigmoid", "LpNormalization"], d=5), "score")


def by_hand():
    """Last layers that people write without thinking of exporters."""
    _, w, b = body("by hand too")
    z = [("Gemm", "phi w b", "z", {"transB": 1})]
    weights = {"w": w, "wt": w.T.copy(), "b": b, "one": i64(1), "last": i64(-1), "tiny": np.float32(1e-12), "eps": np.float32(0.1), "g": rng("gate").normal(size=(D, 1)).astype(np.float32)}

    def made(name, nodes):
        b0, _, _ = body(name)
        return model(BODY + nodes, {**b0, **weights})

    def case(name, nodes, h, logits, gives=None):
        found(name, made(name, nodes), h, "phi", logits, gives=gives)

    case("log_of_softmax", z + [("Softmax", "z", "p"), ("Log", "p", "y")], head("Gemm", "phi", "z", tail=["Softmax", "Log"]), "z", gives="y")
    shifted = [("ReduceMax", "z", "top", {"axes": [1]}), ("Sub", "z top", "s"), ("Exp", "s", "e"), ("ReduceSum", "e one", "n", {"keepdims": 0}), ("Unsqueeze", "n one", "u"),
               ("Log", "u", "l")]
    case("log_softmax_shifted", z + shifted + [("Sub", "s l", "y")], head("Gemm", "phi", "z", tail=["LogSoftmax"]), "z", gives="y")
    case("softmax_by_logarithm", z + [("Exp", "z", "e"), ("ReduceSum", "e one", "n", {"keepdims": 1}), ("Log", "n", "l"), ("Sub", "z l", "s"), ("Exp", "s", "y")],
         head("Gemm", "phi", "z", tail=["LogSoftmax", "Exp"]), "z", gives="y")
    refused("log_softmax_of_two_shifts", made("log_softmax_of_two_shifts", z + shifted + [("Sub", "z l", "y")]), "not linear in any features")
    refused("log_of_smoothed_softmax", made("log_of_smoothed_softmax", z + [("Softmax", "z", "p"), ("Add", "p eps", "q"), ("Log", "q", "y")]), 'Add "q" follows Softmax')
    case("normalised_by_floored_sum", z + [("Sigmoid", "z", "p"), ("ReduceL1", "p", "n", {"axes": [1]}), ("Clip", "n tiny", "f"), ("Shape", "p", "shape"), ("Expand", "f shape", "e"),
         ("Div", "p e", "y")], head("Gemm", "phi", "z", link="one-vs-rest", tail=["Sigmoid", "LpNormalization"]), "z", gives="y")
    refused("normalised_by_high_floor", made("normalised_by_high_floor", z + [("Sigmoid", "z", "p"), ("ReduceL1", "p", "n", {"axes": [1]}), ("Clip", "n eps", "f"), ("Div", "p f", "y")]),
            'Div "y"')
    case("prior_by_log_softmax", [("MatMul", "phi wt", "m"), ("LogSoftmax", "b", "prior", {"axis": 0}), ("Add", "m prior", "y")], head("MatMul", "phi", "y"), "y")
    case("prior_by_softmax", [("MatMul", "phi wt", "m"), ("Softmax", "b", "prior"), ("Add", "m prior", "y")], head("MatMul", "phi", "y"), "y")
    columns = [node for k in range(K) for node in (("Gemm", f"phi w{k} b{k}", f"z{k}", {"transB": 1}), ("Squeeze", f"z{k} last", f"s{k}"), ("Unsqueeze", f"s{k} one", f"u{k}"))]
    rows = {f"w{k}": w[k:k + 1] for k in range(K)} | {f"b{k}": b[k:k + 1] for k in range(K)}
    weights |= rows
    case("stacked_logits_of_each_class", columns + [("Concat", " ".join(f"u{k}" for k in range(K)), "y", {"axis": 1})],
         head("+".join(["Gemm"] * K), "phi", "y", tail=["Squeeze", "Unsqueeze"] * K), "y")
    gate = [("MatMul", "phi g", "gm"), ("Sigmoid", "gm", "gate")]
    gated = lambda get: get("phi") * get("gate")
    found("scaled_by_gate", made("scaled_by_gate", gate + [("MatMul", "phi wt", "m"), ("Mul", "m gate", "y")]), head("MatMul", "phi", "y", bias=False, tail=["Mul"]), gated, "y")
    refused("scaled_with_bias_by_gate", made("scaled_with_bias_by_gate", gate + z + [("Mul", "z gate", "y")]), "scales what the bias has been added to")
    case("column_of_features", [("Unsqueeze", "phi last", "u"), ("MatMul", "w u", "m"), ("Squeeze", "m last", "y")], head("MatMul", "u", "y", bias=False, tail=["Squeeze"]), "y")


def means_under_a_mask():
    """Logits of each position, averaged with weights that add up to 1, as EuroBERT averages them."""
    _, w, b = body("mask")
    weights = {"w": w.T.copy(), "b": b, "position": i64(1), "last": i64(-1), "half": np.float32(0.5), "column": i64(2)}
    steps = (T.FLOAT, ["N", 3, 5])
    mask = [("ReduceSum", "x last", "s", {"keepdims": 0}), ("Exp", "s", "mask")]
    layer = [("MatMul", "phi w", "m"), ("Add", "m b", "z")]
    spread = [("Cast", "mask", "f", {"to": 1}), ("Unsqueeze", "f last", "column_of_mask")]
    product, total = ("Mul", "z column_of_mask", "zm"), ("ReduceSum", "zm position", "t", {"keepdims": 0})
    size, quotient = ("ReduceSum", "mask position", "n", {"keepdims": 1}), ("Div", "t n", "y")
    mean = lambda get: (get("phi") * get("mask")[:, :, None]).sum(1) / get("mask").sum(1, keepdims=True)

    def made(name, nodes):
        b0, _, _ = body(name)
        return model(BODY + nodes, {**b0, **weights}, x=steps)

    feed = {"x": rng("mask").normal(size=(N, 3, 5)).astype(np.float32)}
    for name, nodes in (("mean_under_mask", mask + layer + spread + [product, total, size, quotient]),
                        ("mean_under_mask_first", mask + layer + [("Unsqueeze", "mask column", "column_of_mask"), ("Mul", "column_of_mask z", "zm"), total, size, quotient])):
        found(name, made(name, nodes), head("MatMul", "phi", "y", tail=["Div"]), mean, "y", feed=feed)
    three = [("Unsqueeze", "mask last", "u"), ("Mul", "z u", "zm"), total, ("ReduceSum", "u position", "n", {"keepdims": 0}), quotient]
    found("mean_under_mask_of_rank_3", made("mean_under_mask_of_rank_3", mask + layer + three), head("MatMul", "phi", "y", tail=["Div"]), mean, "y", feed=feed)
    attention = [("ReduceSum", "x last", "s", {"keepdims": 1}), ("Softmax", "s", "a", {"axis": 1})]
    pooled = [("Mul", "a z", "az"), ("ReduceSum", "az position", "y", {"keepdims": 0})]
    found("mean_by_attention", made("mean_by_attention", attention + layer + pooled), head("MatMul", "phi", "y", tail=["ReduceSum"]),
          lambda get: (get("phi") * get("a")).sum(1), "y", feed=feed)
    refused("sum_by_other_softmax", made("sum_by_other_softmax", [attention[0], ("Softmax", "s", "a", {"axis": 2})] + layer + pooled), "not from a linear layer", runs=False)
    for name, nodes in (("sum_over_another_mask", mask + layer + spread + [product, total, ("Mul", "mask half", "other"), ("ReduceSum", "other position", "n", {"keepdims": 1}), quotient]),
                        ("sum_over_positions", mask + layer + spread + [product, total, ("Identity", "t", "y")]),
                        ("sum_over_rounded_mask", mask + [("Cast", "mask", "r", {"to": 7}), ("Cast", "r", "whole", {"to": 1})] + layer + spread +
                         [product, total, ("ReduceSum", "whole position", "n", {"keepdims": 1}), quotient])):
        refused(name, made(name, nodes), "not from a linear layer", runs=False)


def hints():
    """Layers that are suggested where a tail is not recognised."""
    _, w, b = body("hints")

    def hint(name, nodes, weights, reason, nearest):
        b0, _, _ = body(name)
        refused(name, model(BODY + nodes, {**b0, **weights}), reason, nearest=nearest)

    layer = [("MatMul", "phi w", "mm"), ("Add", "mm b", "z")]
    weights = {"w": w.T.copy(), "b": b}
    hint("hint_behind_bias", layer + [("Softplus", "z", "y")], weights, 'Softplus "y" stands between', ["phi z"])
    hint("hint_behind_scale", layer + [("Mul", "z t", "m"), ("Reshape", "m s", "r"), ("Add", "r t", "q"), ("Softplus", "q", "y")],
         {**weights, "t": np.float32(0.5), "s": i64(-1, 1, K)}, 'Softplus "y" stands between', ["phi q"])
    hint("hint_scaled_by_input", layer + [("ReduceSum", "x axis", "t", {"keepdims": 1}), ("Mul", "t z", "m"), ("Softplus", "m", "y")], {**weights, "axis": i64(1)},
         'Softplus "y" stands between', ["phi z"])
    # The gate of squeeze-and-excitation is a layer of the body, and what feeds it too.
    gate = [("Reshape", "phi s", "map"), ("GlobalAveragePool", "map", "squeezed"), ("Conv", "squeezed w1", "c1"), ("Relu", "c1", "r1"), ("Conv", "r1 w2 b2", "c2"),
            ("Sigmoid", "c2", "gate"), ("Mul", "map gate", "scaled")]
    r = rng("gate")
    gates = {"s": i64(-1, 3, 1, 2), "w1": r.normal(size=(2, 3, 1, 1)).astype(np.float32), "w2": r.normal(size=(3, 2, 1, 1)).astype(np.float32), "b2": r.normal(size=3).astype(np.float32)}
    hint("hint_not_the_gate", gate + [("GlobalMaxPool", "scaled", "y")], gates, '"y" comes from GlobalMaxPool "y" and not from a linear layer', [])
    hint("hint_above_the_gate", gate + [("Flatten", "scaled", "flat"), ("Gemm", "flat w b", "z", {"transB": 1}), ("Softplus", "z", "y")], {**gates, "w": w, "b": b},
         'Softplus "y" stands between', ["flat z"])


def softmax_by_hand():
    """Softmax and log-softmax as exporters write them out."""
    _, w, b = body("by hand")
    z = [("Gemm", "phi w b", "z", {"transB": 1})]
    weights = {"w": w, "b": b, "inf": np.float32(-np.inf), "axis": i64(1), "last": i64(-1), "one": np.float32(1), "minus": np.float32(-1), "tiny": np.float32(1e-12),
               "column": i64(-1, 1), "k": i64(K), "t": np.float32(0.5)}

    def case(name, nodes, tail, logits="z", expect=None, opset=17, value=None):
        b0, _, _ = body(name)
        m = model(BODY + z + nodes, {**b0, **weights}, opset=opset)
        found(name, m, head("Gemm", "phi", logits, tail=tail), "phi", value or logits, gives="y" if expect else None)
        if expect:  # the output is what the operators are said to amount to
            feed = {"x": rng(name).normal(size=(N, 5)).astype(np.float32)}
            get = lambda t: run(m, feed, [t])[0]
            a, y = value(get) if value else get(logits), get("y")
            p = np.exp(a - a.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            assert np.allclose(expect(p), y, atol=1e-5), name

    def refuse(name, nodes, reason):
        b0, _, _ = body(name)
        refused(name, model(BODY + z + nodes, {**b0, **weights}), reason)

    same = lambda p: p
    top = ("ReduceMax", "z", "top", {"axes": [1], "keepdims": 0})
    # JAX: the maximum with −∞, then the axis again, spread out; the sum likewise.
    spread = [top, ("Max", "top inf", "m"), ("Reshape", "m column", "mc"), ("Shape", "z", "shape"), ("Expand", "mc shape", "me"), ("Sub", "z me", "s"), ("Exp", "s", "e")]
    case("softmax_jax", spread + [("ReduceSum", "e axis", "sum", {"keepdims": 0}), ("Reshape", "sum column", "sc"), ("Expand", "sc shape", "se"), ("Div", "e se", "y")],
         ["Softmax"], expect=same)
    case("softmax_transposed", [("Transpose", "z", "zt"), ("Softmax", "zt", "pt", {"axis": 0}), ("Transpose", "pt", "y")], ["Transpose", "Softmax", "Transpose"], expect=same)

    # Naive Bayes of Bernoulli variables, as skl2onnx writes it: a sum over constants stands in front, that over the classes has
    # lost its axis, and ranks are not known.
    weights.update(logs=rng("logs").normal(size=(D, K)).astype(np.float32), axis0=i64(0))
    case("softmax_behind_constant_sum", [("ReduceSum", "logs axis0", "ls", {"keepdims": 1}), ("Add", "z ls", "joint"), ("ReduceLogSumExp", "joint", "lse", {"axes": [1], "keepdims": 0}),
                                         ("Reshape", "lse column", "lc"), ("Sub", "joint lc", "l"), ("Exp", "l", "y")], ["Add", "LogSoftmax", "Exp"], logits="joint", expect=same)

    # What looks like it.
    other = [("ReduceSum", "e last", "sum", {"keepdims": 1})]
    refuse("softmax_of_another_sum", spread + [("Exp", "z", "e2"), ("ReduceSum", "e2 last", "sum", {"keepdims": 1}), ("Div", "e sum", "y")], "Div")
    weights.update(first=i64(0))
    refuse("softmax_over_examples", [("Exp", "z", "e"), ("ReduceSum", "e first", "sum", {"keepdims": 1}), ("Div", "e sum", "y")], "Div")
    refuse("softmax_squared", spread + other + [("Mul", "sum sum", "s2"), ("Div", "e s2", "y")], "Div")
    refuse("softmax_max_that_cuts", [("Max", "z one", "m"), ("Exp", "m", "e")] + other + [("Div", "e sum", "y")], 'Max "m" stands between')
    refuse("softmax_with_another_class", spread + other + [("Add", "sum one", "more"), ("Div", "e more", "y")], "Div")

    p = [("Softmax", "z", "p", {"axis": 1})]
    weights.update(views=i64(1, -1, K))
    refuse("averaged", [("Reshape", "z views", "v"), ("Softmax", "v", "p", {"axis": 2}), ("ReduceMean", "p", "y", {"axes": [1], "keepdims": 0})], "let it average the logits")
    refuse("averaged_passes", p + [("Gemm", "bo w b", "z2", {"transB": 1}), ("Softmax", "z2", "p2", {"axis": 1}), ("Add", "p p2", "pp"), ("Mul", "pp t", "y")], "let it average the logits")


def unsupported():
    """Linear, or next to it, and written by no exporter: each is refused, and the layers that may be named are suggested."""
    _, w, b = body("unsupported")
    gemm = {"transB": 1}
    z, p = ("Gemm", "phi w b", "z", gemm), ("Softmax", "z", "p", {"axis": 1})
    weights = {"w": w, "b": b, "w1": w[:1], "b1": b[:1], "w3": w[1:], "b3": b[1:], "w1t": w[:1].T.copy(), "axis": i64(1), "last": i64(-1), "minus": np.float32(-1), "two": np.float32(2),
               "c": w[None], "smoothing": np.float32(0.9), "thresholds": np.sort(b).astype(np.float32), "nt": i64(-1, 2, 3), "wd": w.T[:3].copy(), "at": np.int64(-1), "one": np.float32(1)}

    def refuse(name, nodes, reason, nearest):
        b0, _, _ = body(name)
        refused(name, model(BODY + nodes, {**b0, **weights}), reason, nearest=nearest)

    refuse("unsupported_distance", [("Unsqueeze", "phi axis", "p3"), ("Sub", "p3 c", "diff"), ("Pow", "diff two", "sq"), ("ReduceSum", "sq last", "dist", {"keepdims": 0}), ("Neg", "dist", "y")],
           "nearest x and bo (MatMul", ["x bo"])
    refuse("unsupported_classes_of_two_layers", [("Gemm", "phi w1 b1", "z1", gemm), ("Gemm", "phi w3 b3", "z3", gemm), ("Concat", "z1 z3", "y", {"axis": 1})],
           'Concat "y" stands between the linear layer Gemm "z1" and "y"', ["phi z1", "phi z3"])
    refuse("unsupported_thresholds", [("MatMul", "phi w1t", "m"), ("Add", "m thresholds", "zz"), ("Sigmoid", "zz", "y")], "does not fit logits of shape", [])
    refuse("unsupported_time_first", [("Reshape", "phi nt", "s0"), ("Transpose", "s0", "s", {"perm": [1, 0, 2]}), ("MatMul", "s wd", "m"), ("Add", "m b", "zt"), ("Gather", "zt at", "y", {"axis": 0})],
           'Gather "y" selects from', [])
    refuse("unsupported_smoothing", [z, p, ("Mul", "p smoothing", "y")], 'Mul "y" follows Softmax', ["phi z"])
    refuse("unsupported_negative_log", [z, ("LogSoftmax", "z", "l", {"axis": 1}), ("Neg", "l", "y")], 'Neg "y"', ["phi z"])
    refuse("unsupported_other_order", [("Gemm", "phi w1 b1", "z", gemm), ("Sigmoid", "z", "p"), ("Sub", "one p", "q"), ("Concat", "p q", "y", {"axis": 1})],
           'Concat "y" stands between the linear layer Gemm "z" and "y"', ["phi z"])
    refuse("unsupported_softmax", [z, ("Exp", "z", "e"), ("ReduceSum", "e axis", "sum", {"keepdims": 1}), ("Log", "sum", "ls"), ("Exp", "ls", "back"), ("Div", "e back", "y")], 'Div "y"', ["phi z"])


def steps():
    """Logits for each of T = 2 steps, or each pixel of a map of 1 × 2."""
    _, w, b = body("steps")
    w, b1 = w[:, :3].copy(), b[:1].copy()
    gemm = {"transB": 1}
    weights = {"w": w, "wt": w.T.copy(), "w4": w.reshape(K, 3, 1, 1), "b": b, "one": w[:1].T.copy(), "b1": b1, "s": i64(-1, 2, 3), "rows": i64(-1, 3),
               "classes": i64(-1, 4), "apart": i64(-1, 2, 4), "map": i64(-1, 3, 1, 2), "line": i64(0, 4, 2), "last": i64(2), "mixed": i64(-1, 2, 4)}
    rows = lambda name, axis=-1: lambda get: np.moveaxis(get(name), axis, -1).reshape(N * 2, -1)

    def case(name, nodes, h, phi, logits, axes=1, options=None, **more):
        b0, _, _ = body(name)
        m = model(BODY + nodes, {**b0, **weights, **more})
        found(name, m, {**h, "steps": axes}, phi, logits, options, n=N * 2)

    tokens, linear = ("Reshape", "phi s", "p"), ("MatMul", "p wt", "l")
    layer = lambda logits, tail=(), bias=False: head("MatMul", "p", logits, bias=bias, tail=tail, d=3)
    case("steps", [tokens, ("MatMul", "p wt", "m"), ("Add", "m b", "y")], layer("y", bias=True), rows("p"), rows("y"))
    case("steps_softmax", [tokens, linear, ("Softmax", "l", "y", {"axis": -1})], layer("l", ["Softmax"]), rows("p"), rows("l"))
    case("steps_argmax", [tokens, linear, ("ArgMax", "l", "y", {"axis": 2, "keepdims": 0})], layer("l", ["ArgMax"]), rows("p"), rows("l"))
    case("steps_merged", [tokens, linear, ("Reshape", "l classes", "y")], layer("y", ["Reshape"]), rows("p"), "y")
    case("steps_merged_and_apart", [tokens, linear, ("Reshape", "l classes", "f"), ("Reshape", "f apart", "y")], layer("y", ["Reshape", "Reshape"]), rows("p"), rows("y"))
    case("steps_of_rows", [("Reshape", "phi rows", "p"), ("Gemm", "p w b", "l", gemm), ("Reshape", "l apart", "y")], head("Gemm", "p", "y", tail=["Reshape"], d=3), "p", rows("y"))
    case("steps_time_first", [tokens, ("Transpose", "p", "q", {"perm": [1, 0, 2]}), ("MatMul", "q wt", "l"), ("Transpose", "l", "y", {"perm": [1, 0, 2]})],
         head("MatMul", "q", "y", bias=False, tail=["Transpose"], d=3), rows("p"), rows("y"))
    case("steps_classes_first", [tokens, linear, ("Transpose", "l", "y", {"perm": [0, 2, 1]})], layer("y", ["Transpose"]), rows("p"), rows("y", 1))
    case("steps_one_logit", [tokens, ("MatMul", "p one", "m"), ("Add", "m b1", "l"), ("Squeeze", "l last", "q"), ("Sigmoid", "q", "y")],
         {**layer("l", ["Squeeze", "Sigmoid"], bias=True), "classes": 1, "link": "sigmoid"}, rows("p"), rows("l"))
    case("steps_one_logit_gathered", [tokens, ("MatMul", "p one", "m"), ("Add", "m b1", "l"), ("Gather", "l first", "y", {"axis": 2})],
         {**layer("l", ["Gather"], bias=True), "classes": 1, "link": "sigmoid"}, rows("p"), rows("l"), first=np.int64(0))
    added = [tokens, linear, ("MatMul", "p v", "m"), ("Add", "l m", "y")]
    case("steps_added", added, {**layer("y"), "op": "MatMul+MatMul"}, rows("p"), rows("y"), v=w[::-1].T.copy())
    conv = [("Reshape", "phi map", "p"), ("Conv", "p w4 b", "l")]
    pixels = lambda logits, tail=(): head("Conv", "p", logits, tail=tail, d=3)
    case("steps_of_map", conv + [("Softmax", "l", "y", {"axis": 1})], pixels("l", ["Softmax"]), rows("p", 1), rows("l", 1), axes=2)
    case("steps_of_map_turned", conv + [("Transpose", "l", "t", {"perm": [0, 2, 3, 1]}), ("Softmax", "t", "y")], pixels("t", ["Transpose", "Softmax"]), rows("p", 1), rows("t"), axes=2)
    case("steps_of_map_flattened", conv + [("Reshape", "l line", "y")], pixels("y", ["Reshape"]), rows("p", 1), rows("y", 1))
    swapped = [("Transpose", "l", "t", {"perm": [0, 3, 2, 1]}), ("Softmax", "t", "q", {"axis": 3}), ("Transpose", "q", "y", {"perm": [0, 3, 2, 1]})]
    case("steps_of_map_softmax_swapped", conv + swapped, pixels("l", ["Transpose", "Softmax", "Transpose"]), rows("p", 1), rows("l", 1), axes=2)
    behind = {"steps_swapped_behind": conv + [("Softmax", "l", "q", {"axis": 1}), ("Transpose", "q", "y", {"perm": [0, 1, 3, 2]})],
              "steps_picked_swapped": conv + [("ArgMax", "l", "q", {"axis": 1, "keepdims": 0}), ("Transpose", "q", "y", {"perm": [0, 2, 1]})],
              "steps_time_first_softmax": [tokens, ("Transpose", "p", "q", {"perm": [1, 0, 2]}), ("MatMul", "q wt", "l"), ("Softmax", "l", "r", {"axis": -1}),
                                           ("Transpose", "r", "y", {"perm": [1, 0, 2]})]}
    for name, nodes in behind.items():
        b0, _, _ = body(name)
        refused(name, model(BODY + nodes, {**b0, **weights}), "mixes the steps")
    b0, _, _ = body("steps_added_of_example")
    of_all = [tokens, linear, ("ReduceMean", "p", "q", {"axes": [1], "keepdims": 1}), ("MatMul", "q wt", "m"), ("Add", "l m", "y")]
    refused("steps_added_of_example", model(BODY + of_all, {**b0, **weights}), "adds logits of shapes", nearest=None)
    # A mean over steps whose number is open, of which there is one.
    b0, one, bias = body("mean_of_one_step", D, 1)
    found("mean_of_one_step", model(BODY + [("Reshape", "phi open", "p"), ("MatMul", "p one", "m"), ("Add", "m b1", "l"), ("Squeeze", "l last", "q"), ("Sigmoid", "q", "r"),
                                            ("ReduceMean", "r", "y", {"axes": [1], "keepdims": 0})], {**b0, "one": one.T.copy(), "b1": bias, "open": i64(0, -1, 6), "last": i64(2)}),
          head("MatMul", "p", "l", link="sigmoid", tail=["Squeeze", "Sigmoid", "ReduceMean"], classes=1), "p", "l")
    b0, _, _ = body("steps_flat")
    refused("steps_flat", model(BODY + [tokens, ("MatMul", "p one", "l"), ("Sigmoid", "l", "q"), ("Reshape", "q flat", "y")], {**b0, **weights, "flat": i64(-1)}), "has no axes for examples and steps")
    b0, _, _ = body("steps_first")
    refused("steps_first", model(BODY + [tokens, ("Transpose", "p", "q", {"perm": [1, 0, 2]}), ("MatMul", "q wt", "y")], {**b0, **weights}), "with another axis than that of the examples first")
    b0, _, _ = body("steps_mixed")
    refused("steps_mixed", model(BODY + conv + [("Reshape", "l mixed", "y")], {**b0, **weights}), "which is not one row of logits for each example", nearest=[])
    b0, _, _ = body("steps_first_of_probabilities")
    refused("steps_first_of_probabilities", model(BODY + [tokens, linear, ("Softmax", "l", "q", {"axis": -1}), ("Gather", "q last0", "y", {"axis": 1})], {**b0, **weights, "last0": np.int64(0)}),
            'Gather "y" follows Softmax', nearest=[])


def several():
    """An output for each class, and examples along another axis."""
    _, w, b = body("several")
    weights = {"w": w, "b": b, "axis": i64(1), "first": i64(0)}

    def case(name, nodes, h, logits, phi="phi", outputs=("y",), **kw):
        b0, _, _ = body(name)
        found(name, model(BODY + nodes, {**b0, **weights}, outputs=outputs), h, phi, logits, gives=outputs[0], **kw)

    def refuse(name, nodes, reason, outputs=("y",)):
        b0, _, _ = body(name)
        refused(name, model(BODY + nodes, {**b0, **weights}, outputs=outputs), reason)

    # One output for each class, as with zipmap="columns".
    columns = [("Gemm", "phi w b", "z", {"transB": 1}), ("Softmax", "z", "p", {"axis": 1})]
    names = tuple(f"i{k}" for k in range(K))
    gathered = columns + [("ai.onnx.ml::ArrayFeatureExtractor", f"p n{k}", f"a{k}") for k in range(K)] + [("Reshape", f"a{k} flat", f"i{k}") for k in range(K)]
    weights.update({f"n{k}": i64(k) for k in range(K)}, flat=i64(-1))
    case("columns_gathered", gathered, head("Gemm", "phi", "z", tail=["Softmax", "Gather", "Reshape"]), "z", outputs=names)
    refuse("columns_in_another_order", gathered, "give the probabilities of some classes", outputs=("i1", "i0", "i2", "i3"))
    refuse("columns_some", gathered, "give the probabilities of some classes", outputs=("i0", "i1", "i2"))
    refuse("columns_one", columns + [("Gather", "p first", "y", {"axis": 1})], "give the probabilities of some classes")
    two = [("Gemm", "phi w2d", "z", {"transB": 1}), ("Softmax", "z", "p", {"axis": 1}), ("Slice", "p axis stop axis", "y")]
    weights.update(w2d=w[:2], stop=i64(2))
    case("columns_of_two", two, head("Gemm", "phi", "z", bias=False, tail=["Softmax", "Slice"], classes=2), "z")

    weights.update(wt=w.T.copy())
    case("time_first_only", [("Unsqueeze", "phi first", "s"), ("MatMul", "s wt", "m"), ("Add", "m b", "zt"), ("Squeeze", "zt first", "y")], head("MatMul", "s", "y", tail=["Squeeze"]), "y", phi=lambda get: get("s")[0])


if __name__ == "__main__":
    plain()
    softmax_by_hand()
    unsupported()
    steps()
    several()
    by_hand()
    means_under_a_mask()
    hints()
    quantised()
    scikit_learn()
    with open(os.path.join(here, "golden.json"), "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(g) for g in golden) + "\n]\n")
    print(len(golden), "fixtures")
