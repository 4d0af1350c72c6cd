package head

import "github.com/mfgs/mfgs/calibrate/layer"

// Options says where to look for the head. The zero value looks behind every output of the model.
type Options struct {
	// Features names the tensor the logits must be linear in, if not "".
	Features string `yaml:"features,omitempty"`
	// Logits names the tensor to start from instead of an output, if not "".
	Logits string `yaml:"logits,omitempty"`
	// Output names the output of the model to start from, if not "". Logits goes before it.
	Output string `yaml:"output,omitempty"`
	// Link says what makes probabilities of the logits, where the graph does not show it; "" leaves
	// that to the graph, and to Softmax, or Sigmoid for one logit, where it is silent.
	Link layer.Link `yaml:"link,omitempty"`
	// Approximate names what may stand between layer and logits though it is not linear; "" is
	// nothing.
	Approximate Approximation `yaml:"approximation,omitempty"`
}

// Approximation is a way to take a head for linear that is not quite.
type Approximation string

// IgnoreRelu takes a Relu between the linear layer and the logits, as in SqueezeNet, as if it let
// all numbers pass. The logits stay the model's own; what they owe to the features, and with it
// their variance, is approximate.
const IgnoreRelu Approximation = "relu"
