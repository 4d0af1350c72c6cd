"""Images per second of `mfgs calibrate` while it reads the training set, against a loop in Python that only runs the plain
ResNet-50 on the same batches.
"""

import json
import shutil
import sys
import time

import numpy as np

from common import THREADS, arguments, must, peak, process, record, side

args = arguments(__doc__, lambda p: p.add_argument("--plain", action="store_true", help="the loop alone, in this process"))
sizes = args.sizes
model, data = args.work / "resnet50-1000.onnx", args.work / "train.npy"

if args.plain:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    x = np.load(data, mmap_mode="r")
    session.run(None, {"images": x[:sizes.batch]})
    start = time.perf_counter()
    for i in range(0, len(x), sizes.batch):
        session.run(None, {"images": x[i:i + sizes.batch]})
    json.dump({"seconds": time.perf_counter() - start, "peak_mib": peak()}, sys.stdout)
    sys.exit()

plain, ours, wholes = [], [], []
out = args.work / "throughput.mfgs"
for r in range(sizes.rounds):
    def one_plain():
        command = [sys.executable, "-W", "ignore", sys.argv[0], "--plain", "--work", args.work] + (["--quick"] if args.quick else [])
        plain.append(must(process(command)))

    def one_ours():
        shutil.rmtree(out, ignore_errors=True)
        ours.append(must(process([args.mfgs, "calibrate", "--model", model, "--train", data, "--val", args.work / "val.npz",
                                  "--structure", "kron", "--damping", "1", "--batch", sizes.batch,
                                  "--no-model", "--json", "--out", out])))
    for f in (one_plain, one_ours) if r % 2 == 0 else (one_ours, one_plain):
        f()
shutil.rmtree(out, ignore_errors=True)
stages = {s: t for s, t in ours[-1].out["seconds"].items() if t >= 0.005}
record(args, "throughput", "calibration", f"ResNet-50, {sizes.train} images by {sizes.batch}", "images/s",
       [side("mfgs calibrate", [sizes.train / p.out["seconds"]["train"] for p in ours], note="the stage train"),
        side("plain", [sizes.train / p.out["seconds"] for p in plain])],
       [(0, 1, "at least", 0.97)],
       notes=["seconds of the last run of `mfgs calibrate` by stage (curvature is part of train): " + ", ".join(f"{s} {t:.3g}" for s, t in stages.items())])
record(args, "throughput-memory", "calibration", "peak memory", "MiB",
       [side("mfgs calibrate", [p.peak for p in ours], note="including eigenvectors and tuning"), side("plain", [p.peak for p in plain])], [(0, 1, "", 0)], order=1)
