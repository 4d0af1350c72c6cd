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
    frame, local, path = (odds(np.array([r[k] for r in rows])) for k in ("frame", "local", "frames' mean"))
    alone = {"mean": mean, "product": product, "minimum of first": c["first"], "minimum of maximum": c["maximum"],
             "minimum of posterior": c["posterior"], "minimum of all frames": frame, "mean of all frames": path,
             "p among texts with one edit": local}
    more = {**{f"minimum of {k}": c[k] for k in reference.CHARACTERS}, "minimum of all frames": frame,
            "mean of all frames": path, "p among texts with one edit": local, "mean": mean, "length": length,
            "log length": np.log1p(length), "p per character": lp / np.maximum(length, 1),
            "frames": np.array([r["frames"] for r in rows]), "p of the best path": np.array([r["path"] for r in rows])}

    def both(*names):
        return np.c_[x, np.stack([more[n] for n in names], 1)], True
    return {
        "as it is": (None, p),
        "temperature": (x[:, None], False),
        "Platt": (x[:, None], True),
        "beta": (beta, True),
        **{f"Platt + {k}": both(k) for k in more if more[k].std() > 0},
        "beta + length": (np.c_[beta, length], True),
        "beta + minimum of first": (np.c_[beta, c["first"]], True),
        "beta + minimum of posterior": (np.c_[beta, c["posterior"]], True),
        "Platt + minimum of first + length": both("minimum of first", "length"),
        "Platt + minimum of posterior + length": both("minimum of posterior", "length"),
        "Platt + minimum of all frames + length": both("minimum of all frames", "length"),
        "Platt + minima of first and of posterior": both("minimum of first", "minimum of posterior"),
        "Platt + six": both("minimum of posterior", "p among texts with one edit", "minimum of maximum",
                            "minimum of all frames", "length", "mean"),
        **{f"{k} alone": (v[:, None], True) for k, v in alone.items()},
    }


def fit(x, y, intercept):
    centre, scale = x.mean(0) * intercept, x.std(0)
    m = LogisticRegression(C=1e6, max_iter=5000, fit_intercept=intercept).fit((x - centre) / scale, y)
    return lambda z: expit((z - centre) / scale @ m.coef_[0] + m.intercept_)


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
    # A map of the character's number and of the line's p(text), or of two of the character's.
    whole = np.concatenate([[odds(np.exp(min(r["log_p"], 0)))] * len(r["right"]) for r in rows])
    pairs = {f"{k} and p(text)": np.c_[odds(values[k]), whole] for k in reference.CHARACTERS}
    pairs["maximum and posterior"] = np.c_[odds(values["maximum"]), odds(values["posterior"])]
    pairs["maximum, posterior and p(text)"] = np.c_[pairs["maximum and posterior"], whole]
    for k, x in pairs.items():
        p = np.zeros(len(right))
        for f in range(FOLDS):
            a = line % FOLDS != f
            p[~a] = fit(x[a], right[a], True)(x[~a])
        out[k] = {"AUROC": float(roc_auc_score(right, p)), "NLL": float(nll(p, right).mean()),
                  "ECE": float(ece(p, right))}
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
