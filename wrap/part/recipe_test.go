package part

import (
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// A stream without examples does not tell whether these would have been images, and so cannot differ
// in it from those that do.
func TestAPartWithoutExamplesHasNoPreprocessingOfItsOwn(t *testing.T) {
	shard := func(index, examples int, source PreprocessSource) folderOf {
		return folderOf{dir: string(rune('a' + index)), Manifest: &Manifest{
			Recipe: Recipe{Model: &bundle.Model{}, Preprocess: &Preprocess{Source: source}},
			Sets: []Set{{Role: bundle.Train, Shards: []Shard{
				{Shard: rows.Shard{Index: index, Count: 2}, Examples: examples},
			}}},
		}}
	}
	for _, parts := range [][]folderOf{
		{shard(1, 0, Unknown), shard(2, 7, Assumed)},
		{shard(1, 7, Assumed), shard(2, 0, Unknown)},
	} {
		var p Part
		if err := p.mergeManifests(parts); err != nil || p.Recipe.Preprocess.Source != Assumed {
			t.Errorf("%v, %v", p.Recipe.Preprocess, err)
		}
	}
	err := new(Part).mergeManifests([]folderOf{shard(1, 3, Unknown), shard(2, 7, Assumed)})
	if err == nil || !strings.Contains(err.Error(), "b and c are not parts of one calibration: preprocess.source is unknown") {
		t.Errorf("ready arrays and images: %v", err)
	}
}
