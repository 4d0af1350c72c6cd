package rows

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawn is a sample by its definition: of all rows sorted by hash the first, in order of position.
func drawn(b *Batch, most int) *Batch {
	order := make([]int, b.N)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(hashOf(b.Positions[i]), hashOf(b.Positions[j])) })
	order = order[:min(most, b.N)]
	slices.Sort(order)
	return b.Pick(order)
}

// numbered returns n rows that tell their positions, which have gaps.
func numbered(n, d, k int) *Batch {
	b := &Batch{N: n, Features: make([]float32, n*d), Logits: make([]float32, n*k)}
	for i := range n {
		b.Positions = append(b.Positions, 3*i+i%2)
		b.Features[i*d], b.Logits[i*k] = float32(3*i+i%2), -float32(3*i+i%2)
	}
	return b
}

func TestASampleIsTheSameInAnyOrder(t *testing.T) {
	const n, most = 3000, 100
	all := numbered(n, 2, 3)
	for _, n := range []int{0, 1, most - 1, most, most + 1, n} {
		b := all.Slice(0, n)
		want := drawn(b, most)
		for try := range 3 {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(try)))
			var parts []*Batch
			for from := 0; from < n; {
				to := min(n, from+1+rng.IntN(700))
				parts = append(parts, b.Slice(from, to))
				from = to
			}
			rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			// Parts of the source have samples of their own, which are merged.
			one, other := Sample{most: most}, Sample{most: most}
			for i, p := range parts {
				[]*Sample{&one, &other}[i%2].Add(p)
			}
			one.Add(other.Rows())
			if got := one.Rows(); got.N != want.N || !slices.Equal(got.Positions, want.Positions) ||
				!slices.Equal(got.Features, want.Features) || !slices.Equal(got.Logits, want.Logits) {
				t.Fatalf("%d rows of %d, want %d", got.N, n, want.N)
			}
		}
	}
}

func TestASampleIsBounded(t *testing.T) {
	for _, c := range []struct{ d, k, want int }{
		{64, 10, MaxSample}, {2048, 1000, 2752}, {1 << 23, 1, 1}, {1, 1, MaxSample},
	} {
		if got := SampleSize(c.d, c.k); got != c.want {
			t.Errorf("%d rows of %d features and %d logits, want %d", got, c.d, c.k, c.want)
		}
	}
}

// Neighbours are drawn as often as others: a sample of sorted data has all of its classes.
func TestASampleIsSpread(t *testing.T) {
	const n = 20 * MaxSample
	var s Sample
	s.Add(numbered(n, 1, 1))
	var counts [20]int
	for _, p := range s.Rows().Positions {
		counts[p/(3*n/20)]++
	}
	for i, c := range counts { // 410 ± 20 each
		if c < 310 || c > 510 {
			t.Errorf("%d rows of the %d-th twentieth, want about %d", c, i, MaxSample/20)
		}
	}
}
