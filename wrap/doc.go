// Package wrap gives a trained ONNX classifier honest uncertainty: it is the
// library behind the mfgs command, and ties the other packages together.
//
//  1. [Calibrate] runs the whole way from a model file and data to a bundle:
//     the network is cut before its last layer, run over the training set, and
//     the curvature of that layer, damping and temperatures become a folder.
//  2. [Open] and [OpenFS] turn a bundle into a [Predictor], which gives for each
//     input class probabilities, the variance of every logit, and two scores
//     that say how unfamiliar the input is.
//
// Curvature is a sum: [Accumulate] does what Calibrate does of a shard of the data, on any machine,
// and [Merge] makes the bundle of all such parts; [Update] adds data to a bundle. Package wrap/internal/part
// has the format of a part.
//
// Package wrap/bench compares methods on data that nothing was tuned on, and wrap/export turns a
// bundle into one ONNX model that gives the same predictions, for programs without this package.
//
// Data is named by SPECs, such as "mnist/train-images-idx3-ubyte.gz[0:55000]";
// package featurize/dataset says which formats there are.
//
// Networks run in ONNX Runtime, whose shared library is looked for, and
// installed where [Runtime].Setup allows it.
package wrap
