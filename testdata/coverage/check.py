"""Checks each exported model with mfgs inspect, calibrate and predict, against ONNX Runtime's run of the original model.

Each model has a line in WORK/results.jsonl; the last line of an id counts. A model is `wrapped` if inspect finds a head of
the right size, calibrate and predict run without flags about the head, and the cut model's logits are those of the
original on the same inputs. Of a model that answers for each step of an example these are the logits of all steps that
count. Where a model is rightly refused, calibrate and predict are tried with `--head none`: its `output` is then
`calibrated`, if the logits are those that follow from the original's output on the same inputs, or `refused` with a
reason.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

# Training and validation examples: odd numbers, which a fixed batch of 2 does not divide; fewer for large networks.
EXAMPLES, FEW, LARGE = (25, 13), (7, 5), 20e6
# Largest difference allowed, relative to the largest logit. The cut model computes the same as the original except for
# the order of terms in the last layer, which leaves about 1e-5 in float32; a little more if the runtime fuses the cut
# network differently. Half precision rounds each value to 1e-3. In an int8 network a sum that rounds
# differently shifts a whole quantisation step in all later layers.
TOLERANCE = {"float32": 1e-3, "float16": 2e-2, "int8": 5e-2}
QUICK = 1000  # weights from which on the Kronecker structure is asked for
BATCH = 8  # examples that the original is run on at a time
# What mfgs takes a kind of output for without a head, and the least probability that it takes the logarithm of.
KINDS = {"probabilities": "probabilities", "log probabilities": "log-probabilities", "logits": "scores", "shifted logits": "scores",
         "negative log probabilities": "scores"}
LEAST = 2.0**-24
EXACT = 1e-4  # from which on calibrate --expected warns of a probability
SHOWN = ("op", "features", "classes", "inspect_s", "calibrate_s", "predict_s", "difference", "spread", "output", "kind", "library")
SECONDS = {"inspect": 120, "calibrate": 1800, "predict": 600}


def draw(inputs, n, rng):
    """n random examples: name → array."""
    out = {}
    longest = max((i["shape"][0] for i in inputs if i["kind"] in ("tokens", "mask")), default=0)
    ragged = any(i["kind"] == "mask" and i["ragged"] for i in inputs) or any(i.get("pad") is not None for i in inputs)
    lengths = rng.integers(max(2, longest // 3), longest + 1, n) if ragged else np.full(n, longest)
    seen = np.arange(longest) < lengths[:, None]
    for i in inputs:
        shape, dtype = [n] + i["shape"], i["dtype"]
        if i["kind"] == "mask":
            x = seen if i["ragged"] else np.ones(shape)
        elif i["kind"] == "tokens":
            x = rng.integers(i["low"], i["high"] + 1, shape)
            if i.get("pad") is not None:
                x = np.where(seen, x, i["pad"])
            if "end" in i:
                x[:, -1] = i["end"]
        else:
            x = pictures(i, n, rng) if i["kind"] == "image" else rng.random(shape)
            x = i["low"] + (i["high"] - i["low"]) * x
            if "int" in dtype:
                x = np.round(x)
        out[i["name"]] = np.ascontiguousarray(x.astype(dtype))
    return out


def pictures(i, n, rng):
    """Smooth random fields in [0, 1] of varying brightness and contrast, with some noise: random networks
    distinguish such images, but hardly white noise."""
    h, w, c = i["shape"] if i["channels_last"] else (*i["shape"][1:], i["shape"][0])
    coarse = rng.random((n, 5, 5, c))
    y, x = np.linspace(0, 3.999, h), np.linspace(0, 3.999, w)
    y0, x0 = y.astype(int), x.astype(int)
    fy, fx = (y - y0)[:, None, None], (x - x0)[None, :, None]
    field = np.zeros((n, h, w, c))
    for dy, wy in ((0, 1 - fy), (1, fy)):
        for dx, wx in ((0, 1 - fx), (1, fx)):
            field += wy * wx * coarse[:, y0 + dy][:, :, x0 + dx]
    level, contrast = rng.random((n, 1, 1, c)), rng.random((n, 1, 1, 1))
    field = 0.1 * rng.random((n, h, w, c)) + 0.9 * (level * (1 - contrast) + field * contrast)
    return field if i["channels_last"] else field.transpose(0, 3, 1, 2)


def constants(session, data, fix):
    """The inputs that are not data, by their VALUE in NAME=VALUE,…: name → array for a batch of n examples."""
    values = dict(part.split("=") for part in fix.split(",")) if fix else {}
    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
    inputs = [i for i in session.get_inputs() if i.name not in data]
    return lambda n: {i.name: np.full([d if isinstance(d, int) else n for d in i.shape], values[i.name], kinds[i.type]) for i in inputs}


def original(path, data, fix="", merged=False):
    """The original model's outputs by Python's onnxruntime: a list of arrays, with maps as rows. Outputs that have no
    row for each example, such as a state, are left out. merged says that the rows are those of the steps of all examples."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    others = constants(session, data, fix)
    first = session.get_inputs()[0].shape
    fixed = first[0] if first and isinstance(first[0], int) else None
    n = len(next(iter(data.values())))
    step = fixed or BATCH
    rows = None
    for start in range(0, n, step):
        feed = {k: v[start:start + step] for k, v in data.items()}
        count = len(next(iter(feed.values())))
        if fixed and count < fixed:
            feed = {k: np.concatenate([v, np.repeat(v[-1:], fixed - count, 0)]) for k, v in feed.items()}
        out = session.run(None, {**feed, **others(max(count, fixed or 0))})
        if merged:
            out = [o.reshape(max(count, fixed or 0), -1, *o.shape[1:]) for o in out]
        out = [np.array([[row[k] for k in sorted(row)] for row in o]) if isinstance(o, list) else np.asarray(o) for o in out]
        out = [o[:count] if o.ndim and len(o) >= count else None for o in out]
        rows = out if rows is None else [np.concatenate([a, b]) if a is not None and b is not None else None for a, b in zip(rows, out)]
    return [o for o in rows if o is not None]


