"""Writes golden.json: inputs and their figures from scikit-learn 1.2.1.

    python3 golden.py > golden.json

The figures that scikit-learn lacks (ECE, multiclass Brier, detection accuracy,
FPR95, AURC) are written out below from their definitions, with numpy 1.24.2.
"""
import json
import sys

import numpy as np
import sklearn
from sklearn import metrics

assert sklearn.__version__ == "1.2.1", sklearn.__version__
rng = np.random.default_rng(20240517)


def classification(n, k, scale, bins):
    logits = rng.normal(size=(n, k)) * scale
    labels = np.where(rng.random(n) < 0.6, logits.argmax(1), rng.integers(0, k, n))
    logits = np.round(logits, 3)
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    logp = np.round(logp, 12)
    p = np.exp(logp)
    onehot = np.eye(k)[labels]
    top, confidence = p.argmax(1), p.max(1)
    ece = 0.0
    for b in range(bins):
        inside = (confidence > b / bins) & (confidence <= (b + 1) / bins)
        if inside.any():
            ece += inside.mean() * abs((top == labels)[inside].mean() - confidence[inside].mean())
    return {
        "k": k, "bins": bins, "logp": logp.ravel().tolist(), "labels": labels.tolist(),
        "error": 1 - metrics.accuracy_score(labels, top),
        "nll": metrics.log_loss(labels, p, labels=range(k)),
        "ece": ece,
        "brier": ((p - onehot) ** 2).sum(1).mean(),
        # scikit-learn's score is that of class 1 alone: half of ours at k = 2.
        "half_brier": metrics.brier_score_loss(labels, p[:, 1]) if k == 2 else None,
    }


def detection(n_in, n_out, shift, decimals):
    s_in = np.round(rng.normal(size=n_in), decimals)
    s_out = np.round(rng.normal(size=n_out) + shift, decimals)
    s, y = np.r_[s_in, s_out], np.r_[np.zeros(n_in), np.ones(n_out)]
    thresholds = np.r_[-np.inf, np.unique(s)]
    tpr = np.array([(s_in <= t).mean() for t in thresholds])
    fpr = np.array([(s_out <= t).mean() for t in thresholds])
    hits = np.array([(s_in <= t).sum() for t in thresholds])
    return {
        "in": s_in.tolist(), "out": s_out.tolist(),
        "accuracy": ((tpr + 1 - fpr) / 2).max(),
        "auroc": metrics.roc_auc_score(y, s),
        "aupr_in": metrics.average_precision_score(1 - y, -s),
        "aupr_out": metrics.average_precision_score(y, s),
        "fpr95": fpr[100 * hits >= 95 * n_in][0],
    }


def selective(n):
    u = rng.permutation(n) / 7
    wrong = rng.random(n) < u / u.max() * 0.5
    risks = np.cumsum(wrong[np.argsort(u)]) / np.arange(1, n + 1)
    return {"uncertainty": u.tolist(), "wrong": wrong.tolist(), "aurc": risks.mean()}


def quantiles(n):
    x = np.sort(np.round(rng.normal(size=n), 4))
    q = [0, 0.025, 0.3, 0.5, 0.975, 1]
    return {"x": x.tolist(), "q": q, "want": np.quantile(x, q).tolist()}


json.dump({
    "classification": [classification(40, 2, 2, 10), classification(60, 5, 1.5, 10), classification(30, 12, 4, 15)],
    "detection": [detection(60, 40, 1.5, 6), detection(50, 70, 0.5, 1), detection(20, 20, 0, 0), detection(1, 1, 3, 3)],
    "selective": [selective(50)],
    "quantiles": [quantiles(1), quantiles(10), quantiles(41)],
}, sys.stdout, separators=(",", ":"))
print()
