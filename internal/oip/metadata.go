package oip

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Server describes the server: the answer to GET /v2.
type Server struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Extensions []string `json:"extensions"`
}

// Extensions lists the extensions of the protocol that this package supports, by Triton's names.
func Extensions() []string {
	return []string{"binary_tensor_data", "classification", "model_configuration", "model_repository", "parameters", "statistics"}
}

// Metadata describes a model: the answer to GET /v2/models/NAME.
type Metadata struct {
	Name       string           `json:"name"`
	Versions   []string         `json:"versions"`
	Platform   string           `json:"platform"`
	Inputs     []TensorMetadata `json:"inputs"`
	Outputs    []TensorMetadata `json:"outputs"`
	Parameters Parameters       `json:"parameters,omitempty"`
}

// TensorMetadata describes an input or output. Open sizes are -1; the first axis counts examples.
type TensorMetadata struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// A Model is an entry in the answer to POST /v2/repository/index.
type Model struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	State   State  `json:"state"`
	Reason  string `json:"reason"` // why it is not ready, or ""
}

// A State is the state of a model in the repository.
type State string

// The states of models.
const (
	Ready State = "READY"
	Gone  State = "UNAVAILABLE"
)

// Check checks a request against the model: it must have exactly the model's inputs, with their datatypes and shapes
// and the same number of examples, at least one, and ask for outputs of the model only. Check puts the inputs into
// the model's order. Errors have status Invalid.
func (m *Metadata) Check(r *Request) error {
	ordered := make([]tensor.Tensor, 0, len(m.Inputs))
	for _, want := range m.Inputs {
		i := slices.IndexFunc(r.Inputs, func(t tensor.Tensor) bool { return t.Name == want.Name })
		if i < 0 {
			return Errorf(Invalid, "input %q is missing: the request has %s", want.Name, names(r.Inputs))
		}
		if err := want.check(r.Inputs[i]); err != nil {
			return Errorf(Invalid, "input %q: %w", want.Name, err)
		}
		ordered = append(ordered, r.Inputs[i])
	}
	for _, t := range r.Inputs {
		if !slices.ContainsFunc(m.Inputs, func(want TensorMetadata) bool { return want.Name == t.Name }) {
			return Errorf(Invalid, "input %s: model %q has no such input, but %s", show(t.Name), m.Name, quotedNames(m.Inputs))
		}
	}
	for _, o := range r.Outputs {
		if !slices.ContainsFunc(m.Outputs, func(have TensorMetadata) bool { return have.Name == o.Name }) {
			return Errorf(Invalid, "output %s: model %q has no such output, but %s", show(o.Name), m.Name, quotedNames(m.Outputs))
		}
	}
	for _, t := range ordered[:min(1, len(ordered))] {
		for _, o := range ordered {
			if len(t.Shape) > 0 && len(o.Shape) > 0 && t.Shape[0] != o.Shape[0] {
				return Errorf(Invalid, "input %q has %d examples and %q %d: want as many of each",
					t.Name, t.Shape[0], o.Name, o.Shape[0])
			}
		}
	}
	r.Inputs = ordered
	return nil
}

func (m TensorMetadata) check(t tensor.Tensor) error {
	if got := Datatype(t.Type()); got != m.Datatype {
		return fmt.Errorf("datatype %s, where the model takes %s", got, m.Datatype)
	}
	fits := len(t.Shape) == len(m.Shape)
	for i := 0; fits && i < len(t.Shape); i++ {
		fits = m.Shape[i] < 0 || m.Shape[i] == t.Shape[i]
	}
	if !fits {
		return fmt.Errorf("shape %s, where the model takes %s", formatShape(t.Shape), formatShape(m.Shape))
	}
	if len(t.Shape) > 0 && t.Shape[0] == 0 {
		return fmt.Errorf("shape %s has no examples", formatShape(t.Shape))
	}
	return nil
}

// formatShape formats a shape as in the protocol, with -1 for open sizes.
func formatShape(shape []int64) string {
	sizes := make([]string, len(shape))
	for i, d := range shape {
		sizes[i] = strconv.FormatInt(d, 10)
	}
	return "[" + strings.Join(sizes, ",") + "]"
}

// names lists the names of tensors for errors.
func names(all []tensor.Tensor) string {
	if len(all) == 0 {
		return "none"
	}
	quoted := make([]string, len(all))
	for i, t := range all {
		quoted[i] = show(t.Name)
	}
	return strings.Join(quoted, ", ")
}

// quotedNames lists the names of a model's inputs or outputs for errors.
func quotedNames(all []TensorMetadata) string {
	quoted := make([]string, len(all))
	for i, t := range all {
		quoted[i] = strconv.Quote(t.Name)
	}
	return strings.Join(quoted, ", ")
}
