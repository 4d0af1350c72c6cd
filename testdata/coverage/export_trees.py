"""Exports models without a linear last layer: trees, forests, boosting, support vector machines, nearest neighbours,
Gaussians and averages, of scikit-learn, XGBoost, LightGBM and CatBoost, fitted to a few hundred random points.

The probabilities or scores that the library itself gives are stored next to the model. Where the exported file gives
others in Python's onnxruntime, the notes say so: the exporter or an operator is wrong, not what reads the file.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings
from importlib.metadata import version

import catboost
import lightgbm
import numpy as np
import onnx
import onnxmltools
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as Float
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import (AdaBoostClassifier, BaggingClassifier, ExtraTreesClassifier, GradientBoostingClassifier, HistGradientBoostingClassifier,
                              RandomForestClassifier, StackingClassifier, VotingClassifier)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, NuSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from check import EXACT, original, wanted
from common import Case, arguments, given, notes, run

warnings.filterwarnings("ignore")
VERSIONS = {p: version(p) for p in ("scikit-learn", "skl2onnx", "onnx", "onnxmltools", "xgboost-cpu", "lightgbm", "catboost", "protobuf")}
D, N = 7, 38  # features; examples: what check.py draws
OPSET = {"": 17, "ai.onnx.ml": 3}
FOREST, BOOSTED = "a forest of trees has no linear layer", "a sum of trees has no linear layer"
NEIGHBOURS, KERNELS = "votes of the nearest training points: no linear layer", "a sum of kernels is not linear in the inputs"
AVERAGE, VARIANCES = "an average of probabilities is not the softmax of a linear layer", "quadratic in the inputs: each class has its own variances"
MAPPED = "each class's probability is mapped by a curve of its own, and they are normalised"


def scaled(model):
    return make_pipeline(StandardScaler(), model)


def vote(*models):
    # skl2onnx cannot export flatten_transform=True, the default, which does not change the probabilities.
    return VotingClassifier([(str(i), m) for i, m in enumerate(models)], voting="soft", flatten_transform=False)


def forest(n=20):
    return RandomForestClassifier(n, random_state=0)


def stack(last):
    return StackingClassifier([("forest", forest(10)), ("bayes", GaussianNB())], final_estimator=last, cv=3)


def lr():
    return scaled(LogisticRegression(max_iter=300))


def points(classes, missing):
    """Overlapping clouds of points to fit, and N others; classes 0 stands for three independent labels."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (400 + N, D)).astype(np.float32)
    a = x @ rng.normal(size=(D, classes or 3)) + (x * x) @ rng.normal(size=(D, classes or 3)) / 2 + rng.gumbel(size=(400 + N, classes or 3))
    y = (a > a.mean(0)).astype(int) if classes == 0 else a.argmax(1)
    if missing:
        x[rng.random(x.shape) < 0.1] = np.nan
    return x[:400], y[:400], x[400:], y[400:]


def save(model, path, zipmap, kind):
    """Writes a fitted model as ONNX."""
    inputs = [("X", Float([None, D]))]
    if isinstance(model, catboost.CatBoostClassifier):
        model.save_model(str(path), format="onnx")
    elif isinstance(model, xgboost.XGBClassifier):
        onnx.save(onnxmltools.convert_xgboost(model, initial_types=inputs, target_opset=15), path)
    elif isinstance(model, lightgbm.LGBMClassifier):
        onnx.save(onnxmltools.convert_lightgbm(model, initial_types=inputs, target_opset=15, zipmap=zipmap), path)
    else:
        last = model[-1] if hasattr(model, "steps") else model
        options = None if zipmap is None else {id(last): {"zipmap": zipmap}}
        onnx.save(to_onnx(model, initial_types=[("X", kind([None, D]))], options=options, target_opset=OPSET), path)


