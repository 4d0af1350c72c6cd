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

// A table records which models need which rules.
type table struct {
	needs  map[string][]string // rule → models
	models map[string]int      // group → wrapped models
}

func (t *table) count(model, found string) {
	if t.models == nil {
		t.models = map[string]int{}
	}
	if wrapped(found) {
		t.models[group(model)]++
	}
}

// library are the unusual heads that come from a library's classifier or a function of JAX.
var library = regexp.MustCompile(`/odd/([^/]+/(skl2onnx|hummingbird)|flax-softmax/.*|(softmax|log-softmax)/jax2onnx)/model.onnx$`)

// invented is the group of models that only our scripts write.
const invented = "invented"

// exports is the folder of the models that the tool in coverage exports, below which each family has its own.
const exports = "coverage/work"

// group returns who writes a model.
func group(model string) string {
	model = filepath.ToSlash(model)
	_, after, ok := strings.Cut(model, exports+"/")
	for _, g := range []struct{ part, name string }{
		{"shared/data/models/", "vendors"}, {"/testdata/examples/", "examples"}, {"/models/", "examples"},
		{"/testdata/onnx/torch_", "torch"}, {"/testdata/onnx/", invented}, {"/featurize/testdata/", invented},
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
		return invented
	default:
		return family
	}
}

// write prints the page: the rules that models of exporters and vendors need, and the others.
func (t *table) write(w io.Writer) error {
	real, wrapping := 0, 0
	var groups []string
	for _, g := range slices.Sorted(maps.Keys(t.models)) {
		if g != invented {
			real += t.models[g]
			groups = append(groups, fmt.Sprintf("%s %d", g, t.models[g]))
		}
	}
	rules := slices.Sorted(maps.Keys(t.needs))
	slices.SortStableFunc(rules, func(a, b string) int { return t.real(b) - t.real(a) })
	var none []string
	var rows strings.Builder
	for _, rule := range rules {
		if t.real(rule) == 0 {
			none = append(none, fmt.Sprintf("`%s` (%d)", rule, len(t.needs[rule])))
			continue
		}
		wrapping++
		fmt.Fprintf(&rows, "| `%s` | %d | %s |\n", rule, t.real(rule), t.which(rule))
	}
	_, err := fmt.Fprintf(w, page, len(rules), real, strings.Join(groups, ", "), t.models[invented], wrapping,
		rows.String(), strings.Join(none, ", "))
	return err
}

const page = `# Which rules of the head finder are needed

Written by [ablation](ablation/main.go). Each of %d rules of onnx/head and onnx/internal/graph was switched off alone. A rule is the name of an operator in a
table, switch or list, or a function that recognises one way of writing. A model needs a rule if its head is refused without
it, or differs in its tensors, weights, link, labels, cut model or description.

The wrapped models written by exporters and vendors are %d: %s. There are also %d fixtures and heads written by hand.

To repeat it, export the models as described in the [README](README.md); then, in testdata:

    go run ./coverage/ablation -models coverage/work -models examples -models ../models -models ../../shared/data/models \\
      -models onnx > coverage/rules.md

%d rules are needed:

| rule | models | groups |
|---|---|---|
%s
None of these models needs the other rules. In brackets: how many fixtures and heads written by hand do: %s.

These are kept: names of operators whose shapes the finder follows through the body; quantised and fused operators that ONNX
Runtime's quantiser and optimiser write for other networks; rules for the text of refusals and for suggested layers; class names in
metadata; operators that dense layers below the last need (Dropout, Unsqueeze, Transpose, BatchNormalization); and Clip, which networks
of models/mnist-methods have. Rules that only heads written by hand need are removed.

An alternative to lowering and constant folding was tried: cut out the part between given features and logits, run it in ONNX Runtime
on 0 and the unit vectors, which gives b and W, and check on random features that it is linear. Of 262 models with a head, 172 had the
same W and b within 1e-6 of the largest value (29 to the last bit), and 3 in half precision within 1e-3. The other 87 need the rules
anyway: 22 round intermediate values; in 44, features or logits are inside one operator (LinearClassifier, QGemm, MatMulInteger …) and
are not a tensor of the file; 19 pool or select a token after the layer; 2 add layers of several features. It took 44 ms in the median
and 13 s at most; finding and reading the weights took 37 ms on average on the same busy machine. It also needs a runtime. It was not
adopted, because most of lowering would have stayed.
`

// real counts models of exporters and vendors that need a rule.
func (t *table) real(rule string) (n int) {
	for _, m := range t.needs[rule] {
		if group(m) != invented {
			n++
		}
	}
	return n
}

// which lists the groups of models that need a rule.
func (t *table) which(rule string) string {
	groups := map[string]int{}
	for _, m := range t.needs[rule] {
		if g := group(m); g != invented {
			groups[g]++
		}
	}
	var list []string
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		list = append(list, fmt.Sprintf("%s %d", g, groups[g]))
	}
	return strings.Join(list, ", ")
}
