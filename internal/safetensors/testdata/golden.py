"""Writes golden.safetensors with the reference implementation, and checks with
it a file that Go wrote.

    pip install safetensors==0.8.0 numpy==2.4.6
    python3 golden.py write golden.safetensors
    python3 golden.py check FILE

golden_test.go holds the same tensors, and holds that Go writes the same bytes.
"""
import struct
import sys

import numpy as np
from safetensors import TensorSpec, safe_open, serialize_file

DTYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "I16": "i2", "U16": "u2", "F16": "f2",
    "I32": "i4", "U32": "u4", "F32": "f4", "F64": "f8", "I64": "i8", "U64": "u8",
}
VALUES = {
    "BOOL": [True, False, True],
    "U8": [0, 1, 255], "I8": [-128, 0, 127],
    "I16": [-32768, 0, 32767], "U16": [0, 1, 65535],
    "F16": [-0.0, 2**-24, 65504],
    "I32": [-2**31, 0, 2**31 - 1], "U32": [0, 1, 2**32 - 1],
    "F32": [-0.0, 2**-149, np.inf],
    "F64": [1 / 3, 5e-324, -np.inf],
    "I64": [-2**63, 0, 2**63 - 1], "U64": [0, 1, 2**64 - 1],
}


def tensors():
    t = {f"{k}.vector": (k, [3], np.array(VALUES[k], DTYPES[k]).tobytes()) for k in DTYPES}
    t["BF16.vector"] = ("BF16", [3], struct.pack("<3H", 0x0001, 0x3F80, 0xFF80))
    t["matrix"] = ("F64", [2, 3, 2], np.arange(12, dtype="f8").tobytes())
    t["number"] = ("F32", [], np.array(2.5, "f4").tobytes())
    t["empty"] = ("I64", [0, 4], b"")
    t['quoted "\\\n<é>'] = ("U8", [1], b"\x07")
    return t


METADATA = {"format": "golden & 'ünïcode'"}

if __name__ == "__main__":
    verb, path = sys.argv[1:]
    if verb == "write":
        names = {"BOOL": "bool", "BF16": "bfloat16"}
        long = {"U": "uint", "I": "int", "F": "float"}
        keep, specs = [], {}
        for name, (dtype, shape, data) in tensors().items():
            keep.append(np.frombuffer(data or b"\0", "u1").copy())
            type_name = names.get(dtype) or long[dtype[0]] + dtype[1:]
            specs[name] = TensorSpec(dtype=type_name, shape=shape, data_ptr=keep[-1].ctypes.data, data_len=len(data))
        serialize_file(specs, path, METADATA)
    else:
        with safe_open(path, "np") as f:
            assert f.metadata() == METADATA, f.metadata()
            assert set(f.keys()) == set(tensors()), set(f.keys()) ^ set(tensors())
            for name, (dtype, shape, data) in tensors().items():
                s = f.get_slice(name)
                assert (s.get_dtype(), s.get_shape()) == (dtype, shape), name
                if dtype != "BF16":  # which numpy lacks
                    assert f.get_tensor(name).tobytes() == data, name
        print("ok")
