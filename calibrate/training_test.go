package calibrate

import (
	"math"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/rows"
)

// Sums of any structure give scores the same moments of features, without the bias.
func TestScoresAreFittedToTheSums(t *testing.T) {
	t.Parallel()
	for _, cfg := range configs {
		h, d := cfg.Head, cfg.Head.Features
		examples := &rows.Batch{}
		blocks := blocksOf(t, h, size(h), -1)
		for _, b := range blocks {
			examples.Append(b)
		}
		gram, sum := make([]float64, d*d), make([]float64, d)
		directions, mean := make([]float64, d*d), make([]float64, d)
		for i := range examples.N {
			phi := phiOf(examples, i)
			var square float64
			for _, v := range phi {
				square += float64(v) * float64(v)
			}
			for j, v := range phi {
				mean[j] += float64(v) / math.Sqrt(square)
				for l, u := range phi {
					directions[j*d+l] += float64(v) * float64(u) / square
				}
			}
			for j, v := range phi {
				sum[j] += float64(v)
				for l, u := range phi {
					gram[j*d+l] += float64(v) * float64(u)
				}
			}
		}
		sample := examples.Slice(3, 9)
		w, b := make([]float32, h.Logits*d), []float32(nil)
		w[1] = 7
		got := finished(t, summed(t, cfg, blocks...)).Training(w, b, sample)
		wantSame(t, cfg.name()+": Gram", got.Gram, gram, 1e-12)
		wantSame(t, cfg.name()+": Sum", got.Sum, sum, 1e-12)
		if got.N != examples.N || got.K != h.Logits || got.D != d || string(got.Link) != string(h.Link) ||
			len(got.W) != h.Logits*d || got.W[1] != 7 || len(got.B) != h.Logits ||
			got.Sample.M != 6 || !slices.Equal(got.Sample.Features, sample.Features) {
			t.Errorf("%s: %d examples, %d logits, %d features, %s", cfg.name(), got.N, got.K, got.D, got.Link)
		}
		p, err := finished(t, summed(t, cfg, blocks...)).Posterior(Hessian, 1)
		if err != nil {
			t.Fatal(err)
		}
		leverages, want := make([]float64, sample.N), p.LeaveOneOut().leveragesOf(sample)
		if err := got.Leverages(leverages, sample.Features, sample.N); err != nil {
			t.Fatal(err)
		}
		wantSame(t, cfg.name()+": leverages", leverages, want, 1e-12)
		if h.MultiLabel() != (got.Directions == nil) {
			t.Errorf("%s: directions %v", cfg.name(), got.Directions)
		} else if u := got.Directions; u != nil {
			wantSame(t, cfg.name()+": directions", u.Gram, directions, 1e-12)
			wantSame(t, cfg.name()+": mean direction", u.Sum, mean, 1e-12)
		}
		if h.MultiLabel() != (got.ClassSums == nil) {
			t.Errorf("%s: sums of %d classes", cfg.name(), len(got.ClassCounts))
		}
		var n int
		of := make([]float64, d)
		for c, count := range got.ClassCounts {
			n += count
			add(of, got.ClassSums[c*d:(c+1)*d])
		}
		if !h.MultiLabel() {
			wantSame(t, cfg.name()+": ClassSums", of, sum, 1e-12)
			if n != examples.N {
				t.Errorf("%s: %d examples of all classes, want %d", cfg.name(), n, examples.N)
			}
		}
	}
	cfg := configs[0]
	c := finished(t, summed(t, cfg, blocksOf(t, cfg.Head, size(cfg.Head), -1)...))
	if got := c.Training(nil, nil, &rows.Batch{}); got.W != nil || got.B != nil {
		t.Error("weights that nobody knows")
	}
}
