package part

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/rows"
)

// Neighbours are joined once both are complete, in any order of the shards, and nothing else is.
func TestNeighboursAreJoinedInAnyOrder(t *testing.T) {
	t.Parallel()
	const shards, blocks = 7, 10
	all := make([]Shard, shards)
	for i := range all {
		// The third has no examples.
		from := i * blocks * rows.BlockSize
		all[i] = Shard{Shard: rows.Shard{Index: i + 1, Count: shards}, From: from, To: from + blocks*rows.BlockSize - 1}
	}
	all[2].To = all[2].From
	want := []string{"0-20", "20-40", "0-40", "40-60"}
	slices.Sort(want)
	for range 20 {
		rand.Shuffle(shards, func(i, j int) { all[i], all[j] = all[j], all[i] })
		var got []string
		joined := tree{}
		for i := range all {
			joined.add(&all[i], func(from, to int) { got = append(got, fmt.Sprintf("%d-%d", from, to)) })
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("joined %v, want %v", got, want)
		}
	}
}
