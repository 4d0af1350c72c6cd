package onnxpb

import (
	"fmt"
	"slices"
	"testing"
)

// Counting on from the last number keeps many names of one stem from taking time with their square.
func TestNamer(t *testing.T) {
	t.Parallel()
	n := Namer{Taken: map[string]bool{"a_1": true, "b": true}}
	var got []string
	for _, want := range []string{"a", "a", "a", "b", "a_1", "b_1"} {
		got = append(got, n.Fresh(want))
	}
	if want := []string{"a", "a_2", "a_3", "b_1", "a_1_1", "b_1_1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range 1 << 17 {
		n.Fresh("a")
	}
	if name := n.Fresh("a"); name != fmt.Sprint("a_", 1<<17+4) {
		t.Errorf("got %s", name)
	}
}
