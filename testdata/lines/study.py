"""What detects wrong lines and wrong characters best: maps and probabilities of characters, compared in Python."""
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

import reference
from common import RECOGNISERS, Results, arguments

FOLDS = 5
SMALL = (100, 300, 1000)  # lines for fitting, of those that are drawn
DRAWS = 20
EDGE = 1e-7  # of probabilities, before their log-odds


def odds(p):
    p = np.clip(p, EDGE, 1 - EDGE)
    return np.log(p) - np.log1p(-p)


def least(rows, kind):
    return np.array([min(r[kind], default=EDGE) for r in rows])


def maps(rows):
    """The inputs of each logistic map, and whether it has an intercept. None: as it is."""
    lp = np.array([r["log_p"] for r in rows])
    p, length = np.exp(np.minimum(lp, 0)), np.array([len(r["text"]) for r in rows])
    x = odds(p)
    beta = np.c_[np.log(np.clip(p, EDGE, 1)), -np.log1p(-np.clip(p, 0, 1 - EDGE))]
    c = {k: odds(least(rows, k)) for k in reference.CHARACTERS}
    mean, product = (odds(np.array([f(r["first"] or [EDGE]) for r in rows])) for f in (np.mean, np.prod))
    frames = np.array([r["frames"] for r in rows])
    return {
        "as it is": (None, p),
        "temperature": (x[:, None], False),
        "Platt": (x[:, None], True),
        "beta": (beta, True),
        **{f"Platt + minimum of {k}": (np.c_[x, c[k]], True) for k in reference.CHARACTERS},
        "Platt + length": (np.c_[x, length], True),
        "Platt + log length": (np.c_[x, np.log1p(length)], True),
        "Platt + frames": (np.c_[x, frames], True),
        "Platt + mean": (np.c_[x, mean], True),
        "beta + minimum of first": (np.c_[beta, c["first"]], True),
        "Platt + minimum of first + length": (np.c_[x, c["first"], length], True),
        "Platt + minima of first and posterior": (np.c_[x, c["first"], c["posterior"]], True),
        "mean alone": (mean[:, None], True),
        "product alone": (product[:, None], True),
        "minimum of first alone": (c["first"][:, None], True),
        "minimum of posterior alone": (c["posterior"][:, None], True),
    }


def fit(x, y, intercept):
    scale = x.std(0) + 1e-9
    m = LogisticRegression(C=1e6, max_iter=5000, fit_intercept=intercept).fit(x / scale, y)
    return lambda z: expit(z / scale @ m.coef_[0] + m.intercept_)


def nll(p, y):
    p = np.clip(np.where(y, p, 1 - p), EDGE, 1)
    return -np.log(p)


def ece(p, y, bins=15):
    b = np.minimum((p * bins).astype(int), bins - 1)
    return sum(abs(p[b == k].mean() - y[b == k].mean()) * (b == k).mean() for k in range(bins) if (b == k).any())


def lines_study(rows):
    y = reference.exact(rows)
    out, base = {}, None
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(y, y))
    for name, (x, intercept) in maps(rows).items():
        if x is None:
            p, small = intercept, {}
        else:
            p = np.zeros(len(y))
            for a, b in folds:
                p[b] = fit(x[a], y[a], intercept)(x[b])
            small = {n: [] for n in SMALL}
            for n in SMALL:
                for seed in range(DRAWS):
                    order = np.random.default_rng(seed).permutation(len(y))
                    a, b = order[:n], order[n:]
                    small[n].append(float(nll(fit(x[a], y[a], intercept)(x[b]), y[b]).mean()))
        loss = nll(p, y)
        base = loss if name == "Platt" else base
        d = loss - base if base is not None else None
        out[name] = {"NLL": float(loss.mean()), "AUROC": float(roc_auc_score(y, p)), "ECE": float(ece(p, y)),
                     "less Platt": None if d is None else float(d.mean()),
                     "SE": None if d is None else float(d.std() / len(d)**0.5),
                     **{str(n): float(np.mean(v)) for n, v in small.items()}}
    return out


def characters_study(rows):
    """AUROC of finding the characters of the text that are wrong, NLL as it is and after Platt, by line in folds."""
    right = np.concatenate([r["right"] for r in rows]).astype(bool)
    line = np.concatenate([[i] * len(r["right"]) for i, r in enumerate(rows)]).astype(int)
    out = {"characters": len(right), "wrong": int((~right).sum()),
           "missing": sum(r["edits"] - (len(r["right"]) - sum(r["right"])) for r in rows)}
    values = {k: np.concatenate([r[k] for r in rows]) for k in reference.CHARACTERS}
    for k, v in values.items():
        x, p = odds(v)[:, None], np.zeros(len(v))
        for f in range(FOLDS):
            a = line % FOLDS != f
            p[~a] = fit(x[a], right[a], True)(x[~a])
        out[k] = {"AUROC": float(roc_auc_score(right, v)), "mean": float(v.mean()),
                  "NLL as it is": float(nll(v, right).mean()), "NLL": float(nll(p, right).mean()),
                  "ECE as it is": float(ece(v, right)), "ECE": float(ece(p, right))}
    # Within lines that are wrong, is the least probable character a wrong one?
    wrong = [r for r in rows if not all(r["right"])]
    for k in values:
        out[k]["least is wrong"] = float(np.mean([not r["right"][int(np.argmin(r[k]))] for r in wrong]))
    return out


def replaced_study(work, name, width):
    """How well the probabilities find the characters that were replaced by unknown letters."""
    out = {}
    for part in ("clean-replaced", "damaged-replaced"):
        rows = reference.read_all(work, name, part, width)
        right = np.concatenate([r["right"] for r in rows]).astype(bool)
        out[part] = {k: float(roc_auc_score(right, np.concatenate([r[k] for r in rows])))
                     for k in reference.CHARACTERS}
    return out


def main():
    work = arguments().work
    results = Results(work / "study.json")
    for name in RECOGNISERS:
        width = reference.WIDTHS[name][0]
        rows = reference.read_all(work, name, "test", width)
        for key, f in (("lines", lambda: lines_study(rows)), ("characters", lambda: characters_study(rows)),
                       ("replaced", lambda: replaced_study(work, name, width))):
            if f"{name} · {key}" not in results:
                results.add(f"{name} · {key}", f())


if __name__ == "__main__":
    main()
