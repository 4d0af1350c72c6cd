"""Shared by the scripts here: arguments, measuring processes, and recording measurements. It imports nothing
large, to cost the measured processes nothing.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
THREADS = os.cpu_count()
PACKAGES = ("torch", "torchvision", "laplace-torch", "curvlinops-for-pytorch", "backpack-for-pytorch", "asdfghjkl",
            "onnx", "onnxruntime", "numpy")
# Memory limit of a process. A measurement that needs more counts as out of memory.
MEMORY = 16 << 30


# The networks that are measured fused, with their classes, and the forms that are exported of each.
FUSED = {"resnet50": 1000, "mobilenet_v2": 1000, "mlp": 10}
FORMS = {"fused": (), "float32": ("--precision", "float32"), "probabilities": ("--outputs", "probabilities")}


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measurements. `FULL` is for the table; `QUICK` tests all scripts in a few minutes."""

    image: int  # pixels per side
    batch: int  # default batch of images
    runs: int  # alternating runs of a latency
    train: int  # images for the throughput of calibration
    val: int  # validation images for it
    few_train: int  # images for the comparison with laplace-torch
    few_val: int
    features: int  # precomputed features to fit
    rounds: int  # alternating processes, for slow ones
    samples: int  # Monte Carlo samples of the logits
    classes: tuple  # for the comparison with laplace-torch


FULL = Sizes(224, 16, 21, 768, 128, 384, 128, 2048, 3, 500, (10, 100, 1000))
QUICK = Sizes(64, 4, 3, 32, 16, 32, 16, 64, 1, 50, (10, 100))


def arguments(doc, more=lambda parser: None):
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--work", type=Path, default=HERE / "work", help="where models, data and results go")
    parser.add_argument("--mfgs", default=None, help="the program [WORK/mfgs]")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, measures nothing")
    more(parser)
    args = parser.parse_args()
    args.sizes = QUICK if args.quick else FULL
    args.work = args.work.resolve()
    args.mfgs = args.mfgs or str(args.work / "mfgs")
    args.harness = str(args.work / "harness")
    return args


def environment():
    """The environment of measured processes: both sides run the same ONNX Runtime."""
    library, = (Path(find_spec("onnxruntime").origin).parent / "capi").glob("libonnxruntime.so.*")
    return os.environ | {"ONNXRUNTIME_SHARED_LIBRARY_PATH": str(library)}


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, file=sys.stderr, flush=True)


def peak():
    """The peak resident memory of this process, MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


@dataclass
class Process:
    seconds: float  # wall time
    peak: float  # MiB resident
    out: dict  # the JSON document printed
    error: str = ""  # stderr of a failed process; out is then empty


def process(command, limited=False):
    """Runs a command in a process of its own, which prints one JSON document.

    Its peak is the kernel's VmHWM, read until the end and from the document if that tells it.
    """
    command = [str(c) for c in command]

    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
                             preexec_fn=limit if limited else None)
    high = [0]

    def watch():
        while child.poll() is None:
            try:
                status = Path(f"/proc/{child.pid}/status").read_text()
            except OSError:
                return
            for line in status.splitlines():
                if line.startswith("VmHWM:"):
                    high[0] = max(high[0], int(line.split()[1]))
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = child.communicate()
    seconds = time.perf_counter() - start
    watcher.join()
    if child.returncode:
        lines = [line for line in err.splitlines() if line.strip()] or [f"exit status {child.returncode}"]
        ours = [line.removeprefix("mfgs: ") for line in lines if line.startswith("mfgs: ")]
        return Process(seconds, high[0] / 1024, {}, (ours or lines[-1:])[0])
    document = json.loads(out)
    return Process(seconds, max(high[0] / 1024, document.get("peak_mib", 0)), document)


def must(done):
    """The process, if it succeeded."""
    if done.error:
        sys.exit(f"a measured process failed: {done.error}")
    return done


def alternate(runs, *sides, pause=0.005):
    """Alternates between functions, reversing the order every second time, for `runs` calls each after one
    untimed call. Returns the seconds of each. In the pause idle threads of the other side end their spinning."""
    for f in sides:
        f()
    seconds = [[] for _ in sides]
    for r in range(runs):
        order = range(len(sides)) if r % 2 == 0 else reversed(range(len(sides)))
        for i in order:
            if pause:
                time.sleep(pause)
            start = time.perf_counter()
            sides[i]()
            seconds[i].append(time.perf_counter() - start)
    return seconds


def side(who, values, error="", note=""):
    """One side of a comparison. `values` are the measurements, empty if it failed."""
    return {"who": who, "values": list(values), "error": error, "note": note}


def value(s):
    return median(s["values"]) if s["values"] else None


def record(args, name, section, title, unit, sides, bounds=(), notes=(), order=0):
    """Notes one measurement in WORK/results.

    `bounds` are (numerator, denominator, "at most" | "at least" | "", limit) over indices of `sides`.
    A ratio whose sides did not both come to an end is noted without a value.
    """
    ratios = []
    for over, under, kind, limit in bounds:
        a, b = value(sides[over]), value(sides[under])
        ratio = a / b if a is not None and b is not None else None
        holds = None
        if ratio is not None and kind:
            holds = ratio <= limit if kind == "at most" else ratio >= limit
        ratios.append({"of": sides[over]["who"], "to": sides[under]["who"], "value": ratio, "kind": kind, "limit": limit, "holds": holds})
    folder = args.work / "results"
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "name": name, "section": section, "title": title, "unit": unit, "order": order,
        "sides": sides, "ratios": ratios, "notes": list(notes), "quick": args.quick,
        "command": " ".join([Path(sys.argv[0]).name, *command_words()]), "machine": machine(), "versions": versions(args),
    }
    (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    say(name, ", ".join(f"{s['who']}: {show(value(s))} {unit}" if s["values"] else f"{s['who']}: {s['error']}" for s in sides),
        "".join(f"; {r['of']} / {r['to']} = {show(r['value'])}{verdict(r)}" for r in ratios))


def command_words():
    """The arguments of this script, without paths of this machine."""
    words, skip = [], False
    for word in sys.argv[1:]:
        if skip:
            skip = False
        elif word in ("--work", "--mfgs"):
            skip = True
        else:
            words.append(word)
    return words


def show(x):
    return "–" if x is None else f"{x:.4g}"


def verdict(r):
    return {None: "", True: f" ({r['kind']} {r['limit']:.3g}: holds)", False: f" ({r['kind']} {r['limit']:.3g}: MISSED)"}[r["holds"]]


def machine():
    info = {"cpu": platform.processor(), "cores": THREADS, "system": f"{platform.system()} {platform.machine()}"}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            info["cpu"] = line.split(":", 1)[1].strip()
            break
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal"):
            info["memory_gib"] = round(int(line.split()[1]) / (1 << 20))
    return info


def versions(args):
    found = {p: version(p) for p in PACKAGES}
    found["Python"] = platform.python_version()
    found["Go"] = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, cwd=ROOT).stdout.strip().removeprefix("go")
    found["mfgs"] = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    return found
