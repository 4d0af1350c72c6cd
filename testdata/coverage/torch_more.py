"""More small networks: other bodies, poolings and last layers that PyTorch users write."""

import torch
from torch import nn
from torch.nn import functional as F

from common import image, mask, numbers, tokens
from torch_heads import D, K, Net

V, T, X = 50, 9, 6  # words, positions, numbers


class Apply(nn.Module):
    """f of the inputs and of layers."""

    def __init__(self, f, *layers):
        super().__init__()
        self.layers, self.f = nn.ModuleList(layers), f

    def forward(self, x, y=None):
        return self.f(x, *(() if y is None else (y,)), *self.layers)


class Words(nn.Module):
    """Embedded words and what f makes of them; under a mask if there are two inputs."""

    def __init__(self, f, *layers):
        super().__init__()
        self.embedding, self.mix, self.f, self.layers = nn.Embedding(V, D), nn.Linear(D, D), f, nn.ModuleList(layers)

    def forward(self, ids, seen=None):
        x = torch.tanh(self.mix(self.embedding(ids)))
        return self.f(x, *(() if seen is None else (seen.to(x.dtype).unsqueeze(-1),)), *self.layers)


class Parameters(nn.Module):
    """f of the features and of parameters of the given shapes."""

    def __init__(self, f, *shapes, fill=None):
        super().__init__()
        self.p = nn.ParameterList(nn.Parameter(torch.randn(s) if fill is None else torch.full(s, fill)) for s in shapes)
        self.f = f

    def forward(self, x):
        return self.f(x, *self.p)


class Tied(nn.Module):
    """The embedding's first rows are the classifier's weights too."""

    def __init__(self):
        super().__init__()
        self.embedding, self.mix = nn.Embedding(V, D), nn.Linear(D, D)

    def forward(self, ids):
        x = torch.tanh(self.mix(self.embedding(ids))).mean(1)
        return F.linear(x, self.embedding.weight[:K])


class Recurrent(nn.Module):
    def __init__(self, kind, take, **more):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(V, 12), kind(12, 14, batch_first=True, **more)
        self.fc, self.take = nn.Linear(28 if more.get("bidirectional") else 14, K), take

    def forward(self, ids):
        y, h = self.rnn(self.embedding(ids))
        return self.fc(self.take(y, h[0] if isinstance(h, tuple) else h))


def fc(bias=True, d=D, k=K):
    return nn.Linear(d, k, bias=bias)


def masked_mean(x, m):
    return (x * m).sum(1) / m.sum(1)


