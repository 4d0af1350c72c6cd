"""Compares what the engines gave with what mfgs gave, and writes docs/engines.json and docs/engines.md.

    python3 compare.py --work WORK [--render]        (after run.py and run.mjs; --render writes the page of the figures that are there)
"""

import argparse
import json
import pathlib
import re
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a caller may rely on: absolutely, and relative where a probability is above 1e-6; of scores and percentiles; how many decisions
# differ; and of the tolerances of `mfgs export --probe` the used part.
BOUNDS = {"probability": 1e-6, "relative": 1e-4, "score": 1e-5, "percentile": 1e-5, "decisions": 0, "probe": 1, "nan": 1e-6}
NETWORKS = {"digits": "digits", "mnist": "MNIST", "int8": "int8", "mobilenet": "MobileNet v2", "text": "text", "resnet50": "ResNet-50"}
VARIANCES, DECISIONS = ("logit_variance", "leverage"), ("abstain", "prediction_set")
ENGINES = {
    "ort": "ONNX Runtime", "ort-extended": "… optimisations `EXTENDED`", "ort-basic": "… `BASIC`", "ort-none": "… none",
    **{f"ort-{v}": "ONNX Runtime" for v in ("1.27", "1.24", "1.22", "1.20", "1.18", "1.17")},
    "node": "ONNX Runtime for Node", "web-wasm": "ONNX Runtime Web, WebAssembly", "web-webgpu": "ONNX Runtime Web, WebGPU",
    "openvino": "OpenVINO", "opencv": "OpenCV dnn", "opencv-classic": "OpenCV dnn, classic engine", "tract": "tract", "rten": "RTen", "candle": "Candle",
    "mnn": "MNN", "litert": "LiteRT, by onnx2tf", "ncnn": "ncnn, by pnnx", "tvm": "TVM", "iree": "IREE", "tinygrad": "tinygrad",
    "onnx2torch": "PyTorch, by onnx2torch", "jax": "JAX, by jaxonnxruntime", "reference": "onnx's reference evaluator"}


def arrays(outputs):
    """The outputs of a result; what JSON cannot say is null there."""
    return {k: np.array([np.nan if v is None else v for v in o["data"]], np.float64).reshape(o["dims"]) for k, o in outputs.items()}


def differences(got, want):
    """The largest differences by kind; what is missing or NaN differs infinitely."""
    def largest(kinds, over):
        found = 0.0
        for kind in (k for k in kinds if k in want):
            if kind not in got or got[kind].size != want[kind].size:
                return float("inf")
            d = over(got[kind].reshape(want[kind].shape), want[kind].astype(np.float64))
            found = max(found, float(np.where(np.isnan(d), np.inf, d).max()))
        return found

    def absolute(a, b):
        return abs(a - b)

    def scaled(a, b):
        return abs(a - b) / np.abs(b).max()

    return {"logits": largest(["logits"], scaled), "probability": largest(["probabilities"], absolute),
            "relative": largest(["probabilities"], lambda a, b: np.where(b < 1e-6, 0, abs(a - b) / b)),
            "score": largest(["ood_score"], absolute),
            "percentile": largest(["ood_percentile"], absolute), "pvalue": largest(["ood_pvalue"], absolute), "variance": largest(VARIANCES, scaled), "decisions": largest(DECISIONS, lambda a, b: (a != b).sum())}


def probed(got, probe):
    """The largest difference from a probe, as a part of what its parameters allow."""
    part = 0.0
    for t in probe["outputs"]:
        want = np.array(t["data"], np.float64).reshape(t["shape"])
        if t["name"] not in got or got[t["name"]].size % want[0].size:
            return float("inf")
        given = got[t["name"]].reshape(-1, *want.shape[1:])[:len(want)]
        d = abs(given - want[:len(given)]).max()  # a batch that is fixed may be smaller
        allowed = probe["parameters"][t["name"]]
        part = max(part, float(d) / allowed if allowed else float("inf") if d else 0.0)
    return part


