#!/usr/bin/env python3
"""Writes the model files of this folder, one for each form a classifier's last layers take, and golden.json beside them.

Made with Python 3.11, torch 1.13.0 (Debian's python3-torch, TorchScript exporter), onnx 1.17.0 and numpy 1.24.2:

    python3 -m venv --system-site-packages venv && venv/bin/pip install onnx==1.17.0 && venv/bin/python generate.py

golden.json holds for each file either what must be found, with features and logits of a sample input computed by onnx's
reference evaluator (which knows nothing of how heads are found), or a part of the reason why it is refused.
"""

import io
import json
import os
import warnings

import onnx  # before torch: Debian's torch brings older onnx messages of its own
from onnx import TensorProto as T, helper as oh, numpy_helper as nh
from onnx.reference import ReferenceEvaluator
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
here = os.path.dirname(os.path.abspath(__file__))
golden = []
N, D, K = 3, 6, 4  # examples, features and classes, unless a fixture needs others


def rng(name):
    return np.random.default_rng(list(name.encode()))


def numbers(a):
    return [float("%.9g" % x) for x in np.asarray(a, dtype=np.float64).ravel()]


def found(name, model, feed, head, phi=None, options=None):
    """Writes a model whose head must be found.

    head: op, features, logits, d, classes, bias, link, tail, and steps, the axes of these. phi turns the value of the
    features tensor into [N,d], and with steps that of the logits too.
    """
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    have = {o.name for o in watched.graph.output}
    several = head["features"].split(",")
    for t in dict.fromkeys([*several, head["logits"]]):
        if t not in have:
            watched.graph.output.append(oh.make_empty_tensor_value_info(t))
    *features, logits = ReferenceEvaluator(watched).run([*several, head["logits"]], feed)
    features = np.concatenate(features, axis=1) if len(several) > 1 else features[0]
    features = np.asarray(phi(features) if phi else features, dtype=np.float64)
    if "steps" in head:  # rows of all steps
        logits = phi(logits)
    n = features.shape[0]
    assert features.shape == (n, head["feature_dim"]), (name, features.shape)
    logits = np.asarray(logits, dtype=np.float64).reshape(n, -1)
    assert logits.shape == (n, head["classes"]), (name, logits.shape)
    write(name, model)
    golden.append({"file": name + ".onnx", "options": options or {}, "head": head,
                   "inputs": {k: {"type": v.dtype.name, "shape": list(v.shape), "data": numbers(v)} for k, v in feed.items()},
                   "examples": n, "phi": numbers(features), "logits": numbers(logits)})


def refused(name, model, reason, options=None):
    """Writes a model that has no head, or none that is certain."""
    write(name, model)
    golden.append({"file": name + ".onnx", "options": options or {}, "refused": reason})


def write(name, model):
    with open(os.path.join(here, name + ".onnx"), "wb") as f:
        f.write(model.SerializeToString())


def head(op, features, logits, bias=True, link="softmax", tail=(), d=D, classes=K):
    return {"op": op, "features": features, "logits": logits, "feature_dim": d, "classes": classes, "bias": bias, "link": link, "tail": list(tail)}


# ---- exported by PyTorch ----

def export(name, net, x, opset=13, **options):
    torch.manual_seed(sum(name.encode()))
    for p in net.parameters():
        nn.init.normal_(p)
    net.eval()
    f = io.BytesIO()
    torch.onnx.export(net, x, f, opset_version=opset, input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "N"}, "y": {0: "N"}}, **options)
    return onnx.load_model_from_string(f.getvalue()), {"x": x.numpy()}


class Net(nn.Module):
    """The given function behind a body of one layer and ReLU."""

    def __init__(self, then, width=D, **layers):
        super().__init__()
        self.body = nn.Linear(5, width)
        self.then = then
        for k, v in layers.items():
            setattr(self, k, v)

    def forward(self, x):
        return self.then(self, F.relu(self.body(x)))


def vectors(name, shape=(N, 5)):
    return torch.tensor(rng(name).normal(size=shape).astype(np.float32))


