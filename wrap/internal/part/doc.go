// Package part reads, writes and merges parts of calibrations: folders with what was read of some
// shards of the data. A bundle can be made from them without reading the data or running the model
// again.
//
//	err := part.Write(dir, p, part.WriteOptions{})
//	…
//	p, model, err := part.Merge(ctx, dirs, nil, nil)
//
// # The folder
//
//	part.yaml              the manifest, sealed by its last line as bundle.yaml is
//	curvature.safetensors  with training data: the sums over it
//	counts.safetensors     with training data: statistics for warnings
//	sample.safetensors     with training data: the features of some of its examples
//	val.rows               with validation data: its features, logits and labels
//	ood.rows               with out-of-distribution data: its features and logits
//	synthetic_ood.rows     with synthetic OOD images: their features and logits
//	probe.safetensors      at most where val.rows may have the first examples of the data: as in a bundle
//	model.onnx             at most in the part that has the first block of the training data: the network
//	model.onnx.data        beside model.onnx: its weights, where it does not have them
//
// The folder is written whole or not at all, like a bundle. The same data give the same bytes, up
// to the network's rounding. It must not have other files.
//
// # Shards
//
// Each set of examples, in the order in which its format has them, is cut into blocks at multiples
// of 512 positions, and of B blocks shard i of n has those from B(i-1)/n to before Bi/n, rounded
// down. A shard may have no examples. A part has one shard, or several, of each of some of the sets
// train, val, ood and synthetic_ood; these may be cut into different numbers.
//
// # part.yaml
//
// A mapping with the fields of [Manifest], all of which must be there but for those in parentheses.
//
//	field              content
//	format             2
//	tool               what wrote the part, such as "mfgs v0.1.0": the same in all that are merged
//	recipe             what else must be the same in all that are merged
//	  (model)          sha256, producer, opset, as in a bundle; left out for precomputed features
//	  (gathered)       true: its weights were in other files, so that model.onnx has another sha256
//	  head             as in a bundle
//	  (preprocess)     source: given, assumed or unknown, and (spec); goes with model.
//	                   Without exif in it, image files were taken as they are stored
//	  batch            examples to an inference
//	  (provider)       what runs the model
//	  settings         as in a bundle; limit and max_bad are for all shards
//	  (classes)        their names, in the order of the labels
//	sets               a list: train, val, ood, synthetic_ood, of which one is enough
//	  role             train, val, ood or synthetic_ood
//	  spec             as given on the command line; of synthetic_ood that of val
//	  from, count      position of the first example, and how many there are, in all shards
//	  (stream)         true: the shards came on standard input; each has room for 2³⁰ examples
//	  shards           a list, in the order of their numbers
//	    shard          "i/n"
//	    from, to       its positions, from one to before another
//	    examples       that were read, and are in the other files
//	    fingerprint    SHA-256 of what was read: that of the set cut to these positions
//	    (bad)          a message for each record that could not be read
//	    (ignored)      skipped files of the whole set; (ignored_by) has the reasons
//	    (shared)       warnings of examples shared with another set
//	    (progress)     of a checkpoint alone: (stamp) of the data, and next, from where reading goes on
//	    (logit_error)  in the first shard of train: how far the head's logits are from the model's
//	    (proof)        likewise: the comparison with the model's own output
//	    (warnings)     likewise: of the head
//	    (no_probe)     of val: why there is no probe, where val.rows may have the first examples
//	files              a list: name and sha256 of each of the other files
//
// A checkpoint is a part whose shards have a progress. They have whole blocks, and no fingerprint unless they were
// read to the end. It cannot be merged.
//
// # The other files
//
// curvature.safetensors is what [calibrate.Sums.Encode] writes, of the blocks of the shards; val.rows,
// ood.rows and synthetic_ood.rows are complete stores as [rows.Writer] writes them, without names.
//
// probe.safetensors has the first examples of the first shard with any: merging keeps that of the part
// whose val.rows begins first.
//
// sample.safetensors is what [rows.Sample.Encode] writes: the examples whose positions have the smallest
// hashes, at most 8,192 and 16 MiB, or all if there are no more.
//
// counts.safetensors is a sealed safetensors file (see [safetensors.EncodeSealed]) whose metadata
// holds mfgs.counts, "1", and in decimal examples, labelled and mask. Its tensors are I64:
//
//	labels     [C]  training examples of each class, or with each label
//	predicted  [C]  likewise, of the network's predictions
//	hashes     [n]  of features, rising, as unsigned numbers: those without a bit of mask
//	times      [n]  how many examples have each
//
// mask is the smallest power of two less 1 with which n is at most 2¹⁸.
//
// # Versions
//
// This is format 2. Parts are temporary: they are merged by the version that wrote them, and no later version
// need read them.
package part
