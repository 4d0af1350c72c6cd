"""Averages of networks: mfgs on the average as a whole, against an average of what mfgs makes of each member."""
import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier

from common import Mfgs, Results, Table, TABLES, arguments, outputs
from kinds import export, scaled, vote
from maps import nll

MEMBERS, VAL, TEST = 5, 1000, 2000
WHOLE = "average of 5 MLPs"
# What is flagged, and by which options of the whole.
WHOLES = {"entropy": [], "column_mahalanobis": ["--features", "X"],
          "column_knn": ["--features", "X", "--ood-score", "column_knn"]}


def permuted(x):
    """Rows with the columns of different rows: each column is as before, the rows are not."""
    rng = np.random.default_rng(0)
    return np.stack([rng.permutation(c) for c in x.T], 1)


def served(path, x, probabilities):
    """Probabilities and percentile in Python's onnxruntime, of a file that mfgs exported."""
    out = outputs(path, x)
    return out[probabilities].astype(float), out["ood_percentile"].astype(float)


def auroc(known, other):
    return roc_auc_score(np.r_[np.zeros(len(known)), np.ones(len(other))], np.r_[known, other])


def measure(work, t):
    order = np.random.default_rng(0).permutation(len(t.pool_y))
    val, test = order[:VAL], order[VAL:VAL + TEST]
    x, y = t.pool_x[test], t.pool_y[test]
    apart = permuted(x)
    mfgs = Mfgs(work, "ensembles")
    train, path = mfgs.rows("train", t.x, t.y), mfgs.folder / "model.onnx"
    members = [scaled(MLPClassifier((64,), max_iter=60, random_state=i)).fit(t.x, t.y) for i in range(MEMBERS)]
    mf0, known, other = [], [], []
    for m in members:
        export("MLP", m, t.x, path, zipmap=False)
        mfgs.calibrate(path, t.pool_x[val], t.pool_y[val], "--train", train, head=())
        exported = mfgs.export("--method", "mf0")
        p, s = served(exported, x, "mfgs_probabilities")
        mf0.append(p)
        known.append(s)
        other.append(served(exported, apart, "mfgs_probabilities")[1])
    whole = vote(*members).fit(t.x, t.y)
    export(WHOLE, whole, t.x, path, zipmap=False)
    out = {"plain": nll(np.log(np.mean([m.predict_proba(x) for m in members], 0)), y),
           "mean of mf0": nll(np.log(np.mean(mf0, 0)), y),
           "auroc of members": auroc(np.mean(known, 0), np.mean(other, 0))}
    for name, options in WHOLES.items():
        mfgs.calibrate(path, t.pool_x[val], t.pool_y[val], *options, *(["--train", train] if options else []))
        exported = mfgs.export()
        p, s = served(exported, x, "mfgs_probabilities")
        out["whole"] = nll(np.log(p), y)
        out[name] = auroc(s, served(exported, apart, "mfgs_probabilities")[1])
    return out


def main():
    work = arguments().work
    results = Results(work / "ensembles.json")
    for name in TABLES:
        if name not in results:
            results.add(name, measure(work, Table(work, name)))


if __name__ == "__main__":
    main()
