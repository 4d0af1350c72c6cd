"""Exports scikit-learn classifiers with skl2onnx, fitted to a few hundred random points."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings
from importlib.metadata import version

import numpy as np
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.svm import LinearSVC

from common import Case, arguments, notes, numbers, run

warnings.filterwarnings("ignore")
VERSIONS = {p: version(p) for p in ("scikit-learn", "skl2onnx", "onnx")}
D = 7


def data(classes, low):
    """Overlapping clouds of points; classes 0 stands for three independent labels."""
    rng = np.random.default_rng(3)
    x = rng.uniform(low, 2, (400, D)).astype(np.float32)
    w = rng.normal(size=(D, classes or 3))
    a = (x - x.mean(0)) @ w + rng.gumbel(size=(400, classes or 3))
    return x, (a > 0).astype(int) if classes == 0 else a.argmax(1)


def case(name, make, classes=4, features=D, low=-2.0, zipmap=False, options=None, kind=FloatTensorType, dtype="float32", labels=None, **more):
    def build(folder):
        x, y = data(classes, low)
        if labels:
            y = np.array(labels)[y]
        model = make()
        model.fit(np.round(x) if dtype == "int64" else x, y)
        last = model[-1] if hasattr(model, "steps") else model
        chosen = {**(options or {})}
        if zipmap is not None:
            chosen["zipmap"] = zipmap
        onnx = to_onnx(model, initial_types=[("X", kind([None, D]))], options={id(last): chosen} if chosen else None, target_opset=17)
        (folder / "model.onnx").write_bytes(onnx.SerializeToString())
        k = classes or 3
        kw = dict(outputs="probabilities")
        kw.update(more)
        if k == 2:
            # As one logit with a sigmoid, or as two with a softmax: both say the same.
            kw.setdefault("classes_too", 1)
        return notes("skl2onnx", [features], k, [numbers("X", [D], low, 2.0, dtype)], **kw)
    return Case("sklearn/" + name, build)


def cases():
    scores = dict(outputs="logits", zipmap=None)
    normalised = dict(link="normalised sigmoids")
    lr = lambda: LogisticRegression(max_iter=500)
    mlp = lambda: MLPClassifier((12,), max_iter=80, random_state=0)
    return [
        case("LogisticRegression", lr),
        case("LogisticRegression-zipmap", lr, zipmap=True),
        case("LogisticRegression-binary", lr, 2),
        case("LogisticRegression-binary-zipmap", lr, 2, zipmap=True),
        case("LogisticRegression-raw-scores", lr, options=dict(raw_scores=True), outputs="logits"),
        case("LogisticRegression-string-labels", lr, zipmap=True, labels=["ant", "bee", "cat", "dog"]),
        case("LogisticRegression-double", lr, kind=DoubleTensorType, dtype="float64"),
        case("LogisticRegression-int64", lr, kind=Int64TensorType, dtype="int64", low=-4.0),
        case("LinearDiscriminantAnalysis", LinearDiscriminantAnalysis),
        case("LinearDiscriminantAnalysis-binary", LinearDiscriminantAnalysis, 2),
        case("MLPClassifier", mlp, features=12),
        case("MLPClassifier-binary", mlp, 2, features=12),
        case("MLPClassifier-multilabel", mlp, 0, features=12, link="multilabel"),
        case("MLPClassifier-zipmap", mlp, features=12, zipmap=True),
        case("SGDClassifier-log-loss", lambda: SGDClassifier(loss="log_loss", random_state=0), **normalised),
        case("SGDClassifier-log-loss-binary", lambda: SGDClassifier(loss="log_loss", random_state=0), 2),
        case("SGDClassifier-hinge", lambda: SGDClassifier(random_state=0), **scores),
        case("LinearSVC", LinearSVC, **scores),
        case("LinearSVC-binary", LinearSVC, 2, **scores),
        case("RidgeClassifier", RidgeClassifier, **scores),
        case("RidgeClassifier-binary", RidgeClassifier, 2, **scores),
        case("Perceptron", Perceptron, **scores),
        case("MultinomialNB", MultinomialNB, low=0.0),
        case("BernoulliNB", BernoulliNB),
        case("OneVsRest-LogisticRegression", lambda: OneVsRestClassifier(lr()), **normalised),
        case("scaler-LogisticRegression", lambda: make_pipeline(StandardScaler(), lr())),
        case("scaler-PCA-LogisticRegression", lambda: make_pipeline(StandardScaler(), PCA(5), lr()), features=5),
        case("scaler-PCA-LogisticRegression-zipmap", lambda: make_pipeline(StandardScaler(), PCA(5), lr()), features=5, zipmap=True),
        case("minmax-MLPClassifier", lambda: make_pipeline(MinMaxScaler(), mlp()), features=12),
        case("polynomial-LogisticRegression", lambda: make_pipeline(PolynomialFeatures(2), LogisticRegression(max_iter=3000)), features=36),
        case("RandomForest", lambda: RandomForestClassifier(10, max_depth=4, random_state=0), refuse="a forest of trees has no linear layer"),
        case("GaussianNB", GaussianNB, refuse="quadratic in the inputs: each class has its own variances"),
        case("KNeighbors", KNeighborsClassifier, refuse="votes of the nearest training points: no linear layer"),
    ]


if __name__ == "__main__":
    run(cases(), arguments(__doc__), VERSIONS)
