"""mfgs against laplace-torch's last-layer Laplace: the same networks, data, structure and damping (a
prior precision of 1), each on all cores.

Each measurement is its own process, and the two sides alternate. laplace-torch only fits the posterior at a fixed
prior. mfgs also tunes two temperatures on validation data, which is counted if the title says so.
"""

import shutil
import sys
from dataclasses import dataclass, replace
from functools import cache

from common import HERE, arguments, must, process, record, side, value

BACKENDS = ("curvlinops", "backpack", "asdl")


@dataclass(frozen=True)
class Case:
    """One comparison. laplace-torch stores K × K·D numbers per example several times, so that its batches
    are small, and slow cases are measured on few examples."""

    classes: int
    structure: str
    width: int  # features
    fit: int  # precomputed features to fit
    batch: int  # of them, at a time
    predict: int  # examples for laplace-torch to predict
    predict_batch: int
    rounds: bool  # else one run of each is enough

    @property
    def name(self):
        return f"{self.classes}-{self.structure}"

    @property
    def title(self):
        return f"K = {self.classes}, d = {self.width}, {self.structure}"

    @property
    def network(self):
        return "resnet18" if self.width == 512 else f"resnet18-{self.width}"


CASES = [
    Case(10, "kron", 512, 2048, 256, 256, 64, True),
    Case(10, "full", 512, 2048, 64, 256, 256, False),
    Case(100, "kron", 512, 2048, 256, 32, 8, True),
    Case(100, "full", 64, 512, 64, 64, 64, False),
    Case(1000, "kron", 512, 512, 32, 1, 1, False),
    Case(1000, "full", 512, 512, 32, 1, 1, False),
]

args = arguments(__doc__, lambda p: p.add_argument("--only", help="one of the cases, such as 10-kron"))
sizes = args.sizes
PYTHON = [sys.executable, "-W", "ignore"]


def laplace(case, *more, backend=None, sampled=False, runs=1):
    backend = backend or fastest(case)
    # Samples of the weights serve a whole batch.
    n, batch = (256, 256) if sampled else (case.predict, case.predict_batch)
    if args.quick:
        n = min(n, 8)
    command = [*PYTHON, HERE / "peer_laplace.py", "--structure", case.structure, "--backend", backend,
               "--predict", n, "--predict-batch", min(n, batch), "--runs", runs, *more]
    return process(command + (["--sampled"] if sampled else []), limited=True)


def values(done, key):
    """The runs of one kind, without the first (warm-up) unless it is the only one."""
    all_of_them = done.out.get(key, [])
    return all_of_them[1:] if len(all_of_them) > 1 else all_of_them


def trouble(*done):
    return next((d.error or d.out.get("error", "") for d in done if d.error or d.out.get("error")), "")


def flat(lists):
    return [v for values in lists for v in values]


def compare(case, prefix, section, what, ours, theirs, key, unit, bound, order, scale=1, extra=(), notes=()):
    """Records `key` of all processes of both sides; `extra` are further sides, compared without a bound."""
    sides = [side("mfgs", [scale * v for v in ours]),
             side("laplace-torch", [scale * v for v in flat(values(d, key) for d in theirs)], error=trouble(*theirs))]
    if sides[1]["values"]:
        sides[1]["error"] = ""
    record(args, f"{prefix}-{key}-{case.name}", section, f"{case.title}: {what}", unit, [*sides, *extra],
           [(1, 0, "at least", bound), *((1, 2 + i, "", 0) for i in range(len(extra)) if extra[i]["who"].startswith("mfgs"))],
           order=order, notes=notes)


def memory(case, prefix, section, ours, theirs, order):
    """Compares the peak memory, also of a process that ran out of memory."""
    error = trouble(*theirs)
    record(args, f"{prefix}-memory-{case.name}", section, f"{case.title}: peak memory", "MiB",
           [side("mfgs", ours), side("laplace-torch", [] if error else [d.peak for d in theirs], error=error,
                                     note=f"{theirs[0].out.get('idle_mib', 0):.0f} MiB after loading its libraries")],
           [(0, 1, "at most", 1 / 3)], order=order)


def refused(case, done, prefix, section, order):
    """Records that neither side can, with the error of each."""
    record(args, f"{prefix}-{case.name}", section, f"{case.title}", "s",
           [side("mfgs", [], error=done.error), side("laplace-torch", [], error=trouble(laplace_cached(case, 1)))], order=order)


def laplace_cached(case, runs, **more):
    data = args.work / f"features-{case.classes}-{case.width}"
    return laplace(case, "--features", f"{data}-train.npz", "--test", f"{data}-val.npz", "--limit", min(case.fit, sizes.features),
                   "--batch", case.batch, runs=runs, **more)


