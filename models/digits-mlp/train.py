#!/usr/bin/env python3
"""Trains the small digits network of this folder and exports it to ONNX.

64-128-10, ReLU, Adam at 1e-3 with the rate times 0.998 after every epoch,
batches of 20, 300 epochs, no weight decay, no augmentation, on the first 1,200
of the 1,797 digits beside this script; pixels are x/255. The weights exported
are those after the last epoch, and the figures printed at the end are only
printed.

    OMP_NUM_THREADS=1 python3 train.py

A few seconds on one core.
"""

import json
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import training  # noqa: E402 (found through the line above)

SEED = 0
PARTS = {"train": slice(0, 1200), "val": slice(1200, 1500), "test": slice(1500, 1797)}


def main():
    x, y = training.load(
        os.path.join(HERE, "digits-images-idx3-ubyte.gz"),
        os.path.join(HERE, "digits-labels-idx1-ubyte.gz"),
    )
    train = PARTS["train"]
    torch.manual_seed(SEED)
    net = training.mlp(64, 128, 10)
    training.fit(net, x[train], y[train], SEED, epochs=300, batch=20, rate=1e-3, decay=0.998)
    training.export(net, x[:1], os.path.join(HERE, "model.onnx"))
    print(json.dumps({p: training.figures(net, x[s], y[s]) for p, s in PARTS.items()}))


if __name__ == "__main__":
    main()
