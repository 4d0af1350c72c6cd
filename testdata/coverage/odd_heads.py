"""Small networks whose last layer is linear but written in unusual ways, and some that only look linear."""

import torch
from torch import nn

from common import image, tokens
from torch_heads import Net, Trunk

D, K = 24, 10


class Then(nn.Module):
    """A linear layer, and what is done with its logits."""

    def __init__(self, f, classes=K, bias=True):
        super().__init__()
        self.fc, self.f = nn.Linear(D, classes, bias=bias), f

    def forward(self, x):
        return self.f(self.fc(x))


class Prototypes(nn.Module):
    """Features against one constant prototype for each class."""

    def __init__(self, f):
        super().__init__()
        self.c, self.f = nn.Parameter(torch.randn(K, D) * 0.4), f

    def forward(self, x):
        return self.f(x, self.c)


class Both(nn.Module):
    """Two linear layers of the same features, and what is done with the logits of both."""

    def __init__(self, f, one=6, other=4):
        super().__init__()
        self.a, self.b, self.f = nn.Linear(D, one), nn.Linear(D, other), f

    def forward(self, x):
        return self.f(self.a(x), self.b(x))


class Hidden(nn.Module):
    """The last hidden state of a recurrent network, [1,N,D]."""

    def __init__(self, kind, f):
        super().__init__()
        self.embedding, self.rnn, self.fc, self.f = nn.Embedding(50, D), kind(D, D), nn.Linear(D, K), f

    def forward(self, ids):
        out, hidden = self.rnn(self.embedding(ids).transpose(0, 1))
        return self.f(self.fc(hidden[0] if isinstance(hidden, tuple) else hidden))


class Positions(nn.Module):
    """A softmax at every token, of which f makes one."""

    def __init__(self, f):
        super().__init__()
        self.embedding, self.mix, self.fc, self.f = nn.Embedding(50, D), nn.Linear(D, D), nn.Linear(D, K), f

    def forward(self, ids):
        return self.f(self.fc(torch.tanh(self.mix(self.embedding(ids)))))


class Views(nn.Module):
    """A picture and its mirror image through one network."""

    def __init__(self, f):
        super().__init__()
        self.trunk, self.fc, self.f = Trunk(), nn.Linear(D, K), f

    def forward(self, x):
        return self.f(*(self.fc(self.trunk(v).mean((2, 3))) for v in (x, x.flip(3))))


class Excited(nn.Module):
    """Logits times a gate that depends on the features: squeeze and excitation behind the classifier."""

    def __init__(self):
        super().__init__()
        self.fc, self.gate = nn.Linear(D, K), nn.Sequential(nn.Linear(D, 4), nn.ReLU(), nn.Linear(4, K), nn.Sigmoid())

    def forward(self, x):
        return self.fc(x) * self.gate(x)


def binary(f):
    return lambda: Then(f, 1)


def softmax_by_hand(z):
    e = (z - z.amax(1, keepdim=True)).exp()
    return e / e.sum(1, keepdim=True)


def softmax_expanded(z):
    m = torch.maximum(z.amax(1), torch.full((), -torch.inf)).reshape(-1, 1).expand(-1, K)
    e = (z - m).exp()
    return e / e.sum(1).reshape(-1, 1).expand(-1, K)


def cases():
    """name → arguments of plain_case in export_torch.py."""
    picture = [image("image", (3, 16, 16))]
    ids = [tokens("ids", 7, 50)]

    def net(head, classes=K, **more):
        return dict(make=lambda: Net(head()), inputs=picture, features=D, classes=classes, **more)

    def then(f, **more):
        return net(lambda: Then(f), **{"outputs": "probabilities", **more})

    def two(f, **more):
        return net(binary(f), 2, classes_too=1, **{"outputs": "probabilities", **more})

    def text(make, **more):
        return dict(make=make, inputs=ids, features=D, classes=K, **more)

    logs, minus, shifted = dict(outputs="log probabilities"), dict(outputs="negative log probabilities"), dict(outputs="shifted logits")
    one = ("torchscript",)
    c = {
        # Softmax from its parts
        "softmax-by-hand": then(softmax_by_hand),
        "softmax-expanded": then(softmax_expanded, exporters=("dynamo",)),
        "softmax-exp": then(lambda z: z.exp() / z.exp().sum(1, keepdim=True)),
        "softmax-logsumexp": then(lambda z: (z - z.logsumexp(1, keepdim=True)).exp()),
        "softmax-temperature": then(lambda z: softmax_by_hand(z / 0.7)),
        # Logarithms of it
        "log-softmax-by-hand": then(lambda z: z - z.logsumexp(1, keepdim=True), **logs),
        "exp-of-log-softmax": then(lambda z: z.log_softmax(1).exp()),
        # Distances to prototypes
        "cdist": net(lambda: Prototypes(lambda x, c: -torch.cdist(x, c)), refuse="a Euclidean distance is not linear in the features"),
        "gaussian-kernel": net(lambda: Prototypes(lambda x, c: (-((x[:, None] - c) ** 2).sum(-1)).exp()), refuse="one kernel per class, not normalised: "
                               "terms common to all classes do not cancel"),
        # Two classes from one logit
        "concat-1-p-p": two(lambda z: torch.cat([1 - z.sigmoid(), z.sigmoid()], 1)),
        "sigmoid-by-hand": net(binary(lambda z: 1 / (1 + (-z).exp())), 1, link="sigmoid", outputs="probabilities"),
        "hidden-state-gru": text(lambda: Hidden(nn.GRU, lambda z: z.squeeze(0)), exporters=one),
        # Several layers
        "sum-of-softmaxes": net(lambda: Both(lambda a, b: 0.5 * a.softmax(1) + 0.5 * b.softmax(1), K, K), outputs="probabilities",
                                refuse="a mean of two softmaxes is not the softmax of a linear layer"),
        "product-of-softmaxes": net(lambda: Both(lambda a, b: (a.softmax(1) * b.softmax(1)), K, K), refuse="not normalised over the classes"),
        "parent-times-child": net(lambda: Both(lambda a, b: (a.softmax(1)[:, :, None] * b.reshape(-1, 2, 5).softmax(2)).flatten(1), 2, K), outputs="probabilities",
                                  refuse="a product of conditional probabilities: a softmax for each parent class"),
        "softmax-then-mean": text(lambda: Positions(lambda z: z.softmax(-1).mean(1)), outputs="probabilities",
                                  refuse="a mean of softmaxes over tokens is not the softmax of a linear layer"),
        # Views
        "views-mean-of-logits": dict(make=lambda: Views(lambda a, b: (a + b) / 2), inputs=picture, features=[D, 2 * D], classes=K),
        "views-mean-of-softmaxes": dict(make=lambda: Views(lambda a, b: (a.softmax(1) + b.softmax(1)) / 2), inputs=picture, features=D, classes=K, outputs="probabilities",
                                        refuse="a mean of two softmaxes is not the softmax of a linear layer"),
        # What only looks linear
        "excited": net(Excited, refuse="each logit is multiplied by a gate that depends on the features"),
        "softcapped": net(lambda: Then(lambda z: 30 * torch.tanh(z / 30)), refuse="tanh is applied to the logits"),
        "spherical-softmax": then(lambda z: z ** 2 / (z ** 2).sum(1, keepdim=True), refuse="squares instead of exponentials"),
        "only-the-class": then(lambda z: z.argmax(1), outputs="class"),
    }
    return c
