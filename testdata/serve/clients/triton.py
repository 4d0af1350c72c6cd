"""Tests Triton's client, over HTTP and gRPC, and gRPC's own tools."""

import asyncio
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import tritonclient.grpc as tg
import tritonclient.grpc.aio as tga
import tritonclient.http as th
import tritonclient.http.aio as tha
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tritonclient.utils import InferenceServerException

import cases

CASES, HTTP, GRPC = cases.read()
DIGITS = CASES["digits"]


def inputs(lib, case, rows=None, **how):
    x = case.x if rows is None else case.x[rows]
    i = lib.InferInput(case.input, list(x.shape), case.datatype)
    i.set_data_from_numpy(x, **how)
    return [i]


def outputs(response):
    r = response.get_response()
    names = [o["name"] for o in r["outputs"]] if isinstance(r, dict) else [o.name for o in r.outputs]
    return {name: response.as_numpy(name) for name in names}


def json_and_binary(case, binary_in, binary_out):
    if case.datatype == "FP16" and not binary_in:
        return  # which has no form in JSON
    with th.InferenceServerClient(HTTP) as c:
        wanted = None
        if not binary_out:
            about = c.get_model_metadata(case.name)
            wanted = [th.InferRequestedOutput(o["name"], binary_data=False) for o in about["outputs"]]
        r = c.infer(case.name, inputs(th, case, binary_data=binary_in), outputs=wanted, request_id="a1")
        assert r.get_response()["id"] == "a1"
        case.check(outputs(r))


def compressed(request, response):
    with th.InferenceServerClient(HTTP) as c:
        DIGITS.check(outputs(c.infer("digits", inputs(th, DIGITS), request_compression_algorithm=request,
                                     response_compression_algorithm=response)))


def http_async():
    with th.InferenceServerClient(HTTP, concurrency=4) as c:
        asked = [(i, c.async_infer("digits", inputs(th, DIGITS, [i]))) for i in range(30)]
        for i, a in asked:
            DIGITS.check(outputs(a.get_result()), [i])


def http_aio():
    async def main():
        async with tha.InferenceServerClient(HTTP) as c:
            assert await c.is_server_live() and await c.is_server_ready() and await c.is_model_ready("digits")
            all = await asyncio.gather(*[c.infer("digits", inputs(th, DIGITS, [i]), request_id=str(i)) for i in range(30)])
            for i, r in enumerate(all):
                assert r.get_response()["id"] == str(i)
                DIGITS.check(outputs(r), [i])

    asyncio.run(main())


def rpc(case, compression):
    with tg.InferenceServerClient(GRPC) as c:
        r = c.infer(case.name, inputs(tg, case), request_id="b2", compression_algorithm=compression)
        assert r.get_response().id == "b2"
        case.check(outputs(r))


def rpc_deflate():
    """Messages may be compressed by gzip only, and the error says so."""
    cases.raises(InferenceServerException, "deflate", rpc, DIGITS, "deflate")


def rpc_async():
    with tg.InferenceServerClient(GRPC) as c:
        done = queue.Queue()
        for i in range(30):
            c.async_infer("digits", inputs(tg, DIGITS, [i]), lambda result, error, i=i: done.put((i, result, error)))
        for _ in range(30):
            i, result, error = done.get(timeout=60)
            assert error is None, error
            DIGITS.check(outputs(result), [i])


def rpc_aio():
    async def main():
        async with tga.InferenceServerClient(GRPC) as c:
            assert await c.is_server_live() and await c.is_server_ready()
            all = await asyncio.gather(*[c.infer("digits", inputs(tg, DIGITS, [i])) for i in range(30)])
            for i, r in enumerate(all):
                DIGITS.check(outputs(r), [i])

    asyncio.run(main())


def shared():
    """Many threads on one gRPC connection, each with its own examples."""
    with tg.InferenceServerClient(GRPC) as c:

        def ask(seed):
            rng = np.random.default_rng(seed)
            for _ in range(10):
                rows = rng.integers(0, 30, rng.integers(1, 41))
                DIGITS.check(outputs(c.infer("digits", inputs(tg, DIGITS, rows))), rows)

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(ask, range(16)))


