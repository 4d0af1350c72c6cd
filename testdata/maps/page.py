"""Writes docs/evidence/maps.md from the results of check.py."""
import importlib.metadata
import json
import pathlib
import subprocess
import textwrap

import check
import draw

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "evidence" / "maps.md"
LIBRARIES = ["onnxruntime", "numpy", "scikit-learn", "pillow"]


def prose(text):
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def items(texts):
    return "\n".join(textwrap.fill("- " + " ".join(text.split()), 120, subsequent_indent="  ",
                                   break_long_words=False, break_on_hyphens=False) for text in texts) + "\n"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def three(v):
    return f"{v:.3f}"


def percent(v):
    return f"{100 * v:.1f} %"


def gain(d):
    """A difference with its standard error, and whether it is more than two of these."""
    if abs(d[0]) <= 2 * d[1]:
        return "none that is significant"
    return f"{d[0]:+.4f} ± {d[1]:.4f}"


def broken(row):
    return f"{row['violated'] / (check.SPLITS - row['none']):.1%}".replace("%", " %")


def summary(r):
    one, pooled = r["guarantee"]["splits"][2:4]
    u, best = r["objects"]["scores"], r["objects"]["scores"]["OOD score"]
    return items([
        f"""**Guarantees** hold by picture. With one pixel of each of {one['pictures']} pictures, "at most 10 % of the answered
        pixels are wrong" was broken in {broken(one)} of {check.SPLITS:,} splits, where 5 % are allowed. With
        {pooled['pixels']} pixels of each, taken as independent, it was broken in {broken(pooled)}. The price is that fewer are
        answered: {percent(one['answered'])} instead of {percent(pooled['answered'])}.""",
        f"""**Probabilities.** mf0 differs from temperature scaling by {gain(r['probabilities']['differences']['mf0 - temperature of all pixels'])}
        nats: {'it is worse here, and there is' if r['probabilities']['differences']['mf0 - temperature of all pixels'][0] > 0
        else 'there is'} no reason to use it for maps. The bundle uses `{r['calibrated']['probabilities']['method']}`.""",
        f"""**OOD objects.** Their pixels are found with an AUROC of
        {three(u['1 − max softmax']['pixels against other pictures'])} by the softmax and of
        {three(best['pixels against other pictures'])} by the bundle's score.""",
        f"""**Refusing a picture** that has an OOD object: an AUROC of {three(best['mean'])} by the mean of the OOD score over
        its pixels, and of {three(u['1 − max softmax']['mean'])} by that of the softmax; no statistic has more than
        {three(max(v[k] for v in u.values() for k in check.STATISTICS))}. Small objects are lost among noisy borders. Pictures
        of stripes are found with {three(best['mean, other'])}, and {three(u['1 − max softmax']['mean, other'])} by the
        softmax.""",
        f"""**Eight pixels of each training picture** instead of one change nothing that matters: the AUROC of leverage by
        {abs(r['draws']['1200 · 8']['pixels'] - r['draws']['1200 · 1']['pixels']):.3f}, and the NLL not at all, since mf0 becomes
        temperature scaling in both. So mfgs draws one.""",
    ])


def quality_text(r):
    rows = [[k, f"{q['NLL']:.4f}", percent(q["ECE"]), percent(q["error"])] for k, q in r["probabilities"]["quality"].items()]
    d = r["probabilities"]["differences"]
    return "\n".join([
        "## Probabilities\n",
        prose(f"""Over all {draw.SIZES['test'] * draw.SIZE**2 / 1e6:.1f} million pixels of the test pictures; ECE with
        {check.BINS} bins. *Temperature of all pixels* is fitted in numpy to all pixels of the validation pictures: {r['probabilities']['temperature']:.3f}.
        mf0 and the bundle are `mfgs export`'s files, tuned on one pixel of each of 500 validation pictures: the other 500 set
        thresholds."""),
        table(["probabilities", "NLL", "ECE", "error"], rows),
        prose("Differences of the NLL, with the standard error over pictures: " + "; ".join(
            f"{k.replace('-', '−')}: {gain(v)}" for k, v in d.items()) + ".")])


def guarantee_text(r):
    rows = [[f"{p['pictures']:,}", p["pixels"], broken(p), p["none"], percent(p["answered"]), percent(p["error"]),
             percent(p["most error"])] for p in r["guarantee"]["splits"]]
    a = r["answers"]
    return "\n".join([
        "## The guarantee\n",
        prose(f"""The validation and test pictures together are split {check.SPLITS:,} times. Half of the pictures drawn set the
        candidates and half test them, as mfgs does, for "at most 10 % of the answered pixels are wrong", which may be broken
        in 5 % of draws. *Broken* is how often more than 10 % of all answered pixels of the remaining pictures are wrong.
        With {check.POOLED} pixels of each picture, these are pooled as if they were independent examples. They are not: the
        correlation of errors within a picture is {three(r['guarantee']['correlation'])}."""),
        table(["pictures", "pixels of each", "broken", "no threshold", "answered", "wrong", "most wrong"], rows),
        prose(f"""With the bundle itself, {percent(a['answered'])} of all test pixels are answered, {percent(a['error'])} of these
        wrongly; without thresholds {percent(a['all'])} are wrong.""")])


