#!/usr/bin/env python3
"""Compares the runtimes' outputs of the exported models with the predictions of mfgs in Go.

    python3 compare.py --work FOLDER        (after prepare.py and the run_*s)

For each model and runtime the largest differences:

    p        of a probability, from Go's, and from the printed formulas in float64 of Go's logits and variances; bound 1e-5. Go predicts
             what the bundle serves: for mf1 there are but the formulas
    ood      likewise of the out-of-distribution score, by the formulas where it is mf0 or studentized; bound 1e-5
    pct      of its percentile, from the quantiles of the bundle at the runtime's own score; bound 1e-9
    head     of a probability or score, from the printed formulas of the runtime's own logits, variances and leverages; bound 1e-5
    logits   relative to the largest of the example; bound 1e-5, which is what float32 inference differs by between two machines
    s2, lev  relative, of the logit variance and the leverage; bound 1e-4
    dec      the part of decisions, abstain and each class of a prediction set, that are not Go's; bound 0. For mf1 there is no Go's
    own      of the outputs that the model had before, from the original model's in the same runtime, relative; in Python only. Bound
             1e-6 without optimisations. With them, what the head reads cannot be fused away, and where a quantised Softmax was, its
             float32 form comes

A quantised network's logits depend on where a runtime rounds: on its version, its processor, its optimisations. ONNX's reference evaluator
rounds half precision after every step, which runtimes do not. Where the logits of such a model are beyond their bound, only head is held
against the runtime. And half precision's own outputs may move by 1e-3: which casts there are depends on who reads the logits.

All lines go to FOLDER/results/table.txt; standard output has one a runtime for each group of models, and each that is beyond a bound.
Fails if there is such a line, or a result is missing. A model whose original the runtime does not take is counted, not compared.
"""

import argparse
import collections
import functools
import glob
import json
import os
import re
import sys

import numpy as np

BOUNDS = {"p": 1e-5, "ood": 1e-5, "pct": 1e-9, "head": 1e-5, "logits": 1e-5, "s2": 1e-4, "lev": 1e-4, "dec": 0, "own": 1e-6}


