package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A table says which rules which models need.
type table struct {
	needs  map[string][]string // rule → models
	models map[string]int      // group → wrapped models
	all    int
	words  map[string]string // model → finding
}

func (t *table) count(model, found string) {
	if t.models == nil {
		t.models, t.words = map[string]int{}, map[string]string{}
	}
	t.all++
	t.words[model] = found
	if wrapped(found) {
		t.models[group(model)]++
	}
}

// library are those of the odd heads that a library's own classifier or function of JAX gives, and no code of ours.
var library = regexp.MustCompile(`/odd/([^/]+/(skl2onnx|hummingbird)|flax-softmax/.*|(softmax|log-softmax)/jax2onnx)/model.onnx$`)

// group says who writes such models.
func group(model string) string {
	model = filepath.ToSlash(model)
	_, after, ok := strings.Cut(model, "/work/")
	for _, g := range []struct{ part, name string }{
		{"shared/data/models/", "vendors"}, {"/testdata/examples/", "examples"}, {"/models/", "examples"},
		{"/testdata/onnx/torch_", "torch"}, {"/testdata/onnx/", "invented"}, {"/featurize/testdata/", "invented"},
	} {
		if strings.Contains(model, g.part) {
			return g.name
		}
	}
	switch family, _, _ := strings.Cut(after, "/"); {
	case !ok:
		return "other"
	case family == "odd" && library.MatchString(model):
		return "libraries"
	case family == "odd":
		return "invented"
	default:
		return family
	}
}

// write prints the table in Markdown: rules that exporters' and vendors' models need, then those that none does.
func (t *table) write(w io.Writer) error {
	fmt.Fprintf(w, "| rule | exporters and vendors | which | invented |\n|---|---|---|---|\n")
	type row struct {
		rule, which  string
		real, invent int
	}
	var rows []row
	for _, rule := range slices.Sorted(maps.Keys(t.needs)) {
		groups := map[string]int{}
		r := row{rule: rule}
		for _, m := range t.needs[rule] {
			g := group(m)
			if g == "invented" {
				r.invent++
				continue
			}
			r.real++
			groups[g]++
		}
		var list []string
		for _, g := range slices.Sorted(maps.Keys(groups)) {
			list = append(list, fmt.Sprintf("%s %d", g, groups[g]))
		}
		r.which = strings.Join(list, ", ")
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return b.real - a.real })
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %d | %s | %d |\n", r.rule, r.real, r.which, r.invent)
	}
	fmt.Fprintf(w, "\n%d models; wrapped:", t.all)
	for _, g := range slices.Sorted(maps.Keys(t.models)) {
		fmt.Fprintf(w, " %s %d", g, t.models[g])
	}
	_, err := fmt.Fprintln(w)
	return err
}
