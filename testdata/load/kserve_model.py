"""Serves an exported model with KServe's Python model server and onnxruntime, for testdata/load's -peer.

    pip install -r requirements.txt
    python3 kserve_model.py --model_name m --file fused.onnx --threads 2 --http_port 8080 --enable_grpc false
"""

import argparse

import numpy
import onnxruntime
from kserve import InferOutput, InferResponse, Model, ModelServer, model_server


class Exported(Model):
    def __init__(self, name, file, threads):
        super().__init__(name)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.outputs = [o.name for o in self.session.get_outputs()]
        self.load()

    def load(self):
        self.ready = True
        return True

    def get_input_types(self):
        return [
            {"name": i.name, "datatype": "FP32", "shape": [d if isinstance(d, int) else -1 for d in i.shape]}
            for i in self.session.get_inputs()
        ]

    def get_output_types(self):
        return [{"name": n, "datatype": "FP32", "shape": [-1]} for n in self.outputs]

    def predict(self, payload, headers=None, response_headers=None):
        results = self.session.run(self.outputs, {i.name: i.as_numpy() for i in payload.inputs})
        outputs = []
        for name, value in zip(self.outputs, results):
            kind = {"float32": "FP32", "float64": "FP64", "bool": "BOOL"}[str(value.dtype)]
            output = InferOutput(name=name, shape=list(value.shape), datatype=kind)
            output.set_data_from_numpy(numpy.ascontiguousarray(value), binary_data=True)
            outputs.append(output)
        return InferResponse(model_name=self.name, response_id=payload.id, infer_outputs=outputs)


parser = argparse.ArgumentParser(parents=[model_server.parser], conflict_handler="resolve")
parser.add_argument("--file", required=True)
parser.add_argument("--threads", type=int, default=0)
args, _ = parser.parse_known_args()
ModelServer(http_port=args.http_port, enable_grpc=False, workers=1).start([Exported(args.model_name, args.file, args.threads)])
