"""Makes quantised, half-precision and optimised variants of models that the other scripts exported."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import logging
import warnings
from importlib.metadata import version

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from check import draw
from common import Case, arguments, run

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
VERSIONS = {p: version(p) for p in ("onnx", "onnxruntime", "onnxconverter-common")}

PICTURES = ["torchvision/resnet18/torchscript", "torchvision/mobilenet_v3_small/torchscript", "torchvision/shufflenet_v2_x0_5/torchscript",
            "torchvision/vit_b_32/torchscript", "timm/convnext_atto/torchscript|dynamo", "timm/vit_tiny_patch16_224/torchscript|dynamo",
            "keras/MobileNetV2", "keras/softmax"]
TEXTS = ["transformers/BertForSequenceClassification/torchscript", "transformers/DistilBertForSequenceClassification/torchscript",
         "transformers/RobertaForSequenceClassification/dynamo", "transformers/LlamaForSequenceClassification/torchscript|dynamo"]
TABLES = ["sklearn/MLPClassifier", "torch/linear/torchscript", "torch/mean-of-tokens/torchscript"]
STEPS = ["transformers/BertForTokenClassification/torchscript", "torch/each-step-lstm-both-ways/torchscript", "torch/each-pixel-unet/torchscript",
         "transformers/SegformerForSemanticSegmentation/torchscript"]
VISION_TRANSFORMER = "transformers/ViTForImageClassification/torchscript"


class Reader(CalibrationDataReader):
    """Eight batches of random inputs."""

    def __init__(self, meta, batch=2):
        rng = np.random.default_rng(11)
        self.feeds = iter([draw(meta["inputs"], batch, rng) for _ in range(8)])

    def get_next(self):
        return next(self.feeds, None)


def base_of(args, base):
    """The folder and notes of an exported model; a|b names alternatives for its last part."""
    stem, _, last = base.rpartition("/")
    for choice in last.split("|"):
        folder = args.work / stem / choice
        if (folder / "model.onnx").exists():
            return folder, json.loads((folder / "meta.json").read_text())
    raise FileNotFoundError(f"{base} was not exported yet")


def case(args, kind, base, variant, source, convert, **more):
    name = base.split("/")[1] if base.split("/")[0] not in ("keras", "sklearn") else base.replace("/", "-")

    def build(out):
        folder, meta = base_of(args, base)
        meta = {**meta, "base": meta["id"], "source": f"{source}, of {meta['source']}", **more}
        convert(folder / "model.onnx", out, meta)
        return meta
    return Case(f"{kind}/{name}/{variant}", build)


def prepared(path, out):
    """The preparation that the quantiser's documentation recommends: shapes inferred, nodes folded."""
    target = out / "prepared.onnx"
    try:
        quant_pre_process(str(path), str(target), skip_symbolic_shape=True)
    except Exception:
        quant_pre_process(str(path), str(target), skip_symbolic_shape=True, skip_optimization=True, skip_onnx_shape=True)
    return target


def static(form, per_channel, **kw):
    def convert(path, out, meta):
        p = prepared(path, out)
        quantize_static(str(p), str(out / "model.onnx"), Reader(meta), quant_format=form, per_channel=per_channel, **kw)
        p.unlink()
    return convert


def dynamic(**kw):
    def convert(path, out, meta):
        p = prepared(path, out)
        quantize_dynamic(str(p), str(out / "model.onnx"), **kw)
        p.unlink()
    return convert


def nbits(path, out, meta):
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    q = MatMulNBitsQuantizer(onnx.load(str(path)), block_size=16, is_symmetric=True)
    q.process()
    q.model.save_model_to_file(str(out / "model.onnx"))


def common_float16(keep):
    def convert(path, out, meta):
        from onnxconverter_common import float16
        onnx.save(float16.convert_float_to_float16(onnx.load(str(path)), keep_io_types=keep), str(out / "model.onnx"))
        if not keep:
            half_inputs(meta)
    return convert


def runtime_float16(keep):
    def convert(path, out, meta):
        from onnxruntime.transformers import float16
        onnx.save(float16.convert_float_to_float16(onnx.load(str(path)), keep_io_types=keep), str(out / "model.onnx"))
        if not keep:
            half_inputs(meta)
    return convert


def half_inputs(meta):
    meta["inputs"] = [{**i, "dtype": "float16" if i["dtype"] == "float32" else i["dtype"]} for i in meta["inputs"]]


def optimised(level):
    def convert(path, out, meta):
        o = onnxruntime.SessionOptions()
        o.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, "ORT_ENABLE_" + level.upper())
        o.optimized_model_filepath = str(out / "model.onnx")
        o.log_severity_level = 4
        whole = out / "whole.onnx"  # the weights inside: the runtime keeps references to external data as they are
        onnx.save(onnx.load(str(path)), str(whole))
        onnxruntime.InferenceSession(str(whole), o, providers=["CPUExecutionProvider"])
        whole.unlink()
    return convert


