// Package calibration makes bundles: from a model and data, from parts made on several machines, or from a bundle
// and more data.
//
//  1. [Calibrate] goes all the way from a model file and data to a bundle. It cuts the network before its last
//     layer, runs it over the training set, computes the curvature of the loss in that layer's weights, and tunes
//     damping and temperatures on validation data.
//  2. The curvature is a sum. [Accumulate] computes it for a shard of the data, on any machine, [Merge] makes a
//     bundle from all such parts, and [Update] adds data to a bundle.
//
// Data are named by SPECs, such as "mnist/train-images-idx3-ubyte.gz[0:55000]"; see package featurize/dataset
// for the formats.
package calibration
