// Package dataset reads labelled and unlabelled examples from the file formats
// that classifiers are usually trained and tested on.
//
//  1. [Open] takes a SPEC, the way a dataset is named on the command line,
//     recognises the format by content and checks everything that can be
//     checked without reading all of it: header against file size, number of
//     labels against number of examples, folder names against class names.
//  2. [Dataset.Examples] streams the examples in their order in the source.
//     Memory is bounded and independent of the number of examples; every call
//     is a fresh pass.
//  3. PNG and JPEG images arrive still encoded, so that the caller's workers
//     can share the expensive part: [Example.Decode].
//
// [OpenFeatures] reads ready-made features and logits instead of model inputs.
//
// # SPEC
//
// A SPEC is a path, or format:path, with an optional slice behind it:
//
//	mnist/train-images-idx3-ubyte.gz[0:55000]
//	photos/val[:1000]
//	npy:embeddings.bin[500:]
//
// [a:b] takes the examples at positions a up to but not including b; either may
// be left out. A slice that reaches beyond the data is an error, not a shorter
// slice. A path that exists as it stands is always meant literally, so files
// whose names hold colons or brackets need no quoting.
//
// # Formats
//
//	idx      MNIST's format, plain or gzipped. The SPEC names the images
//	         file (idx2 to idx5); labels lie beside it in the file whose name has
//	         images→labels and idx3|idx4→idx1, and may be absent.
//	folder   One sub-folder a class, holding PNG and JPEG files. A folder with
//	         images and no sub-folders is an unlabelled set.
//	image    One PNG or JPEG file, unlabelled.
//	cifar10  CIFAR-10's binary version: one .bin file, or a folder of them. A
//	cifar100 folder that holds training and test files means its training files;
//	         the test file is named by itself. CIFAR-100 labels are the fine
//	         ones. cifar: sniffs which of the two it is.
//	npy      One NumPy array [N, …], unlabelled.
//	npz      NumPy arrays by name: labels (also label, y) holds the labels [N],
//	         the others are inputs [N, …].
//
// CSV, tar and Parquet are recognised and refused.
//
// # Labels
//
// A label is the number of one class, and HasLabels says that every example has
// one. Under Options.MultiLabel it is instead a 0 or 1 for each of the head's K
// labels, which of the formats above only an .npz can hold, as labels [N,K] of
// any number type. Labels of the other kind than the head's are refused.
//
// # Class folders
//
// Folder names become labels by the first rule that fits: they are names of the
// model's classes; they are integers in [0,K); there are exactly K of them, and
// their byte-wise sorted order is the label. Folders of which only some are
// class names are refused, since a misspelt name would silently shift every label.
package dataset
