package attach

import (
	"runtime/debug"
	"testing"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	revision := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}}
	replaced := []*debug.Module{{Path: modulePath, Version: "v0.0.0", Replace: &debug.Module{Path: "../.."}}}
	for name, test := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"installed":        {debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "v0.1.0"}}, "v0.1.0"},
		"a working copy":   {debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "(devel)"}, Settings: revision}, "devel-0123456789ab"},
		"without a commit": {debug.BuildInfo{Main: debug.Module{Path: modulePath}}, "devel"},
		"another module of the repository": {debug.BuildInfo{
			Main: debug.Module{Path: modulePath + "/testdata", Version: "v0.0.0-20261126014256-64bbef4a94ad"}, Deps: replaced,
		}, "v0.0.0-20261126014256-64bbef4a94ad"},
		"a user's program": {debug.BuildInfo{
			Main: debug.Module{Path: "example.com/user", Version: "v3.0.0"}, Deps: []*debug.Module{{Path: modulePath, Version: "v0.1.0"}},
		}, "v0.1.0"},
	} {
		if got := versionOf(&test.info); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
