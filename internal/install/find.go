package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mfgs/mfgs/internal/files"
)

// Find looks for the library and examines it, without loading it and without the network. An explicit choice that
// cannot be used is a [*LibraryError]; if no usable library is found the error is a [*NotFoundError].
func Find(c Config) (Library, error) {
	return c.find(places(c))
}

func (c *Config) find(places []place) (Library, error) {
	if c.Flag != "" {
		return explicit(c.Flag, SourceFlag)
	}
	if path := os.Getenv(EnvLibrary); path != "" {
		return explicit(path, SourceEnvironment)
	}
	return search(places)
}

// A place is somewhere to look for a library. Its folders are computed when needed: asking Python takes time.
type place struct {
	source  string
	folders func() []string
}

// places lists where to look, in order.
//
// The current folder is not one of them: a library is code, and the folder that somebody works in must not decide
// which code runs.
func places(c Config) []place {
	return []place{
		{SourceExecutable, executableFolders},
		{SourceCache, func() []string {
			dir, err := c.installDir()
			if err != nil {
				return nil
			}
			return []string{dir}
		}},
		{SourceSystem, systemFolders},
		{SourcePython, pythonFolders},
	}
}

// search returns the first usable library, the newest of its folder.
func search(places []place) (Library, error) {
	notFound := new(NotFoundError)
	seen := map[string]bool{}
	for _, p := range places {
		for _, folder := range p.folders() {
			var best Library
			for _, path := range librariesIn(folder, runtime.GOOS) {
				// libonnxruntime.so, .so.1 and .so.1.30.0 are one file as a rule.
				real, err := filepath.EvalSymlinks(path)
				if err != nil || seen[real] {
					continue
				}
				seen[real] = true
				version, err := probe(real, runtime.GOOS, runtime.GOARCH)
				switch {
				case err != nil:
					notFound.Passed = append(notFound.Passed, fmt.Sprintf("%s: %v", path, err))
				case version == "":
					notFound.Passed = append(notFound.Passed, path+": it does not report its version")
				case tooOld(version):
					notFound.Passed = append(notFound.Passed, fmt.Sprintf("%s: version %s is too old", path, version))
				case best.Path == "" || newer(version, best.Version):
					best = Library{Path: real, Version: version, Source: p.source}
				}
			}
			if best.Path != "" {
				return best, nil
			}
		}
	}
	return Library{}, notFound
}

func newer(a, b string) bool {
	var va, vb [2]int
	parseVersion(a, &va)
	parseVersion(b, &vb)
	return slices.Compare(va[:], vb[:]) > 0
}

// explicit examines the library that the user chose: a file, or its folder. If the file does not contain its
// version, Load reads it.
func explicit(path, source string) (Library, error) {
	refuse := func(reason string) (Library, error) {
		return Library{}, &LibraryError{Path: path, Source: source, Reason: reason}
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		found := librariesIn(path, runtime.GOOS)
		if len(found) == 0 {
			return refuse("a folder without " + libraryName(runtime.GOOS))
		}
		path = found[0]
	}
	version, err := check(path, source)
	if err != nil {
		return Library{}, err
	}
	// The dynamic linker would search for a bare name, and the runtime looks for its providers beside the path
	// that it was loaded from.
	if path, err = filepath.EvalSymlinks(path); err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return refuse(err.Error())
	}
	return Library{Path: path, Version: version, Source: source}, nil
}

// Check examines the file of a library, without loading it. The error is a [*LibraryError].
func Check(lib Library) error {
	_, err := check(lib.Path, lib.Source)
	return err
}

// check returns the version in a library's file, "" if there is none.
func check(path, source string) (version string, err error) {
	version, err = probe(path, runtime.GOOS, runtime.GOARCH)
	switch {
	case err != nil:
		return "", &LibraryError{Path: path, Source: source, Reason: err.Error()}
	case tooOld(version):
		return "", &LibraryError{Path: path, Source: source, Reason: "version " + version + " is too old"}
	}
	return version, nil
}

// librariesIn lists the files in a folder that have the library's name.
func librariesIn(folder, goos string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		name := e.Name()
		var ok bool
		switch goos {
		case "windows":
			ok = strings.EqualFold(name, "onnxruntime.dll")
		case "darwin": // libonnxruntime.dylib, libonnxruntime.1.30.0.dylib
			ok = strings.HasPrefix(name, "libonnxruntime.") && strings.HasSuffix(name, ".dylib")
		default: // libonnxruntime.so, libonnxruntime.so.1.30.0
			ok = name == "libonnxruntime.so" || strings.HasPrefix(name, "libonnxruntime.so.")
		}
		if ok {
			found = append(found, filepath.Join(folder, name))
		}
	}
	return found
}

