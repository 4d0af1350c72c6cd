package install

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	// PinnedVersion is the ONNX Runtime that Install installs.
	PinnedVersion = "1.30.0"

	// MinVersion is the oldest ONNX Runtime that works: the first with version
	// 24 of the C API, which onnxruntime_go v1.27 is built against.
	MinVersion = "1.24"

	// EnvLibrary is the environment variable that chooses the library: a file, or its folder.
	EnvLibrary = "ONNXRUNTIME_SHARED_LIBRARY_PATH"

	// EnvNoInstall is the environment variable that forbids installations, for machines without network access. Set
	// it to anything but "", "0" or "false".
	EnvNoInstall = "MFGS_NO_INSTALL"
)

// Where a library was found.
const (
	SourceFlag        = "flag"
	SourceEnvironment = "environment"
	SourceExecutable  = "executable"
	SourceCache       = "cache"
	SourceSystem      = "system"
	SourcePython      = "python"
)

// A Library is an ONNX Runtime on this machine.
type Library struct {
	Path    string // of the shared library
	Version string // "1.30.0"; "" if the file does not contain it
	Source  string // where it was found: one of the Source constants
	// Installed is the archive that this call installed the library from, verified by its pinned SHA-256; "" if it
	// was installed already.
	Installed string
}

// Config says where to look for the library and how to install it. The zero value looks in the usual places and
// installs nothing.
type Config struct {
	// Flag is the user's choice, a file or its folder; "" for none.
	Flag string
	// Install allows Ensure to install the library if none is found, unless MFGS_NO_INSTALL is set.
	Install bool
	// Force makes Install replace a library that is in the cache already.
	Force bool
	// CacheDir is the folder for installations; "" means that of the function CacheDir.
	CacheDir string
	// Progress is called with the stage of an installation, such as "downloading
	// onnxruntime-linux-x64-1.30.0.tgz", and bytes done and in all, 0 if unknown. It
	// is called from one goroutine at a time; nil means silence.
	Progress func(stage string, done, total int64)

	// GitHubURL replaces https://github.com, for a mirror.
	GitHubURL string
	// Pip replaces the command, with leading arguments; nil means the one in PATH: pip3, pip or that of python3 or
	// python.
	Pip []string
	// StallTimeout ends a download without progress; 0 means one minute. CommandTimeout limits a run of pip; 0 means
	// ten minutes.
	StallTimeout, CommandTimeout time.Duration
}

// A LibraryError says what is wrong with one library.
type LibraryError struct {
	Path   string
	Source string
	Reason string
}

func (e *LibraryError) Error() string {
	var from, way string
	switch e.Source {
	case SourceFlag:
		from, way = ", given by flag", "give another path, or leave it out to search for one"
	case SourceEnvironment:
		from, way = ", from "+EnvLibrary, "set the variable to another path, or unset it to search for one"
	default:
		way = "set " + EnvLibrary + " to another"
	}
	return fmt.Sprintf("ONNX Runtime library %s%s: %s (want %s or newer for %s/%s): %s",
		e.Path, from, e.Reason, MinVersion, runtime.GOOS, runtime.GOARCH, way)
}

// A NotFoundError reports that no usable library was found.
type NotFoundError struct {
	Passed []string // what was skipped, with the reason
	// Forbidden is true if MFGS_NO_INSTALL prevented an installation.
	Forbidden bool
}

func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no ONNX Runtime %s or newer found", MinVersion)
	if len(e.Passed) > 0 {
		fmt.Fprintf(&b, " (skipped: %s)", strings.Join(e.Passed, "; "))
	}
	if e.Forbidden {
		fmt.Fprintf(&b, ", and %s forbids installing it: unset it", EnvNoInstall)
	} else {
		b.WriteString(": run `mfgs setup` to install it")
	}
	fmt.Fprintf(&b, ", or set %s to the path of %s", EnvLibrary, libraryName(runtime.GOOS))
	return b.String()
}

// libraryName is the name of the library on an operating system.
func libraryName(goos string) string {
	switch goos {
	case "windows":
		return "onnxruntime.dll"
	case "darwin":
		return "libonnxruntime.dylib"
	}
	return "libonnxruntime.so"
}

// tooOld reports whether a version is below MinVersion; false for a malformed one.
func tooOld(version string) bool {
	var have, want [2]int
	if !parseVersion(version, &have) {
		return false
	}
	parseVersion(MinVersion, &want)
	return have[0] < want[0] || have[0] == want[0] && have[1] < want[1]
}

// parseVersion parses major and minor.
func parseVersion(s string, v *[2]int) bool {
	parts := strings.SplitN(s, ".", 3)
	if len(parts) < 2 {
		return false
	}
	for i := range v {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return false
		}
		v[i] = n
	}
	return true
}
