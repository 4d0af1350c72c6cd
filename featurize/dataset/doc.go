// Package dataset reads labelled and unlabelled examples from the file formats
// that classifiers are usually trained and tested on.
//
//  1. [Open] takes a SPEC, the name of a dataset on the command line, recognises
//     the format by content and checks what it can without reading everything:
//     header against file size, number of labels against number of examples,
//     folder names against class names.
//  2. [Dataset.Examples] yields the examples in their order in the source.
//     Memory does not grow with the number of examples; every call is a new pass.
//  3. PNG and JPEG images stay encoded, so that the caller's workers can share
//     the expensive part, [Example.Decode].
//
// [OpenFeatures] reads precomputed features and logits, from arrays or records.
//
// # SPEC
//
// A SPEC is a path, or format:path, optionally followed by a slice:
//
//	mnist/train-images-idx3-ubyte.gz[0:55000]
//	photos/val[:1000]
//	npy:embeddings.bin[500:]
//
// [a:b] selects the examples at positions a up to but not including b; either may be left out. A
// slice beyond the end of the data is an error. If the whole SPEC is an existing path, it is that
// path, so file names with colons or brackets need no quoting.
//
//	shards/train-{000..127}.tar
//	part-*.csv[1000:]
//	{monday,tuesday}.jsonl
//
// are several files or folders of one format, read one after another as one dataset: braces in the
// order given, patterns (*, ?, [a-z]) in byte-wise order. A slice counts over all of them. Either all
// have labels or none has, and class folders that differ between them must be named by class or
// number. The fingerprint covers the files that the slice, or its shard, overlaps.
//
//	-
//	jsonl:-
//
// are standard input, gzipped or not, in a format that can be read sequentially, such as JSON lines
// or archives. It is read once, and its length is unknown: [Dataset.Len] is -1, and it has no slices.
// Its fingerprint is the hash of everything that was read. A file named - is ./-.
//
// # Formats
//
//	idx      MNIST's format, plain or gzipped. The SPEC names the images
//	         file (idx2 to idx5); the labels, if any, are beside it, in the file whose
//	         name has images→labels and idx3|idx4→idx1.
//	folder   One sub-folder per class, with PNG and JPEG files. A folder with
//	         images and no sub-folders is an unlabelled set; under Options.Texts the
//	         text of a.png is in a.gt.txt or a.txt beside it.
//	tar      An archive of PNG and JPEG files, in its order. Labels are in
//	         a-labels.txt beside a.tar, in .cls or .json members beside the images,
//	         as in a WebDataset, or are its class folders.
//	image    One PNG or JPEG file, unlabelled.
//	cifar10  CIFAR's binary version: one .bin file, or a folder of them. A folder
//	cifar100 with training and test files means the training files; name the test
//	         file to read it. CIFAR-100's labels are the fine ones. cifar: detects
//	         which of the two it is.
//	npy      One NumPy array [N, …], unlabelled.
//	npz      NumPy arrays by name: labels (also label, y) holds the labels [N],
//	         numbers or class names, the others are inputs [N, …]. Arrays of
//	         strings are read if they are named as inputs, or are the labels.
//	csv      A table with a header, plain or gzipped.
//	jsonl    JSON lines, plain or gzipped: one object a line.
//
// Parquet and Arrow are read if the program imports package featurize/dataset/arrow; else Parquet is
// recognised and refused. Each format is a file and a row of the table in format.go; other packages
// add theirs by [Register].
//
// # CSV
//
//	age,colour,price,label          sepal_length,sepal_width,petal_length,label
//	34,green,7.5,1                  5.1,3.5,1.4,setosa
//
// Columns feed the model's inputs of the same names, one number or string per example: the left table
// is for a model with inputs age, colour and price. If the model has one input and no column has its
// name (or, by Options.Widths, one column cannot fill it), all columns but the label feed it, in the
// order of the file. Other columns are ignored.
//
// The column label holds a number or a class name. Cells are converted to the type of the model's
// input; an empty cell is NaN for a floating-point input. Cells are separated by commas or, if the
// header has no commas, tabs or semicolons. A record that cannot be read is a [RecordError].
//
// # JSON lines
//
//	{"input_ids": [101, 2023, 102], "attention_mask": [1, 1, 1], "label": 1}
//	{"input_ids": [101, 102], "attention_mask": [1, 1], "label": "negative"}
//
// Keys are the model's inputs; other keys are ignored. A value is one example's array without the
// batch axis: nested lists of equal lengths, or a scalar. Examples may have different lengths; package
// featurize runs each at its own. (The examples of an .npz have one shape: sequences there are padded,
// and an attention mask among the model's inputs says where.)
//
// 3.0 is an integer too, and integers are exact up to 64 bits. NaN and Infinity are written as in
// Python, and null is NaN. label (also labels) is a number or a class name; all examples have one, or
// none has. A line that cannot be read is a [RecordError].
//
// # Paths of images
//
//	file_name,label                {"image": "cats/1.jpg", "label": "cat"}
//	cats/1.jpg,cat                 {"image": "dogs/2.jpg", "label": "dog"}
//
// A table, or JSON lines, is a list of images if its first record names a PNG or JPEG file in a column
// or key image, path, file, file_name, filename, image_path or filepath, whatever the names of the
// model's inputs. Paths are relative to the table, and must not leave its folder, not even through
// links, because the author of the table need not be trusted. A missing image is a [RecordError]. As
// for a folder, the fingerprint covers paths, labels and images.
//
// # Labels
//
// A label is the number of a class; HasLabels says that every example has one. Tables, JSON lines,
// .npz and the label files of archives may instead name a class of Options.LabelClasses. If class
// names are themselves integers, a number written as text is a name. Under Options.MultiLabel a label
// is a 0 or 1 for each of the head's K labels: labels [N,K] of any numeric type in an .npz, or a list
// in JSON lines. Labels of the other kind than the head's are refused.
//
// # Label maps
//
// Under Options.Steps a label is a list of classes, one for each step of an example, or rows of them for the pixels of
// a map: a list in JSON lines, Parquet or Arrow, or labels [N,T] or [N,H,W] in an .npz. Negative numbers are for steps
// without a label and, in maps for models of at most 255 classes, so is 255.
//
// The map of an image may also be a PNG file whose values, grey or indices of a palette, are numbers of classes; 65,535
// is for pixels without one too. A table of images has its path as the label, by the rules for those of images. A
// folder has it in a parallel one, under the same name:
//
//	images/b/1.jpg                         labels/b/1.png, or in masks or annotations
//	JPEGImages/1.jpg                       SegmentationClass/1.png (Pascal VOC)
//	leftImg8bit/b/1_leftImg8bit.png        gtFine/b/1_gtFine_labelTrainIds.png (Cityscapes)
//
// The SPEC is the folder of both, or that of the images or one in it, such as images/val. Images without a label map
// are not read, and are in [Dataset.Ignored].
//
// # Class folders
//
// Folder names become labels by the first rule that applies: they are names of the model's classes;
// they are integers in [0,K); there are exactly K of them, and labels are their byte-wise order. If
// only some are class names they are refused, since a misspelt name would silently shift all labels.
//
// # Archives
//
// The label file of an archive has a line for each image: its path in the archive and its label, a
// number or a class name, separated by tabs or, in a line without tabs, by blanks. The rest of a line
// is ignored.
//
//	n01440764/ILSVRC2012_val_00000293.JPEG	0	n01440764
//
// Without a label file, members with the same key are a sample, as in a WebDataset: the key is the path
// up to the first dot of the name. key.cls holds the label of key.jpg, a number or a class name; so
// may key.json, as an object's label or labels, if there are no class folders. Other members with an
// image's key are ignored.
//
// Without labels beside the images, an archive is read like a folder. Folders that contain all images
// do not count: a.tar may hold cat/1.png and dog/2.png, or a/cat/1.png and a/dog/2.png. Only regular
// files are read. The archive must not be compressed, since images are read in any order, and must end
// with two blocks of zeros, without which it may be cut off. It may have up to 4,194,304 images, with
// distinct paths; a leading ./, ../ or / does not count.
//
// An archive read as a stream may be gzipped. Its first image decides where labels are, and class
// folders must be named by class or number, as their number is unknown.
package dataset
