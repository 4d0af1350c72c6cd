"""Exports Keras classifiers with tf2onnx: keras.applications with random weights, and small networks of our own."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

from importlib.metadata import version

import numpy as np
import onnxruntime
import tensorflow as tf  # loaded here and used only in the forked children
import tf2onnx

from check import draw
from common import Case, arguments, image, notes, numbers, run, tokens

VERSIONS = {p: version(p) for p in ("tensorflow-cpu", "keras", "tf2onnx", "onnx")}


def convert(model, folder, opset):
    spec = [tf.TensorSpec([None] + list(i.shape[1:]), i.dtype, name=i.name.split(":")[0]) for i in model.inputs]
    tf2onnx.convert.from_keras(model, spec, opset=opset, output_path=str(folder / "model.onnx"))
    # tf2onnx leaves operators that it cannot translate in the file, and no runtime knows them.
    onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])


def randomise(model, head, spec):
    """Sets the classifier's weights, and statistics of batch normalisation that keep the scale of activations."""
    rng = np.random.default_rng(0)
    w = head.get_weights()
    d = int(np.prod(w[0].shape[:-1]))
    head.set_weights([rng.normal(size=w[0].shape) * d ** -0.5] + [rng.normal(size=b.shape) * 0.3 for b in w[1:]])
    x = tf.constant(draw([spec], 4, rng)[spec["name"]])
    norms = [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
    if norms:
        for layer in norms:
            layer.momentum = 0.0
        model(x, training=True)
    # No trained network is sure of everything to a hundred digits.
    w = head.get_weights()
    features = tf.keras.Model(model.inputs, head.input)(x).numpy().reshape(4, -1, d).mean(1)
    std = (features @ w[0].reshape(d, -1)).std()
    if std > 10:
        head.set_weights([w[0] * (5 / std)] + w[1:])
    return d


def application(
    name, size=96, classes=10, activation="softmax", channels=3, low=-2.0, high=2.0, opset=15, tail=None, **more
):
    def build(folder):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.keras.utils.set_random_seed(0)
        model = getattr(tf.keras.applications, name)(weights=None, input_shape=(size, size, channels), classes=classes,
                                                     classifier_activation=activation, **more)
        # MobileNet's classifier is a convolution of the pooled features.
        head = [m for m in model.layers if isinstance(m, (tf.keras.layers.Dense, tf.keras.layers.Conv2D)) and m.weights[0].shape[-1] == classes][-1]
        spec = image(model.inputs[0].name, (size, size, channels), low, high, channels_last=True)
        d = randomise(model, head, spec)
        convert(model, folder, opset)
        return notes("Keras applications, tf2onnx", [d], classes, [spec],
                     outputs="probabilities" if activation else "logits")
    if tail is None:
        tail = "" if activation else "-logits"
    return Case(f"keras/{name}{tail}" + ("-1000" if classes == 1000 else ""), build)


def own(name, make, inputs, features, classes, opset=15, family="keras", **more):
    def build(folder):
        tf.keras.utils.set_random_seed(0)
        model = make(tf, tf.keras, tf.keras.layers)
        convert(model, folder, opset)
        return notes("Keras, tf2onnx", [features], classes, inputs, **{"outputs": "probabilities", **more})
    return Case(f"keras/{name}" if family == "keras" else f"{family}/{name}/tf2onnx", build)


def small(head, **kw):
    def make(tf, keras, L):
        return keras.Sequential([L.Input((16, 16, 3), name="image"), L.Conv2D(16, 3, 2, activation="relu"), L.Conv2D(24, 3, 2, activation="relu"),
                                 L.GlobalAveragePooling2D(), *head(L)])
    return make


def odd(name, f, classes=10, dense=None, **more):
    """f(tf, z) of the logits z of so many classes, or of the features where dense is 0."""
    def make(tf, keras, L):
        layers = [] if dense == 0 else [L.Dense(dense or classes)]
        return small(lambda L: layers + [L.Lambda(lambda z: f(tf, z))])(tf, keras, L)
    return own(name, make, [image("image", (16, 16, 3), channels_last=True)], 24, classes, family="odd", **more)


def expanded(tf, z):
    """As JAX's own converter to TensorFlow writes softmax: magika's head."""
    m = tf.maximum(tf.constant(-np.inf), tf.reduce_max(z, axis=1))
    e = tf.exp(z - tf.broadcast_to(tf.reshape(m, [-1, 1]), tf.shape(z)))
    return e / tf.broadcast_to(tf.reshape(tf.reduce_sum(e, axis=1), [-1, 1]), tf.shape(z))


def pair(tf, p, reverse):
    return tf.concat([1 - p, p] if reverse else [p, 1 - p], axis=1)


def text(tf, keras, L):
    return keras.Sequential([L.Input((12,), dtype="int32", name="ids"), L.Embedding(80, 24), L.GlobalAveragePooling1D(),
                             L.Dense(20, activation="relu"), L.Dense(4, activation="softmax")])


def recurrent(tf, keras, L):
    return keras.Sequential([L.Input((12,), dtype="int32", name="ids"), L.Embedding(80, 16), L.Bidirectional(L.LSTM(12)), L.Dense(4, activation="softmax")])


def table(tf, keras, L):
    a, b = L.Input((6,), name="numbers"), L.Input((3,), name="more")
    x = L.Dense(16, activation="gelu")(L.Concatenate()([L.BatchNormalization()(a), b]))
    return keras.Model([a, b], L.Dense(3, activation="softmax")(x))


def attention(tf, keras, L):
    ids = L.Input((12,), dtype="int64", name="ids")
    x = L.Embedding(80, 24)(ids)
    x = L.LayerNormalization()(x + L.MultiHeadAttention(2, 12)(x, x))
    return keras.Model(ids, L.Softmax()(L.Dense(5)(L.GlobalMaxPooling1D()(x))))


def convolutional(tf, keras, L):
    return keras.Sequential([L.Input((16, 16, 3), name="image"), L.Conv2D(16, 3, 2, activation="relu"), L.Conv2D(24, 3, 2, activation="relu"),
                             L.Conv2D(10, 1), L.GlobalAveragePooling2D(), L.Softmax()])


def bodies():
    """name → a body of pictures 16 x 16 x 3 that ends in features, and how many."""

    def body(*layers):
        return lambda L: [layer(L) for layer in layers]

    conv = lambda d=16, k=3, s=2, **kw: lambda L: L.Conv2D(d, k, s, activation="relu", **kw)
    average, most = lambda L: L.GlobalAveragePooling2D(), lambda L: L.GlobalMaxPooling2D()
    flat, norm, dense = (
        lambda L: L.Flatten(),
        lambda L: L.BatchNormalization(),
        lambda d: lambda L: L.Dense(d, activation="relu"),
    )
    return {
        "max-pool": (body(conv(), conv(24), most), 24),
        "max-pool-flatten": (body(conv(8), lambda L: L.MaxPooling2D(), flat), 72),
        "average-pool-flatten": (body(conv(8), lambda L: L.AveragePooling2D(7), flat), 8),
        "separable": (body(conv(), lambda L: L.SeparableConv2D(24, 3, activation="swish"), average), 24),
        "depthwise": (body(lambda L: L.DepthwiseConv2D(3, 2, depth_multiplier=4), lambda L: L.ReLU(6.0), average), 12),
        "transposed": (body(conv(8), lambda L: L.Conv2DTranspose(12, 3, activation="elu"), average), 12),
        "norm-first": (body(norm, conv(), average, norm), 16),
        "layer-norm": (body(conv(), average, lambda L: L.LayerNormalization()), 16),
        "group-norm": (body(conv(), lambda L: L.GroupNormalization(4), average), 16),
        "unit-norm": (body(conv(), average, lambda L: L.UnitNormalization()), 16),
        "prelu": (body(lambda L: L.Conv2D(16, 3, 2), lambda L: L.PReLU(), average), 16),
        "leaky": (body(lambda L: L.Conv2D(16, 3, 2), lambda L: L.LeakyReLU(), average), 16),
        "selu-dropout": (
            body(
                lambda L: L.Conv2D(16, 3, 2, activation="selu"),
                average,
                lambda L: L.AlphaDropout(0.2),
                lambda L: L.Dropout(0.5),
            ),
            16,
        ),
        "dilated": (body(conv(16, 3, 1, dilation_rate=2), average), 16),
        "dense-norm": (body(flat, dense(20), norm), 20),
        "hidden": (body(conv(8), flat, dense(20), dense(12)), 12),
        "rescaled": (body(lambda L: L.Rescaling(0.5, offset=0.1), conv(), average), 16),
        "padded": (body(lambda L: L.ZeroPadding2D(), lambda L: L.Cropping2D(2), conv(), average), 16),
        "upsampled": (body(conv(8), lambda L: L.UpSampling2D(2), conv(12), average), 12),
        "kept-axes": (body(conv(), lambda L: L.GlobalAveragePooling2D(keepdims=True), flat), 16),
        "permuted": (body(lambda L: L.Permute((2, 1, 3)), conv(), average), 16),
        "reshaped": (body(conv(8), lambda L: L.Reshape((-1, 8)), lambda L: L.GlobalAveragePooling1D()), 8),
        "rows-lstm": (body(lambda L: L.Reshape((16, 48)), lambda L: L.LSTM(14)), 14),
        "rows-conv": (
            body(
                lambda L: L.Reshape((16, 48)),
                lambda L: L.Conv1D(14, 3, activation="relu"),
                lambda L: L.GlobalMaxPooling1D(),
            ),
            14,
        ),
    }


def sequences():
    """name → layers from embedded words to features, and how many."""
    return {
        "gru": (lambda L: [L.GRU(12)], 12),
        "gru-old-reset": (lambda L: [L.GRU(12, reset_after=False)], 12),
        "simple-rnn": (lambda L: [L.SimpleRNN(12)], 12),
        "two-lstm": (lambda L: [L.LSTM(12, return_sequences=True), L.LSTM(10)], 10),
        "bi-gru-sum": (lambda L: [L.Bidirectional(L.GRU(12), merge_mode="sum")], 12),
        "bi-lstm-max": (lambda L: [L.Bidirectional(L.LSTM(8, return_sequences=True)), L.GlobalMaxPooling1D()], 16),
        "conv": (lambda L: [L.Conv1D(14, 3, activation="relu"), L.GlobalMaxPooling1D()], 14),
        "causal": (
            lambda L: [
                L.Conv1D(14, 3, padding="causal", dilation_rate=2, activation="relu"),
                L.GlobalAveragePooling1D(),
            ],
            14,
        ),
        "flat": (lambda L: [L.Flatten()], 192),
        "steps-dense": (lambda L: [L.TimeDistributed(L.Dense(9, activation="tanh")), L.GlobalAveragePooling1D()], 9),
    }


def heads():
    """name → layers after 24 features, and what the outputs are: widths, classes and links."""
    return {
        "temperature": (lambda tf, L: [L.Dense(10), L.Lambda(lambda z: z / 1.7), L.Softmax()], {}),
        "weights-normalised": (
            lambda tf, L: [
                L.UnitNormalization(),
                L.Dense(10, use_bias=False),
                L.Lambda(lambda z: 8.0 * z),
                L.Softmax(),
            ],
            {},
        ),
        "log-softmax": (
            lambda tf, L: (
                [L.Dense(10, activation="log_softmax")]
                if hasattr(tf.keras.activations, "log_softmax")
                else [L.Dense(10), L.Lambda(tf.nn.log_softmax)]
            ),
            dict(outputs="log probabilities"),
        ),
        "norm-after": (lambda tf, L: [L.Dense(10), L.BatchNormalization(), L.Softmax()], {}),
        "norm-after-logits": (lambda tf, L: [L.Dense(10), L.BatchNormalization()], dict(outputs="logits")),
        "two-dense": (lambda tf, L: [L.Dense(8), L.Dense(10, activation="softmax")], dict(features=[8])),
        "reshaped": (lambda tf, L: [L.Reshape((1, 1, 24)), L.Conv2D(10, 1), L.Flatten(), L.Softmax()], {}),
        "reshaped-activation": (
            lambda tf, L: [L.Reshape((1, 1, 24)), L.Conv2D(10, 1), L.Reshape((10,)), L.Activation("softmax")],
            {},
        ),
        "dropout-activation": (
            lambda tf, L: [L.Dropout(0.5), L.Dense(10), L.Activation("softmax", dtype="float32")],
            {},
        ),
        "sigmoid-ten": (lambda tf, L: [L.Dense(10), L.Activation("sigmoid")], dict(link="multilabel")),
        "one-logit": (lambda tf, L: [L.Dense(1)], dict(classes=1, link="sigmoid", outputs="logits")),
        "two-classes": (lambda tf, L: [L.Dense(2, activation="softmax")], dict(classes=2)),
        "hard-sigmoid": (
            lambda tf, L: [L.Dense(10, activation="hard_sigmoid")],
            dict(link="multilabel", refuse="clipped lines, and not sigmoids"),
        ),
        "tanh": (
            lambda tf, L: [L.Dense(10, activation="tanh")],
            dict(outputs="logits", refuse="tanh is applied to the logits"),
        ),
        "softplus": (
            lambda tf, L: [L.Dense(10, activation="softplus")],
            dict(outputs="logits", refuse="softplus is applied to the logits"),
        ),
        "float64": (
            lambda tf, L: [
                L.Lambda(lambda z: tf.cast(z, tf.float64)),
                L.Dense(10, activation="softmax", dtype="float64"),
            ],
            {},
        ),
    }


def more():
    """Other bodies, heads and operator sets; larger networks of keras.applications in other widths."""
    picture, ids = [image("image", (16, 16, 3), channels_last=True)], [tokens("ids", 12, 80, dtype="int32", low=0)]
    out = []
    for n, (name, (layers, d)) in enumerate(bodies().items()):

        def make(tf, keras, L, layers=layers):
            return keras.Sequential([L.Input((16, 16, 3), name="image"), *layers(L), L.Dense(10, activation="softmax")])

        out.append(own("body-" + name, make, picture, d, 10, opset=(11, 13, 15, 17, 18)[n % 5]))
    for n, (name, (layers, d)) in enumerate(sequences().items()):

        def make(tf, keras, L, layers=layers):
            return keras.Sequential(
                [
                    L.Input((12,), dtype="int32", name="ids"),
                    L.Embedding(80, 16),
                    *layers(L),
                    L.Dense(4, activation="softmax"),
                ]
            )

        out.append(own("text-" + name, make, ids, d, 4, opset=(13, 15, 17)[n % 3]))
    for n, (name, (layers, notes)) in enumerate(heads().items()):

        def make(tf, keras, L, layers=layers):
            return small(lambda L: layers(tf, L))(tf, keras, L)

        notes = dict(notes)
        d, k = notes.pop("features", [24]), notes.pop("classes", 10)
        out.append(own("head-" + name, make, picture, d[0], k, opset=(12, 14, 16, 18)[n % 4], **notes))
    for opset in (10, 11, 12, 13, 14, 16, 17):
        out.append(
            own(
                f"softmax-opset{opset}",
                small(lambda L: [L.Dense(10, activation="softmax")]),
                picture,
                24,
                10,
                opset=opset,
            )
        )
        out.append(own(f"conv-pool-softmax-opset{opset}", convolutional, picture, 24, 10, opset=opset))
    out += [
        application(name, tail=tail, **options)
        for name, tail, options in (
            ("MobileNet", "-quarter", dict(size=64, alpha=0.25)),
            ("MobileNetV2", "-third", dict(size=64, alpha=0.35)),
            ("MobileNetV3Small", "-minimal", dict(size=64, minimalistic=True, low=0, high=255)),
            ("MobileNetV3Large", "-minimal-logits", dict(size=64, minimalistic=True, low=0, high=255, activation=None)),
            ("EfficientNetB1", "", dict(size=64, low=0, high=255)),
            ("EfficientNetV2B1", "", dict(size=64, low=0, high=255)),
            ("ResNet50", "-logits", dict(size=64, activation=None)),
            ("MobileNet", "-dropout", dict(size=64, alpha=0.5, dropout=0.3, activation=None)),
            ("DenseNet121", "-logits", dict(size=64, activation=None)),
            ("Xception", "-logits", dict(size=80, activation=None)),
        )
    ]
    return out


def cases():
    return first_cases() + more()


def first_cases():
    picture = [image("image", (16, 16, 3), channels_last=True)]
    return [
        own("softmax", small(lambda L: [L.Dense(10, activation="softmax")]), picture, 24, 10),
        own("softmax-opset9", small(lambda L: [L.Dense(10, activation="softmax")]), picture, 24, 10, opset=9),
        own("softmax-opset18", small(lambda L: [L.Dense(10, activation="softmax")]), picture, 24, 10, opset=18),
        own("logits", small(lambda L: [L.Dense(10)]), picture, 24, 10, outputs="logits"),
        own("no-bias", small(lambda L: [L.Dense(10, use_bias=False), L.Softmax()]), picture, 24, 10),
        own("sigmoid-binary", small(lambda L: [L.Dense(1, activation="sigmoid")]), picture, 24, 1, link="sigmoid"),
        own("sigmoid-multilabel", small(lambda L: [L.Dense(6, activation="sigmoid")]), picture, 24, 6, link="multilabel"),
        own("conv-pool-softmax", convolutional, picture, 24, 10),
        own("flatten", lambda tf, keras, L: keras.Sequential([L.Input((16, 16, 3), name="image"), L.Conv2D(8, 3, 2, activation="relu"), L.Flatten(),
            L.Dense(10, activation="softmax")]), picture, 392, 10),
        own("text-average", text, [tokens("ids", 12, 80, dtype="int32", low=0)], 20, 4),
        own("text-lstm", recurrent, [tokens("ids", 12, 80, dtype="int32", low=0)], 24, 4),
        own("text-attention", attention, [tokens("ids", 12, 80, low=0)], 24, 5),
        own("two-tables", table, [numbers("numbers", [6]), numbers("more", [3])], 16, 3),
        odd("softmax-expanded", expanded),
        odd("concat-1-p-p", lambda tf, z: pair(tf, tf.sigmoid(z), True), 2, 1, classes_too=1),
        application("MobileNet"),
        application("MobileNetV2"),
        application("MobileNetV2", activation=None),
        application("MobileNetV2", classes=1000),
        application("MobileNetV3Small", low=0, high=255),
        application("MobileNetV3Large", low=0, high=255),
        application("EfficientNetB0", low=0, high=255),
        application("EfficientNetV2B0", low=0, high=255),
        application("DenseNet121"),
        application("NASNetMobile", size=224),
        application("ResNet50"),
        application("ResNet50V2"),
        application("Xception"),
        application("InceptionV3"),
        application("ConvNeXtTiny", low=0, high=255),
        application("RegNetX002", low=0, high=255),
        application("RegNetY004", low=0, high=255),
        application("ResNetRS50", size=64, low=0, high=255),
        application("VGG16", size=48, low=-120, high=130),
        application("VGG19", size=48, low=-120, high=130),
    ]


if __name__ == "__main__":
    run(cases(), arguments(__doc__), VERSIONS)