def torch_fixtures():
    def case(name, net, shape, h, phi=None, opset=13, **options):
        m, feed = export(name, net, vectors(name, shape), opset, **options)
        f = h.pop("features", None)
        if callable(f):
            h["features"] = f(m)
        else:
            h["features"] = f
        found("torch_" + name, m, feed, h, phi)

    def features_of(op, i=0):
        return lambda m: [n for n in m.graph.node if n.op_type == op][-1].input[i]

    def output_of(m, op):
        return [n for n in m.graph.node if n.op_type == op][-1].output[0]

    for opset in (7, 9, 11, 13, 15, 17):
        case(f"linear_opset{opset}", Net(lambda s, x: s.fc(x), fc=nn.Linear(D, K)), (N, 5),
             head("Gemm", features_of("Gemm"), "y"), opset=opset)
    case("large", Net(lambda s, x: s.fc(x), width=40, fc=nn.Linear(40, 20)), (N, 5),
         head("Gemm", features_of("Gemm"), "y", d=40, classes=20))
    case("nobias", Net(lambda s, x: s.fc(x), fc=nn.Linear(D, K, bias=False)), (N, 5),
         head("MatMul", features_of("MatMul"), "y", bias=False))
    case("nofold", Net(lambda s, x: s.fc(x), fc=nn.Linear(D, K, bias=False)), (N, 5),
         head("MatMul", features_of("MatMul"), "y", bias=False), do_constant_folding=False)
    case("temperature", Net(lambda s, x: s.fc(x) / 1.5, fc=nn.Linear(D, K)), (N, 5),
         head("Gemm", features_of("Gemm"), "y", tail=["Div"]))
    case("keep_initializers", Net(lambda s, x: s.fc(x), fc=nn.Linear(D, K)), (N, 5),
         head("Gemm", features_of("Gemm"), "y"), keep_initializers_as_inputs=True)

    tied = nn.Linear(D, D)
    case("tied", Net(lambda s, x: s.b(F.relu(s.a(x))), a=tied, b=tied), (N, 5),
         head("Gemm", features_of("Gemm"), "y", classes=D))

    m, feed = export("softmax", Net(lambda s, x: F.softmax(s.fc(x), -1), fc=nn.Linear(D, K)), vectors("softmax"))
    found("torch_softmax", m, feed, head("Gemm", features_of("Gemm")(m), output_of(m, "Gemm"), tail=["Softmax"]))
    m, feed = export("logsoftmax", Net(lambda s, x: F.log_softmax(s.fc(x), 1), fc=nn.Linear(D, K)), vectors("logsoftmax"), opset=11)
    found("torch_logsoftmax", m, feed, head("Gemm", features_of("Gemm")(m), output_of(m, "Gemm"), tail=["LogSoftmax"]))
    m, feed = export("binary", Net(lambda s, x: torch.sigmoid(s.fc(x).squeeze(-1)), fc=nn.Linear(D, 1)), vectors("binary"))
    found("torch_binary", m, feed, head("Gemm", features_of("Gemm")(m), output_of(m, "Gemm"), link="sigmoid", tail=["Squeeze", "Sigmoid"], classes=1))
    m, feed = export("multilabel", Net(lambda s, x: torch.sigmoid(s.fc(x)), fc=nn.Linear(D, K)), vectors("multilabel"))
    found("torch_multilabel", m, feed, head("Gemm", features_of("Gemm")(m), output_of(m, "Gemm"), link="sigmoid", tail=["Sigmoid"]))
    m, feed = export("argmax", Net(lambda s, x: s.fc(x).argmax(1), fc=nn.Linear(D, K)), vectors("argmax"))
    found("torch_argmax", m, feed, head("Gemm", features_of("Gemm")(m), output_of(m, "Gemm"), tail=["ArgMax"]))

    # Three-dimensional inputs: a linear layer on tokens, of which one is taken or all are averaged afterwards.
    m, feed = export("token", Net(lambda s, x: s.fc(x)[:, 1], fc=nn.Linear(D, K)), vectors("token", (N, 7, 5)))
    found("torch_token", m, feed, head("MatMul", features_of("MatMul")(m), "y", tail=["Gather"]), phi=lambda a: a[:, 1])
    m, feed = export("tokens_mean", Net(lambda s, x: s.fc(x).mean(1), fc=nn.Linear(D, K)), vectors("tokens_mean", (N, 7, 5)))
    found("torch_tokens_mean", m, feed, head("MatMul", features_of("MatMul")(m), "y", tail=["ReduceMean"]), phi=lambda a: a.mean(1))
    m, feed = export("tokens_nofold", Net(lambda s, x: s.fc(x)[:, 0], fc=nn.Linear(D, K)), vectors("tokens_nofold", (N, 7, 5)), do_constant_folding=False)
    found("torch_tokens_nofold", m, feed, head("MatMul", features_of("MatMul")(m), "y", tail=["Gather"]), phi=lambda a: a[:, 0])
    m, feed = export("tokens", Net(lambda s, x: s.fc(x), fc=nn.Linear(D, K)), vectors("tokens", (N, 7, 5)))
    found("torch_tokens", m, feed, {**head("MatMul", features_of("MatMul")(m), "y"), "steps": 1}, phi=lambda a: a.reshape(-1, a.shape[-1]))

    # Convolutional heads.
    class Conv(nn.Module):
        def __init__(self, then):
            super().__init__()
            self.body, self.fc, self.then = nn.Conv2d(2, D, 3), nn.Conv2d(D, K, 1), then

        def forward(self, x):
            return self.then(self.fc, F.relu(self.body(x)))

    image = lambda name: vectors(name, (2, 2, 6, 6))
    m, feed = export("conv_pool", Conv(lambda fc, x: F.adaptive_avg_pool2d(fc(x), 1).flatten(1)), image("conv_pool"))
    found("torch_conv_pool", m, feed, head("Conv", features_of("Conv")(m), "y", tail=["GlobalAveragePool", "Flatten"]), phi=lambda a: a.mean((2, 3)))
    m, feed = export("pool_conv", Conv(lambda fc, x: fc(F.adaptive_avg_pool2d(x, 1)).flatten(1)), image("pool_conv"))
    found("torch_pool_conv", m, feed, head("Conv", features_of("Conv")(m), "y", tail=["Flatten"]), phi=lambda a: a[:, :, 0, 0])
    m, feed = export("conv_mean", Conv(lambda fc, x: F.softmax(fc(x).mean((2, 3)), 1)), image("conv_mean"))
    found("torch_conv_mean", m, feed, head("Conv", features_of("Conv")(m), output_of(m, "ReduceMean"), tail=["ReduceMean", "Softmax"]), phi=lambda a: a.mean((2, 3)))
    m, feed = export("squeezenet", Conv(lambda fc, x: F.adaptive_avg_pool2d(F.relu(fc(x)), 1).flatten(1)), image("squeezenet"))
    refused("torch_squeezenet", m, 'Relu "/Relu_1" stands between the linear layer Conv "/fc/Conv"')
    m, feed = export("conv_map", Conv(lambda fc, x: fc(x)), image("conv_map"))
    found("torch_conv_map", m, feed, {**head("Conv", features_of("Conv")(m), "y"), "steps": 2}, phi=lambda a: np.moveaxis(a, 1, -1).reshape(-1, a.shape[1]))
    m, feed = export("conv_maxpool", Conv(lambda fc, x: F.adaptive_max_pool2d(fc(x), 1).flatten(1)), image("conv_maxpool"))
    refused("torch_conv_maxpool", m, 'MaxPool "/MaxPool" stands between')

    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.fc = nn.Conv2d(2, 3, 3), nn.Linear(3 * 16, K)

        def forward(self, x):
            x = F.relu(self.body(x))
            return self.fc(x.view(x.size(0), -1))

    m, feed = export("view", Flat(), image("view"))
    found("torch_view", m, feed, head("Gemm", features_of("Gemm")(m), "y", d=48))

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.fc = nn.Conv2d(2, 3, 3), nn.Conv2d(3, K, 4)

        def forward(self, x):
            return F.softmax(self.fc(F.relu(self.body(x))).flatten(1), 1)

    m, feed = export("conv_whole", Whole(), image("conv_whole"))
    found("torch_conv_whole", m, feed, head("Conv", features_of("Conv")(m), output_of(m, "Flatten"), d=48, tail=["Flatten", "Softmax"]), phi=lambda a: a.reshape(len(a), -1))

    class WeightNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.fc = nn.Linear(5, D), nn.utils.weight_norm(nn.Linear(D, K))

        def forward(self, x):
            return self.fc(F.relu(self.body(x)))

    m, feed = export("weight_norm", WeightNorm(), vectors("weight_norm"), do_constant_folding=False)
    gemm = [n for n in m.graph.node if n.op_type == "Gemm"][-1]
    found("torch_weight_norm", m, feed, head("Gemm", gemm.input[0], "y"))

    class Cosine(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.w = nn.Linear(5, D), nn.Parameter(torch.zeros(K, D))

        def forward(self, x):
            return 16 * F.linear(F.normalize(F.relu(self.body(x))), F.normalize(self.w))

    m, feed = export("cosine", Cosine(), vectors("cosine"), do_constant_folding=False)
    found("torch_cosine", m, feed, head("MatMul", features_of("MatMul")(m), "y", bias=False, tail=["Mul"]))

    class Distilled(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.fa, self.fb = nn.Linear(5, D), nn.Linear(5, D), nn.Linear(D, K), nn.Linear(D, K)

        def forward(self, x):
            return (self.fa(F.relu(self.a(x))) + self.fb(F.relu(self.b(x)))) / 2

    m, feed = export("distilled", Distilled(), vectors("distilled"))
    found("torch_distilled", m, feed, head("Gemm+Gemm", "/Relu_output_0,/Relu_1_output_0", "y", d=2 * D, tail=["Div"]))


# ---- written by hand after other exporters ----

def model(nodes, weights=(), x=(T.FLOAT, ["N", 5]), outputs=None, opset=13, ir=None, extra=(), domains=(), functions=(), y=T.FLOAT):
    """One model with the input x. Nodes are (op, inputs, outputs, attributes); weights is a dict of arrays or tensors."""
    made = []
    for n in nodes:
        if isinstance(n, onnx.NodeProto):
            made.append(n)
            continue
        op, ins, outs, *attrs = n
        domain, _, op = op.rpartition("::")
        made.append(oh.make_node(op, ins.split(), outs.split(), domain=domain, **(attrs[0] if attrs else {})))
    inits = [v if isinstance(v, onnx.TensorProto) else nh.from_array(np.asarray(v), k) for k, v in dict(weights).items()]
    outs = [oh.make_tensor_value_info(o, y, None) if isinstance(o, str) else o for o in (outputs or ["y"])]
    graph = oh.make_graph(made, "g", [oh.make_tensor_value_info("x", x[0], x[1]), *extra], outs, inits)
    m = oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset), *[oh.make_opsetid(d, 1) for d in domains]], functions=functions)
    m.ir_version = ir or 8
    m.producer_name = "by hand"
    known = {o.name: o for o in onnx.shape_inference.infer_shapes(m).graph.output}
    for o in m.graph.output:
        o.CopyFrom(known[o.name])
    return m