def heads():
    """name → a module from features to the output, and notes."""
    logs, p = dict(outputs="log probabilities"), dict(outputs="probabilities")
    two, one = dict(classes=2), dict(classes=1, link="sigmoid")
    late = "the logits are divided by their spread"
    rare = dict(linear=True, exporters=("torchscript",))
    return {
        "norm-after": (lambda: nn.Sequential(fc(), nn.BatchNorm1d(K)), {}),
        "norm-before": (lambda: nn.Sequential(nn.BatchNorm1d(D), fc()), {}),
        "layer-norm-before": (lambda: nn.Sequential(nn.LayerNorm(D), fc()), {}),
        "layer-norm-after": (lambda: nn.Sequential(fc(), nn.LayerNorm(K)), dict(refuse=late)),
        "affine-after": (
            lambda: Parameters(lambda x, w, b, s, t: F.linear(x, w, b) * s + t, (K, D), (K,), (K,), (K,)),
            {},
        ),
        "prior-added": (lambda: Parameters(lambda x, w, q: x @ w.T + q.log_softmax(0), (K, D), (K,)), {}),
        "scale-exp": (
            lambda: Parameters(lambda x, w, s: s.exp() * F.linear(F.normalize(x), F.normalize(w)), (K, D), ()),
            {},
        ),
        "transposed-weight": (lambda: Parameters(lambda x, w: x @ w, (D, K)), {}),
        "weights-left": (lambda: Parameters(lambda x, w: (w @ x.T).T, (K, D)), {}),
        "baddbmm": (lambda: Parameters(lambda x, w, b: torch.addmm(b, x, w, beta=0.5, alpha=2), (D, K), (K,)), {}),
        "matvec": (lambda: Parameters(lambda x, w: (w @ x.unsqueeze(-1)).squeeze(-1), (K, D)), {}),
        "bmm": (lambda: Parameters(lambda x, w: torch.matmul(x.unsqueeze(1), w).squeeze(1), (D, K)), {}),
        "weights-summed": (
            lambda: Parameters(lambda x, w: (x.unsqueeze(1) * w).sum(-1), (K, D)),
            dict(rare, refuse="products of features and weights that are summed by themselves"),
        ),
        "low-rank": (lambda: nn.Sequential(nn.Linear(D, 5, bias=False), fc(d=5)), dict(features=5)),
        "five-dropouts": (lambda: Apply(lambda x, f, d: sum(f(d(x)) for _ in range(5)) / 5, fc(), nn.Dropout(0.5)), {}),
        "three-heads-mean": (lambda: Apply(lambda x, *f: torch.stack([g(x) for g in f]).mean(0), fc(), fc(), fc()), {}),
        "two-heads-weighed": (lambda: Apply(lambda x, a, b: 0.3 * a(x) + 0.7 * b(x), fc(), fc()), {}),
        "skip": (lambda: Apply(lambda x, a, b: a(x) + b(torch.relu(x - 0.2)), fc(), fc()), dict(features=[D, 2 * D])),
        "each-class": (lambda: Apply(lambda x, *f: torch.cat([g(x) for g in f], 1), *(fc(k=1) for _ in range(K))), {}),
        "each-class-sigmoid": (
            lambda: Apply(lambda x, *f: torch.cat([torch.sigmoid(g(x)) for g in f], 1), *(fc(k=1) for _ in range(K))),
            dict(link="multilabel", **p),
        ),
        "each-class-stack": (
            lambda: Apply(lambda x, *f: torch.stack([g(x).squeeze(-1) for g in f], 1), *(fc(k=1) for _ in range(K))),
            {},
        ),
        "groups-of-classes": (
            lambda: Apply(lambda x, a, b: torch.cat([a(x), b(x)], 1), fc(k=6), fc(k=4)),
            dict(
                exporters=("torchscript",),
                refuse="two layers of several classes each, which may be two tasks",
                linear=True,
            ),
        ),
        "first-classes": (lambda: Apply(lambda x, f: f(x)[:, :K], fc(k=12)), {}),
        "reordered": (
            lambda: Apply(lambda x, f: f(x)[:, [1, 0, 2, 3, 4, 5, 6, 7, 9, 8]], fc()),
            dict(exporters=("torchscript",)),
        ),
        "reordered-by-GatherND": (
            lambda: Apply(lambda x, f: f(x)[:, [1, 0, 2, 3, 4, 5, 6, 7, 9, 8]], fc()),
            dict(
                linear=True,
                exporters=("dynamo",),
                refuse="the classes are reordered by GatherND between two transpositions",
            ),
        ),
        "unsqueezed": (lambda: Apply(lambda x, f: f(x.unsqueeze(1)).squeeze(1), fc()), {}),
        "conv1d": (lambda: Apply(lambda x, f: f(x.unsqueeze(-1)).squeeze(-1), nn.Conv1d(D, K, 1)), {}),
        "conv2d": (lambda: Apply(lambda x, f: f(x[:, :, None, None]).flatten(1), nn.Conv2d(D, K, 1)), {}),
        "grouped-conv": (
            lambda: Apply(lambda x, f: f(x[:, :, None, None]).flatten(1), nn.Conv2d(D, K, 1, groups=2)),
            dict(
                exporters=("torchscript",),
                refuse="each half of the classes reads half of the features",
                linear=True,
                features=[D, 12],
            ),
        ),
        "bilinear": (
            lambda: Apply(lambda x, f: f(x, x), nn.Bilinear(D, D, K)),
            dict(refuse="quadratic in the features"),
        ),
        "relu-after": (lambda: nn.Sequential(fc(), nn.ReLU()), dict(refuse="ReLU is applied to the logits")),
        "clamped": (
            lambda: Apply(lambda x, f: f(x).clamp(-1, 1), fc()),
            dict(refuse="the logits are clipped to [-1,1]"),
        ),
        "clamped-wide": (lambda: Apply(lambda x, f: f(x).clamp(-50, 50), fc()), {}),
        "residual-after": (
            lambda: Apply(lambda x, f, g: f(x) + 0.1 * torch.tanh(g(x)), fc(), fc()),
            dict(refuse="tanh of another layer is added"),
        ),
        "gated": (
            lambda: Apply(lambda x, f, g: f(x) * torch.sigmoid(g(x)), fc(), fc(k=1)),
            dict(refuse="scaled with its bias by a gate that depends on the input"),
        ),
        "gated-no-bias": (lambda: Apply(lambda x, f, g: f(x) * torch.sigmoid(g(x)), fc(False), fc(k=1)), {}),
        "prelu-after": (lambda: nn.Sequential(fc(), nn.PReLU()), dict(refuse="PReLU is applied to the logits")),
        "softmax-temperature-log": (lambda: Apply(lambda x, f: (f(x) / 2).log_softmax(-1), fc()), logs),
        "log-of-softmax": (lambda: Apply(lambda x, f: torch.log(f(x).softmax(-1)), fc()), logs),
        "log-of-softmax-eps": (
            lambda: Apply(lambda x, f: torch.log(f(x).softmax(-1) + 1e-8), fc()),
            dict(logs, **rare, refuse="the probabilities are smoothed"),
        ),
        "softmax-clamped": (
            lambda: Apply(lambda x, f: f(x).softmax(-1).clamp(1e-7, 1), fc()),
            dict(p, **rare, refuse="the probabilities are clamped"),
        ),
        "softmax-rounded": (lambda: Apply(lambda x, f: f(x).softmax(-1, dtype=torch.float32), fc()), p),
        "softmax-2d": (lambda: Apply(lambda x, f: f(x[:, :, None, None]).softmax(1).flatten(1), nn.Conv2d(D, K, 1)), p),
        "sigmoids-normalised": (
            lambda: Apply(lambda x, f: F.normalize(torch.sigmoid(f(x)), p=1.0, dim=1), fc()),
            dict(link="normalised sigmoids", **p),
        ),
        "two-classes": (lambda: Apply(lambda x, f: f(x).softmax(-1), fc(k=2)), dict(two, **p)),
        "second-of-two": (lambda: Apply(lambda x, f: f(x).softmax(-1)[:, 1], fc(k=2)), dict(two, classes_too=1, **p)),
        "one-squeezed": (lambda: Apply(lambda x, f: f(x).squeeze(-1), fc(k=1)), one),
        "one-sigmoid-squeezed": (lambda: Apply(lambda x, f: torch.sigmoid(f(x)).squeeze(-1), fc(k=1)), dict(one, **p)),
        "difference": (lambda: Apply(lambda x, f: torch.sigmoid(f(x)[:, :1] - f(x)[:, 1:]), fc(k=2)), dict(one, **p)),
        "argmax": (lambda: Apply(lambda x, f: f(x).argmax(1), fc()), dict(outputs="class")),
    }


