package head

import (
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/option"
)

// Options says where to look for the head. The zero value tries every output of the model.
type Options struct {
	// Features is the name of the tensor that the logits must be linear in; "" accepts any.
	Features string `yaml:"features,omitempty"`
	// Logits is the name of the tensor that holds the logits; "" searches back from the outputs.
	Logits string `yaml:"logits,omitempty"`
	// Output is the name of the output to search back from; "" tries all. Logits overrides it.
	Output string `yaml:"output,omitempty"`
	// Fix are inputs to make constants before the search, see [Fix]. Find takes a model that has been fixed.
	Fix string `yaml:"fix,omitempty"`
	// State are inputs and outputs of a network that runs over a stream, such as state=stateN: see [Unroll], which
	// takes the head that Find has found in the network of one step.
	State string `yaml:"state,omitempty"`
	// Kind, unless it is Linear, takes an output as it is instead of looking for a linear layer. Features then names a
	// tensor that scores may use, and Logits the tensor to take.
	Kind Kind `yaml:"kind,omitempty"`
	// Link is the function that turns logits into probabilities, for models that do not contain it.
	// "" takes it from the graph or, if it has none, assumes Softmax, and Sigmoid for a single logit.
	Link layer.Link `yaml:"link,omitempty"`
	// Approximate allows an operator that is not linear between layer and logits; "" allows none.
	Approximate Approximation `yaml:"approximation,omitempty"`
}

// Kind says where logits come from: from a linear layer, which [Find] looks for, or from an output that the model
// computes in any other way, such as a forest's probabilities.
type Kind string

const (
	Linear Kind = ""
	// None is an output of which only its numbers can say whether they are the others' kind: see [Head.As].
	None             Kind = "none"
	Probabilities    Kind = "probabilities"     // the logits are their logarithms, or log p/(1-p) for a sigmoid each
	LogProbabilities Kind = "log-probabilities" // they are the logits
	Scores           Kind = "scores"            // such as margins of a support vector machine: they are the logits
	// CTC is an output with numbers for each symbol at each step of a line of text: see [Decoding].
	CTC Kind = "ctc"
	// Tags is an output with numbers for each tag at each step of a sequence, such as a tagger's of the tokens of a
	// sentence: see [Decoding].
	Tags Kind = "tags"
)

// Kinds are those without a linear layer.
var Kinds = []Kind{None, Probabilities, LogProbabilities, Scores, CTC, Tags}

// Decodes reports whether an output of this kind has a row of numbers for each step, which [Decoding] reads as a whole.
func (k Kind) Decodes() bool { return k == CTC || k == Tags }

// Validate reports an unknown kind.
func (k Kind) Validate() error {
	if k == Linear || slices.Contains(Kinds, k) {
		return nil
	}
	return option.Errorf("%s %.70q: want %s, %s, %s, %s, %s or %s", option.Kind, string(k), None, Probabilities,
		LogProbabilities, Scores, CTC, Tags)
}

// Approximation names a nonlinearity that may be ignored.
type Approximation string

// IgnoreRelu treats a Relu between the linear layer and the logits, as in SqueezeNet, as the
// identity. The logits stay the model's own; their variance, which is computed from the features,
// becomes approximate.
const IgnoreRelu Approximation = "relu"
