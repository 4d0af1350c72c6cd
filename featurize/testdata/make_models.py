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


def save(name, nodes, inputs, outputs, initializers, opsets=(("", 13),)):
    infos = [i if isinstance(i, onnx.ValueInfoProto) else oh.make_tensor_value_info(*i) for i in inputs]
    graph = oh.make_graph(nodes, name, infos, [oh.make_tensor_value_info(*o) for o in outputs], initializers)
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid(*o) for o in opsets], ir_version=8, producer_name="make_models.py")
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
    # Channels last and bytes, as a network is exported with its preprocessing inside.
    conv("inside", ["N", 8, 8, 3], T.UINT8, [cast, oh.make_node("Sub", ["x", "mean"], ["centred"]), oh.make_node("Div", ["centred", "std"], ["y"]),
                                             oh.make_node("Transpose", ["y"], ["z"], perm=[0, 3, 1, 2])], "z",
         [nh.from_array(np.float32([120, 115, 100]), "mean"), nh.from_array(np.float32([60, 58, 57]), "std")])
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

    # Tokens of any number.
    save("sequence", [oh.make_node("Gather", ["E", "ids"], ["e"]),
                      oh.make_node("Cast", ["mask"], ["m"], to=T.FLOAT),
                      oh.make_node("Unsqueeze", ["m", "last"], ["u"]),
                      oh.make_node("Mul", ["e", "u"], ["v"]),
                      oh.make_node("ReduceMean", ["v"], ["s"], axes=[1], keepdims=0),  # over padding too
                      oh.make_node("Tanh", ["s"], ["phi"]), *nodes],
         [("ids", T.INT64, ["N", "T"]), ("mask", T.INT64, ["N", "T"])], outputs,
         weights(rng, E=(20, D), W=(K, D), b=(K,)) + [nh.from_array(np.array([-1]), "last")])

    # Frames of 3 numbers, any number of them, in batches of exactly 4.
    fixed = head(4)
    save("frames4", [oh.make_node("MatMul", ["x", "V"], ["h"]), oh.make_node("Tanh", ["h"], ["t"]),
                     oh.make_node("ReduceMean", ["t"], ["phi"], axes=[1], keepdims=0), *fixed[0]],
         [("x", T.FLOAT, [4, "T", 3])], fixed[1], weights(rng, V=(3, D), W=(K, D), b=(K,)))

    # Token numbers from 100 on, in batches of exactly 4: others, such as 0, are an error.
    save("from100", [oh.make_node("Sub", ["ids", "hundred"], ["i"]), oh.make_node("Gather", ["E", "i"], ["e"]),
                     oh.make_node("ReduceMean", ["e"], ["phi"], axes=[1], keepdims=0), *fixed[0]],
         [("ids", T.INT64, [4, 3])], fixed[1], weights(rng, E=(20, D), W=(K, D), b=(K,)) + [nh.from_array(np.array(100), "hundred")])

    # One example at a time, whose logits have no batch axis.
    save("folded", [oh.make_node("Tanh", ["x"], ["phi"]), oh.make_node("Gemm", ["phi", "W", "b"], ["l"], transB=1),
                    oh.make_node("Reshape", ["l", "shape"], ["logits"])],
         [("x", T.FLOAT, [1, D])], [("logits", T.FLOAT, [K]), ("phi", T.FLOAT, [1, D])],
         weights(rng, W=(K, D), b=(K,)) + [nh.from_array(np.array([K]), "shape")])

    # An input with no name to its batch axis, and one that has a default.
    tanh = [oh.make_node("Tanh", ["x"], ["phi"]), *nodes]
    save("anonymous", tanh, [("x", T.FLOAT, [None, D])], outputs, weights(rng, W=(K, D), b=(K,)))
    save("default", [oh.make_node("Mul", ["x", "scale"], ["y"]), oh.make_node("Tanh", ["y"], ["phi"]), *nodes],
         [("x", T.FLOAT, ["N", D]), ("scale", T.FLOAT, [1])], outputs, weights(rng, W=(K, D), b=(K,), scale=(1,)))

    # Inputs that are no tensors.
    save("list", [oh.make_node("SequenceAt", ["x", "first"], ["y"]), oh.make_node("Tanh", ["y"], ["phi"]), *nodes],
         [oh.make_tensor_sequence_value_info("x", T.FLOAT, ["N", D])], outputs, weights(rng, W=(K, D), b=(K,)) + [nh.from_array(np.array(0), "first")])
    pairs = onnx.ValueInfoProto(name="x", type=onnx.TypeProto(map_type=onnx.TypeProto.Map(key_type=T.STRING, value_type=oh.make_tensor_type_proto(T.FLOAT, []))))
    save("map", [oh.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=list("abcdef")),
                 oh.make_node("Tanh", ["y"], ["phi"]), *nodes], [pairs], [(*outputs[0][:2], [1, K])], weights(rng, W=(K, D), b=(K,)),
         [("", 13), ("ai.onnx.ml", 2)])


TYPES = {"f32": T.FLOAT, "f64": T.DOUBLE, "f16": T.FLOAT16, "bf16": T.BFLOAT16, "i8": T.INT8, "i16": T.INT16, "i32": T.INT32, "i64": T.INT64,
         "u8": T.UINT8, "u16": T.UINT16, "u32": T.UINT32, "u64": T.UINT64, "bool": T.BOOL}


def types():
    """types has an input [N,2] of every element type, columns the inputs [N,1] or [N] that are made of a data frame."""
    rng = np.random.default_rng(list(b"types"))
    nodes, outputs = head()
    words = oh.make_node("LabelEncoder", ["s"], ["s_f"], domain="ai.onnx.ml", keys_strings=["red", "green", "blå"], values_floats=[1., -1., .5], default_float=0.)
    sets = [("", 13), ("ai.onnx.ml", 2)]
    save("types", [oh.make_node("Cast", [t], [t + "_f"], to=T.FLOAT) for t in TYPES] + [
             words, oh.make_node("Concat", [t + "_f" for t in [*TYPES, "s"]], ["x"], axis=1),
             oh.make_node("Gemm", ["x", "V"], ["h"], transB=1), oh.make_node("Tanh", ["h"], ["phi"]), *nodes],
         [(t, elem, ["N", 2]) for t, elem in TYPES.items()] + [("s", T.STRING, ["N", 2])], outputs,
         weights(rng, V=(D, 2 * len(TYPES) + 2), W=(K, D), b=(K,)), sets)
    save("columns", [words, oh.make_node("Cast", ["age"], ["age_f"], to=T.FLOAT), oh.make_node("Reshape", ["size", "column"], ["size_f"]),
             oh.make_node("Concat", ["age_f", "size_f", "s_f"], ["x"], axis=1),
             oh.make_node("Gemm", ["x", "V"], ["h"], transB=1), oh.make_node("Tanh", ["h"], ["phi"]), *nodes],
         [("age", T.INT64, ["N", 1]), ("size", T.FLOAT, ["N"]), ("s", T.STRING, ["N", 1])], outputs,
         weights(rng, V=(D, 3), W=(K, D), b=(K,)) + [nh.from_array(np.array([-1, 1]), "column")], sets)


images()
arrays()
types()