def nan_scores(got, names):
    """How far from 1 the scores of the example with a NaN are, which the network passes on."""
    nan = {kind: got[f"nan/{name}"][0] for kind, name in names.items() if f"nan/{name}" in got}
    if not np.isnan(nan.get("logits", 0)).any():
        return 0.0
    off = [abs(1 - float(nan[k])) for k in ("ood_score", "ood_percentile") if k in nan]
    return max((float("inf") if np.isnan(v) else v for v in off), default=0.0)


def within(found):
    return all(found[k] <= b for k, b in BOUNDS.items() if k in found)


def message(error):
    """What an engine says of a file that it does not run: its last words."""
    error = re.sub(r"\x1b\[[0-9;]*m", "", error)
    error = error.split("ERROR_MESSAGE: ")[-1]
    error = re.split(r"Stack backtrace|\n   0: ", error)[0].strip()
    named = list(re.finditer(r"^(terminate called|thread .* panicked|[\w.]*([Ee]rror|Fail|Fatal|NotImplemented|InvalidGraph|RuntimeException|Exception)\w*:)", error, re.M))
    said = " ".join(re.sub(r"/[^\s:]*/", "", error[named[-1].start():] if named else error[-300:]).split())
    return said if len(said) <= 240 else f"{said[:120]} … {said[-120:]}"


def alone(folder, names, got, features):
    """How far the head by itself is off: from what ONNX Runtime gives for the engine's own features and logits."""
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    try:
        head = onnxruntime.InferenceSession(folder / "head.onnx", providers=["CPUExecutionProvider"])
    except Exception:  # a head that reads more of the network
        return {}
    types = {"tensor(float16)": np.float16, "tensor(double)": np.float64}
    given = {i.name: v.astype(types.get(i.type, np.float32)) for i, v in zip(head.get_inputs(), [next(iter(arrays(features).values())), got["logits"]])}
    kinds = [k for k in names if k != "logits"]
    return {"head": differences(got, dict(zip(kinds, head.run([names[k] for k in kinds], given))))}


def judged(work, case, result):
    """Of each file of a result how far it is off, or the engine's message."""
    folder, files = work / "cases" / case, {}
    want, names = dict(np.load(folder / "expected.npz")), json.loads((folder / "case.json").read_text())["outputs"]
    probe = folder / "probe.probe.json"
    probe = json.loads(probe.read_text())["response"] if probe.exists() else None
    features = result["files"].pop("features", {}).get("outputs")
    for file, f in result["files"].items():
        if "error" in f:
            files[file] = {"error": message(f["error"])}
            continue
        got = arrays(f["outputs"])
        if file == "plain":
            files[file] = {"logits": differences({"logits": next(iter(got.values()), None)} if got else {}, {"logits": want["logits"]})["logits"]}
            continue
        got |= {kind: got[name] for kind, name in names.items() if name in got}
        files[file] = differences(got, want) | {"nan": nan_scores(got, names)} | ({"probe": probed(got, probe)} if probe else {})
        if not within(files[file]) and features and (folder / "head.onnx").exists():
            files[file] |= alone(folder, names, got, features)
    return files


def read(work):
    """For each engine its version, and for each network the files and the times."""
    found = {}
    for path in sorted((work / "results").glob("*/*.json")):
        result = json.loads(path.read_text())
        networks = found.setdefault(path.parent.name, {"version": result["engine"], "networks": {}})["networks"]
        networks[path.stem] = {"files": judged(work, path.stem, result), "ms": result.get("ms", {})}
    return found


