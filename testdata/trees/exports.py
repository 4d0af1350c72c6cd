"""Does mfgs take each kind of export, does its own export give what it predicts, and does --expected find exports that
are not what the library computes?"""
import re

import numpy as np

from common import Mfgs, Results, Table, arguments, inside, outputs, rows_of
from kinds import FIXED, KINDS, MISSING, export

TRAIN, VAL, TEST = 1500, 1500, 500
# For each kind, where FIXED does not say otherwise.
VARIANTS = [
    {"table": "spam", "strings": True, "zipmap": True}, {"table": "spam", "strings": False, "zipmap": False},
    {"table": "satellite", "strings": False, "zipmap": True}, {"table": "satellite", "strings": True, "zipmap": False},
]
HOLES = 0.1  # share of values that are missing, in one more export of the kinds that can do without
TOLERANCE = 1e-4  # of --expected: what rounding to float32 explains


def class_names(table, strings, kind):
    """Classes that are not their own indices, except for XGBoost, which takes no others. Their order is that of the
    labels."""
    if strings:
        return np.array([f"class {chr(97 + i)}" for i in range(table.classes)])
    return np.arange(table.classes) if kind == "XGBoost" else 10 * np.arange(table.classes) + 5


def expectation(model, kind, path, mfgs, val):
    """The library's probabilities as a file for --expected, and how far those of onnxruntime are from them."""
    if kind == "SVC, scores":
        return [], None
    own = np.ascontiguousarray(model.predict_proba(val), float)  # several libraries return it in Fortran order
    file = mfgs.folder / "expected.npy"
    np.save(file, own)
    off = np.abs(rows_of(path, val) - own).max(1)
    return ["--expected", file], {"differ": int((off > TOLERANCE).sum()), "most": float(off.max())}


def parity(mfgs, x, y, names):
    """The largest differences between mfgs predict and its exported model in Python, and how many rows are not the same
    in what is no number."""
    predicted, exported = mfgs.predict(x, y), outputs(mfgs.export(), x)

    def column(key):
        return np.array([row[key] for row in predicted])

    # A model's own output may be called probabilities too: mfgs then adds another one, after it.
    p = [v for k, v in exported.items() if "probabilities" in k and np.shape(v) == column("probabilities").shape][-1]
    named = [row.get("class_name") for row in predicted]
    sets = np.zeros(p.shape, bool)
    for i, row in enumerate(predicted):
        sets[i, row["prediction_set"]] = True
    return {
        "rows": len(predicted),
        "probabilities": float(np.abs(column("probabilities") - p).max()),
        "ood_score": float(np.abs(column("ood_score") - exported["ood_score"]).max()),
        "abstain": int((column("abstain") != exported["abstain"]).sum()),
        "prediction_set": int((sets != exported["prediction_set"]).any(1).sum()),
        "abstained": int(exported["abstain"].sum()),
        "unnamed": named.count(None),
        "misnamed": sum(n not in (None, str(names[row["class"]])) for n, row in zip(named, predicted)),
        "wrong": float((column("class") != y).mean()),
    }


def with_holes(x):
    return np.where(np.random.default_rng(0).random(x.shape) < HOLES, np.float32(np.nan), x)


def case(work, t, kind, strings, zipmap, missing):
    mfgs = Mfgs(work, "exports")
    x, pool = (with_holes(t.x), with_holes(t.pool_x)) if missing else (t.x, t.pool_x)
    names, path = class_names(t, strings, kind), mfgs.folder / "model.onnx"
    train = slice(0, 400 if kind == "GaussianProcess" else TRAIN)
    val, test = slice(0, VAL), slice(VAL, VAL + TEST)
    with inside(mfgs.folder):
        model = KINDS[kind]().fit(x[train], names[t.y[train]])
        try:
            export(kind, model, x, path, zipmap)
            own = rows_of(path, pool[val])
        except Exception as e:  # of any library
            return {"not exported": f"{type(e).__name__}: {str(e).replace(str(path), path.name)[:200]}"}
    args, expected = expectation(model, kind, path, mfgs, pool[val])
    try:
        said = mfgs.calibrate(path, pool[val], t.pool_y[val], "--alpha", 0.1, "--target-coverage", 0.8,
                              "--false-alarm", 0.1, *args)
    except RuntimeError as e:
        return {"refused": str(e)}
    warned = [re.search(r" on (\d+) of ", w)[1] for w in said["warnings"] if w.startswith("expected:")]
    label = np.ravel(list(outputs(path, pool[val]).values())[0])
    return {
        "kind": said["head"]["kind"], "method": said["probabilities"]["method"],
        "zeros": float((own == 0).mean()), "expected": expected, "warned": int(warned[0]) if warned else 0,
        # how often the largest number is not that of the label that the export gives itself
        "other label": float((names[own.argmax(1)].astype(str) != label.astype(str)).mean()),
        "parity": parity(mfgs, pool[test], t.pool_y[test], names),
    }


def main():
    work = arguments().work
    results = Results(work / "exports.json")
    tables = {name: Table(work, name) for name in ("spam", "satellite")}
    for kind in KINDS:
        variants = [{**v, **FIXED.get(kind, ({}, ""))[0], "missing": False} for v in VARIANTS]
        if kind in MISSING:
            variants.append({**variants[-1], "missing": True})
        for v in variants:
            key = " · ".join([kind, v["table"], "strings" if v["strings"] else "integers",
                              "ZipMap" if v["zipmap"] else "tensor", *["missing values"] * v["missing"]])
            if key not in results:
                results.add(key, case(work, tables[v["table"]], kind, v["strings"], v["zipmap"], v["missing"]))


if __name__ == "__main__":
    main()
