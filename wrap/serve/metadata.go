package serve

import (
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
)

// version is that of every model: there is one, the bundle that is loaded.
const version = "1"

// The outputs that decisions give, as in an exported model: [N] and [N,C] of BOOL.
const (
	abstainOutput = "abstain"
	setOutput     = "prediction_set"
)

// metadataOf describes a model, with the outputs that a request without parameters has.
func metadataOf(name string, p *wrap.Predictor, sha256 string) *oip.Metadata {
	m := &oip.Metadata{
		Name: name, Versions: []string{version}, Platform: "onnxruntime_onnx",
		Inputs: tensorsOf(p.Inputs()), Outputs: tensorsOf(p.Outputs()),
		Parameters: oip.Parameters{"bundle_sha256": sha256},
	}
	d := p.Bundle().Decisions
	if d != nil && d.Abstains() {
		m.Outputs = append(m.Outputs, abstainMetadata)
	}
	if d != nil && d.Set != nil {
		m.Outputs = append(m.Outputs, oip.TensorMetadata{
			Name: setOutput, Datatype: oip.Datatype(tensor.Bool), Shape: []int64{-1, int64(p.NumClasses())},
		})
	}
	return m
}

var abstainMetadata = oip.TensorMetadata{Name: abstainOutput, Datatype: oip.Datatype(tensor.Bool), Shape: []int64{-1}}

// tensorsOf describes a model's inputs or outputs; the first axis, of examples, is open to requests also
// where the model has batches of one size.
func tensorsOf(infos []onnx.ValueInfo) []oip.TensorMetadata {
	list := make([]oip.TensorMetadata, len(infos))
	for i, info := range infos {
		list[i] = oip.TensorMetadata{Name: info.Name, Datatype: oip.Datatype(info.Type), Shape: []int64{}}
		for axis, d := range info.Shape {
			size := d.Value
			if axis == 0 || size <= 0 {
				size = -1
			}
			list[i].Shape = append(list[i].Shape, size)
		}
	}
	return list
}

// resultBytes is about how much memory an example's results take, in all the forms that they have on
// their way.
func resultBytes(m *oip.Metadata) int64 {
	numbers := int64(0)
	for _, o := range m.Outputs {
		width := int64(1)
		for _, d := range o.Shape[1:] {
			width *= d
		}
		numbers += width
	}
	return 32 * numbers // float32 and float64, of the batch and of the answer
}

// described is a bundle for people.
type described struct {
	SHA256     string               `json:"bundle_sha256"`
	Images     bool                 `json:"images"` // whether it takes images
	Inputs     []oip.TensorMetadata `json:"inputs"` // the first axis counts examples: JSON objects leave it out
	Classes    int                  `json:"classes"`
	MultiLabel bool                 `json:"multi_label"`
	Method     string               `json:"method"`              // whose probabilities it gives
	Score      string               `json:"ood_score"`           // which it is
	Decisions  *conformal.Decisions `json:"decisions,omitempty"` // with what they promise
}

func describedOf(p *wrap.Predictor, metadata *oip.Metadata) *described {
	b := p.Bundle()
	return &described{
		SHA256: p.SHA256(), Images: p.TakesImages(), Inputs: metadata.Inputs,
		Classes: p.NumClasses(), MultiLabel: p.MultiLabel(),
		Method: string(b.Probabilities.Method), Score: b.OODScore.Name, Decisions: b.Decisions,
	}
}
