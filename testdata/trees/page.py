"""Writes docs/evidence/trees.md from the results of the other scripts."""
import collections
import importlib.metadata
import json
import pathlib
import subprocess
import textwrap

import numpy as np

import decisions
import ensembles
import exports
import maps
from common import arguments
from kinds import FIXED, KINDS, MISSING

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "evidence" / "trees.md"
LIBRARIES = ["xgboost-cpu", "lightgbm", "catboost", "scikit-learn", "skl2onnx", "onnxmltools", "onnxruntime"]
BOUND = 0.003  # nats: how much worse the served probabilities may be than the best of the other maps
SAME = 1e-6  # of numbers that two versions of a runtime compute in float32


def prose(text):
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def items(texts):
    return "\n".join(textwrap.fill("- " + " ".join(text.split()), 120, subsequent_indent="  ",
                                   break_long_words=False, break_on_hyphens=False) for text in texts) + "\n"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def small(v):
    return f"{v:.1e}" if v else "0"


# Exports

def exports_part(all_exports):
    kinds = collections.defaultdict(dict)
    for key, result in all_exports.items():
        kind, variant = key.split(" · ", 1)
        if variant.endswith("missing values"):
            kind += ", missing values"
        kinds[kind][variant] = result
    rows, whys, quirks = [], [], []
    for kind in [k for k in [*KINDS, *(f"{m}, missing values" for m in MISSING)] if k in kinds]:
        variants = kinds[kind]
        taken = [r for r in variants.values() if "parity" in r]
        possible = [r for r in variants.values() if "not exported" not in r]
        for variant, r in variants.items():
            for word in ("not exported", "refused"):
                if word in r:
                    whys.append((kind, variant.replace(" · ", ", "), word, r[word]))
        if not taken:
            rows.append([kind, f"0 of {len(possible)}"] + ["–"] * 6)
            continue
        parity = [r["parity"] for r in taken]
        expected = [r for r in taken if r["expected"]]
        differ = sum(r["expected"]["differ"] for r in expected)
        rows.append([
            kind, f"{len(taken)} of {len(possible)}", ", ".join(sorted({r["kind"] for r in taken})),
            small(max(p["probabilities"] for p in parity)), small(max(p["ood_score"] for p in parity)),
            sum(p["abstain"] + p["prediction_set"] for p in parity),
            f"{differ}, {small(max(r['expected']['most'] for r in expected))}" if expected else "–",
            sum(r["warned"] for r in expected) if expected else "–"])
        other = max(r["other label"] for r in taken)
        if other:
            quirks.append(f"{kind}: up to {100 * other:.1f} %")
    return rows, whys, quirks


def exports_summary(results):
    taken = [r for r in results.values() if "parity" in r]
    refused = [r for r in results.values() if "refused" in r]
    kinds = {k.split(" · ")[0] for k, r in results.items() if "parity" in r}
    parity = [r["parity"] for r in taken]
    most = max(max(p["probabilities"], p["ood_score"]) for p in parity)
    other = sum(p["abstain"] + p["prediction_set"] for p in parity)
    expected = [r for r in taken if r["expected"]]
    wrong = [r for r in expected if r["expected"]["differ"]]
    agree = sum(r["warned"] == r["expected"]["differ"] for r in expected)
    return {"kinds": len(kinds), "taken": len(taken), "refused": len(refused), "most": most, "other": other,
            "rows": parity[0]["rows"], "expected": len(expected), "wrong": len(wrong), "agree": agree,
            "unnamed": sum(p["unnamed"] > 0 for p in parity), "misnamed": sum(p["misnamed"] > 0 for p in parity),
            "ok": most <= SAME and not other and not refused}


