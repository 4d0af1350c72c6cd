"""mfgs calibrate, predict and export on the recognisers' lines, against the reference and the labels."""
import json
import subprocess
import sys
import time

import numpy as np
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

import ctc
import models
import reference
import study
from common import BLANK, RECOGNISERS, THREADS, Network, Results, alphabet, arguments, lines, session, write

# Names in the JSON of mfgs, and of what the exported model gives.
LIST, TEXT, CONFIDENCE, ABSTAIN, OOD = "predictions", "text", "confidence", "abstain", "ood_score"
CHARACTERS, CHARACTER, PROBABILITY = "characters", "text", "probability"
EXPORTED = {"text": ("text",), "confidence": ("confidence", "probabilities"), "ood_score": ("ood_score",),
            "characters": ("text_probabilities",), "abstain": ("abstain",)}
HEAD = ("--head", "ctc")
TARGET = 0.1  # error of the answers
CONFIDENT = 0.95  # of the guarantee
SPLITS = 1000
EXPORT_LINES = 200

# How each recogniser is calibrated: the width of preprocess.yaml, and whether its alphabet is given.
VARIANTS = {
    "rapidocr": ("rapidocr", 640, False),
    "ddddocr, padded to 320": ("ddddocr", 320, True),
}


class Mfgs:
    """The command, for one variant."""

    def __init__(self, work, variant):
        name, self.width, with_alphabet = VARIANTS[variant]
        self.r, self.work = RECOGNISERS[name], work
        self.program, self.folder = work / "mfgs", work / "tmp" / variant.replace(", ", "-").replace(" ", "-")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.bundle, self.exported = self.folder / "bundle", self.folder / "exported.onnx"
        self.preprocess = self.folder / "preprocess.yaml"
        write(self.preprocess, models.preprocess(self.r, self.width))
        self.head = [*HEAD, *(("--alphabet", work / "models" / f"{name}.txt") if with_alphabet else ())]

    def run(self, *args):
        begin = time.time()
        command = [self.program, *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True)
        self.seconds = time.time() - begin
        if done.returncode:
            raise RuntimeError(" ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]))
        return done.stdout

    def spec(self, part):
        return self.work / "lines" / self.r.name / part / "labels.csv"

    def calibrate(self):
        return json.loads(self.run(
            "calibrate", "--model", self.work / "models" / f"{self.r.name}.onnx", *self.head, "--preprocess",
            self.preprocess, "--train", self.spec("train"), "--val", self.spec("val"), "--out", self.bundle, "--force",
            "--target-error", TARGET, "--threads", THREADS, "--json"))

    def predict(self, part):
        said = json.loads(self.run("predict", "--bundle", self.bundle, self.spec(part), "--threads", THREADS, "--json"))
        return said[LIST] if isinstance(said, dict) else said

    def export(self):
        self.run("export", "--bundle", self.bundle, "--out", self.exported, "--force")


# Figures

def confidence(said):
    return np.array([row[CONFIDENCE] for row in said], float)


def abstained(said):
    """Whether a line is not answered. An older or missing field counts as an answer."""
    return np.array([bool(row.get(ABSTAIN)) for row in said])


def quality(p, y):
    return {"NLL": float(study.nll(p, y).mean()), "AUROC": float(roc_auc_score(y, p)), "ECE": float(study.ece(p, y))}


def against_reference(said, rows):
    """Texts, and the order of the lines by confidence, which depends on p(text) and perhaps more."""
    texts = [i for i, (s, r) in enumerate(zip(said, rows)) if s[TEXT] != r["text"]]
    joined = [i for i, s in enumerate(said) if "".join(c[CHARACTER] for c in s[CHARACTERS]) != s[TEXT]]
    return {"lines": len(rows), "other texts": len(texts), "joined otherwise": len(joined),
            "examples": [[said[i][TEXT], rows[i]["text"], rows[i]["log_p"]] for i in texts[:5]]}


def characters(said, rows):
    """How well the probabilities of characters find wrong ones, and how calibrated they are."""
    p = np.array([c[PROBABILITY] for s in said for c in s[CHARACTERS]], float)
    right = np.array([ok for s, r in zip(said, rows) for ok in ctc.align(r["label"], s[TEXT])[0]], bool)
    return {"characters": len(p), "wrong": int((~right).sum()), **quality(p, right)}


def answers(said, y):
    given = ~abstained(said)
    wrong = int((~y[given]).sum())
    return {"answered": float(given.mean()), "wrong": wrong, "error": wrong / max(1, int(given.sum()))}


def platt(work, name, width, rows):
    """The reference's quality on the test lines: p(text) as it is, and maps fitted to the validation lines."""
    val, y = reference.read_all(work, name, "val", width), reference.exact(rows)
    out = {}
    for kind, of in (("p(text) as it is", None), ("Platt of p(text)", "p(text)"), ("Platt of mean", "mean")):
        if of is None:
            out[kind] = quality(np.exp([min(r["log_p"], 0) for r in rows]), y)
            continue
        a, b = (feature(r, of) for r in (val, rows))
        out[kind] = quality(study.fit(a, reference.exact(val), True)(b), y)
    both = [np.c_[feature(r, "p(text)"), feature(r, "minimum")] for r in (val, rows)]
    out["p(text) and minimum"] = quality(study.fit(both[0], reference.exact(val), True)(both[1]), y)
    return out


def feature(rows, kind):
    p = np.array([reference.score(r, kind) for r in rows])
    return study.odds(np.exp(np.minimum(p, 0)) if kind in ("p(text)", "product") else p)[:, None]


def ood(mfgs):
    """Changed lines against the same lines unchanged, by both numbers, and how many are answered."""
    out, kept = {}, None
    for part in reference.OOD:
        said = mfgs.predict(part)
        if part.endswith("kept"):
            kept = said
            out[part] = {"answered": float(1 - abstained(said).mean())}
            continue
        y = np.r_[np.zeros(len(kept)), np.ones(len(said))]
        scores = [row.get(OOD) for row in kept + said]
        out[part] = {"1 - confidence": float(roc_auc_score(y, 1 - confidence(kept + said))),
                     "OOD score": None if None in scores else float(roc_auc_score(y, scores)),
                     "answered": float(1 - abstained(said).mean())}
        if part.endswith("replaced"):
            p, replaced = [], []
            for s, row in zip(said, lines(mfgs.spec(part).parent)):
                p += [c[PROBABILITY] for c in s[CHARACTERS]]
                replaced += ctc.align(row.text, s[TEXT])[0]
            out[part]["AUROC of characters"] = float(roc_auc_score(replaced, p))
    return out


# The exported file

def decoded(value, letters):
    """The text of one line: a string, or class numbers that are padded with blanks or -1."""
    value = np.asarray(value)
    if value.dtype.kind in "OUS":
        return "".join(v.decode() if isinstance(v, bytes) else v for v in np.atleast_1d(value))
    return "".join(letters[i] for i in value.ravel() if i > BLANK)


def exported(mfgs, said):
    """The exported file in Python's onnxruntime, on the first test lines, against mfgs predict."""
    s, net = session(mfgs.exported), Network(mfgs.work, mfgs.r)
    names = [o.name for o in s.get_outputs()]
    of = {k: next((n for n in candidates if n in names), None) for k, candidates in EXPORTED.items()}
    worst, differ, decisions, ids = {}, 0, 0, 0
    letters = alphabet(mfgs.work, mfgs.r.name)
    some = lines(mfgs.spec("test").parent)[:EXPORT_LINES]
    for line, row in zip(some, said):
        got = dict(zip(names, s.run(None, {s.get_inputs()[0].name: net.input(line.pixels(), mfgs.width)})))
        if of["text"]:
            differ += decoded(np.asarray(got[of["text"]])[0], letters) != row[TEXT]
        pairs = {}
        if of["confidence"]:
            pairs["confidence"] = np.ravel(got[of["confidence"]])[-1], row[CONFIDENCE]
        if of["ood_score"] and OOD in row:
            pairs["ood_score"] = np.ravel(got[of["ood_score"]])[0], row[OOD]
        if of["characters"]:
            want = [c[PROBABILITY] for c in row[CHARACTERS]]
            have = np.ravel(got[of["characters"]])
            if have.dtype.kind == "f" and len(have) >= len(want):
                pairs["characters"] = have[:len(want)], want
            ids += 1
        if of["abstain"]:
            decisions += bool(np.ravel(got[of["abstain"]])[0]) != bool(row.get(ABSTAIN))
        for k, (a, b) in pairs.items():
            if np.size(b):
                worst[k] = max(worst.get(k, 0.0), float(np.max(np.abs(np.asarray(a, float) - np.asarray(b, float)))))
    return {"lines": len(some), "outputs": names, "other texts": differ if of["text"] else None, "worst": worst,
            "other decisions": decisions if of["abstain"] else None}


# The guarantee, over random splits

def threshold(u, wrong, tuned):
    """The largest uncertainty that is answered, as mfgs finds it: fixed-sequence testing (Angelopoulos et al., 2021)
    of the uncertainties in one half, by exact binomial tests on the other. None: nothing can be guaranteed."""
    tune, calib = (u[tuned], wrong[tuned]), (u[~tuned], wrong[~tuned])
    tried = np.r_[np.unique(tune[0]), 1]

    def p_values(half):
        order = np.argsort(half[0])
        n = np.searchsorted(half[0][order], tried, side="right")
        k = np.r_[0, np.cumsum(half[1][order])][n]
        return np.where(n > 0, binom.cdf(k, np.maximum(n, 1), TARGET), 1)

    p = p_values(tune)
    first = len(p) - 1 - int(np.argmin(p[::-1]))
    kept = None
    for t, p in zip(tried[first:], p_values(calib)[first:]):
        if p > 1 - CONFIDENT:
            break
        kept = t
    return kept


def splits(work, name, width):
    """Random splits of the validation and test lines together. Uncertainty is 1 - p(text): maps keep its order."""
    rows = [r for part in ("val", "test") for r in reference.read_all(work, name, part, width)]
    wrong, u = ~reference.exact(rows), 1 - np.exp(np.minimum([r["log_p"] for r in rows], 0))
    size, errors, answered, test, none = len(lines(work / "lines" / name / "val")), [], [], [], 0
    for seed in range(SPLITS):
        rng = np.random.default_rng(seed)
        val = np.zeros(len(u), bool)
        chosen = rng.permutation(len(u))[:size]
        val[chosen] = True
        tuned = np.zeros(len(u), bool)
        tuned[chosen[:size // 2]] = True
        t = threshold(u[val], wrong[val], tuned[val])
        if t is None:
            none += 1
            continue
        rest, all_new = u[~val] <= t, u[~tuned] <= t
        errors.append(wrong[~tuned][all_new].mean())  # of the population that the thresholds' half was drawn from
        test.append(wrong[~val][rest].mean())
        answered.append(rest.mean())
    return {"splits": SPLITS, "none": none, "violated": int(np.sum(np.array(errors) > TARGET)),
            "violated on test": int(np.sum(np.array(test) > TARGET)), "answered": float(np.mean(answered)),
            "least answered": float(min(answered)), "error": float(np.mean(test)), "least error": float(min(test)),
            "most error": float(max(test))}


def check(work, variant, results):
    name, width, _ = VARIANTS[variant]
    mfgs = Mfgs(work, variant)
    rows = reference.read_all(work, name, "test", width)
    y = reference.exact(rows)
    if f"{variant} · mfgs" not in results:
        said = mfgs.calibrate()
        seconds = {"calibrate": mfgs.seconds}
        predicted = mfgs.predict("test")
        seconds["predict"] = mfgs.seconds
        write(mfgs.folder / "test.json", json.dumps(predicted))
        results.add(f"{variant} · calibrated", said)
        results.add(f"{variant} · mfgs", {
            **against_reference(predicted, rows), "seconds": seconds, "confidence": quality(confidence(predicted), y),
            "characters": characters(predicted, rows), "answers": answers(predicted, y)})
    predicted = json.loads((mfgs.folder / "test.json").read_text())
    if f"{variant} · OOD" not in results:
        results.add(f"{variant} · OOD", ood(mfgs))
    if f"{variant} · export" not in results:
        mfgs.export()
        results.add(f"{variant} · export", exported(mfgs, predicted))


def main():
    work = arguments().work
    results = Results(work / "check.json")
    failed = 0
    for variant, (name, width, _) in VARIANTS.items():  # without mfgs
        for key, f in (("splits", splits), ("reference", lambda w, n, d: platt(w, n, d, reference.read_all(
                w, n, "test", d)))):
            if f"{variant} · {key}" not in results:
                results.add(f"{variant} · {key}", f(work, name, width))
    for variant in VARIANTS:
        try:
            check(work, variant, results)
        except (RuntimeError, LookupError, TypeError, ValueError) as e:  # refused, or other names: see the top
            print(f"{variant}: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
            failed += 1
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