def stream():
    with tg.InferenceServerClient(GRPC) as c:
        done = queue.Queue()
        c.start_stream(lambda result, error: done.put((result, error)))
        for i in range(20):
            c.async_stream_infer("digits", inputs(tg, DIGITS, [i]), request_id=str(i))
        c.async_stream_infer("nothing", inputs(tg, DIGITS, [0]), request_id="bad")
        c.async_stream_infer("digits", inputs(tg, DIGITS, [20]), request_id="20")
        for _ in range(22):
            result, error = done.get(timeout=60)
            if error is not None:
                assert 'there is no model "nothing"' in error.message(), error
                continue
            DIGITS.check(outputs(result), [int(result.get_response().id)])
        c.stop_stream()


def classification(lib, address, text):
    with lib.InferenceServerClient(address) as c:
        r = c.infer("digits", inputs(lib, DIGITS), outputs=[lib.InferRequestedOutput("probabilities", class_count=3)])
        got = r.as_numpy("probabilities")
        assert got.shape == (30, 3), got.shape
        names = "zero one two three four five six seven eight nine".split()
        for row, want in zip(got, DIGITS.want):
            value, index, label = row[0].decode().split(":")
            assert int(index) == want["class"] and label == names[want["class"]], (row, want)
            assert abs(float(value) - want["confidence"]) < 1e-5


def parameters(lib, address):
    with lib.InferenceServerClient(address) as c:

        def ask(**p):
            return outputs(c.infer("digits", inputs(lib, DIGITS), parameters=p))

        logits = np.array([w["logits"] for w in DIGITS.want])
        e = np.exp(logits - logits.max(1, keepdims=True))
        own = ask(method="mle")
        assert np.allclose(own["probabilities"], e / e.sum(1, keepdims=True), atol=1e-5)
        # Of one temperature the fused network has no other results.
        assert np.allclose(own["ood_score"].ravel(), [w["ood_score"] for w in DIGITS.want], atol=1e-5)
        assert ask(max_ood_score="0")["abstain"].all()
        warm, cold = ask(method="mf0", t_act=1000, t_ens=1), ask(method="mf0", t_act=1, t_ens=1000000)
        assert warm["probabilities"].max() < cold["probabilities"].max()
        cases.raises(InferenceServerException, "t_act", ask, t_act="warm")
        cases.raises(InferenceServerException, "method", ask, method="magic")


def errors(lib, address, status):
    with lib.InferenceServerClient(address) as c:
        ask = lambda word, *a, **m: cases.raises(InferenceServerException, word, c.infer, *a, **m)
        ask('there is no model "nothing"', "nothing", inputs(lib, DIGITS))
        e = ask("has no version", "digits", inputs(lib, DIGITS), model_version="7")
        assert status in str(e.status()), e.status()
        wrong = lib.InferInput("image", [1, 64], "FP32")
        wrong.set_data_from_numpy(np.zeros((1, 64), np.float32))
        ask("[-1,1,8,8]", "digits", [wrong])
        wrong = lib.InferInput("image", [1, 1, 8, 8], "FP64")
        wrong.set_data_from_numpy(np.zeros((1, 1, 8, 8)))
        ask("FP64", "digits", [wrong])
        ask("mood", "digits", inputs(lib, DIGITS), outputs=[lib.InferRequestedOutput("mood")])
        cases.raises(InferenceServerException, "nothing", c.get_model_metadata, "nothing")
        cases.raises(InferenceServerException, "nothing", c.load_model, "nothing")
        cases.raises(InferenceServerException, "config", c.load_model, "digits", config="{}")
        DIGITS.check(outputs(c.infer("digits", inputs(lib, DIGITS))))


