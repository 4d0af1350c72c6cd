"""SNGP: random Fourier features of a spectral-normalised network, and a Laplace approximation over their weights."""
import sys

sys.path = sys.path[1:] + sys.path[:1]  # this file has the name of the library
import common
import numpy as np
import torch
from sngp import SNGP


class Exported(torch.nn.Module):
    """The logits of an SNGP."""

    def __init__(self, gp):
        super().__init__()
        self.gp = gp

    def forward(self, x):
        return self.gp.beta(torch.cos(self.gp.rff(x)))


a = common.arguments()
digits = common.Digits(a.classes)
mfgs = common.Mfgs(a, digits)
inducing = 4 * a.features
body = torch.nn.Sequential(*[torch.nn.utils.spectral_norm(m) if isinstance(m, torch.nn.Linear) else m
                             for m in common.body(a.features)])
# A negative momentum sums over all batches, and the ridge is the prior's precision.
gp = SNGP(a.classes, body, a.features, inducing, momentum=-1, ridge_penalty=1.0)
common.train(gp, digits, lambda x, y: torch.nn.functional.cross_entropy(gp(x)[0], y))
for x, _ in common.batches(digits, 1):
    gp.update_precision(x)
gp.update_covariance()
for module in gp.modules():  # exporters do not know its hook
    if isinstance(module, torch.nn.Linear) and hasattr(module, "weight_orig"):
        torch.nn.utils.remove_spectral_norm(module)
state = gp.state_dict()
covariance = state["covariance"] + 1e-5 * torch.eye(inducing)  # as SNGP's forward has it
exported = Exported(gp)
test = torch.from_numpy(digits.test[0])
with torch.no_grad():
    _, single = gp(test, with_variance=True)
for train in False, True:
    got = mfgs.calibrate(exported.float(), {"beta.weight": state["beta.weight"], "covariance": covariance}, train=train)
    with torch.no_grad():
        logits, variances = gp.double()(test.double(), with_variance=True)
    # mf0 with one variance for all logits is SNGP's mean-field softmax, at mfgs' temperatures.
    act, ens, factor = (float(mfgs.metadata[f"mfgs.{k}"]) for k in
                        ("temperatures.nll.act", "temperatures.nll.ens", "lambda0"))
    own = torch.softmax(SNGP.mean_field_logits(logits / act, variances / ens, factor), -1)

    def of_features(phi):
        return (phi * (phi @ covariance.double())).sum(1, keepdim=True).expand(-1, a.classes)

    mfgs.compare("sngp with train" if train else "sngp", got, variances[:, None].expand(-1, a.classes), of_features,
                 mean_field_difference=float(np.abs(got["probabilities"] - own.numpy()).max()),
                 float32_difference=float((single / variances - 1).abs().max()))
