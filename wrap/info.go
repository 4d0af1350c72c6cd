package wrap

import (
	"github.com/mfgs/mfgs/wrap/bundle"
)

// SyntheticOOD, in place of a dataset SPEC of out-of-distribution data, asks for synthetic images made from the
// in-distribution ones.
const SyntheticOOD = "auto"

// Progress is how far a stage of the work is. Stages follow one another; the
// last report of a stage has Done equal to Total.
type Progress struct {
	Stage string // "train", "val", "ood", "test", "tuning", …
	Done  int    // examples, or steps of tuning
	Total int    // 0 where it is not known yet: of standard input
	Unit  string // "examples" or "steps"
}

// BundleInfo names a bundle and says what it serves.
type BundleInfo struct {
	Path string `json:"path"`
	bundle.Summary
}
