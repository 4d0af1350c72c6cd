package lint

import (
	"fmt"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The stable API exposes only stable types and the standard library: a change of any other type would break programs.
func TestTheStableAPIExposesOnlyStableTypes(t *testing.T) {
	packages, err := StablePackages(root)
	if err != nil {
		t.Fatal(err)
	}
	exposed := map[string]bool{}
	for name, types := range Stable {
		all := types == nil
		pkg := packages[name]
		if pkg == nil {
			t.Errorf("package %s is listed as stable and does not exist, or does not compile", name)
			continue
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
		if list, isStable := Stable[ours]; is && (!isStable || list != nil && !slices.Contains(list, t.Obj().Name())) {
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