def sigmoid(x):
    return np.where(x > 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def margin(rest, outcomes):
    """log((1-r)/r) less that of r by chance, where r is 1 - max p."""
    with np.errstate(divide="ignore"):
        return max(0.0, np.log((1 - rest) / rest) + np.log(outcomes - 1))


def formula(link, method, mu, s2, lambda0):
    """Probabilities and margin of one example, by the formulas as they are printed, with logits μ/T_act and variances s²/T_ens."""
    t = np.sqrt(1 + lambda0 * s2)
    if link == "sigmoid":
        p = sigmoid(mu / t)
        return p if len(p) > 1 else np.array([1 - p[0], p[0]]), margin(sigmoid(-np.abs(mu / t)).mean(), 2)
    if link == "one-vs-rest":
        e = sigmoid(mu / t)
    else:
        # Σ_i exp(-(μ_k-μ_i)/T_k), with √(1+λ₀(s²_k+s²_i)) in the place of T_k for mf1 and i ≠ k.
        z = (mu[None, :] - mu[:, None]) / (t[:, None] if method == "mf0" else np.sqrt(1 + lambda0 * (s2[:, None] + s2[None, :])))
        top = z.max(1)
        log = -(top + np.log(np.exp(z - top[:, None]).sum(1)))
        e = np.exp(log - log.max())
    p = e / e.sum()
    return p, margin(np.delete(p, p.argmax()).sum(), len(p))


def relative(x, want):
    # Features that are all zero have no variance without a bias.
    return np.where(x == want, 0, np.abs(x - want) / np.where(want == 0, 1e-300, want))


def formulas(numbers, method, logits, s2, leverage):
    """Probabilities [N,C] by the formulas, of logits and of the posterior's own variances, [N,K] each, and of leverages [N]; and scores [N], or
    None of a score that has no formula here."""
    temperatures = numbers["nll"] if method in ("mf0", "mf1") else {"act": numbers["ts"] if method == "ts" else 1, "ens": np.inf}
    of = lambda pair, method: zip(*[formula(numbers["link"], method, mu / pair["act"], v / pair["ens"], numbers["lambda0"]) for mu, v in zip(logits, s2)])
    p, _ = of(temperatures, "mf1" if method == "mf1" else "mf0")
    if numbers["score"] == "mf0":
        _, g = of(numbers["ood"], "mf1" if method == "mf1" else "mf0")
    elif numbers["score"] == "studentized":
        top = np.abs(logits).mean(1) if numbers["link"] == "sigmoid" else logits.max(1) - logits.mean(1)
        with np.errstate(divide="ignore"):
            g = top / np.sqrt(leverage)
    else:
        return np.array(p), None
    return np.array(p), numbers["median"] / (numbers["median"] + np.array(g))


class Want:
    """The examples of a run, as arrays [N] and [N,K]."""

    def __init__(self, numbers, method, predictions):
        get = lambda k: np.array([p[k] for p in predictions], np.float64)
        self.logits, self.s2, self.lev = get("logits"), get("logit_variance"), get("leverage")
        p, ood = formulas(numbers, method, self.logits, self.s2, self.lev)
        self.p, self.ood = [p], [] if ood is None else [ood]
        self.decisions = {}
        if method != "mf1":
            self.p.append(get("probabilities"))
        if method != "mf1" or numbers["score"] != "mf0":
            self.ood.append(get("ood_score"))
        if method != "mf1":
            self.decisions = {k: np.array([p[k] if k == "abstain" else np.isin(np.arange(len(p["probabilities"])), p[k]) for p in predictions], bool)
                              for k in ("abstain", "prediction_set") if k in predictions[0]}


@functools.cache
def wanted(id):
    w = json.load(open(os.path.join(args.work, "cases", id, "want.json")))
    return w, [Want(w["manifest"], w["method"], r["predictions"]) for r in w["runs"]]


def largest(x):
    # Not max, which a NaN can get past.
    x = np.asarray(x, np.float64)
    return float("inf") if np.isnan(x).any() else float(x.max(initial=0))


def pvalues(q, n, ood):
    """The conformal p-values of scores, by m quantiles of n: (1 + a)/(1 + n), of at most a scores at or above each."""
    below = np.searchsorted(q, ood)
    atleast = np.where(below == 0, n, n - 1 - (below - 1) * (n - 1) // (len(q) - 1))
    return (1 + atleast) / (1 + n)


def differences(id, result):
    w, wants = wanted(id)
    q = w["manifest"]["quantiles"]
    worst = dict.fromkeys(BOUNDS, 0.0)
    worst["own"] = result.get("own", 0.0)
    for want, got in zip(wants, result["runs"], strict=True):
        n, k = want.logits.shape
        shapes = {"probabilities": want.p[0].shape[1:], "logits": (k,), "logit_variance": (k,), "ood_score": (), "ood_percentile": (), "ood_pvalue": (), "leverage": (), "abstain": (), "prediction_set": want.p[0].shape[1:]}
        a = {}
        for o, shape in shapes.items():
            if o not in got:
                continue
            dims = got[o]["dims"]
            if tuple(dims[1:]) != shape or dims[0] < n:
                raise ValueError(f"{o} is of shape {dims}, want {[n, *shape]}")
            # A None is a NaN or an infinity: JavaScript writes null for them.
            a[o] = np.array(got[o]["data"], np.float64).reshape(dims)[:n]
        p, ood = formulas(w["manifest"], w["method"], a["logits"], a["logit_variance"], a["leverage"])
        for kind, d in [
            *[("p", np.abs(a["probabilities"] - x)) for x in want.p],
            *[("ood", np.abs(a["ood_score"] - x)) for x in want.ood],
            ("head", np.abs(a["probabilities"] - p)),
            *([] if ood is None else [("head", np.abs(a["ood_score"] - ood))]),
            ("pct", np.abs(a["ood_percentile"] - np.interp(a["ood_score"], q, np.linspace(0, 1, len(q))))),
            ("pct", np.abs(a["ood_pvalue"] - pvalues(q, int(w["manifest"]["examples"]), a["ood_score"]))),
            *[("dec", (a[o] != x).mean()) for o, x in want.decisions.items() if o in a],
            ("logits", np.abs(a["logits"] - want.logits) / (1 + np.abs(want.logits).max(1, keepdims=True))),
            ("s2", relative(a["logit_variance"], want.s2)),
            ("lev", relative(a["leverage"], want.lev)),
        ]:
            worst[kind] = max(worst[kind], largest(d))
    return worst


def other_network(worst, case):
    """Whether the runtime rounds the network's values elsewhere than Go's."""
    return case["rounds"] and worst["logits"] > BOUNDS["logits"]


def beyond(worst, runtime, case):
    bounds = dict(BOUNDS)
    if other_network(worst, case):
        bounds = {"head": BOUNDS["head"]}
    elif "unoptimised" not in runtime:
        del bounds["own"]
    elif case["rounds"]:
        bounds["own"] = 1e-3
    return [k for k, bound in bounds.items() if not worst[k] <= bound]


def line(name, runtime, worst, note=""):
    return f"{name:<38} {runtime:<28} " + " ".join(f"{worst[k]:7.1e}" for k in BOUNDS) + ("  " + note if note else "")


def short(error):
    # ONNX Runtime says where in its sources first, and what is wrong last.
    text = " ".join(str(error).split())
    return text if len(text) <= 240 else text[:80] + " … " + text[-160:]


parser = argparse.ArgumentParser()
parser.add_argument("--work", required=True)
args = parser.parse_args()
cases = {c["id"]: c for c in (json.load(open(p)) for p in glob.glob(os.path.join(args.work, "cases", "*", "case.json")))}
runtimes = sorted(os.listdir(os.path.join(args.work, "results"))) if os.path.isdir(os.path.join(args.work, "results")) else []
runtimes = [r for r in runtimes if os.path.isdir(os.path.join(args.work, "results", r))]
head = f"{'model':<38} {'runtime':<28} " + " ".join(f"{k:>7}" for k in BOUNDS)
table, bad, groups, not_taken = [head], [], collections.defaultdict(list), collections.defaultdict(set)
for id, c in sorted(cases.items()):
    group = {"fixture": "testdata/onnx", "wide": re.sub(r"opset-\d+", "opsets 7 to 24", id)}.get(c["group"], id)
    for runtime in runtimes:
        path = os.path.join(args.work, "results", runtime, id + ".json")
        if not os.path.exists(path):
            bad.append(f"{id:<38} {runtime:<28} no result")
            continue
        result = json.load(open(path))
        if not result["original"]:
            not_taken[runtime].add(id)
            table.append(f"{id:<38} {runtime:<28} the original is not taken: {short(result['error'])}")
            continue
        try:
            if "error" in result:
                raise ValueError(result["error"])
            worst = differences(id, result)
        except ValueError as e:
            table.append(f"{id:<38} {runtime:<28} {short(e)}")
            bad.append(table[-1])
            continue
        over = beyond(worst, runtime, c)
        rounded = other_network(worst, c)
        table.append(line(id, runtime, worst, "beyond: " + ", ".join(over) if over else "rounds elsewhere" if rounded else ""))
        if over:
            bad.append(table[-1])
        # What is not held against the runtime must not hide the rest.
        groups[group + (", rounded elsewhere" if rounded else ""), runtime].append(worst)
with open(os.path.join(args.work, "results", "table.txt"), "w") as f:
    f.write("\n".join(table) + "\n")
print(head)
for (group, runtime), all in sorted(groups.items()):
    print(line(group, runtime, {k: max(w[k] for w in all) for k in BOUNDS}, f"{len(all)} models" if len(all) > 1 else ""))
for runtime in runtimes:
    of = [w for (_, r), all in groups.items() if r == runtime for w in all]
    print(f"{runtime}: {len(of)} models compared, {len(not_taken[runtime])} whose original it does not take")
    if not of:
        bad.append(f"{'':<38} {runtime:<28} nothing compared")
for b in bad:
    print("FAIL", b)
print(f"{len(cases)} models, {len(runtimes)} runtimes, {len(bad)} failures")
if bad or not cases or not runtimes:
    sys.exit(1)
