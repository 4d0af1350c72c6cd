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


def examples(name, n, size, seed):
    """What a network takes: pictures, or for `mlp` [n, 1, 8, 8]."""
    return pictures(n, 8, seed)[:, :1] if name == "mlp" else pictures(n, size, seed)


def architecture(name, classes):
    """`resnet50`, `mobilenet_v2`, `resnet18`, `resnet18-64` with a layer of 64 features before the last, or `mlp`, of 64
    numbers and 128 features.
    """
    if name == "mlp":
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, classes))
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
        model.train()(torch.from_numpy(examples(name, 16, size, 1)))
    return model.eval()


def last_layer(name):
    return {"mlp": "3", "mobilenet_v2": "classifier.1"}.get(name, "fc.2" if "-" in name else "fc")
