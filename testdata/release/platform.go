package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// A platform is an operating system and processor with a release.
type platform struct {
	goos, goarch string
	target       string   // zig's name, with the oldest supported system
	tags         []string // of the wheel: platforms
}

// Go 1.26 itself needs macOS 12 and Windows 10.
var platforms = []platform{
	{"linux", "amd64", "x86_64-linux-gnu." + glibcFloor, []string{"manylinux_2_17_x86_64", "manylinux2014_x86_64"}},
	{"linux", "arm64", "aarch64-linux-gnu." + glibcFloor, []string{"manylinux_2_17_aarch64", "manylinux2014_aarch64"}},
	{"darwin", "amd64", "x86_64-macos.12.0", []string{"macosx_12_0_x86_64"}},
	{"darwin", "arm64", "aarch64-macos.12.0", []string{"macosx_12_0_arm64"}},
	{"windows", "amd64", "x86_64-windows-gnu", []string{"win_amd64"}},
}

// glibcFloor is the oldest supported glibc: that of manylinux2014.
const glibcFloor = "2.17"

func (p platform) String() string { return p.goos + "/" + p.goarch }

// own reports whether this machine has the platform.
func (p platform) own() bool { return p.goos == runtime.GOOS && p.goarch == runtime.GOARCH }

// program returns the file name of the program.
func (p platform) program() string {
	if p.goos == "windows" {
		return "mfgs.exe"
	}
	return "mfgs"
}

// archive returns the name of the archive or, with the suffix "", of the folder in it.
func (p platform) archive(version, suffix string) string {
	return fmt.Sprintf("mfgs-%s-%s-%s%s", version, p.goos, p.goarch, suffix)
}

// wheel returns the file name of the wheel.
func (p platform) wheel(version string) string {
	return fmt.Sprintf("mfgs-%s-py3-none-%s.whl", version, strings.Join(p.tags, "."))
}

// choose returns the platforms in a list, or all for "".
func choose(list string) ([]platform, error) {
	if list == "" {
		return platforms, nil
	}
	var chosen []platform
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(platforms, func(p platform) bool { return p.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("-only %s: there is no release for %q: want some of %v", list, name, platforms)
		}
		chosen = append(chosen, platforms[i])
	}
	return chosen, nil
}

// isVersion reports whether a version is three numbers, which Go modules (after a v) and Python packages accept.
func isVersion(s string) bool {
	parts := strings.Split(s, ".")
	return len(parts) == 3 && !slices.ContainsFunc(parts, func(part string) bool {
		return part == "" || strings.Trim(part, "0123456789") != "" || len(part) > 1 && part[0] == '0'
	})
}
