"""Writes reliability.json: probabilities and their debiased and class-wise calibration errors.

    pip install uncertainty-calibration==0.1.4 numpy==2.4.6
    python3 reliability.py > reliability.json

The debiased errors are those of uncertainty-calibration, by the authors of Kumar, Liang and Ma
(2019), with bins of equal width. The class-wise ECE of Kull et al. (2019) is the mean of that
library's errors with power 1 of each class's own probabilities.
"""
import importlib.metadata
import json
import sys

import calibration.utils as cal
import numpy as np

assert importlib.metadata.version("uncertainty-calibration") == "0.1.4"
assert np.__version__ == "2.4.6"
rng = np.random.default_rng(20261122)


def binned(p, right, bins):
    edges = [(b + 1) / bins for b in range(bins)]
    data = cal.bin(list(zip(p.tolist(), right.astype(float).tolist())), edges)
    return [b for b in data if len(b) > 0]


def case(n, k, scale, true, bins):
    logits = np.round(rng.normal(size=(n, k)) * scale, 3)
    z = logits * true
    q = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    labels = np.array([rng.choice(k, p=row) for row in q])
    logp = np.round(logits - np.log(np.exp(logits).sum(1, keepdims=True)), 12)
    p = np.exp(logp)
    top, confidence = p.argmax(1), p.max(1)
    return {
        "k": k, "bins": bins, "logp": logp.ravel().tolist(), "labels": labels.tolist(),
        "square": cal.unbiased_square_ce(binned(confidence, top == labels, bins)),
        "debiased": cal.unbiased_l2_ce(binned(confidence, top == labels, bins)),
        "classwise": np.mean([cal.plugin_ce(binned(p[:, j], labels == j, bins), power=1) for j in range(k)]),
    }


json.dump([
    case(200, 2, 2, 1, 10), case(150, 5, 3, 0.4, 10), case(120, 12, 4, 0.3, 15),
    case(60, 3, 1, 1, 10), case(7, 4, 3, 0.1, 15),
], sys.stdout, separators=(",", ":"))
print()