def wanted(rows, meta):
    """The reference output, in float64: a row of classes per example, or of a model that answers for each step of an
    example [n,T,classes] or [n,H,W,classes]."""
    if "steps" in meta:
        o = rows[0].astype(np.float64)
        return o[..., None] if meta["steps"] is None else np.moveaxis(o, meta["steps"], -1)
    if meta["outputs"] == "class":
        return next(o for o in rows if o.dtype.kind in "iu" and o.size == len(o)).reshape(len(rows[0]), 1).astype(np.float64)
    for o in rows:
        if o.dtype.kind == "f" and o.ndim >= 2 and o.size == len(o) * meta["classes"]:
            return o.reshape(len(o), -1).astype(np.float64)
    # scikit-learn's binary scores may be one number an example, and each class may have an output of its own.
    columns = [o.reshape(len(o), 1) for o in rows if o.dtype.kind == "f" and o.size == len(o)]
    for k in (meta["classes"], 1):
        if len(columns) == k:
            return np.hstack(columns).astype(np.float64)
    raise ValueError(f"no output has {meta['classes']} numbers an example: {[o.shape for o in rows]}")


def log_softmax(a):
    a = a - a.max(1, keepdims=True)
    return a - np.log(np.exp(a).sum(1, keepdims=True))


def log_sigmoid(a):
    return -np.logaddexp(0, -a)


def log_probabilities(out, meta):
    """The model's own output as log probabilities."""
    if meta["outputs"] == "log probabilities":
        return out
    if meta["outputs"] == "negative log probabilities":
        return -out
    if meta["outputs"] == "shifted logits":
        return log_softmax(out)
    smoothing = meta.get("smoothing", 0)
    p = (out / meta.get("scale", 1) - smoothing / out.shape[1]) / (1 - smoothing)
    return np.log(np.maximum(p, 1e-300))


