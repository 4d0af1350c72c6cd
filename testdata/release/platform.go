package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// A platform is an operating system and processor that there is a release for.
type platform struct {
	goos, goarch string
	target       string   // as zig calls it, with the oldest system that the program is to run on
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

// glibcFloor is the oldest glibc that the programs for Linux run with: that of manylinux2014.
const glibcFloor = "2.17"

func (p platform) String() string { return p.goos + "/" + p.goarch }

// own reports whether this machine is of the platform.
func (p platform) own() bool { return p.goos == runtime.GOOS && p.goarch == runtime.GOARCH }

// program is the name of the program.
func (p platform) program() string {
	if p.goos == "windows" {
		return "mfgs.exe"
	}
	return "mfgs"
}

// archive is the name of the archive, and of the folder in it with "" for a suffix.
func (p platform) archive(version, suffix string) string {
	return fmt.Sprintf("mfgs-%s-%s-%s%s", version, p.goos, p.goarch, suffix)
}

// wheel is the file name of the wheel.
func (p platform) wheel(version string) string {
	return fmt.Sprintf("mfgs-%s-py3-none-%s.whl", version, strings.Join(p.tags, "."))
}

// choose returns the platforms that a list names, all for "".
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

// isVersion reports whether a version is three numbers: that is a version of Go's modules, behind a v,
// and of Python's packages.
func isVersion(s string) bool {
	parts := strings.Split(s, ".")
	return len(parts) == 3 && !slices.ContainsFunc(parts, func(part string) bool {
		return part == "" || strings.Trim(part, "0123456789") != "" || len(part) > 1 && part[0] == '0'
	})
}
