package wrap

import "github.com/mfgs/mfgs/internal/attach"

// Version returns the version of this module in the running program: "devel", and
// the commit where that is known, if it was built from a working copy.
func Version() string { return attach.Version() }
