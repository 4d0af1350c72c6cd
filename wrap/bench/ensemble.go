package bench

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/methods"
	"github.com/mfgs/mfgs/onnx/head"
)

// Networks that were trained apart.
var (
	ensemble = &method{
		name: "ensemble", doc: "networks trained apart: --with ensemble=FILE", check: checkNetworks, fit: fitNetworks,
		files: &Files{Name: "ensemble", Flag: "ensemble", least: 2, of: "method ensemble", run: true},
	}
	jackknife = &method{
		name: "jackknife", doc: "networks of parts of the data: --with jackknife=FILE", check: checkNetworks, fit: fitNetworks,
		files: &Files{Name: "jackknife", Flag: "jackknife", least: 2, of: "method jackknife", run: true},
	}
)

func checkNetworks(b *bench, r *request) error {
	for _, path := range b.given(r) {
		if _, _, err := b.openHead(path); err != nil {
			return err
		}
	}
	return nil
}

// fitNetworks predicts with the mean of several networks' probabilities.
func fitNetworks(_ context.Context, b *bench, r *request) (predictor, string, error) {
	paths := b.given(r)
	var members []*network
	for _, path := range paths {
		model, h, err := b.openHead(path)
		if err != nil {
			return nil, "", err
		}
		if model, err = head.OnlyLogits(model, h); err != nil {
			return nil, "", fmt.Errorf("%s: %w", path, err)
		}
		n, err := b.runnable(model)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", path, err)
		}
		members = append(members, n)
	}
	k := b.head.Logits
	return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
		n := s.data.N
		if err := checkMemory(n, len(members)*k, s.Name); err != nil {
			return nil, err
		}
		all := make([]float32, n*len(members)*k)
		for m, member := range members {
			columns, err := b.outputs(ctx, member, s, 1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", paths[m], err)
			}
			for i := range n {
				copy(all[(i*len(members)+m)*k:], columns[0][i*k:(i+1)*k])
			}
		}
		return methods.NewEnsemble(all, n, len(members), k)
	}, "", nil
}
