"""Writes odd heads without PyTorch: node by node with onnx.helper, in the style of named exporters, and with
onnxscript, skl2onnx and Hummingbird. The odd heads of PyTorch, Keras and JAX come from the scripts of those libraries.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings
from importlib.metadata import version

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxscript import FLOAT, script
from onnxscript import opset18 as op18
from skl2onnx import to_onnx
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from common import Case, arguments, notes, numbers, run

warnings.filterwarnings("ignore")
VERSIONS = {p: version(p) for p in ("onnx", "onnxscript", "skl2onnx", "scikit-learn")}
X, D, K = 6, 24, 10


def draw(*shape, scale=1.0, seed=5):
    return (np.random.default_rng(seed + sum(shape)).normal(size=shape) * scale).astype(np.float32)


class Graph:
    """A graph built with onnx.helper, node by node; tensors are given by their names.

    Before operator set 13 the axes of Unsqueeze, Squeeze and ReduceSum are attributes, and before 18 those of the other
    reductions. constants says whether weights are initializers or Constant nodes.
    """

    def __init__(self, opset, constants="initializers", domains=(), x=(None, X)):
        self.opset, self.constants = opset, constants
        self.imports = [helper.make_opsetid(d, v) for d, v in ([("", opset)] if opset else []) + list(domains)]
        self.nodes, self.weights, self.outputs, self.n = [], [], [], 0
        self.x = "x"
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N" if s is None else s for s in x])]

    def name(self, kind):
        self.n += 1
        return f"{kind}_{self.n}"

    def c(self, value, dtype=np.float32):
        name = self.name("const")
        tensor = numpy_helper.from_array(np.asarray(value, dtype), name)
        if self.constants == "initializers":
            self.weights.append(tensor)
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def __getattr__(self, kind):
        def node(*inputs, domain="", outputs=1, **attributes):
            names = [self.name(kind) for _ in range(outputs)]
            inputs = [i if isinstance(i, str) else self.c(i) for i in inputs]
            self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, name=self.name("node"), **attributes))
            return names[0] if outputs == 1 else names
        return node

    def axes(self, kind, x, axes, since=13, **attributes):
        """A node whose axes are an attribute before operator set since and an input from it on."""
        if self.opset < since:
            return getattr(self, kind)(x, axes=axes, **attributes)
        return getattr(self, kind)(x, self.c(axes, np.int64), **attributes)

    def reduce(self, kind, x, axes, keepdims=1):
        return self.axes(kind, x, axes, 13 if kind == "ReduceSum" else 18, keepdims=keepdims)

    def reshape(self, x, shape):
        return self.Reshape(x, self.c(shape, np.int64))

    def trunk(self):
        """Features [N,D]."""
        return self.Relu(self.Add(self.MatMul(self.x, draw(X, D, scale=0.5)), draw(D, scale=0.3)))

    def logits(self, classes=K, x=None):
        """Logits [N,classes] of the trunk or of x."""
        return self.Add(self.MatMul(x or self.trunk(), draw(D, classes, scale=0.3)), draw(classes, scale=0.3))

    def save(self, folder, *outputs, kinds=None):
        values = [helper.make_tensor_value_info(o, (kinds or {}).get(o, TensorProto.FLOAT), None) for o in outputs]
        model = helper.make_model(helper.make_graph(self.nodes, "odd", self.inputs, values, self.weights), opset_imports=self.imports,
                                  ir_version=8, producer_name="onnx.helper")
        # A tensor without a type, or a sequence, gets it from inference.
        inferred = {v.name: v for v in onnx.shape_inference.infer_shapes(model).graph.value_info}
        for v in model.graph.output:
            if v.name in inferred:
                v.CopyFrom(inferred[v.name])
        save(folder, model)


def save(folder, model):
    onnx.save(model, str(folder / "model.onnx"))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])


def by_hand(name, write, manner="", features=D, classes=K, opset=17, constants="initializers", domains=(), x=(None, X), **more):
    """A case written with onnx.helper: write(graph) gives the name of the output, or a tuple of names."""
    def build(folder):
        g = Graph(opset, constants, domains, x)
        out = write(g)
        g.save(folder, *(out if isinstance(out, tuple) else (out,)))
        source = "onnx.helper" + (f", as {manner} writes it" if manner else "")
        return notes(source, features if isinstance(features, list) else [features], classes, [numbers("x", list(x[1:]))], **{"outputs": "probabilities", **more})
    return Case(f"odd/{name}/" + (manner.lower().replace(" ", "-").replace(".", "") or f"helper-{opset}"), build)


# Softmax from its parts

def tensorflow_js_quotient(g):
    z = g.logits()
    e = g.Exp(g.Sub(z, g.reshape(g.reduce("ReduceMax", z, [1], 0), [-1, 1])))
    return g.Div(e, g.reshape(g.reduce("ReduceSum", e, [-1], 0), [-1, 1]))


def jax2tf(g):
    """The maximum, not below −∞, reshaped and spread by Expand; so is the sum."""
    z = g.logits()
    m = g.Max(g.reduce("ReduceMax", z, [1], 0), g.c(-np.inf))
    shape = g.Shape(z)
    e = g.Exp(g.Sub(z, g.Expand(g.reshape(m, [-1, 1]), shape)))
    return g.Div(e, g.Expand(g.reshape(g.reduce("ReduceSum", e, [1], 0), [-1, 1]), shape))


def paddle(g):
    """Unsqueeze behind reductions, scale and shift as Mul and Add by constants."""
    z = g.Add(g.Mul(g.logits(), g.c([1.0])), g.c([0.0]))
    s = g.Sub(z, g.axes("Unsqueeze", g.reduce("ReduceMax", z, [1], 0), [1]))
    e = g.Exp(s)
    return g.Identity(g.Div(e, g.axes("Unsqueeze", g.reduce("ReduceSum", e, [1], 0), [1])))


def transposed(g):
    """Classes first, as Core ML writes it, and Softmax over axis 0."""
    return g.Transpose(g.Softmax(g.Transpose(g.logits(), perm=[1, 0]), axis=0), perm=[1, 0])


def four_axes(g):
    """[N,K,1,1] and a softmax over axis 1, by hand."""
    z = g.reshape(g.logits(), [-1, K, 1, 1])
    e = g.Exp(g.Sub(z, g.reduce("ReduceMax", z, [1])))
    return g.Flatten(g.Div(e, g.reduce("ReduceSum", e, [1])))


# Logarithms

# Prototypes

def prototypes(distance):
    def write(g):
        phi = g.trunk()
        return distance(g, phi, draw(K, D, scale=0.4))
    return write


def difference(g, phi, c):
    return g.Sub(g.axes("Unsqueeze", phi, [1]), g.c(c[None]))


def expanded(g, phi, c):
    """‖φ‖² − 2φ·c + ‖c‖² with the sign turned last."""
    norm = g.reduce("ReduceSum", g.Mul(phi, phi), [1])
    cross = g.Mul(g.MatMul(phi, c.T.copy()), g.c(2.0))
    return g.Neg(g.Add(g.Sub(norm, cross), g.c((c * c).sum(1))))


def inverse_distance(g, phi, c):
    d = g.reduce("ReduceSumSquare", difference(g, phi, c), [2], 0)
    w = g.Reciprocal(g.Add(d, g.c(1.0)))
    return g.Div(w, g.reduce("ReduceSum", w, [1]))


def learned_scales(g, phi, c):
    """A variance for each class: quadratic."""
    d = g.reduce("ReduceSumSquare", g.Div(difference(g, phi, c), g.c(np.abs(draw(1, K, 1)) + 0.5)), [2], 0)
    return g.Softmax(g.Neg(d), axis=1)


# Two classes from one logit

def one_minus_last(g):
    p = g.Sigmoid(g.logits(1))
    return g.Concat(g.Sub(g.c(1.0), p), p, axis=-1)


def squeezed(g):
    """[N] and not [N,1]."""
    return g.Sigmoid(g.axes("Squeeze", g.logits(1), [1]))


def stacked(g):
    p = g.Sigmoid(g.axes("Squeeze", g.logits(1), [1]))
    return g.Concat(g.axes("Unsqueeze", g.Sub(g.c(1.0), p), [1]), g.axes("Unsqueeze", p, [1]), axis=1)


# Time first: the input [T,N,X]

def steps(g):
    """Logits [T,N,K]."""
    phi = g.Tanh(g.Add(g.MatMul(g.Transpose(g.x, perm=[1, 0, 2]), draw(X, D, scale=0.5)), draw(D, scale=0.3)))
    return g.logits(K, phi)


def lstm(g):
    """The last hidden state of ONNX's own LSTM, [1,N,D], which stays so until the end."""
    y = g.LSTM(g.Transpose(g.x, perm=[1, 0, 2]), draw(1, 4 * D, X, scale=0.4), draw(1, 4 * D, D, scale=0.2), draw(1, 8 * D, scale=0.1), outputs=3, hidden_size=D)
    return g.axes("Squeeze", g.logits(K, y[1]), [0])


