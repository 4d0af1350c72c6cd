"""Tests mfgs serve with common clients, and compares all answers with mfgs predict.

One process serves bundles of the digits, of MNIST if ../shared/data has it, of a model with FP16 inputs and of one with
string inputs. Then Triton's client, KServe's and curl send requests in all supported ways: triton.py, kserving.py and
curl.py, each in its own process, since the first two register the same gRPC messages. It runs the mfgs on PATH, or
that of $MFGS.

    pip install -r testdata/serve/clients/requirements.txt
    make clients
"""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MFGS = os.environ.get("MFGS", "mfgs")
DECISIONS = ["--target-coverage", "0.8", "--false-alarm", "0.1", "--alpha", "0.05"]
WORDS = ["red", "green", "blue", "größe", "", "x" * 300, "日本"]


def mfgs(*args):
    done = subprocess.run([MFGS, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"mfgs {args[0]}: {done.stderr}")
    return done.stdout


def idx(path, first, n):
    data = gzip.decompress(path.read_bytes())
    size = int.from_bytes(data[8:12], "big")
    images = np.frombuffer(data[16:], np.uint8).reshape(-1, 1, size, size)
    return images[first : first + n].astype(np.float32) / 255


def digits(folder):
    at = ROOT / "models" / "digits-mlp"
    images, drawings = at / "digits-images-idx3-ubyte.gz", at / "drawings-images-idx3-ubyte.gz"
    names = folder / "names.txt"
    names.write_text("zero one two three four five six seven eight nine".replace(" ", "\n"))
    mfgs("calibrate", "--model", at / "model.onnx", "--train", f"{images}[0:1200]", "--val", f"{images}[1200:1500]",
         "--ood", f"{drawings}[0:300]", "--damping", "rel:1", *DECISIONS,
         "--classes", names, "--out", folder / "digits")
    return "image", "FP32", idx(images, 1500, 30), f"{images}[1500:1530]"


def mnist(folder):
    at = ROOT.parent / "shared" / "data" / "mnist"
    train, test = at / "train-images-idx3-ubyte.gz", at / "t10k-images-idx3-ubyte.gz"
    if not train.exists():
        print(f"NOT TRIED ON MNIST: there is no {train}")
        return None
    mfgs("calibrate", "--model", ROOT / "models" / "mnist-mlp" / "model.onnx", "--train", f"{train}[0:2000]",
         "--val", f"{train}[55000:56000]", "--damping", "rel:1", "--out", folder / "mnist")
    return "image", "FP32", idx(test, 0, 30), f"{test}[0:30]"


def network(path, nodes, weights, name, kind, shape, opsets):
    """Writes a network that ends with two layers, and returns a function that computes them."""
    rng = np.random.default_rng(1)
    wide = 16 if kind == TensorProto.FLOAT16 else 15
    w = {"w1": rng.normal(size=(wide, 12)) / wide**0.5, "b1": rng.normal(size=12), "w2": rng.normal(size=(12, 4)), "b2": np.zeros(4)}
    w = {k: v.astype(np.float32) for k, v in w.items()}
    nodes = nodes + [
        helper.make_node("Gemm", ["flat", "w1", "b1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["features"]),
        helper.make_node("Gemm", ["features", "w2", "b2"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, kind, ["N", shape])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(v, k) for k, v in (weights | w).items()],
    )
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return lambda x: np.maximum(x @ w["w1"] + w["b1"], 0) @ w["w2"] + w["b2"]


def lines(path, name, inputs, logits):
    """Writes inputs and labels for which the network is mostly right."""
    labels = (logits + np.random.default_rng(2).gumbel(size=logits.shape)).argmax(1)
    with path.open("w") as f:
        for x, label in zip(inputs, labels):
            print(json.dumps({name: x, "label": int(label)}), file=f)


def small(folder, name):
    mfgs("calibrate", "--model", folder / f"{name}.onnx", "--train", f"{folder}/{name}.jsonl[0:250]",
         "--val", f"{folder}/{name}.jsonl[250:370]", "--damping", "rel:1", "--out", folder / name)
    return f"{folder}/{name}.jsonl[370:400]"


def half(folder):
    nodes = [helper.make_node("Cast", ["x"], ["flat"], to=TensorProto.FLOAT)]
    logits = network(folder / "half.onnx", nodes, {}, "x", TensorProto.FLOAT16, 16, [helper.make_opsetid("", 17)])
    x = np.random.default_rng(3).normal(size=(400, 16)).astype(np.float16)
    lines(folder / "half.jsonl", "x", x.astype(float).tolist(), logits(x.astype(np.float32)))
    return "x", "FP16", x[370:], small(folder, "half")


def words(folder):
    table = np.random.default_rng(4).normal(size=(len(WORDS) + 1, 5)).astype(np.float32)
    nodes = [
        helper.make_node("LabelEncoder", ["words"], ["ids"], domain="ai.onnx.ml", keys_strings=WORDS,
                         values_int64s=list(range(1, len(WORDS) + 1)), default_int64=0),
        helper.make_node("Gather", ["table", "ids"], ["vectors"]),
        helper.make_node("Reshape", ["vectors", "to"], ["flat"]),
    ]
    weights = {"table": table, "to": np.array([0, 15], np.int64)}
    logits = network(folder / "words.onnx", nodes, weights, "words", TensorProto.STRING, 3,
                     [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)])
    ids = np.random.default_rng(5).integers(0, len(WORDS), (400, 3))
    text = [[WORDS[i] for i in row] for row in ids]
    lines(folder / "words.jsonl", "words", text, logits(table[ids + 1].reshape(-1, 15)))
    return "words", "BYTES", np.array(text[370:], dtype=object), small(folder, "words")


def make(folder):
    """Creates the bundles, and writes the examples and their predictions."""
    cases, arrays, bundles = {}, {}, []
    for name, of in {"digits": digits, "mnist": mnist, "half": half, "words": words}.items():
        if case := of(folder):
            inputs, datatype, arrays[name], spec = case
            want = json.loads(mfgs("predict", "--json", "--bundle", folder / name, spec))
            cases[name] = {"input": inputs, "datatype": datatype, "want": want["predictions"] if isinstance(want, dict) else want}
            bundles += ["--bundle", str(folder / name)]
    arrays["words"] = arrays["words"].astype("U")
    np.savez(folder / "cases.npz", **arrays)
    (folder / "cases.json").write_text(json.dumps(cases))
    return bundles


def main():
    with tempfile.TemporaryDirectory(prefix="mfgs-clients-") as folder:
        folder = pathlib.Path(folder)
        bundles = make(folder)
        log = (folder / "log").open("w+")
        serve = subprocess.Popen([MFGS, "serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", *bundles],
                                 stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            where = {}
            while len(where) < 2:
                line = serve.stdout.readline()
                if not line:
                    log.seek(0)
                    sys.exit("mfgs serve does not serve: " + log.read())
                if found := re.search(r"http://(\S+)|^gRPC +(\S+)", line):
                    where["http" if found[1] else "grpc"] = found[1] or found[2]
            failed = 0
            for client in ["triton.py", "kserving.py", "curl.py"]:
                print("==", client, flush=True)
                failed += subprocess.run([sys.executable, HERE / client, folder, where["http"], where["grpc"]]).returncode != 0
        finally:
            serve.terminate()
            status = serve.wait(60)
        log.seek(0)
        bad = [line for line in log if '"level":"ERROR"' in line and "no such bundle" not in line]
        if failed or status or bad:
            sys.exit(f"{failed} clients found something wrong; mfgs serve ended with {status} and said {bad}")


if __name__ == "__main__":
    main()
