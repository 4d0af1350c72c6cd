package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/wrap"
)

// NamedSpec is a dataset with a name for tables.
type NamedSpec struct{ Name, Spec string }

// ParseNamedSpecs parses each NAME=SPEC, or a SPEC, which is named after its file. The SPEC wrap.SyntheticOOD is named
// synthetic_ood.
func ParseNamedSpecs(args []string) ([]NamedSpec, error) {
	var specs []NamedSpec
	for _, arg := range args {
		s := ParseNamedSpec(arg)
		if s.Spec == "" {
			return nil, fmt.Errorf("%q names no dataset: want NAME=SPEC", arg)
		}
		if slices.ContainsFunc(specs, func(other NamedSpec) bool { return other.Name == s.Name }) {
			return nil, fmt.Errorf("two datasets have the name %q: name them with NAME=SPEC", s.Name)
		}
		specs = append(specs, s)
	}
	for i := range specs {
		if specs[i].Spec == wrap.SyntheticOOD {
			specs[i].Name = measure.SyntheticSet
		}
	}
	return specs, nil
}

// ParseNamedSpec splits NAME=SPEC, unless the whole is an existing path: paths may have equals signs.
func ParseNamedSpec(arg string) NamedSpec {
	whole, err := dataset.ParseSpec(arg)
	name, spec, ok := strings.Cut(arg, "=")
	if err != nil && ok && name != "" && !strings.ContainsAny(name, `/\`) {
		if _, err := os.Lstat(whole.Path); err != nil {
			return NamedSpec{name, spec}
		}
	}
	return NamedSpec{filepath.Base(whole.Path), arg}
}
