"""Draws the lines of text: deterministic pictures with labels.csv (image, label) beside them.

Each line has its own random numbers, from its set and its number: a set may grow without changing its first lines.
"""
import csv
import pathlib
import string
import sys
import zlib

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from common import RECOGNISERS, alphabet, arguments

FONTS = pathlib.Path("/usr/share/fonts/truetype")
DEJAVU = [f"dejavu/DejaVu{kind}{weight}.ttf" for kind in ("Sans", "SansMono", "Serif") for weight in ("", "-Bold")]
LIBERATION = [f"liberation/Liberation{kind}-{weight}.ttf" for kind in ("Mono", "Sans", "SansNarrow", "Serif")
              for weight in ("Regular", "Bold", "Italic", "BoldItalic")]
FOREIGN = ["dejavu/DejaVuSans.ttf", "dejavu/DejaVuSans-Bold.ttf"]  # with the scripts below
SIZES = {"train": 400, "val": 1000, "test": 1500}
OOD = 500  # lines of each OOD set
HARD = {"rapidocr": 1.2, "ddddocr": 1.2}  # the strongest damage: so that about two thirds of the lines are read right

WORDS = """the of and to in is that for it as was with be by on not he his but at are this have from or had an they
which one you were all her she there would their we him been has when who will no more if out so what up said its about
than into them can only other time new some could these two may first then do any like my now over such our man me even
most made after also did many off before must well back through years where much your way down should because long each
just state those people mr how little good world make very year still see own work men day get here old life both
between being under three never know same last another while us might great go come since against right came take used
himself few house use during without again place american around however home small found part thought went say general
once upon school every does got united left number course war until always away something fact though less public put
think almost hand enough far took head yet better display modern history area completely specific total amount invoice
receipt order date paid balance due street avenue north south""".split()

# Letters that do not look like Latin letters or digits. Those that a recogniser knows are left out.
SCRIPTS = {
    "Greek": "ΓΔΛΞΣΨγδζλξψ",
    "Cyrillic": "БДЖЛЦШЩЪЭЮбджлцшщъэю",
    "Armenian": "ԲԳԴԵԶԷԸԹԺԻԽԿՁՂՃՄՆՉՊՋՎՑՔ",
    "Georgian": "აბგდვზთიკლმნპჟრსტფქღშჩცძწჭხჯჰ",
}


def random_numbers(*key):
    return np.random.default_rng(zlib.crc32("/".join(map(str, key)).encode()))


def choose(rng, items):
    return items[int(rng.integers(len(items)))]


def words(rng):
    """A line as in documents: words, numbers or codes."""
    kind = rng.random()
    if kind < 0.5:
        text = " ".join(choose(rng, WORDS) for _ in range(rng.integers(1, 6)))
    elif kind < 0.75:
        text = "".join(choose(rng, string.digits + "-/.:") for _ in range(rng.integers(4, 15)))
    else:
        text = "".join(choose(rng, string.ascii_letters + string.digits) for _ in range(rng.integers(4, 13)))
    return text.title() if rng.random() < 0.3 else text


def captcha(rng):
    return "".join(choose(rng, string.ascii_lowercase + string.digits) for _ in range(rng.integers(4, 9)))


