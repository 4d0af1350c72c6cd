package compare

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/wrap/bench"
)

// Independently trained networks.
var (
	ensemble = &method{
		name: "ensemble", doc: "independently trained networks: --with ensemble=FILE", check: checkNetworks, fit: fitNetworks,
		files: &files{name: "ensemble", least: 2, of: "method ensemble", run: true},
	}
	jackknife = &method{
		name: "jackknife", doc: "networks trained on parts of the data: --with jackknife=FILE", check: checkNetworks, fit: fitNetworks,
		files: &files{name: "jackknife", least: 2, of: "method jackknife", run: true},
	}
)

func checkNetworks(b *comparison, r *request) error {
	for _, path := range b.given(r) {
		if _, _, err := b.openHead(path); err != nil {
			return err
		}
	}
	return nil
}

// fitNetworks averages the probabilities of several networks.
func fitNetworks(_ context.Context, b *comparison, r *request) (predictor, string, error) {
	paths := b.given(r)
	var members []*bench.Network
	for _, path := range paths {
		model, h, err := b.openHead(path)
		if err != nil {
			return nil, "", err
		}
		member, err := b.session.OpenCut(model, h)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", path, err)
		}
		members = append(members, member)
	}
	k := b.head.Logits
	return func(ctx context.Context, s *bench.Set) (calibrate.Predictive, error) {
		n := s.Data().N
		if err := checkMemory(n, len(members)*k, s.Name()); err != nil {
			return nil, err
		}
		all := make([]float32, n*len(members)*k)
		for m, member := range members {
			logits, err := member.Logits(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", paths[m], err)
			}
			for i := range n {
				copy(all[(i*len(members)+m)*k:], logits[i*k:(i+1)*k])
			}
		}
		return methods.NewEnsemble(all, n, len(members), k)
	}, "", nil
}
