"""Shared by the export scripts: cases, the loop that runs them, and the notes for check.py.

A case creates one folder, WORK/ID, with model.onnx (and its external data) and meta.json. Each case
runs in its own process, forked after the libraries are loaded, so that crashes and memory are contained. A folder
gets its name only when it is complete, so an interrupted run continues where it was.
"""

import argparse
import json
import os
import re
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional


@dataclass
class Case:
    """One model to export.

    build writes model.onnx into a folder and returns the notes for meta.json: see notes below. fallback is tried if this
    case's exporter fails.
    """

    id: str
    build: Callable[[Path], dict]
    fallback: Optional["Case"] = None


def notes(source, features, classes, inputs, link="softmax", refuse="", outputs="logits", **more):
    """What is known about a model without mfgs.

    source    the library and exporter, a cell of the table
    features  list of the right feature counts: one, except for networks with two classifiers
    classes   logits of the classifier
    link      softmax, sigmoid (one logit), multilabel, sigmoids (of one label's classes) or normalised sigmoids
    outputs   kind of the model's outputs: logits, shifted logits (up to a common constant), probabilities, log
              probabilities, negative log probabilities, or class; in more, smoothing and scale are transformations of probabilities
    refuse    why refusing it is right; empty if it must be wrapped
    linear    in more: true if a model to be refused is linear nevertheless
    fix       in more: the inputs that are no data, and their values, as for --fix
    steps     in more: of a model that answers for each step of an example, the axis of the classes in its output, [N,T,K]
              or [N,K,H,W]; None if it has none, for one logit or the class
    merged    in more: true if the first axis of the output is that of the steps of all examples
    together  in more: true if the numbers of an example depend on the other examples of its batch
    exporter  in more: what the exported file computes otherwise than its library
    names     in more: the classes, as the library names them
    inputs    list of image(), tokens(), … below
    """
    return dict(source=source, features=features, classes=classes, link=link, outputs=outputs,
                refuse=refuse, inputs=inputs, **more)


def given(file):
    """Examples from the case itself: the arrays of an .npz beside the model, and labels if known."""
    return [dict(kind="given", file=file)]


def image(name, shape, low=-2.0, high=2.0, dtype="float32", channels_last=False):
    """An input of smooth random images; shape is per example."""
    return dict(name=name, kind="image", shape=list(shape), low=low, high=high, dtype=dtype,
                channels_last=channels_last)


def numbers(name, shape, low=-2.0, high=2.0, dtype="float32"):
    """An input of independent uniform numbers; shape is per example."""
    return dict(name=name, kind="numbers", shape=list(shape), low=low, high=high, dtype=dtype)


def tokens(name, length, vocabulary, pad=None, dtype="int64", low=3):
    """Token numbers from low on, padded with pad after an example's length unless that is None."""
    return dict(name=name, kind="tokens", shape=[length], low=low, high=vocabulary - 1, pad=pad, dtype=dtype)


def mask(name, length, ragged=True, dtype="int64"):
    """Ones, and zeros after an example's length if ragged."""
    return dict(name=name, kind="mask", shape=[length], ragged=ragged, dtype=dtype)


def arguments(description):
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--work", type=Path, default=Path(__file__).parent / "work", help="folder of the exported models")
    p.add_argument("--only", default="", help="regular expression: export only cases whose id it matches")
    p.add_argument("--retry", action="store_true", help="try again what could not be exported")
    p.add_argument("--timeout", type=int, default=900, help="seconds of processor time for one case")
    p.add_argument("--list", action="store_true", help="print the ids and stop")
    return p.parse_args()


def run(cases, args, versions):
    """Exports all cases that do not exist yet. versions goes into each meta.json."""
    ids = [c.id for c in cases]
    assert len(set(ids)) == len(ids), "two cases of one id"
    cases = [c for c in cases if re.search(args.only, c.id)]
    if args.list:
        print("\n".join(c.id for c in cases))
        return
    for n, case in enumerate(cases, 1):
        while case is not None:
            done = attempt(case, args, versions)
            print(f"[{n}/{len(cases)}] {case.id}: {done}", flush=True)
            case = case.fallback if done.startswith("failed") else None
            if case and not re.search(args.only, case.id):
                break


def attempt(case, args, versions):
    folder = args.work / case.id
    failed = args.work / "failed" / (case.id.replace("/", "__") + ".json")
    if (folder / "meta.json").exists():
        return "there"
    if failed.exists() and not args.retry:
        return "failed before"
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    partial.mkdir(parents=True)
    start = time.time()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        build(case, partial, versions)
    error = wait(pid, args.timeout)
    if error is None and (partial / "error").exists():
        error = (partial / "error").read_text()
    if error is None and not (partial / "meta.json").exists():
        error = "no model came out"
    if error is not None:
        shutil.rmtree(partial, ignore_errors=True)
        failed.parent.mkdir(parents=True, exist_ok=True)
        failed.write_text(json.dumps(dict(id=case.id, error=error, versions=versions)))
        return "failed: " + error[:200]
    failed.unlink(missing_ok=True)
    partial.rename(folder)
    return f"{time.time() - start:.0f} s"


def build(case, partial, versions):
    """The forked child: never returns."""
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        start = time.time()
        meta = case.build(partial)
        meta.update(id=case.id, seconds=round(time.time() - start, 1), versions=versions,
                    bytes=sum(f.stat().st_size for f in partial.rglob("*") if f.is_file()))
        (partial / "meta.json").write_text(json.dumps(meta, indent=1))
    except BaseException as e:
        # The exporters wrap the cause in pages of graph: the innermost first line says it.
        while e.__cause__ is not None:
            e = e.__cause__
        (partial / "error").write_text(f"{type(e).__name__}: {(str(e).strip() or 'no message').splitlines()[0][:300]}")
    os._exit(0)


def wait(pid, timeout):
    """None if the child ended by itself, else why it was ended. The limit is on CPU time, so that a busy
    machine causes no failures."""
    tick = os.sysconf("SC_CLK_TCK")
    while True:
        gone, status = os.waitpid(pid, os.WNOHANG)
        if gone:
            return f"killed by signal {status & 127}" if status & 127 else None
        # proc(5): utime and stime are fields 14 and 15, and the name in field 2 may hold spaces.
        spent = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) / tick
        if spent > timeout:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return f"took more than {timeout} s"
        time.sleep(0.2)
