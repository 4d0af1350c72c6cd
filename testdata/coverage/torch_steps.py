"""Small networks with an answer for each step of an example, written in each way that PyTorch users write it."""

import torch
from torch import nn
from torch.nn import functional as F

from common import image, mask, numbers, tokens
from odd_heads import softmax_by_hand
from torch_heads import D, K, Net
from torch_more import Apply, Parameters, T, V, Words, X, fc

RESIZED = "the logits are resized behind the last layer: those of a pixel mix the features of several"


class Tagger(nn.Module):
    """A recurrent network, time first inside or not, with a linear layer at every step."""

    def __init__(self, kind, first=False, **more):
        super().__init__()
        self.embedding, self.rnn, self.first = nn.Embedding(V, 12), kind(12, 14, batch_first=not first, **more), first
        self.fc = nn.Linear(28 if more.get("bidirectional") else 14, K)

    def forward(self, ids):
        x = self.embedding(ids)
        z = self.fc(self.rnn(x.transpose(0, 1) if self.first else x)[0])
        return z.transpose(0, 1) if self.first else z


class Decoder(nn.Module):
    """Half the resolution and back, with a skip, as a U-Net has it."""

    def __init__(self, head):
        super().__init__()
        self.down, self.inner, self.up = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, 1, 1), nn.ConvTranspose2d(16, D, 2, 2)
        self.skip, self.head = nn.Conv2d(3, D, 3, 1, 1), head

    def forward(self, x):
        y = self.up(torch.relu(self.inner(torch.relu(self.down(x)))))
        return self.head(torch.relu(y + self.skip(x)))


