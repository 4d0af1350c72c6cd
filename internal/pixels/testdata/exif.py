#!/usr/bin/env python3
"""Makes exif.txt: the orientations by which Pillow's ImageOps.exif_transpose turns files.

The committed file was made with Pillow 12.2.0. Run in this folder: python3 exif.py

A line a case, of four words: the place, which is behind JPEG's SOI (jpeg) or PNG's IHDR (png), before PNG's IEND
(png-end), or behind all of a file (jpeg-behind, png-behind); bytes in hexadecimal that stand there; the orientation, 0 for none and for 1; and what the case is. Orientations that Pillow finds outside EXIF, or in
numbers that are not whole, are no cases. Where Pillow fails, which it does for some headers, the orientation is 0.
"""
import io
import struct
import warnings
import zlib

import numpy as np
from PIL import Image, ImageOps

warnings.filterwarnings("ignore")
STORED = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
TURNED = {tuple(np.asarray(image).ravel()) + image.size: o for o, image in [
    (o, Image.fromarray(STORED).transpose(method) if method is not None else Image.fromarray(STORED))
    for o, method in [(0, None), (2, Image.Transpose.FLIP_LEFT_RIGHT), (3, Image.Transpose.ROTATE_180),
                      (4, Image.Transpose.FLIP_TOP_BOTTOM), (5, Image.Transpose.TRANSPOSE),
                      (6, Image.Transpose.ROTATE_270), (7, Image.Transpose.TRANSVERSE),
                      (8, Image.Transpose.ROTATE_90)]]}


def entry(order, tag, kind, count, value):
    """An entry of a directory; value is of 4 bytes, or a number of that type."""
    if not isinstance(value, bytes):
        value = struct.pack(order + {1: "B", 3: "H", 4: "L", 6: "b", 8: "h", 9: "l", 13: "L"}[kind], value)
    return struct.pack(order + "HHL", tag, kind, count) + value.ljust(4, b"\0")


def tiff(order, *entries, at=8, count=None, magic=None, tail=b""):
    """A TIFF structure of one directory."""
    head = magic or {"<": b"II*\0", ">": b"MM\0*"}[order]
    return (head + struct.pack(order + "L", at) + bytes(max(0, at - 8))
            + struct.pack(order + "H", len(entries) if count is None else count) + b"".join(entries)
            + struct.pack(order + "L", 0) + tail)


def app1(data, header=b"Exif\0\0"):
    return b"\xff\xe1" + struct.pack(">H", len(header + data) + 2) + header + data


def chunk(kind, data):
    return struct.pack(">L", len(data)) + kind + data + struct.pack(">L", zlib.crc32(kind + data))


def cases():
    """Names and TIFF structures."""
    for order, name in [("<", "little"), (">", "big")]:
        e = lambda tag, kind, count, value: entry(order, tag, kind, count, value)
        o = lambda n: e(274, 3, 1, n)
        for n in range(11):
            yield f"{name}-{n}", tiff(order, e(256, 3, 1, 77), o(n), e(305, 2, 1, b"x"))
        yield f"{name}-6-of-16-bits-filled", tiff(order, e(274, 3, 1, b"\6\6\6\6"))
        for kind in (1, 2, 4, 6, 7, 8, 9, 13):
            value = {2: b"6\0", 7: b"\6"}.get(kind, 6)
            yield f"{name}-type-{kind}", tiff(order, e(274, kind, 1, value))
        yield f"{name}-long-beyond-16-bits", tiff(order, e(274, 4, 1, 0x10006))
        yield f"{name}-negative", tiff(order, e(274, 8, 1, -6))
        yield f"{name}-negative-byte", tiff(order, e(274, 6, 1, -6))
        yield f"{name}-negative-long", tiff(order, e(274, 9, 1, -6))
        yield f"{name}-unknown-type", tiff(order, e(274, 14, 1, b"\6\0\0\6"))
        yield f"{name}-type-0", tiff(order, e(274, 0, 1, b"\6\0\0\6"))
        yield f"{name}-huge-type", tiff(order, e(274, 0xffff, 1, b"\6\0\0\6"))
        yield f"{name}-no-value", tiff(order, e(274, 3, 0, 6))
        yield f"{name}-two-values", tiff(order, e(274, 3, 2, struct.pack(order + "HH", 8, 6)))
        yield f"{name}-three-values", tiff(order, e(274, 3, 3, struct.pack(order + "L", 26)),
                                           tail=struct.pack(order + "HHH", 5, 6, 7))
        yield f"{name}-three-values-cut", tiff(order, e(274, 3, 3, struct.pack(order + "L", 26)),
                                               tail=struct.pack(order + "HH", 5, 6))
        yield f"{name}-a-long-of-8-bytes", tiff(order, e(274, 16, 1, struct.pack(order + "L", 26)),
                                                tail=struct.pack(order + "Q", 7))
        yield f"{name}-twice", tiff(order, o(3), o(6))
        yield f"{name}-twice-second-empty", tiff(order, o(3), e(274, 3, 0, 6))
        yield f"{name}-twice-second-wrong", tiff(order, o(3), o(9))
        yield f"{name}-behind-value-beyond-end", tiff(order, e(271, 2, 99, struct.pack(order + "L", 8)), o(6))
        yield f"{name}-behind-value-to-end", tiff(order, e(271, 2, 38, struct.pack(order + "L", 0)), o(6))
        yield f"{name}-before-value-beyond-end", tiff(order, o(6), e(305, 2, 99, struct.pack(order + "L", 8)))
        yield f"{name}-no-entries", tiff(order, count=0)
        yield f"{name}-counts-fewer", tiff(order, e(256, 3, 1, 77), o(6), count=1)
        yield f"{name}-counts-more", tiff(order, o(6), count=9)
        yield f"{name}-counts-none", tiff(order, o(6), count=0)
        yield f"{name}-directory-further-on", tiff(order, o(6), at=21)
        for at in (0, 7, 23, 24, 25, 2**31, 2**32 - 1):
            whole = bytearray(tiff(order, o(6)))
            whole[4:8] = struct.pack(order + "L", at)
            yield f"{name}-directory-at-{at}", bytes(whole)
        whole = tiff(order, o(6))
        for n in (0, 1, 4, 7, 8, 9, 10, 15, 21, 22):
            yield f"{name}-cut-to-{n}", whole[:n]
    yield "little-swapped-version", tiff("<", entry("<", 274, 3, 1, 6), magic=b"II\0*")
    yield "big-swapped-version", tiff(">", entry(">", 274, 3, 1, 6), magic=b"MM*\0")
    yield "wrong-version", tiff("<", entry("<", 274, 3, 1, 6), magic=b"II+*")
    yield "wrong-order", tiff("<", entry("<", 274, 3, 1, 6), magic=b"IM*\0")
    yield "header-twice", b"Exif\0\0" + tiff("<", entry("<", 274, 3, 1, 6))
    yield "header-cut", b"Exif\0" + tiff("<", entry("<", 274, 3, 1, 6))


