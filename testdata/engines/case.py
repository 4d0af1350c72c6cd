"""A case: a network, its exports, inputs, and the predictions of mfgs in Go, in a folder that is complete in itself.

    plain.onnx       the network
    features.onnx    the network up to the features of its last layer
    head.onnx        float64.onnx from there, and from the logits, on: the head by itself
    float64.onnx     the output of `mfgs export`
    float32.onnx     the output of `mfgs export --precision float32`
    inputs.npz       inputs by name; NAME.bin has the same without a header, for engines outside of Python
    expected.npz     the outputs of `mfgs predict` for them
    probe.probe.json the output of `mfgs export --probe`, whose inputs are the first ones
    case.json        types and shapes of the inputs, and the names in the files of the outputs in expected.npz
"""

import json
import pathlib
import shutil
import subprocess

import numpy as np
import onnx

SETS = ("abstain", "prediction_set")


class Mfgs:
    def __init__(self, path):
        self.path = pathlib.Path(path).resolve()

    def __call__(self, *words):
        done = subprocess.run([self.path, *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"mfgs {' '.join(map(str, words))}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def reseal(self, bundle, edit):
        """Changes the manifest of a bundle, as a person would."""
        manifest = pathlib.Path(bundle) / "bundle.yaml"
        manifest.write_text(edit(manifest.read_text()))
        self("reseal", bundle)


def cut(model, values, inputs, outputs):
    """The part of a model between tensors. onnx.utils.extract_model forgets what subgraphs read."""
    def reads(node):
        yield from node.input
        for a in node.attribute:
            for n in a.g.node:
                yield from reads(n)

    part = onnx.ModelProto()
    part.CopyFrom(model)
    needed, nodes = set(outputs), []
    for n in reversed(model.graph.node):
        if (needed - set(inputs)) & set(n.output):
            nodes.insert(0, n)
            needed |= set(reads(n))
    known = {v.name: v for v in (*values.input, *values.value_info, *values.output)}
    for field, kept in {"node": nodes, "input": [known[i] for i in inputs], "output": [known[o] for o in outputs], "value_info": [],
                        "initializer": [i for i in model.graph.initializer if i.name in needed]}.items():
        part.graph.ClearField(field)
        getattr(part.graph, field).extend(kept)
    return part


def write(mfgs, folder, bundle, model, inputs, probe=True):
    """Writes a case. The first inputs are those of the bundle's probe, where one is wanted. If the network has a fixed batch, inputs beyond it are
    left away."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(model, folder / "plain.onnx")
    for name in {e.value for i in onnx.load(model, load_external_data=False).graph.initializer for e in i.external_data if e.key == "location"}:
        shutil.copy(pathlib.Path(model).parent / name, folder)
    mfgs("export", "--bundle", bundle, "--out", folder / "float64.onnx")
    try:
        mfgs("export", "--bundle", bundle, "--precision", "float32", "--out", folder / "float32.onnx")
    except RuntimeError as e:
        print(e)  # some scores need float64
    first = {}
    if probe:
        mfgs("export", "--bundle", bundle, "--probe", "--out", folder / "probe.onnx")
        (folder / "probe.onnx").unlink()
        first = {t["name"]: t for t in json.loads((folder / "probe.probe.json").read_text())["request"]["inputs"]}
    fused = onnx.load(folder / "float64.onnx")
    own = {i.name for i in fused.graph.initializer}
    fixed = next(i.type.tensor_type.shape.dim[0].dim_value for i in fused.graph.input if i.name not in own)

    for k, v in inputs.items():
        if k in first:
            v = np.concatenate([np.array(first[k]["data"], v.dtype).reshape(first[k]["shape"]), v[first[k]["shape"][0]:]])
        inputs[k] = v[:fixed or None]
    np.savez(folder / "inputs.npz", **inputs)
    for k, v in inputs.items():
        v.tofile(folder / f"{k}.bin")
    predicted = json.loads(mfgs("predict", "--bundle", bundle, "--json", "--batch", fixed or 1, folder / "inputs.npz"))["predictions"]
    names = {p.key.removeprefix("mfgs.output."): p.value for p in fused.metadata_props if p.key.startswith("mfgs.output.")}
    names = {kind: name for kind, name in names.items() if any(kind in p for p in predicted)}
    expected = {}
    for kind in names:
        column = [p.get(kind, 0) for p in predicted]  # a leverage of 0 is left out
        if kind == "prediction_set":
            column = [np.isin(np.arange(len(p["probabilities"])), p[kind]) for p in predicted]
        expected[kind] = np.array(column, bool if kind in SETS else np.float64)
    np.savez(folder / "expected.npz", **expected)

    features = next((n.input[0] for n in fused.graph.node if n.output[0] == "mfgs_features"), None)
    if features:
        values = onnx.shape_inference.infer_shapes(fused).graph
        onnx.save(cut(fused, values, [i.name for i in fused.graph.input], [features]), folder / "features.onnx")
        onnx.save(cut(fused, values, [features, names["logits"]], [o for k, o in names.items() if k != "logits"]), folder / "head.onnx")
    (folder / "case.json").write_text(json.dumps({"inputs": {k: {"type": str(v.dtype), "dims": v.shape} for k, v in inputs.items()}, "outputs": names}) + "\n")
