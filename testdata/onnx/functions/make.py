#!/usr/bin/env python3
"""Writes models whose classifiers are made of model-local functions, as PyTorch's first dynamo exporter wrote them (one function
for each nn.Module, over a library of functions for its operators), and what they must come to.

Made with Python 3.11, onnx 1.23.2 and onnxruntime 1.31.1:

    python3 -m venv venv && venv/bin/pip install onnx==1.23.2 onnxruntime==1.31.1 && venv/bin/python make.py

NAME.flat.onnx is the model without functions as ONNX Runtime loads it, which names inner tensors otherwise. (Not as onnx's own
inliner gives it, which forgets the defaults of attributes.)
golden.json holds for each model, as the one in the folder above, the head that must be found with features and logits of a
sample input by ONNX Runtime, or a part of the reason why it is refused.
"""

import json
import os

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as oh, numpy_helper as nh

here = os.path.dirname(os.path.abspath(__file__))
golden = []
OPSET = 18
N, D, K = 3, 6, 4
LIB, PKG = "pkg.onnxscript.torch_lib", "pkg.net"


def rng(name):
    return np.random.default_rng(list(name.encode()))


def numbers(a):
    return [float("%.9g" % x) for x in np.asarray(a, dtype=np.float64).ravel()]


def weights(name, **shapes):
    r = rng(name)
    return [nh.from_array(r.normal(size=s).astype(np.float32), k) for k, s in shapes.items()]


def node(op, ins, outs, name="", **attributes):
    """A node; op is [DOMAIN::]OP[/OVERLOAD], and "_" stands for a name left out."""
    domain, _, op = op.rpartition("::")
    op, _, overload = op.partition("/")
    names = lambda s: ["" if t == "_" else t for t in s.split()]
    return oh.make_node(op, names(ins), names(outs), name=name or None, domain=domain, overload=overload or None, **attributes)


def ref(n, **attributes):
    """Gives a node attributes that refer to the function's: name=(type, name in the function)."""
    for name, (kind, of) in attributes.items():
        n.attribute.append(onnx.AttributeProto(name=name, type=kind, ref_attr_name=of))
    return n


def function(name, ins, outs, nodes, attributes=(), defaults=(), domain=PKG, imports=None, overload=""):
    """A function; name is [DOMAIN::]NAME."""
    if "::" in name:
        domain, name = name.split("::")
    imports = imports or {"": OPSET, LIB: 1, PKG: 1}
    return oh.make_function(domain, name, ins.split(), outs.split(), nodes, [oh.make_opsetid(d, v) for d, v in imports.items()],
                            list(attributes), list(defaults), overload=overload or None)


def branch(name, nodes, out, inits=()):
    return oh.make_graph(nodes, name, [], [oh.make_tensor_value_info(out, T.FLOAT, None)], list(inits))


def model(nodes, inits, functions, imports=(), outputs=("y",), ir=8):
    graph = oh.make_graph(nodes, "main", [oh.make_tensor_value_info("x", T.FLOAT, ["N", 5])],
                          [oh.make_tensor_value_info(o, T.FLOAT, ["N", K]) for o in outputs], inits)
    imports = imports or {"": OPSET, LIB: 1, PKG: 1}
    m = oh.make_model(graph, opset_imports=[oh.make_opsetid(d, v) for d, v in dict(imports).items()], functions=functions)
    m.ir_version = ir
    m.producer_name = "by hand"
    return m


def run(m, names, x):
    return ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(names, {"x": x})


def write(name, m, calls):
    """Writes a model and, unless some of its calls stay, its flat form."""
    path = os.path.join(here, name)
    with open(path + ".onnx", "wb") as f:
        f.write(m.SerializeToString())
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.optimized_model_filepath = path + ".flat.onnx"
    ort.InferenceSession(path + ".onnx", o)
    flat = onnx.load(path + ".flat.onnx")
    assert not flat.functions
    if calls:
        os.remove(path + ".flat.onnx")
    return flat


def found(name, m, features, logits, flat_features=None, flat_logits=None, op="Gemm", link="softmax", tail=(), bias=True, calls=False):
    """Writes a model whose head must be found. The names are those that mfgs gives; flat_… are those of the same tensors in the
    flat model, where the main graph does not have them."""
    flat = write(name, m, calls)
    watched = flat if flat_features else onnx.ModelProto.FromString(m.SerializeToString())
    names = [flat_features or features, flat_logits or logits]
    have = {o.name for o in watched.graph.output}
    for t in dict.fromkeys(names):
        if t not in have:
            watched.graph.output.append(oh.make_tensor_value_info(t, T.FLOAT, None))
    x = rng(name + "/x").normal(size=(N, 5)).astype(np.float32)
    phi, a, y = run(watched, [*names, m.graph.output[0].name], x)
    np.testing.assert_allclose(y, run(m, [m.graph.output[0].name], x)[0], rtol=1e-5)
    assert phi.shape == (N, D) and a.shape == (N, K), (name, phi.shape, a.shape)
    golden.append({"file": name + ".onnx", "options": {}, "head": {
        "op": op, "features": features, "logits": logits, "feature_dim": D, "classes": K, "bias": bias, "link": link, "tail": list(tail)},
        "inputs": {"x": {"type": "float32", "shape": [N, 5], "data": numbers(x)}}, "examples": N, "phi": numbers(phi), "logits": numbers(a)})


