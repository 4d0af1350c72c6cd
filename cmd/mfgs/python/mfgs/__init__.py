"""Calibrated uncertainty for any trained ONNX classifier, without retraining it.

    import mfgs

    bundle = mfgs.calibrate("model.onnx", train=(x_train, y_train), val=(x_val, y_val), alpha=0.1)
    bundle.predict(x)                # probabilities, OOD scores, prediction sets
    bundle.evaluate((x_test, y_test))

Everything is computed by the program mfgs, which this package brings, and by the ONNX model that it exports, in
onnxruntime.
"""

import os
from typing import TYPE_CHECKING

# ONNX Runtime's official builds send telemetry. As in the program, they do not here unless the user has set this to 0.
_telemetry = os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

try:
    import numpy  # noqa: F401
    import onnxruntime
except ModuleNotFoundError as missing:
    raise ImportError("mfgs needs numpy and onnxruntime: pip install 'mfgs[python]'; for a GPU, onnxruntime-gpu instead") from missing

if _telemetry != "0":  # it may have been imported before this package
    onnxruntime.disable_telemetry_events()

from ._bundle import Bundle, Evaluation, Prediction, calibrate
from ._program import MfgsError

if TYPE_CHECKING:
    from ._sklearn import Classifier

__all__ = ["Bundle", "Classifier", "Evaluation", "MfgsError", "Prediction", "calibrate"]


def __getattr__(name: str) -> object:
    if name != "Classifier":
        raise AttributeError(f"module 'mfgs' has no attribute {name!r}")
    from ._sklearn import Classifier  # nothing else needs scikit-learn

    return Classifier
