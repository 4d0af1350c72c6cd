package featurize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize/dataset"
)

// Every example gets the result that it gets alone, and an example that the
// network fails on does not affect the others.
func TestRunExamplesFailIndependently(t *testing.T) {
	t.Parallel()
	const n = 120
	ids, mask := sentences(n, 6)
	broken := map[int]string{
		3:  `{"ids":[1,2.5],"mask":[1,1]}`,
		4:  `{"ids":[[1,2],[3,4]],"mask":[1,1]}`,
		11: fmt.Sprintf(`{"ids":[1,2,99%s],"mask":[1,1,1%s]}`, strings.Repeat(",1", 3), strings.Repeat(",1", 3)), // of a common shape, and no token has that number
		50: `{"ids":[1,2,-77],"mask":[1,1,1]}`,
	}
	for _, batch := range []int{0, 1, 3} {
		e := extractor(t, "sequence", Config{Batch: batch})
		var examples []dataset.Example
		for ex, err := range dataset.StreamJSONL(strings.NewReader(string(sentenceLines(ids, mask, broken))), "x",
			dataset.Options{Inputs: e.InputNames(), Unlabelled: true}) {
			if err != nil {
				t.Fatal(err)
			}
			examples = append(examples, ex)
		}
		results, errs := e.RunExamples(context.Background(), examples)
		if len(results) != n || len(errs) != n {
			t.Fatalf("%d results, %d errors", len(results), len(errs))
		}
		tensors := sentenceTensors(ids, mask)
		for i := range n {
			if _, bad := broken[i]; bad != (errs[i] != nil) {
				t.Errorf("batches of %d: example %d: %v", batch, i, errs[i])
			}
			if errs[i] != nil {
				continue
			}
			alone, err := e.Run(context.Background(), tensors(i))
			if err != nil {
				t.Fatal(err)
			}
			for c, column := range alone.Columns {
				got := results[i].Columns[c]
				if results[i].N != 1 || len(got) != len(column) {
					t.Fatalf("example %d has %d results of %d numbers, want %d", i, results[i].N, len(got), len(column))
				}
				for j, want := range column {
					if d := got[j] - want; !(max(d, -d) <= 1e-5) {
						t.Errorf("batches of %d: example %d: column %d is %v, want %v", batch, i, c, got, column)
						break
					}
				}
			}
		}

		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, errs = e.RunExamples(ctx, examples[:3])
		if slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, context.Canceled) }) {
			t.Errorf("after the end of the context: %v", errs)
		}
	}
}
