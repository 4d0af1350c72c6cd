#!/usr/bin/env python3
"""Writes exported models, inputs for them, and the predictions of mfgs in Go.

    python3 prepare.py --mfgs MFGS --work FOLDER [--only REGEX]        (needs the packages of requirements.txt)

Each case is a folder FOLDER/cases/ID with

    fused.onnx      the output of `mfgs export`
    case.json       the path of the original model, the runs (inputs by name), the names of the outputs, and whether the model rounds
    want.json       for each run, the output of `mfgs predict --json`, and the temperatures used

Cases are all of testdata/onnx that have a head, the models that ship, and random ones for what those leave out. Labels of random
models are drawn from the network's probabilities, so that it is calibrated.
"""

import argparse
import collections
import gzip
import itertools
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as oh, numpy_helper as nh

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.normpath(os.path.join(here, "..", ".."))
BATCH = 37
# Rows of the file that is predicted: a batch of usual inputs, then one that ends in inputs far outside of all data.
ROWS, FAR = 2 * BATCH, 8
SINGLES = [0, 1, 2, ROWS - 2, ROWS - 1]
MARGIN = 1.25  # the first interval ends at so many times the validation data's largest ratio of temperatures
OUTPUTS = ["probabilities", "logits", "logit_variance", "ood_score", "ood_percentile", "ood_pvalue", "leverage", "abstain", "prediction_set"]
# Decisions that bundles are to have: sets of either kind. Classes are ranked from operator set 11 on.
DECISIONS = {"full": ["--false-alarm", ".1", "--alpha", ".1"], "kron": ["--false-alarm", ".1", "--alpha", ".1", "--sets", "aps"]}
SCORES = {"full": "studentized", "kron": "mf0"}  # that random models serve; others what is chosen

parser = argparse.ArgumentParser()
parser.add_argument("--mfgs", required=True)
parser.add_argument("--work", required=True)
parser.add_argument("--only", default="")
args = parser.parse_args()


class Failed(Exception):
    pass


def mfgs(*words):
    p = subprocess.run([args.mfgs, *map(str, words)], capture_output=True, text=True)
    if p.returncode != 0:
        raise Failed(f"mfgs {' '.join(map(str, words))}: exit status {p.returncode}: {p.stderr.strip() or p.stdout.strip()}")
    return p.stdout


def rng(name):
    return np.random.default_rng(list(name.encode()))


# ---- models with random weights ----

def mlp(path, r, d_in, d, k, opset, link="", kind=np.float32, batch="N", rare=0.0):
    """Writes x → Gemm → Relu → Gemm, and what makes probabilities of it. rare spreads the biases, so that classes differ in how often they come."""
    real = {np.float32: T.FLOAT, np.float16: T.FLOAT16}[kind]
    w = {"w0": r.normal(size=(d_in, d)) / d_in**0.5, "b0": r.normal(size=d) / 4, "w": 3 * r.normal(size=(d, k)) / d**0.5, "b": -rare * np.arange(k) / k}
    nodes = [oh.make_node("Gemm", ["x", "w0", "b0"], ["a0"]), oh.make_node("Relu", ["a0"], ["phi"]), oh.make_node("Gemm", ["phi", "w", "b"], ["z"])]
    if link == "one-vs-rest":
        w["axes"] = np.array([1], np.int64)
        nodes += [oh.make_node("Sigmoid", ["z"], ["s"]), oh.make_node("ReduceSum", ["s", "axes"], ["t"]), oh.make_node("Div", ["s", "t"], ["y"])]
    else:
        nodes.append(oh.make_node(link or "Identity", ["z"], ["y"], **({"axis": 1} if link == "Softmax" else {})))
    inits = [nh.from_array(v if v.dtype == np.int64 else v.astype(kind), n) for n, v in w.items()]
    graph = oh.make_graph(nodes, "mlp", [oh.make_tensor_value_info("x", real, [batch, d_in])], [oh.make_tensor_value_info("y", real, [batch, k])], inits)
    m = oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset)])
    # The oldest format that has the opset, as exporters of its time wrote it; before 4, initializers had to be inputs.
    m.ir_version = max(4, oh.find_min_ir_version_for([oh.make_opsetid("", opset)]))
    onnx.checker.check_model(m, full_check=True)
    onnx.save(m, path)


# ---- bundles ----

