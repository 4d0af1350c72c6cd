"""Shared by the training scripts of the models.

Everything runs on the CPU in float32 with the whole data set in memory. The weights
exported are always those after the last epoch.
"""

import copy
import gzip
import inspect
import os
import struct
import time

import numpy as np
import onnx
import torch
from torch import nn

OPSET = 14  # the default of torch 1.13, fixed against upgrades

# From PyTorch 2.9 on, the exporter without further dependencies must be requested.
LEGACY = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}

# Adam's epsilon. With PyTorch's 1e-8, training is unstable once a network interpolates
# and its gradients have vanished, so that the last epoch may be bad (mnist-mlp/README.md
# has an example). With 1e-7, the default of Keras, it settles.
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


def mnist(folder):
    """Returns the images and labels of MNIST's parts: train, val and test.

    The folder holds its four files. As in the paper, the last 5,000 of the 60,000
    training examples are for validation.
    """

    def part(name):
        return load(
            os.path.join(folder, f"{name}-images-idx3-ubyte.gz"),
            os.path.join(folder, f"{name}-labels-idx1-ubyte.gz"),
        )

    x, y = part("train")
    return {"train": (x[:55_000], y[:55_000]), "val": (x[55_000:], y[55_000:]), "test": part("t10k")}


def mlp(*widths, dense=nn.Linear, behind=()):
    """A ReLU network of these widths, from pixels to classes.

    It flattens its input itself, so that tools recognise it as an image. The layers
    in behind follow each ReLU.
    """
    layers = [nn.Flatten(), dense(*widths[:2])]
    for i, o in zip(widths[1:], widths[2:]):
        layers += [nn.ReLU(), *(copy.deepcopy(layer) for layer in behind), dense(i, o)]
    return nn.Sequential(*layers)


def cross_entropy(logits, labels, epochs):
    return nn.functional.cross_entropy(logits, labels)


def fit(net, x, y, seed, epochs, batch, rate, decay, loss=cross_entropy, after=None, fused=False):
    """Trains with Adam; the learning rate is multiplied by decay after each epoch.

    The loss is a function of outputs, labels and the number of epochs so far;
    after(epoch) is called after each. Fused steps are faster, and round differently.
    """
    net.train()
    shuffle = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=rate, eps=EPSILON, fused=fused)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, decay)
    start = time.monotonic()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for step, part in enumerate(torch.randperm(len(x), generator=shuffle).split(batch)):
            value = loss(net(x[part]), y[part], epoch - 1 + step * batch / len(x))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            total += value.item() * len(part)
        schedule.step()
        print(
            f"epoch {epoch:3d}  running loss {total / len(x):.3e}  "
            f"{time.monotonic() - start:.0f} s",
            flush=True,
        )
        if after:
            after(epoch)


def pixels(x):
    """Converts images to 0..1 if they are bytes."""
    return x.float() / 255 if x.dtype == torch.uint8 else x


def figures(net, x, y):
    """Error, NLL in nats and ECE (l1, 10 bins (l, u]) of the plain softmax."""
    net.eval()
    with torch.no_grad():
        logits = torch.cat([net(pixels(part)) for part in x.split(1000)])
        log_p = torch.log_softmax(logits.double(), dim=1)
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


def export(net, example, path, name="image", mode=torch.onnx.TrainingMode.EVAL):
    """Writes an ONNX file with one input and the output logits, both for any N."""
    net.train(mode == torch.onnx.TrainingMode.TRAINING)
    torch.onnx.export(
        net,
        torch.zeros_like(example),
        path,
        training=mode,
        do_constant_folding=mode == torch.onnx.TrainingMode.EVAL,
        opset_version=OPSET,
        input_names=[name],
        output_names=["logits"],
        dynamic_axes={name: {0: "N"}, "logits": {0: "N"}},
        **LEGACY,
    )
    onnx.checker.check_model(onnx.load(path))


def export_head(linear, path):
    """Writes only the last layer: input features [N,d], output logits [N,K].

    The file is a classifier of features of a few kilobytes, which is all that SWAG
    needs of a checkpoint.
    """
    head = nn.Sequential(copy.deepcopy(linear))
    export(head, torch.zeros(1, linear.in_features), path, name="features")
