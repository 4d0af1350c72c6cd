package rows_test

import (
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/rows"
)

func TestSubsamplesHaveOneExampleOfEachRun(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int{{1, 1}, {7, 7}, {10, 3}, {1000, 999}, {1000, 500}, {1013, 17}} {
		n, m := c[0], c[1]
		whole := &rows.Batch{N: n, Positions: make([]int, n)}
		for i := range n {
			whole.Positions[i] = i
		}
		lasts, firsts := whole.Subsample(m).Positions, rows.Firsts(n, m)
		if len(lasts) != m || len(firsts) != m {
			t.Fatalf("%d of %d: %d and %d examples", m, n, len(lasts), len(firsts))
		}
		for j := range m {
			// The runs read backwards are runs again.
			if lasts[j] != n-1-firsts[m-1-j] {
				t.Errorf("%d of %d: pick %d is %d, its mirror image %d", m, n, j, lasts[j], firsts[m-1-j])
			}
			if j > 0 && firsts[j]-firsts[j-1] != n/m && firsts[j]-firsts[j-1] != n/m+1 {
				t.Errorf("%d of %d: picks %d and %d", m, n, firsts[j-1], firsts[j])
			}
		}
		for i := range n + 1 {
			want, _ := slices.BinarySearch(lasts, i)
			if got := rows.SubsampledBefore(i, n, m); got != want {
				t.Errorf("%d of %d: %d before %d, want %d", m, n, got, i, want)
			}
		}
	}
}
