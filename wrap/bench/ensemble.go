package bench

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/methods"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
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
	var members []*attach.Cut
	for _, path := range paths {
		member, err := b.member(path)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", path, err)
		}
		members = append(members, member)
	}
	k := b.head.Logits
	return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
		n := s.data.N
		if err := checkMemory(n, len(members)*k, s.Name); err != nil {
			return nil, err
		}
		all := make([]float32, n*len(members)*k)
		for m, member := range members {
			logits, err := b.logitsOf(ctx, member, s)
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

// member opens another network cut at its head, as the bundle's own is: what it makes of a set is
// kept in the cache, where there is one, for every ensemble that it is in.
func (b *bench) member(path string) (cut *attach.Cut, err error) {
	model, h, err := b.openHead(path)
	if err != nil {
		return nil, err
	}
	run := b.runtimeConfig() // of the batches of the bundle's network, as what the cache has of this one is
	err = b.attached.Run(b.Preprocess, run, func(c featurize.Config) (err error) {
		cut, err = attach.OpenCut(model, h, c)
		return err
	})
	if err == nil {
		b.closers = append(b.closers, cut.Close)
	}
	return cut, err
}

// logitsOf returns another network's logits of a set. There must be as many examples as the bundle's
// network had.
func (b *bench) logitsOf(ctx context.Context, member *attach.Cut, s *evalSet) (logits []float32, err error) {
	o := b.opener(nil, s.Config.Limit)
	o.Network, o.Extractor = member.Network, member.Extractor
	o.Notes = &source.Notes{Progress: b.notes.Progress}
	other, err := o.Open(ctx, s.Name, s.Spec, b.head.Classes(), s.part.Role != measure.OOD)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	examples := 0
	for batch, err := range other.Batches(ctx, b.head, o.Notes) {
		if err != nil {
			return nil, err
		}
		logits = append(logits, batch.Logits...)
		examples += batch.N
	}
	if want := s.data.N; examples != want {
		return nil, fmt.Errorf("%s: %d examples, %d when they were read first: did the data change?", s.Name, examples, want)
	}
	return logits, nil
}
