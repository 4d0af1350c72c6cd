#!/usr/bin/env python3
"""Makes pillow.bin.gz: what Pillow does to small synthetic images.

The committed file was made with Pillow 12.2.0. Resampling has been the same since 3.4; 13.0.0 does not, where an image is made wider and
lower. Run in this folder: python3 pillow.py

Format, little-endian, one record a case, until the end:
    uint8   kind: a filter, 0 nearest, 1 bilinear, 2 bicubic;
            3 convert("L") (no resize);
            4 ImageOps.pad, bilinear, color 114 all over, in the centre;
            5 ImageOps.pad, bicubic, color 0, in the top left corner;
            6 a line of text: bilinear, of the output's height and at most its
              width, color 128, in the top left corner;
            7 lanczos, 8 box, 9 hamming, filters as 0 to 2;
            20 + n: ImageOps.exif_transpose of orientation n, then bilinear, but
              where the size is that of the input turned; 30 + n: likewise, nearest
    uint8   channels of the input
    uint16  input height, width, output height, width
    bytes   input, [height,width,channels]
    bytes   output, [height,width,channels] (kind 3: [height,width])
"""
import gzip
import math
import struct

import numpy as np
from PIL import Image, ImageOps


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

BOXES = [(16, 16), (9, 40), (40, 9), (23, 31), (30, 33), (61, 64)]  # height, width


def line(img, w, h, color):
    out = Image.new(img.mode, (w, h), color)
    out.paste(img.resize((min(w, math.ceil(h * (img.width / img.height))), h), Image.BILINEAR), (0, 0))
    return out


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

    # Behind those, so that they stay where they were.
    for _, rgb in images():
        rgb = rgb.astype(np.uint8)
        for a in (rgb, rgb[:, :, 0].copy()):
            img = Image.fromarray(a)

            def grey(v):
                return (v, v, v) if a.ndim == 3 else v

            for h, w in BOXES:
                if min(img.height / img.width * w, img.width / img.height * h) >= .5:  # else Pillow fails
                    case(4, a, np.asarray(ImageOps.pad(img, (w, h), Image.BILINEAR, grey(114), (.5, .5))))
                    case(5, a, np.asarray(ImageOps.pad(img, (w, h), Image.BICUBIC, grey(0), (0, 0))))
                case(6, a, np.asarray(line(img, w, h, grey(128))))

    for _, rgb in images():
        rgb = rgb.astype(np.uint8)
        for a in (rgb, rgb[:, :, 0].copy()):
            for h, w in SIZES:
                for kind, f in [(7, Image.LANCZOS), (8, Image.BOX), (9, Image.HAMMING)]:
                    case(kind, a, np.asarray(Image.fromarray(a).resize((w, h), f)))

    rgb = np.random.default_rng(2).integers(0, 256, (10, 13, 3), np.uint8)
    for a in (rgb, rgb[:, :, 0].copy()):
        for n in range(1, 9):
            img = Image.fromarray(a)
            img.getexif()[274] = n
            img = ImageOps.exif_transpose(img)
            for h, w in [(img.height, img.width), (17, img.width), (img.height, 7), (8, 20)]:
                case(20 + n, a, np.asarray(img.resize((w, h), Image.BILINEAR)))
                case(30 + n, a, np.asarray(img.resize((w, h), Image.NEAREST)))
