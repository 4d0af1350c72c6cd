"""Writes what the Python clients of KServe and Triton send, and the messages that they know.

    pip install 'tritonclient[http,grpc]==2.73.0' kserve==0.21.0 ml_dtypes==0.5.4
    python clients.py

requests.json: requests of every datatype in every form, with the elements as little-endian bytes.
messages.json: names, numbers and types of the fields of all messages, and the methods of the service.
"""
import base64
import json
import subprocess
import sys

import numpy as np


def b64(b):
    return base64.b64encode(b).decode()


def lengths(strings):
    return b"".join(len(s).to_bytes(4, "little") + s for s in strings)


def arrays(bf16):
    """Tensors of two examples: small and extreme numbers of each datatype."""
    out = {"BOOL": np.array([[True, False], [False, True]])}
    for bits in (8, 16, 32, 64):
        for kind in ("int", "uint"):
            t = np.dtype(f"{kind}{bits}")
            info = np.iinfo(t)
            out[f"{kind}{bits}".upper()] = np.array([[info.min, 1], [0, info.max]], t)
    for bits in (16, 32, 64):
        info = np.finfo(np.dtype(f"float{bits}"))
        out[f"FP{bits}"] = np.array([[0.1, -0.0], [info.max, info.smallest_subnormal]], f"float{bits}")
    out["BYTES"] = np.array([[b"a", b""], ["é".encode(), b'"\\\n']], np.object_)
    if bf16:
        import ml_dtypes

        out["BF16"] = np.array([[0.1, -0.0], [3e38, 1e-40]], ml_dtypes.bfloat16)
    return out


def raw(a):
    return lengths(a.flatten()) if a.dtype == np.object_ else a.tobytes()


def requests_of(name, forms):
    """forms: form -> function of all tensors that returns what is sent."""
    for form, send in forms.items():
        bf16 = name == "tritonclient" and form != "json"
        tensors = {k: a for k, a in arrays(bf16).items() if form != "json" or k != "FP16"}
        if form == "typed":
            tensors.pop("FP16")
        sent = send(tensors)
        sent.update(client=name, form=form, inputs=[
            {"name": k, "datatype": k, "shape": list(a.shape), "raw": b64(raw(a))} for k, a in tensors.items()])
        yield sent


def triton():
    import tritonclient.grpc as tg
    import tritonclient.http as th
    from tritonclient.grpc import _utils as tu

    def rest(binary):
        def send(tensors):
            inputs = []
            for k, a in tensors.items():
                i = th.InferInput(k, list(a.shape), k)
                i.set_data_from_numpy(a, binary_data=binary)
                inputs.append(i)
            body, header = th.InferenceServerClient.generate_request_body(
                inputs, outputs=[th.InferRequestedOutput("probabilities", binary_data=binary, class_count=3)],
                request_id="q7", parameters={"method": "mf0", "t_act": 0.3}, timeout=5)
            return {"body": b64(body), "header": "" if header is None else str(header)}
        return send

    def grpc(tensors):
        inputs = []
        for k, a in tensors.items():
            i = tg.InferInput(k, list(a.shape), k)
            i.set_data_from_numpy(a)
            inputs.append(i)
        m = tu._get_inference_request("m", inputs, "1", "q7", [tg.InferRequestedOutput("probabilities", class_count=3)],
                                      0, False, False, 0, 5, {"method": "mf0", "t_act": 0.3})
        return {"message": b64(m.SerializeToString(deterministic=True))}

    return {"json": rest(False), "binary": rest(True), "raw": grpc}


def kserve():
    import orjson
    from kserve.protocol.infer_type import InferInput, InferRequest, RequestedOutput

    def request(tensors, binary):
        inputs = []
        for k, a in tensors.items():
            i = InferInput(k, list(a.shape), k)
            i.set_data_from_numpy(a, binary_data=binary)
            inputs.append(i)
        return InferRequest("m", inputs, request_id="q7", model_version="1", parameters={"method": "mf0", "t_act": "0.3"},
                            request_outputs=[RequestedOutput("probabilities", {"binary_data": binary, "classification": 3})])

    def rest(binary):
        def send(tensors):
            body, header = request(tensors, binary).to_rest()
            if header is None:
                return {"body": b64(orjson.dumps(body)), "header": ""}
            return {"body": b64(body), "header": str(header)}
        return send

    def grpc(binary):
        return lambda tensors: {"message": b64(request(tensors, binary).to_grpc().SerializeToString(deterministic=True))}

    return {"json": rest(False), "binary": rest(True), "raw": grpc(True), "typed": grpc(False)}


def messages(pb, configs=None):
    """The fields of all messages, name -> "number type", and the methods."""
    from google.protobuf.descriptor import FieldDescriptor as F

    types = {getattr(F, k): k[5:].lower() for k in dir(F) if k.startswith("TYPE_")}
    fields = {}

    def visit(m):
        for f in m.fields:
            kind = f.message_type.full_name if f.message_type else f.enum_type.full_name if f.enum_type else types[f.type]
            fields[f"{m.full_name}.{f.name}"] = f"{f.number} {'repeated ' if f.is_repeated else ''}{kind}"
        for n in m.nested_types:
            visit(n)

    for d in [pb.DESCRIPTOR] + ([configs.DESCRIPTOR] if configs else []):
        for m in d.message_types_by_name.values():
            visit(m)
        for e in d.enum_types_by_name.values():
            for v in e.values:
                fields[f"{e.full_name}.{v.name}"] = str(v.number)
    methods = {}
    for s in pb.DESCRIPTOR.services_by_name.values():
        for m in s.methods:
            stream = " stream" if m.client_streaming or m.server_streaming else ""
            methods[f"{s.full_name}.{m.name}"] = f"{m.input_type.full_name} {m.output_type.full_name}{stream}"
    return {"fields": fields, "methods": methods}


def run(client):
    if client == "tritonclient":
        from tritonclient.grpc import model_config_pb2, service_pb2

        return {"requests": list(requests_of(client, triton())), "messages": messages(service_pb2, model_config_pb2)}
    from kserve.protocol.grpc import grpc_predict_v2_pb2

    return {"requests": list(requests_of(client, kserve())), "messages": messages(grpc_predict_v2_pb2)}


if __name__ == "__main__":
    if len(sys.argv) > 1:  # one client a process: both register the package inference
        json.dump(run(sys.argv[1]), sys.stdout)
        sys.exit()
    all_of = {c: json.loads(subprocess.run([sys.executable, __file__, c], stdout=subprocess.PIPE, check=True).stdout)
              for c in ("tritonclient", "kserve")}
    with open("requests.json", "w") as f:
        json.dump([r for a in all_of.values() for r in a["requests"]], f, indent=1)
        f.write("\n")
    with open("messages.json", "w") as f:
        json.dump({c: a["messages"] for c, a in all_of.items()}, f, indent=1, sort_keys=True)
        f.write("\n")
