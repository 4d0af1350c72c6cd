#!/usr/bin/env python3
"""Runs the files of prepare.py in one engine.

    python3 run.py --work WORK --engine NAME [--only REGEX] [--threads 1] [--seconds 2]

Writes WORK/results/NAME/NETWORK.json: for each file the engine's outputs, or its message; and the times of a batch. Each file runs in a
process of its own, since some engines end the process. Needs numpy and the engine, and of this folder only this file: for `cuda` and
`tensorrt` copy it with WORK/cases to a machine with a GPU.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

FILES = ["plain", "features", "float64", "float32"]
LIMIT = 600  # seconds for one file
THREADS = 1

# What an engine is given: the path of an ONNX file, and inputs by name, whose shapes may be made static. It returns the function
# that runs it, from inputs to outputs by name.


def onnx_runtime(level="ALL", provider="CPU", options=None):
    def load(path, feeds):
        import onnxruntime as ort
        o = ort.SessionOptions()
        o.intra_op_num_threads = o.inter_op_num_threads = THREADS
        o.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{'ENABLE' if level != 'DISABLE' else 'DISABLE'}_{level if level != 'DISABLE' else 'ALL'}")
        wanted = provider + "ExecutionProvider"
        if wanted not in ort.get_available_providers():
            raise RuntimeError(f"no {wanted} in this build of onnxruntime: {ort.get_available_providers()}")
        # What the provider does not take goes to the CPU, as by default.
        s = ort.InferenceSession(str(path), o, providers=[(wanted, options or {}), *([] if provider == "CPU" else ["CPUExecutionProvider"])])
        if wanted not in s.get_providers():
            raise RuntimeError(f"{wanted} was not taken: {s.get_providers()}")
        names = [x.name for x in s.get_outputs()]
        return lambda x: dict(zip(names, s.run(names, x)))
    return load


def openvino(path, feeds):
    import openvino as ov
    core = ov.Core()
    model = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": THREADS})
    request = model.create_infer_request()
    names = outputs(path)

    def run(x):
        request.infer(x)
        return {n: np.array(request.get_tensor(n).data) for n in names}
    return run


def opencv(engine):
    def load(path, feeds):
        import cv2
        cv2.setNumThreads(THREADS)
        net = cv2.dnn.readNetFromONNX(str(path), getattr(cv2.dnn, engine))
        names = outputs(path)

        def run(x):
            for name, v in x.items():
                net.setInput(v, name)
            return dict(zip(names, map(np.array, net.forward(names))))
        return run
    return load


def outputs(path):
    import onnx
    return [o.name for o in onnx.load(path, load_external_data=False).graph.output]


def reference(path, feeds):
    from onnx.reference import ReferenceEvaluator
    e = ReferenceEvaluator(str(path))
    return lambda x: dict(zip(e.output_names, e.run(None, x)))


def tract(path, feeds):
    import onnx
    import tract as t
    model = t.onnx().load(str(path))
    short = {"float32": "f32", "int64": "i64"}
    order = [model.input_name(i) for i in range(model.input_count())]
    names = outputs(path)
    dims = {i.name: [d.dim_param or str(d.dim_value) for d in i.type.tensor_type.shape.dim] for i in onnx.load(path, load_external_data=False).graph.input}
    for i, name in enumerate(order):
        model.set_input_fact(i, ",".join([*dims[name], short[str(feeds[name].dtype)]]))
    model = model.into_model().into_runnable()
    return lambda x: dict(zip(names, (v.to_numpy() for v in model.run([x[n] for n in order]))))


def mnn(path, feeds):
    import MNN
    file = scratch("model.mnn")
    # Not MNN.tools.mnnconvert, which installs a package and reports the use of it to the maker.
    words = ["mnnconvert", "-f", "ONNX", "--modelFile", str(path), "--MNNModel", file, "--bizCode", "x"]
    command([sys.executable, "-c", f"import _tools; _tools.mnnconvert({words})"], file)
    names = outputs(path)
    net = MNN.nn.load_module_from_file(file, list(feeds), names,
                                       runtime_manager=MNN.nn.create_runtime_manager(({"backend": "CPU", "numThread": THREADS, "precision": "high"},)))

    def run(x):
        xs = [MNN.expr.const(np.ascontiguousarray(v.astype(np.int32) if v.dtype == np.int64 else v), list(v.shape), MNN.expr.data_format.NCHW,
                             MNN.expr.dtype.int if v.dtype == np.int64 else MNN.expr.dtype.float) for v in x.values()]
        return {n: np.array(MNN.expr.convert(v, MNN.expr.data_format.NCHW).read()) for n, v in zip(names, net.onForward(xs), strict=True)}
    return run


def ncnn(path, feeds):
    import ncnn as n
    copy = scratch("model.onnx")
    pathlib.Path(copy).write_bytes(pathlib.Path(path).read_bytes())
    short = {"float32": "f32", "int64": "i64"}
    shapes = ",".join(f"[{','.join(map(str, v.shape))}]{short[str(v.dtype)]}" for v in feeds.values())
    param = copy.replace(".onnx", ".ncnn.param")
    command([pathlib.Path(sys.executable).parent / "pnnx", copy, f"inputshape={shapes}", "fp16=0"], param)
    net = n.Net()
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = net.opt.use_bf16_storage = False
    net.opt.num_threads = THREADS
    if net.load_param(param) or net.load_model(param.replace(".param", ".bin")):
        raise RuntimeError(f"ncnn: load_param or load_model failed")
    names = outputs(path)

    def run(x):
        rows = []
        for i in range(len(next(iter(x.values())))):  # a Mat has no batch
            ex = net.create_extractor()
            for j, v in enumerate(x.values()):
                ex.input(f"in{j}", n.Mat(np.ascontiguousarray(v[i])).clone())
            row = []
            for j in range(len(names)):
                code, v = ex.extract(f"out{j}")
                if code:
                    raise RuntimeError(f"ncnn: extract(out{j}) returns {code}")
                row.append(np.array(v))
            rows.append(row)
        return {name: np.stack([r[j] for r in rows]) for j, name in enumerate(names)}
    return run


def litert(path, feeds):
    from ai_edge_litert.interpreter import Interpreter
    folder = scratch("tflite")
    file = f"{folder}/static_float32.tflite"
    command([pathlib.Path(sys.executable).parent / "onnx2tf", "-i", static(path, feeds), "-o", folder, "-n", "-kat", *feeds], file)
    net = Interpreter(file, num_threads=THREADS)
    net.allocate_tensors()
    signature = net.get_signature_runner()
    return lambda x: signature(**x)


def tvm(path, feeds):
    import onnx
    import tvm as t
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx
    os.environ["TVM_NUM_THREADS"] = str(THREADS)
    module = from_onnx(onnx.load(path), shape_dict={k: list(v.shape) for k, v in feeds.items()},
                       dtype_dict={k: str(v.dtype) for k, v in feeds.items()}, keep_params_in_input=False)
    vm = relax.VirtualMachine(relax.build(relax.get_pipeline("zero")(module), target="llvm"), t.cpu())
    names = outputs(path)

    def run(x):
        out = vm["main"](*(t.runtime.tensor(v) for v in x.values()))
        return dict(zip(names, [v.numpy() for v in (out if len(names) > 1 else [out])]))
    return run


def onnx2torch(path, feeds):
    import onnx2torch as o
    import torch
    torch.set_num_threads(THREADS)
    net = o.convert(str(path)).eval()
    names = outputs(path)

    def run(x):
        with torch.no_grad():
            out = net(*map(torch.from_numpy, x.values()))
        return dict(zip(names, [v.numpy() for v in (out if len(names) > 1 else [out])]))
    return run


def jax(path, feeds):
    import jax as j
    import onnx
    from jaxonnxruntime import backend, config  # noqa: F401, which registers the operators
    from jaxonnxruntime.call_onnx import call_onnx_model
    j.config.update("jax_enable_x64", True)
    # By default it refuses to cast what is computed.
    config.update("jaxort_only_allow_initializers_as_static_args", False)
    model = onnx.load(path)
    net, weights = call_onnx_model(model, feeds)
    net = j.jit(net)
    names = outputs(path)
    return lambda x: dict(zip(names, map(np.asarray, net(weights, x))))


def tinygrad(path, feeds):
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner
    net = OnnxRunner(str(path))
    return lambda x: {k: v.numpy() for k, v in net({n: Tensor(v) for n, v in x.items()}).items()}


def iree(path, feeds):
    from iree import runtime as r
    bin, mlir, vmfb = pathlib.Path(sys.executable).parent, scratch("model.mlir"), scratch("model.vmfb")
    command([bin / "iree-import-onnx", static(path, feeds), "-o", mlir, "--opset-version", "18"], mlir)
    command([bin / "iree-compile", mlir, "-o", vmfb, "--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host",
             "--iree-input-demote-f64-to-f32=false", "--iree-input-demote-i64-to-i32=false"], vmfb)
    net = r.load_vm_flatbuffer_file(vmfb, driver="local-sync")
    names = outputs(path)
    import onnx
    main = net[onnx.load(path, load_external_data=False).graph.name]

    def run(x):
        out = main(*x.values())
        return dict(zip(names, [np.array(v) for v in (out if len(names) > 1 else [out])]))
    return run


def static(path, feeds):
    """A copy of a file that is for the shapes of the inputs alone."""
    import onnx
    copy, model = scratch("static.onnx"), onnx.load(path)
    sizes = {d.dim_param: n for i in model.graph.input for d, n in zip(i.type.tensor_type.shape.dim, feeds[i.name].shape) if d.dim_param}
    for v in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for d in v.type.tensor_type.shape.dim:
            if d.dim_param in sizes:
                d.dim_value = sizes[d.dim_param]
    onnx.save(model, copy)
    return copy


def scratch(name):
    return os.path.join(tempfile.mkdtemp(dir=os.environ["ENGINES_SCRATCH"]), name)


def command(words, file):
    """Runs a converter, which must write a file."""
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, errors="replace")
    if not os.path.exists(file):
        lines = [line for line in (done.stdout + done.stderr).splitlines() if re.search("[a-z]{3}", line) and "│" not in line]
        said = next((line for line in lines if " error:" in line), " ".join(lines[-3:]))
        raise RuntimeError(f"{pathlib.Path(words[0]).name} returns {done.returncode}: {said}")


# name: package whose version is printed, environment, loader
ENGINES = {
    "ort": ("onnxruntime", onnx_runtime()),
    "ort-extended": ("onnxruntime", onnx_runtime("EXTENDED")),
    "ort-basic": ("onnxruntime", onnx_runtime("BASIC")),
    "ort-none": ("onnxruntime", onnx_runtime("DISABLE")),
    "ort-1.17": ("onnxruntime", onnx_runtime()),
    "ort-1.18": ("onnxruntime", onnx_runtime()),
    "ort-1.20": ("onnxruntime", onnx_runtime()),
    "ort-1.22": ("onnxruntime", onnx_runtime()),
    "ort-1.24": ("onnxruntime", onnx_runtime()),
    "ort-1.27": ("onnxruntime", onnx_runtime()),
    "cuda": ("onnxruntime-gpu", onnx_runtime(provider="CUDA", options={"use_tf32": 0})),
    "cuda-tf32": ("onnxruntime-gpu", onnx_runtime(provider="CUDA")),
    "tensorrt": ("onnxruntime-gpu", onnx_runtime(provider="Tensorrt")),
    "openvino": ("openvino", openvino),
    "opencv": ("opencv-python-headless", opencv("ENGINE_NEW")),
    "opencv-classic": ("opencv-python-headless", opencv("ENGINE_CLASSIC")),
    "reference": ("onnx", reference),
    "tract": ("tract", tract),
    "mnn": ("MNN", mnn),
    "ncnn": ("ncnn", ncnn),
    "litert": ("ai-edge-litert", litert),
    "tvm": ("apache-tvm", tvm),
    "onnx2torch": ("onnx2torch", onnx2torch),
    "jax": ("jaxonnxruntime", jax),
    "tinygrad": ("tinygrad", tinygrad),
    "iree": ("iree-base-compiler", iree),
}


def one(engine, path, out):
    """Runs a file on all inputs, and writes its outputs: those of the third run, as an engine may plan its memory in the first; and
    with the prefix nan/ those with a NaN in the first example.
    """
    feeds = dict(np.load(path.parent / "inputs.npz"))
    run = ENGINES[engine][1](path, feeds)
    for _ in range(3):
        got = run(feeds)
    got = {k: np.array(v) for k, v in got.items()}
    floats = [k for k, v in feeds.items() if v.dtype.kind == "f"]
    if floats and path.stem in ("float64", "float32"):
        bad = {k: v.copy() for k, v in feeds.items()}
        bad[floats[0]].flat[0] = np.nan
        try:
            got |= {f"nan/{k}": np.array(v) for k, v in run(bad).items()}
        except Exception as e:  # which is no answer to be taken for one
            print(f"{path.name}: an example with a NaN ends the run: {e}", file=sys.stderr)
    out.write_text(json.dumps({k: {"type": str(np.asarray(v).dtype), "dims": np.shape(v), "data": np.asarray(v).astype(np.float64).ravel().tolist()}
                               for k, v in got.items() if np.asarray(v).dtype.kind in "fiub"}))


def timed(engine, folder, files, out, seconds):
    """Milliseconds of a batch: the fastest of runs that alternate between the files."""
    feeds = dict(np.load(folder / "inputs.npz"))
    runs = {f: ENGINES[engine][1](folder / f"{f}.onnx", feeds) for f in files}
    took = {f: [] for f in files}
    end = time.perf_counter() + seconds * len(files)
    while time.perf_counter() < end or len(took[files[-1]]) < 5:
        for f, run in runs.items():
            start = time.perf_counter()
            run(feeds)
            took[f].append(1e3 * (time.perf_counter() - start))
    out.write_text(json.dumps({f: min(t[1:]) for f, t in took.items()}))


def here(args, path):
    """As child, in this process: for many small files and an engine that does not end it."""
    out = args.work / f"{args.engine}.json"
    try:
        one(args.engine, path, out)
        return json.loads(out.read_text()), ""
    except Exception as e:
        return None, f"{type(e).__name__}: {e}"
    finally:
        out.unlink(missing_ok=True)


def child(args, words):
    """What a process of this program has written, or its message."""
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        out = pathlib.Path(folder) / "out.json"
        try:
            done = subprocess.run([sys.executable, __file__, "--work", args.work, "--engine", args.engine, "--threads", str(args.threads), "--out", out, *map(str, words)],
                                  capture_output=True, text=True, errors="replace", timeout=LIMIT, env=os.environ | {"ENGINES_SCRATCH": folder, "TMPDIR": folder})
        except subprocess.TimeoutExpired:
            return None, f"no result in {LIMIT} s"
        if done.returncode == 0 and out.exists():
            return json.loads(out.read_text()), ""
        said = (done.stdout[-3000:] + "\n" + done.stderr[-6000:]).strip()
        return None, f"{said}\nexit status {done.returncode}" if done.returncode != 1 else said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--engine", required=True, choices=ENGINES)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--here", action="store_true", help="run all files in this process, and time nothing")
    parser.add_argument("--out", type=pathlib.Path, help="internal: run one file in this process")
    parser.add_argument("--file", type=pathlib.Path)
    parser.add_argument("--time", nargs="*", default=[])
    args = parser.parse_args()
    args.work = args.work.resolve()
    global THREADS
    THREADS = args.threads
    if args.out:
        one(args.engine, args.file, args.out) if not args.time else timed(args.engine, args.file, args.time, args.out, args.seconds)
        return
    from importlib.metadata import PackageNotFoundError, version
    package = ENGINES[args.engine][0]
    try:
        package = f"{package} {version(package)}"
    except PackageNotFoundError:
        pass
    results = args.work / "results" / args.engine
    results.mkdir(parents=True, exist_ok=True)
    for folder in sorted((args.work / "cases").iterdir()):
        if not re.search(args.only, folder.name) or not (folder / "case.json").exists():
            continue
        result = {"engine": package, "files": {}}
        for f in FILES:
            if not (folder / f"{f}.onnx").exists():
                continue
            path = folder / f"{f}.onnx"
            got, message = here(args, path) if args.here else child(args, ["--file", path])
            result["files"][f] = {"outputs": got} if got is not None else {"error": message}
            if got is None or not args.here:
                print(args.engine, folder.name, f, "ran" if got is not None else message[-300:].replace("\n", " | "), flush=True)
        ran = [f for f, r in result["files"].items() if "outputs" in r and f != "features"]
        if "plain" in ran and len(ran) > 1 and args.seconds and not args.here:
            took, message = child(args, ["--file", folder, "--seconds", args.seconds, "--time", *ran])
            result["ms"] = took or {}
            if took is None:
                print(args.engine, folder.name, "times", message[-300:].replace("\n", " | "), flush=True)
        (results / f"{folder.name}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
