#!/usr/bin/env python3
"""Writes what the engines run: networks, their exports, inputs, and the predictions of mfgs in Go.

    python3 prepare.py --mfgs MFGS --data ../shared/data --work WORK    (the environment of ../coverage/requirements-torch.txt)

Each case is a folder WORK/cases/NETWORK: see case.py. Networks, data and bundles, in WORK/made, are not made again.
"""

import argparse
import gzip
import pathlib
import re
import sys
import tarfile

import numpy as np
import onnx
import torch
from PIL import Image, ImageOps

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import networks  # noqa: E402
from case import Mfgs, write  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS, FAR = 8, 2  # the last FAR inputs are far from all data
OPSET = 18

parser = argparse.ArgumentParser()
parser.add_argument("--mfgs", type=pathlib.Path, required=True)
parser.add_argument("--data", type=pathlib.Path, required=True)
parser.add_argument("--work", type=pathlib.Path, required=True)
parser.add_argument("--only", default="", help="a regular expression of networks")
args = parser.parse_args()
args.mfgs, args.data, args.work = (p.resolve() for p in (args.mfgs, args.data, args.work))
made = args.work / "made"  # models, data and bundles


mfgs = Mfgs(args.mfgs)


def idx(path):
    raw = gzip.open(path).read()
    dims = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(dims)


def export(model, inputs, path, axes):
    """axes: the names of the open axes of each input, from 0."""
    with torch.no_grad():
        torch.onnx.export(model, tuple(torch.from_numpy(x) for x in inputs.values()), str(path), dynamo=True, verbose=False,
                          external_data=False, opset_version=OPSET, input_names=list(inputs), output_names=["logits"],
                          dynamic_shapes=tuple({i: torch.export.Dim(a, max=1 << 16) for i, a in enumerate(axes)} for _ in inputs))
    # Older engines, and some of today, take no newer format, and no allowzero, which says nothing here.
    written = onnx.load(path)
    written.ir_version = 8
    for node in written.graph.node:
        if node.op_type == "Reshape":
            del node.attribute[:]
    onnx.save(written, path)


def drawn(model, inputs, seed):
    """Labels drawn from the probabilities of a network with random weights."""
    with torch.no_grad():
        logits = model(*(torch.from_numpy(x) for x in inputs.values()))
    logits = getattr(logits, "logits", logits).double().numpy()
    return (logits + np.random.default_rng(seed).gumbel(size=logits.shape)).argmax(1)


def digits():
    images = ROOT / "models/digits-mlp/digits-images-idx3-ubyte.gz"
    x = idx(images)[1500:1500 + ROWS, None].astype(np.float32) / 255
    x[-FAR:] = 1 - x[-FAR:]
    return ROOT / "models/digits-mlp/model.onnx", f"{images}[0:1200]", f"{images}[1200:1500]", {"image": x}


def digits_pictures():
    return {k: (idx(args.data / f"mnist/{k}-images-idx3-ubyte.gz")[:, None].astype(np.float32) / 255,
                idx(args.data / f"mnist/{k}-labels-idx1-ubyte.gz").astype(np.int64)) for k in ("train", "t10k")}


def mnist():
    model, train, val = made / "mnist.onnx", made / "mnist-train.npz", made / "mnist-val.npz"
    (x, y), (test, labels) = digits_pictures().values()
    if not model.exists():
        torch.manual_seed(1)
        n = torch.nn
        net = n.Sequential(n.Conv2d(1, 16, 3, padding=1), n.BatchNorm2d(16), n.ReLU(), n.MaxPool2d(2), n.Conv2d(16, 32, 3, padding=1),
                           n.BatchNorm2d(32), n.ReLU(), n.MaxPool2d(2), n.Flatten(), n.Linear(32 * 49, 64), n.ReLU(), n.Linear(64, 10))
        steps = torch.optim.Adam(net.parameters(), 1e-3)
        for i in range(0, 20000, 64):
            loss = n.functional.cross_entropy(net(torch.from_numpy(x[i:i + 64])), torch.from_numpy(y[i:i + 64]))
            steps.zero_grad(), loss.backward(), steps.step()
        np.savez(train, image=x[:20000], labels=y[:20000])
        np.savez(val, image=test[:2000], labels=labels[:2000])
        export(net.eval(), {"image": x[:2]}, model, ["N"])
    rows = test[5000:5000 + ROWS].copy()
    rows[-FAR:] = idx(args.data / "notmnist/notmnist-images-idx3-ubyte.gz")[:FAR, None].astype(np.float32) / 255
    return model, train, val, {"image": rows}


def int8():
    """The network of mnist with weights and activations in int8, as QuantizeLinear and DequantizeLinear."""
    plain, train, val, rows = mnist()
    model = made / "int8.onnx"
    if not model.exists():
        from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        class Reader(CalibrationDataReader):
            batches = iter(np.load(train)["image"][:512].reshape(8, 64, 1, 28, 28))

            def get_next(self):
                x = next(self.batches, None)
                return None if x is None else {"image": x}

        quant_pre_process(str(plain), str(made / "mnist-inferred.onnx"))
        quantize_static(str(made / "mnist-inferred.onnx"), str(model), Reader(), per_channel=True,
                        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8)
    return model, train, val, rows


