"""What the scripts share: sets of lines, the recognisers' networks, and results that survive an interruption."""
import argparse
import csv
import json
import os
import pathlib
from dataclasses import dataclass

import numpy as np
import onnxruntime
from PIL import Image

onnxruntime.set_default_logger_severity(3)  # ddddocr's file states another rank than its output has
THREADS = 1  # of ONNX Runtime in Python, and of mfgs
FLOOR = 2.0**-24  # of the network's probabilities, below which their logarithm would be rounding error of float32
BLANK = 0  # CTC's blank is the first class of both recognisers


@dataclass(frozen=True)
class Recogniser:
    """A recogniser, and what its package does to a picture of a line."""

    name: str
    package: str  # of PyPI
    version: str
    file: str  # of the network, in the package
    height: int  # of the network's input; the lines are drawn with it, so that nothing is resized
    channels: int
    width: int  # what narrower lines are padded to, and wider lines are squeezed to, in preprocess.yaml
    own: int  # what the package pads narrower lines to; 0: lines keep their width
    centred: bool  # pixels are -1…1 instead of 0…1
    logits: bool  # the output is logits instead of probabilities
    frames: int  # the axis of the output that counts frames


RECOGNISERS = {
    "rapidocr": Recogniser("rapidocr", "rapidocr_onnxruntime", "1.4.4", "models/ch_PP-OCRv4_rec_infer.onnx", 48, 3, 640,
                           320, True, False, 1),
    "ddddocr": Recogniser("ddddocr", "ddddocr", "1.6.1", "common_old.onnx", 64, 1, 320, 0, False, True, 0),
}


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--work", type=lambda s: pathlib.Path(s).resolve(), required=True, help="folder of all but the page")
    return p.parse_args()


# Lines

@dataclass(frozen=True)
class Line:
    path: pathlib.Path
    text: str

    def pixels(self):
        """[H,W] of uint8."""
        return np.asarray(Image.open(self.path).convert("L"))


def lines(folder):
    """The lines of a set, in the order of its table."""
    with open(folder / "labels.csv", newline="", encoding="utf-8") as f:
        return [Line(folder / row["image"], row["label"]) for row in csv.DictReader(f)]


# Networks

class Network:
    """A recogniser's ONNX file in Python's onnxruntime. models.py puts it and its alphabet into the work folder."""

    def __init__(self, work, recogniser):
        self.r = recogniser
        self.path = work / "models" / f"{recogniser.name}.onnx"
        self.session = session(self.path)
        self.alphabet = alphabet(work, recogniser.name)

    def input(self, pixels, width=0, pixel=None):
        """[1,C,H,W] of a line: padded on the right to a width, or of its own width if that is 0. The padding is pixels
        of a value, or the network's 0. A line that is wider than width is squeezed to it."""
        if width and pixels.shape[1] > width:
            pixels = np.asarray(Image.fromarray(pixels).resize((width, pixels.shape[0]), Image.BILINEAR))
        zero = 127.5 if self.r.centred else 0
        x = np.pad(pixels.astype(np.float32), ((0, 0), (0, max(0, width - pixels.shape[1]))),
                   constant_values=zero if pixel is None else pixel) / 255
        if self.r.centred:
            x = (x - np.float32(0.5)) / np.float32(0.5)
        return np.repeat(x[None, None], self.r.channels, 1)

    def log_probabilities(self, pixels, width=0, pixel=None):
        """[T,K] of float64, floored."""
        y = self.session.run(None, {self.session.get_inputs()[0].name: self.input(pixels, width, pixel)})[0]
        y = np.take(y, 0, axis=1 - self.r.frames).astype(np.float64)
        if self.r.logits:
            y -= y.max(1, keepdims=True)
            y -= np.log(np.exp(y).sum(1, keepdims=True))
            return np.maximum(y, np.log(FLOOR))
        return np.log(np.maximum(y, FLOOR))

    def text(self, ids):
        return "".join(self.alphabet[i] for i in ids)


def alphabet(work, name):
    """The characters by class, with an empty one for the blank. alphabet.txt has no line for the blank."""
    text = (work / "models" / f"{name}.txt").read_text(encoding="utf-8")
    return ["", *text.removesuffix("\n").split("\n")]


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


# Results

def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


class Results:
    """Results by key in a file that is written after each one."""

    def __init__(self, path):
        self.path = path
        self.all = json.loads(path.read_text()) if path.exists() else {}

    def __contains__(self, key):
        return key in self.all

    def __getitem__(self, key):
        return self.all[key]

    def add(self, key, value):
        self.all[key] = value
        write(self.path, json.dumps(self.all, indent=1))
        print(key, json.dumps(value)[:300], flush=True)
