package lint

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// stable is the API that docs/release.md guarantees: everything that wrap and wrap/calibration export, and the types
// of other packages that these expose, with their fields.
var stable = map[string][]string{
	"wrap": nil, "wrap/calibration": nil, // all

	"wrap/bundle": {
		"ChoiceInfo", "Damping", "Figures", "Head", "Validation", "Preprocessing", "PreprocessSource", "Proof", "Reference",
		"Role", "ScoreInfo", "Settings", "Summary", "TemperatureInfo",
	},
	"calibrate": {
		"Candidate", "Choice", "Covariance", "Damping", "Method", "Structure",
	},
	"calibrate/conformal": {"Decisions", "Plan", "Rule", "Score", "Sets"},
	"calibrate/drift":     {"Reference"},
	"calibrate/layer":     {"Head", "Link", "Temperatures"},
	"calibrate/metrics":   {"Difference", "InDomain", "Interval", "OOD", "Recommendation", "Recommended"},
	"calibrate/rows":      {"Shard"},
	"calibrate/score":     {"Candidate", "Selection"},
	"featurize/preprocess": {
		"Arithmetic", "Color", "Crop", "Filter", "Mode", "Order", "Pad", "Position", "Resize", "Round", "Spec",
	},
	"onnx":        {"Dim", "Info", "ValueInfo"},
	"onnx/head":   {"Approximation", "Head", "Options"},
	"onnx/tensor": {"Layout", "Tensor", "Type"},
}

// The stable API exposes only stable types and the standard library: a change of any other type would break programs.
func TestTheStableAPIExposesOnlyStableTypes(t *testing.T) {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for p := range stable {
		args = append(args, module+"/"+p)
	}
	list := exec.Command("go", args...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	export := map[string]string{}
	for line := range strings.Lines(string(bytes.TrimSpace(out))) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		export[path] = file
	}
	im := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(export[path])
	})
	exposed := map[string]bool{}
	for name, types := range stable {
		all := types == nil
		pkg, err := im.Import(module + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if all {
			types = pkg.Scope().Names()
		}
		for _, name := range types {
			o := pkg.Scope().Lookup(name)
			if o == nil {
				t.Errorf("%s is listed as stable and does not exist", pkg.Path()+"."+name)
			} else if o.Exported() {
				e := exposure{pkg: pkg, methods: all, by: pkg.Path() + "." + name, seen: seen{}, out: exposed}
				e.declared(o)
			}
		}
	}
	for _, line := range slices.Sorted(maps.Keys(exposed)) {
		t.Error(line)
	}
}

type seen map[types.Type]bool

// exposure finds the types that a declaration of a package exposes.
type exposure struct {
	pkg     *types.Package
	methods bool // of types as well
	by      string
	seen    seen
	out     map[string]bool
}

func (e *exposure) declared(o types.Object) {
	if name, ok := o.(*types.TypeName); ok {
		if name.IsAlias() {
			e.of(types.Unalias(name.Type()))
			return
		}
		e.of(name.Type().Underlying())
		if !e.methods {
			return
		}
		for m := range types.NewMethodSet(types.NewPointer(name.Type())).Methods() {
			if m.Obj().Exported() && m.Obj().Pkg() == e.pkg && m.Obj().Name() != "UnmarshalYAML" {
				e.of(m.Type())
			}
		}
		return
	}
	e.of(o.Type())
}

func (e *exposure) of(t types.Type) {
	if e.seen[t] {
		return
	}
	e.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		e.of(types.Unalias(t))
	case *types.Named:
		pkg := t.Obj().Pkg()
		for a := range t.TypeArgs().Types() {
			e.of(a)
		}
		if pkg == nil {
			return
		}
		ours, is := strings.CutPrefix(pkg.Path(), module+"/")
		if list, isStable := stable[ours]; is && (!isStable || list != nil && !slices.Contains(list, t.Obj().Name())) {
			e.out[fmt.Sprintf("%s exposes %s.%s, which is not stable", e.by, ours, t.Obj().Name())] = true
		} else if !is && strings.Contains(strings.Split(pkg.Path(), "/")[0], ".") {
			e.out[fmt.Sprintf("%s exposes %s.%s, of another module", e.by, pkg.Path(), t.Obj().Name())] = true
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				e.of(f.Type())
			}
		}
	case *types.Signature:
		e.of(t.Params())
		e.of(t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			e.of(v.Type())
		}
	case *types.Interface:
		for m := range t.Methods() {
			e.of(m.Type())
		}
	case *types.Map:
		e.of(t.Key())
		e.of(t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays and channels
		e.of(t.Elem())
	}
}
