"""Fused models against the plain networks: the latency of all forms for single inputs, in Python's ONNX Runtime; and of a
ResNet-50 in Python and in Go, with the peak memory of a dedicated process.
"""

import json
import sys
from statistics import median

import numpy as np
import onnxruntime

from common import FORMS, FUSED, THREADS, alternate, arguments, must, peak, process, record, side

SECTION = "fused"
LIMIT = 1.02
SINGLE = {"resnet50": 1.02, "mobilenet_v2": 1.05}
MEMORY = 1.4
NAMES = {"resnet50": "ResNet-50", "mobilenet_v2": "MobileNet v2", "mlp": "an MLP of two layers"}


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    # Spinning threads would take the cores from the other session.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def images(args, batch):
    """The last training images, which the bundle was not calibrated with."""
    return {"images": np.ascontiguousarray(np.load(args.work / "train.npy", mmap_mode="r")[-batch:])}


def forms(args, name, order, **pause):
    """Single inputs of one network, in all of its forms."""
    data = args.work / ("mlp-train.npy" if name == "mlp" else "train.npy")
    x = {"images": np.ascontiguousarray(np.load(data, mmap_mode="r")[-1:])}
    files = {"plain": f"{name}-{FUSED[name]}", "all outputs": f"{name}-fused", "all, in float32": f"{name}-float32",
             "probabilities alone": f"{name}-probabilities"}
    sessions = [session(args.work / f"{file}.onnx") for file in files.values()]
    runs = {"resnet50": 4, "mobilenet_v2": 20, "mlp": 100}[name] * args.sizes.runs
    times = [[1e3 * t for t in side] for side in alternate(runs, *(lambda s=s: s.run(None, x) for s in sessions), **pause)]
    kind, limit = ("at most", SINGLE[name]) if name in SINGLE else ("", 0)
    more = [f"{form}: {1e3 * (median(t) - median(times[0])):.0f} µs more than the network" for form, t in zip(files, times)]
    record(args, f"fused-single-{name}{'-busy' if pause else ''}", SECTION,
           f"{NAMES[name]}, {'one input after another' if pause else 'a single input'}", "ms",
           [side(form, t) for form, t in zip(files, times)], [(i, 0, kind, limit) for i in range(1, len(files))], order=order,
           notes=["; ".join(more[1:])])


def main():
    args = arguments(__doc__, lambda p: p.add_argument("--only", choices=["plain", "fused"], help="run one model in this process and tell its memory"))
    models = {"plain": args.work / "resnet50-1000.onnx", "fused": args.work / "resnet50-fused.onnx"}
    sizes = args.sizes
    if args.only:
        one, x = session(models[args.only]), images(args, sizes.batch)
        for _ in range(3):
            one.run(None, x)
        json.dump({"peak_mib": peak()}, sys.stdout)
        return

    sessions = {name: session(path) for name, path in models.items()}
    go = [args.harness, "latency", "-model", models["plain"], "-bundle", args.work / "resnet50.mfgs", "-data", args.work / "train.npy"]
    for order, batch in enumerate((sizes.batch, 1)):
        x = images(args, batch)
        runs = (2 if batch > 1 else 8) * sizes.runs + 1
        fused, plain = alternate(runs, *(lambda s=sessions[name]: s.run(None, x) for name in ("fused", "plain")))
        record(args, f"resnet50-python-{batch}", SECTION, f"batch {batch}, Python", "ms",
               [side("fused", [1e3 * t for t in fused]), side("plain", [1e3 * t for t in plain])],
               [(0, 1, "at most", LIMIT)], order=order)
        done = must(process([*go, "-batch", batch, "-runs", runs])).out
        record(args, f"resnet50-go-{batch}", SECTION, f"batch {batch}, Go", "ms",
               [side("Predictor", [1e3 * t for t in done["fused"]]), side("plain", [1e3 * t for t in done["plain"]])],
               [(0, 1, "at most", LIMIT)], order=2 + order,
               notes=["`wrap.Predictor.Predict`, which returns a `Prediction` for each row, against `ort.Session.Run`"])
    del sessions
    for order, name in enumerate(FUSED):
        forms(args, name, 6 + order)
    forms(args, "mlp", 6 + len(FUSED), pause=0)

    quick = ["--quick"] if args.quick else []
    python = {name: [must(process([sys.executable, "-W", "ignore", sys.argv[0], "--only", name, "--work", args.work, *quick])).peak
                     for _ in range(sizes.rounds)] for name in models}
    record(args, "resnet50-memory-python", SECTION, f"peak memory, batch {sizes.batch}, Python", "MiB",
           [side("fused", python["fused"]), side("plain", python["plain"])], [(0, 1, "at most", MEMORY)], order=4)
    library = {name: [must(process([*go, "-batch", sizes.batch, "-runs", 2, "-only", name])).peak
                      for _ in range(sizes.rounds)] for name in models}
    record(args, "resnet50-memory-go", SECTION, f"peak memory, batch {sizes.batch}, Go", "MiB",
           [side("Predictor", library["fused"]), side("plain", library["plain"])], [(0, 1, "at most", MEMORY)], order=5)


main()
