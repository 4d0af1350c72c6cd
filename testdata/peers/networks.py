"""The networks measured: torchvision's, with reproducible random weights.

Batch normalisation takes its statistics from one batch of images, so that activations keep their scale through the
network, as in a trained one, and the softmax does not saturate.
"""

import numpy as np
import torch
import torchvision


def pictures(n, size, seed):
    """[n, 3, size, size] float32: coarse noise of a level that differs between images, and fine noise."""
    rng = np.random.default_rng(seed)
    coarse = rng.random((n, 3, 8, 8), dtype=np.float32) + 2 * rng.random((n, 3, 1, 1), dtype=np.float32) - 1.5
    fine = rng.random((n, 3, size, size), dtype=np.float32) - 0.5
    step = -(-size // 8)
    return np.repeat(np.repeat(coarse, step, 2), step, 3)[:, :, :size, :size] + 0.3 * fine


def architecture(name, classes):
    """`resnet50`, `resnet18`, or `resnet18-64` with a layer of 64 features before the last."""
    model = getattr(torchvision.models, name.split("-")[0])(num_classes=classes)
    if "-" in name:
        width = int(name.split("-")[1])
        model.fc = torch.nn.Sequential(torch.nn.Linear(512, width), torch.nn.ReLU(), torch.nn.Linear(width, classes))
    return model


def network(name, classes, size):
    """The network with its weights, in inference mode."""
    torch.manual_seed(7)
    model = architecture(name, classes)
    last = model.get_submodule(last_layer(name))
    torch.nn.init.normal_(last.weight, std=2 * last.in_features**-0.5)
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for m in norms:
        m.momentum = None
    with torch.no_grad():
        model.train()(torch.from_numpy(pictures(16, size, 1)))
    return model.eval()


def last_layer(name):
    return "fc.2" if "-" in name else "fc"
