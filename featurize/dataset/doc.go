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
// [OpenFeatures] reads precomputed features and logits instead of model inputs, from arrays or records.
//
// # SPEC
//
// A SPEC is a path, or format:path, with an optional slice behind it:
//
//	mnist/train-images-idx3-ubyte.gz[0:55000]
//	photos/val[:1000]
//	npy:embeddings.bin[500:]
//
// [a:b] takes the examples at positions a up to but not including b; either may be left out. A
// slice that reaches beyond the data is an error, not a shorter slice. A path that exists as it
// stands is always meant literally, so files whose names hold colons or brackets need no quoting.
//
//	shards/train-{000..127}.tar
//	part-*.csv[1000:]
//	{monday,tuesday}.jsonl
//
// are several files or folders of one format, as one: those of braces in their order, those of a
// pattern (*, ?, [a-z]) in byte-wise order. A slice is of them all. Either all have labels or none,
// and class folders that differ from one to another must be called by class names or numbers. They
// are opened one after another. The fingerprint is over each of the files that the slice, or the
// shard of it, lies in.
//
//	-
//	jsonl:-
//
// are standard input, gzipped or not, in a format that can be read front to back, as JSON lines and
// archives can.
// It is read once, and its length is not known: [Dataset.Len] is -1, and it has no slices. Its
// fingerprint is the hash of all that was read. A file that is called - is ./-.
//
// # Formats
//
//	idx      MNIST's format, plain or gzipped. The SPEC names the images
//	         file (idx2 to idx5); labels lie beside it in the file whose name has
//	         images→labels and idx3|idx4→idx1, and may be absent.
//	folder   One sub-folder a class, holding PNG and JPEG files. A folder with
//	         images and no sub-folders is an unlabelled set.
//	tar      An archive of PNG and JPEG files, in its order. Their labels lie
//	         beside a.tar in a-labels.txt, or in .cls or .json members beside the
//	         images, as WebDataset has them, or are the class folders' in it.
//	image    One PNG or JPEG file, unlabelled.
//	cifar10  CIFAR-10's binary version: one .bin file, or a folder of them. A
//	cifar100 folder that holds training and test files means its training files;
//	         the test file is named by itself. CIFAR-100 labels are the fine
//	         ones. cifar: sniffs which of the two it is.
//	npy      One NumPy array [N, …], unlabelled.
//	npz      NumPy arrays by name: labels (also label, y) holds the labels [N],
//	         numbers or class names, the others are inputs [N, …]. Arrays of
//	         strings count where they are named as inputs, or are the labels.
//	csv      A table with a header, plain or gzipped.
//	jsonl    JSON lines, plain or gzipped: one object a line.
//
// Parquet is recognised and refused, but for programs that import package featurize/dataset/arrow,
// which reads it and Arrow. Each format is a row of the table in format.go and a file; package authors
// add theirs by [Register].
//
// # CSV
//
//	age,colour,price,label          sepal_length,sepal_width,petal_length,label
//	34,green,7.5,1                  5.1,3.5,1.4,setosa
//
// Columns named like the model's inputs feed these, one number or string an example each: the left
// table is for a model with inputs age, colour and price. Where the model has one input and no
// column has its name (or, by Options.Widths, one column could not fill it), all columns but the
// label feed it, in the order of the file. Columns that no input wants are passed over.
//
// The column label holds a number or a class name. Cells become what the model's input takes; an
// empty one is NaN, where the input takes real numbers. Cells are separated by commas or, in a
// header without commas, tabs or semicolons. A record that cannot be read is a [RecordError].
//
// # JSON lines
//
//	{"input_ids": [101, 2023, 102], "attention_mask": [1, 1, 1], "label": 1}
//	{"input_ids": [101, 102], "attention_mask": [1, 1], "label": "negative"}
//
// Keys are the model's inputs; other keys are passed over. A value is one example's array without
// the batch axis: nested lists of equal lengths, or a scalar. Examples may differ in their lengths,
// and package featurize then runs each at its own. (The examples of an .npz have one shape: there
// sequences are padded, and an attention mask among the model's inputs says where.)
//
// Numbers are what they are worth: 3.0 is a whole number too, and whole numbers
// are exact up to 64 bits. NaN and Infinity are understood as Python writes
// them, and null is NaN. label (also labels) is a number, or a class name; all
// examples have one, or none has. A line that cannot be read is a [RecordError].
//
// # Paths of images
//
//	file_name,label                {"image": "cats/1.jpg", "label": "cat"}
//	cats/1.jpg,cat                 {"image": "dogs/2.jpg", "label": "dog"}
//
// A table, or JSON lines, whose column or key image, path, file, file_name, filename, image_path or
// filepath holds the name of a PNG or JPEG file in the first record is a list of images, whatever the
// model's inputs are called. Paths are relative to the table, and lead to nothing outside its folder,
// through links neither: whoever wrote the table chooses which files are read and answered for. An
// image that is not there is a [RecordError]. The fingerprint is over paths, labels and images, as
// that of a folder.
//
// # Labels
//
// A label is the number of one class, and HasLabels says that every example has one. Tables, JSON
// lines, .npz and the label files of archives may name the class instead, as Options.LabelClasses
// does. A number is a class's place in them; where some class names are whole numbers themselves, a
// number that is written as text is a name. Under Options.MultiLabel a label is instead a 0 or 1
// for each of the head's K labels, which an .npz can hold, as labels [N,K] of any number type, and
// JSON lines, as a list. Labels of the other kind than the head's are refused.
//
// # Class folders
//
// Folder names become labels by the first rule that fits: they are names of the
// model's classes; they are integers in [0,K); there are exactly K of them, and
// their byte-wise sorted order is the label. Folders of which only some are
// class names are refused, since a misspelt name would silently shift every label.
//
// # Archives
//
// The label file of an archive has a line for each of its images: the path in the archive and the
// label, a number or a class name, separated by tabs or, in a line without tabs, blanks, so that a
// path that holds blanks wants a tab behind it. What follows them is passed over.
//
//	n01440764/ILSVRC2012_val_00000293.JPEG	0	n01440764
//
// Without a label file, members of one key are a sample, as WebDataset writes it: the key is the path
// up to the first dot of the name. key.cls holds the label of key.jpg, a number or a class name, and
// key.json may hold it, as an object's label or labels, where there are no class folders. Other
// members of an image's key are passed over.
//
// Where no label lies beside an image an archive is read as a folder is, and folders that all its images lie in do
// not count: a.tar may hold cat/1.png and dog/2.png, or a/cat/1.png and a/dog/2.png. Only regular
// files are read, and of an archive that is not compressed, since its images are reached one by
// one. One that lacks the two blocks of zeros at its end is refused, as it may be cut off. At most
// 4,194,304 images are taken, and no two may have the same path, which ./, ../ or / before it does
// not change.
//
// An archive that comes as a stream may be gzipped. The first image decides where labels are, and
// those of class folders are the folders' own names or numbers, as it is not known how many there are.
package dataset
