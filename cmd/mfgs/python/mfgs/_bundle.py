"""Calibration, and what it results in."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import pathlib
import re
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
    report: str = dataclasses.field(repr=False)
    """The report, one HTML document."""

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.report)}" width="100%" height="600" style="border:0"></iframe>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the report to a file."""
        pathlib.Path(path).write_text(self.report, encoding="utf-8")


_ESCAPES = dict(zip("0abtnvfreN_LP", "\0\a\b\t\n\v\f\r\x1b\x85\xa0\u2028\u2029"))


def _unquoted(name: str) -> str:
    """A text of bundle.yaml (YAML 1.2.2, 5.7)."""
    if name.startswith('"'):
        return re.sub(
            r"\\(?:[xuU]((?<=x)..|(?<=u).{4}|(?<=U).{8})|(.))",
            lambda m: chr(int(m[1], 16)) if m[1] else _ESCAPES.get(m[2], m[2]), name[1:-1],
        )
    return name[1:-1].replace("''", "'") if name.startswith("'") else name


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
        self._manifest = (self.path / "bundle.yaml").read_text(encoding="utf-8")
        self._session: onnxruntime.InferenceSession | None = None
        self._outputs: dict[str, str] = {}  # the names of the outputs, by what they are
        self._inputs = _data.FEATURES  # unless there is a model

    def __getstate__(self) -> dict[str, Any]:
        files = {str(f.relative_to(self.path)): f.read_bytes() for f in self.path.rglob("*") if self._folder and f.is_file()}
        return {"path": str(self.path), "files": files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not state["files"]:
            self._set(pathlib.Path(state["path"]), None)
            return
        folder = _Temporary()
        for name, data in state["files"].items():
            file = folder.path / "bundle" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        self._set(folder.path / "bundle", folder)

    def _has(self, setting: str) -> bool:
        return re.search(f"^{setting}:", self._manifest, re.M) is not None

    def _takes(self, model: Any = None) -> list[dict[str, Any]]:
        """The inputs; model is the network, if the bundle does not have it."""
        if self._has("model"):
            self._open(model)
        return self._inputs

    def _open(self, model: Any = None) -> onnxruntime.InferenceSession:
        """The session of the exported model."""
        if self._session is None:
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, "model.onnx")
                with warnings.catch_warnings(action="ignore"):  # that outputs have other names, which is no matter here
                    report = _program.run("export", bundle=self.path, out=file, model=model)
                self._session = onnxruntime.InferenceSession(str(file))
            self._outputs = {key: output["name"] for key, output in report["outputs"].items()}
            self._inputs = report["inputs"]
        return self._session

    @property
    def classes(self) -> list[str] | None:
        """The names of the C classes, in the order of the probabilities; None if they have none."""
        return self._classes()

    def _classes(self, model: Any = None) -> list[str] | None:
        if self._has("model"):
            names = self._open(model).get_modelmeta().custom_metadata_map.get("mfgs.labels")
            return list(json.loads(names)) if names else None
        found = re.search("^labels:\n((?:  - .*\n)+)", self._manifest, re.M)
        if found is None:
            return None
        return [_unquoted(name) for name in re.findall("  - (.*)\n", found[1])]

    def predict(
        self, x: Any = None, *, features: npt.ArrayLike | None = None, logits: npt.ArrayLike | None = None, **options: Any
    ) -> Prediction:
        """Predicts for x: an array [N, ...] for the model's only input, a dict of arrays by input, a DataFrame, or a
        path that mfgs reads, such as that of a folder of images. A bundle that was calibrated on features takes
        features [N,d] and logits [N,K] instead. Options are those of mfgs predict. Arrays without options run in
        onnxruntime; everything else, and bytes where pictures were calibrated with, in the program. Raises MfgsError, or
        what onnxruntime raises for arrays of another shape."""
        if features is not None:
            if logits is None:
                raise TypeError("predict() needs logits beside features")
            x = {"features": features, "logits": logits}
        if x is None:
            raise TypeError("predict() needs x, or features and logits")
        inputs, pictures = _data.FEATURES, self._pictures(options)
        if _data.is_arrays(x):
            inputs = self._takes(options.get("model")) if features is None else inputs
            arrays = _data.arrays(x, inputs, pictures)
            of_pictures = pictures and any(array.dtype == np.uint8 for array in arrays.values())
            if inputs is not _data.FEATURES and not (options or of_pictures):
                return self._run(arrays)
        with tempfile.TemporaryDirectory() as folder:
            of = str(_data.spec(pathlib.Path(folder), "x", x, inputs, pictures))
            rows = _program.run("predict", of, bundle=self.path, **options)["predictions"]
        return _prediction(rows, self._classes(options.get("model")))

    def _pictures(self, options: dict[str, Any]) -> bool:
        """Whether bytes are pictures, which have to be preprocessed, and not numbers as others."""
        return options.get("preprocess") is not None or self._has("preprocess") or self._has("bytes")

    def _run(self, x: dict[str, Array]) -> Prediction:
        session = self._open()
        keys = [k for k in ("probabilities", "ood_score", "ood_percentile", "abstain", "prediction_set") if k in self._outputs]
        names = [self._outputs[k] for k in keys]
        sizes = [size for i in self._inputs for size in i["shape"][:1]]  # names and -1 are any
        batch = max((size for size in sizes if isinstance(size, int)), default=0)
        if batch < 1:
            values = session.run(names, x)
        else:  # the model takes so many examples and no other number
            parts = []
            n = len(next(iter(x.values())))
            if any(len(array) != n for array in x.values()):
                raise ValueError(f"the inputs have {', '.join(str(len(a)) for a in x.values())} rows, want as many of each")
            for at in range(0, max(n, 1), batch):
                rows = {name: array[at : at + batch] for name, array in x.items()}
                rows = {name: np.concatenate([a, np.zeros((batch - len(a), *a.shape[1:]), a.dtype)]) for name, a in rows.items()}
                parts.append([value[: n - at] for value in session.run(names, rows)])
            values = [np.concatenate(part) for part in zip(*parts)]
        got = dict(zip(keys, values))
        p = got["probabilities"]
        wrong = np.flatnonzero(~np.isfinite(p).all(tuple(range(1, p.ndim))))
        if len(wrong):
            raise _program.MfgsError(f"x[{wrong[0]}]: the probabilities are not finite: leave out examples with missing values")
        return Prediction(
            p, got["ood_score"], got.get("ood_percentile"), got.get("abstain"), got.get("prediction_set"), self.classes
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
        """Measures probabilities and OOD scores on labelled test data, as mfgs eval does: (X, y) or a path; for a bundle
        that was calibrated on features, X is a dict of features and logits. ood and shift are dicts of further data by
        name, such as {"noise": X}; ood may be data without a name, unless these are a dict. Options are those of mfgs
        eval."""
        if "report" in options:
            raise TypeError("evaluate() returns the report: leave report out, and save what it returns")
        named = {"ood": ood if ood is None or isinstance(ood, dict) else {"ood": ood}, "shift": shift}
        every = [test, *(one for sets in named.values() for one in (sets or {}).values())]
        inputs = self._takes(options.get("model")) if any(map(_data.is_arrays, every)) else []
        pictures = self._pictures(options)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for flag, sets in named.items():
                options[flag] = {
                    key: _data.spec(folder, f"{flag}{i}", one, inputs, pictures) for i, (key, one) in enumerate((sets or {}).items())
                }
            options |= {"test": _data.spec(folder, "test", test, inputs, pictures), "report": folder / "report.html"}
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
    model: Any, train: Any = None, val: Any = None, *, ood: Any = None, out: str | os.PathLike[str] | None = None, **options: Any
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

    posterior, a file, takes the place of train. ood are data from elsewhere, in the same form, to choose the OOD score
    with. out is a new folder for the bundle; without it, the bundle lasts as long as the object. Further options are
    those of mfgs calibrate, such as alpha=0.1 for prediction sets or target_error=0.05 for abstention. Raises MfgsError.
    """
    given = [*data, *map(options.get, ("model", "train", "val", "ood", "labels"))]
    if options.get("resume") and not all(one is None or _data.is_path(one) for one in given):
        raise TypeError("calibrate() cannot resume with data in memory, whose files are new each time: give paths")
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


def _model_flags(
    folder: pathlib.Path, model: Any, train: Any = None, val: Any = None, ood: Any = None, **options: Any
) -> dict[str, Any]:
    if val is None or train is None and not options.keys() & {"posterior", "head"}:
        raise TypeError("calibrate() needs train and val beside the model; posterior may take the place of train")
    if not _data.is_path(model):
        file = folder / "model.onnx"
        file.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        model = file
    inputs: list[dict[str, Any]] = []
    if any(map(_data.is_arrays, (train, val, ood))):
        layer = ("head", "fix", "state", "features", "logits", "link", "approximate", "output")
        asked = {key: options[key] for key in layer if key in options}
        inputs = _program.run("inspect", os.fspath(model), **asked)["model"]["inputs"]
    pictures = options.get("preprocess") is not None
    sets = {role: _data.spec(folder, role, one, inputs, pictures) for role, one in (("train", train), ("val", val), ("ood", ood))}
    return {"model": model, **sets, **options}


def _feature_flags(
    folder: pathlib.Path, features: Any = None, logits: Any = None, labels: Any = None, train: Any = None, ood: Any = None,
    **options: Any,
) -> dict[str, Any]:
    if features is None or logits is None or labels is None:
        raise TypeError("calibrate() needs a model, train and val, or features, logits and labels")
    for role, pair in (("train", (features, logits) if train is None else train), ("ood", ood), ("val", (features, logits))):
        if pair is not None:
            x = dict(zip(("features", "logits"), pair))
            options[f"{role}_features"] = _data.spec(folder, role, (x, labels if role == "val" else None), _data.FEATURES)
    return options
