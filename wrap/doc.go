// Package wrap gives a trained ONNX classifier uncertainty: [Open] and [OpenFS] turn a bundle into a [Predictor],
// which gives for each input class probabilities, the variance of every logit, and two scores that say how far
// out of distribution the input is. A [Handle] lets a server exchange one predictor for another.
//
// Package wrap/calibration makes bundles, wrap/bench compares methods on data that nothing was tuned on, and
// wrap/export turns a bundle into one ONNX model that gives the same predictions, for programs without this
// package.
//
// Networks run in ONNX Runtime, whose shared library is looked for, and
// installed where [Runtime].Install allows it.
package wrap
