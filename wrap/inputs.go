package wrap

import (
	"bytes"
	"errors"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/jsontensor"
)

// TakesImages reports whether ImageInputs works for images of the right size. It does not if the model has
// several inputs, or if no preprocessing says how pixels become its input.
func (p *Predictor) TakesImages() bool { return p.network != nil && p.network.TakesImages() }

// ImageInputs turns an image file, PNG or JPEG, into inputs for Run: one example, the same that PredictDataset
// makes of the file.
func (p *Predictor) ImageInputs(file []byte) ([]Tensor, error) {
	if p.network == nil {
		return nil, errUseFeatures
	}
	return p.network.Ready(&dataset.Example{Name: "image", Encoded: file, Label: -1})
}

// JSONInputs turns a JSON object of the model's inputs into inputs for Run: one example, the same that
// PredictLines makes of a line.
func (p *Predictor) JSONInputs(object []byte) ([]Tensor, error) {
	if p.network == nil {
		return nil, errUseFeatures
	}
	text := jsontensor.Parser{Text: object} // which takes NaN and Infinity, as lines do
	if err := text.Object(func(string) error { return text.Skip(0) }); err != nil {
		return nil, err
	}
	line := bytes.ReplaceAll(object, []byte("\n"), []byte(" ")) // JSON strings hold no line break
	options := dataset.Options{Unlabelled: true, Inputs: p.network.InputNames()}
	for e, err := range dataset.StreamJSONL(bytes.NewReader(line), "request", options) {
		var bad *dataset.RecordError
		if errors.As(err, &bad) {
			return nil, bad.Err
		}
		if err != nil {
			return nil, err
		}
		return p.network.Ready(&e)
	}
	return nil, errors.New("not a JSON object")
}
