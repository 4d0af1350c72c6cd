package onnx

import (
	"unicode"
	"unicode/utf8"
)

// maxLabel is the length in bytes of the longest class name that is taken over.
const maxLabel = 256

// labels returns the names that the model itself has for its n classes, nil if it has none: those by which scikit-learn's
// operators name scores or pick the best class.
func (f *finder) labels(n int) []string {
	for _, node := range f.m.graph.order {
		var names [][]byte
		switch opName(node) {
		case "ai.onnx.ml.ZipMap", "ai.onnx.ml.LinearClassifier":
			names = attribute(node, "classlabels_strings").GetStrings()
		case "ai.onnx.ml.ArrayFeatureExtractor":
			if t := f.g.consts[input(node, 0)]; DataType(t.GetDataType()) == String && len(t.GetDims()) == 1 {
				names = t.GetStringData()
			}
		}
		if l := usable(names, n); l != nil {
			return l
		}
	}
	return nil
}

// usable returns names as strings if there are n different ones that can be printed.
func usable(names [][]byte, n int) []string {
	if len(names) != n {
		return nil
	}
	seen := map[string]bool{}
	list := make([]string, n)
	for i, name := range names {
		s := string(name)
		if s == "" || len(s) > maxLabel || !utf8.ValidString(s) || seen[s] {
			return nil
		}
		for _, r := range s {
			if !unicode.IsPrint(r) {
				return nil
			}
		}
		seen[s], list[i] = true, s
	}
	return list
}
