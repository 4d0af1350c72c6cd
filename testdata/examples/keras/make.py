#!/usr/bin/env python3
"""Trains the Keras network of docs/tutorials/vendor.md and exports it to ONNX.

A convolutional network of the usual kind on the digits of models/digits-mlp,
whose README tells what they are: Adam with Keras's settings, batches of 32, 300
epochs on the first 400 digits, pixels x/255, no augmentation. The softmax is
part of the network, as in Keras's own examples, and the images are NHWC.

    python3 make.py

Half a minute on one core. Writes model.onnx beside this file. The weights are those
after the last epoch; the figures printed at the end are only printed.
"""

import gzip
import os

os.environ["TF_DETERMINISTIC_OPS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras  # noqa: E402 (reads what was set above)
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tf2onnx  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(HERE, "..", "..", "..", "models", "digits-mlp")
PARTS = {"train": slice(0, 400), "val": slice(400, 800), "test": slice(800, 1797)}


def read_idx(name, header):
    with gzip.open(os.path.join(DIGITS, name), "rb") as f:
        return np.frombuffer(f.read(), np.uint8, offset=header)


def main():
    keras.utils.set_random_seed(0)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    x = read_idx("digits-images-idx3-ubyte.gz", 16).reshape(-1, 8, 8, 1).astype(np.float32) / 255
    y = read_idx("digits-labels-idx1-ubyte.gz", 8)

    net = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    train = PARTS["train"]
    net.fit(x[train], y[train], batch_size=32, epochs=300, verbose=0)
    for name, part in PARTS.items():
        nll, accuracy = net.evaluate(x[part], y[part], verbose=0)
        print(f"{name}: error {1 - accuracy:.4f}, NLL {nll:.4g}")
    tf2onnx.convert.from_keras(net, opset=13, output_path=os.path.join(HERE, "model.onnx"))


if __name__ == "__main__":
    main()
