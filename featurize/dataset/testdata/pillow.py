#!/usr/bin/env python3
"""Makes images.npz and numpy.npz: files as Pillow and NumPy write them.

The committed files were made with Pillow 9.4.0 (libjpeg-turbo 2.1.5) and NumPy
1.24.2, all of Debian 12. Run in this folder: python3 pillow.py

images.npz holds, for each case, "NAME.file", the encoded image, and
"NAME.pixels", what Pillow decodes it to: [H,W,1] for grey, else [H,W,3].
numpy.npz holds 0…11 as [3,4] in every type that is read, and what is not.
"""
import io

import numpy as np
from PIL import Image

rng = np.random.default_rng(2)
out = {}


def case(name, img, want=None, **save):
    buf = io.BytesIO()
    img.save(buf, **save)
    if want is None:
        back = Image.open(io.BytesIO(buf.getvalue()))
        want = np.asarray(back.convert("L" if back.mode in ("1", "L", "LA") else "RGB"))
        want = want.reshape(*want.shape[:2], -1)
    out[name + ".file"] = np.frombuffer(buf.getvalue(), np.uint8)
    out[name + ".pixels"] = want


def photo(h, w):
    """Smooth, with an edge and some noise: chroma interpolation shows."""
    y, x = np.mgrid[0:h, 0:w]
    rgb = np.stack([x * 200 / w + 20, y * 200 / h + 20, 128 + 90 * np.sin(x / 5 + y / 7)], -1)
    rgb[h // 3 :, w // 2 :] = rgb[h // 3 :, w // 2 :, ::-1]
    return Image.fromarray(np.clip(rgb + rng.normal(0, 6, rgb.shape), 0, 255).astype(np.uint8))


rgb = photo(17, 23)
rgba = rgb.copy()
rgba.putalpha(Image.fromarray(rng.integers(0, 256, (17, 23), dtype=np.uint8)))
palette = rgb.quantize(32)
for name, img, extra in [
    ("rgb", rgb, {}),
    ("rgba", rgba, {}),
    ("grey", rgb.convert("L"), {}),
    ("greyalpha", rgba.convert("LA"), {}),
    ("greykey", rgb.convert("L"), {"transparency": 100}),
    ("palette", palette, {}),
    ("palettealpha", palette, {"transparency": 3}),
    ("palette16", rgb.quantize(16), {"bits": 4}),
    ("bilevel", rgb.convert("1"), {}),
]:
    case("png-" + name, img, format="PNG", **extra)
deep = rng.integers(0, 65536, (5, 7), dtype=np.uint16)
# Pillow clips 16-bit grey to 255 when it converts; the high byte is what its
# 16-bit colour gives, and what is meant.
case("png-grey16", Image.fromarray(deep), want=(deep >> 8).astype(np.uint8)[:, :, None], format="PNG")

for h, w in [(33, 45), (16, 16), (9, 4), (5, 3), (1, 1), (40, 2)]:
    img = photo(h, w)
    for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
        case(f"jpeg-{h}x{w}-{subsampling}", img, format="JPEG", quality=85, subsampling=subsampling)
img = photo(33, 45)
case("jpeg-progressive", img, format="JPEG", quality=80, progressive=True)
case("jpeg-grey", img.convert("L"), format="JPEG", quality=85)
case("jpeg-cmyk", img.convert("CMYK"), format="JPEG", quality=90)
np.savez_compressed("images.npz", **out)

numbers = np.arange(12).reshape(3, 4)
types = ["?", "|i1", "|u1"] + [o + k for o in "<>" for k in "i2 i4 i8 u2 u4 u8 f2 f4 f8".split()]
arrays = {t: numbers.astype(t) for t in types}
arrays["labels"] = np.array([2, 0, 1])
arrays["text"] = np.array(["a", "b", "c"])
arrays["complex"] = numbers.astype("c8")
arrays["record"] = np.zeros(3, [("x", "f4"), ("y", "i4", (2,))])
arrays["scalar"] = np.float32(3)
np.savez("numpy.npz", **arrays)
np.save("fortran.npy", np.asfortranarray(numbers.astype("<f4")))
