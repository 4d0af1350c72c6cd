"""The kinds of models, and how each library writes ONNX."""
import catboost
import lightgbm
import onnx
import onnxmltools
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import (AdaBoostClassifier, BaggingClassifier, ExtraTreesClassifier, GradientBoostingClassifier,
                              HistGradientBoostingClassifier, RandomForestClassifier, StackingClassifier,
                              VotingClassifier)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from common import THREADS

OPSET = {"": 17, "ai.onnx.ml": 3}


def scaled(model):
    return make_pipeline(StandardScaler(), model)


def vote(*models):
    """Averages probabilities. skl2onnx has no flatten_transform=True, which is the default."""
    return VotingClassifier([(str(i), m) for i, m in enumerate(models)], voting="soft", flatten_transform=False)


KINDS = {
    "XGBoost": lambda: xgboost.XGBClassifier(n_estimators=100, n_jobs=THREADS),
    "LightGBM": lambda: lightgbm.LGBMClassifier(n_estimators=100, n_jobs=THREADS, verbose=-1),
    "CatBoost": lambda: catboost.CatBoostClassifier(iterations=200, verbose=0, thread_count=THREADS, random_seed=0),
    "RandomForest": lambda: RandomForestClassifier(100, random_state=0),
    "ExtraTrees": lambda: ExtraTreesClassifier(100, random_state=0),
    "GradientBoosting": lambda: GradientBoostingClassifier(n_estimators=40, random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(max_iter=40, random_state=0),
    "AdaBoost": lambda: AdaBoostClassifier(n_estimators=50, random_state=0),
    "Bagging": lambda: BaggingClassifier(n_estimators=20, random_state=0),
    "DecisionTree": lambda: DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
    "SVC, probabilities": lambda: scaled(SVC(probability=True, random_state=0)),
    "SVC, scores": lambda: scaled(SVC()),
    "KNeighbors": lambda: KNeighborsClassifier(10),
    "GaussianNB": lambda: GaussianNB(),
    "QDA": lambda: QuadraticDiscriminantAnalysis(reg_param=0.1),
    "GaussianProcess": lambda: scaled(GaussianProcessClassifier()),
    "soft Voting": lambda: vote(RandomForestClassifier(30, random_state=0), scaled(LogisticRegression(max_iter=300)),
                                GaussianNB()),
    "average of 2 MLPs": lambda: vote(*(scaled(MLPClassifier((30,), max_iter=50, random_state=i)) for i in range(2))),
    "Stacking": lambda: StackingClassifier([("rf", RandomForestClassifier(30, random_state=0)), ("nb", GaussianNB())],
                                           final_estimator=GradientBoostingClassifier(n_estimators=20, random_state=0),
                                           cv=3),
    "CalibratedClassifierCV": lambda: CalibratedClassifierCV(GaussianNB(), method="isotonic", cv=3),
}


def library(kind):
    return kind if kind in ("XGBoost", "LightGBM", "CatBoost") else "scikit-learn"


# Kinds that learn from missing values, NaN.
MISSING = ["XGBoost", "LightGBM", "CatBoost", "RandomForest", "ExtraTrees", "HistGradientBoosting", "DecisionTree"]

# What the libraries cannot write: whether classes are strings, and whether there is a ZipMap.
FIXED = {
    "XGBoost": ({"strings": False, "zipmap": False},
                "XGBClassifier takes classes 0, 1, 2, … only, and onnxmltools writes no ZipMap for it"),
    "CatBoost": ({"zipmap": True}, "CatBoost always writes ZipMap"),
    "SVC, scores": ({"zipmap": False}, "skl2onnx writes no ZipMap for scores"),
}


def export(kind, model, x, path, zipmap):
    """Writes a fitted model as ONNX. x: some rows, for their width."""
    inputs = [("input", FloatTensorType([None, x.shape[1]]))]
    if kind == "CatBoost":
        model.save_model(str(path), format="onnx")
        return
    if kind == "XGBoost":
        made = onnxmltools.convert_xgboost(model, initial_types=inputs, target_opset=15)
    elif kind == "LightGBM":
        made = onnxmltools.convert_lightgbm(model, initial_types=inputs, target_opset=15, zipmap=zipmap)
    elif kind == "SVC, scores":
        made = to_onnx(model, x[:1], target_opset=OPSET)
    else:
        made = to_onnx(model, x[:1], target_opset=OPSET, options={"zipmap": zipmap})
    onnx.save(made, path)