def per_step(g):
    return g.Softmax(steps(g), axis=2)


# An answer for each step: the input [N,T,X]

def each_step(g):
    return g.logits(K, g.Relu(g.Add(g.MatMul(g.x, draw(X, D, scale=0.5)), draw(D, scale=0.3))))


def of_each_step(behind):
    return lambda g: behind(g, each_step(g))


def normalised_by_hand(g, z):
    e = g.Exp(g.Sub(z, g.reduce("ReduceMax", z, [2])))
    return g.Div(e, g.reduce("ReduceSum", e, [2]))


def normalised_over_steps_too(g, z):
    """Before operator set 13 a Softmax over axis 1 is over all axes from there on."""
    return g.Softmax(z, axis=1)


def normalised_as_rows(g, z):
    """As older converters write a softmax over the last axis."""
    return g.Reshape(g.Softmax(g.reshape(z, [-1, K]), axis=1), g.Shape(z))


def feature_map(g):
    """[N,D,3,5] of [N,X,3,5]."""
    return g.Relu(g.Conv(g.x, draw(D, X, 1, 1, scale=0.5), draw(D, scale=0.3)))


def pixels(g):
    return g.Conv(feature_map(g), draw(K, D, 1, 1, scale=0.3), draw(K, scale=0.3))


def of_each_pixel(behind):
    return lambda g: behind(g, pixels(g))


