// Package featurize runs a classifier, cut at its penultimate layer, over
// examples: it turns datasets into features φ and logits.
//
//  1. [New] cuts the model at its head and prepares ONNX Runtime and the
//     preprocessing of each of the model's inputs.
//  2. [Network.Rows] reads a dataset, decodes and preprocesses on all cores, runs
//     the network and yields batches of features and logits, in the dataset's
//     order. Reading, decoding, inference and the caller's work overlap; memory
//     does not grow with the dataset. Examples of different shapes, which JSON
//     lines may have, are each run at their own.
//  3. A [Cache] keeps the rows on disk, under a key of everything that
//     determines them.
//
// Inputs may have any real, integer or boolean type that ONNX has, bfloat16 included, or be strings.
// Ready arrays are converted if no value changes but for rounding to floating point. Arrays of bytes
// are pixels, scaled to 0…1 for a floating-point input, unless the model has several inputs and this
// one has fewer than four axes.
//
// Without a head, New runs a model as it is, whatever its outputs: [Network.Results]. Inputs and
// results are not copied on their way into the runtime and out of it.
//
// [Product] is ONNX Runtime's matrix product for package calibrate.
package featurize
