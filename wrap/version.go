package wrap

import "runtime/debug"

const modulePath = "github.com/mfgs/mfgs"

// Version returns the version of this module in the running program, "(devel)"
// where it was built from a working copy.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	if info.Main.Path == modulePath && info.Main.Version != "" {
		return info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path == modulePath {
			return m.Version
		}
	}
	return "(devel)"
}
