"""Exports small JAX and Flax classifiers with jax2onnx."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from importlib.metadata import version

import numpy as np
import onnx
import onnxruntime

from common import Case, arguments, notes, numbers, run

# JAX's threads do not survive a fork, so each case loads it.
VERSIONS = {p: version(p) for p in ("jax", "flax", "jax2onnx", "onnx")}
X, D, K = 6, 24, 10


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


def cases():
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
