package rows

import (
	"reflect"
	"testing"
)

func labelled() *Batch {
	return &Batch{
		N: 3, Positions: []int{4, 5, 9}, Features: []float32{1, 2, 3, 4, 5, 6}, Logits: []float32{-1, -2, -3},
		Labels: []int{0, -1, 1}, Names: []string{"a", "b", "c"},
	}
}

func multi() *Batch {
	return &Batch{N: 2, Features: []float32{1, 2}, Logits: []float32{1, 2, 3, 4}, Targets: []uint8{0, 1, 1, 0}}
}

func TestExamplesAreReadByIndex(t *testing.T) {
	t.Parallel()
	b := labelled()
	features, logits := b.Row(2)
	if !reflect.DeepEqual(features, []float32{5, 6}) || !reflect.DeepEqual(logits, []float32{-3}) {
		t.Errorf("example 2 has features %v and logits %v", features, logits)
	}
	if b.Label(0) != 0 || b.Label(1) != -1 || b.Target(1) != nil || b.Name(1) != "b" ||
		(&Batch{N: 1, Positions: []int{7}, From: "x.npz"}).Name(0) != "x.npz[7]" {
		t.Errorf("labels %d and %d, targets %v, name %q", b.Label(0), b.Label(1), b.Target(1), b.Name(1))
	}
	m := multi()
	if m.Label(1) != -1 || !reflect.DeepEqual(m.Target(1), []uint8{1, 0}) || m.Name(1) != "example 1" {
		t.Errorf("label %d, targets %v, name %q", m.Label(1), m.Target(1), m.Name(1))
	}
}

func TestPartsGiveTheWholeAgain(t *testing.T) {
	t.Parallel()
	for _, whole := range []*Batch{labelled(), multi()} {
		var again Batch
		again.Append(whole.Slice(0, 1))
		again.Append(whole.Slice(1, whole.N))
		again.Append(whole.Slice(1, 1))
		again.From = whole.From
		if !reflect.DeepEqual(&again, whole) {
			t.Errorf("%+v of the parts of %+v", again, *whole)
		}
	}
}

func TestPickCopiesInOrder(t *testing.T) {
	t.Parallel()
	b := labelled()
	got := b.Pick([]int{2, 0})
	want := &Batch{N: 2, Positions: []int{9, 4}, Features: []float32{5, 6, 1, 2}, Logits: []float32{-3, -1},
		Labels: []int{1, 0}, Names: []string{"c", "a"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("picked %+v, want %+v", got, want)
	}
	if got.Features[0] = 7; b.Features[4] != 5 {
		t.Error("what is picked shares memory")
	}
	if empty := b.Pick(nil); empty.N != 0 {
		t.Errorf("picked %+v of nothing", empty)
	}
}
