// Package models has the small trained networks of the repository, each in a folder with its training script and a
// README with its figures:
//
//   - digits-mlp: a 64-128-10 network for real 8×8 handwritten digits, with the digits and with drawings that are
//     not digits. It is embedded, for mfgs demo.
//   - mnist-mlp: the 784-256-256-10 network of the paper's MNIST experiments from ten seeds, and from five
//     with too few epochs to interpolate.
//   - mnist-methods: the paper's baselines on MNIST: dropout, evidential, variational, and trajectories of SWAG.
//   - cifar10-resnet20: ResNet-20s for CIFAR-10, five of them trained for longer, with trajectories of their
//     last layers.
//
// The last three are only in the repository. MNIST and CIFAR-10 are not.
package models

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed digits-mlp/README.md digits-mlp/model.onnx digits-mlp/*.gz digits-mlp/drawings-names.txt
var files embed.FS

// The files of [DigitsMLP], as dataset specs relative to its root. The digits are labelled; the out-of-distribution
// images are drawings without labels. The network was trained on DigitsTrain only.
const (
	DigitsModel = "model.onnx"
	DigitsTrain = "digits-images-idx3-ubyte.gz[0:1200]"
	DigitsVal   = "digits-images-idx3-ubyte.gz[1200:1500]"
	DigitsTest  = "digits-images-idx3-ubyte.gz[1500:1797]"
	OODVal      = "drawings-images-idx3-ubyte.gz[0:300]"
	OODTest     = "drawings-images-idx3-ubyte.gz[300:600]"
)

// DigitsMLP returns the folder digits-mlp: the model, its data, and the README with the attribution that the licence
// of the data requires.
func DigitsMLP() fs.FS {
	sub, err := fs.Sub(files, "digits-mlp")
	if err != nil {
		panic(err) // the path is a valid constant
	}
	return sub
}

// OODNames returns what each out-of-distribution image shows, in the order of the images file:
// "letter A", "inverted 7", "scrambled 3".
func OODNames() []string {
	text, err := files.ReadFile("digits-mlp/drawings-names.txt")
	if err != nil {
		panic(err) // the file is embedded
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
