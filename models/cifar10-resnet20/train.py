#!/usr/bin/env python3
"""Trains the ResNet-20 of the paper's CIFAR-10 experiments and exports it to ONNX.

ResNet-20 with the parameter-free shortcuts of He et al. (2015, section 4.2) on
45,000 of the 50,000 training images: of each class the first 4,500 files by name; the
last 500 are for validation. Crops of 32 from images padded by 4, and flips. SGD with
Nesterov momentum 0.9 and weight decay 5e-4 on batches of 128, 32 epochs by default:
the rate rises to 0.2 in three epochs and falls to zero along a cosine. That network
is exported. Eight more epochs at a constant rate of 0.02 follow, after each of which
the last layer is written: the trajectory for SWAG (Maddox et al., 2019).

    OMP_NUM_THREADS=2 python3 train.py --data DIR --seed 0 --out model.onnx \\
        [--epochs N] [--device cuda] [--checkpoints DIR]

DIR holds train/<class>/*.jpg and test/<class>/*.jpg. Convolutions run in bfloat16
if the processor supports it, which reduces the time to minutes; the exported network
and the figures are float32. With a GPU everything but export and figures runs there,
with other random numbers than on a CPU.
"""

import argparse
import copy
import json
import os
import sys
import time

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import training  # noqa: E402 (found through the line above)

WARMUP, RATE = 3, 0.2
TRAJECTORY, TRAJECTORY_RATE = 8, 0.02
BATCH, DECAY = 128, 5e-4
VALIDATION = 500  # of each class, the last ones
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def read(folder):
    """Returns uint8 images [N,3,32,32] and labels [N], classes and files in order."""
    images, labels = [], []
    for label, name in enumerate(sorted(os.listdir(folder))):
        for file in sorted(os.listdir(os.path.join(folder, name))):
            with Image.open(os.path.join(folder, name, file)) as image:
                images.append(np.asarray(image.convert("RGB")))
            labels.append(label)
    x = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()
    return x, torch.tensor(labels)


def split(y):
    """Returns the positions of the training and of the validation images."""
    positions = [torch.nonzero(y == c).flatten() for c in range(10)]
    return (
        torch.cat([p[:-VALIDATION] for p in positions]),
        torch.cat([p[-VALIDATION:] for p in positions]),
    )


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.stride, self.more = stride, outputs - inputs
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.more:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return F.relu(x + y)


class ResNet20(nn.Module):
    """Input [N,3,32,32] in 0..1, which it normalises itself."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1))
        layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
        for inputs, outputs, stride in [(16, 16, 1), (16, 32, 2), (32, 64, 2)]:
            layers.append(Block(inputs, outputs, stride))
            layers += [Block(outputs, outputs, 1) for _ in range(2)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(64, 10)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, x):
        x = self.body((x - self.mean) / self.std)
        return self.head(x.mean(dim=(2, 3)))


def augment(x, generator):
    """Random crops of 32 from a border of 4, and flips, of a batch in 0..1."""
    n, device = len(x), x.device
    x = F.pad(x, (4, 4, 4, 4))
    at = torch.randint(0, 9, (2, n), generator=generator, device=device)
    flip = torch.rand(n, generator=generator, device=device) < 0.5
    rows = at[0].view(n, 1) + torch.arange(32, device=device)
    columns = at[1].view(n, 1) + torch.arange(32, device=device)
    columns = torch.where(flip.view(n, 1), columns.flip(1), columns)
    which = torch.arange(n, device=device)
    return x[which.view(n, 1, 1), :, rows.view(n, 32, 1), columns.view(n, 1, 32)].permute(0, 3, 1, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with train and test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=32)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--out", required=True, help="ONNX file to write")
    parser.add_argument("--checkpoints", help="folder for the last layers of the trajectory")
    args = parser.parse_args()

    x, y = read(os.path.join(args.data, "train"))
    train, validation = split(y)
    images, labels = x[train].to(args.device), y[train].to(args.device)
    torch.manual_seed(args.seed)
    generator = torch.Generator(args.device).manual_seed(args.seed)
    net = ResNet20().to(args.device, memory_format=torch.channels_last)
    on_gpu = args.device == "cuda"
    # The kernels of such a small network take less time than their launches.
    run = torch.compile(net, mode="reduce-overhead", dynamic=False) if on_gpu else net
    matrices = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() <= 1]
    optimizer = torch.optim.SGD(
        [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0}],
        lr=RATE,
        momentum=0.9,
        nesterov=True,
        fused=on_gpu,
    )
    steps = -(-len(train) // BATCH)
    start = time.monotonic()

    def epoch(number, rate):
        net.train()
        total = torch.zeros((), dtype=torch.float64, device=args.device)
        order = torch.randperm(len(train), generator=generator, device=args.device)
        for step, part in enumerate(order.split(BATCH)):
            for group in optimizer.param_groups:
                group["lr"] = rate(step)
            batch = augment(images[part].float() / 255, generator)
            with torch.autocast(args.device, torch.bfloat16):
                logits = run(batch.contiguous(memory_format=torch.channels_last))
            loss = F.cross_entropy(logits.float(), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach().double() * len(part)
        print(
            f"epoch {number:3d}  running NLL {total.item() / len(train):.4f}  "
            f"{time.monotonic() - start:.0f} s",
            flush=True,
        )

    def schedule(number):
        def rate(step):
            at = number - 1 + step / steps
            if at < WARMUP:
                return RATE * (at + 1 / steps) / WARMUP
            return RATE * 0.5 * (1 + np.cos(np.pi * (at - WARMUP) / (args.epochs - WARMUP)))

        return rate

    for number in range(1, args.epochs + 1):
        epoch(number, schedule(number))

    trained = copy.deepcopy(net).to("cpu", memory_format=torch.contiguous_format).eval()
    training.export(trained, torch.zeros(1, 3, 32, 32), args.out)

    if args.checkpoints:
        os.makedirs(args.checkpoints, exist_ok=True)
        for number in range(1, TRAJECTORY + 1):
            epoch(args.epochs + number, lambda _: TRAJECTORY_RATE)
            path = os.path.join(args.checkpoints, f"epoch{args.epochs + number}.onnx")
            training.export_head(copy.deepcopy(net.head).cpu(), path)

    torch.backends.cudnn.allow_tf32 = False
    trained.to(args.device)
    test = read(os.path.join(args.data, "test"))
    parts = {"train": (x[train], y[train]), "val": (x[validation], y[validation]), "test": test}
    results = {p: training.figures(trained, *(t.to(args.device) for t in d)) for p, d in parts.items()}
    print(json.dumps({"seed": args.seed} | results), flush=True)


if __name__ == "__main__":
    main()