def described_http():
    with th.InferenceServerClient(HTTP) as c:
        assert c.is_server_live() and c.is_server_ready() and c.is_model_ready("digits") and c.is_model_ready("digits", "1")
        assert not c.is_model_ready("nothing")
        assert c.get_server_metadata()["name"] == "mfgs"
        about = c.get_model_metadata("digits")
        assert about["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}], about
        config = c.get_model_config("digits")
        assert config["input"][0]["data_type"] == "TYPE_FP32" and config["input"][0]["dims"] == [1, 8, 8], config
        assert {m["name"]: m["state"] for m in c.get_model_repository_index()} == {name: "READY" for name in CASES}
        before = c.get_inference_statistics("digits")["model_stats"][0]["inference_count"]
        c.infer("digits", inputs(th, DIGITS))
        assert c.get_inference_statistics("digits")["model_stats"][0]["inference_count"] == before + 30
        assert len(c.get_inference_statistics()["model_stats"]) == len(CASES)


def described_rpc():
    with tg.InferenceServerClient(GRPC) as c:
        assert c.is_server_live() and c.is_server_ready() and c.is_model_ready("digits") and c.is_model_ready("digits", "1")
        assert c.get_server_metadata().name == "mfgs"
        about = c.get_model_metadata("digits")
        assert list(about.inputs[0].shape) == [-1, 1, 8, 8] and about.inputs[0].datatype == "FP32"
        assert list(c.get_model_config("digits").config.input[0].dims) == [1, 8, 8]
        assert {m.name: m.state for m in c.get_model_repository_index().models} == {name: "READY" for name in CASES}
        before = c.get_inference_statistics("digits").model_stats[0].inference_count
        c.infer("digits", inputs(tg, DIGITS))
        assert c.get_inference_statistics("digits").model_stats[0].inference_count == before + 30
        for as_json in [c.get_model_metadata("digits", as_json=True), c.get_model_config("digits", as_json=True)]:
            assert as_json


def managed(lib, address):
    with lib.InferenceServerClient(address) as c:
        c.unload_model("mnist" if "mnist" in CASES else "half")
        name = "mnist" if "mnist" in CASES else "half"
        assert not c.is_model_ready(name) and not c.is_server_ready()
        cases.raises(InferenceServerException, "unloaded", c.infer, name, inputs(lib, CASES[name]))
        c.load_model(name)
        assert c.is_model_ready(name) and c.is_server_ready()
        CASES[name].check(outputs(c.infer(name, inputs(lib, CASES[name]))))
        c.load_model(name)  # again


def while_reloading():
    """Requests are answered while their model is reloaded."""
    end = threading.Event()

    def reload():
        with th.InferenceServerClient(HTTP) as c:
            while not end.is_set():
                c.load_model("digits")

    t = threading.Thread(target=reload)
    t.start()
    try:
        with tg.InferenceServerClient(GRPC) as c:
            for i in range(200):
                DIGITS.check(outputs(c.infer("digits", inputs(tg, DIGITS, [i % 30]))), [i % 30])
    finally:
        end.set()
        t.join()


def health():
    with grpc.insecure_channel(GRPC) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ["", "inference.GRPCInferenceService"]:
            got = stub.Check(health_pb2.HealthCheckRequest(service=service)).status
            assert got == health_pb2.HealthCheckResponse.SERVING, (service, got)
        first = next(stub.Watch(health_pb2.HealthCheckRequest(), timeout=10))
        assert first.status == health_pb2.HealthCheckResponse.SERVING


def reflection():
    with grpc.insecure_channel(GRPC) as channel:
        db = ProtoReflectionDescriptorDatabase(channel)
        assert "inference.GRPCInferenceService" in db.get_services(), db.get_services()
        file = db.FindFileContainingSymbol("inference.GRPCInferenceService")
        methods = {m.name for s in file.service for m in s.method}
        assert {"ModelInfer", "ServerLive", "RepositoryIndex"} <= methods, methods


def checks():
    for case in CASES.values():
        for i in [True, False]:
            for o in [True, False]:
                yield f"HTTP {case.name}, inputs {'binary' if i else 'JSON'}, outputs {'binary' if o else 'JSON'}", lambda c=case, i=i, o=o: json_and_binary(c, i, o)
        for compression in [None, "gzip"]:
            yield f"gRPC {case.name}, compression {compression}", lambda c=case, z=compression: rpc(c, z)
    for request in [None, "gzip", "deflate"]:
        for response in [None, "gzip", "deflate"]:
            yield f"HTTP, request {request}, response {response}", lambda a=request, b=response: compressed(a, b)
    for check in [http_async, http_aio, rpc_deflate, rpc_async, rpc_aio, shared, stream, described_http, described_rpc, while_reloading, health, reflection]:
        yield check.__name__, check
    yield "HTTP classification", lambda: classification(th, HTTP, str)
    yield "gRPC classification", lambda: classification(tg, GRPC, bytes)
    yield "HTTP parameters", lambda: parameters(th, HTTP)
    yield "gRPC parameters", lambda: parameters(tg, GRPC)
    yield "HTTP errors", lambda: errors(th, HTTP, "404")
    yield "gRPC errors", lambda: errors(tg, GRPC, "NOT_FOUND")
    yield "HTTP unload and load", lambda: managed(th, HTTP)
    yield "gRPC unload and load", lambda: managed(tg, GRPC)


cases.run(checks())
