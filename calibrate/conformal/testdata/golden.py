"""Writes golden.json: binomial bounds of scipy, thresholds and sets of torchcp.

    python golden.py            # numpy 2.4.6, scipy 1.17.1, torch 2.15.0, torchcp 1.2.1

torchcp's APS and RAPS take a random part of a class's own probability off the mass down to that
class. Here all of it is taken off, by drawing ones.
"""
import json
import pathlib
import sys
from unittest import mock

import numpy as np
import torch
from scipy.stats import beta, binom

# What only other parts of torchcp need.
for name in ("torchsort", "torchcp.graph", "torchcp.llm", "torchcp.regression"):
    sys.modules[name] = mock.MagicMock()
from torchcp.classification.predictor import SplitPredictor
from torchcp.classification.score import APS, LAC, RAPS

rng = np.random.default_rng(14)
out = {"bounds": [], "cdf": [], "sets": []}
for n in (1, 5, 40, 299, 2500, 25000):
    for k in sorted({0, 1, n // 100, n // 10, n // 2, n - 1, n}):
        for confidence in (0.9, 0.95, 0.999):
            upper = 1.0 if k == n else beta.ppf(confidence, k + 1, n - k)
            lower = 0.0 if k == 0 else beta.ppf(1 - confidence, k, n - k + 1)
            out["bounds"].append([k, n, confidence, lower, upper])
        for p in (1e-4, 0.01, 0.3, 0.9):
            out["cdf"].append([k, n, p, binom.cdf(k, n, p)])

torch.set_default_dtype(torch.float64)
torch.rand = lambda *shape, **_: torch.ones(shape[0] if isinstance(shape[0], (tuple, torch.Size)) else shape)

for name, penalty, free in (("lac", 0, 0), ("aps", 0, 0), ("raps", 0.05, 2)):
    for n, alpha in ((39, 0.1), (59, 0.05)):
        logits = torch.tensor(np.round(2 * rng.standard_normal((n + 20, 6)), 3))
        p = torch.softmax(logits, 1)
        labels = torch.tensor([rng.choice(6, p=row.numpy()) for row in p])
        score = {"lac": LAC(score_type="identity"), "aps": APS(score_type="identity"),
                 "raps": RAPS(score_type="identity", penalty=float(penalty), kreg=free)}[name]
        predictor = SplitPredictor(score_function=score, alpha=alpha)
        predictor.calculate_threshold(p[:n], labels[:n], alpha)
        sets = predictor.predict_with_logits(p[n:]).bool()
        out["sets"].append({
            "score": name, "penalty": penalty, "free": free, "alpha": alpha,
            "probabilities": p.flatten().tolist(), "labels": labels[:n].tolist(), "threshold": float(predictor.q_hat),
            "in": [[k for k in range(6) if row[k]] for row in sets],
        })

pathlib.Path(__file__).with_name("golden.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")