class Subject:
    """A model with data: calibrated once for each structure, then exported."""

    def __init__(self, name, model, group, options=(), structures=("full", "kron"), methods=("mf0",), shape=None):
        self.name, self.model, self.group, self.options, self.structures, self.methods = name, model, group, list(options), structures, methods
        self.several = False  # of several labels, which have no prediction sets
        self.data = os.path.join(args.work, "data", name.replace("/", "-"))
        self.test = self.data + ".test.npz"  # what is predicted
        os.makedirs(os.path.dirname(self.data), exist_ok=True)

    def specs(self):
        """Flags that name the data of a calibration."""
        return ["--train", self.data + ".npz[:400]", "--val", self.data + ".npz[400:600]", "--ood", self.data + ".ood.npz"]

    def inputs(self):
        """The inputs that are predicted, by name: arrays with ROWS rows."""
        return dict(np.load(self.test))

    def go(self, bundle, rows, batch):
        at = f"{self.test}[{rows[0]}:{rows[-1] + 1}]"
        return json.loads(mfgs("predict", "--bundle", bundle, "--json", "--batch", batch, at))["predictions"]


class Random(Subject):
    """A model that is fed with numbers from a normal distribution."""

    def __init__(self, name, model, group, inputs, **more):
        super().__init__(name, model, group, **more)
        r = rng(name)

        def draw(n, scale):
            return {k: (3 * scale * r.normal(size=(n, *s))).astype(np.int64) if t == "int64" else (scale * r.normal(size=(n, *s))).astype(t)
                    for k, (t, s) in inputs.items()}

        def join(*parts):
            return {k: np.concatenate([p[k] for p in parts]) for k in inputs}

        self.train, n = draw(600, 1), ROWS - FAR
        np.savez(self.data + ".ood.npz", **draw(100, 2))
        np.savez(self.test, **join(draw(n, 1), draw(FAR // 2, 3), draw(FAR // 2, 10)))
        self.label()

    def label(self):
        r, bundle = rng(self.name + " labels"), self.data + ".labels.mfgs"
        head = json.loads(mfgs("inspect", "--json", *self.options, self.model))["head"]
        k, link = head["classes"], head["link"]
        several = self.several = link == "sigmoid" and k > 1
        first = r.integers(0, 2, (600, k)) if several else np.arange(600) % (2 if k == 1 else k)
        np.savez(self.data + ".npz", labels=first, **self.train)
        mfgs("calibrate", "--model", self.model, *self.options, *self.specs(), "--structure", "kron", "--damping", "rel:1", "--out", bundle, "--force")
        a = np.array([p["logits"] for p in json.loads(mfgs("predict", "--bundle", bundle, "--json", self.data + ".npz"))["predictions"]], np.float64)
        if several:
            labels = (r.random(a.shape) < sigmoid(a)).astype(np.int64)
        else:
            p = np.exp(a - a.max(1, keepdims=True)) if link == "softmax" else np.concatenate([1 - sigmoid(a), sigmoid(a)], 1) if k == 1 else sigmoid(a)
            labels = (p.cumsum(1) / p.sum(1, keepdims=True) < r.random((len(p), 1))).sum(1)
        np.savez(self.data + ".npz", labels=labels, **self.train)
        shutil.rmtree(bundle)


class Shipped(Subject):
    """A trained model with data of its own. test is an array for its one input."""

    def __init__(self, name, model, input, test, train, val, ood, **more):
        super().__init__(name, os.path.join(root, model), "trained", **more)
        self.given = ["--train", train, "--val", val, "--ood", ood]
        np.savez(self.test, **{input: test})

    def specs(self):
        return self.given


class Texts(Subject):
    """A model of token sequences: a batch of one length, known and unknown languages mixed, then one of another."""

    def __init__(self, name, model, folder, **more):
        super().__init__(name, os.path.join(root, model), "trained", **more)
        path = lambda f: os.path.join(root, folder, f + ".jsonl")
        self.given = ["--train", path("train"), "--val", path("val"), "--ood", path("foreign-val")]
        self.test = self.data + ".test.jsonl"
        self.records = []
        by = collections.defaultdict(list)
        for f in ["test", "romance", "others"]:
            for line in open(path(f)):
                record = json.loads(line)
                by[len(record["input_ids"])].append(record)
        for same in sorted(by.values(), key=len)[-2:]:
            self.records += same[-BATCH:]
        with open(self.test, "w") as f:
            f.writelines(json.dumps(x) + "\n" for x in self.records)

    def specs(self):
        return self.given

    def inputs(self):
        arrays = {}
        for name in ["input_ids", "attention_mask"]:
            arrays[name] = np.empty(ROWS, object)
            arrays[name][:] = [np.array(x[name], np.int64) for x in self.records]
        return arrays


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# ---- temperatures ----

class Manifest:
    """The numbers of bundle.yaml that the formulas want. It is edited as a person would, and sealed again."""

    def __init__(self, bundle):
        self.bundle, self.path = bundle, os.path.join(bundle, "bundle.yaml")
        self.text = open(self.path).read()

    def word(self, pattern):
        return re.search(pattern, self.text).group(1)

    def number(self, pattern):
        return float(self.word(pattern))

    def pair(self, name):
        return {"act": self.number(rf"\n  {name}: {{act: ([^,]*),"), "ens": self.number(rf"\n  {name}: {{act: [^,]*, ens: ([^,]*),")}

    def numbers(self):
        return {"nll": self.pair("nll"), "ood": self.pair("ood"), "lambda0": self.number(r"\n  lambda0: (.*)"), "ratio": self.number(r"\n  max_ratio: (.*)"), "ts": self.number(r"\n  ts: (.*)"),
                "link": self.word(r"\n  link: (.*)"), "serves": self.word(r"\nprobabilities: {method: (\w+)"), "score": self.word(r"\nood_score:\n  name: (.*)"),
                "median": self.number(r"\n  median: (.*)"), "examples": self.number(r"\nood_score:\n(?:  .*\n)*?  examples: (.*)"), "quantiles": json.loads(self.word(r"\n  quantiles: (.*)"))}

    def edit(self, *edits):
        for pattern, value in edits:
            self.text, n = re.subn(pattern, lambda m: m.group(1) + (value if isinstance(value, str) else repr(float(value))), self.text)
            if n != 1:
                raise Failed(f"{self.path}: {n} places match {pattern}, want 1")
        with open(self.path, "w") as f:
            f.write(self.text)
        mfgs("reseal", self.bundle)

    def soften(self, wide):
        """Gives the posterior an effect, and selects mf0: the validation likelihood often drives T_ens so high that every T_k is 1. Where wide, T_max/T_min is
        to differ between examples, and not to be all that the posterior makes possible, as T_ens of the other pair often has it."""
        median, act = self.number(r"\n  median_variance: (.*)"), self.pair("nll")["act"]
        nll, ood = r"(\n  nll: {act: [^,]*, ens: )[^,]*", r"(\n  ood: {act: [^,]*, ens: )[^,]*"
        self.edit((r"(\nprobabilities: {method: )\w+", "mf0"))
        if wide:
            self.edit((nll, median), (ood, median * 4), (r"(\n  ood: {act: )[^,]*", act * 2))
        else:
            self.edit((nll, median / 4))

    def center(self, scores):
        """Gives ½ to the margin whose score is the median of these: under other temperatures all of mf0's might be next to 0 or to 1."""
        self.edit((r"(\n  median: ).*", self.number(r"\n  median: (.*)") * (1 / np.median(scores) - 1)))

    def bound(self, ratio):
        self.edit((r"(\n  max_ratio: ).*", max(1, ratio)))


def ratios(predictions, m):
    """T_max/T_min of each example, under the pair that has the larger."""
    s2 = np.array([p["logit_variance"] for p in predictions])
    t = [np.sqrt(1 + m["lambda0"] * s2 / m[pair]["ens"]) for pair in ["nll", "ood"]]
    return np.maximum(*[x.max(1) / x.min(1) for x in t])


# ---- cases ----

def inputs_of(model):
    constant = {i.name for i in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in constant]


def rounds(model):
    """Whether a network rounds to something coarser than float32 as it goes, which runtimes do in different places."""
    kinds = {n.op_type for n in itertools.chain(model.graph.node, *(f.node for f in model.functions))}
    return any(re.search("quant|integer|nbits|qgemm|qlinear", k.lower()) for k in kinds) or any(i.data_type == T.FLOAT16 for i in model.graph.initializer)


def tensor(a):
    a = np.ascontiguousarray(a)
    # Half precision as bits: JavaScript of today has no such numbers everywhere.
    return {"type": a.dtype.name, "dims": list(a.shape), "data": (a.view(np.uint16) if a.dtype == np.float16 else a).ravel().tolist()}


def case(id, subject, bundle, method="mf0"):
    folder = os.path.join(args.work, "cases", id)
    os.makedirs(folder, exist_ok=True)
    fused = os.path.join(folder, "fused.onnx")
    if os.path.exists(fused):
        os.remove(fused)
    mfgs("export", "--bundle", bundle, "--out", fused, *(["--method", method] if method != "mf0" else []))
    m = onnx.load(fused, load_external_data=False)
    fixed = inputs_of(m)[0].type.tensor_type.shape.dim[0].dim_value
    arrays = subject.inputs()

    runs, want = [], []
    by_batch = subject.go(bundle, range(ROWS), fixed or BATCH)
    # A model of a fixed batch is given what is at hand, filled up with copies of the last row.
    for rows in [range(BATCH), range(BATCH, ROWS)] + [[i] for i in SINGLES]:
        alone = by_batch if fixed or len(rows) > 1 else {rows[0]: subject.go(bundle, rows, 1)[0]}
        for at in range(0, len(rows), fixed or len(rows)):
            some = list(rows[at:at + (fixed or len(rows))])
            filled = some + some[-1:] * ((fixed or len(rows)) - len(some))
            runs.append({"feeds": {k: tensor(np.stack([a[i] for i in filled])) for k, a in arrays.items()}})
            want.append({"rows": some, "predictions": [{o: alone[i][o] for o in OUTPUTS if o in alone[i]} for i in some]})
    props = {p.key: p.value for p in m.metadata_props}
    outputs = {o: props["mfgs.output." + o] for o in OUTPUTS if "mfgs.output." + o in props}
    ranks = next((o.version for o in m.opset_import if o.domain in ("", "ai.onnx")), 1) >= 11  # else classes cannot be ranked
    # Decisions are of the probabilities that the bundle serves.
    expected = set(OUTPUTS) - (set() if ranks else {"prediction_set"}) - (set() if method == "mf0" else {"abstain", "prediction_set"})
    if lack := by_batch[0].keys() & expected - outputs.keys():
        raise Failed(f"{fused} lacks the outputs {sorted(lack)}")
    json.dump({"id": id, "group": subject.group, "original": subject.model, "rounds": rounds(m), "runs": runs,
               "outputs": outputs}, open(os.path.join(folder, "case.json"), "w"))
    numbers = Manifest(bundle).numbers()
    json.dump({"method": numbers["serves"] if method == "mf0" else method, "manifest": numbers, "ratio": ratios(by_batch, numbers).max(), "runs": want}, open(os.path.join(folder, "want.json"), "w"))


def wrap(subject):
    """Calibrates a subject and writes its cases; yields their ids."""
    for structure in subject.structures:
        id = f"{subject.name.replace('/', '-')}-{structure}"
        bundle = os.path.join(args.work, "bundles", id)
        more = DECISIONS[structure][:2] if subject.several else DECISIONS[structure]
        if subject.group != "trained":
            more = more + ["--damping", "rel:0.1", "--ood-score", SCORES[structure]]
        mfgs("calibrate", "--model", subject.model, *subject.options, *subject.specs(), "--structure", structure, *more, "--out", bundle, "--force")
        manifest = Manifest(bundle)
        if subject.group != "trained":
            manifest.soften(subject.group == "wide")
            if SCORES[structure] == "mf0":
                manifest.center([p["ood_score"] for p in subject.go(bundle, range(ROWS), BATCH)])
        for method in subject.methods:
            case(id + ("" if method == "mf0" else "-" + method), subject, bundle, method)
            yield
        if subject.group == "wide":
            # Two more: one whose first interval just so has everything predicted here, and one calibrated with equal temperatures,
            # for which rows are beyond the first intervals or all.
            m = manifest.numbers()
            for name, ratio in [("within", 1.04 * ratios(subject.go(bundle, range(ROWS), BATCH), m).max() / MARGIN), ("beyond", 1)]:
                manifest.bound(ratio)
                case(f"{id}-{name}", subject, bundle)
                yield


def subjects():
    """Functions that make one subject each."""
    for folder in ["", "operators/"]:
        for g in json.load(open(os.path.join(root, "testdata/onnx", folder, "golden.json"))):
            if "refused" in g or "steps" in g["head"]:  # heads with steps: see testdata/steps
                continue
            options = list(itertools.chain(*([("--" + k.lower()), v] for k, v in g["options"].items())))
            inputs = {k: (v["type"], v["shape"][1:]) for k, v in g["inputs"].items()}
            name = g["file"].removesuffix(".onnx")
            methods = ["mf0", "mf1"] if g["head"]["link"] == "softmax" and name in ("gemm", "torch_large", "float16", "operators/qdq") else ["mf0"]
            yield name, lambda name=name, inputs=inputs, options=options, methods=methods: Random(
                name, os.path.join(root, "testdata/onnx", name + ".onnx"), "fixture", inputs, options=options, methods=methods)

    def made(name, group="random", structures=("full", "kron"), methods=("mf0",), **model):
        def make():
            path = os.path.join(args.work, "models", name + ".onnx")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            model.setdefault("d_in", 16)
            mlp(path, rng(name + " model"), **model)
            return Random(name, path, group, {"x": (np.dtype(model.get("kind", np.float32)).name, (model["d_in"],))}, structures=structures, methods=methods)
        return name, make

    yield made("sigmoid", d=32, k=1, opset=13, link="Sigmoid")
    yield made("multi-label", d=32, k=30, opset=13, link="Sigmoid")
    yield made("one-vs-rest", d=32, k=12, opset=17, link="one-vs-rest")
    yield made("half", d=32, k=10, opset=17, link="Softmax", kind=np.float16, methods=("mf0", "mf1"))
    yield made("fixed-batch", d=32, k=10, opset=17, link="Softmax", batch=8)
    yield made("fixed-batch-wide", d=32, k=200, opset=17, link="Softmax", batch=8, rare=8, group="wide", structures=("kron",))
    for opset in [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24]:
        yield made(f"opset-{opset}", d=16, k=200, opset=opset, link="Softmax", rare=8, group="wide", structures=("full", "kron") if opset in (7, 13, 21) else ("kron",))
    yield made("thousand", d=64, k=1000, opset=17, rare=8, group="wide", structures=("kron",))

    digits = os.path.join(root, "models/digits-mlp/digits-images-idx3-ubyte.gz")
    other = os.path.join(root, "models/digits-mlp/drawings-images-idx3-ubyte.gz")

    def images(path, at):
        return np.frombuffer(gzip.open(path).read(), np.uint8, offset=16).reshape(-1, 8, 8)[at:at + BATCH].astype(np.float32) / 255

    def pictures(shape, enlarge=lambda x: x):
        return enlarge(np.concatenate([images(digits, 1500), images(other, 300)])).reshape(ROWS, *shape)

    yield "digits-mlp", lambda: Shipped("digits-mlp", "models/digits-mlp/model.onnx", "image", pictures((1, 8, 8)), digits + "[0:1200]", digits + "[1200:1500]", other + "[0:300]", methods=("mf0", "mf1"))

    def mnist():
        # Without MNIST's data: the small digits, enlarged to its size.
        big = lambda x: np.pad(x.repeat(3, 1).repeat(3, 2), ((0, 0), (2, 2), (2, 2)))
        files = []
        for path, n in [(digits, 1500), (other, 300)]:
            x = big(np.frombuffer(gzip.open(path).read(), np.uint8, offset=16).reshape(-1, 8, 8)[:n].astype(np.float32) / 255)
            y = np.frombuffer(gzip.open(digits.replace("images-idx3", "labels-idx1")).read(), np.uint8, offset=8)[:n].astype(np.int64)
            files.append(os.path.join(args.work, "data", f"enlarged-{n}.npz"))
            os.makedirs(os.path.dirname(files[-1]), exist_ok=True)
            np.savez(files[-1], image=x.reshape(-1, 1, 28, 28), labels=y)
        return Shipped("mnist-mlp", "models/mnist-mlp/model.onnx", "image", pictures((1, 28, 28), big), files[0] + "[:1200]", files[0] + "[1200:]", files[1])
    yield "mnist-mlp", mnist

    for name, model in [("example-keras", "testdata/examples/keras/model.onnx"), ("example-keras-int8", "testdata/examples/int8/keras.onnx")]:
        yield name, lambda name=name, model=model: Shipped(name, model, "image", pictures((8, 8, 1)), digits + "[0:400]", digits + "[400:800]", other + "[0:300]")

    def sklearn():
        folder = os.path.join(root, "testdata/examples/sklearn")
        rows = np.concatenate([np.loadtxt(os.path.join(folder, f), delimiter=",", skiprows=1, max_rows=BATCH, usecols=range(30)) for f in ["test.csv", "zero.csv"]])
        path = lambda f: os.path.join(folder, f)
        return Shipped("example-sklearn", "testdata/examples/sklearn/model.onnx", "X", rows.astype(np.float32), path("train.csv"), path("val.csv"), path("slipped.csv"), options=["--classes", path("classes.txt")])
    yield "example-sklearn", sklearn

    for name, model in [("example-distilbert", "testdata/examples/distilbert/model.onnx"), ("example-distilbert-int8", "testdata/examples/int8/distilbert.onnx")]:
        yield name, lambda name=name, model=model: Texts(name, model, "testdata/examples/distilbert")


os.makedirs(os.path.join(args.work, "bundles"), exist_ok=True)
failures = done = 0
for name, make in subjects():
    if not re.search(args.only, name):
        continue
    try:
        for _ in wrap(make()):
            done += 1
    except Failed as e:
        failures += 1
        print(f"{name}: {e}", file=sys.stderr, flush=True)
print(f"{done} exported models in {args.work}/cases, {failures} failures")
if not done or failures:
    sys.exit(1)
