package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/wrap/bench"
)

// mnist is the paper's split of MNIST and notMNIST.
func (l *lab) mnist() *benchmark {
	if b := l.sets[mnistName]; b != nil {
		return b
	}
	file := func(parts ...string) string { return filepath.Join(append([]string{l.data}, parts...)...) }
	train := file("mnist", "train-images-idx3-ubyte.gz")
	other := file("notmnist", "notmnist-images-idx3-ubyte.gz")
	b := &benchmark{
		name:    mnistName,
		train:   train + "[0:55000]",
		val:     train + "[55000:60000]",
		valOOD:  other + "[0:5000]",
		test:    file("mnist", "t10k-images-idx3-ubyte.gz"),
		ood:     []bench.NamedSpec{{Name: notMNIST, Spec: other + "[5000:]"}},
		seeds:   l.seeds,
		trained: map[string]int{short: 5, dropoutKind: 3, evidentialKind: 3, variationalKind: 3},
	}
	model := func(seed int) string {
		name := "model.onnx"
		if seed > 0 {
			name = fmt.Sprintf("seed%d.onnx", seed)
		}
		return filepath.Join(l.models, "mnist-mlp", name)
	}
	of := func(format string, args ...any) string {
		return filepath.Join(l.models, "mnist-methods", fmt.Sprintf(format, args...))
	}
	b.network = func(kind string, seed int) string {
		switch kind {
		case "":
			return model(seed)
		case short:
			return filepath.Join(l.models, "mnist-mlp", fmt.Sprintf("short%d.onnx", seed))
		}
		return of("%s%d.onnx", kind, seed)
	}
	b.fisher = func(kind string, seed int) bool { return kind == "" && seed < someNetworks || kind == short }
	b.files = func(method string, q request) map[string][]string {
		seed := q.seed
		switch name, _, _ := strings.Cut(method, ":"); name {
		case "ensemble":
			var all []string
			for _, seed := range q.networks() {
				all = append(all, model(seed))
			}
			if len(all) == 1 { // the method needs two; the mean of a network and itself is that network
				all = append(all, all...)
			}
			return map[string][]string{"ensemble": all}
		case "mf0@swag":
			return map[string][]string{"swag": trajectory(of("swag%d", seed), 101, 120)}
		case "bnn-vi":
			return map[string][]string{"bnn-vi": {of("vi%d.onnx", seed)}}
		case "edl":
			return map[string][]string{"edl": {of("edl%d.onnx", seed)}}
		}
		return nil
	}
	l.sets[mnistName] = b
	return b
}

// trajectory returns the files of the last layers after each epoch.
func trajectory(dir string, from, to int) []string {
	var all []string
	for epoch := from; epoch <= to; epoch++ {
		all = append(all, filepath.Join(dir, fmt.Sprintf("epoch%d.onnx", epoch)))
	}
	return all
}

// cheapestPosterior is for bundles whose posterior is not used.
var cheapestPosterior = posterior{structure: calibrate.Kronecker}

// The kinds of networks on MNIST other than the default.
const (
	short           = "short" // trained for 15 epochs, so that they do not interpolate
	dropoutKind     = "dropout"
	evidentialKind  = "edl"
	variationalKind = "vi"
)
