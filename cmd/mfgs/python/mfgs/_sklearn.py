"""A scikit-learn classifier with calibrated uncertainty."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _bundle, _program
from ._data import Array

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise ImportError("mfgs.Classifier needs scikit-learn 1.6 or newer, and skl2onnx") from missing


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fits a scikit-learn classifier on a part of the data, and calibrates it on the rest.

    estimator is any classifier that skl2onnx converts; the default is LogisticRegression(). One that is fitted already
    comes in a sklearn.frozen.FrozenEstimator: fit then takes validation data, and all of them calibrate. A classifier
    without a linear last layer, such as a forest, is calibrated without variances. alpha and target_error are those of
    mfgs calibrate, and options a dict of further ones. validation_fraction of the examples, drawn by random_state, are
    for calibration. The calibrated classifier computes in float32.

    Attributes: estimator_, the fitted classifier; bundle_, its mfgs.Bundle; classes_ [C], and n_features_in_.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        alpha: float | None = None,
        target_error: float | None = None,
        validation_fraction: float = 0.2,
        random_state: int | None = 0,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.target_error = target_error
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.options = options

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Classifier:
        """Fits and calibrates on X [N,F] and labels y [N]."""
        from skl2onnx import to_onnx

        data: tuple[Array, Array] = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(data[1])
        estimator = LogisticRegression() if self.estimator is None else self.estimator
        if not is_classifier(estimator):
            raise TypeError(f"{type(estimator).__name__} is no classifier: mfgs calibrates classifiers")
        frozen = type(estimator).__name__ == "FrozenEstimator"
        self.classes_, labels = np.unique(data[1], return_inverse=True)
        if frozen:  # the data may lack some of its classes
            new = self.classes_[~np.isin(self.classes_, estimator.classes_)]
            if len(new):
                raise ValueError(f"y has labels that the fitted estimator does not know: {new.tolist()}")
            self.classes_, labels = estimator.classes_, np.searchsorted(estimator.classes_, data[1])
        train, val = np.arange(len(labels)), np.arange(len(labels))
        if not frozen:
            train, val = train_test_split(
                train, test_size=self.validation_fraction, random_state=self.random_state, stratify=labels
            )
        x = data[0]
        self.estimator_ = clone(estimator).fit(x[train], data[1][train])
        fitted = self.estimator_.estimator if frozen else self.estimator_
        try:
            model = to_onnx(fitted, x[:1], options={"zipmap": False}, target_opset=18).SerializeToString()
        except NameError:  # its converter has no such option, as that of LinearSVC
            model = to_onnx(fitted, x[:1], target_opset=18).SerializeToString()
        options = {"alpha": self.alpha, "target_error": self.target_error, **(self.options or {})}
        found = _bundle.inspect(model, head=options.get("head"))
        if not found["supported"] and "head" not in options:
            warnings.warn(f"{type(fitted).__name__} has no linear last layer: it is calibrated without variances", stacklevel=2)
            options["head"] = "none"
            found = _bundle.inspect(model, head="none")
        names = (found["head"] or {}).get("labels")
        y_val = labels[val] if names is None else np.array(names)[labels[val]]
        self.bundle_ = _bundle.calibrate(model, x[train], (x[val], y_val), **options)
        return self

    def _predict(self, X: npt.ArrayLike) -> _bundle.Prediction:
        check_is_fitted(self)
        return self.bundle_.predict(validate_data(self, X, dtype=np.float32, reset=False))

    def predict(self, X: npt.ArrayLike) -> Array:
        """The most probable class [N] of each row of X [N,F]."""
        label = self._predict(X).label
        return np.asarray(self.classes_[label])

    def predict_proba(self, X: npt.ArrayLike) -> Array:
        """The calibrated probabilities [N,C], in the order of classes_."""
        return np.asarray(self._predict(X).probabilities, np.float64)

    def predict_set(self, X: npt.ArrayLike) -> Array:
        """[N,C] True for the classes in the prediction set of each row. Needs alpha."""
        sets = self._predict(X).prediction_set
        if sets is None:
            raise _program.MfgsError("there are no prediction sets: give alpha, such as alpha=0.1")
        return sets

    def ood_score(self, X: npt.ArrayLike) -> Array:
        """[N] from 0 to 1; larger is more out-of-distribution, and half of the validation data is below 1/2."""
        return self._predict(X).ood_score