def refused(name, m, reason):
    write(name, m, True)
    golden.append({"file": name + ".onnx", "options": {}, "refused": reason})


INT, FLOAT = onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT

# A module calls modules, which call the library. Linear is called three times.
t = function(LIB + "::aten_t", "self", "return_val", [node("Transpose", "self", "return_val", "n0", perm=[1, 0])])
addmm = function(LIB + "::aten_addmm", "self mat1 mat2", "return_val",
                 [ref(node("Gemm", "mat1 mat2 self", "return_val", "n0"), alpha=(FLOAT, "alpha"), beta=(FLOAT, "beta"))],
                 defaults=[oh.make_attribute("alpha", 1.0), oh.make_attribute("beta", 1.0)])
relu = function(LIB + "::aten_relu", "self", "return_val", [node("Relu", "self", "return_val", "n0")])
linear = function("torch_nn_modules_linear_Linear", "input weight bias", "addmm",
                  [node(LIB + "::aten_t", "weight", "t", "aten_t_0"), node(LIB + "::aten_addmm", "bias input t", "addmm", "aten_addmm_1")])
block = function("Block", "input w1 b1 w2 b2", "relu_1", [
    node(PKG + "::torch_nn_modules_linear_Linear", "input w1 b1", "a", "lin1"), node(LIB + "::aten_relu", "a", "relu", "relu_0"),
    node(PKG + "::torch_nn_modules_linear_Linear", "relu w2 b2", "b", "lin2"), node(LIB + "::aten_relu", "b", "relu_1", "relu_1")])
net = function("Net", "x w1 b1 w2 b2 w b", "prob", [
    node(PKG + "::Block", "x w1 b1 w2 b2", "h", "block"), node(PKG + "::torch_nn_modules_linear_Linear", "h w b", "scores", "fc"),
    node("Softmax", "scores", "prob", "softmax", axis=-1)])
w = dict(w1=(7, 5), b1=(7,), w2=(D, 7), b2=(D,), w=(K, D), b=(K,))
found("modules", model([node(PKG + "::Net", "x w1 b1 w2 b2 w b", "y", "Net_0")], weights("modules", **w), [t, addmm, relu, linear, block, net]),
      "Net_0/h", "Net_0/scores", "_inlfunc_Net_h", "_inlfunc_Net_scores", tail=["Softmax"])

# Attributes given by the call, by default, by neither; handed on under other names; in a subgraph.
scaled = function("Scaled", "x w b", "y", [ref(node("Gemm", "x w b", "y"), alpha=(FLOAT, "scale"), transB=(INT, "turned"), beta=(FLOAT, "nowhere"))],
                  attributes=["turned", "nowhere"], defaults=[oh.make_attribute("scale", 0.5)])
outer = function("Outer", "x w b", "y", [ref(node(PKG + "::Scaled", "x w b", "y"), scale=(FLOAT, "s"), turned=(INT, "t"))], attributes=["s", "t"])
found("attributes", model([node(PKG + "::Scaled", "x w1 b1", "h"), node(PKG + "::Outer", "h w2 b2", "g", s=-2.0), node("Relu", "g", "phi"),
                           node(PKG + "::Outer", "phi w b", "y", t=1, s=3.0)],
                          weights("attributes", **{**w, "w1": (5, 7), "w2": (7, D)}), [outer, scaled]), "phi", "y")

# Subgraphs in functions, with names of their own and of the function around them; calls in subgraphs.
choose = function("Choose", "x m", "y", [
    node("ReduceSum", "x", "sum", keepdims=0), node("Constant", "", "zero", value=oh.make_tensor("z", T.FLOAT, [], [0])),
    node("Greater", "sum zero", "cond"), node("Neg", "x", "t"),
    node("If", "cond", "y",
         then_branch=branch("a", [node("Constant", "", "c", value=nh.from_array(np.full((D, D), 0.25, np.float32))), node("MatMul", "t c", "u"), node("Add", "u x", "v")], "v"),
         else_branch=branch("b", [node("If", "cond", "w", then_branch=branch("c", [node("Identity", "t", "d")], "d"),
                                       else_branch=branch("d", [node("MatMul", "t m", "s"), ref(node("LeakyRelu", "s", "c"), alpha=(FLOAT, "slope"))], "c")),
                                  node("Add", "w k", "v")], "v", weights("k", k=(1, D))))], attributes=["slope"])