def placed():
    """Places, names and bytes."""
    six, three = [tiff("<", entry("<", 274, 3, 1, n)) for n in (6, 3)]
    comment, jfif = b"\xff\xfe\0\5abc", b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"
    for name, data in cases():
        yield "jpeg", name, app1(data)
    for name, data in [
        ("nothing", b""), ("behind-jfif", jfif + app1(six)), ("before-jfif", app1(six) + jfif),
        ("behind-comment", comment + app1(six)), ("behind-fill", b"\xff\xff" + app1(six)),
        ("behind-fill-and-comment", b"\xff\xff" + comment + b"\xff" + app1(six)),
        ("behind-junk", comment + b"junk" + app1(six)), ("behind-escaped-ff", comment + b"\xff\0" + app1(six)),
        ("behind-restarts", comment + b"\xff\xd0\xff\xd7" + app1(six)),
        ("behind-empty-segment", b"\xff\xfe\0\2" + app1(six)),
        ("behind-xmp", app1(b"<x:xmpmeta/>", b"http://ns.adobe.com/xap/1.0/\0") + app1(six)),
        ("header-alone", app1(b"")), ("in-app2", b"\xff\xe2" + app1(six)[2:]),
        ("in-two-segments", app1(six[:20]) + app1(six[20:])),
        ("in-two-files", app1(six) + app1(three)), ("short-header", app1(six, b"Exif\0")),
        ("lower-case-header", app1(six, b"exif\0\0")),
    ]:
        yield "jpeg", name, data
    for name, data in cases():
        yield "png", name, chunk(b"eXIf", data)
    text = chunk(b"tEXt", b"Comment\0abc")
    for name, data in [
        ("nothing", b""), ("behind-text", text + chunk(b"eXIf", six)), ("before-text", chunk(b"eXIf", six) + text),
        ("with-header", chunk(b"eXIf", b"Exif\0\0" + six)), ("twice", chunk(b"eXIf", six) + chunk(b"eXIf", three)),
        ("other-letters", chunk(b"exIf", six)),
    ]:
        yield "png", name, data
    yield "png-end", "behind-pixels", chunk(b"eXIf", six)
    yield "png-behind", "behind-end", chunk(b"eXIf", six)
    yield "jpeg-behind", "behind-end", app1(six)


def orientation(place, data):
    out = io.BytesIO()
    image = Image.fromarray(STORED)
    kind = place.split("-")[0]
    if kind == "png":
        image.save(out, "png")
    else:
        image.resize((32, 24), Image.NEAREST).save(out, "jpeg", quality=95)
    file = out.getvalue()
    at = {"jpeg": 2, "png": 33, "png-end": len(file) - 12}.get(place, len(file))
    image = Image.open(io.BytesIO(file[:at] + data + file[at:]))
    image.load()
    try:
        image = ImageOps.exif_transpose(image)
    except Exception:  # of a header that it does not know
        return 0
    if kind == "jpeg":
        image = image.resize((image.width // 8, image.height // 8), Image.BOX)
        near = np.rint(np.asarray(image) / 20).astype(int) * 20
        return TURNED[tuple(near.ravel()) + image.size]
    return TURNED[tuple(np.asarray(image).ravel()) + image.size]


with open("exif.txt", "w") as out:
    for place, name, data in placed():
        print(place, data.hex() or "-", orientation(place, data), name, file=out)
