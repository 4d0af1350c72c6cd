"""Writes docs/evidence/lines.md from the results of the other scripts."""
import importlib.metadata
import json
import pathlib
import subprocess
import textwrap

import check
import draw
import reference
import study
from common import RECOGNISERS, THREADS, arguments, write

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "evidence" / "lines.md"
LIBRARIES = ["onnxruntime", "numpy", "scikit-learn", "pillow"]
DAMAGE = {"clean": "undamaged", "damaged": "damaged"}
KINDS = {"kept": "unchanged", "replaced": "1–3 letters replaced", "foreign": "all letters replaced"}


def prose(text):
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def items(texts):
    return "\n".join(textwrap.fill("- " + " ".join(text.split()), 120, subsequent_indent="  ",
                                   break_long_words=False, break_on_hyphens=False) for text in texts) + "\n"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def three(v):
    return "–" if v is None else f"{v:.3f}"


def percent(v):
    return f"{100 * v:.1f}"


def small(v):
    return f"{v:.1e}" if v else "0"


def best(values, least=False):
    """Values as text, the best of them bold."""
    most = (min if least else max)(values)
    return [f"**{three(v)}**" if three(v) == three(most) else three(v) for v in values]


def count(n):
    return f"{n:,}" if n else "no"


# Sections

def data_text(ref):
    sizes = draw.SIZES
    rows = []
    for name, r in RECOGNISERS.items():
        said, own = ref[f"{name} · package"], ref[f"{name} · test · {r.own}"]
        rows.append([f"{r.package} {r.version}", f"`{r.file}`", f"{r.height}", percent(own["right"]),
                     percent(own["CER"]), percent(own["WER"]), f"{said['same']:,} of {said['lines']:,}"])
    wide = ref["rapidocr · package"]
    return "\n".join([
        "## Lines and recognisers\n",
        prose(f"""`draw.py` draws words, numbers and codes for rapidocr, and for ddddocr, which is made for captchas,
        four to eight lower-case letters and digits. It uses the fonts of Debian's fonts-dejavu-core and
        fonts-liberation, and damages the lines by rotation, blur, low resolution and noise. There are
        {sizes['train']:,} lines for `--train`, {sizes['val']:,} for `--val` and {sizes['test']:,} for testing. They
        are drawn with the height of the network's input, so that nothing is resized."""),
        prose(f"""*Right* counts texts that equal the label, on the test lines with the padding of the package. CER and
        WER are the edits per character and per word. *Same text* counts the test lines for which the package's own code
        gives the text of the reference, which is written in numpy. {wide['wider']:,} lines are wider than the
        {RECOGNISERS['rapidocr'].own} pixels to which rapidocr pads: it gives wider lines their own width, the reference
        squeezes them, and these lines are not counted there."""),
        table(["package", "network", "height", "right, %", "CER, %", "WER, %", "same text"], rows)])


def detection_text(ref):
    rows = []
    for name in RECOGNISERS:
        for width in reference.WIDTHS[name]:
            r = ref[f"{name} · test · {width}"]
            rows.append([name, width or "own", percent(r["right"]), three(r["mean p(text)"]),
                         *best([r["AUROC"][k] for k in reference.SCORES])])
    return "\n".join([
        "## Detecting wrong lines\n",
        prose("""AUROC of right lines against wrong ones. p(text) is the sum over all alignments that give the text,
        by the forward algorithm. The others are the mean, product and minimum of the probabilities that packages give
        with characters: the most probable class of the first frame of each. *Width* is what lines were padded to."""),
        table(["recogniser", "width", "right, %", "mean p(text)", *reference.SCORES], rows)])


def maps_text(stud):
    parts = ["## Maps of p(text)\n", prose(f"""Logistic maps to the probability that the text is right, by
        {study.FOLDS}-fold cross-validation on the test lines. Numbers that are probabilities enter as log-odds.
        *Less Platt* is the difference of the NLL to that of Platt's map, with its standard error over lines. The
        last columns are the NLL of maps that were fitted to fewer lines: the mean of {study.DRAWS} draws.""")]
    for name in RECOGNISERS:
        rows = []
        for kind, r in stud[f"{name} · lines"].items():
            small_fits = [three(r.get(str(n))) for n in study.SMALL]
            less = "–" if r["less Platt"] is None or not r["SE"] else f"{r['less Platt']:+.3f} ± {r['SE']:.3f}"
            rows.append([kind, three(r["NLL"]), three(r["AUROC"]), percent(r["ECE"]), less, *small_fits])
        parts += [f"### {name}: maps\n", table(["map", "NLL", "AUROC", "ECE, %", "less Platt",
                                                *(f"{n:,} lines" for n in study.SMALL)], rows)]
    return "\n".join(parts)


