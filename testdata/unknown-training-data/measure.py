#!/usr/bin/env python3
"""Measures the cost of replacing the training data by other data: docs/evidence/training-data.md.

Calibrates models/mnist-mlp and models/cifar10-resnet20 with one set after another as
--train, and evaluates each bundle on the same test data. Writes the two tables into
the page, between its <!-- NAME --> and <!-- end --> lines.

    pip install numpy==2.4.6 pillow==9.4.0
    go build ./cmd/mfgs
    python3 testdata/unknown-training-data/measure.py --mfgs ./mfgs \\
        --mnist ../shared/data/mnist --notmnist ../shared/data/notmnist \\
        --cifar CIFAR --tinyimagenet ../shared/data/tinyimagenet32

CIFAR is the folder that cifar10.tar.gz unpacks into, with train/CLASS/*.jpg and
test/CLASS/*.jpg. --only mnist or --only cifar10 measures one of them. About five
minutes on two cores.
"""
import argparse
import gzip
import json
import pathlib
import subprocess
import tempfile

import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "training-data.md"
SEED = 1
SCORES = ["mf0", "studentized", "leverage"]


def idx(path):
    raw = gzip.open(path).read()
    dims = np.frombuffer(raw, ">i4", raw[3], 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(dims)


def folder(path, first, last):
    """Images first to last of each class, mixed, and their labels."""
    images, labels = [], []
    for k, c in enumerate(sorted(p for p in path.iterdir() if p.is_dir())):
        for f in sorted(c.iterdir())[first:last]:
            images.append(np.asarray(Image.open(f).convert("RGB")))
            labels.append(k)
    order = np.random.default_rng(SEED).permutation(len(labels))
    return np.stack(images)[order], np.array(labels)[order]


def rotated(images, degrees):
    return np.stack([np.asarray(Image.fromarray(a).rotate(degrees, Image.BILINEAR)) for a in images])


def noisy(images, deviation):
    noise = np.random.default_rng(SEED).normal(0, deviation, images.shape)
    return np.clip(np.rint(images + noise), 0, 255).astype(np.uint8)


def noise(shape):
    return np.random.default_rng(SEED).integers(0, 256, shape, np.uint8)


class Case:
    """A network, its data, and the replacements for its training data."""

    def __init__(self, model, train, val, test, other, folds):
        self.model, self.val = model, val
        # Half of the test data are the data of the same kind; the rest is tested on.
        order = np.random.default_rng(SEED).permutation(len(test[0]))
        fresh, self.test = order[:5000], tuple(a[order[5000:]] for a in test)
        fresh = test[0][fresh]
        few = np.random.default_rng(SEED).permutation(len(train))[:300]
        half = len(val[0]) // 2
        self.ood, foreign, self.ood_test = other[:folds[0]], other[folds[0]:folds[1]], other[folds[1]:]
        self.sets = [
            ("the training set", train, None),
            ("300 examples of it", train[few], None),
            ("other data of its kind", fresh, None),
            ("300 of these", fresh[:300], None),
            ("30 of these", fresh[:30], None),
            ("the validation data itself", val[0], None),
            ("half of it, `--val` the other half", val[0][:half], tuple(a[half:] for a in val)),
            ("its kind, rotated by 30°", rotated(fresh, 30), None),
            ("its kind, with noise of σ = 50", noisy(fresh, 50), None),
            ("more OOD images", foreign, None),
            ("noise", noise((5000,) + fresh.shape[1:]), None),
        ]


def save(path, images, labels=None):
    np.savez(path, x=images, **({} if labels is None else {"labels": labels}))
    return path


def measure(mfgs, case, work):
    val, ood = save(work / "val.npz", *case.val), save(work / "ood.npz", case.ood)
    test, ood_test = save(work / "test.npz", *case.test), save(work / "ood-test.npz", case.ood_test)

    def run(*args):
        done = subprocess.run([mfgs, *map(str, args), "--json"], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return json.loads(done.stdout)

    rows, plain = [], None
    for name, images, other_val in case.sets:
        train = save(work / "train.npz", images)
        used = save(work / "other-val.npz", *other_val) if other_val else val
        run("calibrate", "--model", case.model, "--train", train, "--val", used, "--ood", ood,
            "--preprocess", "unit", "--out", work / "bundle", "--force", "--features-cache", work / "cache")
        report = run("eval", "--bundle", work / "bundle", "--test", test, "--ood", f"other={ood_test}",
                     "--methods", "mle,ts,mf0,studentized,leverage")
        by = {m["name"]: m for m in report["methods"]}
        # Which probabilities the bundle uses; each AUROC is that of its score, whichever is selected.
        served = report["bundle"]["probabilities"]["method"]
        fit = by[served]["in_domain"]
        rows.append([name, f"{len(images):,}", served, f"{fit['nll']:.4f}", f"{100 * fit['ece']:.2f} %",
                     *(f"{100 * by[m]['ood'][0]['auroc']:.1f} %" for m in SCORES)])
        print(" | ".join(rows[-1]), flush=True)
        if plain is None:  # neither depends on --train
            plain = [[label, "", m, f"{by[m]['in_domain']['nll']:.4f}", f"{100 * by[m]['in_domain']['ece']:.2f} %",
                      f"{100 * by[m]['ood'][0]['auroc']:.1f} %", "", ""] for label, m in (("the network's softmax", "mle"), ("temperature scaling", "ts"))]
    head = ["`--train`", "examples", "selected", "NLL", "ECE", *(f"AUROC, `{m}`" for m in SCORES)]
    lines = ["| " + " | ".join(r) + " |" for r in [head, ["---"] * len(head)] + rows + plain]
    return "\n".join(lines)


def mnist(a):
    images, labels = idx(a.mnist / "train-images-idx3-ubyte.gz"), idx(a.mnist / "train-labels-idx1-ubyte.gz")
    test = idx(a.mnist / "t10k-images-idx3-ubyte.gz"), idx(a.mnist / "t10k-labels-idx1-ubyte.gz")
    letters = idx(a.notmnist / "notmnist-images-idx3-ubyte.gz")
    return Case(ROOT / "models/mnist-mlp/model.onnx", images[:55000], (images[55000:], labels[55000:]), test, letters, (5000, 10000))


def cifar(a):
    others = idx(a.tinyimagenet / "images-idx4-ubyte.gz")
    return Case(ROOT / "models/cifar10-resnet20/model.onnx", folder(a.cifar / "train", 0, 4500)[0],
                folder(a.cifar / "train", 4500, 5000), folder(a.cifar / "test", 0, 1000), others, (2500, 5000))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("mfgs", "mnist", "notmnist", "cifar", "tinyimagenet"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    parser.add_argument("--only", choices=["mnist", "cifar10"])
    a = parser.parse_args()
    makers = {"mnist": mnist, "cifar10": cifar}
    for name in [a.only] if a.only else makers:
        print(name, flush=True)
        case = makers[name](a)
        with tempfile.TemporaryDirectory() as work:
            table = measure(a.mfgs.resolve(), case, pathlib.Path(work))
        page = PAGE.read_text()
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not end:
            raise SystemExit(f"{PAGE} has no place for {name}")
        PAGE.write_text(f"{before}<!-- {name} -->\n{table}\n{end}{after}")


if __name__ == "__main__":
    main()
