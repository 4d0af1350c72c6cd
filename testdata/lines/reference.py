"""The recognisers in Python's onnxruntime, where nothing of mfgs runs: texts, p(text), probabilities of characters, and
the answers of the two packages."""
import contextlib
import csv
import io
import json
import sys

import numpy as np
from sklearn.metrics import roc_auc_score

import ctc
import models
from common import RECOGNISERS, Network, Results, arguments, lines, write

# The widths to which lines are padded, in each of which p(text) is measured; 0: the line's own.
WIDTHS = {"rapidocr": (640, 320, 0), "ddddocr": (0, 320)}
PIXELS = {"rapidocr": (0, 230), "ddddocr": (128, 230)}  # other padding, to 320
OOD = [f"{damage}-{kind}" for damage in ("clean", "damaged") for kind in ("kept", "replaced", "foreign")]
SCORES = ("p(text)", "mean", "product", "minimum")  # the last three of the packages' probabilities of characters
CHARACTERS = ("first", "maximum", "mean", "expected", "posterior")


def read(net, line, width, pixel=None, characters=True):
    """What the network gives for a line."""
    L = net.log_probabilities(line.pixels(), width, pixel)
    ids, runs = ctc.best_path(L)
    lp = ctc.log_p(L, ids)
    text = net.text(ids)
    right, edits = ctc.align(line.text, text)
    p = [np.exp(L[b:e, c]) for c, (b, e) in zip(ids, runs)]
    out = {"label": line.text, "text": text, "log_p": lp, "frames": len(L), "edits": edits, "right": right,
           "first": [float(v[0]) for v in p], "path": float(L.max(1).sum()),
           "frame": float(np.exp(L.max(1).min())), "frames' mean": float(np.exp(L.max(1)).mean())}
    if characters and ids:
        gamma = ctc.occupation(L, ids)
        out["maximum"], out["mean"] = [float(v.max()) for v in p], [float(v.mean()) for v in p]
        out["expected"] = ((gamma * np.exp(L[:, ids])).sum(0) / gamma.sum(0)).tolist()
        out["posterior"], out["local"] = ctc.posteriors(L, ids, runs, lp)
    elif characters:
        out.update({k: [] for k in CHARACTERS}, local=float(np.exp(lp)))
    return out


