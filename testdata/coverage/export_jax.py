"""Exports small JAX and Flax classifiers with jax2onnx."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from importlib.metadata import version

import numpy as np
import onnx
import onnxruntime

from common import Case, arguments, image, notes, numbers, run

# JAX's threads do not survive a fork, so each case loads it.
VERSIONS = {p: version(p) for p in ("jax", "flax", "jax2onnx", "onnx")}
X, D, K = 6, 24, 10


def exporter():
    """jax2onnx, which looks for a class under the name that it had before jax 0.12."""
    import jax.extend.core

    jax._src.core.ClosedJaxpr = jax.extend.core.ClosedJaxpr
    from jax2onnx import to_onnx

    return to_onnx


def draw(*shape, scale=0.3):
    import jax.numpy as jnp
    return jnp.asarray(np.random.default_rng(9 + sum(shape)).normal(size=shape) * scale, jnp.float32)


def case(name, f, classes=K, **more):
    """f computes the output from jax, jax.numpy, features [N,D] and a function that returns logits of so many classes."""
    def build(folder):
        import jax
        from jax2onnx import to_onnx

        def model(x):
            return f(jax, jax.numpy, jax.nn.relu(x @ draw(X, D, scale=0.5)), lambda phi, k=classes: phi @ draw(D, k) + draw(k))
        onnx.save(to_onnx(model, [("B", X)]), str(folder / "model.onnx"))
        session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
        return notes("JAX, jax2onnx", [D], classes, [numbers(session.get_inputs()[0].name, [X])], **{"outputs": "probabilities", **more})
    return Case(f"odd/{name}/jax2onnx", build)


def flax(folder):
    from flax import nnx
    from jax2onnx import to_onnx

    class Network(nnx.Module):
        def __init__(self, rngs):
            self.a, self.norm, self.b = nnx.Linear(X, D, rngs=rngs), nnx.LayerNorm(D, rngs=rngs), nnx.Linear(D, K, rngs=rngs)

        def __call__(self, x):
            return nnx.softmax(self.b(self.norm(nnx.gelu(self.a(x)))))

    onnx.save(to_onnx(Network(nnx.Rngs(0)), [("B", X)]), str(folder / "model.onnx"))
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    return notes("Flax, jax2onnx", [D], K, [numbers(session.get_inputs()[0].name, [X])], outputs="probabilities")


def by_hand(jax, jnp, z):
    e = jnp.exp(z - jax.lax.stop_gradient(jnp.max(z, axis=-1, keepdims=True)))
    return e / jnp.sum(e, axis=-1, keepdims=True)


def logsumexp(jax, jnp, z):
    return jnp.exp(z - jax.nn.logsumexp(z, axis=-1, keepdims=True))


def pair(jnp, p, reverse=False):
    """p and 1 − p, or the other way round."""
    return jnp.concatenate([1 - p, p] if reverse else [p, 1 - p], axis=1)


def initialised(jnp, z):
    """As jax.nn.softmax lowers it: the maximum with the neutral element of the reduction."""
    m = jnp.maximum(-jnp.inf, jnp.max(z, axis=-1))
    e = jnp.exp(z - jnp.broadcast_to(m[:, None], z.shape))
    return e / jnp.broadcast_to(jnp.sum(e, axis=-1)[:, None], z.shape)


# Flax networks. Their features are made from a picture 12 x 12 x 3, from numbers, or from eight steps of six numbers.

PICTURE, STEPS = (12, 12, 3), (8, X)


def network(name, shape, layers, head, classes=K, features=D, opset=None, **more):
    """layers(nnx, rngs) and head(nnx, rngs, jax, jnp) are functions, applied one after the other."""

    def build(folder):
        to_onnx = exporter()
        import jax
        from flax import nnx

        rngs = nnx.Rngs(0)
        first, last = layers(nnx, rngs, jax, jax.numpy), head(nnx, rngs, jax, jax.numpy)

        class Network(nnx.Module):
            def __init__(self):
                self.first, self.last = nnx.List(first), nnx.List(last)

            def __call__(self, x):
                for f in (*self.first, *self.last):
                    x = f(x)
                return x

        model = Network()
        model.eval()
        onnx.save(to_onnx(model, [("B", *shape)], **({"opset": opset} if opset else {})), str(folder / "model.onnx"))
        session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
        x = session.get_inputs()[0].name
        spec = image(x, shape, channels_last=True) if shape == PICTURE else numbers(x, shape)
        return notes(
            "Flax, jax2onnx" + (f", opset {opset}" if opset else ""),
            [features],
            classes,
            [spec],
            **{"outputs": "probabilities", **more},
        )

    return Case(f"jax/{name}", build)


def bodies():
    """name → shape of an example, layers to features, and how many."""

    def conv(nnx, r, i, o, **kw):
        return nnx.Conv(i, o, (3, 3), strides=2, rngs=r, **kw)

    average = lambda jnp: lambda x: jnp.mean(x, axis=(1, 2))
    return {
        "mlp": (
            [X],
            lambda nnx, r, jax, jnp: [nnx.Linear(X, 30, rngs=r), nnx.tanh, nnx.Linear(30, D, rngs=r), nnx.relu],
            D,
        ),
        "mlp-batch-norm": (
            [X],
            lambda nnx, r, jax, jnp: [nnx.Linear(X, D, rngs=r), nnx.BatchNorm(D, rngs=r), nnx.silu],
            D,
        ),
        "mlp-rms-norm": ([X], lambda nnx, r, jax, jnp: [nnx.Linear(X, D, rngs=r), nnx.RMSNorm(D, rngs=r), nnx.gelu], D),
        "mlp-dropout": (
            [X],
            lambda nnx, r, jax, jnp: [nnx.Linear(X, D, rngs=r), nnx.leaky_relu, nnx.Dropout(0.2, rngs=r)],
            D,
        ),
        "mlp-elu": ([X], lambda nnx, r, jax, jnp: [nnx.Linear(X, 9, rngs=r), nnx.elu], 9),
        "mlp-softplus": ([X], lambda nnx, r, jax, jnp: [nnx.Linear(X, 9, rngs=r), nnx.softplus], 9),
        "mlp-no-bias": ([X], lambda nnx, r, jax, jnp: [nnx.Linear(X, D, use_bias=False, rngs=r), nnx.sigmoid], D),
        "conv-average": (
            PICTURE,
            lambda nnx, r, jax, jnp: [conv(nnx, r, 3, 8), nnx.relu, conv(nnx, r, 8, 16), nnx.relu, average(jnp)],
            16,
        ),
        "conv-flat": (
            PICTURE,
            lambda nnx, r, jax, jnp: [conv(nnx, r, 3, 8), nnx.relu, lambda x: x.reshape(x.shape[0], -1)],
            288,
        ),
        "conv-max": (
            PICTURE,
            lambda nnx, r, jax, jnp: [conv(nnx, r, 3, 8), nnx.relu, lambda x: jnp.max(x, axis=(1, 2))],
            8,
        ),
        "conv-pools": (
            PICTURE,
            lambda nnx, r, jax, jnp: [
                conv(nnx, r, 3, 8),
                nnx.relu,
                lambda x: nnx.max_pool(x, window_shape=(2, 2), strides=(2, 2)),
                lambda x: nnx.avg_pool(x, window_shape=(3, 3)),
                lambda x: x.reshape(x.shape[0], -1),
            ],
            8,
        ),
        "conv-norm": (
            PICTURE,
            lambda nnx, r, jax, jnp: [conv(nnx, r, 3, 8), nnx.BatchNorm(8, rngs=r), nnx.relu, average(jnp)],
            8,
        ),
        "conv-group-norm": (
            PICTURE,
            lambda nnx, r, jax, jnp: [
                conv(nnx, r, 3, 8),
                nnx.GroupNorm(8, num_groups=4, rngs=r),
                nnx.swish,
                average(jnp),
            ],
            8,
        ),
        "steps-mean": (
            STEPS,
            lambda nnx, r, jax, jnp: [nnx.Linear(X, D, rngs=r), nnx.gelu, lambda x: jnp.mean(x, axis=1)],
            D,
        ),
        "steps-first": (
            STEPS,
            lambda nnx, r, jax, jnp: [nnx.Linear(X, D, rngs=r), nnx.LayerNorm(D, rngs=r), lambda x: x[:, 0]],
            D,
        ),
        "steps-last": (STEPS, lambda nnx, r, jax, jnp: [nnx.Linear(X, D, rngs=r), nnx.tanh, lambda x: x[:, -1, :]], D),
        "steps-attention": (
            STEPS,
            lambda nnx, r, jax, jnp: [
                nnx.Linear(X, D, rngs=r),
                nnx.MultiHeadAttention(num_heads=4, in_features=D, decode=False, rngs=r),
                lambda x: jnp.max(x, axis=1),
            ],
            D,
        ),
        "steps-conv": (
            STEPS,
            lambda nnx, r, jax, jnp: [nnx.Conv(X, 14, (3,), rngs=r), nnx.relu, lambda x: jnp.mean(x, axis=1)],
            14,
        ),
        "steps-flat": (
            STEPS,
            lambda nnx, r, jax, jnp: [nnx.Linear(X, 5, rngs=r), nnx.relu, lambda x: x.reshape(x.shape[0], -1)],
            40,
        ),
    }


def heads():
    """name → layers from D features to the output, and notes."""
    logits = dict(outputs="logits")
    fc = lambda nnx, r, k=K, **kw: nnx.Linear(D, k, rngs=r, **kw)
    return {
        "logits": (lambda nnx, r, jax, jnp: [fc(nnx, r)], logits),
        "logits-no-bias": (lambda nnx, r, jax, jnp: [fc(nnx, r, use_bias=False)], logits),
        "logits-scaled": (lambda nnx, r, jax, jnp: [fc(nnx, r), lambda z: z / 1.7], logits),
        "log-softmax": (lambda nnx, r, jax, jnp: [fc(nnx, r), nnx.log_softmax], dict(outputs="log probabilities")),
        "sigmoid-multilabel": (lambda nnx, r, jax, jnp: [fc(nnx, r), nnx.sigmoid], dict(link="multilabel")),
        "one-logit": (lambda nnx, r, jax, jnp: [fc(nnx, r, 1)], dict(classes=1, link="sigmoid", **logits)),
        "sigmoid-binary": (lambda nnx, r, jax, jnp: [fc(nnx, r, 1), nnx.sigmoid], dict(classes=1, link="sigmoid")),
        "two-classes": (lambda nnx, r, jax, jnp: [fc(nnx, r, 2), nnx.softmax], dict(classes=2)),
        "cosine": (
            lambda nnx, r, jax, jnp: [
                lambda x: x / (jnp.linalg.norm(x, axis=-1, keepdims=True) + 1e-6),
                fc(nnx, r, use_bias=False),
                lambda z: 12 * z,
            ],
            logits,
        ),
        "general": (
            lambda nnx, r, jax, jnp: [
                nnx.LinearGeneral(D, (2, 5), rngs=r),
                lambda z: z.reshape(z.shape[0], K),
                nnx.softmax,
            ],
            {},
        ),
        "einsum": (lambda nnx, r, jax, jnp: [nnx.Einsum("bd,dk->bk", (D, K), (K,), rngs=r), nnx.softmax], {}),
        "bilinear": (lambda nnx, r, jax, jnp: [lambda x: jnp.einsum("bd,kd->bk", x, draw(K, D)), nnx.softmax], {}),
        "argmax-softcap": (
            lambda nnx, r, jax, jnp: [fc(nnx, r), lambda z: 5 * jnp.tanh(z / 5)],
            dict(refuse="tanh is applied to the logits", **logits),
        ),
        "squared": (
            lambda nnx, r, jax, jnp: [fc(nnx, r), lambda z: z * z],
            dict(refuse="the logits are squared", **logits),
        ),
        "normalised-after": (
            lambda nnx, r, jax, jnp: [fc(nnx, r), nnx.LayerNorm(K, rngs=r)],
            dict(refuse="the logits are divided by their spread", **logits),
        ),
        "batch-norm-after": (lambda nnx, r, jax, jnp: [fc(nnx, r), nnx.BatchNorm(K, rngs=r)], logits),
    }


def networks():
    softmax = lambda d: lambda nnx, r, jax, jnp: [nnx.Linear(d, K, rngs=r), nnx.softmax]
    out = [
        network("body-" + name, shape, layers, softmax(d), features=d) for name, (shape, layers, d) in bodies().items()
    ]
    shape, layers, d = bodies()["mlp"]
    out += [network("head-" + name, shape, layers, head, **more) for name, (head, more) in heads().items()]
    out += [network(f"opset{opset}", shape, layers, softmax(d), opset=opset) for opset in (21, 22, 23)]
    shape, layers, d = bodies()["steps-mean"]
    return out + [network(f"steps-opset{opset}", shape, layers, softmax(d), opset=opset) for opset in (21, 22)]


def cases():
    return small_cases() + networks()


def small_cases():
    c = np.asarray(np.random.default_rng(1).normal(size=(K, D)) * 0.4, np.float32)
    two = dict(classes=2, classes_too=1)
    return [
        Case("odd/flax-softmax/jax2onnx", flax),
        case("softmax", lambda jax, jnp, phi, fc: jax.nn.softmax(fc(phi))),
        case("softmax-by-hand", lambda jax, jnp, phi, fc: by_hand(jax, jnp, fc(phi))),
        case("softmax-expanded", lambda jax, jnp, phi, fc: initialised(jnp, fc(phi))),
        case("softmax-logsumexp", lambda jax, jnp, phi, fc: logsumexp(jax, jnp, fc(phi))),
        case("log-softmax", lambda jax, jnp, phi, fc: jax.nn.log_softmax(fc(phi)), outputs="log probabilities"),
        case("concat-1-p-p", lambda jax, jnp, phi, fc: pair(jnp, jax.nn.sigmoid(fc(phi, 1)), True), **two),
    ]


if __name__ == "__main__":
    run(cases(), arguments(__doc__), VERSIONS)
