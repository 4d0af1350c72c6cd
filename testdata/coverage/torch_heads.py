"""Small networks whose last layer is written in each way that PyTorch users write it."""

import torch
from torch import nn

from common import image, mask, numbers, tokens

D, K = 24, 10


class Trunk(nn.Module):
    """Pictures to a feature map of D channels, 4 x 4."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 16, 3, 2, 1)
        self.b = nn.BatchNorm2d(16)
        self.c = nn.Conv2d(16, D, 3, 2, 1)

    def forward(self, x):
        return torch.relu(self.c(torch.relu(self.b(self.a(x)))))


class Net(nn.Module):
    """A trunk and what head makes of its features; pool says whether they are averaged first."""

    def __init__(self, head, pool=True):
        super().__init__()
        self.trunk, self.head, self.pool = Trunk(), head, pool

    def forward(self, x):
        x = self.trunk(x)
        return self.head(x.mean((2, 3)) if self.pool else x)


class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(K, D)), nn.Parameter(torch.randn(K))

    def forward(self, x):
        return torch.einsum("bd,kd->bk", x, self.w) + self.b


class Cosine(nn.Module):
    """Normalised features times normalised weights, times a scale."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(K, D))

    def forward(self, x):
        return 16 * nn.functional.linear(nn.functional.normalize(x), nn.functional.normalize(self.w))


class Temperature(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(D, K)
        self.register_buffer("t", torch.tensor(1.7))

    def forward(self, x):
        return self.fc(x) / self.t


class Tokens(nn.Module):
    """A linear layer over every position, of which the first is taken or all are averaged."""

    def __init__(self, take):
        super().__init__()
        self.embedding, self.mix, self.fc, self.take = nn.Embedding(50, D), nn.Linear(D, D), nn.Linear(D, K), take

    def forward(self, ids):
        y = self.fc(torch.relu(self.mix(self.embedding(ids))))
        return y[:, 0] if self.take == "first" else y.mean(1)


class Masked(nn.Module):
    """Positions averaged under a mask, and the mask given as a second input."""

    def __init__(self):
        super().__init__()
        self.embedding, self.fc = nn.Embedding(50, D), nn.Linear(D, K)

    def forward(self, ids, seen):
        m = seen.to(torch.float32).unsqueeze(-1)
        return self.fc((torch.tanh(self.embedding(ids)) * m).sum(1) / m.sum(1))


class Two(nn.Module):
    """Pictures and a table of numbers, joined."""

    def __init__(self):
        super().__init__()
        self.trunk, self.fc = Trunk(), nn.Linear(D + 5, K)

    def forward(self, picture, table):
        return self.fc(torch.cat([self.trunk(picture).mean((2, 3)), table], 1))


class Averaged(nn.Module):
    """Two classifiers of the same features, averaged."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(D, K), nn.Linear(D, K)

    def forward(self, x):
        return (self.a(x) + self.b(x)) / 2


class Bytes(nn.Module):
    """uint8 pictures, channels last, normalised inside the network."""

    def __init__(self):
        super().__init__()
        self.net = Net(nn.Linear(D, K))

    def forward(self, x):
        return self.net((x.permute(0, 3, 1, 2).to(torch.float32) - 127.0) / 60.0)


class Maxout(nn.Module):
    """The larger of two linear layers: not linear."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(D, K), nn.Linear(D, K)

    def forward(self, x):
        return torch.maximum(self.a(x), self.b(x))


def cases():
    """name → arguments of plain_case in export_torch.py."""
    torch.manual_seed(2)
    picture = [image("image", (3, 16, 16))]

    def net(head, pool=True, **more):
        return dict(make=lambda: Net(head(), pool), inputs=picture, features=D, classes=K, **more)

    ids = [tokens("ids", 7, 50)]
    one = ("torchscript",)
    c = {
        "linear": net(lambda: nn.Linear(D, K)),
        "linear-no-bias": net(lambda: nn.Linear(D, K, bias=False)),
        "einsum": net(Einsum),
        "cosine": net(Cosine),
        "temperature": net(Temperature),
        "weight-norm": net(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(D, K))),
        "averaged-heads": net(Averaged),
        "softmax": net(lambda: nn.Sequential(nn.Linear(D, K), nn.Softmax(1)), outputs="probabilities"),
        "log-softmax": net(lambda: nn.Sequential(nn.Linear(D, K), nn.LogSoftmax(1)), outputs="log probabilities"),
        "sigmoid-binary": dict(make=lambda: Net(nn.Sequential(nn.Linear(D, 1), nn.Sigmoid())), inputs=picture, features=D, classes=1,
                               link="sigmoid", outputs="probabilities"),
        "sigmoid-multilabel": net(lambda: nn.Sequential(nn.Linear(D, K), nn.Sigmoid()), link="multilabel", outputs="probabilities"),
        "pool-conv": net(lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(D, K, 1), nn.Flatten()), pool=False),
        "conv-pool": net(lambda: nn.Sequential(nn.Conv2d(D, K, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()), pool=False),
        "first-token": dict(make=lambda: Tokens("first"), inputs=ids, features=D, classes=K, dynamic=(0, 1)),
        "mean-of-tokens": dict(make=lambda: Tokens("mean"), inputs=ids, features=D, classes=K, dynamic=(0, 1)),
        "masked-mean": dict(make=Masked, inputs=[tokens("ids", 7, 50, pad=0), mask("seen", 7)], features=D, classes=K, dynamic=(0, 1)),
        "picture-and-table": dict(make=Two, inputs=[image("picture", (3, 16, 16)), numbers("table", [5])], features=D + 5, classes=K),
        "bytes-channels-last": dict(make=Bytes, inputs=[image("image", (16, 16, 3), 0, 255, "uint8", True)], features=D, classes=K),
        "maxout": net(Maxout, exporters=one, refuse="the maximum of two linear layers is not linear"),
        "batch-of-one": dict(make=lambda: Net(nn.Linear(D, K)), inputs=picture, features=D, classes=K, dynamic=(), batch=1),
        "conv-full-extent": dict(make=lambda: Net(nn.Sequential(nn.Conv2d(D, K, 4), nn.Flatten()), False), inputs=picture, features=16 * D,
                                 classes=K),
    }
    for opset in (9, 11, 13, 17, 20):
        c[f"linear-opset{opset}"] = net(lambda: nn.Linear(D, K), opset=opset, exporters=one)
        c[f"tokens-opset{opset}"] = dict(make=lambda: Tokens("mean"), inputs=ids, features=D, classes=K, opset=opset, exporters=one, dynamic=(0, 1))
    for opset in (18, 21, 23):
        c[f"linear-opset{opset}"] = net(lambda: nn.Linear(D, K), opset=opset, exporters=("dynamo",))
    return c