def summary(found):
    """Prints for each engine how many models run, and how far they are off. Returns whether all that run without mfgs run with it in float64; in
    float32 a decision can differ next to a threshold."""
    good = bool(found)
    for engine, e in found.items():
        for p in ("float64", "float32"):
            of = {}
            for case, r in e["networks"].items():
                s = state(r["files"], p)
                of.setdefault(s, []).append(r["files"].get(p))
                if s in ("refused", "wrong"):
                    # The reference evaluator knows some operators in some versions only.
                    good = good and (p == "float32" or engine == "reference" and "No implementation" in r["files"][p].get("error", ""))
                    print(f"{engine} {case} {p} {s}: {r['files'][p]}")
            kept = of.get("runs", []) + of.get("head", [])
            print(f"{engine:12} {e['version']:24} {p}", *(f"{s} {len(f)}" for s, f in sorted(of.items())),
                  *(f"{kind} {worst(kept, kind)}" for kind in ("probability", "relative", "score", "variance")))
    return good


def state(files, precision):
    """One of: runs, head (runs, with a network that differs by itself), wrong, refused, network (is refused by itself)."""
    f = files.get(precision)
    if f is None:
        return "absent"
    if "error" in f:
        return "network" if "error" in files["plain"] else "refused"
    return "runs" if within(f) else "head" if "head" in f and within(f["head"]) else "wrong"


def render(found):
    """The page: one row for each engine, and what it refuses in its own words."""
    networks = [n for n in NETWORKS if any(n in e["networks"] for e in found.values())]
    lines = [INTRODUCTION, "## Results\n", "| engine | " + " | ".join(NETWORKS[n] for n in networks) + " | probability | score | time, float64 | float32 |", "|---" * (len(networks) + 5) + "|"]
    complete = {(p, alone): 0 for p in ("float64", "float32") for alone in (False, True)}
    for name in (n for n in ENGINES if n in found):
        e, cells = found[name], []
        kept = [f for r in e["networks"].values() for p, f in r["files"].items() if p != "plain" and state(r["files"], p) in ("runs", "head")]
        for n in networks:
            files = e["networks"].get(n, {"files": {}})["files"]
            states = {p: state(files, p) for p in ("float64", "float32")}
            ran = [p[5:] + {"head": "*", "wrong": " wrong"}.get(s, "") for p, s in states.items() if s in ("runs", "head", "wrong")]
            cells.append(", ".join(ran) or ("–" if "network" in states.values() else "refused" if "refused" in states.values() else ""))
        for p, alone in complete:
            own = name.startswith("ort") or name in ("node", "web-wasm")
            good = ("runs", "head") if alone else ("runs",)
            complete[p, alone] += not own and all(state(e["networks"].get(n, {"files": {}})["files"], p) in good for n in ("digits", "mnist", "mobilenet"))
        cells += [worst(kept, kind) for kind in ("probability", "score")]
        ms = e["networks"].get("mobilenet", {}).get("ms", {})
        cells += [f"{ms[p] / ms['plain']:.2f}" if p in ms and "plain" in ms else "" for p in ("float64", "float32")]
        version = e["version"].split()[-1]
        lines.append(f"| {ENGINES[name]} {version} | " + " | ".join(cells) + " |")
    lines += ["| ONNX Runtime with CUDA, TensorRT | not run" + " |" * (len(networks) + 4), ""]
    lines += [f"""Besides ONNX Runtime on CPUs and in WebAssembly, {complete["float32", True]} engines run digits, MNIST and MobileNet v2 with a float32 head that is
within the bounds. In {complete["float32", False]} of them the whole model is, too; the others compute MobileNet's features otherwise, with or without mfgs.
With the usual head {complete["float64", True]} do, and {complete["float64", False]} with the whole model.
""",
              "## What engines refuse", "", "In their own words. “Network” is a network that the engine does not run without mfgs either.", ""]
    for name in (n for n in ENGINES if n in found):
        said = {}
        for n, result in found[name]["networks"].items():
            for p, f in result["files"].items():
                if p == "plain" and "error" in f or state(result["files"], p) in ("refused", "wrong"):
                    said.setdefault(f.get("error", "wrong numbers"), []).append(f"{NETWORKS[n]} {'network' if p == 'plain' else p}")
        lines += [f"- {ENGINES[name]} {found[name]['version'].split()[-1]}: {', '.join(which)}: `{text.replace('`', chr(39))}`" for text, which in said.items()]
    return "\n".join(lines) + "\n"


