#!/usr/bin/env python3
"""Trains the networks that mfgs is compared with on MNIST and exports them to ONNX.

All are 784-256-256-10 networks with ReLU, trained as ../mnist-mlp except for what
the method requires, on the same 55,000 examples. METHOD is one of

  dropout  dropout after each hidden layer (Gal and Ghahramani, 2016), p = --rate.
           The file keeps the Dropout nodes, inactive as usual in ONNX
  edl      evidential deep learning (Sensoy, Kaplan and Kandemir, 2018), evidence =
           --evidence of the logits. The file outputs logits and names the function
  vi       mean-field variational inference over all layers (Blundell et al.,
           2015), prior N(0, --prior^2), its divergence times --weight. The
           file draws its weights in each run
  swag     the trajectory of SWAG (Maddox et al., 2019): 20 more epochs of the
           network --start at a constant rate, after each of which its last layer is
           written to the folder --out

    OMP_NUM_THREADS=1 python3 train.py METHOD --data DIR --seed 0 --out OUT

DIR holds the four files of MNIST in IDX format, gzipped. The weights exported are
those after the last epoch, and the figures printed at the end are only printed.
"""

import argparse
import json
import os
import sys

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import training  # noqa: E402 (found through the line above)

WIDTHS = 784, 256, 256, 10
RECIPE = {"batch": 100, "rate": 1e-3, "decay": 0.998, "fused": True}


def dropout(args, x, y):
    net = training.mlp(*WIDTHS, behind=[nn.Dropout(args.rate)])
    training.fit(net, x, y, args.seed, args.epochs, **RECIPE)
    training.export(net, x[:1], args.out, mode=torch.onnx.TrainingMode.TRAINING)
    switch_off(args.out)
    return net


def switch_off(path):
    """Removes the training-mode input of the Dropout nodes in a file."""
    model = onnx.load(path)
    for node in model.graph.node:
        if node.op_type == "Dropout":
            del node.input[2:]
    read = {name for node in model.graph.node for name in node.input}
    for node in list(model.graph.node):
        if node.op_type == "Constant" and node.output[0] not in read:
            model.graph.node.remove(node)
    onnx.checker.check_model(model)
    onnx.save(model, path)


EVIDENCE = {"relu": F.relu, "softplus": F.softplus, "exp": torch.exp}


class Dirichlet(nn.Module):
    """Turns logits into scores whose softmax is the mean of the Dirichlet."""

    def __init__(self, evidence):
        super().__init__()
        self.evidence = evidence

    def forward(self, logits):
        return torch.log1p(self.evidence(logits))


def edl(args, x, y):
    net, evidence = training.mlp(*WIDTHS), EVIDENCE[args.evidence]
    if args.evidence == "exp":
        net.append(nn.Hardtanh(-10, 10))  # against overflow, as its authors do

    def loss(logits, labels, epochs):
        return evidential(evidence(logits) + 1, labels, min(1.0, epochs / 10))

    training.fit(net, x, y, args.seed, args.epochs, loss=loss, **RECIPE)
    training.export(net, x[:1], args.out)
    model = onnx.load(args.out)
    model.metadata_props.add(key="mfgs.evidence", value=args.evidence)
    onnx.save(model, args.out)
    return nn.Sequential(net, Dirichlet(evidence))


def evidential(alpha, labels, weight):
    """Equation 5 of Sensoy et al. plus weight times their penalty.

    The expected squared error of draws of the Dirichlet alpha is |y - mean|^2 plus
    their variance. The penalty is on evidence for wrong classes: the divergence from
    the uniform Dirichlet after removing the evidence for the label.
    """
    total = alpha.sum(dim=1, keepdim=True)
    target = F.one_hot(labels, alpha.shape[1])
    mean = alpha / total
    risk = ((target - mean) ** 2 + mean * (1 - mean) / (total + 1)).sum(dim=1)
    wrong = target + (1 - target) * alpha
    uniform = torch.distributions.Dirichlet(torch.ones_like(alpha))
    penalty = torch.distributions.kl_divergence(torch.distributions.Dirichlet(wrong), uniform)
    return (risk + weight * penalty).mean()


