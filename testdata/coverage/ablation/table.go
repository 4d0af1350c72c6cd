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

// group returns who writes a model.
func group(model string) string {
	model = filepath.ToSlash(model)
	_, after, ok := strings.Cut(model, "coverage/work/")
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

Written by [ablation](ablation/main.go). Each of %d rules of onnx/head and onnx/internal/graph was switched off alone: the
name of an operator in a table, a switch or a list, or a function that recognises one way of writing. A rule is needed by
a model whose head is then refused, or differs in its tensors, weights, link, labels, cut model or what is said of it.

The models that exporters and vendors write, and that are wrapped, are %d: %s. Beside them are %d fixtures and heads of our own.

To make it again, export models as the [README](README.md) says, then, in testdata:

    go run ./coverage/ablation -models coverage/work -models examples -models ../models -models ../../shared/data/models \\
      -models onnx > coverage/rules.md

%d rules are needed:

| rule | models | of |
|---|---|---|
%s
The rest is needed by none of these models; in brackets, by how many fixtures and heads of our own: %s.

Of these stay: operators whose shapes the finder follows through the body, a name each; quantised and fused operators that ONNX
Runtime's quantiser and optimiser write for other networks; what words refusals and suggests layers; names of classes in metadata; what
dense layers below the last need (Dropout, Unsqueeze, Transpose, BatchNormalization); and Clip, which networks of models/mnist-methods have. A rule that only
a head of our own needs goes.

Finding by structure and proving by numbers was tried in place of lowering and of folding constants: the part between given
features and logits was cut out and run in ONNX Runtime on 0 and the unit vectors, which gives b and W, and on random features
to see that it is linear. Of 262 models with a head, 172 had the same W and b within 1e-6 of the largest (29 to the last bit), and 3 in half
precision within 1e-3. The other 87 need the rules all the same: 22 round on the way, so that nothing can be read off; in 44
features or logits are inside one operator (LinearClassifier, QGemm, MatMulInteger …), and are no tensor of the file; 19 pool or choose a
token behind the layer; 2 add layers of several features. It took 44 ms in the median and 13 s at most, where finding and reading the
weights took 37 ms in the mean on the same busy machine, and it cannot run without a runtime. It was not taken: most of lowering would have
stayed, beside it.
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
