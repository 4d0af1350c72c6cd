"""Images per second of `mfgs calibrate` while it reads the training set, against a loop in Python that only runs the plain
network on the same batches.
"""

import json
import shutil
import sys
import time

import numpy as np

from common import THREADS, arguments, must, peak, process, record, side

NETWORKS = {"resnet50-1000": "ResNet-50", "mobilenet_v2-1000": "MobileNet v2", "resnet18-10": "ResNet-18"}
args = arguments(__doc__, lambda p: p.add_argument("--plain", help="the loop alone over this network, in this process"))
sizes = args.sizes
data = args.work / "train.npy"


def model(name):
    return args.work / f"{name}.onnx"


def plain(name):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(str(model(name)), options, providers=["CPUExecutionProvider"])
    x = np.load(data, mmap_mode="r")
    session.run(None, {"images": x[:sizes.batch]})
    start = time.perf_counter()
    for i in range(0, len(x), sizes.batch):
        session.run(None, {"images": x[i:i + sizes.batch]})
    json.dump({"seconds": time.perf_counter() - start, "peak_mib": peak()}, sys.stdout)


def compare(name, title, order):
    loops, ours = [], []
    out = args.work / "throughput.mfgs"

    def loop():
        command = [sys.executable, "-W", "ignore", sys.argv[0], "--plain", name, "--work", args.work]
        loops.append(must(process(command + (["--quick"] if args.quick else []))))

    def calibrate():
        shutil.rmtree(out, ignore_errors=True)
        ours.append(must(process([args.mfgs, "calibrate", "--model", model(name), "--train", data, "--val", args.work / "val.npz",
                                  "--structure", "kron", "--damping", "1", "--batch", sizes.batch,
                                  "--no-model", "--json", "--out", out])))

    for r in range(sizes.rounds):
        for f in (loop, calibrate) if r % 2 == 0 else (calibrate, loop):
            f()
    shutil.rmtree(out, ignore_errors=True)
    stages = {s: t for s, t in ours[-1].out["seconds"].items() if t >= 0.005}
    record(args, f"throughput-{name}", "calibration", f"{title}, {sizes.train} images by {sizes.batch}", "images/s",
           [side("mfgs calibrate", [sizes.train / p.out["seconds"]["train"] for p in ours], note="the stage train"),
            side("plain", [sizes.train / p.out["seconds"] for p in loops])],
           [(0, 1, "at least", 0.97)], order=order,
           notes=["seconds of the last run of `mfgs calibrate` by stage (curvature is part of train): " + ", ".join(f"{s} {t:.3g}" for s, t in stages.items())])
    record(args, f"throughput-memory-{name}", "calibration", f"{title}, peak memory", "MiB",
           [side("mfgs calibrate", [p.peak for p in ours], note="including eigenvectors and tuning"), side("plain", [p.peak for p in loops])],
           [(0, 1, "", 0)], order=order + 1)


if args.plain:
    plain(args.plain)
else:
    for i, (name, title) in enumerate(NETWORKS.items()):
        compare(name, title, 2 * i)