def cached(case, order):
    section, prefix = "cached", "cached"
    data = args.work / f"features-{case.classes}-{case.width}"
    n = min(case.fit, sizes.features)
    train, val = f"{data}-train.npz[0:{n}]", f"{data}-val.npz"
    bundle = args.work / f"cached-{case.name}.mfgs"
    fits, commands, predicts, theirs = [], [], [], []
    for r in range(sizes.rounds if case.rounds else 1):
        shutil.rmtree(bundle, ignore_errors=True)
        command = process([args.mfgs, "calibrate", "--train-features", train, "--val-features", val, "--structure", case.structure,
                           "--damping", "1", "--json", "--out", bundle])
        if command.error:
            return refused(case, command, prefix, section, order)
        commands.append(command)
        fits.append(must(process([args.harness, "fit", "-data", train, "-structure", case.structure, "-runs", 3])))
        predicts.append(must(process([args.harness, "predict-features", "-bundle", bundle, "-data", val, "-batch", 256, "-runs", 3])))
        theirs.append(laplace_cached(case, 3 if case.rounds else 1))
    shutil.rmtree(bundle)
    compare(case, prefix, section, f"fit {n} examples", flat(d.out["fit"] for d in fits), theirs, "fit", "s", 3, order,
            extra=[side("mfgs calibrate, the whole command", [d.seconds for d in commands], note="including start, reading, tuning and writing")])
    sampled = laplace_cached(case, 3 if case.rounds else 1, sampled=True)
    compare(case, prefix, section, "predict an example", flat(d.out["predict"] for d in predicts), theirs, "predict", "ms", 10, order + 1, scale=1e3,
            extra=[side("laplace-torch, 100 samples of the weights", [1e3 * v for v in values(sampled, "predict")], error=trouble(sampled), note="batches of 256, no variances")])
    peaks = [max(a.peak, b.peak, c.peak) for a, b, c in zip(fits, predicts, commands)]
    memory(case, prefix, section, peaks, theirs, order + 2)


def whole(case, order):
    section, prefix = "whole", "whole"
    model, state = (args.work / f"{case.network}-{case.classes}.{kind}" for kind in ("onnx", "pt"))
    images = args.work / "train.npy"
    bundle = args.work / f"whole-{case.name}.mfgs"
    commands, predicts, theirs = [], [], []
    for r in range(sizes.rounds if case.rounds else 1):
        shutil.rmtree(bundle, ignore_errors=True)
        commands.append(must(process([args.mfgs, "calibrate", "--model", model, "--train", f"{images}[0:{sizes.few_train}]",
                                      "--val", f"{args.work / 'val.npz'}[0:{sizes.few_val}]", "--structure", case.structure, "--damping", "1",
                                      "--batch", 2 * sizes.batch, "--json", "--out", bundle])))
        predicts.append(must(process([args.harness, "predict", "-bundle", bundle, "-data", f"{images}[0:{sizes.few_val}]",
                                      "-batch", sizes.batch, "-runs", 2])))
        # Predict every image once.
        theirs.append(laplace(replace(case, predict=min(case.predict, sizes.few_val)), "--network", f"{case.network}:{case.classes}:{state}", "--images", images, "--limit", sizes.few_train,
                              "--size", sizes.image, "--test", args.work / "val.npz", "--batch", 2 * sizes.batch, backend=fastest(case)))
    shutil.rmtree(bundle)
    stages = {s: t for s, t in commands[-1].out["seconds"].items() if t >= 0.005}
    compare(case, prefix, section, f"{sizes.few_train} images to posterior", [d.out["seconds"]["total"] for d in commands], theirs, "fit", "s", 1, order,
            notes=[f"mfgs includes tuning on {sizes.few_val} validation images. Seconds of its last run by stage (curvature is part of train): "
                   + ", ".join(f"{s} {t:.3g}" for s, t in stages.items())])
    compare(case, prefix, section, "image to probabilities", flat(d.out["predict"] for d in predicts), theirs, "predict", "ms", 1, order + 1, scale=1e3)
    memory(case, prefix, section, [max(a.peak, b.peak) for a, b in zip(commands, predicts)], theirs, order + 2)


@cache
def fastest(case):
    """The fastest backend of laplace-torch, tried on a few examples. For the full curvature all but the
    slower default share one implementation."""
    if case.structure == "full":
        return "backpack"
    times = {}
    n = 32 if case.classes > 100 else 256
    for b in BACKENDS:
        tried = laplace_cached(replace(case, fit=n, batch=min(case.batch, n // 2), predict=0), 1 if case.classes > 100 else 3, backend=b)
        times[b] = side(f"{b}{', its default' if b == 'curvlinops' else ''}", values(tried, "fit"), error=trouble(tried))
    record(args, f"backends-{case.classes}", "backends", f"{case.title}: fit {min(n, sizes.features)} examples", "s", list(times.values()), order=case.classes)
    return min((b for b in BACKENDS if times[b]["values"]), key=lambda b: value(times[b]))


for i, case in enumerate(CASES):
    if case.classes in sizes.classes and args.only in (None, case.name):
        cached(case, 10 * i)
        if not (case.classes == 1000 and case.structure == "full"):
            whole(case, 10 * i)
