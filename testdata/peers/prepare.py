"""Creates models, data, bundles and fused models in WORK, unless they exist."""

import subprocess
import warnings

import numpy as np
import torch

from common import FORMS, FUSED, ROOT, THREADS, arguments, environment, say
from networks import examples, network, pictures

warnings.filterwarnings("ignore")
args = arguments(__doc__)
sizes = args.sizes


def once(path, make):
    """Creates a file or folder under a temporary name and renames it when it is complete."""
    path = args.work / path
    if path.exists():
        return path
    say("making", path.name)
    part = path.with_name("part-" + path.name)
    make(part)
    part.rename(path)
    return path


def export(name, classes):
    def write(path):
        model = network(name, classes, sizes.image)
        x = torch.from_numpy(examples(name, 2, sizes.image, 2))
        torch.onnx.export(model, (x,), path, input_names=["images"], output_names=["logits"], opset_version=18,
                          dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=1 << 16)},), external_data=False, verbose=False)
        torch.save(model.state_dict(), args.work / f"{name}-{classes}.pt")
    return once(f"{name}-{classes}.onnx", write)


def labelled(name, n, seed):
    def write(path):
        with open(path, "wb") as f:
            np.savez(f, images=examples(name, n, sizes.image, seed), labels=np.random.default_rng(seed).integers(0, 10, n))
    return write


def features(classes, d, n, seed):
    """Features as after a ReLU, logits of a linear layer, labels drawn from their softmax."""
    def write(path):
        head, rng = np.random.default_rng(3), np.random.default_rng(seed)
        w, b = head.normal(size=(classes, d)) * 2 * d**-0.5, head.normal(size=classes) * 0.1
        phi = np.maximum(rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n, 1)), 0).astype(np.float32)
        logits = phi @ w.T + b
        gumbel = rng.gumbel(size=logits.shape)
        with open(path, "wb") as f:
            np.savez(f, features=phi, logits=logits.astype(np.float32), labels=(logits + gumbel).argmax(1),
                     weight=w.astype(np.float32), bias=b.astype(np.float32))
    return write


def mfgs(*words):
    done = subprocess.run([args.mfgs, *map(str, words)], capture_output=True, text=True, env=environment())
    if done.returncode:
        raise SystemExit(f"mfgs {' '.join(map(str, words))}: {done.stderr}")


def calibrate(model, train, val):
    def write(path):
        mfgs("calibrate", "--model", model, "--train", train, "--val", val, "--structure", "kron", "--damping", "1",
             "--batch", sizes.batch, "--out", path, "--force")
    return write


args.work.mkdir(parents=True, exist_ok=True)
torch.set_num_threads(THREADS)
for program, module, package in (("mfgs", ROOT, "./cmd/mfgs"), ("harness", ROOT / "testdata", "./peers/harness")):
    say("building", program)
    subprocess.run(["go", "build", "-o", args.work / program, package], cwd=module, check=True)

once("train.npy", lambda path: np.save(open(path, "wb"), pictures(sizes.train, sizes.image, 4)))
once("val.npz", labelled("", sizes.val, 5))
once("mlp-train.npy", lambda path: np.save(open(path, "wb"), examples("mlp", sizes.features, sizes.image, 4)))
once("mlp-val.npz", labelled("mlp", sizes.val, 5))
few = f"{args.work / 'train.npy'}[0:{sizes.few_train}]"
for name, classes in FUSED.items():
    data = (args.work / "mlp-train.npy", args.work / "mlp-val.npz") if name == "mlp" else (few, args.work / "val.npz")
    bundle = once(f"{name}.mfgs", calibrate(export(name, classes), *data))
    for form, flags in FORMS.items():
        once(f"{name}-{form}.onnx", lambda path: mfgs("export", "--bundle", bundle, "--method", "mf0", *flags, "--out", path))

for k in sizes.classes:
    export("resnet18", k)
    once(f"features-{k}-512-train.npz", features(k, 512, sizes.features, 10))
    once(f"features-{k}-512-val.npz", features(k, 512, sizes.features // 4, 11))
    if k == 100:
        export("resnet18-64", k)
        once(f"features-{k}-64-train.npz", features(k, 64, sizes.features, 10))
        once(f"features-{k}-64-val.npz", features(k, 64, sizes.features // 4, 11))
say("prepared")
