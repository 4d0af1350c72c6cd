"""Writes reference.json: scores by pytorch-ood's own code, which reference_test.go compares ours with.

    pip install pytorch-ood==0.4.0 torch==2.15.0 scikit-learn==1.9.1 numpy==2.4.6
    python reference.py

The library works in float32 in places; here it is made to work in float64 throughout, so that what
differs is not rounding. Features, weights and logits are multiples of 1/16384, which float32 holds.
"""

import json

import numpy as np
import torch
from pytorch_ood.detector import (
    ASH, Entropy, EnergyBased, GEN, KNN, Mahalanobis, MaxLogit, RMD, ReAct, ViM, fDBD,
)

torch.set_default_dtype(torch.float64)
torch.Tensor.float = torch.Tensor.double


def grid(x):
    return np.round(x * 16384) / 16384


def lists(x):
    return np.asarray(x).tolist()


def case(rng, name, train, features, classes, rectified):
    """Some classes in features of unequal and correlated directions, and queries ever farther away."""
    labels = np.arange(train) % classes
    centres = rng.normal(size=(classes, features)) * 1.5
    mix = rng.normal(size=(features, features)) * np.exp(-np.arange(features) / features * 3)[:, None]
    z = centres[labels] + rng.normal(size=(train, features)) @ mix * 0.5
    z += rng.normal(size=z.shape) * 0.3
    n = 24
    far = np.linspace(0.5, 3, n)[:, None]
    queries = centres[rng.integers(classes, size=n)] + far * rng.normal(size=(n, features)) @ mix
    if rectified:
        z, queries = np.maximum(z, 0), np.maximum(queries, 0)
    w = grid(centres * 0.4 + rng.normal(size=(classes, features)) * 0.1)
    b = grid(rng.normal(size=classes))
    z, queries = grid(z), grid(queries)

    t = torch.from_numpy
    head = torch.nn.Linear(features, classes)
    with torch.no_grad():
        head.weight.copy_(t(w))
        head.bias.copy_(t(b))
    encoder = torch.nn.Identity()
    zt, lt, qt = t(z), t(labels), t(queries)
    logits = head(qt).detach()
    maps = lambda x: x[:, :, None, None]
    ofmaps = lambda x: head(x[:, :, 0, 0])

    # The dimension of a principal space of fewer than 768 features is half of them.
    vim = ViM(None, features // 2, t(w), t(b)).fit_features(zt, lt)
    react = ReAct(encoder, ofmaps, percentile=0.9).fit_feature_maps(maps(zt), lt)
    mahalanobis = Mahalanobis(None).fit_features(zt, lt)
    scores = {
        "max_logit": MaxLogit.score(logits),
        "energy": EnergyBased.score(logits),
        # Of softened logits: these two take no probability for less than 1e-7.
        "entropy": Entropy.score(logits / 8),
        "gen": GEN.score(logits / 8, gamma=0.1, M=None),  # the mean, not the sum
        "react": react.predict_feature_maps(maps(qt)),
        "ash": ASH(encoder, ofmaps, "ash-s", percentile=0.65).predict_feature_maps(maps(qt)),
        "fdbd": fDBD(encoder, head).fit_features(zt).predict_features(qt),
        "mahalanobis": mahalanobis.predict_features(qt),  # half of it, of sums in place of a covariance
        "relative_mahalanobis": RMD(None).fit_features(zt, lt).predict_features(qt),  # of sums, too
        "residual": ((qt - vim.u) @ vim.principal_subspace).norm(dim=1),
        "vim": vim.predict_features(qt),
        "knn": KNN(None, k=50).fit_features(zt, lt).predict_features(qt),
    }
    return {
        "name": name, "classes": classes, "features": features,
        "train": lists(z), "labels": lists(labels), "weight": lists(w), "bias": lists(b), "queries": lists(queries),
        "threshold": react.threshold, "alpha": vim.alpha, "origin": lists(vim.u),
        "scores": {k: lists(v.detach()) for k, v in scores.items()},
    }


cases = [
    case(np.random.default_rng(16), "rectified", 300, 20, 4, True),
    case(np.random.default_rng(15), "signed", 120, 9, 3, False),
]
with open("reference.json", "w") as f:
    f.write('{"cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
