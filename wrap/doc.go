// Package wrap gives a trained ONNX classifier calibrated uncertainty: [Open] and [OpenFS] turn a bundle into a
// [Predictor], which gives for each input class probabilities, the variance of every logit, and two scores of how far
// out of distribution the input is. A [Handle] lets a server replace one predictor by another.
//
// There is one way for each kind of input: [Predictor.PredictImages] for images, [Predictor.Predict] for tensors,
// [Predictor.PredictDataset] and [Predictor.PredictLines] for streams of records, and [Predictor.PredictFeatures] for
// features that the caller has computed. A server that batches by itself calls [Predictor.Run] and then
// [Predictor.Apply], with an [Override] if a request wants another method, temperatures or thresholds.
//
// Package wrap/calibration makes bundles, wrap/bench compares methods on test data, and wrap/export turns a bundle into
// one ONNX model that gives the same predictions, for programs without this package.
//
// Networks run in ONNX Runtime. Its shared library is looked for in the usual places, and installed if
// [Runtime].Install allows it.
package wrap