def mobilenet():
    """A trained MobileNet v2 on ImageNet's pictures."""
    model, train, val = args.data / "models/imagenet_mobilenet_v2_1.0_224.onnx", made / "mobilenet-train.npz", made / "mobilenet-val.npz"
    if not val.exists():
        labels = {w[0].split("/")[-1]: int(w[1]) for w in (line.split() for line in open(args.data / "imagenet/ilsvrc_val-labels.txt"))}
        for archive, path in (("ilsvrc_train_subset", train), ("ilsvrc_val", val)):
            with tarfile.open(args.data / f"imagenet/{archive}.tar") as tar:
                files = [m for m in tar.getmembers() if m.isfile()]
                files = [files[i] for i in np.random.default_rng(1).permutation(len(files))[:400 + ROWS]]
                images = np.stack([np.asarray(ImageOps.fit(Image.open(tar.extractfile(m)).convert("RGB"), (224, 224))) for m in files])
            x = images.transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1
            if path == train:
                np.savez(path, input=x)
            else:
                np.savez(path, input=x[:400], labels=[labels[pathlib.Path(m.name).name] for m in files[:400]])
                np.save(made / "mobilenet-rows.npy", x[400:])
    rows = np.load(made / "mobilenet-rows.npy")
    rows[-FAR:] = np.random.default_rng(1).uniform(-1, 1, rows[-FAR:].shape)
    return model, train, val, {"input": rows}


def resnet50():
    model, train, val = made / "resnet50.onnx", made / "resnet50-train.npy", made / "resnet50-val.npz"
    if not model.exists():
        net = networks.network("resnet50", 1000, 224)
        np.save(train, networks.pictures(128, 224, 4))
        x = {"images": networks.pictures(160, 224, 5)}
        np.savez(val, labels=drawn(net, x, 1), **x)
        export(net, {"images": x["images"][:2]}, model, ["N"])
    rows = networks.pictures(ROWS, 224, 6)
    rows[-FAR:] *= 5
    return model, train, val, {"images": rows}


def text():
    """The size of DistilBERT, with 20 classes and random weights."""
    model, train, val = made / "text.onnx", made / "text-train.npz", made / "text-val.npz"

    def tokens(n, seed):
        rng = np.random.default_rng(seed)
        length = rng.integers(8, 33, (n, 1))
        # Common words are common, as in a text.
        ids = np.minimum(rng.zipf(1.3, (n, 32)) + 100, 30521)
        mask = (np.arange(32) < length).astype(np.int64)
        return {"input_ids": ids * mask, "attention_mask": mask}

    if not model.exists():
        from transformers import DistilBertConfig, DistilBertForSequenceClassification

        torch.manual_seed(2)
        net = DistilBertForSequenceClassification(DistilBertConfig(num_labels=20, attn_implementation="eager")).eval()
        torch.nn.init.normal_(net.classifier.weight, std=0.15)
        x = tokens(400, 2)
        np.savez(train, **tokens(400, 1))
        np.savez(val, labels=drawn(net, x, 3), **x)
        export(net, {k: v[:2] for k, v in x.items()}, model, ["N", "S"])
    rows = tokens(ROWS, 4)
    rows["input_ids"][-FAR:] = 30000 * rows["attention_mask"][-FAR:]
    return model, train, val, rows


def case(name, network, method=None):
    """method: which probabilities the bundle serves, instead of those that were chosen."""
    print("making", name, flush=True)
    model, train, val, inputs = network()
    bundle = made / f"{name}.mfgs"
    if not bundle.exists():
        mfgs("calibrate", "--model", model, "--train", train, "--val", val, "--out", bundle, "--batch", 16, *DECISIONS[network])
        if method:
            mfgs.reseal(bundle, lambda manifest: re.sub(r"^(probabilities: {method: )\w+", rf"\g<1>{method}", manifest, count=1, flags=re.M))
    write(mfgs, args.work / "cases" / name, bundle, model, inputs)


DECISIONS = {f: ["--target-error", ".1", "--false-alarm", ".1", "--alpha", ".1"] for f in (digits, mnist, int8)} | {
    mobilenet: ["--false-alarm", ".1", "--alpha", ".1"], text: ["--false-alarm", ".1", "--alpha", ".1"], resnet50: ["--alpha", ".1", "--sets", "aps"]}

made.mkdir(parents=True, exist_ok=True)
torch.set_num_threads(2)
for one in [("digits", digits, "mf0"), ("mnist", mnist), ("int8", int8), ("mobilenet", mobilenet, "mf0"), ("text", text, "mf0"), ("resnet50", resnet50, "mf0")]:
    if re.search(args.only, one[0]):
        case(*one)
