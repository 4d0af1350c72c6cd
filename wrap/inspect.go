package wrap

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// Inspection describes a model file, without running the model.
type Inspection struct {
	Model     onnx.Info    `json:"model"`
	Head      *head.Head   `json:"head"` // null if none is recognised
	Supported bool         `json:"supported"`
	Reason    string       `json:"reason"`     // why it is not supported; empty if it is
	Evidence  []string     `json:"evidence"`   // by which the head was recognised
	Nearest   []*head.Head `json:"candidates"` // if unsupported: candidate linear layers
	// Output is what can be calibrated without a linear layer, with [head.None]; null if there is a head, or no output
	// that is a row of numbers for each example.
	Output *head.Head `json:"output"`
	// Steps is an output from which text may be read, with [head.CTC], or whose steps may be tagged as a whole, with
	// [head.Tags]; null if there is a head or another output of one answer for each example, or none of that shape.
	Steps *head.Head `json:"steps"`
	// States are inputs that look like the state of a network that runs over a stream, with the outputs that look like
	// its next value, for [head.Options].State, after those that it has; "" if there are no others.
	States string `json:"states"`
}

// Inspect reads a model file and finds its head. A model whose head is not recognised, or cannot be calibrated, is
// not an error: Supported is false, and Reason says why and what to do. The error is for files that cannot be read.
func Inspect(path string, o head.Options) (*Inspection, error) {
	m, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	if m, err = head.Fix(m, o.Fix); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	in := &Inspection{Model: *m.Info(), Evidence: []string{}, Nearest: []*head.Head{}}
	in.States = otherStates(m, o.State)
	h, err := head.Find(m, o)
	if err == nil {
		if m, h, err = head.Unroll(m, h, o.State); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	var unsupported *head.UnsupportedError
	switch {
	case errors.As(err, &unsupported):
		in.Reason = unsupported.Error()
		in.Nearest = append(in.Nearest, unsupported.Candidates...)
		if o.Kind == head.Linear && o.State == "" { // which needs a linear layer
			in.Output, _ = head.Find(m, head.Options{Kind: head.None, Output: o.Output, Link: o.Link})
			if in.Output == nil {
				in.Steps = head.MayDecode(m, o.Output)
			}
		}
	case err != nil:
		return nil, err
	default:
		in.Head, in.Evidence = h, h.Evidence
		if h.Steps == 1 {
			in.Steps = head.MayDecode(m, o.Output)
		}
		if err := h.Validate(); err != nil {
			in.Reason = err.Error()
		}
		in.Supported = in.Reason == ""
	}
	return in, nil
}

// otherStates returns given, followed by what else looks like a state; "" if nothing does.
func otherStates(m *onnx.Model, given string) string {
	known := strings.Split(given, ",")
	var others []string
	for pair := range strings.SplitSeq(head.SuggestStates(m), ",") {
		if pair != "" && !slices.Contains(known, pair) {
			others = append(others, pair)
		}
	}
	if others == nil || given == "" {
		return strings.Join(others, ",")
	}
	return given + "," + strings.Join(others, ",")
}
