"""Calibration, and what it results in."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import pathlib
import shutil
import tempfile
import warnings
import weakref
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import onnxruntime

from . import _data, _program
from ._data import Array


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Predictions for N examples of C classes. Of a model with an answer for each of T steps, they are [N,T,...]."""

    probabilities: Array
    """[N,C] calibrated; of a multi-label model [N,K], that each label is present."""
    ood_score: Array
    """[N] from 0 to 1; larger is more out-of-distribution, and half of the validation data is below 1/2."""
    ood_percentile: Array | None
    """[N] the fraction of validation data with a lower OOD score."""
    abstain: Array | None
    """[N] True where not to answer; None without target_error, target_coverage and false_alarm."""
    prediction_set: Array | None
    """[N,C] True for the classes in the prediction set; None without alpha."""
    classes: list[str] | None
    """[C] the names of the classes; None if they have none."""

    @property
    def label(self) -> Array:
        """[N] the most probable class."""
        return np.asarray(self.probabilities.argmax(-1))

    @property
    def confidence(self) -> Array:
        """[N] its probability."""
        return np.asarray(self.probabilities.max(-1))

    def __len__(self) -> int:
        return len(self.probabilities)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What mfgs eval measured, with 95 % intervals. A notebook shows the report."""

    results: dict[str, Any]
    """What mfgs eval --json prints."""
    report: str
    """The report, one HTML document."""

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.report)}" width="100%" height="600" style="border:0"></iframe>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the report to a file."""
        pathlib.Path(path).write_text(self.report, encoding="utf-8")


def _prediction(rows: list[dict[str, Any]], classes: list[str] | None) -> Prediction:
    """The predictions that the program printed."""

    def column(key: str) -> Array | None:
        return np.array([row[key] for row in rows]) if rows and key in rows[0] else None

    probabilities = np.array([row["probabilities"] for row in rows])
    sets = None
    if rows and "prediction_set" in rows[0]:
        sets = np.zeros(probabilities.shape, bool)
        for row, member in zip(rows, sets):
            member[row["prediction_set"]] = True
    score = np.array([row["ood_score"] for row in rows])
    return Prediction(probabilities, score, column("ood_percentile"), column("abstain"), sets, classes)


class _Temporary:
    """A temporary folder, which lasts as long as the object."""

    def __init__(self) -> None:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="mfgs-"))
        weakref.finalize(self, self._remove, self.path, os.getpid())

    @staticmethod
    def _remove(path: pathlib.Path, owner: int) -> None:
        if os.getpid() == owner:  # and not a process that was forked from it
            shutil.rmtree(path, ignore_errors=True)


class Bundle:
    """A calibrated model, which calibrate or the program mfgs wrote to a folder. A pickle or copy of a bundle in a
    temporary folder has its files; of another, only the path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._set(pathlib.Path(path), None)

    def _set(self, path: pathlib.Path, folder: _Temporary | None) -> None:
        self.path = path.absolute()
        self._folder = folder  # it is removed with the last bundle that has it
        if not (self.path / "bundle.yaml").is_file():
            raise FileNotFoundError(f"{self.path} is no bundle: it has no bundle.yaml")
        self._session: onnxruntime.InferenceSession | None = None
        self._outputs: dict[str, str] = {}  # the names of the outputs, by what they are
        self._inputs: list[dict[str, Any]] = []

    def __getstate__(self) -> dict[str, Any]:
        files = None
        if self._folder:
            files = {str(f.relative_to(self.path)): f.read_bytes() for f in self.path.rglob("*") if f.is_file()}
        return {"path": str(self.path), "files": files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["files"] is None:
            self._set(pathlib.Path(state["path"]), None)
            return
        folder = _Temporary()
        for name, data in state["files"].items():
            file = folder.path / "bundle" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        self._set(folder.path / "bundle", folder)

    def _open(self) -> onnxruntime.InferenceSession:
        """The session of the exported model."""
        if self._session is None:
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, "model.onnx")
                with warnings.catch_warnings():  # that outputs have other names, which is no matter here
                    warnings.simplefilter("ignore")
                    report = _program.run("export", bundle=self.path, out=file)
                self._session = onnxruntime.InferenceSession(str(file))
            self._outputs = {key: output["name"] for key, output in report["outputs"].items()}
            self._inputs = report["inputs"]
        return self._session

    @property
    def classes(self) -> list[str] | None:
        """The names of the C classes, in the order of the probabilities; None if they have none."""
        names = self._open().get_modelmeta().custom_metadata_map.get("mfgs.labels")
        return list(json.loads(names)) if names else None

    def predict(
        self, x: Any = None, *, features: npt.ArrayLike | None = None, logits: npt.ArrayLike | None = None, **options: Any
    ) -> Prediction:
        """Predicts for x: an array [N, ...] for the model's only input, a dict of arrays by input, a DataFrame, or a
        path that mfgs reads, such as that of a folder of images. A bundle that was calibrated on features takes
        features [N,d] and logits [N,K] instead. Arrays run in onnxruntime; for everything else, options are those of
        mfgs predict. Raises MfgsError, or what onnxruntime raises for arrays of another shape."""
        if features is None and not _data.is_path(x) and not _data.is_frame(x):
            return self._run(x)
        with tempfile.TemporaryDirectory() as folder:
            if features is not None:
                if logits is None:
                    raise TypeError("predict needs logits beside features")
                of = _data.features(pathlib.Path(folder), "x", features, logits, None)
            else:
                of = str(_data.spec(pathlib.Path(folder), "x", x, []))
            rows = _program.run("predict", of, bundle=self.path, **options)["predictions"]
        return _prediction(rows, self.classes if features is None else None)

    def _run(self, x: Any) -> Prediction:
        session = self._open()
        keys = [k for k in ("probabilities", "ood_score", "ood_percentile", "abstain", "prediction_set") if k in self._outputs]
        values = session.run([self._outputs[k] for k in keys], _data.arrays(x, self._inputs))
        got = dict(zip(keys, values))
        return Prediction(
            got["probabilities"], got["ood_score"], got.get("ood_percentile"), got.get("abstain"),
            got.get("prediction_set"), self.classes,
        )

    def predict_proba(self, x: Any) -> Array:
        """The probabilities [N,C] of predict."""
        return self.predict(x).probabilities

    def predict_set(self, x: Any) -> Array:
        """The prediction sets [N,C] of predict: True for the classes that are in them. Needs alpha in calibrate."""
        sets = self.predict(x).prediction_set
        if sets is None:
            raise _program.MfgsError("the bundle has no prediction sets: calibrate with alpha, such as alpha=0.1")
        return sets

    def evaluate(self, test: Any, *, ood: Any = None, shift: Any = None, **options: Any) -> Evaluation:
        """Measures probabilities and OOD scores on labelled test data, as mfgs eval does: (X, y) or a path. ood and
        shift are dicts of further data by name, such as {"noise": X}; ood may be data without a name, unless these are a
        dict. Options are those of mfgs eval."""
        self._open()
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            named = {"ood": ood if ood is None or isinstance(ood, dict) else {"ood": ood}, "shift": shift}
            for flag, sets in named.items():
                options[flag] = {
                    key: _data.spec(folder, f"{flag}{i}", one, self._inputs) for i, (key, one) in enumerate((sets or {}).items())
                }
            options |= {"test": _data.spec(folder, "test", test, self._inputs), "report": folder / "report.html"}
            results = _program.run("eval", bundle=self.path, **options)
            return Evaluation(results, (folder / "report.html").read_text(encoding="utf-8"))

    def export(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Writes the network and its calibration as one ONNX model. Options are those of mfgs export."""
        _program.run("export", bundle=self.path, out=path, **options)

    def save(self, path: str | os.PathLike[str]) -> Bundle:
        """Copies the bundle to a new folder, and returns it from there."""
        shutil.copytree(self.path, path)
        return Bundle(path)

    def __repr__(self) -> str:
        return f"mfgs.Bundle({str(self.path)!r})"


