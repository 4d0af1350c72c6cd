package part

import (
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Whether a stream without examples has images is unknown, so it cannot differ in that from other shards.
func TestAPartWithoutExamplesTakesThePreprocessingOfOthers(t *testing.T) {
	t.Parallel()
	shard := func(index, examples int, source bundle.PreprocessSource) folderOf {
		return folderOf{dir: string(rune('a' + index)), Manifest: &Manifest{
			Recipe: Recipe{Model: &bundle.Model{}, Preprocess: &bundle.Preprocessing{Source: source}},
			Sets: []Set{{Role: bundle.Train, Shards: []Shard{
				{Shard: rows.Shard{Index: index, Count: 2}, Examples: examples},
			}}},
		}}
	}
	for _, parts := range [][]folderOf{
		{shard(1, 0, bundle.Unknown), shard(2, 7, bundle.Assumed)},
		{shard(1, 7, bundle.Assumed), shard(2, 0, bundle.Unknown)},
	} {
		var p Part
		if err := p.mergeManifests(parts); err != nil || p.Recipe.Preprocess.Source != bundle.Assumed {
			t.Errorf("%v, %v", p.Recipe.Preprocess, err)
		}
	}
	err := new(Part).mergeManifests([]folderOf{shard(1, 3, bundle.Unknown), shard(2, 7, bundle.Assumed)})
	if err == nil || !strings.Contains(err.Error(), "b and c are not parts of one calibration: preprocess.source is unknown") {
		t.Errorf("ready arrays and images: %v", err)
	}
}

// Lists are compared one by one, not by how they are shown.
func TestDifferencesOfLists(t *testing.T) {
	t.Parallel()
	type recipe struct {
		Classes []string `yaml:"classes"`
		Sizes   [][]int  `yaml:"sizes"`
	}
	for _, c := range []struct {
		a, b  recipe
		field string
	}{
		{recipe{Classes: []string{"a b", "c"}}, recipe{Classes: []string{"a", "b c"}}, "classes[0]"},
		{recipe{Classes: []string{"a b"}}, recipe{Classes: []string{"a", "b"}}, "classes"},
		{recipe{Sizes: [][]int{{1, 2}, {3}}}, recipe{Sizes: [][]int{{1}, {2, 3}}}, "sizes[0]"},
		{recipe{Classes: []string{"a", "b"}}, recipe{Classes: []string{"a", "b"}}, ""},
		{recipe{}, recipe{Classes: []string{""}}, "classes"},
	} {
		field, ofA, ofB := Difference(c.a, c.b)
		if field != c.field || field != "" && ofA == ofB {
			t.Errorf("%v and %v: %s is %s and %s, want %s", c.a, c.b, field, ofA, ofB, c.field)
		}
	}
}

// Lists of other lengths are shown, but no more of them than fits a line.
func TestLongListsAreShownInPart(t *testing.T) {
	t.Parallel()
	list := func(n int) map[string]any {
		names := make([]int, n)
		for i := range names {
			names[i] = i
		}
		return map[string]any{"names": names}
	}
	_, few, many := Difference(list(10), list(12))
	if few != "[0 1 2 3 4 5 6 7 8 9] (10)" || many != "[0 1 2 3 4 5 6 7 8 9 …] (12)" {
		t.Errorf("shown as %s and %s", few, many)
	}
}

// Validation examples of parts have labels, or targets, all of them.
func TestValidationDataOfAllPartsHaveTheSameLabels(t *testing.T) {
	t.Parallel()
	h := gathered{name: OODName}
	for _, b := range []*rows.Batch{nil, {}, {N: 1, Labels: []int{2}}, {}, {N: 1, Labels: []int{1}}} {
		if err := h.add("a", b); err != nil {
			t.Error(err)
		}
	}
	err := h.add("b", &rows.Batch{N: 1})
	const want = "what goes with ood.rows is labels in the first and no labels in the second"
	if err == nil || err.Error() != "a and b are not parts of one calibration: "+want {
		t.Errorf("error %v", err)
	}
	if len(h.batches) != 4 {
		t.Errorf("%d batches", len(h.batches))
	}
}
