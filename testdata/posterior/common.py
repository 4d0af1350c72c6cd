"""What the scripts share: digits, a network for them, the mfgs command, and the comparison with it."""
import argparse
import json
import pathlib
import shutil
import subprocess

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--mfgs", type=lambda s: pathlib.Path(s).resolve(), required=True, help="the program")
    p.add_argument("--work", type=lambda s: pathlib.Path(s).resolve(), required=True, help="folder for all files")
    p.add_argument("--features", type=int, default=32)
    p.add_argument("--classes", type=int, default=10)
    p.add_argument("--golden", type=pathlib.Path, help="folder for the posteriors, with variances of a few examples")
    a = p.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return a


class Digits:
    """scikit-learn's 1,797 digits of 8 × 8 pixels: 5 of 9 to train with, 2 of 9 each to validate and to test."""

    def __init__(self, classes):
        x, y = load_digits(return_X_y=True)
        x, y = x[y < classes], y[y < classes]
        order = np.random.default_rng(0).permutation(len(y))
        x, y = (x[order] / 16).astype(np.float32), y[order].astype(np.int64)
        a, b = 5 * len(y) // 9, 7 * len(y) // 9
        self.train, self.val, self.test = (x[:a], y[:a]), (x[a:b], y[a:b]), (x[b:], y[b:])


def body(features):
    """The network in front of its last layer."""
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, features), torch.nn.Tanh())


def batches(digits, epochs):
    x, y = map(torch.from_numpy, digits.train)
    for _ in range(epochs):
        for rows in torch.randperm(len(y)).split(50):
            yield x[rows], y[rows]


def train(model, digits, loss, epochs=40):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    model.train()
    for x, y in batches(digits, epochs):
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()
    model.eval()


class Mfgs:
    """The command, for one network after another."""

    def __init__(self, a, digits):
        self.program, self.work, self.golden, self.digits = a.mfgs, a.work, a.golden, digits
        for name in "train", "val", "test":
            x, y = getattr(digits, name)
            np.savez(self.work / f"{name}.npz", x=x, labels=y)

    def run(self, *args):
        done = subprocess.run([self.program, *map(str, args)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return done.stdout

    def outputs(self, model):
        session = onnxruntime.InferenceSession(model)
        self.metadata = session.get_modelmeta().custom_metadata_map
        names = [o.name for o in session.get_outputs()]
        return dict(zip(names, session.run(names, {"x": self.digits.test[0]})))

    def calibrate(self, model, tensors, train=False):
        """Writes the network and the posterior, calibrates, and runs the exported network on the test images. Without
        matrix scaling: that maps the variances too."""
        self.trained = train
        self.posterior, path, bundle = self.work / "posterior.safetensors", self.work / "model.onnx", self.work / "bundle"
        self.tensors = {k: v.detach().clone().contiguous() for k, v in tensors.items()}
        save_file(self.tensors, self.posterior)
        torch.onnx.export(model, (torch.zeros(2, 64),), path, input_names=["x"], output_names=["logits"],
                          dynamic_shapes=({0: torch.export.Dim("n")},), external_data=False, verbose=False)
        data = ["--train", self.work / "train.npz"] if train else []
        self.answer = json.loads(self.run(
            "calibrate", "--model", path, "--posterior", self.posterior, *data, "--val", self.work / "val.npz",
            "--keep-class", "--out", bundle, "--force", "--json"))
        self.run("export", "--bundle", bundle, "--out", self.work / "calibrated.onnx", "--force", "--method", "mf0")
        network = onnx.load(path)
        features = network.graph.node[-1].input[0]
        network.graph.output.append(onnx.helper.make_tensor_value_info(features, onnx.TensorProto.FLOAT, None))
        self.features = self.outputs(network.SerializeToString())[features]
        return self.outputs(self.work / "calibrated.onnx")

    def compare(self, name, got, variances, of_features, **others):
        """Reports how far the exported variances [N,K] are from the library's, which computes features in float64,
        and from those that it gives for the exported network's features."""
        def difference(want):
            want = want.detach().double().numpy()
            return float(np.max(np.abs(got["logit_variance"].astype(np.float64) / want - 1)))

        variances, same = variances.detach(), of_features(torch.from_numpy(self.features).double()).detach()
        row = {"posterior": name, "form": self.answer["external_posterior"]["form"],
               "ood_score": self.answer["ood_score"]["name"],
               "variances": [float(variances.min()), float(variances.max())],
               "difference": difference(variances), "same_features": difference(same), **others,
               "tensors": sorted(f"{k} {list(v.shape)}" for k, v in self.tensors.items())}
        print(json.dumps(row), flush=True)
        assert row["same_features"] < 3e-5, row  # up to which graphs compute variances in float32
        if self.golden and not self.trained:
            file = name.replace(" ", "-") + ".safetensors"
            shutil.copyfile(self.posterior, self.golden / file)
            (self.golden / file).with_suffix(".json").write_text(json.dumps(
                {"logits": got["logits"].shape[1], "features": self.features[:5].tolist(), "variances": same[:5].tolist()}) + "\n")