def bodies():
    """name → network, inputs and features."""
    ids, seen = [tokens("ids", T, V)], [tokens("ids", T, V, pad=0), mask("seen", T)]
    steps = [numbers("steps", [T, X])]
    late = lambda f, *more: lambda: Words(f, fc(), *more)
    return {
        "words-max": (late(lambda x, f: f(x.max(1).values)), ids, D),
        "words-last": (late(lambda x, f: f(x[:, -1])), ids, D),
        "words-head-then-last": (late(lambda x, f: f(x)[:, -1]), ids, D),
        "words-flat": (lambda: Words(lambda x, f: f(x.flatten(1)), fc(d=T * D)), ids, T * D),
        "words-first-and-mean": (
            lambda: Words(lambda x, f: f(torch.cat([x[:, 0], x[:, 1:].mean(1)], 1)), fc(d=2 * D)),
            ids,
            2 * D,
        ),
        "words-mean-and-max": (
            lambda: Words(lambda x, f: f(torch.cat([x.mean(1), x.amax(1)], -1)), fc(d=2 * D)),
            ids,
            2 * D,
        ),
        "words-masked-head-then-mean": (late(lambda x, m, f: masked_mean(f(x), m)), seen, D),
        "words-masked-clamped": (late(lambda x, m, f: f((x * m).sum(1) / m.sum(1).clamp(min=1e-9))), seen, D),
        "words-masked-max": (late(lambda x, m, f: f((x - 1e4 * (1 - m)).amax(1))), seen, D),
        "words-last-seen": (
            late(lambda x, m, f: f(x[torch.arange(x.shape[0]), m.squeeze(-1).sum(1).long() - 1])),
            seen,
            D,
        ),
        "words-attention-pool": (lambda: Words(lambda x, f, a: f((a(x).softmax(1) * x).sum(1)), fc(), fc(k=1)), ids, D),
        "words-attention-head-then-pool": (
            lambda: Words(lambda x, f, a: (a(x).softmax(1) * f(x)).sum(1), fc(False), fc(k=1)),
            ids,
            D,
        ),
        "words-query-pool": (
            lambda: Words(
                lambda x, f, a: f(a(x[:, :1], x, x, need_weights=False)[0][:, 0]),
                fc(),
                nn.MultiheadAttention(D, 4, batch_first=True),
            ),
            ids,
            D,
        ),
        "words-conv": (
            lambda: Words(lambda x, f, c: f(torch.relu(c(x.transpose(1, 2))).amax(2)), fc(), nn.Conv1d(D, D, 3)),
            ids,
            D,
        ),
        "words-convs": (
            lambda: Words(
                lambda x, f, *c: f(torch.cat([torch.relu(g(x.transpose(1, 2))).amax(2) for g in c], 1)),
                fc(d=3 * 8),
                *(nn.Conv1d(D, 8, k) for k in (2, 3, 4)),
            ),
            ids,
            24,
        ),
        "words-encoder": (
            lambda: Words(
                lambda x, f, e: f(e(x)[:, 0]), fc(), nn.TransformerEncoderLayer(D, 4, 32, 0.0, batch_first=True)
            ),
            ids,
            D,
        ),
        "words-encoder-mean": (
            lambda: Words(
                lambda x, f, e: f(e(x).mean(1)),
                fc(),
                nn.TransformerEncoderLayer(D, 4, 32, 0.0, "gelu", batch_first=True, norm_first=True),
            ),
            ids,
            D,
        ),
        "words-encoder-head-then-mean": (
            lambda: Words(
                lambda x, f, e: f(e(x)).mean(1), fc(), nn.TransformerEncoderLayer(D, 4, 32, 0.0, batch_first=True)
            ),
            ids,
            D,
        ),
        "words-tied": (Tied, ids, D),
        "lstm-last": (lambda: Recurrent(nn.LSTM, lambda y, h: y[:, -1]), ids, 14),
        "lstm-state": (lambda: Recurrent(nn.LSTM, lambda y, h: h[-1]), ids, 14),
        "lstm-both-ways": (
            lambda: Recurrent(nn.LSTM, lambda y, h: torch.cat([h[0], h[1]], 1), bidirectional=True),
            ids,
            28,
        ),
        "lstm-both-ways-max": (lambda: Recurrent(nn.LSTM, lambda y, h: y.amax(1), bidirectional=True), ids, 28),
        "gru-mean": (lambda: Recurrent(nn.GRU, lambda y, h: y.mean(1)), ids, 14),
        "gru-two-layers": (lambda: Recurrent(nn.GRU, lambda y, h: h[-1], num_layers=2), ids, 14),
        "rnn-last": (lambda: Recurrent(nn.RNN, lambda y, h: y[:, -1, :]), ids, 14),
        "steps-conv": (
            lambda: Apply(lambda x, c, f: f(torch.relu(c(x.transpose(1, 2))).mean(-1)), nn.Conv1d(X, D, 3), fc()),
            steps,
            D,
        ),
        "steps-conv-head-then-mean": (
            lambda: Apply(
                lambda x, c, f: f(torch.relu(c(x.transpose(1, 2)))).mean(-1), nn.Conv1d(X, D, 3), nn.Conv1d(D, K, 1)
            ),
            steps,
            D,
        ),
        "steps-conv-head-adaptive": (
            lambda: nn.Sequential(
                nn.Conv1d(T, D, 3), nn.ReLU(), nn.Conv1d(D, K, 1), nn.AdaptiveAvgPool1d(1), nn.Flatten()
            ),
            steps,
            D,
        ),
        "volume": (
            lambda: nn.Sequential(nn.Conv3d(1, D, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), fc()),
            [numbers("volume", [1, 7, 7, 7])],
            D,
        ),
        "volume-conv-head": (
            lambda: nn.Sequential(
                nn.Conv3d(1, D, 3, 2), nn.ReLU(), nn.Conv3d(D, K, 1), nn.AdaptiveAvgPool3d(1), nn.Flatten()
            ),
            [numbers("volume", [1, 7, 7, 7])],
            D,
        ),
        "table-residual": (
            lambda: Apply(
                lambda x, a, b, f: f(torch.relu(a(x)) + b(torch.relu(a(x)))), fc(d=X, k=D), fc(d=D, k=D), fc()
            ),
            [numbers("x", [X])],
            D,
        ),
        "table-gated": (lambda: Apply(lambda x, a, f: f(F.glu(a(x))), fc(d=X, k=2 * D), fc()), [numbers("x", [X])], D),
        "table-embedded": (
            lambda: Apply(
                lambda x, c, e, a, f: f(torch.relu(a(torch.cat([x, e(c).flatten(1)], 1)))),
                nn.Embedding(V, 3),
                fc(d=X + 6, k=D),
                fc(),
            ),
            [numbers("x", [X]), tokens("c", 2, V)],
            D,
        ),
        "table-logistic": (lambda: fc(d=X), [numbers("x", [X])], X),
    }


