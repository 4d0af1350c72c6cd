"""Writes matrix products: transposed.onnx, c = aᵀb for a [rows,m] and b [rows,n], and
product.onnx, c = ab for a [rows,n] and b [n,m], of float64; product32.onnx is that of float32.

Run with onnx 1.23: python3 product.py
"""
from onnx import TensorProto, checker, helper, save


def write(name, node, a, b, c, of=TensorProto.DOUBLE):
    def info(tensor, shape):
        return helper.make_tensor_value_info(tensor, of, shape)

    graph = helper.make_graph([node], name, [info("a", a), info("b", b)], [info("c", c)])
    model = helper.make_model(
        graph, producer_name="mfgs", opset_imports=[helper.make_opsetid("", 13)], ir_version=7
    )
    checker.check_model(model, full_check=True)
    save(model, name + ".onnx")


write("transposed", helper.make_node("Gemm", ["a", "b"], ["c"], transA=1), ["rows", "m"], ["rows", "n"], ["m", "n"])
write("product", helper.make_node("MatMul", ["a", "b"], ["c"]), ["rows", "n"], ["n", "m"], ["rows", "m"])
write("product32", helper.make_node("MatMul", ["a", "b"], ["c"]), ["rows", "n"], ["n", "m"], ["rows", "m"], TensorProto.FLOAT)