def tf2onnx_pixels(g):
    """Channels last outside, and first for the convolution."""
    phi = g.Relu(g.MatMul(g.x, draw(X, D, scale=0.5)))
    z = g.Conv(g.Transpose(phi, perm=[0, 3, 1, 2]), draw(K, D, 1, 1, scale=0.3), draw(K, scale=0.3))
    return g.Softmax(g.Transpose(z, perm=[0, 2, 3, 1]), axis=3)


def turned_pixels(g):
    """Width before height."""
    return g.Softmax(g.Transpose(pixels(g), perm=[0, 1, 3, 2]), axis=1)


def pixels_as_rows(g):
    return g.reshape(g.Softmax(g.reshape(g.Transpose(pixels(g), perm=[0, 2, 3, 1]), [-1, K]), axis=1), [-1, 3, 5, K])


# Classes from several layers

def group_of_groups(g):
    """A softmax for each of two groups of five classes: two labels an example."""
    z = g.reshape(g.logits(), [-1, 2, 5])
    return g.reshape(g.Softmax(z, axis=2), [-1, K])


# Behind the softmax

def averaged_views(g):
    """Two views of an example in the rows of one batch: [N,2,X] → mean of both softmaxes."""
    p = g.Softmax(g.logits(K, g.Relu(g.MatMul(g.x, draw(X, D, scale=0.5)))), axis=2)
    return g.reduce("ReduceMean", p, [1], 0)