class Gaussian(nn.Linear):
    """A dense layer with independent Gaussian weights and biases.

    The means are those of nn.Linear; standard deviations are the softplus of a
    parameter. In training each example has its own draw of the layer's outputs
    (local reparametrisation, Kingma, Salimans and Welling, 2015). Otherwise
    all examples of a call share one draw of the weights.
    """

    START = 0.02  # of the standard deviations

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        start = float(np.log(np.expm1(self.START)))
        self.weight_rho = nn.Parameter(torch.full_like(self.weight, start))
        self.bias_rho = nn.Parameter(torch.full_like(self.bias, start))

    def forward(self, x):
        weight, bias = F.softplus(self.weight_rho), F.softplus(self.bias_rho)
        if not self.training:
            return F.linear(
                x,
                self.weight + weight * torch.randn_like(self.weight),
                self.bias + bias * torch.randn_like(self.bias),
            )
        self.drawn = (self.weight, weight), (self.bias, bias)
        mean = F.linear(x, self.weight, self.bias)
        variance = F.linear(x.square(), weight.square(), bias.square())
        return mean + variance.sqrt() * torch.randn_like(mean)

    def divergence(self, prior):
        """Kullback-Leibler divergence from N(0, prior^2) in nats, of the last forward pass."""
        return sum(
            ((std.square() + mean.square()) / (2 * prior**2) - torch.log(std)).sum()
            + mean.numel() * (np.log(prior) - 0.5)
            for mean, std in self.drawn
        )


class Averaged(nn.Module):
    """Scores whose softmax is the mean softmax of many runs."""

    def __init__(self, net, runs=50):
        super().__init__()
        self.net, self.runs = net, runs

    def forward(self, x):
        runs = torch.stack([self.net(x).log_softmax(dim=1) for _ in range(self.runs)])
        return runs.logsumexp(dim=0)


def vi(args, x, y):
    net = training.mlp(*WIDTHS, dense=Gaussian)

    def bound(logits, labels, _):
        divergence = sum(layer.divergence(args.prior) for layer in net if isinstance(layer, Gaussian))
        return F.cross_entropy(logits, labels) + args.weight * divergence / len(x)

    training.fit(net, x, y, args.seed, args.epochs, loss=bound, **RECIPE)
    training.export(net, x[:1], args.out)
    return Averaged(net)


def swag(args, x, y):
    net = training.mlp(*WIDTHS)
    weights = onnx.load(args.start).graph.initializer
    net.load_state_dict({w.name: torch.tensor(numpy_helper.to_array(w)) for w in weights})
    os.makedirs(args.out, exist_ok=True)

    def write(epoch):
        training.export_head(net[-1], os.path.join(args.out, f"epoch{100 + epoch}.onnx"))

    training.fit(
        net, x, y, args.seed, args.epochs, batch=100, rate=8e-4, decay=1, fused=True, after=write
    )
    return net


METHODS = {"dropout": (dropout, 100), "edl": (edl, 100), "vi": (vi, 40), "swag": (swag, 20)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--data", required=True, help="folder of MNIST's four files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="ONNX file to write; of swag, folder")
    parser.add_argument("--epochs", type=int, help="100 unless given; 40 of vi, 20 of swag")
    parser.add_argument("--rate", type=float, default=0.2, help="share of units that dropout drops")
    parser.add_argument("--evidence", choices=EVIDENCE, default="exp", help="of edl")
    parser.add_argument("--prior", type=float, default=0.3, help="standard deviation of vi's prior")
    parser.add_argument("--weight", type=float, default=0.1, help="of the divergence in vi's bound")
    parser.add_argument("--start", help="network that swag goes on from")
    args = parser.parse_args()
    if args.method == "swag" and not args.start:
        parser.error("swag goes on from a network: name it with --start")
    train, epochs = METHODS[args.method]
    args.epochs = args.epochs or epochs

    # In vi, the weights of pixels without ink decay until they are denormal, which is slow.
    torch.set_flush_denormal(True)
    parts = training.mnist(args.data)
    torch.manual_seed(args.seed)
    net = train(args, *parts["train"])
    print(
        json.dumps(
            {"method": args.method, "seed": args.seed}
            | {p: training.figures(net, *d) for p, d in parts.items()}
        )
    )


if __name__ == "__main__":
    main()
