"""Exports scikit-learn pipelines with skl2onnx: scalers, encoders, selectors and texts before linear models.

The examples are stored with each model, because texts, categories and missing values cannot be drawn at random. The
width of the last layer is that of what the fitted pipeline's other steps give.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings
from importlib.metadata import version

import numpy as np
import sklearn.linear_model as lm
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, IncrementalPCA, KernelPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectFpr, SelectFromModel, SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection
from sklearn.svm import LinearSVC

from check import original, wanted
from common import Case, arguments, given, notes, run

warnings.filterwarnings("ignore")
VERSIONS = {p: version(p) for p in ("scikit-learn", "skl2onnx", "onnx")}
D, FIT, KEPT = 7, 400, 38
WORDS = "good bad fine poor rain sun wind snow red blue green old new fast slow high low dry wet warm cold".split()


def clouds(rng, n, low=-2.0):
    return rng.uniform(low, 2, (n, D)).astype(np.float32)


# Each kind of data gives n rows: name → array, the numbers that labels depend on, and the exporter's types.


def numbers(rng, n, low=-2.0):
    x = clouds(rng, n, low)
    return dict(X=x), x, [("X", FloatTensorType([None, D]))]


def positive(rng, n):
    return numbers(rng, n, 0.0)


def doubles(rng, n):
    x = clouds(rng, n)
    return dict(X=x.astype(np.float64)), x, [("X", DoubleTensorType([None, D]))]


def integers(rng, n):
    x = np.round(clouds(rng, n))
    return dict(X=x.astype(np.int64)), x, [("X", Int64TensorType([None, D]))]


def counts(rng, n):
    x = rng.integers(0, 4, (n, D))
    return dict(X=x.astype(np.int64)), x - 1.5, [("X", Int64TensorType([None, D]))]


def missing(rng, n):
    x = clouds(rng, n)
    return dict(X=np.where(rng.random((n, D)) < 0.1, np.float32(np.nan), x)), x, [("X", FloatTensorType([None, D]))]


def mixed(rng, n):
    """Three numbers, two integers and a column of names, each an input of its own."""
    x = clouds(rng, n)
    names = np.array(["ant", "bee", "cat"])[rng.integers(0, 3, n)]
    x[:, 6] = np.char.equal(names, "bee") * 2
    return (
        dict(a=x[:, :1], b=x[:, 1:2], c=np.round(x[:, 2:3]).astype(np.int64), d=names[:, None]),
        x,
        [
            ("a", FloatTensorType([None, 1])),
            ("b", FloatTensorType([None, 1])),
            ("c", Int64TensorType([None, 1])),
            ("d", StringTensorType([None, 1])),
        ],
    )


def texts(rng, n):
    words = rng.integers(0, len(WORDS), (n, 9))
    x = np.stack([(words % D == i).sum(1) for i in range(D)], 1) - 1.3
    return (
        dict(X=np.array([" ".join(WORDS[w] for w in row) for row in words])[:, None]),
        x,
        [("X", StringTensorType([None, 1]))],
    )


def table(inputs):
    """What scikit-learn is fitted to: columns of several kinds for several inputs, a list for texts."""
    if len(inputs) > 1:
        return np.hstack([v.astype(object) for v in inputs.values()])
    x = next(iter(inputs.values()))
    return x[:, 0] if x.dtype.kind == "U" else x


def width(model, x):
    """The features of the last layer, as scikit-learn counts them."""
    last = model
    if isinstance(model, Pipeline):
        last, x = model[-1], model[:-1].transform(x) if len(model) > 1 else x
    if isinstance(last, GridSearchCV):
        return width(last.best_estimator_, x)
    if isinstance(last, MLPClassifier):
        return last.coefs_[-1].shape[0]
    if isinstance(last, StackingClassifier):
        return last.transform(x).shape[1]
    return x.shape[1]


def case(name, make, classes=4, kind=numbers, opset=17, zipmap=False, options=None, strings=False, **more):
    """classes 0 stands for three independent labels."""

    def build(folder):
        rng = np.random.default_rng(5)
        inputs, x, types = kind(rng, FIT + KEPT)
        a = (x - x.mean(0)) @ rng.normal(size=(D, classes or 3)) + rng.gumbel(size=(len(x), classes or 3))
        y = (a > 0).astype(int) if classes == 0 else a.argmax(1)
        if strings:
            y = np.array(["ant", "bee", "cat", "dog"])[y]
        fitted, rows = ({k: v[s] for k, v in inputs.items()} for s in (slice(FIT), slice(FIT, None)))
        model = make()
        model.fit(table(fitted), y[:FIT])
        last = model[-1] if isinstance(model, Pipeline) else model
        chosen = {**(options or {}), **({} if zipmap is None else dict(zipmap=zipmap))}
        onnx = to_onnx(model, initial_types=types, options={id(last): chosen} if chosen else None, target_opset=opset)
        (folder / "model.onnx").write_bytes(onnx.SerializeToString())
        right = np.searchsorted(np.unique(y[:FIT]), y[FIT:]) if strings else y[FIT:]
        np.savez(folder / "inputs.npz", **rows, labels=right)
        k = classes or 3
        kw = dict(outputs="probabilities", **(dict(classes_too=1) if k == 2 else {}))
        kw.update(more)
        for n in 1, 2:  # not every file takes a batch of every size
            original(folder / "model.onnx", {name: v[:n] for name, v in rows.items()})
        out = wanted(original(folder / "model.onnx", rows), dict(kw, classes=k))
        theirs = np.asarray(
            model.predict_proba(table(rows))
            if kw["outputs"] == "probabilities"
            else model.decision_function(table(rows))
        )
        if theirs.size == out.size and np.abs(theirs.reshape(out.shape) - out).max() > 1e-3:
            kw["exporter"] = "other numbers than in the library"
        features = kw.pop("features", None) or [width(model, table(rows))]
        return notes("skl2onnx" + (f", opset {opset}" if opset != 17 else ""), features, k, given("inputs.npz"), **kw)

    return Case("sklearn/" + name, build)


def lr(**more):
    return lm.LogisticRegression(max_iter=500, **more)


def mlp(*sizes, **more):
    return MLPClassifier(sizes or (12,), max_iter=80, random_state=0, **more)


def sgd(loss="log_loss", **more):
    return lm.SGDClassifier(loss=loss, random_state=0, **more)


NORMALISED = dict(link="normalised sigmoids")
SCORES = dict(outputs="logits", zipmap=None)
MAPPED = "each class's probability is mapped by a curve of its own, and they are normalised"
AVERAGE = "an average of the probabilities of several models"
AS_IS = dict(lowercase=False)  # else the exported model needs a locale that not every machine has
# name → the steps before the last, and the kind of data. KNNImputer is left out: ONNX Runtime 1.30 divides by zero in
# it, and ends the process, where a batch is a single row without missing values.
STEPS = {
    "standard": (StandardScaler, numbers),
    "no-mean": (lambda: StandardScaler(with_mean=False), numbers),
    "no-scale": (lambda: StandardScaler(with_std=False), doubles),
    "minmax-clip": (lambda: MinMaxScaler(clip=True), numbers),
    "maxabs": (MaxAbsScaler, numbers),
    "robust": (RobustScaler, numbers),
    "normalizer": (Normalizer, numbers),
    "normalizer-l1": (lambda: Normalizer("l1"), numbers),
    "normalizer-max": (lambda: Normalizer("max"), numbers),
    "binarizer": (lambda: Binarizer(threshold=0.3), numbers),
    "bins": (lambda: KBinsDiscretizer(4, encode="onehot-dense"), numbers),
    "bins-ordinal": (lambda: KBinsDiscretizer(4, encode="ordinal"), numbers),
    "power": (PowerTransformer, numbers),
    "quantile": (lambda: QuantileTransformer(n_quantiles=20), numbers),
    "identity": (FunctionTransformer, numbers),
    "interactions": (lambda: PolynomialFeatures(2, interaction_only=True), numbers),
    "cubic": (lambda: PolynomialFeatures(3, include_bias=False), numbers),
    "best": (lambda: SelectKBest(k=4), numbers),
    "percentile": (lambda: SelectPercentile(percentile=60), numbers),
    "fpr": (lambda: SelectFpr(alpha=0.5), numbers),
    "variance": (lambda: VarianceThreshold(0.1), numbers),
    "from-model": (lambda: SelectFromModel(lr()), numbers),
    "pca": (lambda: PCA(4), numbers),
    "pca-whiten": (lambda: PCA(4, whiten=True), doubles),
    "incremental-pca": (lambda: IncrementalPCA(4), numbers),
    "svd": (lambda: TruncatedSVD(4), numbers),
    "kernel-pca": (lambda: KernelPCA(4, kernel="rbf"), numbers),
    "projection": (lambda: GaussianRandomProjection(4, random_state=0), numbers),
    "imputer": (SimpleImputer, missing),
    "imputer-median": (lambda: SimpleImputer(strategy="median"), missing),
    "union": (lambda: make_union(StandardScaler(), PCA(3)), numbers),
    "onehot": (lambda: OneHotEncoder(handle_unknown="ignore", sparse_output=False), counts),
    "ordinal": (OrdinalEncoder, counts),
    "columns": (
        lambda: ColumnTransformer([("a", StandardScaler(), [0, 1, 2]), ("b", MinMaxScaler(), [3, 4])]),
        numbers,
    ),
    "columns-rest": (lambda: ColumnTransformer([("a", StandardScaler(), [0, 1, 2])], remainder="passthrough"), numbers),
    "columns-mixed": (
        lambda: ColumnTransformer(
            [
                ("n", StandardScaler(), [0, 1]),
                ("i", "passthrough", [2]),
                ("s", OneHotEncoder(handle_unknown="ignore"), [3]),
            ]
        ),
        mixed,
    ),
    "columns-pipeline": (
        lambda: ColumnTransformer(
            [("a", make_pipeline(StandardScaler(), PCA(2)), [0, 1, 2]), ("b", Binarizer(), [3, 4, 5])]
        ),
        numbers,
    ),
    "counts": (lambda: CountVectorizer(**AS_IS), texts),
    "tfidf": (lambda: TfidfVectorizer(**AS_IS), texts),
    "tfidf-sublinear": (lambda: TfidfVectorizer(sublinear_tf=True, **AS_IS), texts),
    "bigrams": (lambda: CountVectorizer(ngram_range=(1, 2), max_features=60, **AS_IS), texts),
    "tfidf-svd": (lambda: make_pipeline(TfidfVectorizer(**AS_IS), TruncatedSVD(6)), texts),
    "counts-tfidf": (lambda: make_pipeline(CountVectorizer(binary=True, **AS_IS), TfidfTransformer()), texts),
}


def cases():
    out = []
    for name, (step, kind) in STEPS.items():
        out.append(case(f"{name}-LR", lambda step=step: make_pipeline(step(), lr()), kind=kind))
    for name in (
        "robust",
        "bins",
        "quantile",
        "best",
        "svd",
        "union",
        "onehot",
        "columns-mixed",
        "tfidf",
        "imputer",
        "normalizer",
        "from-model",
    ):
        step, kind = STEPS[name]
        out.append(case(f"{name}-MLP", lambda step=step: make_pipeline(step(), mlp()), kind=kind))
        out.append(
            case(f"{name}-LR-binary-zipmap", lambda step=step: make_pipeline(step(), lr()), 2, kind=kind, zipmap=True)
        )
    for name in ("standard", "pca", "tfidf", "columns"):
        step, kind = STEPS[name]
        out.append(case(f"{name}-hinge", lambda step=step: make_pipeline(step(), sgd("hinge")), kind=kind, **SCORES))
        out.append(case(f"{name}-SGD", lambda step=step: make_pipeline(step(), sgd()), kind=kind, **NORMALISED))
        out.append(
            case(
                f"{name}-LDA" if name != "tfidf" else "tfidf-ComplementNB",
                lambda step=step, name=name: make_pipeline(
                    step(), ComplementNB() if name == "tfidf" else LinearDiscriminantAnalysis()
                ),
                kind=kind,
            )
        )
    for opset in (11, 12, 13, 14, 15, 16, 18, 19, 20, 21):
        out.append(case(f"LR-opset{opset}", lr, opset=opset))
        out.append(case(f"MLP-opset{opset}", mlp, opset=opset))
    for activation in ("identity", "logistic", "tanh"):
        out.append(case(f"MLP-{activation}", lambda a=activation: mlp(16, 9, activation=a)))
        out.append(case(f"MLP-{activation}-binary", lambda a=activation: mlp(16, 9, activation=a), 2))
    out += [
        case("MLP-three-layers", lambda: mlp(16, 12, 9), strings=True, zipmap=True),
        case("MLP-no-hidden", lambda: mlp(1, activation="identity")),
        case("MLP-multilabel-scaled", lambda: make_pipeline(StandardScaler(), mlp()), 0, link="multilabel"),
        case("LR-CV", lambda: lm.LogisticRegressionCV(Cs=3, cv=2)),
        case("LR-no-intercept", lambda: lr(fit_intercept=False)),
        case("LR-l1", lambda: lr(solver="saga", l1_ratio=1)),
        case("LR-grid", lambda: GridSearchCV(lr(), dict(C=[0.1, 1]), cv=2)),
        case("LR-liblinear-binary", lambda: lr(solver="liblinear"), 2),
        case("LR-integers-strings", lr, kind=integers, strings=True, zipmap=True),
        case("LR-doubles-binary", lr, 2, kind=doubles, **NORMALISED),
        case("LR-raw-scores-binary", lr, 2, options=dict(raw_scores=True), outputs="logits"),
        case("LDA-eigen", lambda: LinearDiscriminantAnalysis(solver="eigen")),
        case("LDA-lsqr", lambda: LinearDiscriminantAnalysis(solver="lsqr")),
        case("RidgeClassifierCV", lm.RidgeClassifierCV, **SCORES),
        case("Ridge-scaled", lambda: make_pipeline(StandardScaler(), lm.RidgeClassifier()), **SCORES),
        case("Perceptron-binary", lm.Perceptron, 2, **SCORES),
        case("SGD-hinge-binary", lambda: sgd("hinge"), 2, **SCORES),
        case("SGD-squared-hinge", lambda: make_pipeline(StandardScaler(), sgd("squared_hinge", alpha=1.0)), **SCORES),
        case("SGD-perceptron", lambda: sgd("perceptron"), **SCORES),
        case("SGD-averaged", lambda: sgd(average=True), **NORMALISED),
        case(
            "SGD-huber",
            lambda: sgd("modified_huber"),
            refuse="clipped scores, normalised: neither a softmax nor sigmoids",
        ),
        case("OneVsRest-LR-scaled", lambda: make_pipeline(StandardScaler(), OneVsRestClassifier(lr())), **NORMALISED),
        case("OneVsRest-LR-binary", lambda: OneVsRestClassifier(lr()), 2),
        case("OneVsRest-LR-multilabel", lambda: OneVsRestClassifier(lr()), 0, link="multilabel"),
        case("OneVsRest-SGD", lambda: OneVsRestClassifier(sgd()), **NORMALISED),
        case(
            "OneVsRest-MLP",
            lambda: OneVsRestClassifier(mlp()),
            refuse="each class has a network and features of its own",
        ),
        case("MultinomialNB-prior", lambda: MultinomialNB(fit_prior=False), kind=positive),
        case("MultinomialNB-counts", MultinomialNB, kind=counts),
        case("MultinomialNB-texts", lambda: make_pipeline(CountVectorizer(**AS_IS), MultinomialNB()), kind=texts),
        case("BernoulliNB-texts", lambda: make_pipeline(CountVectorizer(**AS_IS), BernoulliNB()), kind=texts),
        case("BernoulliNB-binary", BernoulliNB, 2),
        case("ComplementNB", ComplementNB, kind=positive),
        case("ComplementNB-norm", lambda: ComplementNB(norm=True), kind=counts),
        case(
            "CategoricalNB",
            CategoricalNB,
            kind=counts,
            refuse="a table of log probabilities for each input, looked up and added",
            features=[4 * D],
        ),
        case("Calibrated-LR", lambda: CalibratedClassifierCV(lr(), ensemble=False), refuse=MAPPED),
        case("Calibrated-LinearSVC-binary", lambda: CalibratedClassifierCV(LinearSVC(), cv=3), 2, refuse=AVERAGE),
        case(
            "Voting-LR-LDA",
            lambda: VotingClassifier(
                [("a", lr()), ("b", LinearDiscriminantAnalysis())], voting="soft", flatten_transform=False
            ),
            refuse=AVERAGE,
        ),
        case(
            "Stacking-LR",
            lambda: StackingClassifier(
                [("a", lr()), ("b", RandomForestClassifier(8, max_depth=4, random_state=0))], lr(), cv=2
            ),
        ),
        case("Stacking-passthrough", lambda: StackingClassifier([("a", lr())], lr(), cv=2, passthrough=True)),
        case(
            "Stacking-MLP-final",
            lambda: StackingClassifier([("a", lr()), ("b", LinearDiscriminantAnalysis())], mlp(9), cv=2),
            features=[9],
        ),
    ]
    return out


if __name__ == "__main__":
    run(cases(), arguments(__doc__), VERSIONS)