def characters_text(stud):
    rows = []
    for name in RECOGNISERS:
        r = stud[f"{name} · characters"]
        for kind in reference.CHARACTERS:
            k = r[kind]
            rows.append([name, kind, three(k["AUROC"]), three(k["NLL as it is"]), three(k["NLL"]),
                         percent(k["ECE as it is"]), percent(k["least is wrong"]),
                         three(stud[f"{name} · replaced"]["clean-replaced"][kind])])
    of = {name: stud[f"{name} · characters"] for name in RECOGNISERS}
    counts = "; ".join(f"{name}: {r['wrong']:,} of {r['characters']:,} are wrong, and {r['missing']:,} are missing"
                       for name, r in of.items())
    return "\n".join([
        "## Detecting wrong characters\n",
        prose(f"""The characters of a text are right or wrong by its alignment to the label with the fewest edits.
        {counts}. *First*, *maximum* and *mean* are over the run of frames in which the character is the most probable
        class; *expected* weights all frames with the probability that they emit the character, given the text;
        *posterior* is p(text) divided by its sum with the texts in which this character is another one, is missing, or
        has one more beside it. *NLL* is after Platt's map. *Least is wrong* counts the wrong lines with at least
        one wrong character for which the least probable character is a wrong one. *Replaced* is the AUROC of unknown
        letters in undamaged lines."""),
        table(["recogniser", "probability", "AUROC", "NLL, as it is", "NLL", "ECE, as it is, %", "least is wrong, %",
               "replaced"], rows)])


def padding_text(ref):
    rows, own = [], []
    for name in RECOGNISERS:
        r = ref[f"{name} · test · 0"]
        own.append(f"{percent(r['right'])} % of {name}'s lines")
    own = " and ".join(own)
    for key, r in ref.items():
        name, what, width = (key.split(" · ") + [""])[:3]
        if what == "padding":
            width, _, pixel = width.partition(" of ")
            if width != "0":
                rows.append([name, width, pixel or "the network's 0", r["other texts"], r["p differs by 0.01"],
                             r["by 0.1"], percent(r["right"])])
    return "\n".join([
        "## Padding\n",
        prose(f"""What padding changes in the {draw.SIZES['test']:,} test lines, compared with lines of their own width.
        *Pixel* is the value that is put in, of 0 to 255; the network's 0 is 127.5 for rapidocr and 0 for ddddocr.
        With their own width, {own} are right."""),
        table(["recogniser", "width", "pixel", "other texts", "p(text) differs by 0.01", "by 0.1", "right, %"],
              rows)])


def mfgs_text(said):
    done = [v for v in check.VARIANTS if f"{v} · mfgs" in said]
    rows, maps = [], []
    for v in done:
        r, c = said[f"{v} · mfgs"], said[f"{v} · mfgs"]["characters"]
        rows.append([v, f"{r['other texts']} of {r['lines']:,}", percent(r["answers"]["answered"]),
                     percent(r["answers"]["error"]), three(c["AUROC"]), three(c["NLL"]), percent(c["ECE"])])
        for kind, q in (("**confidence of mfgs**", r["confidence"]), *said[f"{v} · reference"].items()):
            maps.append([v, kind, three(q["NLL"]), three(q["AUROC"]), percent(q["ECE"])])
    return "\n".join([
        "## mfgs against the reference\n",
        prose(f"""`mfgs calibrate --head ctc --target-error {check.TARGET}` on the lines of `--train` and `--val`, and
        `mfgs predict` on the test lines. *Other texts* are those that differ from the reference's. *Characters* are the
        probabilities of single characters, against the alignment to the label."""),
        table(["recogniser", "other texts", "answered, %", "error of answers, %", "characters: AUROC", "NLL", "ECE, %"],
              rows),
        prose("The probability that a text is right, on the test lines. Other maps are fitted to `--val` in Python."),
        table(["recogniser", "probability", "NLL", "AUROC", "ECE, %"], maps)])


def ood_text(ref, said):
    rows = []
    for name in RECOGNISERS:
        for part, r in ref[f"{name} · OOD"].items():
            damage, kind = part.split("-")
            rows.append([name, DAMAGE[damage], KINDS[kind], *best([r[k] for k in reference.SCORES])])
    text = ["## Unknown letters\n", prose(f"""{draw.OOD} lines of each recogniser were drawn unchanged, with one to
        three letters replaced by Greek, Cyrillic, Armenian or Georgian ones that its alphabet does not have, and with
        all replaced; once undamaged, once damaged. AUROC of unchanged against changed lines:"""),
            table(["recogniser", "lines", "changed", *(k.replace("p(text)", "1 − p(text)") for k in reference.SCORES)],
                  rows)]
    rows = []
    for v in check.VARIANTS:
        for part, r in said.get(f"{v} · OOD", {}).items():
            damage, kind = part.split("-")
            rows.append([v, DAMAGE[damage], KINDS[kind], percent(r["answered"]), three(r.get("1 - confidence")),
                         three(r.get("OOD score")), three(r.get("AUROC of characters"))])
    if rows:
        text += [prose("With mfgs, and its probabilities of characters against the replaced ones:"),
                 table(["recogniser", "lines", "changed", "answered, %", "1 − confidence", "OOD score", "characters"],
                       rows)]
    return "\n".join(text)


