"""What the scripts share: the tables, the mfgs command, and results that survive an interruption."""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import warnings

import numpy as np
import onnxruntime
import pandas
import pyreadr

warnings.filterwarnings("ignore")  # of the libraries, about feature names and convergence
onnxruntime.set_default_logger_severity(3)
THREADS = 1  # of all libraries that have a setting, and of mfgs

# Where a table is, which of its columns is the class, and how many rows are for training: half, or fewer where a forest
# would be too large to load a hundred times.
TABLES = {
    "spam": ("kernlab/data/spam.rda", "type", None),
    "satellite": ("mlbench/data/Satellite.rda", "classes", None),
    "ticdata": ("kernlab/data/ticdata.rda", "CARAVAN", None),
    "letter": ("mlbench/data/LetterRecognition.rda", "lettr", 4000),
}


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--work", type=lambda s: pathlib.Path(s).resolve(), required=True,
                   help="folder with mfgs and the unpacked R packages")
    return p.parse_args()


class Table:
    """A table's rows in random order: x, y for training, and pool_x, pool_y that no model is trained on."""

    def __init__(self, work, name):
        path, label, train = TABLES[name]
        frame = next(iter(pyreadr.read_r(work / "usr/lib/R/site-library" / path).values()))
        y = pandas.factorize(frame.pop(label), sort=True)[0].astype(np.int64)
        x = frame.apply(lambda c: c.cat.codes if str(c.dtype) == "category" else c).to_numpy(np.float32)
        order = np.random.default_rng(0).permutation(len(y))
        x, y = x[order], y[order]
        n = train or len(y) // 2
        self.name, self.classes = name, int(y.max()) + 1
        self.x, self.y, self.pool_x, self.pool_y = x[:n], y[:n], x[n:], y[n:]


class Mfgs:
    """The command. Each answer is the JSON document that it prints."""

    def __init__(self, work, name):
        self.program, self.folder = work / "mfgs", work / "tmp" / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.bundle = self.folder / "bundle"

    def run(self, *args):
        done = subprocess.run([self.program, *map(str, args)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return done.stdout

    def rows(self, name, x, y):
        path = self.folder / f"{name}.npz"
        np.savez(path, x=x, labels=y)
        return path

    def calibrate(self, model, x, y, *args, head=("--head", "none")):
        """Calibrates a model without a copy of it in the bundle."""
        self.model = model
        val = self.rows("val", x, y)
        return json.loads(self.run("calibrate", "--model", model, *head, "--val", val, "--out", self.bundle,
                                   "--force", "--no-model", "--json", "--threads", THREADS, *args))

    def predict(self, x, y):
        out = self.run("predict", "--bundle", self.bundle, "--model", self.model, self.rows("test", x, y), "--json",
                       "--threads", THREADS)
        return json.loads(out)["predictions"]

    def export(self, *args):
        path = self.folder / "exported.onnx"
        self.run("export", "--bundle", self.bundle, "--model", self.model, "--out", path, "--force", *args)
        return path


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def outputs(path, x):
    """The outputs of a model by name. A list of maps, which ZipMap makes, becomes a matrix, its keys in order."""
    s = session(path)
    named = dict(zip((o.name for o in s.get_outputs()), s.run(None, {s.get_inputs()[0].name: x})))
    return {k: np.array([[row[c] for c in sorted(row)] for row in v], np.float32) if isinstance(v, list) else v
            for k, v in named.items()}


def rows_of(path, x):
    """The probabilities or scores of a model: its second output."""
    return list(outputs(path, x).values())[1]


class Results:
    """Results by key in a file that is written after each one."""

    def __init__(self, path):
        self.path = path
        self.all = json.loads(path.read_text()) if path.exists() else {}

    def __contains__(self, key):
        return key in self.all

    def add(self, key, value):
        self.all[key] = value
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.all, indent=1))
        os.replace(new, self.path)
        print(key, json.dumps(value)[:300], flush=True)


@contextlib.contextmanager
def inside(folder):
    """Works in a folder, where CatBoost leaves its logs."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
