package bundle

import "github.com/mfgs/mfgs/featurize/preprocess"

// Preprocessing says how images become the model's input, and how that is known. A
// model with several inputs takes ready arrays, and has no Spec.
type Preprocessing struct {
	Source PreprocessSource `yaml:"source" json:"source"`
	// Spec is nil where it is not known, or there are several inputs.
	Spec *preprocess.Spec `yaml:"spec,omitempty" json:"spec,omitempty"`
}

// PreprocessSource is how preprocessing is known.
type PreprocessSource string

const (
	Given   PreprocessSource = "given"   // it was given
	Assumed PreprocessSource = "assumed" // the data are images, and the default was taken
	Unknown PreprocessSource = "unknown" // the data are ready arrays
)

// Proof says how far what is made of the logits is from what the model itself gives.
type Proof struct {
	Output   string `yaml:"output" json:"output"`     // of the model, that was compared
	Examples int    `yaml:"examples" json:"examples"` // of the training data
	// Difference is the largest, of probabilities; of class numbers it is the part of the
	// examples whose class is another.
	Difference float64 `yaml:"difference" json:"difference"`
}
