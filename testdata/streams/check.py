"""Compares mfgs with the detector's own code. Results are in check.json."""
import json
import os
import pathlib
import subprocess
import sys
import time
import warnings

import numpy as np
import onnxruntime
import silero_vad
import sounds
import torch
from silero_vad.utils_vad import OnnxWrapper

DATA = pathlib.Path(silero_vad.__file__).parent / "data"
# The first file names no layer whose logits are those of the output: a mean over one step stands in between.
NETWORKS = {
    "silero_vad_16k_op15.onnx": ["--logits", "/model/decoder/decoder/2/Conv_output_0"],
    "silero_vad_op18_ifless.onnx": [],
}
STATE = ["--fix", "sr=16000", "--state", "state=stateN"]
CHUNKED = 40  # recordings that are given in chunks
MOST = 1e-6  # difference of probabilities


# A small process starts mfgs, since the largest memory of a process counts that of the one that started it.
STARTER = """
import os, sys
status, used = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)[1:]
open(sys.argv[1], "w").write(str(used.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def mfgs(work, *args, input=None):
    """Standard output, seconds, and the largest memory in MiB."""
    peak = work / "tmp" / "peak"
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-IS", "-c", STARTER, peak, work / "mfgs", *map(str, args)], input=input,
                          stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"mfgs {args[0]}: exit status {done.returncode}")
    return done.stdout, time.monotonic() - start, int(peak.read_text()) / 1024


def logits(lines):
    return np.array([json.loads(line)["logits"][0] for line in lines.splitlines()])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def package(path, windows):
    """The package's probability of each window of a recording."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = OnnxWrapper(str(path))
    x = windows[:, :, sounds.CONTEXT :].reshape(len(windows), 1, -1)
    return np.stack([network.audio_forward(torch.from_numpy(one.copy()), sounds.RATE).numpy()[0] for one in x])


def figures(p, y):
    """Of the probabilities of speech: NLL, ECE with 10 bins, and error rate, over all windows."""
    p = np.clip(p, 1e-12, 1 - 1e-12)
    right = np.where(y == 1, p, 1 - p)
    top, hit = np.maximum(p, 1 - p), (p > 0.5) == (y == 1)
    bins = np.minimum((top * 10).astype(int), 9)
    ece = sum(abs((top - hit)[bins == b].sum()) for b in range(10)) / p.size
    return {"NLL": float(-np.log(right).mean()), "ECE": float(ece), "error": float(1 - hit.mean())}


def chunks(x, rng):
    """Lines with the windows of each recording in chunks of 1 to 12, all recordings side by side."""
    ends = [0] * len(x)
    lines, order = [], []
    while any(e < x.shape[1] for e in ends):
        for i, at in enumerate(ends):
            if at == x.shape[1]:
                continue
            ends[i] = min(at + int(rng.integers(1, 13)), x.shape[1])
            lines.append(json.dumps({"input": x[i, at : ends[i]].tolist(), "stream": f"recording {i}",
                                     "stream_end": ends[i] == x.shape[1]}))
            order += [(i, t) for t in range(at, ends[i])]
    return "\n".join(lines) + "\n", order


def compare(work, name, flags):
    tmp = work / "tmp"
    tmp.mkdir(exist_ok=True)
    bundle = tmp / (name + ".mfgs")
    test = np.load(work / "test.npz")
    x, y = test["input"], test["labels"]
    want = package(DATA / name, x)
    calibrate = ["calibrate", "--threads", 1, "--model", DATA / name, *STATE, *flags, "--train", work / "train.npz", "--val",
                 work / "val.npz", "--force", "--out", bundle]
    _, seconds, _ = mfgs(work, *calibrate)
    out, took, peak = mfgs(work, "predict", "--threads", 1, "--bundle", bundle, "--format", "jsonl", work / "test.npz")
    got = sigmoid(logits(out)).reshape(y.shape)
    calibrated = np.array([json.loads(line)["probabilities"][1] for line in out.splitlines()]).reshape(y.shape)
    r = {"windows": y.size, "speech": float(y.mean()), "difference": float(np.abs(got - want).max()), "calibrate": seconds,
         "predict": took, "package": figures(want, y), "mfgs": figures(calibrated, y)}

    text, order = chunks(x[:CHUNKED], np.random.default_rng(1))
    out, took, _ = mfgs(work, "predict", "--threads", 1, "--bundle", bundle, "-", input=text)
    i, t = np.array(order).T
    r["chunks"] = {"lines": text.count("\n"), "windows": len(order), "seconds": took,
                   "difference": float(np.abs(sigmoid(logits(out)) - want[i, t]).max())}

    exported = tmp / name
    mfgs(work, "export", "--bundle", bundle, "--force", "--out", exported)
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    own, probabilities = session.run(["output", "probabilities"], {"input": x[:CHUNKED]})
    r["export"] = {"difference": float(np.abs(own[..., 0] - want[:CHUNKED]).max()),
                   "probabilities": float(np.abs(probabilities[..., 1] - calibrated[:CHUNKED]).max())}
    return r


def memory(work, name, flags):
    """Peak memory of predict by the number of recordings, and of the calibration with as many for training."""
    source, tmp = np.load(work / "val.npz"), work / "tmp"
    rows = []
    for n in (125, 250, 500, 1000):
        path = tmp / f"first-{n}.npz"
        np.savez(path, input=source["input"][:n], labels=source["labels"][:n])
        _, _, predicting = mfgs(work, "predict", "--threads", 1, "--bundle", tmp / (name + ".mfgs"), "--format", "jsonl", path)
        _, _, calibrating = mfgs(work, "calibrate", "--threads", 1, "--model", DATA / name, *STATE, *flags, "--train", path,
                                 "--val", work / "test.npz", "--force", "--out", tmp / "memory.mfgs")
        rows.append({"recordings": n, "file": path.stat().st_size / 2**20, "predict": predicting, "calibrate": calibrating})
        path.unlink()
    return rows


def main():
    work = sounds.arguments().work
    path = work / "check.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for name, flags in NETWORKS.items():
        for key, measure in ((name, compare), (f"{name} · memory", memory)):
            if key not in results:
                results[key] = measure(work, name, flags)
                path.write_text(json.dumps(results, indent=1))
            print(key, json.dumps(results[key]))
    worst = max(max(results[n]["difference"], results[n]["chunks"]["difference"], results[n]["export"]["difference"])
                for n in NETWORKS)
    if not worst <= MOST:
        sys.exit(f"probabilities differ by {worst:.2g}, want at most {MOST:g}")


if __name__ == "__main__":
    main()