act = function("Act", "x", "y", [node("Relu", "x", "t"), node("Add", "t x", "y")])
found("subgraphs", model([
    node("Gemm", "x w1 b1", "t", transB=1), node(PKG + "::Choose", "t m", "c", "choose", slope=0.125),
    node("ReduceSum", "x", "total", keepdims=0), node("Cast", "total", "cond", to=T.BOOL),
    node("If", "cond", "phi", then_branch=branch("then", [node(PKG + "::Act", "c", "p", "act")], "p"),
         else_branch=branch("else", [node(PKG + "::Choose", "c m", "q", "choose", slope=-1.0), node(PKG + "::Act", "q", "r")], "r")),
    node("Gemm", "phi w b", "y", transB=1)], weights("subgraphs", w1=(D, 5), b1=(D,), m=(D, D), w=(K, D), b=(K,)), [choose, act]), "phi", "y")

# Inputs and outputs left out.
dense = function("Dense", "x w b", "y z", [node("Gemm", "x w b", "y", transB=1), node("Identity", "y", "z")])
clipped = function("Clipped", "x lo hi", "y rest", [node("Clip", "x lo hi", "y"), node("Sub", "x y", "rest")])
found("optional", model([
    node(PKG + "::Dense", "x w1", "h unused"), node(PKG + "::Clipped", "h _ hi", "h1 rest"), node(PKG + "::Clipped", "h1 lo", "_ h2"), node("Add", "h1 h2", "phi"),
    node(PKG + "::Dense", "phi w b", "_ y", "head")],
    weights("optional", w1=(D, 5), w=(K, D), b=(K,)) + [nh.from_array(np.float32(0.5), "hi"), nh.from_array(np.float32(-0.25), "lo")],
    [dense, clipped]), "phi", "y", tail=["Identity"])

# Names that are taken: by the main graph, by its nodes, by other calls of one name.
inner = function("Inner", "x w b", "y", [node("MatMul", "x w", "m", "/fc/MatMul"), node("Add", "m b", "y", "/fc/Add")])
found("names", model([
    node(PKG + "::Inner", "x w1 b1", "m", "call"), node("Relu", "m", "call/m"), node(PKG + "::Inner", "call/m w2 b2", "call"),
    node("Softplus", "call", "phi", "call_1/fc/Add"), node(PKG + "::Inner", "phi w b", "logits"), node("Softmax", "logits", "y")],
    weights("names", w1=(5, 7), b1=(7,), w2=(7, D), b2=(D,), w=(D, K), b=(K,)), [inner]), "phi", "logits", op="MatMul", tail=["Softmax"])

# Two functions of one name, distinguished by their overload.
found("overload", model([
    node(PKG + "::Dense/a", "x w1 b1", "h"), node("Relu", "h", "phi"), node(PKG + "::Dense/b", "phi w b", "y")],
    weights("overload", w1=(5, D), b1=(D,), w=(K, D), b=(K,)),
    [function("Dense", "x w b", "y", [node("Gemm", "x w b", "y")], overload="a"), function("Dense", "x w b", "y", [node("Gemm", "x w b", "y", transB=1)], overload="b")], ir=10),
      "phi", "y")

# A function of another operator set stays a call: in the body it hinders nobody, at the end it does.
old = function("Old", "x w b", "y", [node("Gemm", "x w b", "y", transB=1)], imports={"": 13})
sizes = dict(w1=(D, 5), b1=(D,), w=(K, D), b=(K,))
found("old_body", model([node(PKG + "::Old", "x w1 b1", "phi"), node("Gemm", "phi w b", "y", transB=1)], weights("old_body", **sizes), [old]), "phi", "y", calls=True)
refused("old_head", model([node("Gemm", "x w1 b1", "phi", transB=1), node(PKG + "::Old", "phi w b", "y")], weights("old_head", **sizes), [old]), 'pkg.net.Old "y"')
# It calls a library of no version, which is the model's all the same.
shell = function("Shell", "x w b", "y", [node(PKG + "::Core", "x w b", "y")], imports={"": 13, PKG: 1})
core = function("Core", "x w b", "y", [node("Gemm", "x w b", "y", transB=1)])
found("old_shell", model([node(PKG + "::Shell", "x w1 b1", "phi"), node(PKG + "::Shell", "phi w b", "y")], weights("old_shell", **sizes), [shell, core]), "phi", "y")

with open(os.path.join(here, "golden.json"), "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(g) for g in golden) + "\n]\n")
print(len(golden), "fixtures")