def sequences():
    """name → network, and notes that differ from those of logits [N,T,K] of words."""
    p, logs, first = dict(outputs="probabilities"), dict(outputs="log probabilities"), dict(steps=1)
    one = dict(classes=1, link="sigmoid")
    seen = dict(inputs=[tokens("ids", T, V, pad=0), mask("attention_mask", T)])
    signal = dict(inputs=[numbers("signal", [X, 12])], dynamic=(0,))
    turned = lambda x: x.transpose(1, 2)
    late = lambda f, *more: lambda: Words(f, *(more or (fc(),)))
    encoder = lambda: nn.TransformerEncoderLayer(D, 4, 32, 0.0, batch_first=True)
    rare = dict(exporters=("torchscript",))
    two = "the two logits of a step are each normalised over the steps: where a span begins, and where it ends"
    return {
        "linear": (late(lambda x, f: f(x)), {}),
        "linear-no-bias": (lambda: Words(lambda x, f: f(x), fc(False)), {}),
        "softmax": (late(lambda x, f: f(x).softmax(-1)), p),
        "log-softmax": (late(lambda x, f: f(x).log_softmax(-1)), logs),
        "softmax-axis-2": (late(lambda x, f: F.softmax(f(x), dim=2)), p),
        "softmax-by-hand": (late(lambda x, f: turned(softmax_by_hand(turned(f(x))))), p),
        "softmax-exp": (late(lambda x, f: f(x).exp() / f(x).exp().sum(-1, keepdim=True)), p),
        "temperature": (late(lambda x, f: f(x) / 1.7), {}),
        "classes-first": (late(lambda x, f: turned(f(x))), first),
        "classes-first-softmax": (late(lambda x, f: turned(f(x)).softmax(1)), dict(first, **p)),
        "conv1d": (lambda: Words(lambda x, f: f(turned(x)), nn.Conv1d(D, K, 1)), first),
        "conv1d-turned": (lambda: Words(lambda x, f: turned(f(turned(x))), nn.Conv1d(D, K, 1)), {}),
        "conv1d-three-steps": (
            lambda: Words(lambda x, f: f(turned(x)), nn.Conv1d(D, K, 3, padding=1)),
            dict(first, features=3 * D, **rare, linear=True, refuse="a convolution over three steps, with padding, is the last layer"),
        ),
        "einsum": (lambda: Words(lambda x, p: p(x), Parameters(lambda x, w, b: torch.einsum("btd,kd->btk", x, w) + b, (K, D), (K,))), {}),
        "cosine": (
            lambda: Words(lambda x, p: p(x), Parameters(lambda x, w: 16 * F.linear(F.normalize(x, dim=-1), F.normalize(w)), (K, D))),
            {},
        ),
        "rows-and-back": (late(lambda x, f: f(x.reshape(-1, D)).reshape(x.shape[0], x.shape[1], K)), {}),
        "rows": (late(lambda x, f: f(x).reshape(-1, K)), dict(merged=True)),
        "time-first": (late(lambda x, f: f(x.transpose(0, 1)).transpose(0, 1)), {}),
        "one-logit": (lambda: Words(lambda x, f: f(x), fc(k=1)), one),
        "one-logit-squeezed": (lambda: Words(lambda x, f: f(x).squeeze(-1), fc(k=1)), dict(one, steps=None)),
        "one-sigmoid": (lambda: Words(lambda x, f: torch.sigmoid(f(x)), fc(k=1)), dict(one, **p)),
        "one-sigmoid-squeezed": (lambda: Words(lambda x, f: torch.sigmoid(f(x)).squeeze(-1), fc(k=1)), dict(one, steps=None, **p)),
        "two-classes": (lambda: Words(lambda x, f: f(x).softmax(-1), fc(k=2)), dict(classes=2, **p)),
        "one-selected": (lambda: Words(lambda x, f: torch.sigmoid(f(x)[..., 0]), fc(k=1)), dict(one, steps=None, **p)),
        "argmax": (late(lambda x, f: f(x).argmax(-1)), dict(outputs="class", steps=None)),
        "first-classes": (lambda: Words(lambda x, f: f(x)[..., :K], fc(k=12)), {}),
        "two-heads-mean": (lambda: Words(lambda x, f, g: (f(x) + g(x)) / 2, fc(), fc()), {}),
        "skip": (
            lambda: Words(lambda x, f, g: f(x) + g(torch.relu(x)), fc(), fc()),
            dict(rare, features=2 * D, linear=True, refuse="layers of two tensors are added at each step"),
        ),
        "encoder": (lambda: Words(lambda x, f, e: f(e(x)), fc(), encoder()), {}),
        "encoder-two-layers": (lambda: Words(lambda x, f, a, b: f(b(a(x))), fc(), encoder(), encoder()), {}),
        "lstm": (lambda: Tagger(nn.LSTM), dict(features=14)),
        "lstm-both-ways": (lambda: Tagger(nn.LSTM, bidirectional=True), dict(features=28)),
        "lstm-time-first": (lambda: Tagger(nn.LSTM, True, bidirectional=True), dict(features=28)),
        "gru": (lambda: Tagger(nn.GRU), dict(features=14)),
        "gru-time-first": (lambda: Tagger(nn.GRU, True), dict(features=14)),
        "signal-conv": (lambda: Apply(lambda x, c, f: f(torch.relu(c(x))), nn.Conv1d(X, D, 3, padding=1), nn.Conv1d(D, K, 1)), dict(first, **signal)),
        "signal-linear": (lambda: Apply(lambda x, c, f: f(turned(torch.relu(c(x)))), nn.Conv1d(X, D, 3, padding=1), fc()), signal),
        "signal-stride": (
            lambda: Apply(lambda x, c, f: turned(f(turned(torch.relu(c(x))))).softmax(1), nn.Conv1d(X, D, 4, 4), fc()),
            dict(first, **p, **signal),
        ),
        "batch-of-one": (late(lambda x, f: f(x)), dict(dynamic=(), batch=1)),
        "fixed-length": (late(lambda x, f: f(x)), dict(dynamic=(0,))),
        "masked": (
            lambda: Words(lambda x, m, f: f(x * m), fc()),
            seen,
        ),
        "without-first": (late(lambda x, f: f(x)[:, 1:]), {}),
        "without-first-masked": (lambda: Words(lambda x, m, f: f(x * m)[:, 1:], fc()), seen),
        "every-other": (late(lambda x, f: f(x)[:, ::2]), {}),
        "backwards": (late(lambda x, f: f(x).flip(1)), {}),
        "gated": (
            lambda: Words(lambda x, f, g: f(x) * torch.sigmoid(g(x)), fc(False), fc(k=1)),
            dict(rare, linear=True, refuse="the logits of each step are multiplied by a gate"),
        ),
        "time-first-rows": (
            late(lambda x, f: f(x.transpose(0, 1).reshape(-1, D)).reshape(x.shape[1], x.shape[0], K).transpose(0, 1)),
            dict(rare, linear=True, refuse="the steps are put behind the examples after the rows of all of them"),
        ),
        "logits-times-mask": (
            lambda: Words(lambda x, m, f: f(x) * m, fc()),
            dict(rare, **seen, refuse="the logits are multiplied by the mask"),
        ),
        # What is no layer for all steps, or no answer for each
        "bias-of-each-step": (
            lambda: Words(lambda x, p: p(x), Parameters(lambda x, w, b: F.linear(x, w) + b, (K, D), (T, K))),
            dict(rare, dynamic=(0,), refuse="each step has a bias of its own"),
        ),
        "layer-of-each-step": (
            lambda: Words(lambda x, p: p(x), Parameters(lambda x, w: torch.einsum("btd,tkd->btk", x, w), (T, K, D))),
            dict(rare, dynamic=(0,), refuse="each step has weights of its own"),
        ),
        "softmax-over-steps": (late(lambda x, f: f(x).softmax(1)), dict(rare, refuse="normalised over the steps, not over the classes")),
        "softmax-over-all": (
            late(lambda x, f: f(x).flatten(1).softmax(1).reshape(-1, T, K)),
            dict(rare, dynamic=(0,), refuse="normalised over the steps and the classes"),
        ),
        "mixed": (
            late(lambda x, f: turned(f(x)).reshape(-1, T, K)),
            dict(rare, dynamic=(0,), refuse="a reshape mixes the steps and the classes"),
        ),
        "repeated": (
            late(lambda x, f: f(x).repeat_interleave(2, 1)),
            dict(rare, dynamic=(0,), refuse="each answer is given twice"),
        ),
        "joined": (
            lambda: Words(lambda x, f, g: torch.cat([f(x), g(x)], 1), fc(), fc()),
            dict(rare, refuse="two layers give the answers, one behind the other"),
        ),
        "of-the-example-too": (
            lambda: Words(lambda x, f, g: f(x) + g(x.mean(1, keepdim=True)), fc(), fc()),
            dict(rare, refuse="a layer of the whole example is added"),
        ),
        "layer-norm": (lambda: Words(lambda x, f, n: n(f(x)), fc(), nn.LayerNorm(K)), dict(rare, refuse="the logits are divided by their spread")),
        "logits-masked": (
            lambda: Words(lambda x, m, f: f(x).masked_fill(m == 0, -1e4), fc()),
            dict(rare, **seen, refuse="the logits of steps that the mask leaves out are replaced"),
        ),
        "softcapped": (late(lambda x, f: 30 * torch.tanh(f(x) / 30)), dict(rare, refuse="tanh is applied to the logits")),
        "span": (
            lambda: Words(lambda x, f: f(x).softmax(1), fc(k=2)),
            dict(rare, classes=2, refuse=two),
        ),
        "pairs": (
            lambda: Words(lambda x, f, g: f(x) @ turned(g(x)), fc(), fc()),
            dict(rare, refuse="a product of two layers for each pair of steps"),
        ),
    }