def render(rng, text, height, fonts, hard):
    """[H,W] of uint8: dark text on a light background, damaged by up to hard."""
    scale = height / 48
    font = ImageFont.truetype(FONTS / choose(rng, fonts), int(rng.integers(22, 35) * scale))
    left, top, right, bottom = font.getbbox(text)
    width = max(height, right - left + int(rng.integers(6, 31) * scale))
    image = Image.new("L", (width, height), int(rng.integers(200, 256)))
    x = int(rng.integers(2, 9) * scale) - left
    y = (height - (bottom - top)) // 2 - top + int(rng.integers(-3, 4) * scale)
    ImageDraw.Draw(image).text((x, y), text, fill=int(rng.integers(0, 91)), font=font)
    damage = rng.random() * hard
    image = image.rotate(rng.normal() * 2.5 * damage, fillcolor=230, resample=Image.BILINEAR)
    if damage > 0.3:
        image = image.filter(ImageFilter.GaussianBlur(2.2 * scale * damage * rng.random()))
    if damage > 0.4:
        part = max(0.25, 1 - 0.75 * damage * rng.random())
        low = (max(8, int(width * part)), max(8, int(height * part)))
        image = image.resize(low).resize((width, height))
    pixels = np.asarray(image, np.float32) + rng.standard_normal((height, width)) * 45 * damage * rng.random()
    return np.clip(pixels, 0, 255).astype(np.uint8)


def replace(rng, text, letters):
    """Puts unknown letters in the place of one to three characters; returns where."""
    places = [i for i, c in enumerate(text) if c != " "]
    chosen = sorted(rng.permutation(places)[:rng.integers(1, 4)].tolist())
    changed = list(text)
    for i in chosen:
        changed[i] = choose(rng, letters)
    return "".join(changed), chosen


def save(folder, rows, extra=()):
    """rows are (pixels, text, values of extra). What is not image or label goes into changes.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, (pixels, *_) in enumerate(rows):
        Image.fromarray(pixels).save(folder / f"{i:04}.png")
    table(folder / "labels.csv", ("image", "label"), [(f"{i:04}.png", r[1]) for i, r in enumerate(rows)])
    if extra:
        table(folder / "changes.csv", ("image", *extra), [(f"{i:04}.png", *r[2:]) for i, r in enumerate(rows)])
    print(folder.name, len(rows), flush=True)


def table(path, head, rows):
    with open(path, "w", newline="", encoding="utf-8") as f:
        csv.writer(f, lineterminator="\n").writerows([head, *rows])


def draw(work, name):
    r = RECOGNISERS[name]
    text, fonts = (captcha, DEJAVU + LIBERATION) if name == "ddddocr" else (words, DEJAVU + LIBERATION)
    out = work / "lines" / name
    for part, size in SIZES.items():
        rows = []
        for i in range(size):
            rng = random_numbers(name, part, i)
            t = text(rng)
            rows.append((render(rng, t, r.height, fonts, HARD[name]), t))
        save(out / part, rows)
    known = set(alphabet(work, name))
    scripts = {k: "".join(c for c in v if c not in known) for k, v in SCRIPTS.items()}
    for part, hard in (("clean", 0), ("damaged", HARD[name])):  # the same lines, unchanged and changed
        kept, changed, foreign = [], [], []
        for i in range(OOD):
            t = text(random_numbers(name, "ood", i))
            script = choose(random_numbers(name, "script", i), list(scripts))
            new, places = replace(random_numbers(name, "places", i), t, scripts[script])
            rng = random_numbers(name, "foreign", i)
            all_new = "".join(c if c == " " else choose(rng, scripts[script]) for c in t)
            for rows, drawn, where in ((kept, t, ""), (changed, new, " ".join(map(str, places))),
                                       (foreign, all_new, " ".join(str(k) for k, c in enumerate(t) if c != " "))):
                rows.append((render(random_numbers(name, part, i), drawn, r.height, FOREIGN, hard), drawn, t, script,
                             where))
        for kind, rows in (("kept", kept), ("replaced", changed), ("foreign", foreign)):
            save(out / f"{part}-{kind}", rows, ("original", "script", "positions"))


def main():
    missing = [f for f in DEJAVU + LIBERATION if not (FONTS / f).exists()]
    if missing:
        sys.exit(f"{FONTS / missing[0]}: not found: apt-get install fonts-dejavu-core fonts-liberation")
    work = arguments().work
    for name in RECOGNISERS:
        done = work / "lines" / name / "done"
        if not done.exists():
            draw(work, name)
            done.touch()


if __name__ == "__main__":
    main()