def averaged_view_logits(g):
    z = g.logits(K, g.Relu(g.MatMul(g.x, draw(X, D, scale=0.5))))
    return g.Softmax(g.reduce("ReduceMean", z, [1], 0), axis=1)


def columns(g):
    """An output for each class."""
    return tuple(g.Split(g.Softmax(g.logits(4), axis=1), g.c([1] * 4, np.int64), axis=1, outputs=4))


def one_hot(g):
    """The largest class as ones and zeros."""
    z = g.logits()
    return g.Cast(g.Equal(z, g.reduce("ReduceMax", z, [1])), to=TensorProto.FLOAT)


# What comes near, and is no softmax of one linear layer

def another_sum(g):
    phi = g.trunk()
    return g.Div(g.Exp(g.logits(K, phi)), g.reduce("ReduceSum", g.Exp(g.Add(g.MatMul(phi, draw(D, K, seed=6)), g.c(0.1))), [1]))


def softmax_of_examples(g):
    return g.Softmax(g.logits(), axis=0)


def maximum_of_examples(g):
    """The largest logit of each class among the examples of a batch, and no sum behind."""
    z = g.logits()
    return g.Exp(g.Sub(z, g.reduce("ReduceMax", z, [0])))


def one_more(g):
    e = g.Exp(g.logits())
    return g.Div(e, g.Add(g.reduce("ReduceSum", e, [1]), g.c(1.0)))


def one_minus_another(g):
    phi = g.trunk()
    q = g.Sigmoid(g.Add(g.MatMul(phi, draw(D, 1, seed=8)), g.c(0.2)))
    return g.Concat(g.Sigmoid(g.logits(1, phi)), g.Sub(g.c(1.0), q), axis=1)


def weighed(g):
    return g.Mul(g.Softmax(g.logits(), axis=1), g.c(np.linspace(0.5, 1, K)[None]))


def scales_of_classes(g, phi, c):
    d = g.reduce("ReduceSumSquare", difference(g, phi, c), [2], 0)
    return g.Softmax(g.Mul(d, g.c(-np.linspace(0.2, 1, K)[None])), axis=1)


def sigmoid_of_distance(g, phi, c):
    return g.Sigmoid(g.Sub(g.c(3.0), g.reduce("ReduceSumSquare", difference(g, phi, c), [2], 0)))


def mean_of_examples(g):
    z = g.logits()
    return g.Softmax(g.Sub(z, g.reduce("ReduceMean", g.Mul(z, z), [0])), axis=1)


def euclidean(g):
    e = g.Exp(g.logits())
    return g.Div(e, g.reduce("ReduceL2", e, [1]))


def product_with_sum(g):
    e = g.Exp(g.logits())
    return g.Mul(e, g.reduce("ReduceSum", e, [1]))


# ai.onnx.ml alone

ML = (("ai.onnx.ml", 3),)


def linear_classifier(transform, classes=4, normalise=False, zipmap=False, scale=False, strings=False):
    def write(g):
        ml = dict(domain="ai.onnx.ml")
        x = g.Scaler(g.x, offset=[0.1] * X, scale=[0.5] * X, **ml) if scale else g.x
        rows = max(classes, 1)
        names = [f"kind {i}" for i in range(max(classes, 2))]
        labels = dict(classlabels_strings=names) if strings else dict(classlabels_ints=list(range(len(names))))
        label, scores = g.LinearClassifier(x, coefficients=draw(rows, X).ravel().tolist(), intercepts=draw(rows).tolist(),
                                           multi_class=int(classes > 2), post_transform=transform, outputs=2, **labels, **ml)
        if normalise:
            scores = g.Normalizer(scores, norm="L1", **ml)
        if zipmap:
            key = dict(classlabels_strings=names) if strings else dict(classlabels_int64s=list(range(len(names))))
            scores = g.ZipMap(scores, **key, **ml)
        return label, scores
    return write


