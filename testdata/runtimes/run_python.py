#!/usr/bin/env python3
"""Runs the exported models in Python: in the installed onnxruntime, or in onnx's reference evaluator.

    python3 run_python.py --work FOLDER [--reference | --unoptimised]        (after prepare.py)

Writes FOLDER/results/RUNTIME/ID.json: the outputs of each run, or why the model does not load; whether the original loads; how far
the outputs that the model had before are from those of the original; and which branches its Ifs took.
"""

import argparse
import glob
import json
import os
import sys

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--work", required=True)
parser.add_argument("--reference", action="store_true", help="the reference evaluator of onnx")
parser.add_argument("--unoptimised", action="store_true", help="without ONNX Runtime's graph optimisations")
args = parser.parse_args()

# The reference evaluator's Sigmoid and LogSoftmax warn of the far inputs.
np.seterr(all="ignore")
if args.reference:
    import onnx
    from onnx.reference import ReferenceEvaluator
    runtime = f"onnx-reference-{onnx.__version__}"
else:
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    runtime = f"python-{onnxruntime.__version__}" + ("-unoptimised" if args.unoptimised else "")


class Session:
    def __init__(self, path):
        if args.reference:
            self.session = ReferenceEvaluator(path)
            self.outputs = self.session.output_names
            return
        o = onnxruntime.SessionOptions()
        o.intra_op_num_threads = o.inter_op_num_threads = 1
        if args.unoptimised:
            o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])
        self.outputs = [x.name for x in self.session.get_outputs()]

    def run(self, names, feeds):
        return self.session.run(names, feeds)


def feeds(run):
    made = {}
    for name, t in run["feeds"].items():
        a = np.array(t["data"], np.uint16 if t["type"] == "float16" else t["type"])
        made[name] = (a.view(np.float16) if t["type"] == "float16" else a).reshape(t["dims"])
    return made


def apart(a, b):
    """The largest difference of two outputs, relative to the largest value; 0 for what is not of numbers and equal."""
    if isinstance(a, list):
        return 0.0 if len(a) == len(b) else float("inf")
    if a.dtype.kind not in "fiub":
        return 0.0 if (a == b).all() else float("inf")
    a, b = a.astype(np.float64), b.astype(np.float64)
    if a.shape != b.shape:
        return float("inf")
    return float(np.abs(a - b).max() / (1 + np.abs(b).max())) if a.size else 0.0


def outcome(case, path):
    result = {"id": case["id"], "original": True}
    try:
        original = Session(case["original"])
        own = [original.run(None, feeds(r)) for r in case["runs"]]
    except Exception as e:
        # Whether a runtime takes the network at all is not for its head to say.
        return result | {"original": False, "error": str(e)[:1000]}
    try:
        session = Session(path)
        got = [dict(zip(session.outputs, session.run(session.outputs, feeds(r)), strict=True)) for r in case["runs"]]
    except Exception as e:
        # The reference evaluator knows some operators in some versions only.
        return result | {"original": not (args.reference and "No implementation for operator" in str(e)), "error": str(e)[:1000]}
    result["own"] = max((apart(g[name], b) for g, o in zip(got, own) for name, b in zip(original.outputs, o)), default=0.0)
    result["runs"] = [{k: {"dims": list(g[name].shape), "data": np.asarray(g[name], np.float64).ravel().tolist()} for k, name in case["outputs"].items()} for g in got]
    return result


out = os.path.join(args.work, "results", runtime)
os.makedirs(out, exist_ok=True)
paths = sorted(glob.glob(os.path.join(args.work, "cases", "*", "case.json")))
for path in paths:
    case = json.load(open(path))
    result = outcome(case, os.path.join(os.path.dirname(path), "fused.onnx"))
    with open(os.path.join(out, case["id"] + ".json"), "w") as f:
        json.dump(result, f)
print(f"{runtime}: {len(paths)} models run")
sys.exit(0 if paths else 1)
