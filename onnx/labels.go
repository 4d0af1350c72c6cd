package onnx

import (
	"unicode"
	"unicode/utf8"
)

// maxLabel is the length in bytes of the longest class name that is taken over.
const maxLabel = 256

// labels returns the names that the model itself has for the n classes of a head, nil if it has none: those by which
// scikit-learn's operators name its scores or pick the best class.
func (f *finder) labels(h *Head, t *trail, n int) []string {
	for _, node := range t.nodes {
		if l := usable(attribute(f.g.source(node), "classlabels_strings").GetStrings(), n); l != nil {
			return l
		}
	}
	const far = 1000
	queue, seen := []string{h.Logits}, map[string]bool{h.Logits: true}
	for i := 0; i < len(queue) && i < far; i++ {
		for _, node := range f.g.consumers[queue[i]] {
			var names [][]byte
			switch node = f.g.source(node); opName(node) {
			case "ai.onnx.ml.ZipMap":
				names = attribute(node, "classlabels_strings").GetStrings()
			case "ai.onnx.ml.ArrayFeatureExtractor":
				if t := f.g.consts[input(node, 0)]; DataType(t.GetDataType()) == String && len(t.GetDims()) == 1 {
					names = t.GetStringData()
				}
			}
			if l := usable(names, n); l != nil {
				return l
			}
			for _, out := range node.GetOutput() {
				if !seen[out] {
					seen[out] = true
					queue = append(queue, out)
				}
			}
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
