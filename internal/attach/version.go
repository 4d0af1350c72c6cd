package attach

import (
	"runtime/debug"
	"strings"
)

const modulePath = "github.com/mfgs/mfgs"

// Version returns the version of this module in the running program. For a program of this repository, which may be
// of another module there, it is that of the program: "devel", and the commit if known, if it was built from a working
// copy.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	known := func(version string) bool { return version != "" && version != "(devel)" }
	if strings.HasPrefix(info.Main.Path+"/", modulePath+"/") {
		if known(info.Main.Version) {
			return info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return "devel-" + s.Value[:min(12, len(s.Value))]
			}
		}
		return "devel"
	}
	for _, m := range info.Deps {
		if m.Path == modulePath && known(m.Version) {
			return m.Version
		}
	}
	return "devel"
}