def difference(z, out, meta):
    """The largest difference between the logits z and the model's output, relative to its largest logit. For
    probabilities, that of their logarithms, over entries above 1e-6 (above 1e-3 if a constant was added), or of
    the probabilities if the network is quantised. If the output is the class only, 0 if all are equal."""
    if meta["outputs"] == "class":
        chosen = z.argmax(1) if z.shape[1] > 1 else z[:, 0] > 0
        return 0.0 if (chosen == out[:, 0]).all() else np.inf
    if meta["outputs"] == "logits":
        if z.shape[1] == 1 and out.shape[1] == 2:
            if meta.get("differ"):  # of the two logits only the difference counts
                out = out[:, 1:] - out[:, :1]
            else:
                out = out[:, 1:] - out[:, :1] if np.allclose(out[:, 0], -out[:, 1]) and not np.allclose(z, out[:, 1:]) else out[:, 1:]
        if z.shape[1] == 2 and out.shape[1] == 1:
            z = z[:, 1:] - z[:, :1]
        if z.shape != out.shape:
            return np.inf
        return np.abs(z - out).max() / max(np.abs(out).max(), 1e-12)
    p = log_probabilities(out, meta)
    if z.shape[1] == 1:
        mine = log_sigmoid(np.hstack([-z, z]))[:, -p.shape[1]:]
    elif meta["link"] in ("multilabel", "sigmoids"):
        mine = log_sigmoid(z)
    elif meta["link"] == "normalised sigmoids":
        s = log_sigmoid(z)
        mine = s - np.log(np.exp(s).sum(1, keepdims=True))
    else:
        mine = log_softmax(z)[:, -p.shape[1]:]  # one probability is that of the second class
    if mine.shape != p.shape:
        return np.inf
    if meta.get("precision") == "int8":  # the probabilities themselves are multiples of 1/256, or stand behind such steps
        return np.abs(np.exp(mine) - np.exp(p)).max()
    there = p > np.log(1e-3 if "smoothing" in meta else 1e-6)
    return np.abs(mine - p)[there].max() / max(np.abs(z).max(), 1)


