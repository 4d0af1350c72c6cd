package rows

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
)

// However batches are cut, blocks are the same.
func TestBlocksDoNotDependOnBatches(t *testing.T) {
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
		blocks := NewBlocks(func(b *Batch) error {
			got = append(got, b)
			return nil
		})
		for first := 0; first < whole.N; {
			last := min(whole.N, first+rng.IntN(2*BlockSize))
			if err := blocks.Add(whole.Slice(first, last)); err != nil {
				t.Fatal(err)
			}
			first = last
		}
		if len(got) != 3 {
			t.Fatalf("%d blocks before the end, want 3: the last may go on", len(got))
		}
		if err := errors.Join(blocks.Flush(), blocks.Flush()); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatal("other blocks came")
		}
	}
}

func TestAnErrorEndsTheBlocks(t *testing.T) {
	stop := errors.New("stop")
	blocks := NewBlocks(func(*Batch) error { return stop })
	b := &Batch{N: 2, Positions: []int{0, BlockSize}}
	if err := blocks.Add(b); err != stop {
		t.Errorf("error %v, want %v", err, stop)
	}
}