def maps():
    """name → what follows the feature maps, and notes that differ from those of logits [N,K,H,W]."""
    p, last = dict(outputs="probabilities"), dict(steps=-1)
    conv = lambda k=K, size=1: nn.Conv2d(D, k, size, padding=size // 2)
    by = lambda f, *layers: lambda: Apply(f, *(layers or (conv(),)))
    rare = dict(exporters=("torchscript",))
    resized = dict(rare, refuse=RESIZED)
    channels_last = lambda x: x.permute(0, 2, 3, 1)
    channels_first = lambda x: x.permute(0, 3, 1, 2)
    return {
        "conv": (conv, {}),
        "conv-no-bias": (lambda: nn.Conv2d(D, K, 1, bias=False), {}),
        "softmax": (lambda: nn.Sequential(conv(), nn.Softmax(1)), p),
        "log-softmax": (lambda: nn.Sequential(conv(), nn.LogSoftmax(1)), dict(outputs="log probabilities")),
        "softmax-by-hand": (by(lambda x, f: softmax_by_hand(f(x))), p),
        "batch-norm": (lambda: nn.Sequential(conv(), nn.BatchNorm2d(K)), {}),
        "channels-last": (by(lambda x, f: channels_last(f(x))), last),
        "channels-last-softmax": (by(lambda x, f: channels_last(f(x)).softmax(-1)), dict(last, **p)),
        "linear-channels-last": (by(lambda x, f: f(channels_last(x)), fc()), last),
        "linear-and-back": (by(lambda x, f: channels_first(f(channels_last(x))), fc()), {}),
        "one-sigmoid": (lambda: nn.Sequential(conv(1), nn.Sigmoid()), dict(classes=1, link="sigmoid", **p)),
        "one-squeezed": (by(lambda x, f: f(x).squeeze(1), conv(1)), dict(classes=1, link="sigmoid", steps=None)),
        "one-selected": (by(lambda x, f: f(x)[:, 0], conv(1)), dict(classes=1, link="sigmoid", steps=None)),
        "two-classes": (lambda: nn.Sequential(conv(2), nn.Softmax(1)), dict(classes=2, **p)),
        "argmax": (by(lambda x, f: f(x).argmax(1)), dict(outputs="class", steps=None)),
        "flattened": (by(lambda x, f: f(x).flatten(2)), {}),
        "flattened-and-turned": (by(lambda x, f: f(x).flatten(2).transpose(1, 2)), dict(last)),
        "patches": (by(lambda x, f: f(x.flatten(2).transpose(1, 2)), fc()), dict(last)),
        "rows": (by(lambda x, f: channels_last(f(x)).reshape(-1, K)), dict(merged=True, **last)),
        "resized-before": (by(lambda x, f: f(F.interpolate(x, scale_factor=2.0))), {}),
        "resized": (by(lambda x, f: F.interpolate(f(x), scale_factor=2.0, mode="bilinear")), resized),
        "resized-nearest": (
            by(lambda x, f: F.interpolate(f(x), scale_factor=2.0)),
            dict(rare, linear=True, refuse="the logits are resized behind the last layer, to the nearest pixel"),
        ),
        "three-by-three": (
            lambda: conv(K, 3),
            dict(rare, features=9 * D, linear=True, refuse="a convolution over several pixels, with padding, is the last layer"),
        ),
        "transposed-conv": (
            lambda: nn.ConvTranspose2d(D, K, 2, 2),
            dict(rare, refuse="a transposed convolution is the last layer: four pixels have weights of their own"),
        ),
        "shuffled": (
            lambda: nn.Sequential(nn.Conv2d(D, 4 * K, 1), nn.PixelShuffle(2)),
            dict(rare, refuse="four pixels of a square come from one, by weights of their own"),
        ),
        "bias-of-each-pixel": (
            lambda: Parameters(lambda x, w, b: F.conv2d(x, w) + b, (K, D, 1, 1), (K, 4, 4)),
            dict(rare, refuse="each pixel has a bias of its own"),
        ),
        "mixed": (by(lambda x, f: f(x).reshape(-1, 4, 4, K)), dict(rare, **last, refuse="a reshape mixes the pixels and the classes")),
        "mirrored": (by(lambda x, f: f(x).flip(3)), {}),
        "two-heads-mean": (by(lambda x, f, g: (f(x) + g(x)) / 2, conv(), conv()), {}),
        "cropped": (by(lambda x, f: f(x)[:, :, 1:3, 1:3]), {}),
        "pooled": (by(lambda x, f: F.avg_pool2d(f(x), 2)), dict(rare, refuse="the logits of four pixels are averaged")),
        "width-first": (by(lambda x, f: f(x).transpose(2, 3)), {}),
        "softmax-over-pixels": (
            by(lambda x, f: f(x).flatten(2).softmax(2).reshape(-1, K, 4, 4)),
            dict(rare, refuse="normalised over the pixels, not over the classes"),
        ),
    }


def cases():
    """name → arguments of plain_case in export_torch.py."""
    torch.manual_seed(2)
    picture = [image("image", (3, 16, 16))]
    out = {}
    for name, (make, more) in sequences().items():
        out["each-step-" + name] = dict(
            make=make, **{"inputs": [tokens("ids", T, V)], "features": D, "classes": K, "dynamic": (0, 1), "steps": -1, **more}
        )
    for name, (head, more) in maps().items():
        out["each-pixel-" + name] = dict(
            make=lambda head=head: Net(head(), False), inputs=picture, **{"features": D, "classes": K, "steps": 1, **more}
        )
    for opset in (11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 23):
        more = dict(features=D, classes=K, opset=opset, exporters=("dynamo",) if opset > 20 else ("torchscript",), outputs="probabilities")
        out[f"each-step-opset{opset}"] = dict(
            make=lambda: Words(lambda x, m, f: f(x * m).softmax(-1), fc()),
            inputs=[tokens("ids", T, V, pad=0), mask("attention_mask", T)],
            dynamic=(0, 1),
            steps=-1,
            **more,
        )
        out[f"each-pixel-opset{opset}"] = dict(
            make=lambda: Net(nn.Sequential(nn.Conv2d(D, K, 1), nn.Softmax(1)), False), inputs=picture, steps=1, **more
        )
    for dtype in torch.float16, torch.float64:
        name = str(dtype).removeprefix("torch.")
        more = dict(features=D, classes=K, steps=-1, dynamic=(0, 1), inputs=[tokens("ids", T, V)])
        more.update(dict(precision="float16") if dtype == torch.float16 else {})
        out[f"each-step-{name}"] = dict(make=lambda dtype=dtype: Words(lambda x, f: f(x.to(dtype)), fc().to(dtype)), **more)
        out[f"each-step-back-from-{name}"] = dict(
            make=lambda dtype=dtype: Words(lambda x, f: f(x.to(dtype)).float().softmax(-1), fc().to(dtype)), outputs="probabilities", **more
        )
    out["each-pixel-unet"] = dict(make=lambda: Decoder(nn.Conv2d(D, K, 1)), inputs=picture, features=D, classes=K, steps=1, dynamic=(0,))
    out["each-voxel"] = dict(
        make=lambda: nn.Sequential(nn.Conv3d(1, D, 3, 2), nn.ReLU(), nn.Conv3d(D, K, 1)),
        inputs=[numbers("volume", [1, 7, 7, 7])],
        features=D,
        classes=K,
        steps=1,
    )
    return out