def exports_text(results):
    rows, whys, quirks = exports_part(results)
    s = exports_summary(results)
    reasons = collections.OrderedDict()
    for kind, variant, word, why in whys:
        reasons.setdefault((kind, word, why), []).append(variant)
    words = {"not exported": "cannot be exported", "refused": "mfgs refuses it"}
    lines = items([f"{kind}: {why}" for kind, (_, why) in FIXED.items()] + [
        f"{kind} ({'; '.join(variants)}): {words[word]}: `{why.splitlines()[0]}`"
        for (kind, word, why), variants in reasons.items()])
    return "\n".join([
        "## Exports\n",
        prose(f"""Each kind of model was fitted to {exports.TRAIN:,} rows of *spam* (two classes) and *satellite* (six),
        and exported with classes that are strings and with integers other than 0, 1, 2, with ZipMap and without: four
        exports, as far as the library writes them. `mfgs calibrate --head none` calibrated each on {exports.VAL:,}
        other rows, with abstention and prediction sets. {exports.TEST} more rows were predicted by `mfgs predict`, and
        in Python's onnxruntime by the file that `mfgs export` wrote. Kinds that learn from *missing values* have one
        more export, fitted to, calibrated on and tested with rows of *satellite* without a tenth of their values."""),
        prose("""*Probabilities* and *OOD score* are the largest differences between the two. *Decisions* counts the
        rows with another `abstain` or `prediction_set`. *Not the library's* counts the validation rows for which the
        export, in Python's onnxruntime, has a probability more than 1e-4 from the `predict_proba` of the library, and
        has the largest difference; *found* counts those that `--expected` reports."""),
        table(["kind", "taken", "its numbers are", "probabilities", "OOD score", "decisions", "not the library's",
               "found"], rows),
        prose(f"""`mfgs predict` prints the class names of {s['taken'] - s['unnamed']} of the {s['taken']} exports; it
        does not find them in the others, and prints the index alone; `--classes` names them. {s['misnamed'] or 'No'}
        exports were given wrong names."""),
        prose("Exports that do not exist:"),
        lines,
        prose("""skl2onnx writes RandomForest, ExtraTrees and DecisionTree without the side to which a missing value
        goes: with missing values, these exports are other models. Where other exports differ, on few rows, the likely
        cause is a split or step at a float64 threshold, which an export rounds to float32."""),
        prose(f"""In some exports the largest number is not that of the label which they give
        ({'; '.join(quirks)} of the rows). CatBoost's label of two integer classes is 0 or 1, and not the class that its
        ZipMap names. In scikit-learn, the probabilities of an SVC are fitted apart from its labels. The scores of an
        SVC for two classes come out of onnxruntime in the reverse order: mfgs warns of the low accuracy, matrix scaling
        puts the classes right, and `--keep-class` must not be given."""),
    ])


# NLL

def cell(draws):
    served = np.array([d["served"] for d in draws])
    others = {m: np.array([d[m] for d in draws]) for m in maps.MAPS}
    best = min(others, key=lambda m: others[m].mean())
    gap = served - others[best]
    return {"served": served.mean(), **{m: v.mean() for m, v in others.items()}, "best": best, "gap": gap.mean(),
            "error": gap.std(ddof=1) / len(gap)**0.5, "worst": (served - np.min(list(others.values()), 0)).max(),
            "methods": collections.Counter(d["method"] for d in draws)}


def nll_cells(results):
    cells = {}
    for key, draws in results.items():
        name, kind, size = key.split(" · ")
        cells[int(size), name, kind] = cell(draws)
    return cells


def nll_text(cells):
    parts = [
        "## NLL\n",
        prose(f"""Each model was trained on half of a table, or on 4,000 rows of *letter*. From the other rows,
        {maps.DRAWS["spam"]} times ({maps.DRAWS["letter"]} for *letter*) a validation set was drawn at random; up to
        {maps.TEST:,} of the rest are for testing. *Served* are the probabilities that `mfgs predict` gives, by the
        method that `mfgs calibrate` selects. The other maps were fitted in Python to the same rows, from the
        probabilities of the export in onnxruntime, of which those below 2⁻²⁴ count as that: temperature scaling;
        isotonic regression of each class, normalised, and clipped from below at the value that has the lowest NLL
        in {maps.FOLDS}-fold cross-validation on the validation rows; and beta calibration of each class, normalised.
        Which of these is best is known only from the test rows."""),
        prose(f"""*Above the best* is the mean NLL of the served probabilities minus the lowest of the four other means,
        with its standard error over draws, in nats. The bound is {BOUND}. *Worst draw* is the largest difference
        between the served NLL of a draw and its own lowest NLL of the four. *Selected* counts the draws in which the
        model's own probabilities, temperature scaling (with smoothing) and matrix scaling were selected."""),
    ]
    for size in maps.SIZES:
        rows = []
        for (n, name, kind), c in cells.items():
            if n == size:
                gap = f"{c['gap']:+.4f} ± {c['error']:.4f}"
                rows.append([f"{name}, {kind}", *(f"{c[m]:.4f}" for m in [*maps.MAPS, "served"]),
                             f"**{gap}**" if c["gap"] > BOUND else gap, f"{c['worst']:+.4f}",
                             "·".join(str(c["methods"][m]) for m in ("mle", "ts", "matrix"))])
        parts += [f"### {size:,} validation rows\n",
                  table(["table, model", *maps.MAPS, "served", "above the best", "worst draw", "selected"], rows)]
    return "\n".join(parts)


