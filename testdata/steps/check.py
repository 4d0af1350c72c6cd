"""Calibrates the tagger of --work with mfgs, checks it in numpy and ONNX Runtime, and writes docs/evidence/steps.md."""
import argparse
import json
import pathlib
import subprocess
import textwrap

import numpy as np
import onnxruntime
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

import model

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "evidence" / "steps.md"
INPUTS = ("input_ids", "attention_mask")
TARGET, CONFIDENT, SPLITS, SIZE = 0.1, 0.95, 1000, 1000
DRAWS = 50


def mfgs(work, *args):
    done = subprocess.run([work / "mfgs", *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    return done.stdout


def sequences(path):
    return [json.loads(text) for text in path.read_text().splitlines()]


def run(session, of, names):
    """The outputs of one sequence, for its steps that count."""
    feed = {name: np.array([of[name]]) for name in INPUTS}
    mask = np.array(of["attention_mask"]) == 1
    return [out[0][mask] for out in session.run(names, feed)]


def log_softmax(z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def mean_by_sequence(values):
    return float(np.mean([np.mean(v) for v in values]))


def nll(logits, tags, temperature=1.0):
    return mean_by_sequence([-log_softmax(z / temperature)[np.arange(len(y)), y] for z, y in zip(logits, tags)])


def fitted(logits, tags):
    return min(np.geomspace(0.5, 4, 160), key=lambda t: nll(logits, tags, t))


def ece(p, y, weights):
    """Ten bins of equal width, each step weighted by one over the steps of its sequence."""
    confidence, right = p.max(-1), p.argmax(-1) == y
    at = np.minimum((confidence * 10).astype(int), 9)
    return float(sum(abs(np.sum(weights[at == b] * (confidence - right)[at == b])) for b in range(10)) / weights.sum())


def threshold(u, wrong, tuned):
    """The largest uncertainty that is answered, as mfgs finds it: fixed-sequence testing (Angelopoulos et al., 2021)
    of the uncertainties in one half, by exact binomial tests on the other. None: nothing can be guaranteed."""
    def p_values(half):
        order = np.argsort(u[half])
        n = np.searchsorted(u[half][order], tried, side="right")
        k = np.r_[0, np.cumsum(wrong[half][order])][n]
        return np.where(n > 0, binom.cdf(k, np.maximum(n, 1), TARGET), 1)

    tried = np.r_[np.quantile(u[tuned], np.linspace(0, 1, 1000)), 1]
    p = p_values(tuned)
    first = len(p) - 1 - int(np.argmin(p[::-1]))
    kept = None
    for t, p in zip(tried[first:], p_values(~tuned)[first:]):
        if p > 1 - CONFIDENT:
            break
        kept = t
    return kept


def guarantees(u, wrong):
    """Thresholds on SIZE sequences, tried on the others; with one step of each sequence, and with all as if independent."""
    counts = {"one step of each sequence": [0, 0.0], "all steps, as if independent": [0, 0.0]}
    n = len(u)
    for seed in range(SPLITS):
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(n)
        val, rest = chosen[:SIZE], np.concatenate([chosen[SIZE:], chosen[:SIZE // 2]])  # all that set no threshold
        half = np.arange(SIZE) < SIZE // 2
        for name, (pick, weigh) in {
                "one step of each sequence": (lambda i: [rng.integers(len(u[i]))], lambda i: 1 / len(u[i])),
                "all steps, as if independent": (lambda i: range(len(u[i])), lambda i: 1.0)}.items():
            steps = [(i, t, h) for i, h in zip(val, half) for t in pick(i)]
            at = threshold(np.array([u[i][t] for i, t, _ in steps]), np.array([wrong[i][t] for i, t, _ in steps]),
                           np.array([h for _, _, h in steps]))
            if at is None:
                continue
            answered = sum(weigh(i) * np.sum(u[i] <= at) for i in rest)
            errors = sum(weigh(i) * np.sum(wrong[i][u[i] <= at]) for i in rest)
            total = sum(weigh(i) * len(u[i]) for i in rest)
            counts[name][0] += errors / answered > TARGET
            counts[name][1] += answered / total / SPLITS
    return counts


def measure(work):
    bundle, exported = work / "bundle", work / "exported.onnx"
    said = json.loads(mfgs(work, "calibrate", "--model", work / "tagger.onnx", "--train", work / "train.jsonl", "--val",
                           work / "val.jsonl", "--out", bundle, "--force", "--target-error", TARGET, "--json"))
    mfgs(work, "export", "--bundle", bundle, "--out", exported, "--force")
    network = onnxruntime.InferenceSession(str(work / "tagger.onnx"))
    served = onnxruntime.InferenceSession(str(exported))
    names = ["probabilities", "ood_score", "abstain"]
    r = {"method": said["probabilities"]["method"], "version": mfgs(work, "version").split()[1]}
    sets = {name: sequences(work / f"{name}.jsonl") for name in ("val", "test", "unseen")}
    tags = {name: [np.array([y for y in s["label"] if y >= 0]) for s in rows] for name, rows in sets.items()}
    logits = {name: [run(network, s, ["logits"])[0] for s in rows] for name, rows in sets.items()}
    out = {name: [run(served, s, names) for s in sets[name]] for name in ("test", "unseen")}

    # The exported file against mfgs.
    rows = json.loads(mfgs(work, "predict", "--bundle", bundle, work / "test.jsonl", "--json"))["predictions"]
    flat = [np.concatenate([o[i] for o in out["test"]]) for i in range(3)]
    r["steps"] = len(rows)
    assert len(rows) == len(flat[0])
    r["probabilities"] = float(np.abs(np.array([row["probabilities"] for row in rows]) - flat[0]).max())
    r["scores"] = float(np.abs(np.array([row["ood_score"] for row in rows]) - flat[1]).max())
    r["decisions"] = int(np.sum(np.array([row["abstain"] for row in rows]) != flat[2]))

    # What calibration gains.
    y = np.concatenate(tags["test"])
    weights = np.concatenate([np.full(len(t), 1 / len(t)) for t in tags["test"]])
    plain = np.exp(log_softmax(np.concatenate(logits["test"])))
    r["network"] = [nll(logits["test"], tags["test"]), ece(plain, y, weights), roc_auc_score(plain.argmax(-1) == y, plain.max(-1))]
    p = flat[0]
    r["mfgs"] = [mean_by_sequence([-np.log(o[0][np.arange(len(t)), t]) for o, t in zip(out["test"], tags["test"])]),
                 ece(p, y, weights), roc_auc_score(p.argmax(-1) == y, p.max(-1))]
    r["error"] = mean_by_sequence([o[0].argmax(-1) != t for o, t in zip(out["test"], tags["test"])])
    r["answered"] = mean_by_sequence([~o[2] for o in out["test"]])
    right = [(o[0].argmax(-1) != t, ~o[2]) for o, t in zip(out["test"], tags["test"])]
    r["wrong"] = sum(np.mean(w & a) for w, a in right) / sum(np.mean(a) for _, a in right)

    # Expected wrong tags of a sequence against those it has.
    wrong = np.array([int(np.sum(o[0].argmax(-1) != t)) for o, t in zip(out["test"], tags["test"])])
    r["wrong tags"] = {}
    for name, p in {"network": [np.exp(log_softmax(z)) for z in logits["test"]], "mfgs": [o[0] for o in out["test"]]}.items():
        expected = np.array([np.sum(1 - q.max(-1)) for q in p])
        fifths = np.array_split(np.argsort(expected), 5)
        r["wrong tags"][name] = [[float(expected[i].mean()), float(wrong[i].mean())] for i in fifths]

    # One step of each sequence against all.
    best = fitted(logits["val"], tags["val"])
    r["all"] = [best, nll(logits["test"], tags["test"], best)]
    one = []
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        at = [rng.integers(len(t)) for t in tags["val"]]
        t = fitted([z[i:i + 1] for z, i in zip(logits["val"], at)], [y[i:i + 1] for y, i in zip(tags["val"], at)])
        one.append([t, nll(logits["test"], tags["test"], t)])
    r["one"] = [float(np.mean([t for t, _ in one])), float(np.std([t for t, _ in one])),
                float(np.mean([v for _, v in one])), float(max(v for _, v in one))]

    # Guarantees, and unseen words.
    calibrated = [log_softmax(z / best) for z in logits["test"]]
    r["guarantees"] = guarantees([1 - np.exp(z.max(-1)) for z in calibrated],
                             [z.argmax(-1) != t for z, t in zip(calibrated, tags["test"])])
    new = np.concatenate(tags["unseen"])
    softmax = np.exp(log_softmax(np.concatenate(logits["unseen"]))).max(-1)
    r["unseen"] = [roc_auc_score(new, -softmax), roc_auc_score(new, np.concatenate([o[1] for o in out["unseen"]]))]
    return r


def prose(text):
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def page(r):
    row = "| {} | {:.4f} | {:.1f} % | {:.3f} |".format
    (one, broken), (pooled, pool) = r["guarantees"].items()
    share = lambda counts: f"{counts[0]} of {SPLITS:,} | {100 * counts[1]:.0f} %"
    return "\n".join([
        "# Each step of a sequence\n",
        prose(f"""Generated by `testdata/steps/run.sh`; measured with mfgs {r['version']}; in Python onnxruntime
        {onnxruntime.__version__}, numpy {np.__version__}, torch 1.13.0."""),
        prose(f"""This page shows what `mfgs calibrate` does for a tagger with a linear last layer, without `--head`. It
        is a GRU over both directions, for {model.TAGS} tags and {model.WORDS} words, trained on
        {model.SIZES['train']:,} sequences that `model.py` draws. Half of the sequences are easy to tag and one in four is
        hard, so that the errors of a sequence come together. {model.SIZES['val']:,} sequences are for `--val` and
        {model.SIZES['test']:,} for testing, 4 to 24 steps each. All figures are means over sequences of the means over
        their steps."""),
        "## Calibration\n",
        f"On the test sequences; `calibrate` selected {r['method']}. *AUROC* is that of wrong tags, by the confidence.\n",
        "| | NLL | ECE | AUROC |\n| --- | --- | --- | --- |",
        row("network", r["network"][0], 100 * r["network"][1], r["network"][2]),
        row("mfgs", r["mfgs"][0], 100 * r["mfgs"][1], r["mfgs"][2]) + "\n",
        prose(f"""With `--target-error {TARGET}`, {100 * r['answered']:.1f} % of the steps are answered, and
        {100 * r['wrong']:.1f} % of the answers are wrong; of all steps {100 * r['error']:.1f} % are."""),
        prose(f"""The exported file in ONNX Runtime for Python and `mfgs predict` differ on {r['steps']:,} steps by up to
        {r['probabilities']:.1e} in a probability and {r['scores']:.1e} in an OOD score, and in {r['decisions']} decisions."""),
        "## Wrong tags of a sequence\n",
        prose("""The sum of 1 - confidence over its steps is the expected number of wrong tags of a sequence, however its
        steps depend on each other. Means over fifths of the test sequences, in the order of that sum:"""),
        "| | expected and wrong tags |\n| --- | --- |",
        "\n".join(f"| {name} | " + ", ".join(f"{e:.2f} and {w:.2f}" for e, w in fifths) + " |"
                  for name, fifths in r["wrong tags"].items()) + "\n",
        "## One step of each sequence\n",
        prose(f"""mfgs draws one step of each validation sequence, and sets thresholds on these. The alternative is to
        pool all steps as if they were independent. Over {SPLITS:,} random splits of the test sequences, with {SIZE:,} for
        thresholds and the rule of `--target-error` in numpy, the error of the answers on the other sequences is above the
        target, where at most {100 * (1 - CONFIDENT):.0f} % of the splits may have that:"""),
        "| thresholds on | splits above the target | answered |\n| --- | --- | --- |",
        f"| {one} | {share(broken)} |\n| {pooled} | {share(pool)} |\n",
        prose(f"""One step costs precision elsewhere. The temperature with the lowest NLL on all validation steps is
        {r['all'][0]:.3f}, with an NLL of {r['all'][1]:.4f} on the test sequences. That on one step of each sequence is
        {r['one'][0]:.3f} ± {r['one'][1]:.3f} (mean and standard deviation over {DRAWS} draws), with a mean NLL of
        {r['one'][2]:.4f} and of {r['one'][3]:.4f} in the worst draw."""),
        "## Unseen words\n",
        prose(f"""Three words in ten of 1,000 test sequences are replaced by words that no training sequence has. The AUROC
        of these steps is {r['unseen'][0]:.3f} by the network's softmax and {r['unseen'][1]:.3f} by the bundle's OOD score."""),
    ])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path, required=True)
    PAGE.write_text(page(measure(parser.parse_args().work)))


if __name__ == "__main__":
    main()
