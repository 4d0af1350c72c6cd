"""mfgs on the U-Net, against numpy and the labels. Nothing of mfgs computes the figures here."""
import argparse
import json
import pathlib
import subprocess
import time

import numpy as np
import onnxruntime
from PIL import Image
from scipy.optimize import minimize_scalar
from scipy.stats import binom, spearmanr
from sklearn.metrics import roc_auc_score

from draw import CLASSES, NO_LABEL, SIZE, SIZES

TARGET, FALSE_ALARM, CONFIDENT, SPLITS = 0.1, 0.05, 0.95, 1000
POOLED = 64  # pixels of a picture that are pooled as if they were independent
BINS = 15


def work_folder():
    p = argparse.ArgumentParser()
    p.add_argument("--work", type=lambda s: pathlib.Path(s).resolve(), required=True)
    return p.parse_args().work


def mfgs(work, *args):
    done = subprocess.run([work / "mfgs", *map(str, args)], capture_output=True, text=True, cwd=work)
    if done.returncode:
        raise RuntimeError(done.stderr[-600:])
    return done.stdout


def read(work, part, kind, n=None):
    return np.stack([np.asarray(Image.open(work / part / kind / f"{i:04}.png")) for i in range(n or SIZES[part])])


def network(path, images, outputs=None):
    """Outputs by name, of float32 or float64 with the classes last: [N,H,W,…]."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    s = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = outputs or [o.name for o in s.get_outputs()]
    got = [s.run(names, {s.get_inputs()[0].name: (b.transpose(0, 3, 1, 2) / np.float32(255)).astype(np.float32)})
           for b in np.split(images, range(50, len(images), 50))]
    return {name: np.concatenate(parts) for name, parts in zip(names, zip(*got))}


def logits(work, part):
    return network(work / "unet.onnx", read(work, part, "images"))["logits"].transpose(0, 2, 3, 1).astype(np.float64)


def softmax(z):
    p = np.exp(z - z.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def quality(p, y):
    """Figures over all pixels with a label."""
    p, y = p.reshape(-1, p.shape[-1])[y.ravel() != NO_LABEL], y[y != NO_LABEL]
    top, right = p.max(-1), p.argmax(-1) == y
    bins = np.minimum((top * BINS).astype(int), BINS - 1)
    gaps = [abs((right[bins == b] - top[bins == b]).sum()) for b in range(BINS)]
    nll = -np.log(p[np.arange(len(y)), y])
    return {"NLL": nll.mean(), "ECE": sum(gaps) / len(y), "error": 1 - right.mean()}


def nll_of_pictures(p, y):
    return -np.log(np.take_along_axis(p, y[..., None].astype(int), -1))[..., 0].mean((1, 2))


def difference(a, b):
    """The mean of a - b over pictures, with its standard error."""
    d = a - b
    return [d.mean(), d.std(ddof=1) / np.sqrt(len(d))]


def maps(work, out, part):
    """The maps that mfgs predict --maps writes."""
    if not (work / out / "classes").exists():
        (work / out).mkdir(parents=True, exist_ok=True)
        begin = time.time()
        mfgs(work, "predict", "--bundle", "bundle", part, "--maps", out)
        print(f"{part}: maps of {SIZES[part]} pictures in {time.time() - begin:.1f} s", flush=True)
    names = [f"{i:04}" for i in range(SIZES[part])]
    got = {k: np.stack([np.load(work / out / k / f"{n}.npy") for n in names]) for k in ("confidence", "ood_score")}
    for k in ("classes", "answers"):
        got[k] = np.stack([np.asarray(Image.open(work / out / k / f"{n}.png")) for n in names])
    return got


# The guarantee

def threshold(u, wrong, tuned):
    """The largest uncertainty that is answered, as mfgs finds it: see testdata/lines/check.py."""
    tune, calib = (u[tuned], wrong[tuned]), (u[~tuned], wrong[~tuned])
    tried = np.unique(tune[0])
    tried = np.r_[tried[:: max(1, len(tried) // 1000)], 1]

    def p_values(half):
        order = np.argsort(half[0])
        n = np.searchsorted(half[0][order], tried, side="right")
        k = np.r_[0, np.cumsum(half[1][order])][n]
        return np.where(n > 0, binom.cdf(k, np.maximum(n, 1), TARGET), 1)

    p = p_values(tune)
    first = len(p) - 1 - int(np.argmin(p[::-1]))
    kept = None
    for t, p in zip(tried[first:], p_values(calib)[first:]):
        if p > 1 - CONFIDENT:
            break
        kept = t
    return kept


def guarantee(u, wrong, size, pooled):
    """Random splits of pictures [N,pixels]: how often more than TARGET of the answered pixels of the pictures that set no
    thresholds are wrong."""
    errors, answered, none = [], [], 0
    for seed in range(SPLITS):
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(len(u))[:size]
        at = rng.integers(0, u.shape[1], (size, pooled))
        some_u, some_wrong = (np.take_along_axis(a[chosen], at, 1).ravel() for a in (u, wrong))
        t = threshold(some_u, some_wrong, np.repeat(np.arange(size) < size // 2, pooled))
        if t is None:
            none += 1
            continue
        rest = np.ones(len(u), bool)
        rest[chosen[size // 2:]] = False
        given = u[rest] <= t
        errors.append(wrong[rest][given].mean())
        answered.append(given.mean())
    errors = np.array(errors)
    return {"pictures": size, "pixels": pooled, "none": none, "violated": int((errors > TARGET).sum()),
            "answered": float(np.mean(answered)), "error": float(errors.mean()), "most error": float(errors.max())}


# OOD objects

STATISTICS = {"mean": lambda s: s.mean(1), "median": lambda s: np.median(s, 1),
              "90 % quantile": lambda s: np.quantile(s, .9, 1), "95 % quantile": lambda s: np.quantile(s, .95, 1),
              "99 % quantile": lambda s: np.quantile(s, .99, 1), "maximum": lambda s: s.max(1)}


def detection(test, odd, other, labels):
    """AUROC of pixels of OOD objects, of the pictures that have one, and of other pictures, by a score of pixels
    [N,H,W]."""
    new = labels == NO_LABEL
    some = test.ravel()[:: max(1, test.size // 1_000_000)]
    out = {"pixels against the rest of their pictures": roc_auc_score(new.ravel(), odd.ravel()),
           "pixels against other pictures": roc_auc_score(
               np.r_[np.zeros(some.size), np.ones(int(new.sum()))], np.r_[some, odd[new]])}
    for name, f in STATISTICS.items():
        own, far, farther = (f(s.reshape(len(s), -1)) for s in (test, odd, other))
        for of, scores in ((name, far), (f"{name}, other", farther)):
            out[of] = roc_auc_score(np.r_[np.zeros(len(own)), np.ones(len(scores))], np.r_[own, scores])
    return {k: float(v) for k, v in out.items()}


# Pixels of a picture in the training pass

def draws(d):
    """Posteriors from 1 and from 8 pixels of each of so many training pictures: a table that names a picture eight times
    has eight rows, whose pixels are drawn by their positions."""
    out, some, best, work = {}, 300, None, d.work
    for pictures, times in ((1200, 8), (1200, 1), (200, 8), (200, 1), (50, 8), (50, 1)):
        name = f"train-{pictures}-{times}"
        lines = [f"train/images/{i:04}.png,train/labels/{i:04}.png" for i in range(pictures)]
        (work / f"{name}.csv").write_text("\n".join(["image,label", *lines * times]) + "\n")
        mfgs(work, "calibrate", "--model", "unet.onnx", "--train", f"{name}.csv", "--val", "val", "--out", name, "--force",
             "--ood-score", "leverage")
        mfgs(work, "export", "--bundle", name, "--method", "mf0", "--out", f"{name}.onnx", "--force")
        test, odd = (network(work / f"{name}.onnx", x[:some], ["probabilities", "leverage"]) for x in (d.images, d.odd_images))
        lever = test["leverage"].astype(np.float64)
        best = lever if best is None else best
        far = odd["leverage"].astype(np.float64)
        found = detection(lever, far, far, d.odd_labels[:some])
        out[f"{pictures} · {times}"] = {
            **quality(test["probabilities"].astype(np.float64), d.labels[:some]), "mean leverage": float(lever.mean()),
            "rank correlation": float(spearmanr(best.ravel()[::37], lever.ravel()[::37])[0]),
            "pixels": found["pixels against other pictures"], "pictures": found["mean"]}
        print(name, out[f"{pictures} · {times}"], flush=True)
    return out


class Results(dict):
    """Results by key, in a file that is written after each one."""

    def __init__(self, path):
        self.path = path
        super().__init__(json.loads(path.read_text()) if path.exists() else {})

    def once(self, key, f, *args):
        if key not in self:
            self[key] = f(*args)
            self.path.write_text(json.dumps(self, indent=1, default=float))
            print(key, json.dumps(self[key], default=float)[:400], flush=True)


class Data:
    """What the sections share."""

    def __init__(self, work):
        self.work = work
        self.labels, self.odd_labels = read(work, "test", "labels"), read(work, "ood", "labels")
        self.val_labels = read(work, "val", "labels")
        self.images, self.odd_images = read(work, "test", "images"), read(work, "ood", "images")
        for method, out in ((None, "exported.onnx"), ("mf0", "mf0.onnx")):
            mfgs(work, "export", "--bundle", "bundle", "--out", out, "--force", *(("--method", method) if method else ()))
        self.exported = network(work / "exported.onnx", self.images, ["probabilities", "ood_score", "abstain", "leverage"])
        self.maps, self.odd, self.other = (maps(work, f"maps-{part}", part) for part in ("test", "ood", "other"))
        self.p = {part: softmax(logits(work, part)) for part in ("val", "test", "ood", "other")}


def calibrate(work):
    return json.loads(mfgs(work, "calibrate", "--model", "unet.onnx", "--train", "train", "--val", "val", "--target-error",
                           TARGET, "--false-alarm", FALSE_ALARM, "--out", "bundle", "--force", "--json"))


def probabilities(d):
    """The figures of each method, and differences of the NLL."""
    z = np.log(d.p["val"])
    t = np.exp(minimize_scalar(lambda t: quality(softmax(z / np.exp(t)), d.val_labels)["NLL"], bounds=(-1, 2),
                               method="bounded").x)
    kinds = {"network": d.p["test"], "temperature of all pixels": softmax(np.log(d.p["test"]) / t),
             "mf0": network(d.work / "mf0.onnx", d.images, ["probabilities"])["probabilities"].astype(np.float64),
             "bundle": d.exported["probabilities"].astype(np.float64)}
    nll = {k: nll_of_pictures(p, d.labels) for k, p in kinds.items()}
    return {"temperature": float(t), "quality": {k: quality(p, d.labels) for k, p in kinds.items()},
            "differences": {f"{a} - {b}": difference(nll[a], nll[b]) for a, b in (
                ("mf0", "temperature of all pixels"), ("mf0", "network"), ("temperature of all pixels", "network"))}}


def files(d):
    """The exported model against the files of predict --maps."""
    confidence = d.exported["probabilities"].max(-1)
    return {"pixels": int(confidence.size), "confidence": float(abs(confidence - d.maps["confidence"]).max()),
            "OOD score": float(abs(d.exported["ood_score"] - d.maps["ood_score"]).max()),
            "classes": int((d.exported["probabilities"].argmax(-1) != d.maps["classes"]).sum()),
            "answers": int((d.exported["abstain"] != (d.maps["answers"] == NO_LABEL)).sum())}


def answers(d):
    given, wrong = d.maps["answers"] != NO_LABEL, d.maps["classes"] != d.labels
    return {"answered": given.mean(), "error": wrong[given].mean(), "all": wrong.mean()}


def guarantees(d):
    pool = np.concatenate([d.p["val"], d.p["test"]])[:, ::2, ::4]  # every eighth pixel is enough, and takes less time
    u = 1 - pool.max(-1).reshape(len(pool), -1)
    w = (pool.argmax(-1) != np.concatenate([d.val_labels, d.labels])[:, ::2, ::4]).reshape(len(pool), -1)
    n, mean = w.shape[1], w.mean()
    correlation = (n * w.mean(1).var() / (mean * (1 - mean)) - 1) / (n - 1)
    return {"correlation": float(correlation),
            "splits": [guarantee(u, w, size, pixels) for size in (200, 400, 1000) for pixels in (1, POOLED)]}


def objects(d):
    scores = {"1 − max softmax": [1 - d.p[part].max(-1) for part in ("test", "ood", "other")],
              "1 − confidence": [1 - m["confidence"] for m in (d.maps, d.odd, d.other)],
              "OOD score": [m["ood_score"] for m in (d.maps, d.odd, d.other)],
              "leverage": [d.exported["leverage"], *(network(d.work / "exported.onnx", images, ["leverage"])["leverage"]
                                                     for images in (d.odd_images, read(d.work, "other", "images")))]}
    new, given = d.odd_labels == NO_LABEL, d.odd["answers"] != NO_LABEL
    return {"scores": {k: detection(*pair, d.odd_labels) for k, pair in scores.items()},
            "answered": {"objects": given[new].mean(), "rest": given[~new].mean(),
                         "other": (d.other["answers"] != NO_LABEL).mean()}}


def main():
    work = work_folder()
    results = Results(work / "check.json")
    results.once("calibrated", calibrate, work)
    d = Data(work)
    for key, f in (("probabilities", probabilities), ("exported", files), ("answers", answers), ("objects", objects),
                   ("draws", draws), ("guarantee", guarantees)):
        results.once(key, f, d)


if __name__ == "__main__":
    main()
