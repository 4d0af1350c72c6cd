"""Draws scenes of shapes, with the class of each pixel, as images/ and labels/ of PNG files.

A picture's scene, noise, blur and colours depend on its set and number only. Errors of a network on them depend on each
other within a picture, as they do in photographs: a picture is noisy as a whole, and an object is taken for another as a
whole.
"""
import argparse
import pathlib

import numpy as np
from PIL import Image, ImageFilter

SIZE = 64
CLASSES = ["background", "disc", "square", "triangle", "ring"]
COLOURS = np.array([[200, 80, 60], [70, 160, 90], [80, 100, 210], [210, 180, 70]], float)  # of the four shapes
NO_LABEL = 255  # of pixels of an OOD object
SIZES = {"train": 1200, "val": 1000, "test": 2000, "ood": 400, "other": 400}


def shape(kind, r, rng):
    """The pixels of a shape of radius r at a random place, [SIZE,SIZE]."""
    cx, cy = rng.uniform(r * 0.7, SIZE - r * 0.7, 2)
    turn = rng.uniform(0, 2 * np.pi)
    y, x = np.mgrid[:SIZE, :SIZE] + 0.5
    x, y = x - cx, y - cy
    u, v = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    far = np.hypot(u, v)
    if kind == "disc":
        return far < r
    if kind == "ring":
        return (far < r) & (far > 0.55 * r)
    if kind == "square":
        return np.maximum(abs(u), abs(v)) < 0.85 * r
    if kind == "triangle":
        return np.all([u * np.cos(a) + v * np.sin(a) < 0.6 * r for a in np.arange(3) * 2 * np.pi / 3], axis=0)
    if kind == "cross":
        return (np.minimum(abs(u), abs(v)) < 0.3 * r) & (np.maximum(abs(u), abs(v)) < 1.1 * r)
    star = np.cos(5 * np.arctan2(v, u))  # five points
    return far < r * (0.75 + 0.4 * star)


def stripes(rng):
    """A picture that is no scene at all."""
    y, x = np.mgrid[:SIZE, :SIZE] + rng.uniform(0, SIZE)
    turn, width = rng.uniform(0, np.pi), rng.uniform(3, 12)
    wave = np.sign(np.sin((x * np.cos(turn) + y * np.sin(turn)) * 2 * np.pi / width))[..., None]
    noise = rng.normal(0, rng.uniform(5, 90), (SIZE, SIZE, 3))
    return (rng.uniform(60, 200, 3) + wave * rng.uniform(-60, 60, 3) + noise).clip(0, 255).astype(np.uint8)


def picture(part, number):
    """Pixels [SIZE,SIZE,3] of uint8, and labels [SIZE,SIZE] of uint8."""
    rng = np.random.default_rng([list(SIZES).index(part), number])
    if part == "other":
        return stripes(rng), np.full((SIZE, SIZE), NO_LABEL, np.uint8)
    cast = rng.normal(0, 15, 3)
    rough = rng.normal(110, 25, (8, 8, 3)).clip(0, 255).astype(np.uint8)
    pixels = np.asarray(Image.fromarray(rough).resize((SIZE, SIZE), Image.BICUBIC), float).copy()
    labels = np.zeros((SIZE, SIZE), np.uint8)
    kinds = [CLASSES[k] for k in rng.integers(1, len(CLASSES), rng.integers(2, 6))]
    if part == "ood":
        kinds.append(("cross", "star")[number % 2])
    for kind in kinds:
        at = shape(kind, rng.uniform(7, 14), rng)
        known = kind in CLASSES
        colour = rng.uniform(30, 225, 3)
        if known and rng.random() < 0.6:
            colour = COLOURS[CLASSES.index(kind) - 1] + rng.normal(0, 25, 3)
        pixels[at] = colour
        labels[at] = CLASSES.index(kind) if known else NO_LABEL
    image = Image.fromarray((pixels + cast).clip(0, 255).astype(np.uint8))
    image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 1.6)))
    noise = rng.normal(0, rng.uniform(5, 90), (SIZE, SIZE, 3))
    return (np.asarray(image) + noise).clip(0, 255).astype(np.uint8), labels


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--work", type=pathlib.Path, required=True)
    work = p.parse_args().work
    for part, n in SIZES.items():
        if (work / part / "done").exists():
            continue
        for kind in ("images", "labels"):
            (work / part / kind).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            pixels, labels = picture(part, i)
            Image.fromarray(pixels).save(work / part / "images" / f"{i:04}.png")
            Image.fromarray(labels).save(work / part / "labels" / f"{i:04}.png")
        (work / part / "done").touch()


if __name__ == "__main__":
    main()
