"""Exports PaddlePaddle classifiers with paddle2onnx: paddle.vision with random weights, and small networks."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["POLYGRAPHY_AUTOINSTALL_DEPS"] = "0"

from importlib.metadata import version

import numpy as np
import onnxruntime
import paddle
from paddle import nn
from paddle.vision import models

from common import Case, arguments, image, notes, numbers, run, tokens

VERSIONS = {p: version(p) for p in ("paddlepaddle", "paddle2onnx", "onnx")}
D, K = 24, 10
RELU = "ReLU is between the classifier's convolution and the pooling: the logits are not linear in the features"


def classifier(net, classes):
    """The last layer with so many outputs, and the features it reads."""
    layers = [
        m
        for m in net.sublayers()
        if isinstance(m, nn.Linear)
        and m.weight.shape[1] == classes
        or isinstance(m, nn.Conv2D)
        and m.weight.shape[0] == classes
    ]
    head = layers[-1]
    return head, head.weight.shape[0] if isinstance(head, nn.Linear) else int(np.prod(head.weight.shape[1:]))


def statistics(net, x):
    """Sets those of batch normalisation from a batch, so that deep networks keep the scale of their activations."""
    norms = [m for m in net.sublayers() if isinstance(m, (nn.BatchNorm2D, nn.BatchNorm1D, nn.BatchNorm))]
    for m in norms:
        m._momentum = 0.0
        m.train()
    with paddle.no_grad():
        if norms:
            net(x)
    net.eval()


def write(net, folder, specs, opset):
    kinds = [paddle.static.InputSpec([None] + s["shape"], s["dtype"], s["name"]) for s in specs]
    paddle.onnx.export(net, str(folder / "model"), input_spec=kinds, opset_version=opset)
    onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])


def vision(name, size=64, opset=13, tail="", classes=K, refuse="", **more):
    def build(folder):
        paddle.seed(0)
        net = getattr(models, name)(num_classes=classes, **more)
        net.eval()
        spec = image("image", (1 if name == "LeNet" else 3, size, size))
        x = paddle.randn([4] + spec["shape"])
        statistics(net, x)
        head, d = classifier(net, classes)
        out = net(x)
        out = out[0] if isinstance(out, (list, tuple)) else out
        spread = float(out.std())
        with paddle.no_grad():
            head.weight.set_value(head.weight * (2 / max(spread, 1e-6)))
        write(net, folder, [spec], opset)
        return notes(f"PaddlePaddle, paddle2onnx, opset {opset}", [d], classes, [spec], refuse=refuse)

    return Case(f"paddle/{name}{tail}", build)


class Net(nn.Layer):
    """body makes features of an input, head makes the output of them."""

    def __init__(self, body, head):
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x):
        return self.head(self.body(x))


class Apply(nn.Layer):
    """A function of one tensor, and the layers it needs."""

    def __init__(self, f, *layers):
        super().__init__()
        self.layers = nn.LayerList(layers)
        self.f = f

    def forward(self, x):
        return self.f(x, *self.layers)


def pictures():
    return nn.Sequential(
        nn.Conv2D(3, 16, 3, 2, 1),
        nn.BatchNorm2D(16),
        nn.ReLU(),
        nn.Conv2D(16, D, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2D(1),
        nn.Flatten(),
    )


def words():
    return nn.Sequential(nn.Embedding(80, D), nn.Linear(D, D), nn.Tanh(), Apply(lambda x: x.mean(1)))


def own(name, body, head, inputs, features=D, classes=K, opset=13, **more):
    def build(folder):
        paddle.seed(0)
        net = Net(body(), head())
        net.eval()
        write(net, folder, inputs, opset)
        return notes(
            f"PaddlePaddle, paddle2onnx, opset {opset}",
            [features],
            classes,
            inputs,
            **{"outputs": "probabilities", **more},
        )

    return Case(f"paddle/own-{name}", build)


def cases():
    picture, ids, rows = [image("image", (3, 16, 16))], [tokens("ids", 12, 80, low=0)], [numbers("x", [6])]
    softmax = lambda d=D: nn.Sequential(nn.Linear(d, K), nn.Softmax())
    logits = dict(outputs="logits")
    last = lambda x, r: r(x)[0][:, -1]
    out = [
        vision("LeNet", 28),
        vision("alexnet", 224),
        vision("vgg11", 224, batch_norm=True),
        vision("resnet18"),
        vision("resnet34", opset=11),
        vision("resnet50", opset=15),
        vision("resnext50_32x4d"),
        vision("wide_resnet50_2"),
        vision("mobilenet_v1", scale=0.25),
        vision("mobilenet_v1", opset=9, scale=0.5, tail="-half"),
        vision("mobilenet_v2", scale=0.35),
        vision("mobilenet_v2", opset=16, scale=0.5, tail="-half"),
        vision("mobilenet_v3_small", opset=14),
        vision("mobilenet_v3_large"),
        vision("densenet121", opset=12),
        vision("googlenet", 224),
        vision("inception_v3", 128),
        vision("shufflenet_v2_x0_25"),
        vision("shufflenet_v2_x0_33", opset=10),
        vision("shufflenet_v2_x0_5"),
        vision("shufflenet_v2_swish", opset=17),
        vision("squeezenet1_0", 96, refuse=RELU),
        vision("squeezenet1_1", 96, refuse=RELU),
        vision("resnet18", classes=1000, tail="-1000"),
        own("softmax", pictures, softmax, picture),
        own("logits", pictures, lambda: nn.Linear(D, K), picture, **logits),
        own("no-bias", pictures, lambda: nn.Linear(D, K, bias_attr=False), picture, **logits),
        own(
            "log-softmax",
            pictures,
            lambda: nn.Sequential(nn.Linear(D, K), nn.LogSoftmax()),
            picture,
            outputs="log probabilities",
        ),
        own(
            "sigmoid-multilabel",
            pictures,
            lambda: nn.Sequential(nn.Linear(D, K), nn.Sigmoid()),
            picture,
            link="multilabel",
        ),
        own(
            "sigmoid-binary",
            pictures,
            lambda: nn.Sequential(nn.Linear(D, 1), nn.Sigmoid()),
            picture,
            classes=1,
            link="sigmoid",
        ),
        own("two-classes", pictures, lambda: nn.Sequential(nn.Linear(D, 2), nn.Softmax()), picture, classes=2),
        own("dropout", pictures, lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(D, K), nn.Softmax()), picture),
        own("temperature", pictures, lambda: Apply(lambda x, fc: fc(x) / 1.7, nn.Linear(D, K)), picture, **logits),
        own(
            "batch-norm-after",
            pictures,
            lambda: nn.Sequential(nn.Linear(D, K), nn.BatchNorm1D(K), nn.Softmax()),
            picture,
        ),
        own(
            "cosine",
            pictures,
            lambda: Apply(lambda x, fc: 12 * fc(nn.functional.normalize(x)), nn.Linear(D, K, bias_attr=False)),
            picture,
            **logits,
        ),
        own(
            "conv-head",
            lambda: pictures()[:5],
            lambda: nn.Sequential(nn.AdaptiveAvgPool2D(1), nn.Conv2D(D, K, 1), nn.Flatten(), nn.Softmax()),
            picture,
        ),
        own(
            "conv-pool",
            lambda: pictures()[:5],
            lambda: nn.Sequential(nn.Conv2D(D, K, 1), nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Softmax()),
            picture,
        ),
        own("two-linear", pictures, lambda: nn.Sequential(nn.Linear(D, 8), nn.Linear(8, K), nn.Softmax()), picture, 8),
        own(
            "relu-after",
            pictures,
            lambda: nn.Sequential(nn.Linear(D, K), nn.ReLU()),
            picture,
            refuse="ReLU is applied to the logits",
            **logits,
        ),
        own(
            "layer-norm-after",
            pictures,
            lambda: nn.Sequential(nn.Linear(D, K), nn.LayerNorm(K)),
            picture,
            refuse="the logits are divided by their spread",
            **logits,
        ),
        own("words", words, softmax, ids),
        own("words-logits", words, lambda: nn.Linear(D, K), ids, **logits),
        own(
            "words-max",
            lambda: nn.Sequential(nn.Embedding(80, D), nn.Linear(D, D), nn.GELU(), Apply(lambda x: x.max(1))),
            softmax,
            ids,
        ),
        own(
            "words-first",
            lambda: nn.Sequential(
                nn.Embedding(80, D), nn.LayerNorm(D), nn.Linear(D, D), nn.GELU(), Apply(lambda x: x[:, 0])
            ),
            softmax,
            ids,
        ),
        own(
            "words-head-then-mean",
            lambda: nn.Sequential(nn.Embedding(80, D), nn.Linear(D, D), nn.Tanh()),
            lambda: Apply(lambda x, fc: nn.functional.softmax(fc(x).mean(1)), nn.Linear(D, K)),
            ids,
        ),
        own("lstm", lambda: nn.Sequential(nn.Embedding(80, 16), Apply(last, nn.LSTM(16, D))), softmax, ids),
        own("gru", lambda: nn.Sequential(nn.Embedding(80, 16), Apply(last, nn.GRU(16, D))), softmax, ids),
        own(
            "encoder",
            lambda: nn.Sequential(
                nn.Embedding(80, D),
                nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 4, 32, 0.0), 1),
                Apply(lambda x: x.mean(1)),
            ),
            softmax,
            ids,
        ),
        own(
            "conv1d",
            lambda: nn.Sequential(
                Apply(lambda x: x.reshape([-1, 1, 6])), nn.Conv1D(1, D, 3), nn.ReLU(), Apply(lambda x: x.max(2))
            ),
            softmax,
            rows,
        ),
        own("table", lambda: nn.Sequential(nn.Linear(6, D), nn.Hardswish()), softmax, rows),
    ]
    out += [own(f"softmax-opset{n}", pictures, softmax, picture, opset=n) for n in (9, 10, 11, 12, 14, 15, 16, 17)]
    return out + [
        own(f"table-opset{n}", lambda: nn.Sequential(nn.Linear(6, D), nn.Swish()), softmax, rows, opset=n)
        for n in (9, 11, 15, 17)
    ]


if __name__ == "__main__":
    run(cases(), arguments(__doc__), VERSIONS)
