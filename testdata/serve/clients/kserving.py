"""Tests KServe's client, over REST and gRPC."""

import asyncio
import logging

import grpc
import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig

import cases

CASES, HTTP, GRPC = cases.read()
URL = "http://" + HTTP
logging.disable()  # the client logs every error that it raises


def request(case, rows=None, binary=True, **more):
    x = case.x if rows is None else case.x[rows]
    if case.datatype == "BYTES" and binary:
        x = np.array([[w.encode() for w in row] for row in x], dtype=object)
    i = InferInput(case.input, list(x.shape), case.datatype)
    i.set_data_from_numpy(x, binary_data=binary)
    return InferRequest(case.name, [i], **more)


def outputs(response):
    return {o.name: o.as_numpy() for o in response.outputs}


def rest(case, binary):
    async def main():
        c = InferenceRESTClient(RESTConfig(protocol="v2"))
        r = await c.infer(URL, request(case, binary=binary, request_id="k1"), model_name=case.name)
        assert r.id == "k1" and r.model_name == case.name, r
        case.check(outputs(r))
        await c.close()

    asyncio.run(main())


def rpc(case):
    async def main():
        async with InferenceGRPCClient(GRPC) as c:
            r = await c.infer(request(case, request_id="k2"))
            assert r.id == "k2" and r.model_name == case.name, r
            case.check(outputs(r))

    asyncio.run(main())


def rpc_gzip():
    async def main():
        args = [("grpc.default_compression_algorithm", grpc.Compression.Gzip.value)]
        async with InferenceGRPCClient(GRPC, channel_args=args) as c:
            CASES["digits"].check(outputs(await c.infer(request(CASES["digits"]))))

    asyncio.run(main())


def ready():
    async def main():
        c = InferenceRESTClient(RESTConfig(protocol="v2"))
        assert await c.is_server_ready(URL) is True and await c.is_server_live(URL) is True
        assert await c.is_model_ready(URL, "digits") is True
        async with InferenceGRPCClient(GRPC) as g:
            assert await g.is_server_ready() and await g.is_server_live() and await g.is_model_ready("digits")

    asyncio.run(main())


def together():
    async def main():
        case = CASES["digits"]
        c = InferenceRESTClient(RESTConfig(protocol="v2"))
        async with InferenceGRPCClient(GRPC) as g:
            all = [c.infer(URL, request(case, [i]), model_name="digits") for i in range(30)]
            all += [g.infer(request(case, [i])) for i in range(30)]
            for i, r in enumerate(await asyncio.gather(*all)):
                case.check(outputs(r), [i % 30])

    asyncio.run(main())


def parameters():
    async def main():
        case = CASES["digits"]
        c = InferenceRESTClient(RESTConfig(protocol="v2"))
        r = await c.infer(URL, request(case, parameters={"max_ood_score": 0}), model_name="digits")
        assert outputs(r)["abstain"].all()
        async with InferenceGRPCClient(GRPC) as g:  # which has no fractions
            r = await g.infer(request(case, parameters={"max_ood_score": "0.0", "method": "ts"}))
            assert outputs(r)["abstain"].all()

    asyncio.run(main())


def errors():
    async def main():
        case = CASES["digits"]
        c = InferenceRESTClient(RESTConfig(protocol="v2"))
        for word, r, model in [
            ("there is no model", request(case), "nothing"),
            ("method", request(case, parameters={"method": "magic"}), "digits"),
            ('input "image" is missing', request(CASES["half"]), "digits"),
        ]:
            try:
                await c.infer(URL, r, model_name=model)
                raise AssertionError("no error: " + word)
            except httpx.HTTPStatusError as e:
                assert word in str(e) and 400 <= e.response.status_code < 500, e
        async with InferenceGRPCClient(GRPC) as g:
            try:
                await g.infer(request(CASES["half"], parameters={"t_act": "hot"}))
                raise AssertionError("no error")
            except grpc.RpcError as e:
                assert e.code() == grpc.StatusCode.INVALID_ARGUMENT and "t_act" in e.details(), e

    asyncio.run(main())


def checks():
    for case in CASES.values():
        yield f"REST {case.name}, binary", lambda c=case: rest(c, True)
        if case.datatype != "FP16":
            yield f"REST {case.name}, JSON", lambda c=case: rest(c, False)
        yield f"gRPC {case.name}", lambda c=case: rpc(c)
    for check in [rpc_gzip, ready, together, parameters, errors]:
        yield check.__name__, check


cases.run(checks())
