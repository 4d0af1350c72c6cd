#!/usr/bin/env python3
"""Writes the models of this folder: small classifiers of random weights, one for each kind of input.

Made with Python 3.11, onnx 1.17.0 and numpy 1.26.4:

    python3 -m venv venv && venv/bin/pip install onnx==1.17.0 numpy==1.26.4 && venv/bin/python make_models.py

The classifiers of images have a second output, the features, so that the uncut network shows both that the cut one must give.
"""

import os

import numpy as np
import onnx
from onnx import TensorProto as T, helper as oh, numpy_helper as nh

here = os.path.dirname(os.path.abspath(__file__))
D, K = 6, 4  # features and classes


def weights(rng, **shapes):
    return [nh.from_array(rng.normal(size=s).astype(np.float32) / np.sqrt(np.prod(s[1:])).astype(np.float32), n) for n, s in shapes.items()]


def save(name, nodes, inputs, outputs, initializers):
    graph = oh.make_graph(nodes, name, [oh.make_tensor_value_info(*i) for i in inputs],
                          [oh.make_tensor_value_info(*o) for o in outputs], initializers)
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 13)], ir_version=8, producer_name="make_models.py")
    onnx.checker.check_model(model, full_check=True)
    with open(os.path.join(here, name + ".onnx"), "wb") as f:
        f.write(model.SerializeToString())


def head(batch="N"):
    return [oh.make_node("Gemm", ["phi", "W", "b"], ["logits"], name="head", transB=1)], [("logits", T.FLOAT, [batch, K]), ("phi", T.FLOAT, [batch, D])]


def conv(name, shape, elem=T.FLOAT, before=(), x="image", constants=(), inputs=(), more=()):
    """A convolution, pooled over all places, behind the nodes before that make x. inputs and more are others that come and go."""
    rng = np.random.default_rng(list(b"conv"))  # the same weights in all of them
    channels = 1 if name == "grey" else 3
    nodes, outputs = head(shape[0])
    save(name, [*before,
                oh.make_node("Conv", [x, "C"], ["c"], kernel_shape=[3, 3], strides=[2, 2]),
                oh.make_node("Relu", ["c"], ["r"]),
                oh.make_node("GlobalAveragePool", ["r"], ["p"]),
                oh.make_node("Flatten", ["p"], ["phi"]), *nodes],
         [*inputs, ("image", elem, shape)], outputs + list(more), weights(rng, C=(D, channels, 3, 3), W=(K, D), b=(K,)) + list(constants))


def images():
    cast = oh.make_node("Cast", ["image"], ["x"], to=T.FLOAT)
    conv("conv", ["N", 3, 8, 8])
    conv("grey", ["N", 1, 8, 8])
    conv("batch1", [1, 3, 8, 8])
    conv("batch4", [4, 3, 8, 8])
    conv("open", ["N", 3, "H", "W"])
    conv("nhwc", ["N", 8, 8, 3], before=[oh.make_node("Transpose", ["image"], ["x"], perm=[0, 3, 1, 2])], x="x")
    conv("float16", ["N", 3, 8, 8], T.FLOAT16, [cast], "x")
    conv("uint8", ["N", 3, 8, 8], T.UINT8, [cast, oh.make_node("Div", ["x", "full"], ["y"])], "y", [nh.from_array(np.float32(255), "full")])
    conv("aside", ["N", 3, 8, 8], before=[oh.make_node("Neg", ["t"], ["u"])],  # an input that the logits do not depend on
         inputs=[("t", T.FLOAT, ["N", 2])], more=[("u", T.FLOAT, ["N", 2])])

    rng = np.random.default_rng(list(b"flat"))
    nodes, outputs = head()
    save("flat", [oh.make_node("Gemm", ["image", "V", "a"], ["h"], transB=1), oh.make_node("Relu", ["h"], ["phi"]), *nodes],
         [("image", T.FLOAT, ["N", 192])], outputs, weights(rng, V=(D, 192), a=(D,), W=(K, D), b=(K,)))


def arrays():
    rng = np.random.default_rng(list(b"arrays"))
    nodes, outputs = head()

    # Two inputs: token numbers, and how much each counts.
    save("tokens", [oh.make_node("Gather", ["E", "ids"], ["e"]),
                    oh.make_node("Unsqueeze", ["weight", "last"], ["u"]),
                    oh.make_node("Mul", ["e", "u"], ["m"]),
                    oh.make_node("ReduceSum", ["m", "one"], ["s"], keepdims=0),
                    oh.make_node("Tanh", ["s"], ["phi"]), *nodes],
         [("ids", T.INT64, ["N", 5]), ("weight", T.FLOAT, ["N", 5])], outputs,
         weights(rng, E=(20, D), W=(K, D), b=(K,)) + [nh.from_array(np.array([-1]), "last"), nh.from_array(np.array([1]), "one")])

    # Makes two rows of each example.
    save("merged", [oh.make_node("Reshape", ["x", "shape"], ["y"]), oh.make_node("Relu", ["y"], ["phi"]), *nodes],
         [("x", T.FLOAT, ["N", 2, D])], [("logits", T.FLOAT, ["M", K])],
         weights(rng, W=(K, D), b=(K,)) + [nh.from_array(np.array([-1, D]), "shape")])

    # NaN where x is negative.
    save("log", [oh.make_node("Log", ["x"], ["phi"]), *nodes],
         [("x", T.FLOAT, ["N", D])], outputs[:1], weights(rng, W=(K, D), b=(K,)))

    # Takes seconds for one batch, in many small operators.
    body = oh.make_graph([oh.make_node("MatMul", ["s", "M"], ["t"]), oh.make_node("Tanh", ["t"], ["s_out"]),
                          oh.make_node("Identity", ["going"], ["going_out"])], "body",
                         [oh.make_tensor_value_info("i", T.INT64, []), oh.make_tensor_value_info("going", T.BOOL, []),
                          oh.make_tensor_value_info("s", T.FLOAT, ["N", D])],
                         [oh.make_tensor_value_info("going_out", T.BOOL, []), oh.make_tensor_value_info("s_out", T.FLOAT, ["N", D])])
    save("slow", [oh.make_node("Loop", ["times", "yes", "x"], ["phi"], body=body), *nodes],
         [("x", T.FLOAT, ["N", D])], outputs[:1],
         weights(rng, M=(D, D), W=(K, D), b=(K,)) + [nh.from_array(np.array(10_000_000), "times"), nh.from_array(np.array(True), "yes")])


images()
arrays()
