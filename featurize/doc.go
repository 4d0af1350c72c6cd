// Package featurize runs a classifier, cut at its penultimate layer, over
// examples: it turns datasets into features φ and logits.
//
//  1. [New] cuts the model at its head and prepares ONNX Runtime and the
//     preprocessing of each of the model's inputs.
//  2. [Extractor.Batches] reads a dataset, decodes and preprocesses on all cores,
//     runs the network and gives batches of features and logits, in the
//     dataset's order. Reading, decoding, inference and what the caller does
//     overlap; memory does not grow with the dataset. Examples of different
//     shapes, as JSON lines may have, are each run at their own.
//  3. A [Cache] keeps the rows on disk, under a key of everything that
//     determines them.
//
// Inputs may be of any real, whole or truth type that ONNX has, bfloat16 included, or strings.
// Ready arrays are converted where no value changes, but for rounding to real numbers. Arrays of
// bytes are pixels, scaled to 0…1 for an input of real numbers; not so where the model has several
// inputs and this one has fewer than four axes.
//
// [Network] does the same for a model that is run as it is, whatever its outputs:
// an [Extractor] is the Network of the cut model, with a cache. Inputs and results
// are not copied on their way into the runtime and out of it.
//
// [Product] is ONNX Runtime's matrix product for package calibrate.
package featurize