func executableFolders() []string {
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	folders := []string{filepath.Dir(exe)}
	if real, err := filepath.EvalSymlinks(exe); err == nil && real != exe {
		folders = append(folders, filepath.Dir(real))
	}
	return folders
}

// systemFolders lists the dynamic linker's folders, and those where people unpack archives.
func systemFolders() []string {
	switch runtime.GOOS {
	case "windows":
		return append(absolute(filepath.SplitList(os.Getenv("PATH"))),
			filepath.Join(os.Getenv("ProgramFiles"), "onnxruntime", "lib"))
	case "darwin":
		return append(absolute(filepath.SplitList(os.Getenv("DYLD_LIBRARY_PATH"))),
			"/opt/homebrew/lib", "/usr/local/lib")
	}
	folders := absolute(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")))
	folders = append(folders, linkerFolders("/etc/ld.so.conf", 0)...)
	triplet := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-linux-gnu"
	for _, root := range []string{"/usr/local/lib", "/usr/lib", "/lib"} {
		folders = append(folders, root, root+"64", filepath.Join(root, triplet))
	}
	return append(folders, globs("/opt/onnxruntime*/lib")...)
}

// linkerFolders reads the folders from ld.so.conf and what it includes.
func linkerFolders(conf string, depth int) []string {
	const limit = 1 << 20
	data, err := files.Read(conf, limit)
	if err != nil || depth > 4 {
		return nil
	}
	var folders []string
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "include":
			pattern := words[1]
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(filepath.Dir(conf), pattern)
			}
			for _, included := range globs(pattern) {
				folders = append(folders, linkerFolders(included, depth+1)...)
			}
		case len(words) == 1:
			folders = append(folders, absolute(words)...)
		}
	}
	return folders
}

// pythonFolders lists the folders of pip's and conda's onnxruntime.
func pythonFolders() []string {
	var roots []string
	for _, env := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := os.Getenv(env); filepath.IsAbs(root) {
			roots = append(roots, root)
		}
	}
	var folders []string
	add := func(sitePackages ...string) {
		for _, s := range sitePackages {
			folders = append(folders, filepath.Join(s, "onnxruntime", "capi"))
		}
	}
	for _, root := range roots {
		add(globs(filepath.Join(root, "lib", "python3*", "site-packages"))...)
		add(filepath.Join(root, "Lib", "site-packages"))
		// conda's package onnxruntime-cpp
		folders = append(folders, filepath.Join(root, "lib"), filepath.Join(root, "Library", "bin"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		add(globs(filepath.Join(home, ".local", "lib", "python3*", "site-packages"))...)
	}
	add(globs("/usr/local/lib/python3*/*-packages")...)
	add("/usr/lib/python3/dist-packages")
	if capi := askPython(); capi != "" {
		folders = append(folders, capi)
	}
	return folders
}

// askPython asks the Pythons in PATH for the folder of their onnxruntime; "" if none has one or answers in time.
func askPython() string {
	// -I: neither the current folder nor PYTHONPATH.
	const program = "import importlib.util as u; print(u.find_spec('onnxruntime').submodule_search_locations[0])"
	for _, name := range []string{"python3", "python"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, path, "-I", "-c", program)
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if dir := strings.TrimSpace(string(out)); err == nil && filepath.IsAbs(dir) {
			return filepath.Join(dir, "capi")
		}
		// On Windows python3 may be a stub that opens the store.
	}
	return ""
}

// absolute returns the absolute paths.
func absolute(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !filepath.IsAbs(p) })
}

// globs lists the matches of a pattern in descending order, which puts most newer versions first.
func globs(pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil // a folder with a broken pattern in its name
	}
	slices.Reverse(found)
	return found
}

// installDir is the folder of the pinned library. It contains the platform because machines may share home folders.
func (c *Config) installDir() (string, error) {
	dir := c.CacheDir
	if dir == "" {
		var err error
		if dir, err = CacheDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "onnxruntime", PinnedVersion, runtime.GOOS+"-"+runtime.GOARCH), nil
}

// CacheDir is the folder for installations, mfgs in the user's cache folder. It need not exist.
func CacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w (%w)", errNoCache, err)
	}
	return filepath.Join(cache, "mfgs"), nil
}

var errNoCache = errors.New("the user has no cache folder")
