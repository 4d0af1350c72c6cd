"""Runs the program mfgs."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sysconfig
import warnings
from typing import Any

import onnxruntime

Option = "str | int | float | bool | os.PathLike[str] | dict[str, str]"


class MfgsError(Exception):
    """What the program mfgs refused, in its words."""


def program() -> str:
    """The path of the program: the one that was installed with this package, or the first on PATH."""
    found = shutil.which("mfgs", path=sysconfig.get_path("scripts")) or shutil.which("mfgs")
    if found is None:
        raise MfgsError("there is no program mfgs: install the package again, or put mfgs on PATH")
    return found


def environment() -> dict[str, str]:
    """The variables for the program: it uses the ONNX Runtime of the package onnxruntime, unless one is named."""
    env = dict(os.environ)
    capi = pathlib.Path(onnxruntime.__file__).parent / "capi"
    libraries = [p for name in ("libonnxruntime.so*", "libonnxruntime*.dylib", "onnxruntime.dll") for p in sorted(capi.glob(name))]
    if libraries:
        env.setdefault("ONNXRUNTIME_SHARED_LIBRARY_PATH", str(libraries[0]))
    return env


def flags(options: dict[str, Any]) -> list[str]:
    """Options as flags: target_error=0.1 as --target-error=0.1, True as a flag without a value, and a dict such as
    ood={"noise": SPEC} as --ood=noise=SPEC for each entry. None and False are left out."""
    args = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            args.append(flag)
        elif isinstance(value, dict):
            args += [f"{flag}={key}={one}" for key, one in value.items()]
        else:
            args.append(f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return args


def run(command: str, *args: str, refusable: bool = False, **options: Any) -> Any:
    """Runs a command and returns its JSON. Its warnings become Python's, and its error an MfgsError, unless the command
    is refusable and says in its JSON why it refuses."""
    call = [program(), command, *flags({**options, "json": True}), *args]
    done = subprocess.run(call, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", env=environment())
    lines = [line for line in done.stderr.splitlines() if not line.startswith("mfgs: progress: ")]
    for line in lines:
        if line.startswith("mfgs: warning: "):
            warnings.warn(line.removeprefix("mfgs: warning: "), stacklevel=3)
    if done.returncode and not (refusable and done.stdout):
        wrong = [line for line in lines if not line.startswith("mfgs: warning: ")]
        raise MfgsError(wrong[0].removeprefix("mfgs: ") if wrong else f"mfgs ended with exit code {done.returncode}")
    return json.loads(done.stdout)
