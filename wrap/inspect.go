package wrap

import (
	"errors"

	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// Inspection is what a model file says without being run.
type Inspection struct {
	Model     onnx.Info    `json:"model"`
	Head      *head.Head   `json:"head"` // null when none is recognised
	Supported bool         `json:"supported"`
	Reason    string       `json:"reason"`     // why not; empty when supported
	Evidence  []string     `json:"evidence"`   // what the head was recognised by
	Nearest   []*head.Head `json:"candidates"` // when unsupported: linear layers that may be meant
	Err       error        `json:"-"`          // when unsupported: the error whose message is Reason
}

// Inspect reads a model file and looks for its head. A model whose head is not recognised, or is of
// a kind that cannot be calibrated, is no error: Supported is then false and Reason says why and
// what to do. The error is for files that cannot be read.
func Inspect(path string, o head.Options) (*Inspection, error) {
	m, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	in := &Inspection{Model: *m.Info(), Evidence: []string{}, Nearest: []*head.Head{}}
	h, err := head.Find(m, o)
	var unsupported *head.UnsupportedError
	switch {
	case errors.As(err, &unsupported):
		in.Err = err
		in.Nearest = append(in.Nearest, unsupported.Candidates...)
	case err != nil:
		return nil, err
	default:
		in.Head, in.Evidence = h, h.Evidence
		in.Err = h.Validate()
	}
	in.Supported = in.Err == nil
	if in.Err != nil {
		in.Reason = in.Err.Error()
	}
	return in, nil
}
