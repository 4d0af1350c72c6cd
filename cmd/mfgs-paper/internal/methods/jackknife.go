package methods

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// FitJackknife fits last layers as FitEnsemble does, each without leave training examples (Tukey 1958; 500 in the
// paper). The examples are partitioned at random, repeatedly if there are more members than parts. Zero leave is
// 500, or a tenth of the examples if that is less; zero members is one per part.
//
// Members start at random: the network's own last layer, which fits all examples, would stay where it is without some
// of them.
func FitJackknife(ctx context.Context, train *rows.Batch, h layer.Head, members, leave int,
	o FitOptions) (*LastLayers, error) {
	if err := h.Validate(); err != nil {
		return nil, err
	}
	n := 0
	if train != nil {
		n = train.N
	}
	if leave == 0 {
		leave = max(1, min(500, n/10))
	}
	if leave < 0 || leave >= n {
		return nil, fmt.Errorf("leave out %d of %d training examples, want at least 1 and not all", leave, n)
	}
	parts := (n + leave - 1) / leave
	if members == 0 {
		members = parts
	}
	if members < 1 {
		return nil, fmt.Errorf("%d last layers, want at least 1", members)
	}
	if bytes := float64((members+parts-1)/parts) * float64(n) * 4; bytes > MaxBytes {
		return nil, fmt.Errorf("%d last layers, each without %d of %d examples: take fewer", members, leave, n)
	}
	return fitLayers(ctx, train, h, members, o, jackknifeParts(n, members, leave, o.Seed))
}

// jackknifeParts returns which member leaves out which example.
func jackknifeParts(n, members, leave int, seed uint64) func(member, example int) bool {
	parts := (n + leave - 1) / leave
	part := make([][]int32, (members+parts-1)/parts) // [round][example]: the part it is in
	for round := range part {
		part[round] = make([]int32, n)
		rng := rand.New(rand.NewPCG(seed, streamParts+uint64(round)))
		for position, example := range rng.Perm(n) {
			part[round][example] = int32(position / leave)
		}
	}
	return func(member, example int) bool {
		return part[member/parts][example] == int32(member%parts)
	}
}
