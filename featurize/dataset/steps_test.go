package dataset

import (
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
)

// The labels of steps are lists of names or numbers, or rows of these, in every format that has lists.
func TestLabelsOfSteps(t *testing.T) {
	t.Parallel()
	x := npy("<f4", "(2, 2)", ramp(16))
	npz := func(typ, shape string, data ...byte) string {
		return string(zipped(t, map[string][]byte{"x.npy": x, "labels.npy": npy(typ, shape, data)}))
	}
	for name, tt := range map[string]struct {
		file, content string
		want          [][]int32
	}{
		"names":        {"x.jsonl", `{"x":1,"label":["b",null,"a"]}` + "\n" + `{"x":2,"label":["c"]}`, [][]int32{{1, -1, 0}, {2}}},
		"numbers":      {"x.jsonl", `{"x":1,"label":[2,-100,0]}` + "\n" + `{"x":2,"label":[1]}`, [][]int32{{2, -1, 0}, {1}}},
		"rows":         {"x.jsonl", `{"x":1,"label":[[2,-1],[0,1]]}` + "\n" + `{"x":2,"label":[[1]]}`, [][]int32{{2, -1, 0, 1}, {1}}},
		"a column":     {"x.csv", "x,label\n1,a b\n2,2 -100\n", [][]int32{{0, 1}, {2, -1}}},
		"an array":     {"x.npz", npz("|i1", "(2, 3)", 0, 1, 0xff, 2, 2, 2), [][]int32{{0, 1, -1}, {2, 2, 2}}},
		"maps":         {"x.npz", npz("|u1", "(2, 1, 2)", 0, 1, 2, 2), [][]int32{{0, 1}, {2, 2}}},
		"names of all": {"x.npz", npz("<U1", "(2, 1)", 'a', 0, 0, 0, 'c', 0, 0, 0), [][]int32{{0}, {2}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Steps: true, LabelClasses: []string{"a", "b", "c"}, Classes: 3}
			d, err := Open(t.Context(), write(t, t.TempDir(), tt.file, []byte(tt.content)), o)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			examples, errs := all(t, d)
			if len(examples) != len(tt.want) || slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
				t.Fatalf("%d examples, errors %v", len(examples), errs)
			}
			for i, e := range examples {
				if e.Label != 0 || !slices.Equal(e.Steps, tt.want[i]) {
					t.Errorf("example %d: label %d, steps %v, want %v", i, e.Label, e.Steps, tt.want[i])
				}
			}
		})
	}
}

// Labels that are none of the model's are refused, or left out where that is asked for.
func TestLabelsThatAreNoStepsAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := npy("<f4", "(2, 2)", ramp(16))
	line := func(name, label string) string {
		return write(t, dir, name+".jsonl", []byte(`{"x":1,"label":`+label+"}\n"))
	}
	o := Options{Steps: true, LabelClasses: []string{"a", "b"}, Classes: 2}
	for name, tt := range map[string]struct {
		spec, want string
	}{
		"one for each example": {write(t, dir, "x.npz", zipped(t, map[string][]byte{"x.npy": x, "labels.npy": npy("|u1", "(2,)", make([]byte, 2))})),
			"its labels are one class per example, and the model classifies each step"},
		"too large":          {line("large", "[0,2]"), "step 1: label 2 is outside [0,2)"},
		"a name":             {line("name", `["a","x"]`), `step 1: label "x" is not one of the 2 class names`},
		"a fraction":         {line("fraction", "[0.5]"), "want a list of names or whole numbers, a label for each step"},
		"a row of fractions": {line("row", "[[0.5]]"), "want rows of names or whole numbers"},
		"ragged rows":        {line("ragged", "[[0,1],[0]]"), "ragged"},
		"none":               {line("none", "[null,-100]"), "no step has a label"},
		"empty":              {line("empty", "[]"), "no step has a label"},
		"no list":            {line("single", "1"), "want a list with a label for each step"},
	} {
		t.Run(name, func(t *testing.T) { testerr.OneLine(t, readError(tt.spec, o), tt.want) })
	}
	o.IgnoreUnknownLabels = true
	d, err := Open(t.Context(), line("some", "[1,2]"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	examples, _ := all(t, d)
	if !slices.Equal(examples[0].Steps, []int32{1, -1}) {
		t.Errorf("steps %v, want the unknown label left out", examples[0].Steps)
	}
}