@overload
def calibrate(
    model: Any, train: Any, val: Any, *, ood: Any = None, out: str | os.PathLike[str] | None = None, **options: Any
) -> Bundle: ...


@overload
def calibrate(
    features: npt.ArrayLike,
    logits: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    train: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    ood: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    out: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Bundle: ...


def calibrate(*data: Any, out: str | os.PathLike[str] | None = None, **options: Any) -> Bundle:
    """Calibrates a trained classifier, and returns the bundle.

    calibrate(model, train, val) takes an ONNX model: the path of a file or folder, its bytes or an onnx.ModelProto. The
    data are (X, y), where X is an array [N, ...] for the model's only input, a dict of arrays by input or a DataFrame; or
    a path that mfgs reads, such as that of a folder of images. train is what the model was trained on, for which X is
    enough. val must not have been used in training.

    calibrate(features, logits, labels) takes the inputs [N,d] and outputs [N,K] of the last linear layer for validation
    data, and their labels [N], or [N,K] of 0 and 1 for a model of several labels. train=(features, logits) are those of
    the training data; without it, the validation data take their place.

    ood are data from elsewhere, in the same form, to choose the OOD score with. out is a new folder for the bundle;
    without it, the bundle lasts as long as the object. Further options are those of mfgs calibrate, such as alpha=0.1 for
    prediction sets or target_error=0.05 for abstention. Raises MfgsError.
    """
    folder = _Temporary() if out is None else None
    to = folder.path / "bundle" if folder else pathlib.Path(out or "").absolute()
    by_features = not _is_model(data[0]) if data else "model" not in options
    with tempfile.TemporaryDirectory() as name:
        flags = (_feature_flags if by_features else _model_flags)(pathlib.Path(name), *data, **options)
        _program.run("calibrate", out=to, **flags)
    bundle = Bundle(to)
    bundle._folder = folder
    return bundle


def inspect(model: bytes, **options: Any) -> Any:
    """What the program finds in an ONNX model, in the JSON of mfgs inspect."""
    with tempfile.TemporaryDirectory() as name:
        file = pathlib.Path(name, "model.onnx")
        file.write_bytes(model)
        return _program.run("inspect", str(file), refusable=True, **options)


def _is_model(model: Any) -> bool:
    return _data.is_path(model) or isinstance(model, bytes) or hasattr(model, "SerializeToString")


def _model_flags(folder: pathlib.Path, model: Any, train: Any, val: Any, ood: Any = None, **options: Any) -> dict[str, Any]:
    if not _data.is_path(model):
        file = folder / "model.onnx"
        file.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        model = file
    inputs: list[dict[str, Any]] = []
    if not all(_data.is_path(one) for one in (train, val)):
        asked = {key: options[key] for key in ("head", "fix", "state", "features", "logits", "link", "output") if key in options}
        inputs = _program.run("inspect", os.fspath(model), **asked)["model"]["inputs"]
    sets = {role: _data.spec(folder, role, one, inputs) for role, one in (("train", train), ("val", val), ("ood", ood))}
    return {"model": model, **sets, **options}


def _feature_flags(
    folder: pathlib.Path, features: Any, logits: Any, labels: Any, train: Any = None, ood: Any = None, **options: Any
) -> dict[str, Any]:
    for role, pair in (("train", train or (features, logits)), ("ood", ood)):
        if pair is not None:
            options[f"{role}_features"] = _data.features(folder, role, pair[0], pair[1], None)
    return {"val_features": _data.features(folder, "val", features, logits, labels), **options}
