package head

import (
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// maxLabel bounds the length of a class name in bytes.
const maxLabel = 256

// labels returns the names of the n classes that scikit-learn's operators contain, or nil: those of
// scores, or those that the predicted class is picked from. Integers are names too, unless they
// count from 0.
func (f *finder) labels(t *trail, n int) []string {
	for _, node := range t.nodes {
		c := f.g.Source(node)
		if l := usable(c.Attr("classlabels_strings").GetStrings(), n); l != nil {
			return l
		}
		for _, name := range []string{"classlabels_ints", "classlabels_int64s"} {
			if l := usable(numerals(c.Attr(name).GetInts()), n); l != nil {
				return l
			}
		}
	}
	const far = 1000
	queue, seen := []string{t.logits}, map[string]bool{t.logits: true}
	for i := 0; i < len(queue) && i < far; i++ {
		for _, node := range f.g.Consumers[queue[i]] {
			if l := usable(f.namesOf(f.g.Source(node)), n); l != nil {
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

// namesOf returns the class names that an operator gives scores, or picks one of.
func (f *finder) namesOf(node *onnxpb.Node) [][]byte {
	switch node.Op() {
	case "ai.onnx.ml.ZipMap":
		if names := node.Attr("classlabels_strings").GetStrings(); names != nil {
			return names
		}
		return numerals(node.Attr("classlabels_int64s").GetInts())
	case "ai.onnx.ml.ArrayFeatureExtractor":
		t := f.g.Consts[node.In(0)]
		if tensor.Type(t.GetDataType()) == tensor.String && len(t.GetDims()) == 1 {
			return t.GetStringData()
		}
		v := f.in.Get(node.In(0))
		if !v.Constant || v.Type != tensor.Int64 && v.Type != tensor.Int32 {
			return nil
		}
		whole := make([]int64, len(v.Data))
		for i, x := range v.Data {
			whole[i] = int64(x)
		}
		return numerals(whole)
	}
	return nil
}

// onlyLabels returns the names of n classes that the operators of the model contain, wherever they are, or nil if they
// contain none or different ones.
func (f *finder) onlyLabels(n int) (only []string) {
	for _, node := range f.m.Proto().GetGraph().GetNode() {
		lists := [][][]byte{f.namesOf(node), node.Attr("classlabels_strings").GetStrings(),
			numerals(node.Attr("classlabels_ints").GetInts()), numerals(node.Attr("classlabels_int64s").GetInts())}
		for _, names := range lists {
			l := usable(names, n)
			if l != nil && only != nil && !slices.Equal(l, only) {
				return nil
			}
			if l != nil {
				only = l
			}
		}
	}
	return only
}

// numerals returns integers as names, nil for 0, 1, 2, ….
func numerals(list []int64) [][]byte {
	var names [][]byte
	counts := true
	for i, x := range list {
		names = append(names, strconv.AppendInt(nil, x, 10))
		counts = counts && x == int64(i)
	}
	if counts {
		return nil
	}
	return names
}

// usable returns names as strings if they are n distinct printable ones, else nil.
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
