"""Writes golden.json: what laplace-torch 0.2.3 makes of the last layer of small networks.

    python3.11 golden.py > golden.json

Run with torch 2.15.0, laplace-torch 0.2.3 and curvlinops-for-pytorch 3.0.1, in float64
(testdata/peers/requirements.txt). Its precision is H / temperature + prior I with H a sum over
examples: the prior is on the bias too. Its Kronecker factors keep a bias as a block of its own,
without the terms between bias and weights, so that heads with a bias are compared by the full
curvature alone.

Features and weights are multiples of 1/16, and the logits of 1/256: exact in float32.
"""
import json
import sys
import warnings
from importlib.metadata import version

import torch

warnings.filterwarnings("ignore")
from laplace import Laplace  # noqa: E402

assert version("laplace-torch") == "0.2.3", version("laplace-torch")
assert version("curvlinops-for-pytorch") == "3.0.1", version("curvlinops-for-pytorch")
torch.set_default_dtype(torch.float64)
rng = torch.Generator().manual_seed(20250721)


class Batches:
    """The examples in batches of 16, the last one smaller."""

    def __init__(self, *tensors):
        self.dataset = torch.utils.data.TensorDataset(*tensors)

    def __iter__(self):
        return zip(*(t.split(16) for t in self.dataset.tensors))

    def __len__(self):
        return -(-len(self.dataset) // 16)


def sixteenths(*shape, size):
    return torch.round(torch.randn(*shape, generator=rng) * size * 16) / 16


def case(structure, k, d, n, bias, priors):
    head = torch.nn.Linear(d, k, bias=bias)
    head.weight.data = sixteenths(k, d, size=0.8)
    if bias:
        head.bias.data = sixteenths(k, size=0.5)
    model = torch.nn.Sequential(torch.nn.Identity(), head)
    train, test = sixteenths(n, d, size=1), sixteenths(6, d, size=2)
    # The curvature needs no labels; the library wants some.
    labels = torch.randint(0, k, (n,), generator=rng)
    laplace = Laplace(model, "classification", subset_of_weights="last_layer", hessian_structure=structure, last_layer_name="1")
    laplace.fit(Batches(train, labels))
    logits = model(train).detach()
    assert (logits == logits.float().double()).all() and (train == train.float().double()).all()
    out = {
        "structure": structure, "k": k, "d": d, "bias": bias,
        "features": train.flatten().tolist(), "logits": logits.flatten().tolist(), "test": test.flatten().tolist(),
        "posteriors": [],
    }
    if structure == "full":
        out["hessian"] = laplace.H.flatten().tolist()  # weights [k, d], then biases [k]
    else:
        (b, a), = laplace.H_facs.kfacs
        out["a"], out["b"] = a.flatten().tolist(), b.flatten().tolist()
    for prior, temperature in priors:
        laplace.prior_precision, laplace.temperature = prior, temperature
        if structure == "full":
            laplace._posterior_scale = None  # it is kept when only the temperature changes
        _, covariance = laplace._glm_predictive_distribution(test)
        out["posteriors"].append({
            "prior": prior, "temperature": temperature,
            "variances": covariance.diagonal(dim1=1, dim2=2).flatten().tolist(),
        })
    return out


priors = [(1.0, 1.0), (0.05, 1.0), (7.5, 2.5)]
json.dump([
    case("full", 3, 4, 50, True, priors),
    case("full", 3, 4, 50, False, priors),
    case("full", 10, 5, 60, True, priors),
    case("kron", 3, 4, 50, False, priors),
    case("kron", 10, 8, 70, False, priors),
], sys.stdout, separators=(",", ":"))
print()