def command(mfgs, words, folder):
    """One run of mfgs: exit status, standard output, last line of standard error, and seconds."""
    start = time.time()
    try:
        p = subprocess.run([mfgs, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=SECONDS[words[0]])
    except subprocess.TimeoutExpired:
        return -1, "", f"took more than {SECONDS[words[0]]} s", SECONDS[words[0]]
    lines = [line for line in p.stderr.strip().splitlines() if line.strip()]
    panic = next((line for line in lines if line.startswith(("panic:", "fatal error:", "SIG"))), None)
    error = panic or next((line for line in reversed(lines) if "warning" not in line), "")
    return p.returncode, p.stdout, error, round(time.time() - start, 2)


def output_logits(out, meta):
    """The logits that an output has without a head."""
    if meta["outputs"] == "log probabilities":
        return np.maximum(out, -104)
    if meta["outputs"] != "probabilities":
        return out
    yes, no = np.log(np.maximum(out, LEAST)), np.log(np.maximum(1 - out, LEAST))
    if out.shape[1] == 1:
        return np.hstack([no, yes])
    return yes - no if meta["link"] == "multilabel" else yes


def examples(folder, meta, rng):
    """Training examples, validation examples, and the labels of those, or None if unknown."""
    n_train, n = FEW if meta["bytes"] > LARGE else EXAMPLES
    if meta["inputs"][0]["kind"] != "given":
        return draw(meta["inputs"], n_train, rng), draw(meta["inputs"], n, rng), None
    with np.load(folder / meta["inputs"][0]["file"]) as f:
        train, held_out = ({k: f[k][rows] for k in f.files} for rows in (slice(n_train), slice(n_train, n_train + n)))
    train.pop("labels", None)
    return train, held_out, held_out.pop("labels", None)


def labels(out, meta, rng):
    """Mostly the model's prediction, else random."""
    if out.ndim > 2:
        return labels(out.reshape(-1, out.shape[-1]), meta, rng).reshape(out.shape[:-1])
    n, k = out.shape
    chance = rng.random(n) < 0.3
    if meta["outputs"] == "class":
        return out[:, 0].astype(np.int64)
    if meta["outputs"] == "negative log probabilities":
        out = -out
    if meta["link"] == "multilabel":
        cut = 0.5 if meta["outputs"] == "probabilities" else 0
        return np.where(chance[:, None], rng.random((n, k)) < 0.5, out > cut).astype(np.int64)
    if k == 1:
        cut = 0.5 if meta["outputs"] == "probabilities" else 0
        return np.where(chance, rng.integers(0, 2, n), out[:, 0] > cut).astype(np.int64)
    return np.where(chance, rng.integers(0, k, n), out.argmax(1)).astype(np.int64)


def data(folder, meta):
    """The inputs for training, those for validation, their labels, and what is wanted of them: the original's outputs."""
    rng = np.random.default_rng(7)
    train, held_out, y = examples(folder, meta, rng)
    rows = wanted(original(folder / "model.onnx", held_out, meta.get("fix", ""), meta.get("merged", False)), meta)
    return train, held_out, labels(rows, meta, rng) if y is None and np.isfinite(rows).all() else y, rows


def counted(inputs, rows):
    """Which of the steps of rows count, by the input that masks them."""
    mask = inputs.get("attention_mask")
    return mask != 0 if mask is not None and mask.shape == rows.shape[:-1] else np.ones(rows.shape[:-1], bool)


def without_some(y, counts, rng):
    """The labels of steps, some of which have none: those that do not count, and one in ten, but never all."""
    some = counts & (rng.random(y.shape) > 0.1)
    some.reshape(len(y), -1)[:, 0] = True
    return np.where(some, y, -100)


def check(mfgs, folder, meta, inspect_only, max_dim, threads):
    """The result of one model: a dict for results.jsonl, or None if it is postponed."""
    model = folder / "model.onnx"
    r = dict(id=meta["id"])
    fix = ["--fix", meta["fix"]] if "fix" in meta else []
    status, out, error, r["inspect_s"] = command(mfgs, ["inspect", *fix, "--json", model], folder)
    try:
        found = json.loads(out)
    except ValueError:
        return dict(r, result="failed", reason=f"inspect: exit {status}: {error}")
    if not found["supported"]:
        if status != 1:
            return dict(r, result="failed", reason=f"inspect: unsupported, yet exit {status}")
        r.update(result="refused", reason=found["reason"])
        if meta.get("text") and not inspect_only:
            return as_text(mfgs, folder, meta, r, threads)
        return without_head(mfgs, folder, meta, found["output"], r, threads) if meta["refuse"] and not inspect_only else r
    if status != 0:
        return dict(r, result="failed", reason=f"inspect: supported, yet exit {status}: {error}")
    head = found["head"]
    r.update(op=head["op"], features=head["feature_dim"], classes=head["classes"], link=head["link"])
    classes = [meta["classes"]] + [meta[k] for k in ("classes_too",) if k in meta]
    if head["feature_dim"] not in meta["features"] or head["classes"] not in classes:
        return dict(r, result="wrong head", reason=f"{head['feature_dim']} features and {head['classes']} classes, where the classifier "
                    f"has {meta['features']} and {classes}")
    if meta["refuse"]:
        return dict(r, result="wrong head", reason=f"accepted, where {meta['refuse']}")
    if (head.get("steps", 0) > 0) != ("steps" in meta):
        return dict(r, result="wrong head", reason=f"{head.get('steps', 0)} axes of steps")
    if inspect_only or head["feature_dim"] > max_dim:
        return None

    train, held_out, y, rows = data(folder, meta)
    n = len(next(iter(held_out.values())))
    if not np.isfinite(rows).all():
        return dict(r, result="failed", reason="the original's own outputs are not finite")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        np.savez(scratch / "train.npz", **train)
        if "steps" in meta:
            counts = counted(held_out, rows)
            if head["steps"] != rows.ndim - 2:  # the axes of a map are merged or made before or after the logits
                y, counts, rows = y.reshape(n, -1), counts.reshape(n, -1), rows.reshape(n, -1, rows.shape[-1])
            y = without_some(y, counts, np.random.default_rng(8))
            length = counts[0].size
            places = [(f"val.npz[{at // length}]", at % length, None if (label := y.flat[at]) < 0 else label) for at in np.flatnonzero(counts)]
            rows, n = rows[counts], len(places)
        np.savez(scratch / "val.npz", **held_out, labels=y)
        # What is checked does not depend on the structure, and the full one of some thousand parameters takes minutes.
        structure = ["--structure", "kron"] if head["feature_dim"] * head["classes"] > 500 else []
        for damping in "rel:1", "1":
            status, out, error, r["calibrate_s"] = command(mfgs, [
                "calibrate", *structure, *fix, "--model", model, "--train", scratch / "train.npz", "--val", scratch / "val.npz",
                "--out", scratch / "bundle", "--no-model", "--damping", damping, "--no-install", "--threads", threads], scratch)
            if "absolute damping" not in error:  # as it is where random weights make a softmax of 0 and 1
                break
        if status != 0:
            return dict(r, result="refused" if status == 1 else "failed", reason=f"calibrate: {error}")
        status, out, error, r["predict_s"] = command(mfgs, [
            "predict", "--bundle", scratch / "bundle", "--model", model, "--json", "--no-install", "--threads", threads,
            scratch / "val.npz"], scratch)
        if status != 0:
            return dict(r, result="refused" if status == 1 else "failed", reason=f"predict: {error}")
        predictions = json.loads(out)["predictions"]
    if len(predictions) != n:
        return dict(r, result="failed", reason=f"predict: {len(predictions)} predictions for {n} examples or steps")
    if "steps" in meta and [(p["input"], p["step"], p["label"]) for p in predictions] != places:
        return dict(r, result="failed", reason="predict: other steps than those that count, in another order or with other labels")
    z = np.array([p["logits"] for p in predictions], np.float64).reshape(n, -1)
    p = np.array([p["probabilities"] for p in predictions], np.float64)
    if not (np.isfinite(z).all() and np.isfinite(p).all()):
        return dict(r, result="failed", reason="predict: numbers that are not finite")
    r["difference"] = float(f"{difference(z, rows, meta):.2g}")
    # What a head of other inputs would be off by: the check means nothing unless it is far above.
    apart = [1]  # of steps, the next one and that of the next example
    if "steps" in meta:
        apart.append(int(counts[0].sum()))
    r["spread"] = float(f"{min(min(difference(np.roll(z, by, 0), rows, meta) for by in apart), 1e9):.2g}")
    limit = TOLERANCE[meta.get("precision", "float32")]
    if r["difference"] > limit:
        return dict(r, result="wrong head", reason=f"logits differ by {r['difference']} of the largest, where {limit} is allowed")
    r.update(result="wrapped", reason="")
    return as_text(mfgs, folder, meta, r, threads) if meta.get("text") else r


def without_head(mfgs, folder, meta, offered, r, threads):
    """The result r of a model that was rightly refused, with what --head none makes of its output; offered is what
    inspect says of it."""
    model = folder / "model.onnx"
    link = ["--link", "sigmoid"] if meta["link"] == "multilabel" else []
    fix = ["--fix", meta["fix"]] if "fix" in meta else []
    status, out, error, _ = command(mfgs, ["inspect", "--head", "none", *link, *fix, "--json", model], folder)
    try:
        found = json.loads(out)
    except ValueError:
        return dict(r, result="failed", reason=f"inspect --head none: exit {status}: {error}")
    if status != (0 if found["supported"] else 1) or found["supported"] != (offered is not None):
        return dict(r, result="failed", reason=f"inspect --head none: exit {status}, supported {found['supported']}, and inspect offers {offered}")
    if not found["supported"]:
        return dict(r, output="refused: " + found["reason"])
    if meta["inputs"][0].get("file") == "":
        return dict(r, result="failed", reason="inspect --head none: accepted, and there are no examples to check it with")

    train, held_out, y, rows = data(folder, meta)
    n = len(next(iter(held_out.values())))
    if not np.isfinite(rows).all():
        return dict(r, result="failed", reason="the original's own outputs are not finite")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        np.savez(scratch / "val.npz", **held_out, labels=y)
        library, expected = None, []
        if (folder / "library.npy").exists():
            library = np.load(folder / "library.npy")[len(next(iter(train.values()))):][:n]
            if meta["outputs"] == "probabilities":
                np.save(scratch / "library.npy", library)
                expected = ["--expected", scratch / "library.npy"]
        run = ["--model", model, "--json", "--no-install", "--threads", threads]
        if meta.get("together"):  # both run the same batches
            run += ["--batch", BATCH]
        first = ""
        for kind in "none", KINDS[meta["outputs"]]:  # where the first examples do not show what they are, mfgs asks for it
            how = ["--head", kind, *link, *fix]
            status, out, error, r["calibrate_s"] = command(
                mfgs, ["calibrate", *run, *how, "--val", scratch / "val.npz", *expected, "--out", scratch / "bundle", "--no-model"], scratch)
            if status not in (0, 1):
                return dict(r, result="failed", reason=f"calibrate --head {kind}: exit {status}: {error}")
            if status == 0:
                break
            first = first or "refused: " + error.removeprefix("mfgs: ").removeprefix("val: ").replace(f"{scratch}/", "")
        else:
            return dict(r, output=first)
        report = json.loads(out)
        status, out, error, r["predict_s"] = command(mfgs, ["predict", *run, "--bundle", scratch / "bundle", scratch / "val.npz"], scratch)
        if status != 0:
            return dict(r, result="failed", reason=f"predict, after calibrate --head {kind}: exit {status}: {error}")
        predictions = json.loads(out)["predictions"]
    r["flags"], r["kind"] = " ".join(how), report["head"]["kind"]
    wrong = wrong_output(predictions, rows, meta, r)
    if library is not None and not wrong:
        warned = any(w.startswith("expected:") for w in report["warnings"]) if expected else None
        wrong = wrong_library(rows, library, warned, meta, r)
    return dict(r, result="wrong output", reason=wrong) if wrong else dict(r, output="calibrated")


def as_text(mfgs, folder, meta, r, threads):
    """The result r of a model that reads text, with what --head ctc makes of it."""
    x = dict(np.load(folder / "inputs.npz"))
    alphabet = folder / "alphabet.txt"
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    if alphabet.exists():
        symbols = ["", *alphabet.read_text(encoding="utf-8").split("\n")[:-1]]
    else:
        symbols = ["", *session.get_modelmeta().custom_metadata_map["character"].split("\n"), " "]
    n = len(next(iter(x.values())))
    want = []
    for i in range(n):
        p = np.asarray(session.run(None, {k: v[i:i + 1] for k, v in x.items()})[0], np.float64).reshape(-1, len(symbols))
        if (p < 0).any() or not np.allclose(p.sum(1), 1, atol=1e-3):
            p = np.exp(p - p.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
        want.append(read(p, symbols))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        with open(scratch / "val.jsonl", "w", encoding="utf-8") as f:
            for i, (text, _) in enumerate(want):
                json.dump({**{k: v[i].tolist() for k, v in x.items()}, "label": text if i % 2 else text + "?"}, f)
                f.write("\n")
        how = ["--head", "ctc", *(("--alphabet", alphabet) if alphabet.exists() else ())]
        run = ["--model", folder / "model.onnx", "--json", "--no-install", "--threads", threads]
        status, _, error, r["calibrate_s"] = command(
            mfgs, ["calibrate", *run, *how, "--val", scratch / "val.jsonl", "--out", scratch / "bundle", "--no-model"], scratch)
        if status == 0:
            status, out, error, r["predict_s"] = command(mfgs, ["predict", *run, "--bundle", scratch / "bundle", scratch / "val.jsonl"], scratch)
    if status != 0:
        return dict(r, result="failed", reason=f"--head ctc: exit {status}: {error}")
    r["flags"], r["kind"] = "--head ctc" + " --alphabet FILE" * alphabet.exists(), "text"
    said = json.loads(out)["predictions"]
    differ = [p["text"] for p, (text, _) in zip(said, want) if p["text"] != text]
    if differ or len(said) != n or [p["label"] for p in said] != [i % 2 for i in range(n)]:
        return dict(r, result="wrong output", reason=f"texts {differ[:3]} differ, or labels do")
    z, log_p = np.array([p["logits"][1] for p in said]), np.array([v for _, v in want])
    r["difference"] = float(f"{np.abs(z - log_p).max() / np.abs(log_p).max():.2g}")
    r["spread"] = float(f"{np.abs(np.roll(z, 1) - log_p).max() / np.abs(log_p).max():.2g}")
    limit = TOLERANCE[meta.get("precision", "float32")]
    return dict(r, result="wrong output", reason=f"log p(text) differs by {r['difference']}") if r["difference"] > limit else dict(r, output="calibrated")


def read(p, symbols):
    """The text of the best path of probabilities [T,K], and the logarithm of the probability of all paths that give it."""
    path = p.argmax(1)
    text = [c for t, c in enumerate(path) if c and (t == 0 or path[t - 1] != c)]
    places = [0] + [v for c in text for v in (c, 0)]
    a = np.zeros(len(places))
    a[:2] = p[0, places[:2]]
    for row in p[1:]:
        new = a.copy()
        new[1:] += a[:-1]
        for s in range(2, len(places)):
            if places[s] and places[s] != places[s - 2]:
                new[s] += a[s - 2]
        a = new * row[places]
    return "".join(symbols[c] for c in text), float(np.log(a[-2:].sum()))


def wrong_output(predictions, rows, meta, r):
    """What is wrong with predictions of a model whose output is rows, or "". Records the differences in r."""
    if r["kind"] != KINDS[meta["outputs"]]:
        return f"taken for {r['kind']}, and it is {meta['outputs']}"
    if len(predictions) != len(rows):
        return f"predict: {len(predictions)} predictions for {len(rows)} examples"
    z = np.array([p["logits"] for p in predictions], np.float64).reshape(len(rows), -1)
    p = np.array([p["probabilities"] for p in predictions], np.float64)
    if not (np.isfinite(z).all() and np.isfinite(p).all() and (p >= 0).all()):
        return "predict: numbers that are not finite"
    if meta["link"] != "multilabel" and not np.allclose(p.sum(1), 1, atol=1e-5):
        return "predict: probabilities that do not add up to 1"
    if "names" in meta and any(p.get("class_name", meta["names"][p["class"]]) != meta["names"][p["class"]] for p in predictions):
        return f"class names {sorted({p['class_name'] for p in predictions})}, want {meta['names']}"
    want = output_logits(rows, meta)
    if z.shape != want.shape:
        return f"logits {list(z.shape)}, want {list(want.shape)}"
    scale = max(np.abs(want).max(), 1e-12)
    r["difference"] = float(f"{max(np.abs(z - want).max() / scale, difference(z, rows, meta)):.2g}")
    r["spread"] = float(f"{np.abs(np.roll(z, 1, 0) - want).max() / scale:.2g}")
    limit = TOLERANCE[meta.get("precision", "float32")]
    return f"logits differ from those of the output by {r['difference']} of the largest, where {limit} is allowed" if r["difference"] > limit else ""


def wrong_library(rows, library, warned, meta, r):
    """What is wrong where a file's numbers are compared with its library's, or ""; warned says whether --expected warned."""
    off = np.abs(rows - library).max(1)
    r["library"] = dict(differ=int((off > EXACT).sum()), of=len(rows), most=float(f"{off.max():.2g}"))
    says = f"{r['library']['differ']} of {len(rows)} examples differ from the library by up to {r['library']['most']}"
    if warned is not None and warned != bool(r["library"]["differ"]):
        return f"--expected {'warns' if warned else 'does not warn'}, and {says}"
    return f"{says}, and the notes do not say so" if r["library"]["differ"] and "exporter" not in meta else ""


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--work", type=Path, default=Path(__file__).parent / "work", help="folder of the exported models")
    p.add_argument("--mfgs", required=True, help="the mfgs command")
    p.add_argument("--only", default="", help="regular expression: check only cases whose id it matches")
    p.add_argument("--again", choices=("none", "open", "all"), default="none",
                   help="check again what was checked: nothing, what was not as expected, or all")
    p.add_argument("--inspect-only", action="store_true", help="look for the heads only, and record only what is wrong there")
    p.add_argument("--max-dim", type=int, default=10**9, help="leave for later what has more features than this")
    p.add_argument("--free", type=float, default=float("inf"), help="delete the weights of models of more MB than this once wrapped")
    p.add_argument("--threads", type=int, default=1, help="threads of ONNX Runtime in mfgs")
    args = p.parse_args()
    mfgs = str(Path(args.mfgs).resolve())
    version = json.loads(subprocess.run([mfgs, "version", "--json"], capture_output=True, check=True).stdout)["version"]
    path = args.work / "results.jsonl"
    known = {}
    if path.exists():
        known = {r["id"]: r for r in map(json.loads, path.read_text().splitlines())}
    metas = [json.loads(m.read_text()) for m in sorted(args.work.rglob("meta.json"))]
    wrong = 0
    for meta in sorted(metas, key=lambda m: m["bytes"] * (1 + max(m["features"]) / 200)):
        folder = args.work / meta["id"]
        before = known.get(meta["id"])
        if not re.search(args.only, meta["id"]) or not (folder / "model.onnx").exists():
            continue
        if before and (args.again == "none" or args.again == "open" and as_expected(before, meta)):
            continue
        try:
            r = check(mfgs, folder, meta, args.inspect_only, args.max_dim, args.threads)
        except Exception as e:  # the harness or the model itself, not mfgs
            r = dict(id=meta["id"], result="failed", reason=f"harness: {type(e).__name__}: {str(e).splitlines()[0][:300] if str(e) else ''}")
        if r is None:
            continue
        with path.open("a") as f:
            f.write(json.dumps(dict(r, mfgs=version)) + "\n")
        expected = as_expected(r, meta)
        wrong += not expected
        print(("" if expected else "!! ") + f"{r['id']}: {r['result']} {r['reason'][:400]} " + " ".join(f"{k}={r[k]}" for k in SHOWN if k in r),
              flush=True)
        if r["result"] == "wrapped" and meta["bytes"] > args.free * 1e6:
            for f in folder.iterdir():
                if f.name != "meta.json":
                    shutil.rmtree(f) if f.is_dir() else f.unlink()
    print(f"{wrong} not as expected")
    sys.exit(1 if wrong else 0)


def as_expected(r, meta):
    return r["result"] == ("refused" if meta["refuse"] else "wrapped")


if __name__ == "__main__":
    main()