def splits_text(said):
    rows = []
    for v in check.VARIANTS:
        r = said[f"{v} · splits"]
        rows.append([v, percent(r["answered"]), percent(r["least answered"]), percent(r["error"]),
                     percent(r["most error"]), r["violated"], r["violated on test"], r["none"]])
    allowed = check.SPLITS * (1 - check.CONFIDENT)
    return "\n".join([
        "## The guarantee on random splits\n",
        prose(f"""{check.SPLITS} times, {draw.SIZES['val']:,} of the lines of `--val` and of the test were drawn at
        random. Half of them set the candidates for a threshold on 1 − p(text), half test them as mfgs does, for an
        error of at most {100 * check.TARGET:g} % with {100 * check.CONFIDENT:g} % confidence. This was computed in
        numpy. *Violated* counts the splits in which the error of all lines not in the first half is above the target:
        the guarantee allows {allowed:.0f} on average. *On the test lines* counts the others alone, which are a sample
        with noise of its own. In *none*, nothing could be answered."""),
        table(["recogniser", "answered, %", "least", "error of answers, %", "most", "violated", "on the test lines",
               "none"], rows)])


def export_text(said):
    rows = []
    for v in check.VARIANTS:
        r = said.get(f"{v} · export")
        if r:
            worst = r["worst"]
            rows.append([v, r["lines"], "–" if r["other texts"] is None else r["other texts"],
                         *(small(worst[k]) if k in worst else "–" for k in ("confidence", "characters", "ood_score")),
                         "–" if r["other decisions"] is None else r["other decisions"]])
    return "\n".join([
        "## The exported model\n",
        prose("""What `mfgs export` wrote, in Python's onnxruntime, against `mfgs predict`: texts and decisions that
        differ, and the largest differences of the numbers."""),
        table(["recogniser", "lines", "other texts", "confidence", "characters", "OOD score", "decisions"], rows)])


def summary(said):
    out = []
    for v in check.VARIANTS:
        r = said.get(f"{v} · mfgs")
        if not r:
            continue
        maps, q = said[f"{v} · reference"], r["confidence"]
        above = (": more than the target, which the guarantee allows for one draw of validation lines in twenty. Other draws "
                 "are [below](#the-guarantee-on-random-splits).")
        plain = maps["p(text) as it is"]
        out.append(f"""**{v}.** {count(r['other texts']).capitalize()} texts of {r['lines']:,} differ from the
            reference's. The confidence has an NLL of {three(q['NLL'])}, an ECE of {percent(q['ECE'])} % and an AUROC of
            {three(q['AUROC'])}; p(text) as it is has {three(plain['NLL'])}, {percent(plain['ECE'])} % and
            {three(plain['AUROC'])}. With a target error of {100 * check.TARGET:g} %,
            {percent(r['answers']['answered'])} % of the lines are answered, {percent(r['answers']['error'])} % of the
            answers wrongly{above if r['answers']['error'] > check.TARGET else "."}""")
    return items(out) if out else ""


def main():
    work = arguments().work
    said = subprocess.run([work / "mfgs", "version"], capture_output=True, text=True).stdout.splitlines()
    version, runtime = said[0].split()[1], next(line.split()[-1] for line in said if line.startswith("ONNX Runtime"))
    libraries = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    ref, stud, checked = (json.loads((work / f"{name}.json").read_text()) for name in ("reference", "study", "check"))
    with_mfgs = any(k.endswith("· mfgs") for k in checked)
    parts = [
        "# Recognisers of lines of text\n",
        prose(f"""Generated by `testdata/lines/run.sh`; measured with mfgs {version} and its ONNX Runtime {runtime}; in
        Python {libraries}."""),
        prose(f"""This page shows what `mfgs calibrate --head ctc` does for two recognisers that were trained with CTC.
        They are compared with Python, where nothing of mfgs runs. Inference had {THREADS} thread."""),
        summary(checked), data_text(ref), detection_text(ref)]
    if with_mfgs:
        parts.append(mfgs_text(checked))
    parts += [splits_text(checked), ood_text(ref, checked), characters_text(stud), padding_text(ref), maps_text(stud)]
    if any(k.endswith("· export") for k in checked):
        parts.append(export_text(checked))
    write(PAGE, "\n".join(p for p in parts if p))


if __name__ == "__main__":
    main()
