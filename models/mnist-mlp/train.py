#!/usr/bin/env python3
"""Trains the network of the paper's MNIST experiments and exports it to ONNX.

784-256-256-10, ReLU, Adam at 1e-3 with the rate times 0.998 after every epoch,
batches of 100, 100 epochs, no weight decay, no augmentation, on the first
55,000 of the 60,000 training examples; pixels are x/255. The weights exported
are those after the last epoch, and the figures printed at the end are only
printed.

    OMP_NUM_THREADS=1 python3 train.py --data DIR --seed 0 --out model.onnx

DIR holds the four files of MNIST in IDX format, gzipped. About three minutes on
one core.
"""

import argparse
import json
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import training  # noqa: E402 (found through the line above)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder of MNIST's four files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--out", required=True, help="ONNX file to write")
    args = parser.parse_args()

    parts = training.mnist(args.data)
    torch.manual_seed(args.seed)
    net = training.mlp(784, 256, 256, 10)
    training.fit(net, *parts["train"], args.seed, args.epochs, batch=100, rate=1e-3, decay=0.998)
    training.export(net, parts["train"][0][:1], args.out)
    print(json.dumps({"seed": args.seed} | {p: training.figures(net, *d) for p, d in parts.items()}))


if __name__ == "__main__":
    main()
