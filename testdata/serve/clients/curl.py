"""Tests curl, as used at a prompt."""

import gzip
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import cases

CASES, HTTP, _ = cases.read()
FOLDER = pathlib.Path(tempfile.mkdtemp(dir=sys.argv[1]))
URL = "http://" + HTTP
DIGITS = CASES["digits"]


def curl(path, *args, data=None):
    """The status and the body of an answer."""
    if data is not None:
        (FOLDER / "body").write_bytes(data)
        args = [*args, "--data-binary", f"@{FOLDER / 'body'}"]
    out = subprocess.run(["curl", "-sS", "--max-time", "60", "-w", "\n%{http_code}", *args, URL + path], check=True, capture_output=True).stdout
    body, _, status = out.rpartition(b"\n")
    return int(status), body


def ask(case, rows):
    x = case.x[rows]
    data = x.tolist() if case.datatype == "BYTES" else x.astype(float).tolist()  # nested, as the shape says
    return json.dumps({"id": "c", "inputs": [{"name": case.input, "datatype": case.datatype, "shape": list(x.shape), "data": data}]}).encode()


def answered(case, rows, status, body):
    assert status == 200, body
    answer = json.loads(body)
    assert answer["id"] == "c" and answer["model_name"] == case.name, answer
    case.check({o["name"]: o["data"] for o in answer["outputs"]}, rows)


def infer(case, *args, pack=lambda b: b):
    rows = list(range(30))
    answered(case, rows, *curl(f"/v2/models/{case.name}/infer", *args, data=pack(ask(case, rows))))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels):
    """An image of gray, as PNG."""
    h, w = pixels.shape
    rows = b"".join(b"\0" + bytes(row) for row in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def pictures():
    names = "zero one two three four five six seven eight nine".split()
    for i in range(5):
        want = DIGITS.want[i]
        (FOLDER / "digit.png").write_bytes(png((DIGITS.x[i, 0] * 255).round().astype("u1")))
        for args in [
            ["-H", "Content-Type: image/png", "--data-binary", f"@{FOLDER}/digit.png"],
            ["--data-binary", f"@{FOLDER}/digit.png", "-H", "Content-Type:"],
            ["-F", f"image=@{FOLDER}/digit.png"],
        ]:
            status, body = curl("/v1/predict?model=digits", *args)
            assert status == 200, body
            got = json.loads(body)
            assert got["label"] == names[want["class"]] and abs(got["confidence"] - want["confidence"]) < 1e-4, (got, want)
            assert abs(got["ood_score"] - want["ood_score"]) < 1e-4 and got["abstain"] == want["abstain"], (got, want)
            assert got["prediction_set"] == want["prediction_set"], (got, want)
        status, body = curl("/v1/predict?model=digits", "-H", "Content-Type: application/json", data=json.dumps({"image": DIGITS.x[i].astype(float).tolist()}).encode())
        assert status == 200 and abs(json.loads(body)["confidence"] - want["confidence"]) < 1e-4, body


def refused():
    for status, path, args, data in [
        (400, "/v2/models/digits/infer", [], b"{"),
        (400, "/v2/models/digits/infer", [], b"[" * 100000),
        (404, "/v2/models/nothing/infer", [], b"{}"),
        (404, "/v2/nothing", [], None),
        (400, "/v1/predict?model=digits", ["-F", "image=nothing"], None),
        (403, "/v2", ["-H", "Host: evil.example"], None),
    ]:
        got, body = curl(path, *args, data=data)
        assert got == status and json.loads(body)["error"], (path, got, body)


def described():
    for path, has in [
        ("/v2", b'"mfgs"'), ("/v2/health/live", b"true"), ("/v2/health/ready", b"true"), ("/v2/models/digits/ready", b"true"),
        ("/v2/models/digits", b"bundle_sha256"), ("/v2/models/digits/versions/1", b"FP32"), ("/v2/models/digits/config", b"TYPE_FP32"),
        ("/v2/models/digits/stats", b"inference_count"), ("/v2/models/stats", b"inference_count"),
    ]:
        status, body = curl(path)
        assert status == 200 and has in body, (path, status, body)
    status, body = curl("/v2/repository/index", "-X", "POST")
    assert status == 200 and len(json.loads(body)) == len(CASES), body


def checks():
    for case in CASES.values():
        if case.datatype != "FP16":
            yield f"{case.name}, JSON", lambda c=case: infer(c)
    yield "HTTP/1.0", lambda: infer(DIGITS, "--http1.0")
    yield "compressed answer", lambda: infer(DIGITS, "--compressed")
    yield "chunked", lambda: infer(DIGITS, "-H", "Transfer-Encoding: chunked")
    yield "Expect", lambda: infer(DIGITS, "-H", "Expect: 100-continue")
    yield "gzip", lambda: infer(DIGITS, "-H", "Content-Encoding: gzip", pack=gzip.compress)
    yield "deflate", lambda: infer(DIGITS, "-H", "Content-Encoding: deflate", pack=zlib.compress)
    for check in [pictures, refused, described]:
        yield check.__name__, check


cases.run(checks())
