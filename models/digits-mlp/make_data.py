#!/usr/bin/env python3
"""Writes the data of this folder: real digits, and out-of-distribution images.

    python3 make_data.py

digits-images-idx3-ubyte.gz, digits-labels-idx1-ubyte.gz
    The 1,797 handwritten digits of scikit-learn, shuffled once.
    [0:1200] is for training, [1200:1500] for validation, [1500:1797] for testing.
drawings-images-idx3-ubyte.gz, drawings-names.txt
    600 out-of-distribution images of the same shape, and their names, one per
    line. [0:300] is for validation, [300:600] for testing; each half is 200
    letters, 50 inverted digits and 50 scrambled ones. The halves share no
    letter and no digit.

Pixels are stored as round(v * 255 / 16) for the original v in 0..16, so that
the usual x/255 is v/16 within 0.002; round(x * 16 / 255) recovers v.
"""

import gzip
import os
import struct

import numpy as np
from sklearn.datasets import load_digits

HERE = os.path.dirname(os.path.abspath(__file__))
LEVELS = 16  # grey levels of the original, besides 0
TUNE, TEST = slice(1200, 1500), slice(1500, 1797)
VARIANTS = 25  # drawings of each letter
CHANGED = 50  # inverted digits in each half, and as many scrambled ones

# Capital letters as pen strokes, each a polyline of x,y points in a unit box
# with y pointing down. Letters that resemble digits (B, D, G, I, J, O, Q, S, Y, Z)
# are left out.
TUNING_LETTERS = {
    "A": "0,1 .5,0 1,1; .2,.62 .8,.62",
    "C": "1,.2 .75,.03 .4,.03 .1,.25 0,.5 .1,.78 .4,.97 .75,.97 1,.8",
    "F": "1,0 0,0 0,1; 0,.47 .75,.47",
    "K": "0,0 0,1; .95,0 .05,.55 1,1",
    "M": "0,1 .08,0 .5,.6 .92,0 1,1",
    "P": "0,1 0,0 .65,0 .95,.12 .95,.38 .65,.52 0,.52",
    "T": "0,0 1,0; .5,0 .5,1",
    "V": "0,0 .5,1 1,0",
}
TEST_LETTERS = {
    "E": "1,0 0,0 0,1 1,1; 0,.5 .75,.5",
    "H": "0,0 0,1; 1,0 1,1; 0,.5 1,.5",
    "L": "0,0 0,1 1,1",
    "N": "0,1 0,0 1,1 1,0",
    "R": "0,1 0,0 .65,0 .95,.12 .95,.36 .65,.5 0,.5; .5,.5 1,1",
    "U": "0,0 0,.65 .2,.92 .5,1 .8,.92 1,.65 1,0",
    "W": "0,0 .25,1 .5,.35 .75,1 1,0",
    "X": "0,0 1,1; 1,0 0,1",
}


def segments(strokes):
    """Parses strokes into line segments [S,2,2] of (x, y) ends."""
    lines = []
    for stroke in strokes.split(";"):
        points = [tuple(map(float, p.split(","))) for p in stroke.split()]
        lines += zip(points, points[1:])
    return np.array(lines)


def draw(strokes, random):
    """Draws a letter in the format of the digits: 32x32 bits, counted in 4x4 blocks.

    Slant, width, pen and jitter vary. Like the digits, it fills the height and is
    centred.
    """
    lines = segments(strokes)
    corners, index = np.unique(lines.reshape(-1, 2), axis=0, return_inverse=True)
    corners = corners + random.normal(0, 0.05, corners.shape)
    corners[:, 0] += random.uniform(-0.3, 0.3) * (1 - corners[:, 1])  # slant
    corners[:, 0] -= corners[:, 0].min()
    corners[:, 1] -= corners[:, 1].min()
    corners /= corners.max(axis=0)

    radius = random.uniform(1.8, 2.8)
    width = random.uniform(15, 24) - 2 * radius
    height = 32 - 2 * radius
    corners *= width, height
    corners += (32 - width) / 2, radius
    lines = corners[index.ravel()].reshape(-1, 2, 2)

    y, x = np.mgrid[0:32, 0:32] + 0.5
    ink = np.zeros((32, 32), bool)
    for a, b in lines:
        along = b - a
        t = ((x - a[0]) * along[0] + (y - a[1]) * along[1]) / max(along @ along, 1e-9)
        t = np.clip(t, 0, 1)
        ink |= np.hypot(x - a[0] - t * along[0], y - a[1] - t * along[1]) <= radius
    return ink.reshape(8, 4, 8, 4).sum(axis=(1, 3))


def letters(alphabet, random):
    images = [draw(alphabet[c], random) for c in alphabet for _ in range(VARIANTS)]
    return np.array(images), [f"letter {c}" for c in alphabet for _ in range(VARIANTS)]


def inverted(images, labels):
    return LEVELS - images, [f"inverted {label}" for label in labels]


def scrambled(images, labels, random):
    """Each image with its pixels permuted."""
    shuffled = [random.permutation(image.ravel()).reshape(8, 8) for image in images]
    return np.array(shuffled), [f"scrambled {label}" for label in labels]


def write_gz(name, data):
    # Reproducible: no time stamp and no name.
    with open(os.path.join(HERE, name), "wb") as f:
        with gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
            z.write(data)


def write_images(name, levels):
    assert levels.min() >= 0 and levels.max() <= LEVELS
    pixels = np.rint(levels * (255 / LEVELS)).astype(np.uint8)
    write_gz(name, struct.pack(">HBB3I", 0, 0x08, 3, *pixels.shape) + pixels.tobytes())


def main():
    digits = load_digits()
    images, labels = digits.images.astype(int), digits.target
    # RandomState, because NumPy guarantees its streams.
    order = np.random.RandomState(0).permutation(len(images))
    images, labels = images[order], labels[order]
    write_images("digits-images-idx3-ubyte.gz", images)
    write_gz(
        "digits-labels-idx1-ubyte.gz",
        struct.pack(">HBBI", 0, 0x08, 1, len(labels)) + labels.astype(np.uint8).tobytes(),
    )

    random = np.random.RandomState(1)
    parts = []
    for alphabet, half in ((TUNING_LETTERS, TUNE), (TEST_LETTERS, TEST)):
        x, y = images[half], labels[half]
        parts.append(letters(alphabet, random))
        parts.append(inverted(x[:CHANGED], y[:CHANGED]))
        parts.append(scrambled(x[CHANGED : 2 * CHANGED], y[CHANGED : 2 * CHANGED], random))
    write_images("drawings-images-idx3-ubyte.gz", np.concatenate([p[0] for p in parts]))
    with open(os.path.join(HERE, "drawings-names.txt"), "w", encoding="ascii") as f:
        f.writelines(name + "\n" for _, names in parts for name in names)


if __name__ == "__main__":
    main()
