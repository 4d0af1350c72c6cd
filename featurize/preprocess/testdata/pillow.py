#!/usr/bin/env python3
"""Makes pillow.bin.gz: what Pillow does to small synthetic images.

The committed file was made with Pillow 9.4.0 (Debian 12), whose resampling has
been the same since 3.4. Run in this folder: python3 pillow.py

Format, little-endian, one record a case, until the end:
    uint8   filter: 0 nearest, 1 bilinear, 2 bicubic, 3 convert("L") (no resize)
    uint8   channels of the input
    uint16  input height, width, output height, width
    bytes   input, [height,width,channels]
    bytes   output, [height,width,channels] (filter 3: [height,width])
"""
import gzip
import struct

import numpy as np
from PIL import Image


def images():
    rng = np.random.default_rng(1)
    y, x = np.mgrid[0:23, 0:31]
    yield "gradient", np.stack([x * 8, y * 11, 255 - x * 4 - y * 5], -1)
    y, x = np.mgrid[0:24, 0:24]
    yield "checkerboard", np.stack([(x // 3 + y // 3) % 2 * 255, (x + y) % 2 * 255, (x // 5) % 2 * 255], -1)
    yield "noise", rng.integers(0, 256, (37, 29, 3))
    yield "column", rng.integers(0, 256, (40, 1, 3))


SIZES = [(7, 5), (16, 16), (31, 23), (24, 50), (23, 60), (64, 41), (1, 1), (29, 9), (2, 37)]  # height, width
FILTERS = [(0, Image.NEAREST), (1, Image.BILINEAR), (2, Image.BICUBIC)]

with gzip.GzipFile("pillow.bin.gz", "wb", 9, mtime=0) as out:
    def case(kind, a, b):
        channels = a.shape[2] if a.ndim == 3 else 1
        out.write(struct.pack("<BBHHHH", kind, channels, *a.shape[:2], *b.shape[:2]))
        out.write(a.tobytes())
        out.write(b.tobytes())

    for _, rgb in images():
        rgb = rgb.astype(np.uint8)
        for a in (rgb, rgb[:, :, 0].copy()):
            img = Image.fromarray(a)
            for h, w in SIZES:
                for kind, f in FILTERS:
                    case(kind, a, np.asarray(img.resize((w, h), f)))
        case(3, rgb, np.asarray(Image.fromarray(rgb).convert("L")))