def ood_text(r):
    u, said = r["objects"]["scores"], r["objects"]["answered"]
    pixels = ["pixels against the rest of their pictures", "pixels against other pictures"]
    return "\n".join([
        "## OOD objects\n",
        prose(f"""{draw.SIZES['ood']} pictures have a cross or a star beside the known shapes. AUROC of its pixels, against
        the other pixels of these pictures and against all of the test pictures. Borders of known objects are uncertain too,
        with every score."""),
        table(["score", "against the rest", "against other pictures"],
              [[k, *(three(v[p]) for p in pixels)] for k, v in u.items()]),
        prose(f"""The bundle answers {percent(said['objects'])} of the pixels of OOD objects, and {percent(said['rest'])} of the
        others in these pictures."""),
        "### Refusing a picture\n",
        prose(f"""AUROC against the test pictures, by a statistic of a picture's pixels: of the pictures with an OOD object, and
        of {draw.SIZES['other']} pictures of stripes, which are no scenes. The bundle answers {percent(said['other'])} of the pixels
        of stripes."""),
        table(["pictures", "score", *check.STATISTICS],
              [[pictures, k, *(three(v[s + end]) for s in check.STATISTICS)]
               for pictures, end in (("with an OOD object", ""), ("of stripes", ", other")) for k, v in u.items()])])


def draws_text(r):
    rows = []
    for k, v in r["draws"].items():
        pictures, times = k.split(" · ")
        rows.append([f"{int(pictures):,}", times, f"{v['NLL']:.4f}", percent(v["ECE"]), f"{v['mean leverage']:.3g}",
                     three(v["rank correlation"]), three(v["pixels"]), three(v["pictures"])])
    return "\n".join([
        "## Pixels of each training picture\n",
        prose("""Whether more than one pixel of each training picture is worth having: a table that names a picture eight times
        gives eight draws. Probabilities are those of mf0, on 300 test pictures. *Rank correlation* compares the leverage with
        that of 1,200 pictures and 8 pixels; the last columns are the AUROC of leverage for OOD objects' pixels, and
        for pictures by its mean. The network has 64 features before its last layer."""),
        table(["pictures", "pixels of each", "NLL", "ECE", "leverage", "rank correlation", "pixels", "pictures"], rows),
        prose("""Without thresholds all 1,000 validation pictures tune, and in each row they make mf0 temperature scaling, with an
        ensemble temperature of 65 to 14,000: the NLL cannot show a difference here. Leverage can."""),
        prose(verdict(r["draws"]))])


def verdict(d):
    parts = []
    for pictures in (1200, 200, 50):
        one, eight = d[f"{pictures} · 1"], d[f"{pictures} · 8"]
        parts.append(f"""with {pictures:,} pictures, eight pixels change the NLL by {eight['NLL'] - one['NLL']:+.4f} and the AUROC of
        pixels by {eight['pixels'] - one['pixels']:+.3f}""")
    text = "; ".join(parts) + "."
    return text[0].upper() + text[1:] + """ mfgs draws one. With few pictures, name each several times in the table of
        `--train`: the pixels of its rows are drawn independently. Never do so in `--val`, whose examples must be independent."""


def main():
    work = check.work_folder()
    r = json.loads((work / "check.json").read_text())
    said = subprocess.run([work / "mfgs", "version"], capture_output=True, text=True, check=True).stdout.splitlines()
    version, runtime = said[0].split()[1], next(line.split()[-1] for line in said if line.startswith("ONNX Runtime"))
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    e, s = r["exported"], draw.SIZES
    page = "\n".join([
        "# Models that answer for each pixel\n",
        prose(f"Generated by `testdata/maps/run.sh`; measured with mfgs {version} and its ONNX Runtime {runtime}; in Python {versions}; trained with PyTorch 1.13."),
        prose("This page shows what `mfgs calibrate` does for a small U-Net, checked in Python, where nothing of mfgs runs."),
        summary(r),
        "## Scenes and network\n",
        prose(f"""`draw.py` draws scenes of {draw.SIZE}×{draw.SIZE} pixels with discs, squares, triangles and rings on a rough
        background, {len(draw.CLASSES)} classes in all, with noise and blur that differ between pictures. The U-Net is trained on
        {s['train']:,} of them, which are also `--train`; `--val` has {s['val']:,} and the test set {s['test']:,}."""),
        "## The exported model\n",
        prose(f"""What `mfgs export` wrote, in Python's onnxruntime, against the files of `mfgs predict --maps`, which are float32,
        on {e['pixels'] / 1e6:.1f} million pixels. Largest differences: confidence {e['confidence']:.1e}, OOD score
        {e['OOD score']:.1e}. {e['classes'] or 'No'} classes and {e['answers'] or 'no'} decisions differ."""),
        quality_text(r), guarantee_text(r), ood_text(r), draws_text(r)])
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
