package featurize

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// Source returns a dataset's examples as the network gives them. c says which, and what is
// tolerated.
func (e *Extractor) Source(ds *dataset.Dataset, c StreamConfig) rows.Source {
	c.check()
	return &extracted{Extractor: e, ds: ds, c: c}
}

type extracted struct {
	*Extractor
	ds          *dataset.Dataset
	c           StreamConfig
	fingerprint string
}

func (s *extracted) Features() int       { return s.d }
func (s *extracted) Logits() int         { return s.k }
func (s *extracted) Len() int            { return s.selected().len() }
func (s *extracted) selected() selection { return s.c.selects(s.ds) }
func (s *extracted) Labelled() bool      { return s.ds.HasLabels() }
func (s *extracted) Fingerprint() string { return s.fingerprint }

func (s *extracted) Stream(ctx context.Context, yield func(*rows.Batch) error) (stats rows.Stats, err error) {
	if s.c.Cache != nil && s.ds.Len() >= 0 { // a stream cannot be told from others before it is read
		stats, s.fingerprint, err = s.streamCached(ctx, s.ds, s.c, yield)
		return stats, err
	}
	if stats, err = s.Extractor.Stream(ctx, s.ds, s.c, yield); err == nil {
		s.fingerprint, err = s.ds.Fingerprint(ctx)
	}
	return stats, err
}

// readyBlock is how many ready-made examples are read at once.
const readyBlock = 512

// ReadyMade returns the examples of a file of features. Of c From, To, Before, Limit and Progress are
// heeded.
func ReadyMade(f *dataset.Features, c StreamConfig) rows.Source {
	c.check()
	return &readyMade{f: f, c: c}
}

type readyMade struct {
	f           *dataset.Features
	c           StreamConfig
	fingerprint string
}

func (s *readyMade) Features() int       { return s.f.Dim() }
func (s *readyMade) Logits() int         { return s.f.Logits() }
func (s *readyMade) Len() int            { return s.selected().count }
func (s *readyMade) selected() selection { return s.c.selects(s.f) }
func (s *readyMade) Labelled() bool      { return s.f.HasLabels() }
func (s *readyMade) Fingerprint() string { return s.fingerprint }

func (s *readyMade) Stream(ctx context.Context, yield func(*rows.Batch) error) (stats rows.Stats, err error) {
	want := s.selected()
	if err := s.f.Skip(ctx, want.from); err != nil {
		return stats, err
	}
	stats.Examples = s.c.Before.Examples
	total := stats.Examples + want.count
	s.c.report(stats.Examples, total)
	for b, err := range s.f.Between(ctx, want.from, want.to, readyBlock) {
		if err != nil {
			return stats, err
		}
		var wanted []int
		for i := range b.N {
			if want.wants(b.Positions[i]) {
				wanted = append(wanted, i)
			}
		}
		if len(wanted) == 0 {
			continue
		}
		if len(wanted) < b.N {
			b = b.Pick(wanted)
		}
		b.From = filepath.Base(s.f.Path())
		n := b.N
		if err := yield(b); err != nil {
			return stats, err
		}
		stats.Examples += n
		s.c.report(stats.Examples, total)
	}
	if want.missing(stats.Examples) {
		return stats, fmt.Errorf("%s holds no examples", s.f.Spec())
	}
	s.fingerprint, err = s.f.Fingerprint(ctx)
	return stats, err
}