def read_all(work, name, part, width, pixel=None):
    """The rows of a set, from a file if they were read before. Probabilities of characters take long: they are only
    measured in the first of WIDTHS."""
    path = work / "read" / f"{name}-{part}-{width}{'' if pixel is None else f'-{pixel}'}.jsonl"
    if not path.exists():
        net = Network(work, RECOGNISERS[name])
        full = width == WIDTHS[name][0] and pixel is None and (part == "test" or part.endswith("replaced"))
        rows = [read(net, line, width, pixel, full) for line in lines(work / "lines" / name / part)]
        write(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
        print(path.name, len(rows), flush=True)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# Packages

def rapidocr(r, all_lines):
    """Its recogniser alone, on one line at a time: in a batch, lines are padded to the widest."""
    sys.path.insert(0, str(models.folder(r)))
    from rapidocr_onnxruntime.ch_ppocr_rec import TextRecognizer
    from rapidocr_onnxruntime.utils import read_yaml
    root = models.folder(r) / r.package
    config = read_yaml(root / "config.yaml")
    recognise = TextRecognizer({"intra_op_num_threads": 1, "inter_op_num_threads": 1, "use_cuda": False,
                                "use_dml": False, **config["Rec"], "model_path": str(root / r.file)})
    for line in all_lines:
        text, score = recognise(np.repeat(line.pixels()[:, :, None], 3, 2))[0][0]
        yield text, score


def ddddocr(r, all_lines):
    sys.path.insert(0, str(models.folder(r)))
    with contextlib.redirect_stdout(io.StringIO()):  # a notice about itself
        import ddddocr as package
        recognise = package.DdddOcr(show_ad=False)
    for line in all_lines:
        yield recognise.classification(line.path.read_bytes()), None


PACKAGES = {"rapidocr": rapidocr, "ddddocr": ddddocr}


def agreement(work, name):
    """How many texts of the package are the reference's, at the width that the package uses."""
    r, part = RECOGNISERS[name], "test"
    rows = read_all(work, name, part, r.own)
    narrow = [line.pixels().shape[1] <= (r.own or 10**6) for line in lines(work / "lines" / name / part)]
    said = list(PACKAGES[name](r, lines(work / "lines" / name / part)))
    same = [t == row["text"] for (t, _), row in zip(said, rows)]
    means = [abs(s - mean(row)) for (_, s), row, ok in zip(said, rows, narrow) if s is not None and ok]
    return {"lines": sum(narrow), "same": sum(s for s, n in zip(same, narrow) if n),
            "mean differs": max(means) if means else None,
            "wider": len(rows) - sum(narrow), "wider same": sum(s for s, n in zip(same, narrow) if not n),
            "right": sum(t == row["label"] for (t, _), row in zip(said, rows))}


# Figures

def mean(row):
    return float(np.mean(row["first"])) if row["first"] else 0.0


def score(row, kind):
    p = row["first"] or [0.0]
    return {"p(text)": row["log_p"], "mean": np.mean(p), "product": np.sum(np.log(np.maximum(p, 1e-300))),
            "minimum": min(p)}[kind]


def exact(rows):
    """Whether each line is right. Spaces at its ends do not count: padding makes rapidocr read some."""
    return np.array([r["text"].strip() == r["label"].strip() for r in rows])


def words_wrong(row):
    """The edits between the lists of words, and the number of words."""
    return ctc.align(row["label"].split(), row["text"].split())[1], len(row["label"].split())


def figures(rows):
    y = exact(rows)
    wrong, words = np.sum([words_wrong(r) for r in rows], 0)
    return {"lines": len(rows), "right": float(y.mean()),
            "CER": sum(r["edits"] for r in rows) / sum(len(r["label"]) for r in rows), "WER": float(wrong / words),
            "empty": sum(not r["text"] for r in rows),
            "mean p(text)": float(np.mean(np.exp([r["log_p"] for r in rows]))),
            "AUROC": {k: float(roc_auc_score(y, [score(r, k) for r in rows])) for k in SCORES}}


def padding(rows, others):
    """What another width changes in the same lines."""
    p, q = (np.exp([r["log_p"] for r in both]) for both in (rows, others))
    return {"other texts": sum(a["text"] != b["text"] for a, b in zip(rows, others)),
            "p differs by 0.01": int((np.abs(p - q) > 0.01).sum()), "by 0.1": int((np.abs(p - q) > 0.1).sum()),
            "median difference": float(np.median(np.abs(p - q))), "right": float(exact(others).mean())}


def changes(work, name, part):
    with open(work / "lines" / name / part / "changes.csv", newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def ood(work, name, width):
    """How well 1 − p(text) separates changed lines from the same lines unchanged."""
    out = {}
    for part in OOD:
        rows = read_all(work, name, part, width)
        damage, kind = part.split("-")
        if kind == "kept":
            kept = rows
            continue
        y = np.r_[np.zeros(len(kept)), np.ones(len(rows))]
        out[part] = {k: float(roc_auc_score(y, [-score(r, k) for r in kept + rows])) for k in SCORES}
    return out


def main():
    work = arguments().work
    results = Results(work / "reference.json")
    for name, r in RECOGNISERS.items():
        if f"{name} · package" not in results:
            results.add(f"{name} · package", agreement(work, name))
        for width in WIDTHS[name]:
            if f"{name} · test · {width}" not in results:
                rows = read_all(work, name, "test", width)
                results.add(f"{name} · test · {width}", figures(rows))
                results.add(f"{name} · padding · {width}", padding(read_all(work, name, "test", 0), rows))
        for pixel in PIXELS[name]:
            key = f"{name} · padding · 320 of {pixel}"
            if key not in results:
                results.add(key, padding(read_all(work, name, "test", 0), read_all(work, name, "test", 320, pixel)))
        width = WIDTHS[name][0]
        if f"{name} · OOD" not in results:
            results.add(f"{name} · OOD", ood(work, name, width))
        read_all(work, name, "val", width)


if __name__ == "__main__":
    main()
