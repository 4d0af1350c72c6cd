"""Writes docs/benchmarks.md from the results of the other scripts.

Results of --quick are refused unless --out is given.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

from common import HERE, ROOT

SECTIONS = [
    ("resnet50", "The fused model", """torchvision's ResNet-50, 1000 classes, 2048 features, Kronecker structure; images of 224 × 224. The same
session options on both sides, and runs in turn. Of the 1 ms that the head takes at batch 1, 0.6 ms are the
product of the features and 2049 × 2049 eigenvectors, 16.8 MB that come from memory once an inference, and
0.4 ms some 80 small operators."""),
    ("calibration", "Calibration", """What a training set costs beyond running the network on it. The peer is a loop in Python that keeps
nothing of the network's output, over the same file in the same batches."""),
    ("whole", "laplace-torch, end to end", """A ResNet-18 with 512 features or, where d = 64, a layer of so many before the last; images of 224 × 224.
mfgs is the whole `mfgs calibrate`, with fingerprints of the data, the tuning of two temperatures on held-out
images and the writing of the bundle; laplace-torch fits its posterior, after its libraries are loaded, and
does none of these. Predictions are those of a loaded bundle, and of a fitted object in memory."""),
    ("cached", "laplace-torch, on the same features", """The last layer alone, from ready-made features in memory to the posterior, and from features to
probabilities, each without the start of the process. For few classes both sides' Kronecker fit is little but
the eigenvectors of a matrix of order 513: ours are of float64 and in Go, torch's of float32 and by LAPACK."""),
    ("backends", "laplace-torch's backends", """The fastest of its three is what mfgs is compared with; for the full curvature BackPACK, which shares its
implementation there with ASDL and is faster than the default."""),
    ("sampling", "Ensembles and Monte Carlo", """What else turns a ResNet-50 into such probabilities."""),
    ("go", "In Go alone", """From `make bench`."""),
]


def quantity(x):
    if x >= 100:
        return f"{x:,.0f}"
    return f"{x:.3g}" if x >= 0.01 else f"{x:.2g}"


def factor(x):
    return f"{x:.3f}" if 0.5 < x < 2 else quantity(x)


def cell(s, unit):
    """One side: its median, and quartiles where there are runs enough for them."""
    if not s["values"]:
        text = s["error"] or "no result"
    else:
        text = f"{quantity(statistics.median(s['values']))} {unit}"
        if len(s["values"]) >= 5:
            low, _, high = statistics.quantiles(s["values"], n=4)
            text += f" ({quantity(low)}–{quantity(high)})"
    text = f"{s['who']}: {text}"
    if s["note"]:
        text += f", {s['note']}"
    return text.replace("|", "\\|").replace("\n", " ")


def wanted(r):
    if not r["kind"]:
        return ""
    text = ("≤ " if r["kind"] == "at most" else "≥ ") + f"{r['limit']:.3g}"
    return text + {None: "", True: ", held", False: ", **missed**"}[r["holds"]]


def rows(m):
    """A measurement as lines of a table: the first side beside each ratio with another."""
    first, *others = m["sides"]
    lines = []
    for i, s in enumerate(others or [None]):
        ratio = next((r for r in m["ratios"] if s and {r["of"], r["to"]} == {first["who"], s["who"]}), None)
        if ratio is None and s is not None:
            ratio = next((r for r in m["ratios"] if s["who"] in (r["of"], r["to"]) and r["of"] != first["who"] and r["to"] != first["who"]), None)
        value = "" if ratio is None or ratio["value"] is None else f"{ratio['of']} / {ratio['to']} = {factor(ratio['value'])}"
        lines.append(f"| {m['title'] if i == 0 else ''} | {cell(first, m['unit']) if i == 0 else ''} | {cell(s, m['unit']) if s else ''} | {value} | {wanted(ratio) if ratio else ''} |")
    return lines


def document(measurements):
    first = measurements[0]
    machine, versions = first["machine"], first["versions"]
    out = ["# Benchmarks", "",
           "Written by [testdata/peers](../testdata/peers), whose README says how each side is run and how to run all of it",
           "again. Medians, with quartiles in brackets where there are five runs or more; the two sides of a ratio always",
           "took turns in one run of the script on one machine. Weights are random: only times and memory are compared.", "",
           f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}. "
           + ", ".join(f"{name} {v}" for name, v in versions.items()) + ".", ""]
    held = [r for m in measurements for r in m["ratios"] if r["holds"] is not None]
    out += [f"{sum(r['holds'] for r in held)} of {len(held)} bounds are held.", ""]
    for key, title, text in SECTIONS:
        part = sorted((m for m in measurements if m["section"] == key), key=lambda m: (m["order"], m["name"]))
        if not part:
            continue
        out += [f"## {title}", "", text, "", "| | | beside | ratio | wanted |", "|---|---|---|---|---|"]
        for m in part:
            out += rows(m)
        notes = dict.fromkeys(f"- {m['title']}: {note}" for m in part for note in m["notes"])
        commands = dict.fromkeys(m["command"] for m in part)
        out += ["", *([*notes, ""] if notes else []), "Command: " + ", ".join(f"`{c}`" for c in commands) + ".", ""]
    out += ["## Not measured", "", "Graphics processors: none of these figures is from one.", ""]
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=HERE / "work")
    parser.add_argument("--out", type=Path, help="the file to write [docs/benchmarks.md]")
    args = parser.parse_args()
    measurements = [json.loads(f.read_text()) for f in sorted((args.work / "results").glob("*.json"))]
    if not measurements:
        sys.exit(f"{args.work}/results holds no measurements: run run.sh")
    quick = [m["name"] for m in measurements if m["quick"]]
    if quick and not args.out:
        sys.exit(f"{', '.join(quick)}: measured with --quick, which shows only that it runs")
    # A part may have been measured again: of mfgs all commits are named.
    commits = sorted({m["versions"]["mfgs"] for m in measurements})
    for m in measurements:
        m["versions"]["mfgs"] = " and ".join(commits)
    if len({json.dumps([m["machine"], m["versions"]]) for m in measurements}) > 1:
        print("the measurements are of different machines or versions", file=sys.stderr)
        if not args.out:
            sys.exit(1)
    (args.out or ROOT / "docs" / "benchmarks.md").write_text(document(measurements))
    missed = [f"{m['name']}: {r['of']} / {r['to']} is {r['value']:.4g}, wanted {r['kind']} {r['limit']}"
              for m in measurements for r in m["ratios"] if r["holds"] is False]
    print("\n".join(missed), file=sys.stderr)


main()
