package wrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Methods returns the names that EvalConfig.Methods may hold:
//
//	mle       the network's own probabilities
//	ts        temperature scaling
//	mf0       the mean-field approximation
//	leverage  of the features: tells out-of-distribution data only
func Methods() []string { return []string{"mle", "ts", "mf0", "leverage"} }

// CheckMethods reports names that are not among Methods, or not only once.
func CheckMethods(names []string) error {
	for i, m := range names {
		if !slices.Contains(Methods(), m) {
			return fmt.Errorf("method %q is not known, want some of %s", m, strings.Join(Methods(), ", "))
		}
		if slices.Contains(names[:i], m) {
			return fmt.Errorf("method %q is named twice", m)
		}
	}
	return nil
}

// Evaluate measures methods on a labelled test set, and on how well they tell
// it from other sets. Data is streamed; memory holds a score for each example.
func Evaluate(ctx context.Context, cfg EvalConfig) (*Evaluation, error) {
	methods := cfg.Methods
	if len(methods) == 0 {
		methods = Methods()
	}
	if err := CheckMethods(methods); err != nil {
		return nil, err
	}
	if len(cfg.OOD) == 0 && slices.Equal(methods, []string{"leverage"}) {
		return nil, errors.New("leverage gives no probabilities: it needs an out-of-distribution set to be measured on")
	}
	if err := cfg.Runtime.check(); err != nil {
		return nil, err
	}
	if cfg.Limit < 0 || cfg.MaxBad < 0 {
		return nil, fmt.Errorf("limit is %d and max-bad %d, want no negative numbers", cfg.Limit, cfg.MaxBad)
	}
	if cfg.Test == "" {
		return nil, errors.New("evaluation needs test data")
	}
	names := make([]string, len(cfg.OOD))
	for i, o := range cfg.OOD {
		if names[i] = o.Name; slices.Contains(names[:i], o.Name) {
			return nil, fmt.Errorf("two out-of-distribution sets are named %q: give them names with NAME=SPEC", o.Name)
		}
	}
	p, err := open(ctx, func() (*bundle.Bundle, error) { return bundle.Open(cfg.Bundle) }, (*Predictor).openCut, Options{
		Model: cfg.Model, Preprocess: cfg.Preprocess, Runtime: cfg.Runtime,
	})
	if err != nil {
		return nil, err
	}
	defer p.Close()

	e := &Evaluation{Bundle: p.Bundle(), Bad: []string{}, Ignored: []string{}, Warnings: []string{}}
	if p.network != nil {
		e.Model = p.network.info()
	}
	notes := &notes{progress: cfg.Progress}
	opener := &opener{network: p.network, classes: p.Classes(), inputs: cfg.Inputs, limit: cfg.Limit, multi: p.head.MultiLabel(), notes: notes}
	test, err := opener.open("test", cfg.Test, p.head.Classes(), true)
	if err != nil {
		return nil, err
	}
	defer test.close()
	if !test.labelled() {
		return nil, fmt.Errorf("test: %s has no labels", cfg.Test)
	}
	if err := p.fits(test); err != nil {
		return nil, err
	}
	sets := []*set{test}
	for _, o := range cfg.OOD {
		s, err := opener.open(o.Name, o.Spec, p.head.Classes(), false)
		if err != nil {
			return nil, err
		}
		defer s.close()
		if err := p.fits(s); err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}

	for _, s := range sets {
		if err := s.identify(ctx); err != nil {
			return nil, err
		}
		for _, d := range p.bundle.Manifest.Datasets {
			if d.Fingerprint == s.fingerprint {
				e.Warnings = append(e.Warnings, fmt.Sprintf("%s: the same data that was used as %s for calibration: figures on new data will be worse", s.name, d.Role))
			}
		}
	}
	table := newTable(p.calibration, methods)
	for i, s := range sets {
		_, _, err := s.stream(ctx, p.head, notes, func(b *featurize.Block) error {
			return table.add(i-1, b.Features, b.Logits, b.Labels, b.Targets)
		})
		if err != nil {
			return nil, err
		}
	}
	if e.Methods, err = table.results(names); err != nil {
		return nil, err
	}
	e.Bad, e.Ignored = append(e.Bad, notes.bad...), append(e.Ignored, notes.ignored...)
	return e, nil
}

// fits reports ready-made features that are not the head's.
func (p *Predictor) fits(s *set) error {
	if f := s.features; f != nil && (f.Dim() != p.head.Features || f.Logits() != p.head.Logits) {
		return fmt.Errorf("%s: %s has %d features and %d logits, the bundle's head %d and %d", s.name, s.spec, f.Dim(), f.Logits(), p.head.Features, p.head.Logits)
	}
	return nil
}