# Guarantees

def guarantee(draws, target):
    n = (decisions.VAL + 1) // 2
    mean = {k: np.mean([d[k] for d in draws]) for k in draws[0]}
    error = np.std([d["coverage"] for d in draws], ddof=1) / len(draws)**0.5
    low, high = 1 - decisions.ALPHA, 1 - decisions.ALPHA + 1 / (n + 1)
    held = "no" if mean["coverage"] + 3 * error < low else "higher" if mean["coverage"] - 3 * error > high else "yes"
    answering = [d for d in draws if d["answered"]]
    return {"mean": mean, "error": error, "held": held,
            "population": sum(d["error, population"] > target for d in draws),
            "test": sum(d["error, test"] > target for d in draws),
            "unachievable": sum(not d["achievable"] for d in draws),
            "answers": np.mean([d["error, test"] for d in answering]) if answering else None}


def guarantees_text(results):
    sets, thresholds = [], []
    total = collections.Counter()
    for key, draws in results.items():
        name, kind, target = key.split(" · ")
        g = guarantee(draws, float(target))
        m = g["mean"]
        total.update(splits=len(draws), population=g["population"], test=g["test"], low=g["held"] == "no", cells=1)
        total["most"] = max(total["most"], g["population"] / len(draws))
        sets.append([f"{name}, {kind}", len(draws), f"{100 * m['coverage']:.2f} ± {300 * g['error']:.2f}", g["held"],
                     f"{m['size']:.3f}", f"{100 * m['empty']:.2f}"])
        answers = "–" if g["answers"] is None else f"{100 * g['answers']:.2f} %"
        thresholds.append([f"{name}, {kind}", len(draws), f"{100 * float(target):g} %", f"{100 * m['error']:.2f} %",
                           f"{100 * m['answered']:.1f} %", answers, g["population"], g["test"], g["unachievable"]])
    text = "\n".join([
        "## Guarantees\n",
        prose(f"""{decisions.POPULATION:,} rows that a model was not trained on (of *spam*, the 2,301 that there are)
        are a population. In each split, {decisions.VAL} of them were drawn as validation rows. `mfgs
        calibrate --alpha {decisions.ALPHA} --target-error E` uses half of these for thresholds; the rest of the
        population is for testing. All thresholds and decisions are those of `mfgs calibrate` and `mfgs predict`."""),
        prose(f"""**Prediction sets.** *Coverage* is the mean over splits with three standard errors, on the test rows.
        It is guaranteed to be at least {100 * (1 - decisions.ALPHA):g} % on average over splits. *As guaranteed* is
        "yes" if the mean is between that and 1/(n+1) more, up to three standard errors, for n rows that set thresholds,
        "no" if it is below, and "higher" if it is above, as with models that give many rows the same probability.
        Sets may be empty if the model makes fewer errors than is allowed."""),
        table(["table, model", "splits", "coverage, %", "as guaranteed", "mean set size", "empty sets, %"], sets),
        prose(f"""**Abstention.** It is guaranteed with confidence 95 % that at most the target of the answers is wrong:
        one in 20 splits may violate it on average. *Violated in splits* counts the
        splits in which the error of the answers over the population misses the target; *on test rows* those over the
        test rows, which have sampling noise of their own. Where the target is *not achievable*, `mfgs calibrate`
        refuses it, and nothing is answered. The guarantee is of all splits: where a target is rarely achievable, those
        that answer are mostly the lucky ones. *Answered* is the mean over all splits, *error of answers* over those
        with answers."""),
        table(["table, model", "splits", "target", "error", "answered", "error of answers", "violated in splits",
               "on test rows", "not achievable"], thresholds),
        prose(f"""Violated in {total['population']} of {total['splits']} splits altogether, where
        {total['splits'] // 20} are allowed on average."""),
    ])
    return text, total


# Averages of networks

