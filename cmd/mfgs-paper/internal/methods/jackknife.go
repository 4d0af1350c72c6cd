package methods

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// FitJackknife fits last layers as FitEnsemble does, each without leave training
// examples of its own (Tukey 1958; paper, 500). The examples are cut into parts at
// random, and anew where there are more members than parts. Zero leave is 500, or a
// tenth of the examples where that is less; zero members is one for each part.
//
// Members start at random, not at the network's last layer: one that fits all training
// examples stays where it is without some of them.
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
