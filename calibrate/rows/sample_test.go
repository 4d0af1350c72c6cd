package rows

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/safetensors"
)

// drawn is a sample by its definition: of all rows sorted by hash the first, in order of position.
func drawn(b *Batch, most int) *Batch {
	order := make([]int, b.N)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(Hash(b.Positions[i]), Hash(b.Positions[j])) })
	order = order[:min(most, b.N)]
	slices.Sort(order)
	return b.Pick(order)
}

// numbered returns n rows that contain their positions, which have gaps.
func numbered(n, d int) *Batch {
	b := &Batch{N: n, Features: make([]float32, n*d)}
	for i := range n {
		b.Positions = append(b.Positions, 3*i+i%2)
		b.Features[i*d] = float32(3*i + i%2)
	}
	return b
}

func TestASampleIsTheSameInAnyOrder(t *testing.T) {
	t.Parallel()
	const n, most = 3000, 100
	all := numbered(n, 2)
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
				!slices.Equal(got.Features, want.Features) {
				t.Fatalf("%d rows of %d, want %d", got.N, n, want.N)
			}
		}
	}
}

func TestASampleIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ d, want int }{
		{1, maxSample}, {64, maxSample}, {512, maxSample}, {2048, 2048}, {1 << 23, 1},
	} {
		if got := SampleSize(c.d); got != c.want {
			t.Errorf("%d rows of %d features, want %d", got, c.d, c.want)
		}
	}
}

// Neighbours are drawn as often as others: a sample of sorted data has all of its classes.
func TestASampleIsSpread(t *testing.T) {
	t.Parallel()
	const n = 20 * maxSample
	var s Sample
	s.Add(numbered(n, 1))
	var counts [20]int
	for _, p := range s.Rows().Positions {
		counts[p/(3*n/20)]++
	}
	for i, c := range counts { // 410 ± 20 each
		if c < 310 || c > 510 {
			t.Errorf("%d rows of the %d-th twentieth, want about %d", c, i, maxSample/20)
		}
	}
}

// seeded returns a sample of n rows, and what it is encoded to.
func seeded(t testing.TB, n int) (*Sample, []byte) {
	t.Helper()
	s, data := &Sample{}, &bytes.Buffer{}
	s.Add(numbered(n, 3))
	if err := s.Encode(data); err != nil {
		t.Fatal(err)
	}
	return s, data.Bytes()
}

func TestASampleComesBack(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 7} {
		s, data := seeded(t, n)
		again, err := DecodeSample(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again.Rows(), s.Rows()) {
			t.Errorf("%+v, want %+v", again.Rows(), s.Rows())
		}
		again.Add(&Batch{N: 1, Positions: []int{1000}, Features: make([]float32, 3)})
		if got := again.Rows().N; got != n+1 {
			t.Errorf("%d rows after one more, want %d", got, n+1)
		}
	}
}

func TestInconsistentSamplesAreRefused(t *testing.T) {
	t.Parallel()
	positions := safetensors.Tensor{Name: "positions", Shape: []int{2}, Data: []int64{3, 9}}
	features := safetensors.Tensor{Name: "features", Shape: []int{2, 1}, Data: []float32{1, 2}}
	many := safetensors.Tensor{Name: "positions", Shape: []int{maxSample + 1}}
	numbers := make([]int64, maxSample+1)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	many.Data = numbers
	for want, tensors := range map[string][]safetensors.Tensor{
		"with 1 tensors":              {positions},
		"tensor: there are":           {positions, {Name: "other", Shape: []int{2, 1}, Data: []float32{1, 2}}},
		"position 3 is out of order":  {{Name: "positions", Shape: []int{2}, Data: []int64{3, 3}}, features},
		"position -1 is out of order": {{Name: "positions", Shape: []int{2}, Data: []int64{-1, 3}}, features},
		"shape [1 2], want 2":         {positions, {Name: "features", Shape: []int{1, 2}, Data: []float32{1, 2}}},
		"feature 1 is NaN":            {positions, {Name: "features", Shape: []int{2, 1}, Data: []float32{1, float32(math.NaN())}}},
		"8193 rows of 1 features": {many,
			{Name: "features", Shape: []int{maxSample + 1, 1}, Data: make([]float32, maxSample+1)}},
	} {
		var data bytes.Buffer
		if err := safetensors.EncodeSealed(&data, tensors, map[string]string{"mfgs.sample": "1"}); err != nil {
			t.Fatal(err)
		}
		_, err := DecodeSample(bytes.NewReader(data.Bytes()), int64(data.Len()))
		if err == nil || !strings.HasPrefix(err.Error(), "sample: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func FuzzDecodeSample(f *testing.F) {
	for _, n := range []int{0, 3} {
		_, data := seeded(f, n)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeSample(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := s.Encode(&again); err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeSample(bytes.NewReader(again.Bytes()), int64(again.Len())); err != nil {
			t.Fatal(err)
		}
	})
}
