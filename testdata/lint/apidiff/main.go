// Command apidiff compares the stable API of this tree with that of a checkout of the last release, and fails if a
// change is incompatible. Run it in the folder testdata, with the checkout as its argument.
package main

import (
	"fmt"
	"go/types"
	"maps"
	"os"
	"regexp"
	"slices"

	"golang.org/x/exp/apidiff"

	"github.com/mfgs/mfgs/testdata/lint"
)

func main() {
	changes, err := incompatible(os.Args[1], "..")
	for _, c := range changes {
		fmt.Fprintln(os.Stderr, "incompatible with the last release:", c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apidiff:", err)
	}
	if err != nil || len(changes) > 0 {
		os.Exit(1)
	}
}

// incompatible returns the incompatible changes of the stable API between two checkouts.
func incompatible(before, after string) (all []string, err error) {
	old, err := lint.StablePackages(before)
	if err != nil {
		return nil, err
	}
	now, err := lint.StablePackages(after)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if now[name] == nil {
			all = append(all, "package "+name+": removed")
			continue
		}
		for _, c := range apidiff.Changes(old[name], now[name]).Changes {
			if !c.Compatible && isStable(old[name], lint.Stable[name], c.Message) {
				all = append(all, name+": "+c.Message)
			}
		}
	}
	return all, nil
}

// subject matches what a message of package apidiff is about: "Type.Field: removed". Methods with pointer receivers,
// "(*Type).Method", do not match.
var subject = regexp.MustCompile(`^(\w+)(?:\.(\w+))?`)

// isStable reports whether a message is about something stable: of a package without a list anything, else the listed
// types and their fields, but not their methods.
func isStable(pkg *types.Package, list []string, message string) bool {
	if list == nil {
		return true
	}
	m := subject.FindStringSubmatch(message)
	if m == nil || !slices.Contains(list, m[1]) {
		return false
	}
	o := pkg.Scope().Lookup(m[1])
	if o == nil || m[2] == "" || types.IsInterface(o.Type()) {
		return true
	}
	member, _, _ := types.LookupFieldOrMethod(o.Type(), true, pkg, m[2])
	_, method := member.(*types.Func)
	return !method
}
