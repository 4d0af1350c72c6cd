package head

import (
	"strconv"
	"unicode"
	"unicode/utf8"

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
		if l := usable(numerals(c.Attr("classlabels_ints").GetInts()), n); l != nil {
			return l
		}
	}
	const far = 1000
	queue, seen := []string{t.logits}, map[string]bool{t.logits: true}
	for i := 0; i < len(queue) && i < far; i++ {
		for _, node := range f.g.Consumers[queue[i]] {
			var names [][]byte
			switch node = f.g.Source(node); node.Op() {
			case "ai.onnx.ml.ZipMap":
				names = node.Attr("classlabels_strings").GetStrings()
				if names == nil {
					names = numerals(node.Attr("classlabels_int64s").GetInts())
				}
			case "ai.onnx.ml.ArrayFeatureExtractor":
				if t := f.g.Consts[node.In(0)]; tensor.Type(t.GetDataType()) == tensor.String && len(t.GetDims()) == 1 {
					names = t.GetStringData()
				} else if v := f.in.Get(node.In(0)); v.Constant && (v.Type == tensor.Int64 || v.Type == tensor.Int32) {
					whole := make([]int64, len(v.Data))
					for i, x := range v.Data {
						whole[i] = int64(x)
					}
					names = numerals(whole)
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
