"""laplace-torch: diagonal, Kronecker and full last-layer posteriors, with a prior precision that its own search finds."""
import common
import numpy as np
import torch
from laplace import Laplace
from torch.utils.data import DataLoader, TensorDataset


def flattened(state):
    """The tensors of a state_dict, which safetensors cannot nest: H.0.1 is state["H"][0][1]."""
    out = {}
    for name, value in state.items():
        if isinstance(value, (list, tuple)):
            out |= {f"{name}.{k}": v for k, v in flattened(dict(enumerate(value))).items()}
        elif isinstance(value, torch.Tensor):
            out[str(name)] = value
    return out


def network():
    return torch.nn.Sequential(*common.body(a.features), torch.nn.Linear(a.features, a.classes))


def jacobians(phi):
    """Of the logits in the last layer's weight, row by row, and bias: [N,K,K·d+K]."""
    eye = torch.eye(a.classes, dtype=phi.dtype)
    weight = torch.einsum("kl,nd->nkld", eye, phi).flatten(2)
    return torch.cat([weight, eye.expand(len(phi), -1, -1)], 2)


a = common.arguments()
digits = common.Digits(a.classes)
mfgs = common.Mfgs(a, digits)
model = network()
common.train(model, digits, lambda x, y: torch.nn.functional.cross_entropy(model(x), y))
test = torch.from_numpy(digits.test[0]).double()
for structure, temperature in ("diag", 1.0), ("kron", 1.0), ("kron", 0.5), ("full", 1.0):
    double = network().double().eval()
    double.load_state_dict(model.state_dict())
    la = Laplace(double, "classification", subset_of_weights="last_layer", hessian_structure=structure,
                 temperature=temperature)
    x, y = map(torch.from_numpy, digits.train)
    la.fit(DataLoader(TensorDataset(x.double(), y), batch_size=100))
    la.optimize_prior_precision()
    state = {k: v for k, v in la.state_dict().items() if k != "data"}  # some of the images
    got = mfgs.calibrate(model, flattened(state) | {"temperature": torch.tensor(la.temperature, dtype=torch.float64)})
    _, covariance = la._glm_predictive_distribution(test)
    # Its probit approximation, from the exported logits and variances.
    scaled = got["logits"] / np.sqrt(1 + np.pi / 8 * got["logit_variance"])
    probit = torch.softmax(torch.from_numpy(scaled.astype(np.float64)), -1)
    own = la(test, pred_type="glm", link_approx="probit")
    mfgs.compare(f"laplace {structure} {temperature}", got, covariance.diagonal(dim1=1, dim2=2),
                 lambda phi: la.functional_variance(jacobians(phi)).diagonal(dim1=1, dim2=2),
                 probit_difference=float((probit - own).abs().max()))
