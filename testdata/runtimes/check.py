#!/usr/bin/env python3
"""Checks the exported models against the standard, as implemented by onnx.

    python3 check.py --work FOLDER        (after prepare.py)

Each must pass onnx.checker with full_check and strict shape inference, which must find the documented types and ranks for the outputs of
mfgs. No opset may be added or changed, no operator may be used that is neither in the default domain nor in the original, and the
original's outputs must come first, unchanged. For the models made for it, the inputs must exercise both interpolated and full
log-sum-exps. A model whose original the checker refuses, since its outputs have no types, must pass without them.
"""

import argparse
import collections
import glob
import json
import os
import sys

import numpy as np
import onnx
import onnxruntime

RANKS = {"probabilities": 2, "logits": 2, "logit_variance": 2, "ood_score": 1, "ood_percentile": 1, "ood_pvalue": 1, "leverage": 1, "abstain": 1, "prediction_set": 2}
DOUBLE, BOOL = onnx.TensorProto.DOUBLE, onnx.TensorProto.BOOL
TYPES = {"ood_score": DOUBLE, "ood_percentile": DOUBLE, "ood_pvalue": DOUBLE, "abstain": BOOL, "prediction_set": BOOL}  # else FLOAT


def checker(model):
    onnx.checker.check_model(model, full_check=True)


def inference(model):
    model = onnx.load(model) if isinstance(model, str) else model
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)


def refusal(check, model):
    """Why a check refuses a model, given as a file or a proto; "" if it does not."""
    try:
        check(model)
    except Exception as e:
        return f"{check.__name__}: {' '.join(str(e).split())[:400]}"
    return ""


def operators(model):
    """The operators beside the default domain's, in subgraphs and functions too."""
    count = collections.Counter()

    def walk(nodes):
        for n in nodes:
            if n.domain not in ("", "ai.onnx"):
                count[n.domain, n.op_type] += 1
            for a in n.attribute:
                for g in [a.g, *a.graphs]:
                    walk(g.node)

    walk(model.graph.node)
    for f in model.functions:
        walk(f.node)
    return count


def problems(case, path):
    """Yields what is wrong; the second of each pair says that it is the original's fault."""
    for check in [checker, inference]:
        error = refusal(check, path)
        if error and refusal(check, case["original"]):
            yield error, True
            # What stays when the original's outputs, which have no types, are not outputs any more.
            model = onnx.load(path)
            ours = set(case["outputs"].values())
            outputs = [o for o in model.graph.output if o.name in ours and o.HasField("type")]
            del model.graph.output[:]
            model.graph.output.extend(outputs)
            error = refusal(check, model)
        if error:
            yield error, False
    model, original = onnx.load(path), onnx.load(case["original"])
    opsets = [{(o.domain.replace("ai.onnx.ml", "ml").replace("ai.onnx", ""), o.version) for o in m.opset_import} for m in (model, original)]
    if opsets[0] - opsets[1]:
        yield f"opsets {sorted(opsets[0])}, and {sorted(opsets[1])} in the original", False
    if added := operators(model) - operators(original):
        yield f"operators added: {dict(added)}", False
    names = [o.name for o in model.graph.output]
    own = [o.name for o in original.graph.output]
    # An output that is the logits already is not doubled.
    if names != own + [case["outputs"][o] for o in RANKS if o in case["outputs"] and case["outputs"][o] not in own]:
        yield f"outputs {names}, want {own} and then {list(case['outputs'].values())}", False
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    for m, how in [(model, "declared"), (inferred, "inferred")]:
        for o in m.graph.output:
            for kind, rank in RANKS.items():
                t = o.type.tensor_type
                if o.name == case["outputs"].get(kind) and (t.elem_type != TYPES.get(kind, onnx.TensorProto.FLOAT) or len(t.shape.dim) != rank):
                    yield f"{o.name} is {how} as type {t.elem_type} of rank {len(t.shape.dim)}, want {TYPES.get(kind, onnx.TensorProto.FLOAT)} of rank {rank}", False
    props = {p.key for p in model.metadata_props}
    if missing := {"mfgs.version", "mfgs.bundle", "mfgs.method"} - props:
        yield f"metadata_props lack {sorted(missing)}", False


def branches(case, path):
    """What the condition of the head's outermost If was, over all runs: whether an example is beyond the first interval."""
    model = onnx.load(path)
    old = {o for n in onnx.load(case["original"]).graph.node for o in n.output}
    ifs = [n for n in model.graph.node if n.op_type == "If" and n.output[0] not in old]
    for n in ifs:
        model.graph.output.append(onnx.helper.make_tensor_value_info(n.input[0], onnx.TensorProto.BOOL, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return {bool(v.item()) for r in case["runs"] for v in session.run([n.input[0] for n in ifs], {k: np.array(t["data"], t["type"]).reshape(t["dims"]) for k, t in r["feeds"].items()})}


parser = argparse.ArgumentParser()
parser.add_argument("--work", required=True)
args = parser.parse_args()
checked, bad, refused = 0, 0, set()  # refused: models whose original is
for path in sorted(glob.glob(os.path.join(args.work, "cases", "*", "case.json"))):
    case = json.load(open(path))
    checked += 1
    for problem, original in problems(case, os.path.join(os.path.dirname(path), "fused.onnx")):
        if original:
            refused.add(os.path.basename(case["original"]))
        else:
            bad += 1
            print(f"{case['id']}: {problem}", flush=True)
    for kind, want in [("-within", False), ("-beyond", True)]:
        if case["id"].endswith(kind) and (want not in (got := branches(case, os.path.join(os.path.dirname(path), "fused.onnx"))) or True in got and not want):
            bad += 1
            print(f"{case['id']}: conditions of If were {sorted(got)}, want {want}", flush=True)
if refused:
    print(f"refused without mfgs too, for outputs without types: {', '.join(sorted(refused))}")
print(f"onnx {onnx.__version__}: {checked} exported models, {bad} problems")
if not checked or bad:
    sys.exit(1)
