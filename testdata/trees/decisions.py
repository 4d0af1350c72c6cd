"""How often are the guarantees of prediction sets and of abstention violated on random draws of validation rows?"""
import numpy as np

from common import Mfgs, Results, Table, arguments, inside
from kinds import KINDS, export

ALPHA = 0.1
# The rows that no model is trained on: of these are the validation rows, half of which set thresholds.
POPULATION, VAL = 3000, 600
# A table, a kind of model, the largest error of the answers, and how many splits.
CELLS = [
    ("spam", "XGBoost", 0.03, 100),
    ("spam", "HistGradientBoosting", 0.03, 100),
    ("spam", "RandomForest", 0.03, 100),
    ("spam", "DecisionTree", 0.05, 100),
    ("satellite", "LightGBM", 0.05, 100),
    ("satellite", "ExtraTrees", 0.05, 100),
    ("satellite", "SVC, scores", 0.05, 30),  # slow, as the next ones are
    ("satellite", "KNeighbors", 0.05, 30),
    ("ticdata", "RandomForest", 0.05, 30),
    ("letter", "CatBoost", 0.05, 30),
]


def split(mfgs, path, x, y, target, seed):
    """One split. The population includes the validation rows; what is for testing does not."""
    order = np.random.default_rng(seed).permutation(len(y))
    val, test = order[:VAL], order[VAL:]
    out = {"achievable": True}
    try:
        mfgs.calibrate(path, x[val], y[val], "--alpha", ALPHA, "--target-error", target)
    except RuntimeError as e:
        if "cannot be guaranteed" not in str(e):
            raise
        out["achievable"] = False  # mfgs refuses: nothing is answered
        mfgs.calibrate(path, x[val], y[val], "--alpha", ALPHA)
    rows = mfgs.predict(x, y)
    sets = [row["prediction_set"] for row in rows]
    covered = np.array([label in s for label, s in zip(y, sets)])
    size = np.array([len(s) for s in sets])
    answered = np.array([out["achievable"] and not row.get("abstain") for row in rows])
    wrong = np.array([row["class"] for row in rows]) != y

    def rate(rows):
        answers = rows[answered[rows]]
        return float(wrong[answers].mean()) if len(answers) else 0.0

    return {**out, "coverage": float(covered[test].mean()), "size": float(size[test].mean()),
            "empty": float((size[test] == 0).mean()), "answered": float(answered[test].mean()),
            "error, test": rate(test), "error, population": rate(order), "error": float(wrong.mean())}


def main():
    work = arguments().work
    results = Results(work / "decisions.json")
    for name, kind, target, splits in CELLS:
        key = f"{name} · {kind} · {target}"
        if key in results:
            continue
        t, mfgs = Table(work, name), Mfgs(work, "decisions")
        path = mfgs.folder / "model.onnx"
        with inside(mfgs.folder):
            export(kind, KINDS[kind]().fit(t.x, t.y), t.x, path, zipmap=False)
        x, y = t.pool_x[:POPULATION], t.pool_y[:POPULATION]
        results.add(key, [split(mfgs, path, x, y, target, seed) for seed in range(splits)])


if __name__ == "__main__":
    main()
