package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// dynamic is a line by which Go's own packages name what they call of a library.
var dynamic = regexp.MustCompile(`(?m)^//go:cgo_import_dynamic \S+ (\S+) "(/\S+)"`)

// writeStubs writes what the linker must know of the libraries of macOS that zig does not have: their
// names and those of the functions that Go's own packages, in goroot, call. It returns linker flags.
func writeStubs(dir, goroot string) (string, error) {
	called := map[string][]string{} // by library
	for _, pattern := range []string{"crypto/x509/internal/macos/*.go", "internal/syscall/unix/*darwin*.go"} {
		files, err := filepath.Glob(filepath.Join(goroot, "src", filepath.FromSlash(pattern)))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			for _, m := range dynamic.FindAllStringSubmatch(string(text), -1) {
				if function, library := m[1], m[2]; !strings.Contains(library, "/libSystem.") {
					called[library] = append(called[library], "_"+function)
				}
			}
		}
	}
	for library, functions := range called {
		slices.Sort(functions)
		name := filepath.Base(library)
		stub := filepath.Join(dir, name+".framework", name+".tbd")
		if first, _, ok := strings.Cut(name, "."); ok { // libresolv.9.dylib
			stub = filepath.Join(dir, first+".tbd")
		}
		if err := os.MkdirAll(filepath.Dir(stub), 0o755); err != nil {
			return "", err
		}
		const targets = "[ x86_64-macos, arm64-macos ]"
		text := fmt.Sprintf("--- !tapi-tbd\ntbd-version: 4\ntargets: %s\ninstall-name: '%s'\nexports:\n  - targets: %[1]s\n    symbols: [ %[3]s ]\n...\n",
			targets, library, strings.Join(slices.Compact(functions), ", "))
		if err := os.WriteFile(stub, []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	if len(called) == 0 {
		return "", fmt.Errorf("%s: Go's packages call no library of macOS any more, or say so otherwise", goroot)
	}
	return "-F" + dir + " -L" + dir, nil
}