def ensembles_text(results):
    rows = []
    for name, r in results.items():
        best = max(ensembles.WHOLES, key=lambda k: r[k])
        rows.append([name, *(f"{r[k]:.4f}" for k in ("plain", "whole", "mean of mf0")),
                     *(f"**{r[k]:.3f}**" if k == best else f"{r[k]:.3f}" for k in ensembles.WHOLES),
                     f"{r['auroc of members']:.3f}"])
    lower = sum(r["whole"] < r["mean of mf0"] for r in results.values())
    higher = sum(max(r[k] for k in ensembles.WHOLES) > r["auroc of members"] for r in results.values())
    return "\n".join([
        "## Averages of networks\n",
        prose(f"""A file with the mean of the probabilities of {ensembles.MEMBERS} MLPs can be calibrated as a whole. If
        there are the files of the members, too, each can be calibrated with its own last layer, and the results
        averaged: the probabilities of mf0, and the percentiles of the default OOD score. Both had the same
        {ensembles.VAL:,} validation rows, and {ensembles.TEST:,} others for testing. OOD rows are these with
        each column permuted by itself. AUROCs of the whole are those of the default score, and of two with the table's
        columns as features."""),
        table(["table", "NLL, not calibrated", "NLL, whole", "NLL, members", *(f"AUROC, {k}" for k in ensembles.WHOLES),
               "AUROC, members"], rows),
        prose(f"""The whole has the lower NLL on {lower} of {len(results)} tables, and with the best of its three scores
        the higher AUROC on {higher}. Entropy alone is worse than the members' scores on all
        {len(results)}: where the members are there, their last layers find more."""
              if all(r["entropy"] < r["auroc of members"] for r in results.values()) else
              f"""The whole has the lower NLL on {lower} of {len(results)} tables, and the higher AUROC on {higher}."""),
    ])


def summary(exported, cells, total):
    s = exports_summary(exported)
    worst = max(cells, key=lambda k: cells[k]["gap"])
    missed = [f"{name}, {kind}, {size:,} rows ({cells[size, name, kind]['gap']:+.4f})"
              for size, name, kind in cells if cells[size, name, kind]["gap"] > BOUND]
    better = sum(c["gap"] < 0 for c in cells.values())
    gain = max(cells, key=lambda k: -cells[k]["gap"])
    return items([
        f"""**Exports.** `mfgs calibrate --head none` takes {s['taken']} of {s['taken'] + s['refused']} exports of
        {s['kinds']} kinds of models from four libraries. What the exported file gives in Python is what `mfgs predict`
        gives within {small(s['most'])}, on {s['rows']} rows of each; {s['other'] or 'no'} decisions differ.
        {s['wrong']} of {s['expected']} exports do not compute what their library does on some rows. `--expected`
        reports as many rows as Python finds {'for each' if s['agree'] == s['expected'] else f"for {s['agree']}"}.""",
        f"""**NLL.** In {better} of {len(cells)} cells (table, model, size of the validation data) the served
        probabilities have a lower mean NLL than each of the four other maps, by up to {-cells[gain]['gap']:.4f}
        ({gain[1]}, {gain[2]}, {gain[0]:,} rows). The largest excess over the best of the four is
        {cells[worst]['gap']:+.4f} ({worst[1]}, {worst[2]}, {worst[0]:,} rows). The bound of {BOUND} is
        {'kept in all cells' if not missed else 'missed in ' + str(len(missed)) + ': ' + '; '.join(missed)}.""",
        f"""**Guarantees.** The coverage of prediction sets is below the guaranteed one in {total['low']} of
        {total['cells']} cells. The target error is missed in {total['population']} of {total['splits']} splits, where
        {total['splits'] // 20} are allowed on average, and in at most {100 * total['most']:.0f} % of the splits
        of a cell.""",
    ])


def main():
    work = arguments().work
    said = subprocess.run([work / "mfgs", "version"], capture_output=True, text=True).stdout.splitlines()
    version, runtime = said[0].split()[1], next(line.split()[-1] for line in said if line.startswith("ONNX Runtime"))
    libraries = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    exported, nlls, splits, averages = (json.loads((work / f"{name}.json").read_text())
                                        for name in ("exports", "maps", "decisions", "ensembles"))
    cells = nll_cells(nlls)
    guarantees, total = guarantees_text(splits)
    PAGE.write_text("\n".join([
        "# Models without a linear last layer\n",
        prose(f"""Generated by `testdata/trees/run.sh`; measured with mfgs {version} and its ONNX Runtime {runtime}; in
        Python {libraries}."""),
        prose("""This page shows what `mfgs calibrate --head none` does for trees, forests, support vector machines,
        nearest neighbours, Naive Bayes and averages of models. It is compared with Python, where nothing of mfgs runs.
        The tables are *spam* and *ticdata* of the R package kernlab, and *satellite* and *letter* of mlbench.
        Inference had one thread."""),
        summary(exported, cells, total), exports_text(exported), nll_text(cells), guarantees, ensembles_text(averages)]))


if __name__ == "__main__":
    main()
