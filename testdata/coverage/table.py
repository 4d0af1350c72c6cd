"""Writes docs/coverage.md from the notes of the export scripts and the results of check.py.

Fails, and writes nothing, where the table does not hold what it promises: 250 models or more, 97 %
of them wrapped, every refusal expected and explained, and no wrong head.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

from check import TOLERANCE

HERE = Path(__file__).parent
LEAST_MODELS, LEAST_WRAPPED = 250, 0.97
GROUPS = [  # folder of the ids, title
    ("torch", "PyTorch: last layers written in every way"),
    ("torchvision", "torchvision"),
    ("timm", "timm"),
    ("transformers", "transformers"),
    ("keras", "Keras"),
    ("sklearn", "scikit-learn"),
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
    """What keeps the table from being published, a line each."""
    bad = []
    for i, r in results.items():
        if r["result"] not in ("wrapped", "refused"):
            bad.append(f"{i}: {r['result']}: {r['reason']}")
        elif r.get("spread", 1) <= TOLERANCE[metas[i].get("precision", "float32")]:
            bad.append(f"{i}: tells its inputs apart by {r['spread']} only, so that the check says nothing")
        elif r["result"] == "refused" and not metas[i]["refuse"]:
            bad.append(f"{i}: refused: {r['reason']}")
    n = len(results)
    wrapped = sum(r["result"] == "wrapped" for r in results.values())
    if n < LEAST_MODELS:
        bad.append(f"{n} models, want {LEAST_MODELS} or more")
    if wrapped < LEAST_WRAPPED * n:
        bad.append(f"{wrapped} of {n} wrapped, want {LEAST_WRAPPED:.0%} or more")
    return bad


def reason(r):
    """The refusal as mfgs words it, without the advice that follows on how to name a layer."""
    return r["reason"].split("; if another layer")[0].replace("|", "\\|")


def row(meta, r):
    if r["result"] == "wrapped":
        head = f"{r['op']} | {r['features']} → {r['classes']} | {r['link']} | wrapped"
    else:
        head = f"– | {meta['features'][-1]} → {meta['classes']} | – | refused: {reason(r)}"
    return f"| {meta['id']} | {meta['source']} | {head} |"


def document(metas, results, failed):
    n = len(results)
    wrapped = sum(r["result"] == "wrapped" for r in results.values())
    versions = defaultdict(set)
    for m in metas.values():
        for p, v in m["versions"].items():
            versions[p].add(v)
    listed = ", ".join(f"{p} {' and '.join(sorted(v))}" for p, v in sorted(versions.items()))
    differences = sorted(r["difference"] for i, r in results.items() if "difference" in r and "precision" not in metas[i])
    slowest = max(r.get("inspect_s", 0) for r in results.values())
    out = [
        "# What mfgs can wrap",
        "",
        f"{n} classifiers as today's exporters write them: {wrapped} ({wrapped / n:.1%}) are wrapped with no flags, "
        f"{n - wrapped} are refused, each for the reason given below. No head was accepted that is not the classifier.",
        "",
        "For every file, made with random weights,",
        "",
        "- `mfgs inspect` had to find a head with the feature and class counts that the library states for its own classifier;",
        "- `mfgs calibrate`, with no flag about the head (larger heads with the Kronecker structure, which is quicker), and `mfgs predict` had to"
        " run on random inputs; and",
        "- the logits of the cut model had to be those of the original, run by Python's onnxruntime on the same inputs, or to give its"
        " probabilities where those are all it yields. The largest difference allowed is 1e-3 of the largest logit in float32, 2e-2 in half"
        f" precision and 5e-2 where weights are integers of 8 bits or fewer; quantised probabilities may differ by 0.05. The median in float32 is {differences[len(differences) // 2]:.0e}.",
        "",
        f"The versions: {listed}. The scripts are in [testdata/coverage](../testdata/coverage), whose README says how to repeat it.",
        "",
        "| models from | wrapped | refused |",
        "|---|---|---|",
    ]
    for folder, title in GROUPS:
        mine = [r for i, r in results.items() if i.startswith(folder + "/")]
        if mine:
            w = sum(r["result"] == "wrapped" for r in mine)
            out.append(f"| {title} | {w} | {len(mine) - w} |")
    out += [f"| all | {wrapped} | {n - wrapped} |", "", "## Refused, and why that is right", ""]
    for i, r in sorted(results.items()):
        if r["result"] == "refused":
            out.append(f"- `{i}`: {metas[i]['refuse']}.")
    out += ["", "A network with two classifiers, whose logits are averaged, has the features of both. d → K are the classifier's features and classes.", ""]
    for folder, title in GROUPS:
        mine = [i for i in sorted(results) if i.startswith(folder + "/")]
        if not mine:
            continue
        out += [f"## {title}", "", "| model | source | head | d → K | link | result |", "|---|---|---|---|---|---|"]
        out += [row(metas[i], results[i]) for i in mine]
        out.append("")
    out += ["## Could not be exported", "", "Not counted above: here the exporter itself failed, or wrote what is no valid model.", ""]
    for f in failed:
        stem = f["id"].rsplit("/", 1)[0]
        other = [i for i in metas if "/" in stem and i.rsplit("/", 1)[0] == stem]
        also = f" (exported as `{other[0]}`)" if other else ""
        out.append(f"- `{f['id']}`: {' '.join(f['error'].split())[:200]}{also}")
    return "\n".join(out) + "\n"


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
    bad = problems(metas, results)
    for line in bad:
        print(line, file=sys.stderr)
    if bad and not args.draft:
        sys.exit(f"{len(bad)} problems: nothing written")
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(document(metas, results, failed))


if __name__ == "__main__":
    main()
