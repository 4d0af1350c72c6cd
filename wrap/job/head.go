package job

import (
	"slices"

	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// Locate returns the options by which the head of a model is found that the job is for. A manifest has what
// was found, and not by which options: these are the fewest that find it.
func (j *Job) Locate(path string) (head.Options, error) {
	if j.found == nil || j.found.LogitsTensor == "" {
		return j.Head, nil
	}
	model, err := onnx.Open(path)
	if err != nil {
		return head.Options{}, err
	}
	outputs := []string{""}
	for _, o := range model.Outputs() {
		outputs = append(outputs, o.Name)
	}
	link, approximate := head.Link(j.found.Link), head.Approximation(j.found.Approximation)
	for _, link := range []head.Link{"", link} {
		for _, output := range outputs {
			o := head.Options{Output: output, Link: link, Approximate: approximate}
			if h, err := head.Find(model, o); err == nil && j.isFound(h) {
				return o, nil
			}
		}
	}
	return head.Options{
		Features: j.found.FeaturesTensor, Logits: j.found.LogitsTensor, Link: link, Approximate: approximate,
	}, nil
}

// isFound reports whether a head is that of the manifest.
func (j *Job) isFound(h *head.Head) bool {
	f := j.found
	return h.Op == f.Op && h.Node == f.Node && h.Features == f.FeaturesTensor && h.Logits == f.LogitsTensor &&
		slices.Equal(h.Tail, f.Tail) && string(h.Link) == string(f.Link) && string(h.Approximation) == f.Approximation
}
