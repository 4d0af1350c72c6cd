package wrap

import (
	"github.com/mfgs/mfgs/wrap/bundle"
)

// SyntheticOOD asks for synthetic out-of-distribution images, made from the in-distribution ones. It takes the place
// of a dataset SPEC.
const SyntheticOOD = "auto"

// Progress reports the progress of one stage of the work. Stages follow one another; the last report of a stage has
// Done equal to Total.
type Progress struct {
	Stage string // "train", "val", "ood", "test", "tuning", …
	Done  int    // examples, or steps of tuning
	Total int    // 0 if it is not known, as for standard input
	Unit  string // "examples" or "steps"
}

// BundleInfo describes a bundle: its folder, and how it was calibrated.
type BundleInfo struct {
	Path string `json:"path"`
	bundle.Summary
}
