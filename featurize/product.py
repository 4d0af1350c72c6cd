"""Writes product.onnx: c = aᵀb for float64 matrices a [rows,m] and b [rows,n].

Run with onnx 1.12: python3 product.py
"""
from onnx import TensorProto, checker, helper, save

graph = helper.make_graph(
    [helper.make_node("Gemm", ["a", "b"], ["c"], transA=1)],
    "product",
    [
        helper.make_tensor_value_info("a", TensorProto.DOUBLE, ["rows", "m"]),
        helper.make_tensor_value_info("b", TensorProto.DOUBLE, ["rows", "n"]),
    ],
    [helper.make_tensor_value_info("c", TensorProto.DOUBLE, ["m", "n"])],
)
model = helper.make_model(
    graph, producer_name="mfgs", opset_imports=[helper.make_opsetid("", 13)], ir_version=7
)
checker.check_model(model, full_check=True)
save(model, "product.onnx")
