"""Writes docs/coverage.md from the notes of the export scripts and the results of check.py.

Rows of models without a result under WORK are kept from the existing document, and marked, so that some
families can be rerun. Fails, and writes nothing, unless there are at least 250 models, 99 % of the linear ones are
wrapped, every refusal is expected and explained, and no head and no output is taken wrongly.
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from check import TOLERANCE

HERE = Path(__file__).parent
LEAST_MODELS, LEAST_WRAPPED = 250, 0.99
KEPT = " †"  # follows the result of a row that was not run again
GROUPS = [  # folder of the ids, title
    ("odd", "Unusual heads: linear, written in unusual ways"),
    ("vendors", "Vendors: classifiers shipped in packages"),
    ("torch", "PyTorch: last layers written in many ways"),
    ("torchvision", "torchvision"),
    ("timm", "timm"),
    ("transformers", "transformers"),
    ("keras", "Keras"),
    ("jax", "Flax"),
    ("paddle", "PaddlePaddle"),
    ("sklearn", "scikit-learn"),
    ("trees", "Trees, forests, boosting, kernels, neighbours and averages"),
    ("quantized", "Quantised"),
    ("float16", "Half precision"),
    ("optimised", "Optimised by ONNX Runtime"),
]


def load(work):
    metas = {m["id"]: m for m in (json.loads(f.read_text()) for f in work.rglob("meta.json"))}
    results = {}
    for line in (work / "results.jsonl").read_text().splitlines():
        r = json.loads(line)
        results[r["id"]] = r
    failed = [json.loads(f.read_text()) for f in sorted((work / "failed").glob("*.json"))] if (work / "failed").exists() else []
    for f in failed:
        f["error"] = f["error"].replace(str(work), "work")
    return metas, {i: r for i, r in results.items() if i in metas}, failed


def problems(metas, results):
    """The reasons against publishing the table, one per line."""
    bad = []
    for i, r in results.items():
        if r["result"] not in ("wrapped", "refused"):
            bad.append(f"{i}: {r['result']}: {r['reason']}")
        elif r.get("spread", 1) <= TOLERANCE[metas[i].get("precision", "float32")] and metas[i]["outputs"] != "class":
            bad.append(f"{i}: its logits differ by {r['spread']} only between inputs, so the check says nothing")
        elif r["result"] == "refused" and not metas[i]["refuse"]:
            bad.append(f"{i}: refused: {r['reason']}")
    return bad


def too_few(rows):
    """The requirements that the numbers of all rows, old and new, miss."""
    bad = []
    if len(rows) < LEAST_MODELS:
        bad.append(f"{len(rows)} models, want {LEAST_MODELS} or more")
    wrapped, linear = count(rows)[1:]
    if wrapped < LEAST_WRAPPED * linear:
        bad.append(f"{wrapped} of {linear} linear classifiers wrapped, want {LEAST_WRAPPED:.0%} or more")
    return bad


@dataclass
class Row:
    """One model: its line in the table and, if it is refused, why, and what becomes of its output."""
    line: str
    wrapped: bool
    why: str = ""
    linear: bool = True
    kept: bool = False
    output: str = ""

    @property
    def calibrated(self):
        return self.output.startswith(CALIBRATED)


def brief(reason):
    """A refusal as worded by mfgs, without the advice on naming a layer, another output or its kind."""
    return re.split("; if another|: say whether", reason)[0].replace("|", "\\|")


def output(meta, r):
    """What becomes of the output of a refused model."""
    if r["result"] != "refused":
        return f"wrong: {brief(r['reason'])}"
    if r.get("output") != CALIBRATED:
        return brief(r.get("output", "not tried"))
    out = f"{CALIBRATED} as {r['kind']}"
    if r["flags"] != "--head none":
        out += f", with `{r['flags']}`"
    if meta.get("together"):
        out += "; the numbers of an example depend on the others of its batch"
    return out + (f"; {OTHERWISE}: {meta['exporter']}" if "exporter" in meta else "")


def row(meta, r):
    if r["result"] == "wrapped":
        cells = f"{r['op']} | {r['features']} → {r['classes']} | {r['link']} | wrapped" + (EACH if "steps" in meta else "")
        cells += (f", with `--fix {meta['fix']}`" if "fix" in meta else "") + (f"; {CALIBRATED} as text too, with `{r['flags']}`" if meta.get("text") else "")
    else:
        shape = f"{meta['features'][-1]} → {meta['classes']}" if meta["classes"] else "–"
        cells = f"– | {shape} | – | {'' if r['result'] == 'refused' else 'refused: '}{r['result']}: {brief(r['reason'])}"
    wrapped = r["result"] == "wrapped"
    return Row(f"| {meta['id']} | {meta['source']} | {cells} |", wrapped, meta["refuse"], wrapped or meta.get("linear", not meta["refuse"]),
               output="" if wrapped else output(meta, r))


def kept(path, new):
    """The rows of the existing document without a new result: id → Row."""
    if not path.exists():
        return {}
    rows, why, linear = {}, {}, False
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            linear = line == "## " + LINEAR
        if m := re.match(r"\| `([^`]+)` \| (.*?) \| (.*) \|$", line):
            why[m[1]] = m[2], linear, m[3]
        m = re.match(r"\| ([a-z0-9]+/\S+) \| (.*) \| (.*) \| (.*) \| (.*) \| (wrapped.*?|refused: .*?)( †)? \|$", line)
        if m and m[1] not in new:
            wrapped = m[6].startswith("wrapped")
            reason, straight, out = why.get(m[1], ("", False, ""))
            rows[m[1]] = Row(line if m[7] else line[:-2] + KEPT + " |", wrapped, reason, wrapped or straight, True, out)
    return rows


def count(rows):
    """Models, those wrapped, and those that are linear."""
    return len(rows), sum(r.wrapped for r in rows.values()), sum(r.linear for r in rows.values())


def listed_versions(metas, path):
    """name → versions, of this run and of the rows that are kept."""
    versions = defaultdict(set)
    for m in metas.values():
        for p, v in m["versions"].items():
            versions[p].add(v)
    old = re.search(r"^Versions: (.*?)\. \[testdata", path.read_text(), re.M) if path.exists() else None
    for part in old[1].split(", ") if old else ():
        name, _, numbers = part.partition(" ")
        versions[name].update(numbers.split(" and "))
    return ", ".join(f"{p} {' and '.join(sorted(v))}" for p, v in sorted(versions.items()))


UNSUPPORTED = (
    "These heads are linear, or nearly so, but refused, because no exporter or vendor was found to write them: an output for each class, split off after the softmax; squared distances from prototypes; classes computed by several "
    "layers of more than one class each, by a layer and a constant, or by a convolution in groups; one logit with several thresholds (CORAL); logits with a time axis before the batch axis; probabilities that are smoothed, clamped, "
    "negated or reordered; and a softmax written in ways that no exporter uses. The error names the operator at which the search stopped. If a linear layer comes before it, "
    "`--features TENSOR --logits TENSOR` selects that layer; otherwise use [precomputed features and logits](data.md#precomputed-features). "
    "[Which rules are needed](../testdata/coverage/rules.md) is measured too.")
UNSUPPORTED_STEPS = (
    "Models that answer for each step are also refused if the last layer is a convolution over several steps, the sum of layers of two tensors, or multiplied by a gate for each step; or if "
    "its logits are resized, or their steps brought into another order. Libraries do write some of these: networks for segmentation often end in a convolution over 3×3 pixels, or resize their logits. "
    "Move the resize in front of the last layer, before the export: if that layer is a convolution over single pixels, it gives the same logits.")
EACH = ", for each step"
CALIBRATED = "calibrated"
OTHERWISE = "the export computes something else than the library"
RIGHT, LINEAR = "Correctly refused", "Linear, but refused"


def document(metas, results, failed, rows, versions):
    program = " and ".join(sorted({r.get("mfgs", "of an unknown version") for r in results.values()}))
    n, wrapped, linear = count(rows)
    old = sum(r.kept for r in rows.values())
    refused = [r for r in rows.values() if not r.wrapped]
    taken = sum(r.calibrated for r in refused)
    otherwise = sum(OTHERWISE in r.output for r in refused)
    wrong = [i for i, r in rows.items() if r.output.startswith("wrong")]
    each = sum(r.wrapped and EACH in r.line for r in rows.values())
    differences = sorted(r["difference"] for i, r in results.items() if "difference" in r and "precision" not in metas[i])
    out = [
        "# What mfgs can wrap",
        "",
        f"Generated by `testdata/coverage/table.py`; rows without{KEPT} measured with mfgs {program}.",
        "",
        f"This page lists {n} classifiers written by current exporters. According to their library or author, {linear} have a linear last layer; {wrapped} of these "
        f"({wrapped / linear:.1%}) are wrapped without flags for the head, {each} of them for each step of an example, such as a token, frame or pixel. The other {n - linear} have none and are refused, for the reasons below. "
        f"[`--head none`](guide.md#models-without-a-linear-last-layer) calibrates the output of {taken} of the {len(refused)} refused models. Of all {n}, which include "
        f"detectors, forests and mixtures, {wrapped / n:.1%} are wrapped, and {(wrapped + taken) / n:.1%} are wrapped or have their output calibrated. No wrong head was accepted"
        + (", and no wrong numbers." if not wrong else f". Wrong numbers were accepted of {len(wrong)}: " + ", ".join(f"`{i}`" for i in wrong) + "."),
        "",
        "Every file is checked in these steps:",
        "",
        "- `mfgs inspect` finds a head with the numbers of features and classes that the library or the author states.",
        "- `mfgs calibrate`, without flags for the head (larger heads with the Kronecker structure, which is faster), and `mfgs predict` run: on random inputs"
        " if the weights are random, and on inputs prepared by the package for vendors' models.",
        "- The logits of the cut model equal those of the original in Python's onnxruntime on the same inputs. If the original gives only probabilities, these are compared;"
        " terms common to all classes may differ if they cancel. Of models that answer for each step, those of all steps that count are compared. The largest difference allowed is 1e-3 of the"
        " largest logit in float32, 2e-2 in half precision and 5e-2 for weights with 8 bits or fewer; quantised probabilities may differ by 0.05."
        f" The median in float32 is {differences[len(differences) // 2]:.0e}.",
        "- If the model is rightly refused, `mfgs calibrate --head none` and `mfgs predict` run, with `--link sigmoid` for labels that do not exclude each other, and `--fix` for"
        " inputs that are no data. Where the numbers alone do not show what they are, the kind of output is named. The logits must be those of the original's output in Python's"
        " onnxruntime: the logarithms of probabilities, none below 2⁻²⁴, or the scores themselves, within the same limits.",
        f"- For trees, forests and the like the numbers of the exporting library are compared too. Where the exported file computes others, as {otherwise} files do, its row"
        " below says so. `--expected` must warn of other probabilities, and only of these.",
        "",
        f"Versions: {versions}. [testdata/coverage](../testdata/coverage) has the scripts; its README says how to run them.",
        "",
    ]
    if old:
        out += [f"{n - old} of the {n} models were run with this version. The {old} rows marked{KEPT} are from earlier versions.", ""]
    out += ["| models from | linear | wrapped | refused, not linear | refused, output calibrated | run with this version |", "|---|---|---|---|---|---|"]
    for folder, title in GROUPS + [("", "all")]:
        mine = {i: r for i, r in rows.items() if i.startswith(folder + "/") or not folder}
        if mine:
            k, w, straight = count(mine)
            out.append(f"| {title} | {straight} | {w} | {k - straight} | {sum(r.calibrated for r in mine.values())} of {k - w} | {sum(not r.kept for r in mine.values())} of {k} |")
    for title, straight in (RIGHT, False), (LINEAR, True):
        mine = [(i, r) for i, r in sorted(rows.items()) if not r.wrapped and r.linear == straight]
        if mine:
            out += ["", f"## {title}", "", "| model | why | output, with `--head none` |", "|---|---|---|"]
            out += [f"| `{i}` | {r.why} | {r.output or 'not tried'} |" for i, r in mine]
    out += ["", "## Not supported", "", UNSUPPORTED, "", UNSUPPORTED_STEPS, ""]
    out += ["d → K are the features and classes of the classifier. A network that averages the logits of two classifiers has the features of both.", ""]
    for folder, title in GROUPS:
        mine = [i for i in sorted(rows) if i.startswith(folder + "/")]
        if not mine:
            continue
        out += [f"## {title}", "", "| model | source | head | d → K | link | result |", "|---|---|---|---|---|---|"]
        out += [rows[i].line for i in mine]
        out.append("")
        says = [f"- `{i}`: {metas[i]['says']}; the logits{' of the cut model' if rows[i].wrapped else ''} differ from the file's output by {results[i]['difference']:.0e} of the largest logit."
                for i in mine if i in results and metas[i].get("says") and "difference" in results[i]]
        if says:
            out += ["Inputs, and the predictions of the original models:", ""] + says + [""]
    out += ["## Could not be exported", "", "Not counted above: the exporter failed or wrote an invalid model.", ""]
    return "\n".join(out + failed) + "\n"


def failures(metas, failed, path):
    """A line for each model that could not be exported, those of the document as it is included."""
    lines = {}
    if path.exists():
        for line in path.read_text().partition("## Could not be exported")[2].splitlines():
            if m := re.match(r"- `([^`]+)`", line):
                lines[m[1]] = line
    for f in failed:
        stem = f["id"].rsplit("/", 1)[0]
        other = [i for i in metas if "/" in stem and i.rsplit("/", 1)[0] == stem]
        also = f" (exported as `{other[0]}`)" if other else ""
        lines[f["id"]] = f"- `{f['id']}`: {' '.join(f['error'].split())[:200]}{also}"
    return [lines[i] for i in sorted(lines) if i not in metas]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--work", type=Path, default=HERE / "work", help="folder of the exported models")
    p.add_argument("--out", type=Path, default=HERE.parent.parent / "docs" / "coverage.md")
    p.add_argument("--draft", action="store_true", help="write what there is, and name the problems only")
    args = p.parse_args()
    metas, results, failed = load(args.work)
    waiting = sum(i not in results for i in metas)
    if waiting:
        print(f"{waiting} exported models have no result yet, and so no row", file=sys.stderr)
    old = kept(args.out, results)
    rows = {**old, **{i: row(metas[i], r) for i, r in results.items()}}
    bad = problems(metas, results) + too_few(rows)
    for line in bad:
        print(line, file=sys.stderr)
    if bad and not args.draft:
        sys.exit(f"{len(bad)} problems: nothing written")
    args.out.parent.mkdir(exist_ok=True)
    text = document(metas, results, failures(metas, failed, args.out), rows, listed_versions(metas, args.out))
    args.out.write_text(text)


if __name__ == "__main__":
    main()
