#!/usr/bin/env python3
"""Makes the int8 models of docs/tutorials/vendor.md from the float ones beside it.

    python3 make.py

A few seconds. Writes, beside this file:

keras.onnx
    ../keras/model.onnx, quantised statically by ONNX Runtime: weights and
    activations are int8 with QuantizeLinear and DequantizeLinear around every
    operator. The ranges are those of the 400 digits it was trained on.
distilbert.onnx
    ../distilbert/model.onnx, quantised dynamically: weights are int8, and
    activations become int8 at run time, each with the range it has then.

Weights have 7 of the 8 bits, as ONNX Runtime recommends: sums of products of 8
bits overflow on older x86 processors, which then compute something else.
"""

import gzip
import os

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType
from onnxruntime.quantization import quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.dirname(HERE)
DIGITS = os.path.join(EXAMPLES, "..", "..", "models", "digits-mlp", "digits-images-idx3-ubyte.gz")
TRAIN, BATCH = 400, 100


class Digits(CalibrationDataReader):
    """The training digits as the network's input, in batches."""

    def __init__(self):
        with gzip.open(DIGITS, "rb") as f:
            pixels = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 8, 8, 1)
        images = pixels[:TRAIN].astype(np.float32) / 255
        self.batches = iter(np.split(images, TRAIN // BATCH))

    def get_next(self):
        batch = next(self.batches, None)
        return None if batch is None else {"image": batch}


def main():
    prepared = os.path.join(HERE, "prepared.onnx")
    quant_pre_process(os.path.join(EXAMPLES, "keras", "model.onnx"), prepared)
    quantize_static(
        prepared,
        os.path.join(HERE, "keras.onnx"),
        Digits(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=True,
    )
    os.remove(prepared)

    # The shapes that the exporter noted are in the way of the quantiser's own
    # inference, which takes Gemm apart and keeps the names.
    model = onnx.load(os.path.join(EXAMPLES, "distilbert", "model.onnx"))
    del model.graph.value_info[:]
    quantize_dynamic(
        model,
        os.path.join(HERE, "distilbert.onnx"),
        weight_type=QuantType.QInt8,
        reduce_range=True,
    )


if __name__ == "__main__":
    main()
