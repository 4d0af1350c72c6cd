"""Writes what a caller has in memory into files that the program reads."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def is_path(data: object) -> bool:
    """Whether data is a SPEC of the program, such as the path of a folder, and not data itself."""
    return isinstance(data, (str, os.PathLike))


def is_frame(data: object) -> bool:
    """Whether data is a pandas DataFrame, or another table that writes CSV in the same way."""
    return hasattr(data, "to_csv") and hasattr(data, "columns")


def arrays(data: object, inputs: list[dict[str, Any]]) -> dict[str, Array]:
    """The arrays of a model's inputs, each [N, ...], of an array for the only input or of a mapping by name. Floats get
    the type of the input."""
    if not isinstance(data, Mapping):
        if len(inputs) != 1:
            names = ", ".join(i["name"] for i in inputs)
            raise ValueError(f"the model has {len(inputs)} inputs: give a dict with an array for each of {names}")
        data = {inputs[0]["name"]: data}
    types = {i["name"]: i["type"] for i in inputs}
    result = {}
    for name, values in data.items():
        array = np.asarray(values)
        if array.dtype.kind == "O":
            array = array.astype(str)
        if array.dtype.kind == "f" and types.get(name) in ("float16", "float32", "float64"):
            array = array.astype(types[name])
        result[name] = array
    return result


def spec(folder: pathlib.Path, role: str, data: object, inputs: list[dict[str, Any]]) -> str | None:
    """The SPEC of data: a path as it is, or a file in the folder with X, or with the tuple (X, y)."""
    if data is None:
        return None
    if is_path(data):
        return os.fspath(data)  # type: ignore[call-overload, no-any-return]
    x, y = data if isinstance(data, tuple) else (data, None)
    if is_frame(x):
        frame = x if y is None else x.assign(label=np.asarray(y))
        path = folder / f"{role}.csv"
        frame.to_csv(path, index=False)
        return str(path)
    return save(folder / f"{role}.npz", arrays(x, inputs), y)


def features(
    folder: pathlib.Path, role: str, phi: npt.ArrayLike, logits: npt.ArrayLike, y: npt.ArrayLike | None
) -> str:
    """The SPEC of precomputed features [N,d] and logits [N,K]."""
    rows = {"features": np.asarray(phi, np.float32), "logits": np.asarray(logits, np.float32)}
    return save(folder / f"{role}.npz", rows, y)


def save(path: pathlib.Path, columns: dict[str, Array], y: npt.ArrayLike | None) -> str:
    """Writes arrays, and labels if there are any, and returns the path."""
    if y is not None:
        labels = np.asarray(y)
        columns = {**columns, "labels": labels.astype(str) if labels.dtype.kind == "O" else labels}
    np.savez(path, **columns)  # type: ignore[arg-type]
    return str(path)
