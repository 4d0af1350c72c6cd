"""Writes the files of this folder, and golden.json with what is in them.

Made with Python 3.11, pyarrow 26.0.1, datasets 4.8.5, numpy 2.4.6, Pillow 13.0.0 and polars 2.1.0:

    pip install pyarrow==26.0.1 datasets==4.8.5 numpy==2.4.6 pillow==13.0.0 polars==2.1.0
    python generate.py
"""

import base64
import io
import json
import os

import datasets
import numpy as np
import polars
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
from PIL import Image

os.chdir(os.path.dirname(os.path.abspath(__file__)))
datasets.disable_progress_bars()

ROWS = 7


def array(t, values):
    return pa.array(values, type=t)


def columns():
    """Columns by name: an Arrow array, and its rows as lists."""
    rng = np.random.default_rng(1)
    rows = range(ROWS)
    ragged = [list(range(i, 2 * i + 1)) for i in rows]
    fixed = rng.integers(-9, 9, (ROWS, 4)).astype(np.float32)
    tensor = np.arange(ROWS * 6, dtype=np.int16).reshape(ROWS, 2, 3)
    nested = rng.integers(0, 255, (ROWS, 3, 2)).astype(np.uint8)
    deep = np.arange(ROWS * 8, dtype=np.float64).reshape(ROWS, 2, 2, 2) / 4
    half = np.arange(ROWS * 3, dtype=np.float16).reshape(ROWS, 3) / 4
    shaped = pa.FixedShapeTensorArray.from_numpy_ndarray(tensor)
    out = {
        "fixed": (pa.FixedSizeListArray.from_arrays(fixed.ravel(), 4), fixed.tolist()),
        "tensor": (shaped, tensor.tolist()),
        "ragged": (array(pa.list_(pa.int64()), ragged), ragged),
        "nested": (array(pa.list_(pa.list_(pa.uint8())), nested.tolist()), nested.tolist()),
        "deep": (array(pa.large_list(pa.list_(pa.list_(pa.float64()))), deep.tolist()), deep.tolist()),
        "half": (array(pa.list_(pa.float16()), list(half)), half.tolist()),
        "texts": (array(pa.list_(pa.string()), [["a" * i, "b"] for i in rows]), [["a" * i, "b"] for i in rows]),
        "text": (array(pa.string(), ["same"] * 4 + ["é", "", "z"]), ["same"] * 4 + ["é", "", "z"]),
        "kind": (array(pa.string(), list("xyxyxyx")).dictionary_encode(), list("xyxyxyx")),
        "bit": (array(pa.bool_(), [i % 3 == 0 for i in rows]), [i % 3 == 0 for i in rows]),
        "f64": (array(pa.float64(), [i / 8 for i in rows]), [i / 8 for i in rows]),
        "when": (array(pa.timestamp("us"), list(rows)), None),
        "label": (array(pa.int64(), [i % 3 for i in rows]), [i % 3 for i in rows]),
        "marks": (array(pa.list_(pa.int8()), [[i % 2, 1] for i in rows]), [[i % 2, 1] for i in rows]),
    }
    for bits in 8, 16, 32, 64:
        least, most = -(2 ** (bits - 1)), 2**bits - 1
        signed = [least + i for i in rows]
        unsigned = [most - i for i in rows]
        out[f"i{bits}"] = (array(getattr(pa, f"int{bits}")(), signed), signed)
        out[f"u{bits}"] = (array(getattr(pa, f"uint{bits}")(), unsigned), unsigned)
    return out


def image(i, kind="PNG"):
    b = io.BytesIO()
    pixels = np.full((4, 5, 3), 20 * i, np.uint8)
    Image.fromarray(pixels).save(b, kind)
    return b.getvalue()


def write(name, table, **options):
    pq.write_table(table, name, row_group_size=3, **options)


