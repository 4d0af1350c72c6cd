#!/usr/bin/env python3
"""Trains the networks of this folder, which the methods of `mfgs-paper compare` take
beside a bundle's own: small ones on the digits of models/digits-mlp.

    OMP_NUM_THREADS=1 python3 make.py

They are trained by ../../models/mnist-methods/train.py, with its pinned versions
(requirements.txt), on the training examples of the digits network:

  seed1.onnx, seed2.onnx   the digits network from other seeds
  dropout.onnx             with dropout, its nodes in the file
  edl.onnx                 evidential, softplus
  vi.onnx                  draws its weights in each run
  trajectory/epochN.onnx   last layers of continued training
"""

import argparse
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "..", "models")
sys.path[:0] = [MODELS, os.path.join(MODELS, "mnist-methods")]
import train  # noqa: E402 (found through the line above)
import training  # noqa: E402

DIGITS = os.path.join(MODELS, "digits-mlp")
EXAMPLES = 1200
train.WIDTHS = 64, 128, 10
train.RECIPE = {"batch": 20, "rate": 1e-3, "decay": 0.998, "fused": True}


def main():
    x, y = training.load(
        os.path.join(DIGITS, "digits-images-idx3-ubyte.gz"),
        os.path.join(DIGITS, "digits-labels-idx1-ubyte.gz"),
    )
    x, y = x[:EXAMPLES], y[:EXAMPLES]

    def make(method, out, **more):
        torch.manual_seed(0)
        args = {"seed": 0, "rate": 0.2, "evidence": "softplus", "prior": 0.1, "epochs": 100} | more
        method(argparse.Namespace(out=os.path.join(HERE, out), **args), x, y)

    for seed in 1, 2:
        torch.manual_seed(seed)
        net = training.mlp(*train.WIDTHS)
        training.fit(net, x, y, seed, 100, **train.RECIPE)
        training.export(net, x[:1], os.path.join(HERE, f"seed{seed}.onnx"))
    make(train.dropout, "dropout.onnx")
    make(train.edl, "edl.onnx")
    make(train.vi, "vi.onnx")
    make(train.swag, "trajectory", start=os.path.join(DIGITS, "model.onnx"), epochs=4)


if __name__ == "__main__":
    main()
