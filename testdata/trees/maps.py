"""The NLL of the probabilities that mfgs serves, against other maps that are fitted here without it.

All maps see the same validation rows and the same probabilities, those of the exported model in onnxruntime."""
import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from common import Mfgs, Results, Table, TABLES, arguments, inside, rows_of
from kinds import KINDS, export

MODELS = ["XGBoost", "LightGBM", "RandomForest", "ExtraTrees"]
SIZES, TEST = [1000, 300], 4000
DRAWS = {"spam": 20, "satellite": 20, "ticdata": 20, "letter": 10}  # forests with 26 classes are large files
# The logarithm of 0 is infinite: a floor for all maps, below which a sum of float32 has no probabilities.
FLOOR = 2.0**-24
CLIPS = [1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2]
FOLDS = 5


def log(p):
    return np.log(np.maximum(p, FLOOR))


def nll(logp, y):
    return float(-logp[np.arange(len(y)), y].mean())


def normalised(p):
    return np.log(p / p.sum(1, keepdims=True))


def as_it_is(p, y, test):
    return log_softmax(log(test), 1)


def temperature(p, y, test):
    """Temperature scaling (Guo et al. 2017)."""
    fitted = minimize_scalar(lambda t: nll(log_softmax(log(p) / np.exp(t), 1), y), bounds=(-4, 4), method="bounded")
    return log_softmax(log(test) / np.exp(fitted.x), 1)


def one_vs_rest(p, y, test):
    """Isotonic regression for each class (Zadrozny and Elkan 2002), not yet normalised."""
    out = np.zeros(test.shape)
    for c in range(p.shape[1]):
        out[:, c] = IsotonicRegression(out_of_bounds="clip").fit(p[:, c], y == c).predict(test[:, c])
    return out


def isotonic(p, y, test):
    """It gives probabilities of 0, so that its NLL needs a smallest value: by cross-validation on the same rows."""
    fold = np.arange(len(y)) % FOLDS
    held = np.zeros(p.shape)
    for f in range(FOLDS):
        held[fold == f] = one_vs_rest(p[fold != f], y[fold != f], p[fold == f])
    clip = min(CLIPS, key=lambda c: nll(normalised(np.maximum(held, c)), y))
    return normalised(np.maximum(one_vs_rest(p, y, test), clip))


def beta_of(p, y, test):
    """Beta calibration of one class (Kull et al. 2017): a log p - b log(1-p) + c, with a and b not negative."""
    def features(p):
        return np.c_[log(p), -log(1 - p)]
    used = [0, 1]
    while True:
        fit = LogisticRegression(C=1e10, max_iter=1000).fit(features(p)[:, used], y)
        negative = [i for i, w in zip(used, fit.coef_[0]) if w < 0]
        if not negative or len(used) == 1:
            return fit.predict_proba(features(test)[:, used])[:, 1]
        used = [i for i in used if i not in negative] or [0]


def beta(p, y, test):
    out = np.zeros(test.shape)
    for c in range(p.shape[1]):
        n = (y == c).sum()
        out[:, c] = beta_of(p[:, c], y == c, test[:, c]) if 0 < n < len(y) else (n + 1) / (len(y) + p.shape[1])
    return normalised(np.maximum(out, FLOOR))


MAPS = {"as it is": as_it_is, "temperature": temperature, "isotonic": isotonic, "beta": beta}


def draw(mfgs, path, t, p, size, seed):
    """The NLLs on the test rows of one draw of validation rows."""
    order = np.random.default_rng(seed).permutation(len(t.pool_y))
    val, test = order[:size], order[size:size + TEST]
    x, y = t.pool_x, t.pool_y
    said = mfgs.calibrate(path, x[val], y[val])
    served = np.array([row["probabilities"] for row in mfgs.predict(x[test], y[test])])
    out = {name: nll(f(p[val], y[val], p[test]), y[test]) for name, f in MAPS.items()}
    return {"served": nll(np.log(served), y[test]), **out, "method": said["probabilities"]["method"]}


def main():
    work = arguments().work
    results = Results(work / "maps.json")
    for name in TABLES:
        t = Table(work, name)
        for kind in MODELS:
            keys = {size: f"{name} · {kind} · {size}" for size in SIZES}
            if all(key in results for key in keys.values()):
                continue
            mfgs = Mfgs(work, "maps")
            path = mfgs.folder / "model.onnx"
            with inside(mfgs.folder):
                export(kind, KINDS[kind]().fit(t.x, t.y), t.x, path, zipmap=False)
            p = rows_of(path, t.pool_x).astype(float)
            for size, key in keys.items():
                if key not in results:
                    results.add(key, [draw(mfgs, path, t, p, size, seed) for seed in range(DRAWS[name])])


if __name__ == "__main__":
    main()
