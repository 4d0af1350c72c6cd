"""What the training scripts of the models beside this file have in common.

Everything runs on the CPU in float32 with the whole data set in memory, and the
weights kept are always those after the last epoch.
"""

import gzip
import struct
import time

import numpy as np
import onnx
import torch
from torch import nn

OPSET = 14  # torch 1.13's default, named so that an upgrade does not move it

# Adam's epsilon. With PyTorch's 1e-8 a network that fits its training data is
# thrown off it again and again once its gradients have faded, and the last epoch
# may stand anywhere (mnist-mlp/README.md has an example). 1e-7, the default of
# Keras, lets training settle.
EPSILON = 1e-7


def read_idx(path):
    """Returns a gzipped IDX file of unsigned bytes as an array."""
    with gzip.open(path, "rb") as f:
        data = f.read()
    zero, kind, rank = struct.unpack(">HBB", data[:4])
    if zero != 0 or kind != 0x08:
        raise ValueError(f"{path}: not an IDX file of unsigned bytes")
    shape = struct.unpack(f">{rank}I", data[4 : 4 + 4 * rank])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def load(images, labels):
    """Returns the images [N,1,H,W] in 0..1 and labels [N] of two IDX files."""
    x = torch.from_numpy(read_idx(images).astype(np.float32) / 255).unsqueeze(1)
    return x, torch.from_numpy(read_idx(labels).astype(np.int64))


def mlp(*widths):
    """A ReLU network of these widths, first the pixels, last the classes.

    It flattens its input itself, so that the input keeps the shape of an image
    and tools can tell it for one.
    """
    layers = [nn.Flatten()]
    for i, o in zip(widths, widths[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def fit(net, x, y, seed, epochs, batch, rate, decay):
    """Trains with Adam; the learning rate is multiplied by decay after an epoch."""
    shuffle = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=rate, eps=EPSILON)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, decay)
    start = time.monotonic()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for part in torch.randperm(len(x), generator=shuffle).split(batch):
            loss = nn.functional.cross_entropy(net(x[part]), y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(part)
        schedule.step()
        print(
            f"epoch {epoch:3d}  running NLL {total / len(x):.3e}  "
            f"{time.monotonic() - start:.0f} s",
            flush=True,
        )


def figures(net, x, y):
    """Error, NLL in nats and ECE (l1, 10 bins (l, u]) of the plain softmax."""
    net.eval()
    with torch.no_grad():
        log_p = torch.log_softmax(net(x).double(), dim=1)
    nll = -log_p[torch.arange(len(y)), y].mean().item()
    confidence, predicted = log_p.exp().max(dim=1)
    right = (predicted == y).double()
    bins = torch.clamp(torch.ceil(confidence * 10).long() - 1, 0, 9)
    gaps = [(confidence - right)[bins == b].sum().abs().item() for b in range(10)]
    return {
        "n": len(y),
        "error": 1 - right.mean().item(),
        "nll": nll,
        "ece": sum(gaps) / len(y),
    }


def export(net, example, path):
    """Writes an ONNX file with input image and output logits, both for any N."""
    net.eval()
    torch.onnx.export(
        net,
        torch.zeros_like(example),
        path,
        opset_version=OPSET,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "N"}, "logits": {0: "N"}},
    )
    onnx.checker.check_model(onnx.load(path))