def stream(name, table, compression=None, file=False, batch=3):
    new = pa.ipc.new_file if file else pa.ipc.new_stream
    with new(name, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as w:
        for b in table.to_batches(max_chunksize=batch):
            w.write_batch(b)


golden = {}
cols = columns()
table = pa.table({k: v for k, (v, _) in cols.items()})
golden["columns"] = {k: v for k, (_, v) in cols.items() if v is not None}
write("none.parquet", table, compression="none", use_dictionary=False)
write("snappy.parquet", table, compression="snappy")
write("gzip.parquet", table, compression="gzip", data_page_version="2.0")
write("zstd.parquet", table, compression="zstd", store_schema=False, write_page_index=True)
write("lz4.parquet", table, compression="lz4", data_page_version="2.0", use_dictionary=False)
write("brotli.parquet", table, compression="brotli", data_page_size=16, write_batch_size=2)
text, whole = table.select(["text", "f64", "label"]), table.select(["i32", "i64", "label"])
write("delta.parquet", text, use_dictionary=False, data_page_version="2.0",
      column_encoding={"text": "DELTA_BYTE_ARRAY", "f64": "BYTE_STREAM_SPLIT", "label": "DELTA_BINARY_PACKED"})
write("lengths.parquet", table.select(["text", "label"]), use_dictionary=False,
      column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY", "label": "DELTA_BINARY_PACKED"})
views = pa.table({"text": table["text"].cast(pa.string_view()), "fixed": table["ragged"].cast(pa.large_list(pa.int64()))})
stream("plain.arrows", table)
stream("lz4.arrow", table, "lz4", file=True)
feather.write_feather(table, "zstd.feather", compression="zstd", chunksize=3)
stream("views.arrows", pa.table({"text": views["text"], "ragged": views["fixed"]}))

# A dictionary that is replaced and one that grows.
changing = [pa.array(list("xyx")).dictionary_encode(), pa.array(list("yxy")).dictionary_encode(),
            pa.array(["x"]).dictionary_encode()]
schema = pa.schema([("kind", pa.dictionary(pa.int32(), pa.string())), ("label", pa.int64())])
with pa.ipc.new_stream("replaced.arrows", schema) as w:
    at = 0
    for k in changing:
        w.write_batch(pa.record_batch([k, pa.array([j % 3 for j in range(at, at + len(k))])], schema=schema))
        at += len(k)
growing = pa.array(list("xyz")).dictionary_encode().dictionary
with pa.ipc.new_stream("grown.arrows", schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as w:
    for at, (n, codes) in {0: (2, [0, 1, 0]), 3: (3, [1, 2, 1]), 6: (3, [0])}.items():
        k = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), growing[:n])
        w.write_batch(pa.record_batch([k, pa.array([j % 3 for j in range(at, at + len(k))])], schema=schema))
golden["grown"] = list("xyxyzyx")

# Images as Hugging Face's datasets and others store them.
features = datasets.Features({
    "image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog", "emu"]),
    "grid": datasets.Array2D((2, 3), "float32"),
})
images = [image(i, ["PNG", "JPEG"][i % 2]) for i in range(4)]
d = datasets.Dataset.from_dict({
    "image": [{"bytes": b, "path": f"{i}.png"} for i, b in enumerate(images)],
    "label": [2, 0, 1, 2], "grid": np.arange(24).reshape(4, 2, 3).tolist(),
}, features=features)
d.to_parquet("hf.parquet", batch_size=3)
with pa.ipc.new_stream("hf.arrows", d.data.schema) as w:
    w.write_table(d.data.table, max_chunksize=3)
raw = pa.table({"id": [f"row {i}" for i in range(4)], "photo": array(pa.large_binary(), images),
                "label": ["emu", "cat", "dog", "emu"]})
write("binary.parquet", raw)
stream("binary.arrow", raw, file=True)
golden["images"] = [base64.b64encode(b).decode() for b in images]

# Tables of numbers, with and without gaps, as pandas writes them.
numbers = {"width": [1.5, None, 3.5], "count": [2, 3, 4], "open": [True, False, True], "label": ["b", "a", "b"]}
meta = pa.table({**numbers, "__index_level_0__": [0, 1, 2]})
write("table.parquet", meta)
stream("table.arrows", meta)
polars.from_arrow(meta).write_ipc("polars.arrow", compression="lz4")  # whose schema is in the footer alone

# Rows that are null, or have nulls within.
gaps = pa.table({
    "list": array(pa.list_(pa.float32()), [[1, 2], None, [1, None], [], [3, 4]]),
    "whole": array(pa.int32(), [1, 2, None, 4, 5]),
    "lists": array(pa.list_(pa.list_(pa.int64())), [[[1], [2]], [[1], [2, 3]], [None], [[], []], [[5], [6]]]),
    "label": array(pa.int64(), [0, 1, 0, None, 1]),
})
write("gaps.parquet", gaps)
stream("gaps.arrows", gaps)
pictures = pa.table({"image": array(pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
                                    [{"bytes": images[0], "path": None}, {"bytes": None, "path": "a.png"}, None])})
write("gone.parquet", pictures)
stream("gone.arrows", pictures)

# Precomputed features.
features = pa.table({
    "features": array(pa.list_(pa.float32(), 3), [[i, i / 2, -i] for i in range(ROWS)]),
    "logits": array(pa.list_(pa.float64()), [[i, 1] for i in range(ROWS)]),
    "label": array(pa.int8(), [i % 2 for i in range(ROWS)]),
})
write("features.parquet", features)
stream("features.arrows", features)

with open("golden.json", "w") as f:
    json.dump(golden, f)
    f.write("\n")
