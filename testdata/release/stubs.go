package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// dynamic matches the lines by which Go's packages import functions of a library.
var dynamic = regexp.MustCompile(`(?m)^//go:cgo_import_dynamic \S+ (\S+) "(/\S+)"`)

// machVM declares the system functions that a C file of client_golang calls. zig has the library and the types, but not
// this header.
const machVM = `#pragma once
#include <mach/mach_types.h>
#include <mach/vm_region.h>
kern_return_t mach_vm_region(vm_map_t, mach_vm_address_t *, mach_vm_size_t *, vm_region_flavor_t,
	vm_region_info_t, mach_msg_type_number_t *, mach_port_t *);
`

// stubs are compiler flags for the parts of macOS that zig lacks. The zero value has none.
type stubs struct{ compile, link string } // flags

// writeStubs writes the parts of macOS that zig lacks: one header, and stubs of libraries with the functions that Go's
// packages, in goroot, call.
func writeStubs(dir, goroot string) (stubs, error) {
	include := filepath.Join(dir, "include")
	if err := os.MkdirAll(filepath.Join(include, "mach"), 0o755); err != nil {
		return stubs{}, err
	}
	if err := os.WriteFile(filepath.Join(include, "mach", "mach_vm.h"), []byte(machVM), 0o644); err != nil {
		return stubs{}, err
	}
	called := map[string][]string{} // by library
	for _, pattern := range []string{"crypto/x509/internal/macos/*.go", "internal/syscall/unix/*darwin*.go"} {
		files, err := filepath.Glob(filepath.Join(goroot, "src", filepath.FromSlash(pattern)))
		if err != nil {
			return stubs{}, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return stubs{}, err
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
			return stubs{}, err
		}
		const targets = "[ x86_64-macos, arm64-macos ]"
		text := fmt.Sprintf("--- !tapi-tbd\ntbd-version: 4\ntargets: %s\ninstall-name: '%s'\nexports:\n  - targets: %[1]s\n    symbols: [ %[3]s ]\n...\n",
			targets, library, strings.Join(slices.Compact(functions), ", "))
		if err := os.WriteFile(stub, []byte(text), 0o644); err != nil {
			return stubs{}, err
		}
	}
	if len(called) == 0 {
		return stubs{}, fmt.Errorf("%s: Go's packages call no library of macOS any more, or say so otherwise", goroot)
	}
	return stubs{compile: " -isystem " + include, link: "-F" + dir + " -L" + dir}, nil
}