def ml_save(name, write, **more):
    """ai.onnx.ml's outputs have types of their own, which the graph states."""
    strings, zipmap = more.pop("strings", False), more.pop("zipmap", False)

    def build(folder):
        g = Graph(0, domains=ML)
        label, scores = write(g)
        kind = TensorProto.STRING if strings else TensorProto.INT64
        values = [helper.make_tensor_value_info(label, kind, ["N"])]
        if zipmap:
            element = helper.make_map_type_proto(kind, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
            values.append(helper.make_value_info(scores, helper.make_sequence_type_proto(element)))
        else:
            values.append(helper.make_tensor_value_info(scores, TensorProto.FLOAT, ["N", more["classes"]]))
        save(folder, helper.make_model(helper.make_graph(g.nodes, "odd", g.inputs, values), opset_imports=g.imports, ir_version=8,
                                       producer_name="onnx.helper"))
        return notes("onnx.helper, ai.onnx.ml alone", [X], more.pop("classes"), [numbers("x", [X])], **{"outputs": "probabilities", **more})
    return Case(f"odd/{name}/helper-ml-3", build)


# onnxscript: functions of the logits

def scripts():
    @script(default_opset=op18)
    def softmax(x: FLOAT["N", X], w0: FLOAT[X, D], w: FLOAT[D, K], b: FLOAT[K]) -> FLOAT["N", K]:
        z = op18.MatMul(op18.Relu(op18.MatMul(x, w0)), w) + b
        m = op18.ReduceMax(z, op18.Constant(value_ints=[1]), keepdims=0)
        e = op18.Exp(z - op18.Unsqueeze(m, op18.Constant(value_ints=[1])))
        return e / op18.Unsqueeze(op18.ReduceSum(e, op18.Constant(value_ints=[1]), keepdims=0), op18.Constant(value_ints=[1]))

    return dict(softmax=softmax)


def scripted(name, function, classes=K, width=None, **more):
    def build(folder):
        model = scripts()[function].to_model_proto()
        names = [i.name for i in model.graph.input][1:]
        w = {n: v for n, v in zip(names, (draw(X, D, scale=0.5), draw(D, width or classes, scale=0.3), draw(more.pop("biases", width or classes), scale=0.3)))}
        for i in list(model.graph.input)[1:]:
            model.graph.input.remove(i)
        model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in w.items())
        save(folder, model)
        return notes("onnxscript", [D], classes, [numbers("x", [X])], **{"outputs": "probabilities", **more})
    return Case(f"odd/{name}/onnxscript", build)


# scikit-learn

def sklearn_data(classes):
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (400, X)).astype(np.float32)
    return x, ((x @ rng.normal(size=(X, classes))) + rng.gumbel(size=(400, classes))).argmax(1)


def sklearn(name, make, classes=4, features=X, last=None, options=None, **more):
    def build(folder):
        model = make().fit(*sklearn_data(classes))
        chosen = {id(model[-1] if hasattr(model, "steps") else model): options} if options else None
        save(folder, to_onnx(model, initial_types=[("x", skl_float())], options=chosen, target_opset=17))
        if classes == 2:
            more.setdefault("classes_too", 1)
        return notes("skl2onnx", [features], classes, [numbers("x", [X])], **{"outputs": "probabilities", **more})
    return Case(f"odd/{name}/skl2onnx", build)


def skl_float():
    from skl2onnx.common.data_types import FloatTensorType
    return FloatTensorType([None, X])


def hummingbird(name, make, classes=4, features=X, how=None, **more):
    def build(folder):
        import torch
        from hummingbird.ml import convert
        x, y = sklearn_data(classes)
        network = convert(make().fit(x, y), "torch", extra_config=how or {}).model
        torch.onnx.export(network, (torch.from_numpy(x[:4]),), str(folder / "model.onnx"), dynamo=False, opset_version=17, input_names=["x"],
                          output_names=["label", "probabilities"], dynamic_axes={n: {0: "batch"} for n in ("x", "label", "probabilities")})
        if classes == 2:
            more.setdefault("classes_too", 1)
        return notes("Hummingbird, torchscript", [features], classes, [numbers("x", [X])], **{"outputs": "probabilities", **more})
    return Case(f"odd/{name}/hummingbird", build)


