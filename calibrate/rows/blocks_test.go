package rows

import (
	"errors"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// Blocks do not depend on how batches are cut.
func TestBlocksDoNotDependOnBatches(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	whole := &Batch{From: "x"}
	for position := range 5 * BlockSize {
		if position%7 == 3 || Block(position) == 2 { // no such records
			continue
		}
		whole.Append(&Batch{N: 1, Positions: []int{position}, Features: []float32{float32(position), 1},
			Logits: []float32{-1}, Labels: []int{position % 3}, From: "x"})
	}
	var want []*Batch
	for first := 0; first < whole.N; {
		last := first
		for last < whole.N && Block(whole.Positions[last]) == Block(whole.Positions[first]) {
			last++
		}
		want = append(want, whole.Slice(first, last))
		first = last
	}
	if len(want) != 4 {
		t.Fatalf("%d blocks, want 4", len(want))
	}
	for range 20 {
		var got []*Batch
		for b, err := range InBlocks(batches(whole, func() int { return rng.IntN(2 * BlockSize) }, nil)) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatal("other blocks came")
		}
	}
}

// batches cuts examples into batches of some sizes, after which there may be an error.
func batches(whole *Batch, size func() int, last error) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		for from := 0; from < whole.N; {
			to := min(whole.N, from+size())
			if !yield(whole.Slice(from, to), nil) {
				return
			}
			from = to
		}
		if last != nil {
			yield(nil, last)
		}
	}
}

// A block that may be incomplete is kept back: the examples after an error may be of it.
func TestAnErrorEndsTheBlocks(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	whole := &Batch{N: 2, Positions: []int{0, BlockSize}}
	var positions []int
	var last error
	for b, err := range InBlocks(batches(whole, func() int { return 2 }, stop)) {
		if last = err; err == nil {
			positions = append(positions, b.Positions...)
		}
	}
	if last != stop || !slices.Equal(positions, []int{0}) {
		t.Errorf("examples %v and the error %v, want 0 and %v", positions, last, stop)
	}
	for range InBlocks(batches(whole, func() int { return 2 }, nil)) {
		break
	}
}

// The shards of a source are whole blocks of it, in order, with nothing between them.
func TestShardsCoverASourceOnce(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int{{0, 0}, {0, 1}, {0, BlockSize}, {0, BlockSize + 1}, {700, 701}, {511, 513},
		{55000, 58000}, {100, 20000}} {
		for _, n := range []int{1, 2, 3, 7, 16, 100, MaxShards} {
			at, sizes := c[0], map[int]bool{}
			for i := 1; i <= n; i++ {
				from, to := Shard{i, n}.Range(c[0], c[1])
				if to > from && from != at || to < from {
					t.Fatalf("shard %d of %d of %v is [%d:%d], want it to begin at %d", i, n, c, from, to, at)
				}
				if to > from {
					if from != c[0] && from%BlockSize != 0 || to != c[1] && to%BlockSize != 0 {
						t.Errorf("shard %d of %d of %v is [%d:%d], want whole blocks", i, n, c, from, to)
					}
					at = to
				}
				blocks := 0
				if to > from {
					blocks = Block(to-1) + 1 - Block(from)
				}
				sizes[blocks] = true
			}
			if at != c[1] || len(sizes) > 2 {
				t.Errorf("%d shards of %v end at %d, want %d; they have %v blocks", n, c, at, c[1], sizes)
			}
		}
	}
	if from, to := (Shard{}).Range(3, 9); from != 3 || to != 9 {
		t.Errorf("no shard of [3:9] is [%d:%d]", from, to)
	}
}

func TestBadShardsAreRefused(t *testing.T) {
	t.Parallel()
	for s, ok := range map[Shard]bool{
		{}: true, {1, 1}: true, {MaxShards, MaxShards}: true,
		{0, 1}: false, {2, 1}: false, {-1, -1}: false, {1, 0}: false, {1, MaxShards + 1}: false,
	} {
		if err := s.Validate(); (err == nil) != ok {
			t.Errorf("shard %v: %v", s, err)
		}
	}
	if s, err := ParseShard("3/7"); s != (Shard{3, 7}) || err != nil {
		t.Errorf("3/7 is %v: %v", s, err)
	}
	for _, text := range []string{"", "3", "/", "0/0", "3/", "8/7", "03/7", "3/7/", " 3/7", "1/99999999999999999999"} {
		if s, err := ParseShard(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
}