def worst(files, kind):
    """The largest difference of files that are kept, with the engine's own features where the network differs by itself."""
    return f"{max((f if within(f) else f['head'])[kind] for f in files):.0e}" if files else ""


INTRODUCTION = """# Engines for exported models

Generated by `testdata/engines/compare.py`; measured by `make engines`, on CPUs.

`mfgs export` writes one ONNX file. This page says which engines run it, and how far they are from `mfgs predict`.

There are two forms of the file. By default the head computes in float64 and, with many classes, may have an `If`.
`--precision float32` writes a head with neither, which every engine that runs the default form runs as well. So there
is one choice to make, and no list of targets: **use the default in ONNX Runtime on CPUs, and `--precision float32`
elsewhere.**

What to switch on or off:

- ONNX Runtime from 1.19 on needs nothing. Up to 1.18 it gives wrong numbers from a session's second run on, unless
  `enable_mem_pattern` is off.
- CUDA: [TF32 off](install.md#gpus-and-other-providers). OpenVINO: `INFERENCE_PRECISION_HINT` is `f32`. MNN: `precision` is `high`. IREE: no demotion of f64 and i64.
- LiteRT: onnx2tf with `-kat` for the inputs, so that it leaves their axes. A NaN ends the run of its batch. JAX: `jax_enable_x64` for the default form.

A cell names the forms that run with all outputs within the bounds: 64 and 32.

- Probabilities: 1e-6, and 1e-4 of their value where that is above 1e-6. OOD score and percentile: 1e-5. Decisions:
  none differs. The probe of `mfgs export --probe`: within its tolerances. An example with a NaN that reaches the logits
  has the score and the percentile 1. Each engine runs a model three times, and the last counts.
- Logits and variances are not judged, nor `ood_pvalue`, a step function: for an example of the validation data itself
  rounding can move it by one step.
- 64\\* or 32\\*: the engine's features differ from ONNX Runtime's, with or without mfgs, by so much that
  probabilities differ by more than the bounds. The head was compared by itself, with ONNX Runtime's results on the
  engine's own features and logits.
  Decisions can then differ where a score or probability of the engine's own is on the other side of a threshold.
- “refused”: the engine runs the network, and neither form. “–”: it does not run the network without mfgs either.
- Empty: not tried.

“Probability” and “score” are the largest differences of all networks. Times are of MobileNet v2, eight images, one
thread: how many times as long as the network alone.

| network | what it is |
|---|---|
| digits | `models/digits-mlp`: 10 classes, operator set 14 |
| MNIST | convolutions with batch normalisation, trained on MNIST, operator set 18; probabilities from matrix scaling |
| int8 | the same network with weights and activations of 8 bits: `QuantizeLinear` and `DequantizeLinear` |
| MobileNet v2 | trained, 1,000 classes, on images of ImageNet |
| text | of DistilBERT's size, 20 classes, random weights |
| ResNet-50 | 1,000 classes, random weights |
"""

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--models", action="store_true", help="only prints what the engines gave for models.py")
    args = parser.parse_args()
    if args.models:
        # Random models can have examples by the hundred with the same score, where percentiles jump.
        del BOUNDS["percentile"]
        sys.exit(0 if summary(read(args.work)) else 1)
    if not args.render:
        (ROOT / "docs/engines.json").write_text(json.dumps(read(args.work), indent=1, sort_keys=True) + "\n")
    found = json.loads((ROOT / "docs/engines.json").read_text())
    (ROOT / "docs/engines.md").write_text(render(found))
    for engine, e in found.items():
        for case, result in e["networks"].items():
            for name, f in result["files"].items():
                if name != "plain" and state(result["files"], name) not in ("runs", "network"):
                    print(f"{engine:12} {case:10} {name:8} {state(result['files'], name):8}", f.get("error") or " ".join(f"{k} {v if isinstance(v, dict) else format(v, '.0e')}" for k, v in f.items()))
