#!/usr/bin/env python3
"""Writes exports of all kinds of models, which small and random ones are enough for; of run.py's engines the fast ones run them.

    python3 models.py --mfgs MFGS --work WORK [--only REGEX]

Models are all of testdata/onnx that have a head, and random ones for what those leave out: operator sets from 7 to 24, links, half precision, fixed
batches. Labels are drawn from the network's probabilities, so that it is calibrated. Each case is a folder WORK/cases/ID: see case.py.
"""

import argparse
import itertools
import json
import os
import pathlib
import re
import shutil
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as oh, numpy_helper as nh

from case import Mfgs, write

root = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
ROWS, EVERY = 37, 5  # every fifth input is far outside of all data
MARGIN = 1.25  # the first interval ends at so many times the validation data's largest ratio of temperatures
# Decisions that bundles are to have: sets of either kind. Classes are ranked from operator set 11 on.
DECISIONS = {"full": ["--false-alarm", ".1", "--alpha", ".1"], "kron": ["--false-alarm", ".1", "--alpha", ".1", "--sets", "aps"]}
SCORES = {"full": "studentized", "kron": "mf0"}

parser = argparse.ArgumentParser()
parser.add_argument("--mfgs", required=True)
parser.add_argument("--work", required=True)
parser.add_argument("--only", default="")
args = parser.parse_args()
mfgs = Mfgs(args.mfgs)


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

class Random:
    """A model that is fed with numbers from a normal distribution."""

    def __init__(self, name, model, inputs, options=(), structures=("full", "kron"), wide=False):
        self.name, self.model, self.options, self.structures, self.wide = name, model, list(options), structures, wide
        self.data = os.path.join(args.work, "data", name.replace("/", "-"))
        os.makedirs(os.path.dirname(self.data), exist_ok=True)
        r = rng(name)

        def draw(n, scale):
            return {k: (3 * scale * r.normal(size=(n, *s))).astype(np.int64) if t == "int64" else (scale * r.normal(size=(n, *s))).astype(t)
                    for k, (t, s) in inputs.items()}

        self.train, self.test = draw(600, 1), draw(ROWS, 1)
        np.savez(self.data + ".ood.npz", **draw(100, 2))
        for k, far in draw(ROWS, 8).items():
            self.test[k][EVERY - 1::EVERY] = far[EVERY - 1::EVERY]
        np.savez(self.data + ".test.npz", **self.test)
        self.label()

    def specs(self):
        """Flags that name the data of a calibration."""
        return ["--train", self.data + ".npz[:400]", "--val", self.data + ".npz[400:600]", "--ood", self.data + ".ood.npz"]

    def predict(self, bundle):
        return json.loads(mfgs("predict", "--bundle", bundle, "--json", self.data + ".test.npz"))["predictions"]

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


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# ---- temperatures ----

class Manifest:
    """The numbers of bundle.yaml that change what is exported. It is edited as a person would, and sealed again."""

    def __init__(self, bundle):
        self.bundle, self.text = bundle, pathlib.Path(bundle, "bundle.yaml").read_text()

    def word(self, pattern):
        return re.search(pattern, self.text).group(1)

    def number(self, pattern):
        return float(self.word(pattern))

    def pair(self, name):
        return {"act": self.number(rf"\n  {name}: {{act: ([^,]*),"), "ens": self.number(rf"\n  {name}: {{act: [^,]*, ens: ([^,]*),")}

    def edit(self, *edits):
        for pattern, value in edits:
            self.text, n = re.subn(pattern, lambda m: m.group(1) + (value if isinstance(value, str) else repr(float(value))), self.text)
            if n != 1:
                raise RuntimeError(f"{self.bundle}: {n} places match {pattern}, want 1")
        mfgs.reseal(self.bundle, lambda _: self.text)

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
    s2, lambda0 = np.array([p["logit_variance"] for p in predictions]), m.number(r"\n  lambda0: (.*)")
    t = [np.sqrt(1 + lambda0 * s2 / m.pair(pair)["ens"]) for pair in ["nll", "ood"]]
    return np.maximum(*[x.max(1) / x.min(1) for x in t])


def cases(subject):
    """Calibrates a subject and writes its cases; yields once for each."""
    for structure in subject.structures:
        id = f"{subject.name.replace('/', '-')}-{structure}"
        bundle = os.path.join(args.work, "bundles", id)
        more = DECISIONS[structure][:2] if subject.several else DECISIONS[structure]
        mfgs("calibrate", "--model", subject.model, *subject.options, *subject.specs(), "--structure", structure, *more,
             "--damping", "rel:0.1", "--ood-score", SCORES[structure], "--out", bundle, "--force")
        manifest = Manifest(bundle)
        manifest.soften(subject.wide)
        if SCORES[structure] == "mf0":
            manifest.center([p["ood_score"] for p in subject.predict(bundle)])
        variants = {"": None}
        if subject.wide:
            # Two more: one whose first interval just so has everything predicted here, and one calibrated with equal temperatures,
            # for which rows are beyond the first intervals or all.
            variants |= {"-within": 1.04 * ratios(subject.predict(bundle), manifest).max() / MARGIN, "-beyond": 1}
        for suffix, ratio in variants.items():
            if ratio is not None:
                manifest.bound(ratio)
            write(mfgs, pathlib.Path(args.work, "cases", id + suffix), bundle, subject.model, dict(subject.test), probe=False)
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
            yield name, lambda name=name, inputs=inputs, options=options: Random(
                name, os.path.join(root, "testdata/onnx", name + ".onnx"), inputs, options=options)

    def made(name, wide=False, structures=("full", "kron"), **model):
        def make():
            path = os.path.join(args.work, "models", name + ".onnx")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            model.setdefault("d_in", 16)
            mlp(path, rng(name + " model"), **model)
            return Random(name, path, {"x": (np.dtype(model.get("kind", np.float32)).name, (model["d_in"],))}, structures=structures, wide=wide)
        return name, make

    yield made("sigmoid", d=32, k=1, opset=13, link="Sigmoid")
    yield made("multi-label", d=32, k=30, opset=13, link="Sigmoid")
    yield made("one-vs-rest", d=32, k=12, opset=17, link="one-vs-rest")
    yield made("half", d=32, k=10, opset=17, link="Softmax", kind=np.float16)
    yield made("fixed-batch", d=32, k=10, opset=17, link="Softmax", batch=8)
    yield made("fixed-batch-wide", d=32, k=200, opset=17, link="Softmax", batch=8, rare=8, wide=True, structures=("kron",))
    for opset in [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24]:
        yield made(f"opset-{opset}", d=16, k=200, opset=opset, link="Softmax", rare=8, wide=True, structures=("full", "kron") if opset in (7, 13, 21) else ("kron",))
    yield made("thousand", d=64, k=1000, opset=17, rare=8, wide=True, structures=("kron",))


os.makedirs(os.path.join(args.work, "bundles"), exist_ok=True)
failures = done = 0
for name, make in subjects():
    if not re.search(args.only, name):
        continue
    try:
        for _ in cases(make()):
            done += 1
    except RuntimeError as e:
        failures += 1
        print(f"{name}: {e}", file=sys.stderr, flush=True)
print(f"{done} exported models in {args.work}/cases, {failures} failures")
if not done or failures:
    sys.exit(1)
