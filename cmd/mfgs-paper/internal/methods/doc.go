// Package methods implements the methods that Lu, Ie and Sha (the paper) compare their mean-field approximation
// with, for softmax heads, on features and logits in memory:
//
//   - other approximations of the Gaussian-softmax integral: mf1 and mf2, the unscented transform (UKF)
//     and sampling (MC), from any [Covariance];
//   - averages over random classifiers: weights from the Kronecker posterior, infinitesimal bootstraps,
//     dropout, variational inference;
//   - ensembles of independently trained classifiers: [NewEnsemble];
//   - evidential classifiers: [Evidential].
//
// Each returns a calibrate.Predictive for a set of examples, so that calibrate.Tune tunes them all alike: a logit a
// becomes a/T_act, and its deviation from the mean is divided by √T_ens, but not by T_act (paper, Algorithm 1).
//
// Random numbers come from generators seeded by the arguments, so that results do not depend on the number of
// processors.
package methods