def cases():
    logs, minus, shifted = dict(outputs="log probabilities"), dict(outputs="negative log probabilities"), dict(outputs="shifted logits")
    two = dict(classes=2, classes_too=1)
    time = dict(x=(None, 7, X))
    views = dict(x=(None, 2, X))
    each, every = dict(x=(None, 7, X), steps=2), dict(x=(None, X, 3, 5), steps=1)
    mixed = "normalised over the steps and the classes"
    lr = lambda: LogisticRegression(max_iter=500)
    mlp = lambda: MLPClassifier((12,), max_iter=80, random_state=0)
    return [
        by_hand("softmax-reshaped", tensorflow_js_quotient, "TensorFlow.js", opset=11),
        by_hand("softmax-expanded", jax2tf, "jax2tf", opset=15),
        by_hand("softmax-expanded", jax2tf, constants="nodes", opset=18),
        by_hand("softmax-unsqueezed", paddle, "Paddle2ONNX", opset=11),
        by_hand("softmax-unsqueezed", paddle, opset=9),
        by_hand("softmax-transposed", transposed, "Core ML converters", opset=13),
        by_hand("softmax-four-axes", four_axes, "Caffe converters", opset=9),
        by_hand("inverse-distance", prototypes(inverse_distance), refuse="an inverse distance is not linear"),
        by_hand("distance-with-variances", prototypes(learned_scales), refuse="quadratic in the features: each class has its own variance"),
        by_hand("concat-1-p-p", one_minus_last, **two),
        by_hand("sigmoid-squeezed", squeezed, classes=1, link="sigmoid"),
        by_hand("stack-1-p-p", stacked, **two),
        by_hand("hidden-state-lstm", lstm, outputs="logits", **time),
        by_hand("every-step", per_step, linear=True, refuse="one label per step, and the steps are in front of the examples", **time),
        by_hand("each-step", each_step, outputs="logits", **each),
        by_hand("each-step", each_step, outputs="logits", opset=11, constants="nodes", **each),
        by_hand("each-step-softmax", of_each_step(lambda g, z: g.Softmax(z, axis=2)), opset=11, **each),
        by_hand("each-step-softmax-by-hand", of_each_step(normalised_by_hand), **each),
        by_hand("each-step-softmax-as-rows", of_each_step(normalised_as_rows), opset=11, **each),
        by_hand("each-step-near-softmax", of_each_step(normalised_over_steps_too), opset=11, refuse=mixed, **each),
        by_hand("each-pixel", pixels, outputs="logits", **every),
        by_hand("each-pixel-softmax", of_each_pixel(lambda g, z: g.Softmax(z, axis=1)), opset=13, **every),
        by_hand("each-pixel-near-softmax", of_each_pixel(lambda g, z: g.Softmax(z, axis=1)), opset=11, refuse=mixed, **every),
        by_hand("each-pixel-softmax", tf2onnx_pixels, "tf2onnx", x=(None, 3, 5, X), steps=3),
        by_hand("each-pixel-turned", turned_pixels, **every),
        by_hand("each-pixel-as-rows", pixels_as_rows, **{**every, "steps": 3}),
        by_hand("two-groups", group_of_groups, refuse="two softmaxes of five classes: two labels per example"),
        by_hand("views-mean-of-softmaxes", averaged_views, refuse="a mean of two softmaxes is not the softmax of a linear layer", **views),
        by_hand("views-mean-of-logits", averaged_view_logits, **views),
        by_hand("columns", columns, classes=4, linear=True, refuse="an output for each class, split off after the softmax"),
        by_hand("one-hot", one_hot, refuse="the output is one-hot: only the predicted class"),
        by_hand("near-another-sum", another_sum, refuse="divided by the sum of another layer's exponentials"),
        by_hand("near-softmax-of-examples", softmax_of_examples, refuse="normalised over the examples of a batch, not over the classes"),
        by_hand("near-maximum-of-examples", maximum_of_examples, refuse="the subtracted value depends on the other examples of the batch"),
        by_hand("near-one-more", one_more, refuse="one is added to the sum: the probabilities include a class that is not an output"),
        by_hand("near-one-minus-another", one_minus_another, classes=2, refuse="one minus the probability of another layer"),
        by_hand("near-weighed", weighed, refuse="each probability has its own weight, and they do not sum to one"),
        by_hand("near-scales-of-classes", prototypes(scales_of_classes), refuse="quadratic in the features: each class has its own scale"),
        by_hand("near-sigmoid-of-distance", prototypes(sigmoid_of_distance), refuse="no softmax follows: terms common to all classes do not cancel"),
        by_hand("near-mean-of-examples", mean_of_examples, together=True, refuse="the subtracted value depends on the other examples of the batch"),
        by_hand("near-euclidean", euclidean, refuse="exponentials divided by their Euclidean norm"),
        by_hand("near-product-with-sum", product_with_sum, outputs="logits", refuse="exponentials times their sum"),
        ml_save("ml-alone-softmax", linear_classifier("SOFTMAX"), classes=4),
        ml_save("ml-alone-none", linear_classifier("NONE"), classes=4, outputs="logits"),
        ml_save("ml-alone-logistic", linear_classifier("LOGISTIC"), classes=4, link="sigmoids"),
        ml_save("ml-alone-logistic-normalised", linear_classifier("LOGISTIC", normalise=True), classes=4, link="normalised sigmoids"),
        ml_save("ml-alone-zipmap", linear_classifier("SOFTMAX", zipmap=True), classes=4, zipmap=True),
        ml_save("ml-alone-strings-zipmap", linear_classifier("SOFTMAX", zipmap=True, strings=True), classes=4, zipmap=True, strings=True),
        ml_save("ml-alone-scaler", linear_classifier("SOFTMAX", scale=True), classes=4),
        scripted("softmax-unsqueezed", "softmax"),
        sklearn("zipmap-columns", lr, options=dict(zipmap="columns")),
        sklearn("zipmap-columns-binary", lr, 2, options=dict(zipmap="columns")),
        sklearn("zipmap-columns-MLP", mlp, features=12, options=dict(zipmap="columns")),
        sklearn("zipmap-columns-MLP-binary", mlp, 2, features=12, options=dict(zipmap="columns")),
        sklearn("zipmap-columns-scaler", lambda: make_pipeline(StandardScaler(), lr()), options=dict(zipmap="columns")),
        sklearn("linear-SVC", lambda: SVC(kernel="linear", probability=False), outputs="logits", refuse="a support vector machine votes over pairs of classes"),
        sklearn("quadratic-discriminant", QuadraticDiscriminantAnalysis, options=dict(zipmap=False),
                refuse="quadratic in the inputs: each class has its own covariance"),
        sklearn("one-vs-one", lambda: OneVsOneClassifier(lr()), outputs="logits", refuse="votes over pairs of classes"),
        hummingbird("logistic-regression", lr, link="normalised sigmoids"),
        hummingbird("logistic-regression-binary", lr, 2),
        hummingbird("multilayer-perceptron", mlp, features=12),
        hummingbird("forest", lambda: RandomForestClassifier(8, max_depth=4, random_state=0), how=dict(tree_implementation="gemm"),
                    refuse="a forest of trees, written as products of matrices"),
        hummingbird("boosting", lambda: GradientBoostingClassifier(n_estimators=8, random_state=0), how=dict(tree_implementation="gemm"),
                    refuse="a sum of trees, written as products of matrices"),
        hummingbird("boosting-binary", lambda: GradientBoostingClassifier(n_estimators=8, random_state=0), 2, refuse="a sum of trees, written as look-ups"),
        hummingbird("scaler-logistic-regression", lambda: make_pipeline(StandardScaler(), lr()), link="normalised sigmoids"),
    ]


if __name__ == "__main__":
    run(cases(), arguments(__doc__), VERSIONS)
