"""Runs the program mfgs."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import warnings
from typing import Any

import onnxruntime


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
    """Options as flags: target_error=0.1 as --target-error=0.1, True as =true, a list such as methods=["mf0", "ts"] with
    commas, and a dict such as ood={"noise": SPEC} as --ood=noise=SPEC for each entry. None and False are left out."""
    args = []
    for name, value in options.items():
        if value is not None and value is not False:
            entries = [f"{key}={one}" for key, one in value.items()] if isinstance(value, dict) else [_text(value)]
            args += [f"--{name.replace('_', '-')}={entry}" for entry in entries]
    return args


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return "true" if value is True else str(value)


def _callers_level() -> int:
    """The stacklevel, where this is called, of the first caller outside this package."""
    level = 1
    while pathlib.Path(sys._getframe(level).f_code.co_filename).parent == pathlib.Path(__file__).parent:
        level += 1
    return level


def run(command: str, *args: str, refusable: bool = False, **options: Any) -> Any:
    """Runs a command and returns its JSON. Its warnings become Python's, and its error an MfgsError, unless the command
    is refusable and says in its JSON why it refuses."""
    call = [program(), command, *flags({**options, "json": True}), *args]
    try:
        done = subprocess.run(
            call, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", env=environment()
        )
    except OSError as wrong:
        raise MfgsError(f"the program {call[0]} cannot be run: {wrong}: install the package again") from wrong
    lines = [line for line in done.stderr.splitlines() if not line.startswith("mfgs: progress: ")]
    for line in lines:
        if line.startswith("mfgs: warning: "):
            warnings.warn(line.removeprefix("mfgs: warning: "), stacklevel=_callers_level())
    if done.returncode and not (refusable and done.stdout):
        errors = [line for line in lines if not line.startswith("mfgs: warning: ")]
        raise MfgsError(errors[0].removeprefix("mfgs: ") if errors else f"mfgs ended with exit code {done.returncode}")
    try:
        return json.loads(done.stdout)
    except ValueError as wrong:
        raise MfgsError(f"{call[0]} is another program than mfgs: its output is no JSON: install the package again") from wrong