def cases():
    """name → arguments of plain_case in export_torch.py."""
    torch.manual_seed(2)
    picture = [image("image", (3, 16, 16))]
    out = {}
    for name, (head, more) in heads().items():
        out["head-" + name] = dict(
            make=lambda head=head: Net(head()), inputs=picture, **{"features": D, "classes": K, **more}
        )
    for name, (make, inputs, d) in bodies().items():
        open_length = inputs[0]["kind"] == "tokens" and "flat" not in name
        out["body-" + name] = dict(
            make=make, inputs=inputs, features=d, classes=K, dynamic=(0, 1) if open_length else (0,)
        )
    for opset in (10, 12, 14, 15, 16, 19, 21):
        exporter = ("dynamo",) if opset > 20 else ("torchscript",)
        out[f"mean-of-maps-opset{opset}"] = dict(
            make=lambda: Net(
                nn.Sequential(nn.Conv2d(D, K, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Softmax(1)), False
            ),
            inputs=picture,
            features=D,
            classes=K,
            opset=opset,
            exporters=exporter,
            outputs="probabilities",
        )
        out[f"words-head-then-mean-opset{opset}"] = dict(
            make=lambda: Words(lambda x, m, f: masked_mean(f(x), m), fc()),
            features=D,
            classes=K,
            opset=opset,
            inputs=[tokens("ids", T, V, pad=0), mask("seen", T)],
            exporters=exporter,
            dynamic=(0, 1),
        )
    for kind, dtype in (("half", torch.float16), ("double", torch.float64)):
        name = str(dtype).removeprefix("torch.")
        more = dict(precision="float16") if kind == "half" else {}
        if kind == "half":  # ONNX Runtime has no convolution in float64
            out[f"all-{name}"] = dict(
                make=lambda kind=kind: getattr(Net(fc()), kind)(),
                inputs=[image("image", (3, 16, 16), dtype=name)],
                features=D,
                classes=K,
                **more,
            )
        out[f"head-{name}"] = dict(
            make=lambda dtype=dtype: Net(Apply(lambda x, f: f(x.to(dtype)), fc().to(dtype))),
            inputs=picture,
            features=D,
            classes=K,
            **more,
        )
        out[f"back-to-float-{name}"] = dict(
            make=lambda dtype=dtype: Net(Apply(lambda x, f: f(x.to(dtype)).float().softmax(-1), fc().to(dtype))),
            inputs=picture,
            features=D,
            classes=K,
            outputs="probabilities",
            **more,
        )
    return out
