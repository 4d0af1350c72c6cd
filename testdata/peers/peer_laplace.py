"""Measures laplace-torch's last-layer Laplace in its own process, and prints a JSON document.

The library is used as efficiently as its public interface allows: the network's body is frozen, predictions run
without gradients, batches are slices of one array rather than collated examples, and all cores are used.
"""

import argparse
import json
import sys
import time
import warnings

start = time.perf_counter()
warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import torch  # noqa: E402
from laplace import Laplace  # noqa: E402
from laplace.curvature import AsdlGGN, BackPackGGN, CurvlinopsGGN  # noqa: E402

from common import THREADS, peak  # noqa: E402

BACKENDS = {"curvlinops": CurvlinopsGGN, "backpack": BackPackGGN, "asdl": AsdlGGN}

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--structure", choices=["full", "kron"], required=True)
parser.add_argument("--backend", choices=list(BACKENDS), required=True)
parser.add_argument("--features", help="NPZ with features, labels, weight and bias: the last layer alone")
parser.add_argument("--network", help="NAME:CLASSES:STATE: a network of networks.py, and its weights")
parser.add_argument("--size", type=int, help="of the images that the network takes")
parser.add_argument("--images", help="NPY of images to fit")
parser.add_argument("--limit", type=int, help="examples to fit [all]")
parser.add_argument("--batch", type=int, required=True, help="examples to fit at a time")
parser.add_argument("--test", required=True, help="NPZ to predict, of features or of images")
parser.add_argument("--predict", type=int, default=0, help="examples to predict [none]")
parser.add_argument("--predict-batch", type=int, default=1)
parser.add_argument("--sampled", action="store_true", help="predict with 100 samples of the weights, and not in closed form")
parser.add_argument("--runs", type=int, default=1, help="runs to time")
args = parser.parse_args()
torch.set_num_threads(THREADS)


class Batches:
    """Batches of arrays as slices: a DataLoader without its cost."""

    def __init__(self, x, labels, size):
        self.x, self.labels, self.size = x, labels, size
        self.dataset = range(len(labels))

    def __iter__(self):
        for i in range(0, len(self.labels), self.size):
            yield torch.from_numpy(np.ascontiguousarray(self.x[i:i + self.size])), self.labels[i:i + self.size]

    def __len__(self):
        return -(-len(self.labels) // self.size)


if args.features:
    data = np.load(args.features)
    weight, bias = torch.from_numpy(data["weight"]), torch.from_numpy(data["bias"])
    head = torch.nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    model, name = torch.nn.Sequential(torch.nn.Identity(), head), "1"
    x = data["features"][:args.limit]
    labels = torch.from_numpy(data["labels"][:args.limit].astype(np.int64))
    test = np.load(args.test)["features"]
else:
    from networks import architecture, last_layer

    name, classes, state = args.network.split(":", 2)
    model = architecture(name, int(classes))
    model.load_state_dict(torch.load(state))
    model.eval()
    name = last_layer(name)
    x = np.load(args.images, mmap_mode="r")[:args.limit]
    labels = torch.zeros(len(x), dtype=torch.int64)  # the curvature does not depend on them
    test = np.load(args.test)["images"]
started = time.perf_counter() - start
idle = peak()


def fitted():
    la = Laplace(model, "classification", subset_of_weights="last_layer", hessian_structure=args.structure,
                 prior_precision=1.0, backend=BACKENDS[args.backend], last_layer_name=name)
    for p in la.model.parameters():
        p.requires_grad_(False)
    for p in la.model.last_layer.parameters():
        p.requires_grad_(True)
    la.fit(Batches(x, labels, args.batch))
    if args.structure == "full":
        la.posterior_scale  # the inverse, otherwise computed by the first prediction
    return la


def failed(error):
    """The document of a failed run."""
    text = str(error)
    if "can't allocate memory" in text or isinstance(error, MemoryError):
        text = "out of memory: " + text.split("you tried to ")[-1].split(".")[0]
    return {"error": text.splitlines()[0] if text else type(error).__name__, "peak_mib": peak()}


document = {"start": started, "idle_mib": idle, "fit": [], "predict": []}
try:
    for _ in range(args.runs):
        la = None
        began = time.perf_counter()
        la = fitted()
        document["fit"].append(time.perf_counter() - began)
    if args.predict:
        call = {"pred_type": "nn", "link_approx": "mc", "n_samples": 100} if args.sampled else {"pred_type": "glm", "link_approx": "probit"}
        with torch.no_grad():
            for _ in range(args.runs):
                began = time.perf_counter()
                for i in range(0, args.predict, args.predict_batch):
                    la(torch.from_numpy(test[i:min(args.predict, i + args.predict_batch)]), **call)
                document["predict"].append((time.perf_counter() - began) / args.predict)
except (RuntimeError, MemoryError) as error:
    document |= failed(error)
document["peak_mib"] = peak()
json.dump(document, sys.stdout)