def transformers_optimised(kind, half=False):
    def convert(path, out, meta):
        from onnxruntime.transformers import optimizer
        m = optimizer.optimize_model(str(path), model_type=kind, num_heads=4, hidden_size=48, opt_level=1)
        if half:
            m.convert_float_to_float16(keep_io_types=True)
        m.save_model_to_file(str(out / "model.onnx"))
    return convert


def cases(args):
    quantiser = "onnxruntime quantiser"
    q8 = dict(precision="int8")
    for base in PICTURES + TEXTS[:2] + TABLES[:2]:
        yield case(args, "quantized", base, "qdq", quantiser + " QDQ", static(QuantFormat.QDQ, False), **q8)
        yield case(args, "quantized", base, "qdq-per-channel", quantiser + " QDQ", static(QuantFormat.QDQ, True), **q8)
    for base in PICTURES[:3] + PICTURES[6:] + TABLES:
        yield case(args, "quantized", base, "qoperator", quantiser + " QOperator", static(QuantFormat.QOperator, False), **q8)
    yield case(args, "quantized", PICTURES[0], "qoperator-per-channel", quantiser + " QOperator", static(QuantFormat.QOperator, True), **q8)
    yield case(args, "quantized", PICTURES[0], "qdq-uint8-weights", quantiser + " QDQ",
               static(QuantFormat.QDQ, False, activation_type=QuantType.QUInt8, weight_type=QuantType.QUInt8), **q8)
    yield case(args, "quantized", TABLES[1], "qdq-int16", quantiser + " QDQ",
               static(QuantFormat.QDQ, False, activation_type=QuantType.QInt16, weight_type=QuantType.QInt8), **q8)
    for base in PICTURES[3:6] + TEXTS + TABLES:
        yield case(args, "quantized", base, "dynamic", quantiser + " dynamic", dynamic(), **q8)
    yield case(args, "quantized", TEXTS[0], "dynamic-per-channel", quantiser + " dynamic", dynamic(per_channel=True), **q8)
    yield case(args, "quantized", TEXTS[1], "dynamic-uint8", quantiser + " dynamic", dynamic(weight_type=QuantType.QUInt8), **q8)
    for base in STEPS[:1] + STEPS[2:]:
        yield case(args, "quantized", base, "qdq", quantiser + " QDQ", static(QuantFormat.QDQ, False), **q8)
    for base in STEPS:
        yield case(args, "quantized", base, "dynamic", quantiser + " dynamic", dynamic(), **q8)
    yield case(args, "quantized", STEPS[2], "qoperator", quantiser + " QOperator", static(QuantFormat.QOperator, False), **q8)
    for base in (TEXTS[3], TABLES[2], STEPS[0]):
        yield case(args, "quantized", base, "4-bit", quantiser + " 4-bit MatMul", nbits, **q8)

    half = dict(precision="float16")
    for base in PICTURES[:3] + PICTURES[4:6] + TEXTS[:2] + TABLES[1:]:
        yield case(args, "float16", base, "onnxconverter-common", "onnxconverter-common float16", common_float16(False), **half)
    for base in (PICTURES[0], TEXTS[0], PICTURES[6]):
        yield case(args, "float16", base, "onnxconverter-common-float32-io", "onnxconverter-common float16", common_float16(True), **half)
    for base in (STEPS[0], STEPS[2]):
        yield case(args, "float16", base, "onnxconverter-common", "onnxconverter-common float16", common_float16(False), **half)
    for base in PICTURES[:2] + PICTURES[4:6] + TEXTS[:3] + [VISION_TRANSFORMER, STEPS[0]]:
        yield case(args, "float16", base, "onnxruntime", "onnxruntime float16", runtime_float16(True), **half)

    for base in PICTURES + TEXTS + TABLES + [VISION_TRANSFORMER] + STEPS:
        for level in ("basic", "extended"):
            yield case(args, "optimised", base, level, f"ONNX Runtime's optimiser, {level}", optimised(level))
    for base in (TEXTS[0], TABLES[1]):
        yield case(args, "optimised", base, "all", "ONNX Runtime's optimiser, all", optimised("all"))
    for base, kind in ((TEXTS[0], "bert"), (TEXTS[1], "bert"), (STEPS[0], "bert"), ("transformers/GPT2ForSequenceClassification/torchscript|dynamo", "gpt2"), (VISION_TRANSFORMER, "vit")):
        yield case(args, "optimised", base, "transformers", "onnxruntime.transformers optimiser", transformers_optimised(kind))
    yield case(args, "optimised", TEXTS[0], "transformers-float16", "onnxruntime.transformers optimiser, float16",
               transformers_optimised("bert", True), **half)


def main():
    args = arguments(__doc__)
    run(list(cases(args)), args, VERSIONS)


if __name__ == "__main__":
    main()
