#!/usr/bin/env python3
"""Checks the exported models against the standard, as implemented by onnx.

    python3 check.py --work WORK        (after models.py or prepare.py)

Each must pass onnx.checker with full_check and strict shape inference, which must find the documented types and ranks for the outputs of
mfgs. No opset may be added or changed, no operator may be used that is neither in the default domain nor in the original, and the
original's outputs must come first, unchanged. A float32 model has neither double nor subgraphs beyond the original's. A model whose
original the checker refuses, since its outputs have no types, must pass without them.
"""

import argparse
import collections
import json
import pathlib
import sys

import onnx

RANKS = {"probabilities": 2, "logits": 2, "logit_variance": 2, "ood_score": 1, "ood_percentile": 1, "ood_pvalue": 1, "leverage": 1, "abstain": 1, "prediction_set": 2}
DOUBLE, BOOL = onnx.TensorProto.DOUBLE, onnx.TensorProto.BOOL
TYPES = {"abstain": BOOL, "prediction_set": BOOL}  # else FLOAT
SCORES = {"ood_score": DOUBLE, "ood_percentile": DOUBLE, "ood_pvalue": DOUBLE}  # FLOAT in a float32 model


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
    """The operators beside the default domain's, in subgraphs and functions too, and what float32 models are without."""
    count = collections.Counter()

    def walk(nodes):
        for n in nodes:
            if n.domain not in ("", "ai.onnx") or n.op_type in ("Loop", "If"):
                count[n.domain, n.op_type] += 1
            count["", "double"] += n.op_type == "Cast" and any(a.i == DOUBLE for a in n.attribute)
            for a in n.attribute:
                for g in [a.g, *a.graphs]:
                    walk(g.node)

    walk(model.graph.node)
    count["", "double"] += sum(i.data_type == DOUBLE for i in model.graph.initializer)
    for f in model.functions:
        walk(f.node)
    return count


def problems(case, path, single):
    """Yields what is wrong; the second of each pair says that it is the original's fault."""
    plain, types = str(path.with_name("plain.onnx")), TYPES | ({} if single else SCORES)
    path = str(path)
    for check in [checker, inference]:
        error = refusal(check, path)
        if error and refusal(check, plain):
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
    model, original = onnx.load(path), onnx.load(plain)
    opsets = [{(o.domain.replace("ai.onnx.ml", "ml").replace("ai.onnx", ""), o.version) for o in m.opset_import} for m in (model, original)]
    if any(o[0] or any(not d for d, _ in opsets[1]) for o in opsets[0] - opsets[1]):  # a model of trees alone has no other domain
        yield f"opsets {sorted(opsets[0])}, and {sorted(opsets[1])} in the original", False
    added = operators(model) - operators(original)
    if added := {o: n for o, n in added.items() if single or o[0] not in ("", "ai.onnx")}:
        yield f"operators added: {added}", False
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
                if o.name == case["outputs"].get(kind) and (t.elem_type != types.get(kind, onnx.TensorProto.FLOAT) or len(t.shape.dim) != rank):
                    yield f"{o.name} is {how} as type {t.elem_type} of rank {len(t.shape.dim)}, want {types.get(kind, onnx.TensorProto.FLOAT)} of rank {rank}", False
    props = {p.key for p in model.metadata_props}
    if missing := {"mfgs.version", "mfgs.bundle", "mfgs.method"} - props:
        yield f"metadata_props lack {sorted(missing)}", False


parser = argparse.ArgumentParser()
parser.add_argument("--work", required=True)
args = parser.parse_args()
checked, bad, refused = 0, 0, set()  # refused: models whose original is
for path in sorted(pathlib.Path(args.work).glob("cases/*/float*.onnx")):
    case = json.loads(path.with_name("case.json").read_text())
    checked += 1
    for problem, original in problems(case, path, path.stem == "float32"):
        if original:
            refused.add(path.parent.name)
        else:
            bad += 1
            print(f"{path.parent.name} {path.stem}: {problem}", flush=True)
if refused:
    print(f"{len(refused)} are refused without mfgs too, for outputs without types")
print(f"onnx {onnx.__version__}: {checked} exported models, {bad} problems")
if not checked or bad:
    sys.exit(1)
