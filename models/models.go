// Package models holds the small trained networks that ship with mfgs, each in a folder of its own
// beside the script that trained and exported it and a README with its figures:
//
//   - digits-mlp: a 64-128-10 network on real 8×8 handwritten digits, with those
//     digits and with drawings that are no digits. It is embedded, so that an
//     installed mfgs can show what it does without any file or network.
//   - mnist-mlp: the 784-256-256-10 network of the paper's MNIST experiments,
//     trained from ten seeds, and from five for so few epochs that it does not
//     interpolate. It is only in the repository, and so is not
//     embedded; MNIST itself is not shipped.
//   - mnist-methods: networks of the methods that the paper compares with on
//     MNIST: dropout, evidential, variational, and the trajectories of SWAG;
//     likewise not embedded.
//   - cifar10-resnet20: ResNet-20 on CIFAR-10, and five trained for longer, with the
//     trajectories of their last layers; likewise not embedded.
package models

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed digits-mlp/README.md digits-mlp/model.onnx digits-mlp/*.gz digits-mlp/unfamiliar-names.txt
var files embed.FS

// The files of [DigitsMLP], in the form of dataset specs relative to its root.
// The digits are labelled; the unfamiliar images are no digits and have no
// labels. Nothing but DigitsTrain was used to train the network.
const (
	DigitsModel    = "model.onnx"
	DigitsTrain    = "digits-images-idx3-ubyte.gz[0:1200]"
	DigitsVal      = "digits-images-idx3-ubyte.gz[1200:1500]"
	DigitsTest     = "digits-images-idx3-ubyte.gz[1500:1797]"
	UnfamiliarVal  = "unfamiliar-images-idx3-ubyte.gz[0:300]"
	UnfamiliarTest = "unfamiliar-images-idx3-ubyte.gz[300:600]"
)

// DigitsMLP returns the folder digits-mlp: the model, its data, and the README
// that names the authors of the data, whose licence asks for that.
func DigitsMLP() fs.FS {
	sub, err := fs.Sub(files, "digits-mlp")
	if err != nil {
		panic(err) // only for an invalid path, and this one is a constant
	}
	return sub
}

// UnfamiliarNames returns what each unfamiliar image shows, in the order of the
// images file from its position 0: "letter A", "inverted 7", "scrambled 3".
func UnfamiliarNames() []string {
	text, err := files.ReadFile("digits-mlp/unfamiliar-names.txt")
	if err != nil {
		panic(err) // the compiler refuses to build without the file
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
