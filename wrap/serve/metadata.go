package serve

import (
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap"
)

// version is the version of every model, whose only one is the loaded bundle.
const version = "1"

// metadataOf describes a model, with the outputs of a request without parameters.
func metadataOf(name string, p *wrap.Predictor, sha256 string) *oip.Metadata {
	return &oip.Metadata{
		Name: name, Versions: []string{version}, Platform: "onnxruntime_onnx",
		Inputs: tensorsOf(p.Inputs()), Outputs: tensorsOf(p.Outputs(wrap.Override{})),
		Parameters: oip.Parameters{"bundle_sha256": sha256},
	}
}

// tensorsOf describes a model's inputs or outputs. The first axis, of examples, is open to requests even if the model
// has a fixed batch.
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

// resultBytes estimates the memory of the results of an example, or of a step, in all the forms that they take on their
// way.
func resultBytes(m *oip.Metadata) int64 {
	numbers := int64(0)
	for _, o := range m.Outputs {
		width := int64(1)
		for _, d := range o.Shape[1:] {
			width *= max(1, d) // -1 for steps
		}
		numbers += width
	}
	return 32 * numbers // float32 and float64, of the batch and of the answer
}

// A description is what GET /v1/models says about a bundle.
type description struct {
	SHA256     string               `json:"bundle_sha256"`
	Images     bool                 `json:"images"` // whether it takes images
	Inputs     []oip.TensorMetadata `json:"inputs"` // the first axis counts examples: JSON objects leave it out
	Classes    int                  `json:"classes"`
	MultiLabel bool                 `json:"multi_label"`
	Method     string               `json:"method"`              // that gives the probabilities
	Score      string               `json:"ood_score"`           // its name
	Decisions  *conformal.Decisions `json:"decisions,omitempty"` // with their guarantees
}

func describe(p *wrap.Predictor, metadata *oip.Metadata) *description {
	b := p.Bundle()
	return &description{
		SHA256: p.SHA256(), Images: p.TakesImages(), Inputs: metadata.Inputs,
		Classes: p.Head().Classes(), MultiLabel: p.Head().MultiLabel(),
		Method: string(b.Probabilities.Method), Score: b.OODScore.Name, Decisions: b.Decisions,
	}
}
