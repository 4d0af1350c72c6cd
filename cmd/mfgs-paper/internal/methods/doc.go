// Package methods holds the other ways to make probabilities that Lu, Ie and Sha
// (the paper) compare their mean-field approximation with, for softmax heads, on
// features and logits that are ready in memory:
//
//   - the Gaussian-softmax integral of logits by other means: mf1 and mf2, the
//     unscented transform (UKF) and sampling (MC), from any [Covariance];
//   - classifiers drawn at random, whose probabilities are averaged: weights from the
//     Kronecker posterior, infinitesimal bootstraps, dropout, variational inference;
//   - several classifiers trained apart: [Ensemble];
//   - evidential classifiers: [Evidential].
//
// Each gives a calibrate.Predictive for a set of examples, so that calibrate.Tune
// tunes all of them the same way: a logit a becomes a/T_act, and what it deviates
// from its mean by is divided by √T_ens, not by T_act as well (paper, Algorithm 1).
//
// Everything random is drawn from generators seeded by what is asked for, so that
// results do not depend on how many processors there are.
package methods