def body(name, width=D, dtype=np.float32, k=K):
    """Weights: a body of one layer, and a head's W [K,d] and b [K]."""
    r = rng(name)
    a = lambda *s: r.normal(size=s).astype(dtype)
    return {"bw": a(5, width), "bb": a(width)}, a(k, width), a(k)


BODY = [("Gemm", "x bw bb", "bo"), ("Relu", "bo", "phi")]


def feed(name, shape=(N, 5), dtype=np.float32):
    return {"x": rng(name + "/x").normal(size=shape).astype(dtype)}


def hand_fixtures():
    def case(name, nodes, weights, h, phi=None, options=None, **kw):
        shape = kw.pop("shape", (N, 5))
        m = model(BODY + nodes if kw.pop("body", True) else nodes, weights, **kw)
        found(name, m, feed(name, shape, np.float32), h, phi, options)

    def refuse(name, nodes, weights, reason, options=None, **kw):
        refused(name, model(BODY + nodes if kw.pop("body", True) else nodes, weights, **kw), reason, options)

    gemm = lambda **a: [("Gemm", "phi w b", "y", a)]
    g = lambda **kw: head("Gemm", "phi", "y", **kw)

    # Gemm in all its forms.
    b0, w, b = body("gemm")
    case("gemm", gemm(), {**b0, "w": w.T, "b": b}, g())
    case("gemm_transB", gemm(transB=1), {**b0, "w": w, "b": b}, g())
    case("gemm_transA", [("Transpose", "phi", "phit", {"perm": [1, 0]}), ("Gemm", "phit w b", "y", {"transA": 1})],
         {**b0, "w": w.T, "b": b}, head("Gemm", "phit", "y"), phi=lambda a: a.T)
    case("gemm_transAB", [("Transpose", "phi", "phit"), ("Gemm", "phit w b", "y", {"transA": 1, "transB": 1})],
         {**b0, "w": w, "b": b}, head("Gemm", "phit", "y"), phi=lambda a: a.T)
    case("gemm_left", [("Gemm", "w phi b", "yt", {"transB": 1}), ("Transpose", "yt", "y", {"perm": [1, 0]})],
         {**b0, "w": w, "b": b.reshape(K, 1)}, g(tail=["Transpose"]))
    case("gemm_left_transA", [("Transpose", "phi", "phit"), ("Gemm", "w phit", "yt", {"transA": 1}), ("Transpose", "yt", "y")],
         {**b0, "w": w.T}, head("Gemm", "phit", "y", bias=False, tail=["Transpose"]), phi=lambda a: a.T)
    refuse("gemm_left_untransposed", [("Gemm", "w phi", "y", {"transB": 1})], {**b0, "w": w}, "not one row of 4 logits for each example")
    case("gemm_alpha_beta", gemm(alpha=0.5, beta=2.0, transB=1), {**b0, "w": w, "b": b}, g())
    case("gemm_beta0", gemm(beta=0.0, transB=1), {**b0, "w": w, "b": b}, g(bias=False))
    case("gemm_no_bias", [("Gemm", "phi w", "y", {"transB": 1})], {**b0, "w": w}, g(bias=False))
    case("gemm_bias_row", gemm(transB=1), {**b0, "w": w, "b": b.reshape(1, K)}, g())
    case("gemm_bias_one", gemm(transB=1), {**b0, "w": w, "b": b[:1]}, g())
    case("gemm_bias_scalar", gemm(transB=1), {**b0, "w": w, "b": b[0]}, g())
    case("gemm_bias_spread", gemm(transB=1), {**b0, "w": w, "b": np.tile(b, (N, 1))}, g(), x=(T.FLOAT, [N, 5]))
    refuse("gemm_bias_varies", gemm(transB=1), {**b0, "w": w, "b": rng("v").normal(size=(N, K)).astype(np.float32)},
           "is not the same for every example", x=(T.FLOAT, [N, 5]))
    refuse("gemm_bias_computed", [("Gemm", "x bw2", "c"), ("Gemm", "phi w c", "y", {"transB": 1})], {**b0, "w": w, "bw2": rng("c").normal(size=(5, K)).astype(np.float32)},
           "depends on the input")

    # MatMul, with the bias on either side.
    b0, w, b = body("matmul")
    mm = lambda **kw: head("MatMul", "phi", "y", **kw)
    case("matmul", [("MatMul", "phi w", "y")], {**b0, "w": w.T}, mm(bias=False))
    case("matmul_add", [("MatMul", "phi w", "m"), ("Add", "m b", "y")], {**b0, "w": w.T, "b": b}, mm())
    case("matmul_add_left", [("MatMul", "phi w", "m"), ("Add", "b m", "y")], {**b0, "w": w.T, "b": b.reshape(1, K)}, mm())
    case("matmul_left", [("Transpose", "phi", "phit"), ("MatMul", "w phit", "m"), ("Add", "m b", "yt"), ("Transpose", "yt", "y")],
         {**b0, "w": w, "b": b.reshape(K, 1)}, head("MatMul", "phit", "y", tail=["Transpose"]), phi=lambda a: a.T)
    case("matmul_sequence_of_one", [("Unsqueeze", "phi axes", "s"), ("MatMul", "s w", "m"), ("Add", "m b", "a"), ("Squeeze", "a axes", "y")],
         {**b0, "w": w.T, "b": b, "axes": np.array([1])}, head("MatMul", "s", "y", tail=["Squeeze"]), phi=lambda a: a[:, 0])
    case("matmul_batched_weight", [("Unsqueeze", "phi axes", "s"), ("MatMul", "s w", "m"), ("Reshape", "m shape", "y")],
         {**b0, "w": w.T.reshape(1, D, K), "axes": np.array([1]), "shape": np.array([-1, K])}, head("MatMul", "s", "y", bias=False, tail=["Reshape"]), phi=lambda a: a[:, 0])
    refuse("matmul_computed", [("MatMul", "phi u", "y"), ("Gemm", "x bw", "t"), ("Transpose", "t", "u")], b0, "both depend on the input")

    # Keras by tf2onnx, Paddle, MXNet, CNTK.
    b0, w, b = body("keras")
    case("keras", [("MatMul", "phi sequential/dense_1/MatMul/ReadVariableOp:0", "sequential/dense_1/MatMul:0"),
                   ("Add", "sequential/dense_1/MatMul:0 sequential/dense_1/BiasAdd/ReadVariableOp:0", "sequential/dense_1/BiasAdd:0"),
                   ("Softmax", "sequential/dense_1/BiasAdd:0", "y")],
         {**b0, "sequential/dense_1/MatMul/ReadVariableOp:0": w.T, "sequential/dense_1/BiasAdd/ReadVariableOp:0": b},
         head("MatMul", "phi", "sequential/dense_1/BiasAdd:0", tail=["Softmax"]))
    b0, w, b = body("paddle", 20, k=20)
    const = lambda name, a: oh.make_node("Constant", [], [name], value=nh.from_array(a, name))
    case("paddle", [const("bw", b0["bw"]), const("bb", b0["bb"]), *BODY, const("w", w.T), const("b", b), ("MatMul", "phi w", "m"), ("Add", "m b", "y")],
         {}, mm(d=20, classes=20), body=False)
    b0, w, b = body("mxnet")
    case("mxnet", [("Flatten", "phi", "f"), ("Gemm", "f w b", "y", {"transB": 1})], {**b0, "w": w, "b": b[:1]}, head("Gemm", "f", "y"), opset=9)
    b0, w, b = body("cntk")
    inits = {**b0, "w": w.T.reshape(2, 3, K), "s": np.array([D, K]), "b": b.reshape(1, K)}
    case("cntk", [("Reshape", "w s", "w2"), ("MatMul", "phi w2", "m"), ("Add", "m b", "y")], inits, mm(),
         opset=8, ir=3, x=(T.FLOAT, [1, 5]), shape=(1, 5),
         extra=[oh.make_tensor_value_info(k, T.INT64 if k == "s" else T.FLOAT, v.shape) for k, v in inits.items()])

    # Tails.
    b0, w, b = body("tails")
    inits = {**b0, "w": w, "b": b}
    t = lambda *tail, logits="z", **kw: head("Gemm", "phi", logits, tail=tail, **kw)
    z = [("Gemm", "phi w b", "z", {"transB": 1})]
    case("tail_identity_cast", z + [("Identity", "z", "i"), ("Dropout", "i", "dr"), ("Cast", "dr", "c", {"to": T.DOUBLE}), ("Softmax", "c", "y", {"axis": 1})],
         inits, t("Identity", "Dropout", "Cast", "Softmax", logits="c"), y=T.DOUBLE)
    case("tail_reshape", z + [("Reshape", "z s1", "r"), ("Flatten", "r", "f"), ("Softmax", "f", "p"), ("Reshape", "p s2", "y")],
         {**inits, "s1": np.array([0, K, 1, 1]), "s2": np.array([-1, K])}, t("Reshape", "Flatten", "Softmax", "Reshape", logits="f"))
    case("tail_temperature", z + [("Mul", "t z", "m"), ("Div", "m u", "v"), ("Softmax", "v", "y")],
         {**inits, "t": np.float32(0.5), "u": np.float32([[4]])}, t("Mul", "Div", "Softmax", logits="v"))
    case("tail_class_scale", z + [("Mul", "z t", "m"), ("Add", "m u", "y")],
         {**inits, "t": rng("t").normal(size=K).astype(np.float32), "u": np.float32(1)}, t("Mul", "Add", logits="y"))
    case("tail_shape_scale", z + [("Shape", "phi", "sh"), ("Gather", "sh one", "d"), ("Cast", "d", "df", {"to": T.FLOAT}), ("Sqrt", "df", "root"), ("Div", "z root", "y")],
         {**inits, "one": np.int64(1)}, t("Div", logits="y"))
    case("tail_label_and_probabilities", z + [("ArgMax", "z", "l", {"axis": 1}), ("Softmax", "z", "p")], inits, t("Softmax"),
         outputs=[oh.make_tensor_value_info("l", T.INT64, None), "p"])
    case("tail_logits_and_probabilities", z + [("Softmax", "z", "p")], inits, t("Softmax"), outputs=["z", "p"])
    case("tail_logits_used_elsewhere", z + [("Sigmoid", "z", "p")], inits, t(link="sigmoid"), outputs=["z", "p"], options={"logits": "z"})
    case("tail_old_softmax", z + [("Reshape", "z s", "r"), ("Softmax", "r", "y", {"axis": 1})], {**inits, "s": np.array([-1, K, 1, 1])},
         t("Reshape", "Softmax"), opset=11)
    case("tail_fixed_batch_squeezed", z + [("Squeeze", "z", "q"), ("Softmax", "q", "y", {"axis": 0})], inits, t("Squeeze", "Softmax"),
         x=(T.FLOAT, [1, 5]), shape=(1, 5))
    refuse("tail_relu", z + [("Relu", "z", "r"), ("Softmax", "r", "y")], inits, 'Relu "r" stands between the linear layer Gemm "z" and "y"')
    refuse("tail_softmax_examples", z + [("Softmax", "z", "y", {"axis": 0})], inits, "the classes lie along axis 1")
    refuse("tail_softmax_twice", z + [("Softmax", "z", "p"), ("Softmax", "p", "y")], inits, 'Softmax "y" follows Softmax')
    refuse("tail_groups", z + [("Reshape", "z s", "r"), ("Softmax", "r", "y")], {**inits, "s": np.array([-1, 2, 2])}, "turns the 4 logits into")
    refuse("tail_divides", z + [("Div", "u z", "y")], {**inits, "u": np.float32(1)}, "divides by the logits")
    refuse("tail_square", z + [("Mul", "z z", "y")], inits, 'Mul "y" stands between')
    refuse("tail_zero", z + [("Mul", "z u", "y")], {**inits, "u": np.float32(0)}, "multiplies the logits by 0")
    refuse("tail_custom", z + [("com.example::Calibrate", "z", "y")], inits, 'com.example.Calibrate "y" stands between', domains=["com.example"])
    b0, w, b = body("one", k=1)
    refuse("softmax_of_one", [("Gemm", "phi w b", "z", {"transB": 1}), ("Softmax", "z", "y")], {**b0, "w": w, "b": b}, "has one output only")
    case("one_logit", [("Gemm", "phi w b", "y", {"transB": 1})], {**b0, "w": w, "b": b}, g(link="sigmoid", classes=1))
    refuse("no_layer", [("Softmax", "x", "y")], {}, 'no linear layer stands between the input "x" and "y"', body=False)
    refuse("no_layer_relu", [("Relu", "x", "y")], {}, '"y" comes from Relu "y" and not from a linear layer', body=False)
    refuse("old_opset", z[:0] + gemm(transB=1), inits, "older than 7", opset=6, ir=3)

    # Several outputs.
    b0, w, b = body("outputs")
    two = {**b0, "w": w, "b": b, "w2": w[::-1].copy()}
    aux = [("Gemm", "phi w b", "main", {"transB": 1}), ("Gemm", "bo w2", "aux", {"transB": 1})]
    case("outputs_aux", aux, two, t(logits="main"), outputs=["main", "aux"])
    case("outputs_aux_chosen", aux, two, head("Gemm", "bo", "aux", bias=False), outputs=["main", "aux"], options={"output": "aux"})
    case("outputs_embedding", [("Gemm", "phi w b", "embedding", {"transB": 1}), ("Relu", "embedding", "e"), ("Gemm", "e w3", "y")],
         {**b0, "w": w, "b": b, "w3": np.eye(K, 3, dtype=np.float32)}, head("Gemm", "e", "y", d=K, classes=3, bias=False), outputs=["embedding", "y"])
    case("outputs_linked", [("Gemm", "bo w2", "box", {"transB": 1}), ("Gemm", "phi w b", "z", {"transB": 1}), ("Softmax", "z", "y")],
         two, t("Softmax"), outputs=["box", "y"])

    # Named by the user.
    b0, w, b = body("named")
    inits = {**b0, "w": w, "b": b, "s": np.array([-1, D])}
    named = [("Reshape", "phi s", "flat"), ("Gemm", "flat w b", "z", {"transB": 1}), ("Relu", "z", "y")]
    case("named", named, inits, head("Gemm", "flat", "z"), options={"features": "phi", "logits": "z"})
    refuse("named_not_linear", named, inits, 'Relu "phi" stands between that and "bo"', options={"features": "bo", "logits": "z"})
    refuse("named_unknown", named, inits, 'no tensor "nothing"', options={"logits": "nothing"})
    refuse("named_output", named, inits, 'no output "z"', options={"output": "z"})
    refuse("named_candidates", named, inits, "Features and Logits: nearest flat and z (Gemm, 6 features, 4 classes)")

    # Containers and types.
    b0, w, b = body("unordered")
    unordered = model([("Gemm", "phi w b", "y", {"transB": 1}), *BODY[::-1]], {**b0, "w": w, "b": b})
    ordered = model(BODY + gemm(transB=1), {**b0, "w": w, "b": b})
    found("unordered", ordered, feed("unordered"), g())
    write("unordered", unordered)

    b0, w, b = body("half")
    half = lambda a, name: oh.make_tensor(name, T.FLOAT16, a.shape, a.astype(np.float16).ravel())  # in int32_data
    case("float16", [("Cast", "phi", "phi16", {"to": T.FLOAT16}), ("Gemm", "phi16 w b", "z", {"transB": 1}), ("Cast", "z", "y", {"to": T.FLOAT})],
         {**b0, "w": half(w, "w"), "b": nh.from_array(b.astype(np.float16), "b")}, head("Gemm", "phi16", "y", tail=["Cast"]))
    case("float64", [("Cast", "phi", "phi64", {"to": T.DOUBLE}), ("Gemm", "phi64 w b", "y", {"transB": 1})],
         {**b0, "w": w.astype(np.float64), "b": b.astype(np.float64)}, head("Gemm", "phi64", "y"), y=T.DOUBLE)
    case("float16_weights_cast", [("Cast", "w16", "w", {"to": T.FLOAT}), ("Gemm", "phi w b", "y", {"transB": 1})],
         {**b0, "w16": w.astype(np.float16), "b": b}, g())
    q = rng("q").integers(-128, 128, size=(D, K)).astype(np.int8)
    case("dequantized", [("DequantizeLinear", "q s z", "w", {"axis": 1}), ("MatMul", "phi w", "m"), ("Add", "m b", "y")],
         {**b0, "q": q, "s": rng("s").uniform(0.01, 0.02, size=K).astype(np.float32), "z": np.arange(K, dtype=np.int8), "b": b}, mm(), opset=19, ir=9)
    b0, w, b = body("typed", 20, k=20)
    flat = lambda name, a: oh.make_tensor(name, T.FLOAT, a.shape, a.ravel())  # float_data, as older exporters write it
    case("float_data", gemm(transB=1), {**b0, "w": flat("w", w), "b": flat("b", b)}, g(d=20, classes=20))

    b0, w, b = body("control", 20, k=20)
    large = rng("large").normal(size=(20, 20)).astype(np.float32)
    branch = lambda name, ins, nodes, inits=(): oh.make_graph(nodes, name, [], [oh.make_tensor_value_info(name, T.FLOAT, None)], inits)
    case("control_flow", [("ReduceSum", "x", "sum", {"keepdims": 0}), ("Greater", "sum zero", "pos"),
                          oh.make_node("If", ["pos"], ["psi"],
                                       then_branch=branch("then", [], [oh.make_node("MatMul", ["phi", "mix"], ["then"])], [nh.from_array(large, "mix")]),
                                       else_branch=branch("else", [], [oh.make_node("Constant", [], ["c"], value=nh.from_array(large.T, "c")), oh.make_node("MatMul", ["phi", "c"], ["else"])])),
                          ("Gemm", "psi w b", "y", {"transB": 1})],
         {**b0, "w": w, "b": b, "zero": np.float32(0)}, head("Gemm", "psi", "y", d=20, classes=20))

    b0, w, b = body("function")
    dense = oh.make_function("pkg.torch", "Linear", ["x", "w", "b"], ["y"], [oh.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)], [oh.make_opsetid("", 13)])
    act = oh.make_function("pkg.torch", "Act", ["x"], ["y"], [oh.make_node("Relu", ["x"], ["y"])], [oh.make_opsetid("", 13)])
    case("function_in_body", [("Gemm", "x bw bb", "bo"), ("pkg.torch::Act", "bo", "phi"), *gemm(transB=1)], {**b0, "w": w, "b": b}, g(), body=False,
         functions=[dense, act], domains=["pkg.torch"])
    case("function_head", [("pkg.torch::Linear", "phi w b", "y")], {**b0, "w": w, "b": b}, g(), functions=[dense], domains=["pkg.torch"])

    b0, w, b = body("function", 20, k=20)
    mix = oh.make_function("pkg.torch", "Mix", ["x"], ["y"], [const("c", large), oh.make_node("MatMul", ["x", "c"], ["y"])], [oh.make_opsetid("", 13)])
    case("function_constant", [("pkg.torch::Mix", "phi", "psi"), ("Gemm", "psi w b", "y", {"transB": 1})],
         {**b0, "w": w, "b": b}, head("Gemm", "psi", "y", d=20, classes=20), functions=[mix], domains=["pkg.torch"])

    b0, w, b = body("taken")
    case("names_taken", [("Identity", "phi", "mfgs_features"), ("Gemm", "mfgs_features w b", "mfgs_logits", {"transB": 1}), ("Softmax", "mfgs_logits", "y")],
         {**b0, "w": w, "b": b}, head("Gemm", "mfgs_features", "mfgs_logits", tail=["Softmax"]))

    # A weight that is the result of all the arithmetic constants may go through; it ends as [K,D].
    b0, w, b = body("arithmetic")
    i64 = lambda *a: np.array(a, dtype=np.int64)
    case("constant_side", [
        ("ConstantOfShape", "c23", "fives", {"value": oh.make_tensor("v", T.FLOAT, [1], [5])}),
        ("Concat", "a fives", "n1", {"axis": 0}),                             # [6,3]
        ("Slice", "n1 last first axis0 minus", "n2"),                         # [6,3] backwards
        ("Gather", "n2 pick", "n3", {"axis": 1}),                             # [6,4]
        ("Reshape", "n3 c2m4", "n4"), ("Transpose", "n4", "n5", {"perm": [2, 0, 1]}),  # [2,3,4], [4,2,3]
        ("Unsqueeze", "n5 axis0", "n6"), ("Squeeze", "n6 axis0", "n7"),
        ("Shape", "n7", "shape"), ("Gather", "shape one", "two"), ("Mul", "two five", "ten"), ("Div", "ten three", "t"),  # 10/3 = 3
        ("Unsqueeze", "t axis0", "t1"), ("Concat", "c42 t1", "target", {"axis": 0}), ("Expand", "row target", "n8"),
        ("Add", "n7 n8", "n9"), ("Abs", "n9", "n10"), ("Sqrt", "n10", "n11"), ("Neg", "n11", "n12"), ("Exp", "n12", "n13"),
        ("Reciprocal", "n13", "n14"), ("Pow", "n14 half", "n15"), ("Clip", "n15 lo hi", "n16"),
        ("ReduceMean", "n16", "mean", {"axes": [1], "keepdims": 1}), ("Sub", "n16 mean", "n17"),
        ("ReduceL2", "n16", "norm", {"axes": [0, 2], "keepdims": 1}), ("Div", "n17 norm", "n18"),
        ("ReduceMax", "n18", "top", {"keepdims": 0}), ("ReduceMin", "n16", "least", {"axes": [-1], "keepdims": 1}),
        ("Min", "n18 top", "n19"), ("Max", "n19 low n17", "n20"), ("Add", "n20 least", "n21"),
        ("ReduceSum", "n21 axes02", "sum"), ("ReduceSumSquare", "n21", "square", {"axes": [0], "keepdims": 0}), ("Mul", "n21 sum", "n22"), ("Div", "n22 square", "n23"),
        ("Flatten", "n23", "w"), ("Gemm", "phi w b", "y", {"transB": 1})],
        {**b0, "b": b, "a": rng("a").normal(size=(4, 3)).astype(np.float32), "c23": i64(2, 3), "last": i64(-1), "first": i64(-100), "axis0": i64(0),
         "minus": i64(-1), "pick": i64(2, 0, 1, -1), "c2m4": i64(2, -1, 4), "one": np.int64(1), "five": np.int64(5), "three": np.int64(3), "c42": i64(4, 2),
         "row": rng("row").normal(size=(1, 2, 1)).astype(np.float32), "half": np.float32(0.5), "lo": np.float32(1.1), "hi": np.float32(2.5),
         "axes02": i64(0, 2), "low": np.float32(-0.3)}, g())

    b0, w, b = body("external", 20, k=20)
    m = model(BODY + gemm(transB=1), {**b0, "w": w, "b": b})
    found("external", m, feed("external"), g(d=20, classes=20))
    onnx.save_model(m, os.path.join(here, "external.onnx"), save_as_external_data=True, location="external.onnx.data", size_threshold=64)


torch_fixtures()
if os.path.exists(os.path.join(here, "external.onnx.data")):
    os.remove(os.path.join(here, "external.onnx.data"))  # onnx appends to it
hand_fixtures()
with open(os.path.join(here, "golden.json"), "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(g) for g in golden) + "\n]\n")
print(len(golden), "fixtures")
