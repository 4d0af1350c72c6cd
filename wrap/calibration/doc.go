// Package calibration makes bundles: of a model and data, of parts that many machines made, and of a bundle
// and more data.
//
//  1. [Calibrate] runs the whole way from a model file and data to a bundle: the network is cut before its
//     last layer, run over the training set, and the curvature of that layer, damping and temperatures become
//     a folder.
//  2. Curvature is a sum: [Accumulate] does the same for a shard of the data, on any machine, [Merge] makes the
//     bundle of all such parts, and [Update] adds data to a bundle.
//
// Data is named by SPECs, such as "mnist/train-images-idx3-ubyte.gz[0:55000]"; package featurize/dataset says
// which formats there are.
package calibration
