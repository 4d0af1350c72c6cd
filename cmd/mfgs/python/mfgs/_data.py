"""Writes what a caller has in memory into files that the program reads."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FEATURES: list[dict[str, Any]] = [{"name": "features", "type": "float32"}, {"name": "logits", "type": "float32"}]
"""What a bundle that was calibrated on features takes, in place of the inputs of a model."""


def is_path(data: object) -> bool:
    """Whether data is a SPEC of the program, such as the path of a folder, and not data itself."""
    return isinstance(data, (str, os.PathLike))


def is_frame(data: object) -> bool:
    """Whether data is a pandas DataFrame, or another table that writes CSV in the same way."""
    return hasattr(data, "to_csv") and hasattr(data, "columns")


def is_arrays(data: object) -> bool:
    """Whether data, or X of the tuple (X, y), is arrays, which are for certain inputs of a model."""
    x = data[0] if isinstance(data, tuple) else data
    return not (x is None or is_path(x) or is_frame(x))


def arrays(data: object, inputs: list[dict[str, Any]], pictures: bool = False) -> dict[str, Array]:
    """The arrays of a model's inputs, each [N, ...], of an array for the only input or of a mapping by name. Numbers get
    the type of the input, but bytes remain bytes if these are pictures, which are then preprocessed."""
    types = {i["name"]: i["type"] for i in inputs}
    if len(types) == 1 and not isinstance(data, Mapping):
        data = {inputs[0]["name"]: data}
    if not isinstance(data, Mapping) or data.keys() - types.keys():
        raise ValueError(f"give a dict with an array for each of {', '.join(types)}, the inputs of the model")
    result = {}
    for name, values in data.items():
        array = np.asarray(values)
        if not (pictures and array.dtype == np.uint8):
            array = _cast(name, array, types[name])
        result[name] = array
    return result


def _cast(name: str, array: Array, to: str) -> Array:
    if array.dtype.kind not in "biufO" or not re.fullmatch("u?int[0-9]+|float(16|32|64)|bool", to):
        return array.astype(str) if array.dtype.kind == "O" else array
    with np.errstate(all="ignore"):
        cast = array.astype(to)
    if cast.dtype.kind != "f" and not (cast == array).all():
        raise ValueError(f"the input {name} takes {to}, which cannot hold all values of the {array.dtype} array")
    return cast


def spec(folder: pathlib.Path, role: str, data: object, inputs: list[dict[str, Any]], pictures: bool = False) -> str | None:
    """The SPEC of data: a path as it is, or a file in the folder with X, or with the tuple (X, y)."""
    if data is None:
        return None
    if is_path(data):
        return os.fspath(data)  # type: ignore[call-overload, no-any-return]
    x, y = data if isinstance(data, tuple) else (data, None)
    if is_frame(x):
        frame = x.rename(columns={name: f"x{name}" for name in x.columns if not isinstance(name, str)})
        frame = frame if y is None else frame.assign(label=_labels(y))
        path = folder / f"{role}.csv"
        frame.to_csv(path, index=False)
        return str(path)
    columns = arrays(x, inputs, pictures)
    if y is not None:
        columns["labels"] = _labels(y)
    path = folder / f"{role}.npz"
    np.savez(path, **{name: np.ascontiguousarray(array) for name, array in columns.items()})  # type: ignore[arg-type]
    return str(path)


def _labels(y: npt.ArrayLike) -> Array:
    """Labels as the program reads them. A whole number for each example becomes text, so that as in a table it is a class
    name where these are integers, and else the number of a class."""
    labels = np.asarray(y)
    if labels.dtype.kind == "f" and (labels == np.trunc(labels)).all():
        labels = labels.astype(np.int64)
    return labels.astype(str) if labels.dtype.kind == "O" or labels.dtype.kind in "iu" and labels.ndim == 1 else labels
