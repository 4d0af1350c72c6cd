package published

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/text"
)

// TorchvisionPrefix is the prefix of names for Torchvision.
const TorchvisionPrefix = "torchvision:"

// torchvisionTable has a line for each of torchvision's weights: their name, the model whose default they are, the
// shorter side after resizing, the crop, the filter and, unless ImageNet's, mean and std. testdata/libraries.py
// writes it.
//
//go:embed torchvision.txt
var torchvisionTable string

// torchvision has the lines of the table by name of weights and by model, both in lower case.
var torchvision = sync.OnceValue(func() map[string][]string {
	rows := map[string][]string{}
	for line := range strings.Lines(torchvisionTable) {
		row := strings.Fields(line)
		rows[strings.ToLower(row[0])] = row
		if model := row[1]; model != "-" {
			family, _, _ := strings.Cut(row[0], ".")
			rows[model], rows[strings.ToLower(family+".DEFAULT")] = row, row
		}
	}
	return rows
})

// Torchvision returns the transforms of weights of torchvision, such as
// ResNet50_Weights.IMAGENET1K_V2, or of the default weights of a model, such as resnet50.
func Torchvision(name string) (preprocess.Spec, error) {
	row, ok := torchvision()[strings.ToLower(name)]
	if !ok {
		return preprocess.Spec{}, fmt.Errorf("no torchvision weights or model %s with preprocessing for image classification%s", text.Name(name), near(name))
	}
	resize, crop, err := twoInts(row[2], row[3])
	if err != nil {
		panic("published: torchvision.txt: " + err.Error())
	}
	s := preprocess.Spec{Color: preprocess.RGB, Scale: 1. / 255, Mean: slices.Clone(imagenet[:]),
		Std:    slices.Clone(imagenetStd[:]),
		Resize: &preprocess.Resize{Size: resize, Mode: preprocess.Shortest, Filter: preprocess.Filter(row[4])},
		Crop:   &preprocess.Crop{Size: crop}}
	if len(row) > 5 {
		s.Mean, s.Std = floats(row[5]), floats(row[6])
	}
	return s, nil
}

// near lists names with the same beginning.
func near(name string) string {
	family, _, _ := strings.Cut(strings.ToLower(name), ".")
	var some []string
	for key, row := range torchvision() {
		if strings.HasPrefix(key, family+".") && !slices.Contains(some, row[0]) {
			some = append(some, row[0])
		}
	}
	if len(some) == 0 {
		return ": want one such as ResNet50_Weights.IMAGENET1K_V2, or resnet50"
	}
	slices.Sort(some)
	return ": available: " + strings.Join(some, ", ")
}

func twoInts(a, b string) (int, int, error) {
	i, err := strconv.Atoi(a)
	if err != nil {
		return 0, 0, err
	}
	j, err := strconv.Atoi(b)
	return i, j, err
}

// floats parses a list in the table.
func floats(list string) []float64 {
	var out []float64
	for v := range strings.SplitSeq(list, ",") {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			panic("published: torchvision.txt: " + err.Error())
		}
		out = append(out, f)
	}
	return out
}
