"""vbll: DiscClassification with a diagonal, dense and low-rank covariance, trained together with the network."""
import sys

sys.path = sys.path[1:] + sys.path[:1]  # this file has the name of the library
import common
import torch
import vbll

a = common.arguments()
digits = common.Digits(a.classes)
mfgs = common.Mfgs(a, digits)
test = torch.from_numpy(digits.test[0])
for parameterization in "diagonal", "dense", "lowrank":
    torch.manual_seed(0)
    features = common.body(a.features)
    layer = vbll.DiscClassification(a.features, a.classes, regularization_weight=1 / len(digits.train[1]),
                                    parameterization=parameterization)
    model = torch.nn.Sequential(*features, layer)
    common.train(model, digits, lambda x, y: model(x).train_loss_fn(y))
    linear = torch.nn.Linear(a.features, a.classes)
    with torch.no_grad():
        linear.weight.copy_(layer.W_mean)
        linear.bias.copy_(layer.noise_mean)
    got = mfgs.calibrate(torch.nn.Sequential(*features, linear).eval(), layer.state_dict())
    layer, features = layer.double(), features.double()

    def variances(phi):
        return layer.logit_predictive(phi).covariance_diagonal

    mfgs.compare(f"vbll {parameterization}", got, variances(features(test.double())), variances)
