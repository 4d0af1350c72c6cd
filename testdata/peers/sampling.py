"""The fused ResNet-50 against other ways to such probabilities: an ensemble of five networks, and
Monte Carlo over logits drawn from the Gaussian that the fused model integrates in closed form.
"""

import numpy as np
import onnxruntime
import torch

from common import THREADS, alternate, arguments, record, side

args = arguments(__doc__)
sizes = args.sizes
MEMBERS = 5
torch.set_num_threads(THREADS)


def session(name):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    return onnxruntime.InferenceSession(str(args.work / name), options, providers=["CPUExecutionProvider"])


fused = session("resnet50-fused.onnx")
members = [session("resnet50-1000.onnx") for _ in range(MEMBERS)]
images = np.load(args.work / "train.npy", mmap_mode="r")


def softmax(logits):
    return torch.softmax(torch.from_numpy(logits), 1)


for order, batch in enumerate((sizes.batch, 1)):
    x = {"images": np.ascontiguousarray(images[-batch:])}
    deviations = torch.rand(batch, 1000)

    def ensemble():
        return sum(softmax(m.run(None, x)[0]) for m in members) / MEMBERS

    def monte_carlo():
        logits = torch.from_numpy(members[0].run(None, x)[0])
        return torch.softmax(logits + deviations * torch.randn(sizes.samples, batch, 1000), 2).mean(0)

    times = alternate(max(3, sizes.runs // 3), lambda: fused.run(None, x), ensemble, monte_carlo)
    ours, five, sampled = ([1e3 * t for t in side_times] for side_times in times)
    record(args, f"sampling-{batch}", "sampling", f"ResNet-50, batch {batch}", "ms",
           [side("fused", ours), side(f"ensemble of {MEMBERS}", five), side(f"{sizes.samples} samples", sampled)],
           [(1, 0, "", 0), (2, 0, "", 0)], order=order,
           notes=["Sampling gets the variances at no cost and draws each logit independently."])