// inDomain is the index of the labelled set in a table; those of the
// out-of-distribution sets follow.
const inDomain = -1

// table gathers the figures of several methods, block by block.
type table struct {
	calibration *calibrate.Calibration
	head        calibrate.Head
	methods     []*method
}

// method is one method's figures so far.
type method struct {
	name string
	// One of classifier and multiLabel is set, by the head, but for a method
	// without probabilities.
	classifier *metrics.Classifier
	multiLabel *metrics.MultiLabel
	// scores and scoresNLL by set, the labelled one first: larger is more
	// unfamiliar. scoresNLL stays empty where both would be the same.
	scores, scoresNLL [][]float64
}

func newTable(c *calibrate.Calibration, methods []string) *table {
	t := &table{calibration: c, head: c.Posterior.Head}
	for _, name := range methods {
		m := &method{name: name}
		switch {
		case name == "leverage":
		case t.head.MultiLabel():
			m.multiLabel = metrics.NewMultiLabel(t.head.Logits, 0)
		default:
			m.classifier = metrics.NewClassifier(t.head.Classes(), 0)
		}
		t.methods = append(t.methods, m)
	}
	return t
}

// add measures examples of a set, whose features and logits are finite; labels,
// or targets where the head is multi-label, are those of the labelled set.
func (t *table) add(index int, phi, logits []float32, labels []int, targets []uint8) error {
	n := len(logits) / t.head.Logits
	var mf0 *calibrate.Predictions
	for _, m := range t.methods {
		var logp, scores, scoresNLL []float64
		switch m.name {
		case "mle":
			logp, scores = calibrate.Plain(t.head, logits, n, 1)
		case "ts":
			logp, scores = calibrate.Plain(t.head, logits, n, t.calibration.TS)
		default:
			if mf0 == nil {
				mf0 = t.calibration.Predict(phi, logits, n)
			}
			logp, scores, scoresNLL = mf0.LogP, mf0.OODScore, mf0.Rest
			if m.name == "leverage" {
				scores, scoresNLL = mf0.Leverage, nil
			}
		}
		for len(m.scores) <= index+1 {
			m.scores, m.scoresNLL = append(m.scores, nil), append(m.scoresNLL, nil)
		}
		m.scores[index+1] = append(m.scores[index+1], scores...)
		m.scoresNLL[index+1] = append(m.scoresNLL[index+1], scoresNLL...)
		if index == inDomain {
			if err := m.measure(t.head, logp, labels, targets); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure adds log-probabilities of examples of the labelled set.
func (m *method) measure(h calibrate.Head, logp []float64, labels []int, targets []uint8) error {
	width, k := h.Outcomes(), h.Logits
	for i := 0; len(logp) > 0; i++ {
		var err error
		switch {
		case m.multiLabel != nil:
			err = m.multiLabel.Add(logp[:width], targets[i*k:(i+1)*k])
		case m.classifier != nil:
			err = m.classifier.Add(logp[:width], labels[i])
		}
		if err != nil {
			return err
		}
		logp = logp[width:]
	}
	return nil
}

// inDomain returns the figures on the labelled set, nil for a method without
// probabilities.
func (m *method) inDomain() *metrics.InDomain {
	var r metrics.InDomain
	switch {
	case m.multiLabel != nil:
		r = m.multiLabel.Result()
	case m.classifier != nil:
		r = m.classifier.Result()
	default:
		return nil
	}
	return &r
}

// results returns the figures, with the names of the out-of-distribution sets.
func (t *table) results(names []string) ([]MethodResult, error) {
	var out []MethodResult
	for _, m := range t.methods {
		r := MethodResult{Name: m.name, InDomain: m.inDomain(), OOD: []OODResult{}, OODNLL: []OODResult{}}
		for i := 1; i < len(m.scores); i++ {
			ood, err := metrics.Detect(m.scores[0], m.scores[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", names[i-1], err)
			}
			nll := ood
			if len(m.scoresNLL[i]) > 0 {
				if nll, err = metrics.Detect(m.scoresNLL[0], m.scoresNLL[i]); err != nil {
					return nil, fmt.Errorf("%s: %w", names[i-1], err)
				}
			}
			r.OOD = append(r.OOD, OODResult{Name: names[i-1], OOD: ood})
			r.OODNLL = append(r.OODNLL, OODResult{Name: names[i-1], OOD: nll})
		}
		out = append(out, r)
	}
	return out, nil
}