def library(model, x):
    """The library's own numbers, a column for each class."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(x), np.float64).reshape(len(x), -1)
    scores = np.asarray(model.decision_function(x), np.float64)
    return np.stack([-scores, scores], 1) if scores.ndim == 1 else scores


def case(name, make, why, classes=4, zipmap=False, strings=False, numbered=True, missing=False, double=False, features=D, **more):
    """numbered: the library takes any whole numbers as classes, and not only 0, 1, 2, …"""
    def build(folder):
        x, y, rows, right = points(classes, missing)
        k = classes or 3
        names = np.array([f"kind {chr(97 + i)}" for i in range(k)]) if strings else np.arange(k) * 10 + 5 if numbered else np.arange(k)
        model = make().fit(x, names[y] if classes else y)
        save(model, folder / "model.onnx", zipmap, DoubleTensorType if double else FloatTensorType)
        kw = {"outputs": "probabilities", **more}
        if classes == 2:
            kw.setdefault("classes_too", 1)
        rows = rows.astype(np.float64) if double else rows
        expected = library(model, rows)
        np.save(folder / "library.npy", expected)
        inputs = {onnx.load(folder / "model.onnx").graph.input[0].name: rows}
        np.savez(folder / "inputs.npz", **inputs, labels=right)
        out = wanted(original(folder / "model.onnx", inputs), dict(kw, classes=k))
        if out.shape != expected.shape:
            raise ValueError(f"the export gives {list(out.shape)} numbers, and the library {list(expected.shape)}")
        off = np.abs(out - expected).max(1)
        if k == 2 and np.allclose(out[:, ::-1], expected, atol=EXACT):
            kw["exporter"] = "the scores of its two classes are exchanged, and do not agree with its own label"
        elif off.max() > EXACT:
            kw["exporter"] = f"{(off > EXACT).sum()} of {N} examples have other numbers than in the library, by up to {off.max():.2g}"
        if classes:
            kw["names"] = [str(n) for n in names]
        return notes(maker(model), [features] if isinstance(features, int) else features, k, given("inputs.npz"), refuse=why, **kw)
    return Case("trees/" + name, build)


def maker(model):
    if isinstance(model, catboost.CatBoostClassifier):
        return "CatBoost"
    if isinstance(model, xgboost.XGBClassifier):
        return "XGBoost, onnxmltools"
    return "LightGBM, onnxmltools" if isinstance(model, lightgbm.LGBMClassifier) else "skl2onnx"


# name → how it is made, and why it has no linear last layer
SKLEARN = {
    "RandomForest": (lambda: forest(), FOREST),
    "ExtraTrees": (lambda: ExtraTreesClassifier(20, max_depth=6, random_state=0), FOREST),
    "GradientBoosting": (lambda: GradientBoostingClassifier(n_estimators=20, random_state=0), BOOSTED),
    "HistGradientBoosting": (lambda: HistGradientBoostingClassifier(max_iter=20, random_state=0), BOOSTED),
    "AdaBoost": (lambda: AdaBoostClassifier(n_estimators=20, random_state=0), "weighted votes of trees: no linear layer"),
    "Bagging": (lambda: BaggingClassifier(n_estimators=10, random_state=0), FOREST),
    "DecisionTree": (lambda: DecisionTreeClassifier(min_samples_leaf=5, random_state=0), "a tree has no linear layer"),
    "SVC-probabilities": (lambda: scaled(SVC(probability=True, random_state=0)), KERNELS),
    "KNeighbors": (lambda: KNeighborsClassifier(10), NEIGHBOURS),
    "KNeighbors-distances": (lambda: KNeighborsClassifier(10, weights="distance"), NEIGHBOURS),
    "GaussianNB": (GaussianNB, VARIANCES),
    "QDA": (lambda: QuadraticDiscriminantAnalysis(reg_param=0.1), "quadratic in the inputs: each class has its own covariance"),
    "Voting": (lambda: vote(forest(10), lr(), GaussianNB()), AVERAGE),
    "Voting-networks": (lambda: vote(*(scaled(MLPClassifier((12,), max_iter=80, random_state=i)) for i in range(2))), AVERAGE),
    "Stacking": (lambda: stack(GradientBoostingClassifier(n_estimators=10, random_state=0)), BOOSTED),
    "Calibrated-isotonic": (lambda: CalibratedClassifierCV(GaussianNB(), method="isotonic", cv=3), MAPPED),
    "Calibrated-sigmoid": (lambda: CalibratedClassifierCV(forest(10), method="sigmoid", cv=3), MAPPED),
    "OneVsRest-forest": (lambda: OneVsRestClassifier(forest(10)), FOREST),
    "scaler-RandomForest": (lambda: scaled(forest(10)), FOREST),
}
VARIANTS = (("2", 2, False, False), ("2-strings-zipmap", 2, True, True), ("4-zipmap", 4, False, True), ("4-strings", 4, True, False))


def cases():
    out = [case(f"{name}-{variant}", make, why, classes, zipmap, strings)
           for name, (make, why) in SKLEARN.items() for variant, classes, strings, zipmap in VARIANTS]
    lgb = lambda **more: lightgbm.LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1, **more)
    out += [case(f"LightGBM-{variant}", lgb, BOOSTED, classes, zipmap, strings) for variant, classes, strings, zipmap in VARIANTS]
    cat = lambda **more: catboost.CatBoostClassifier(iterations=30, verbose=0, thread_count=1, random_seed=0, allow_writing_files=False, **more)
    out += [case(f"CatBoost-{k}{'-strings' * strings}-zipmap", cat, BOOSTED, k, True, strings) for k in (2, 4) for strings in (False, True)]
    xgb = lambda **more: xgboost.XGBClassifier(n_estimators=20, n_jobs=1, **more)
    plain = dict(numbered=False)
    svc, gp = lambda: scaled(SVC()), lambda: scaled(GaussianProcessClassifier(max_iter_predict=50))
    scores = dict(zipmap=None, outputs="logits")
    out += [case(f"{name}-{k}", make, why, k, **more) for k in (2, 4) for name, make, why, more in (
        ("XGBoost", xgb, BOOSTED, plain),
        ("XGBoost-forest", lambda: xgboost.XGBRFClassifier(n_estimators=20, n_jobs=1), FOREST, plain),
        ("XGBoost-dart", lambda: xgb(booster="dart", rate_drop=0.1), BOOSTED, plain),
        ("XGBoost-missing-values", xgb, BOOSTED, dict(plain, missing=True)),
        ("LightGBM-dart", lambda: lgb(boosting_type="dart"), BOOSTED, {}),
        ("LightGBM-forest", lambda: lgb(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7), FOREST, {}),
        ("LightGBM-missing-values", lgb, BOOSTED, dict(missing=True)),
        ("HistGradientBoosting-missing-values", SKLEARN["HistGradientBoosting"][0], BOOSTED, dict(missing=True)),
        ("RandomForest-missing-values", SKLEARN["RandomForest"][0], FOREST, dict(missing=True)),
        ("RandomForest-double", SKLEARN["RandomForest"][0], FOREST, dict(double=True)),
        ("RandomForest-zipmap-columns", SKLEARN["RandomForest"][0], FOREST, dict(zipmap="columns")),
        ("ExtraTree", lambda: ExtraTreeClassifier(min_samples_leaf=5, random_state=0), "a tree has no linear layer", {}),
        ("SVC-scores", svc, KERNELS, scores),
        ("SVC-polynomial-scores", lambda: scaled(SVC(kernel="poly")), KERNELS, scores),
        ("NuSVC-probabilities", lambda: scaled(NuSVC(nu=0.3, probability=True, random_state=0)), KERNELS, {}),
        ("GaussianProcess", gp, KERNELS, {}),
        # The last layer of these is linear in what the others give.
        ("Stacking-LogisticRegression", lambda: stack(LogisticRegression(max_iter=300)), "", dict(features=[2] if k == 2 else [8])),
    )]
    out += [
        case("LightGBM-4-one-against-all", lambda: lgb(objective="multiclassova"), BOOSTED),
        case("CatBoost-4-one-against-all-zipmap", lambda: cat(loss_function="MultiClassOneVsAll"), BOOSTED, 4, True),
        case("RandomForest-many-labels", lambda: OneVsRestClassifier(forest(10)), FOREST, 0, link="multilabel"),
        case("KNeighbors-many-labels", lambda: OneVsRestClassifier(KNeighborsClassifier(10)), NEIGHBOURS, 0, link="multilabel"),
    ]
    return out


if __name__ == "__main__":
    run(cases(), arguments(__doc__), VERSIONS)
