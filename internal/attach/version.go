package attach

import "runtime/debug"

const modulePath = "github.com/mfgs/mfgs"

// Version returns the version of this module in the running program: "devel", and
// the commit where that is known, if it was built from a working copy.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	if info.Main.Path == modulePath {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return "devel-" + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return "devel"
}
