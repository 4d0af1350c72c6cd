package bench

import (
	"context"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/measure"
)

const (
	galleryExamples = 12
	maxGalleries    = 3 // of out-of-distribution sets
	trialAlpha      = 0.1
	trialNumbers    = 4 << 20 // bounds the probabilities kept for the trial
	scoreBins       = 40
)

// detailCollector collects what a report shows while the sets are read.
type detailCollector struct {
	b         *bench
	scores    [][]float64 // by set
	sizes     []SetSizes
	galleries []*galleryPicker
	trial     conformal.Outcomes // examples for the trial of prediction sets
	seen      int                // examples of the test set
}

// galleryPicker keeps the examples with the largest keys, the first among equals.
type galleryPicker struct {
	kind Kind
	set  *Set
	list []pick
}

type pick struct {
	key float64
	row *rows.Batch
}

func (c *galleryPicker) offer(key float64, batch *rows.Batch, i int) {
	full := len(c.list) == galleryExamples
	if math.IsNaN(key) || full && key <= c.list[len(c.list)-1].key {
		return
	}
	if full {
		c.list = c.list[:len(c.list)-1]
	}
	at, _ := slices.BinarySearchFunc(c.list, key, func(c pick, key float64) int {
		if c.key >= key {
			return -1
		}
		return 1
	})
	row := batch.Pick([]int{i})
	row.Names = []string{batch.Name(i)}
	c.list = slices.Insert(c.list, at, pick{key, row})
}

// begin starts the next set.
func (g *detailCollector) begin(s *Set) {
	g.scores = append(g.scores, nil)
	var kinds []Kind
	switch {
	case s.part.Role == measure.Test:
		kinds = []Kind{Uncertain, Wrong, MostOOD}
	case s.part.Role == measure.OOD && s.part.Index < maxGalleries:
		kinds = []Kind{LeastOOD}
	}
	for _, k := range kinds {
		g.galleries = append(g.galleries, &galleryPicker{kind: k, set: s})
	}
}

// add collects from examples of a set and their served predictions.
func (g *detailCollector) add(s *Set, x *conformal.Outcomes, batch *rows.Batch) {
	last := len(g.scores) - 1
	g.scores[last] = append(g.scores[last], x.OODScores...)
	if s.part.Role == measure.Test && g.b.manifest.Decisions == nil {
		g.keepForTrial(s.source.Len(), x)
	}
	for i := range batch.N {
		p := x.Probabilities[i*x.Classes : (i+1)*x.Classes]
		for _, c := range g.galleries {
			if c.set != s {
				continue
			}
			switch c.kind {
			case Uncertain:
				c.offer(g.uncertainty(p), batch, i)
			case Wrong:
				c.offer(g.confidentMistake(p, batch, i), batch, i)
			case MostOOD:
				c.offer(x.OODScores[i], batch, i)
			case LeastOOD:
				c.offer(-x.OODScores[i], batch, i)
			}
		}
	}
}

func (g *detailCollector) uncertainty(p []float64) float64 {
	switch {
	case g.b.head.MultiLabel():
		return conformal.LabelUncertainty(p)
	case g.b.head.Correctness:
		return conformal.AnswerUncertainty(p)
	}
	return conformal.Uncertainty(p)
}

// confidentMistake is larger for more confident wrong predictions, and NaN for right ones.
func (g *detailCollector) confidentMistake(p []float64, batch *rows.Batch, i int) float64 {
	targets := batch.Target(i)
	if targets == nil {
		if g.b.head.Answer(p) == batch.Label(i) {
			return math.NaN()
		}
		return -g.uncertainty(p)
	}
	surest := math.NaN()
	for k, v := range p {
		if (v > 0.5) != (targets[k] == 1) && !(surest >= math.Max(v, 1-v)) {
			surest = math.Max(v, 1-v)
		}
	}
	return surest
}

// keepForTrial keeps evenly spaced ones of the n examples, as memory allows.
func (g *detailCollector) keepForTrial(n int, x *conformal.Outcomes) {
	t, c := &g.trial, x.Classes
	t.Classes = c
	most := min(n, trialNumbers/c)
	for i := range x.OODScores {
		at := g.seen
		g.seen++
		if most <= 0 || at >= n || !rows.InSubsample(at, n, most) {
			continue
		}
		t.Probabilities = append(t.Probabilities, x.Probabilities[i*c:(i+1)*c]...)
		t.OODScores = append(t.OODScores, x.OODScores[i])
		if x.Targets != nil {
			t.Targets = append(t.Targets, x.Targets[i*c:(i+1)*c]...)
		} else {
			t.Labels = append(t.Labels, x.Labels[i])
		}
	}
}

// fitTrial fits prediction sets to every second kept example, and measures them on the others. It returns nil if there
// are too few.
func (g *detailCollector) fitTrial() *SetTrial {
	var halves [2]conformal.Outcomes
	t, c := &g.trial, g.trial.Classes
	for i := range t.OODScores {
		h := &halves[i%2]
		h.Classes, h.OODScores = c, append(h.OODScores, t.OODScores[i])
		h.Probabilities = append(h.Probabilities, t.Probabilities[i*c:(i+1)*c]...)
		if t.Targets != nil {
			h.Targets = append(h.Targets, t.Targets[i*c:(i+1)*c]...)
		} else {
			h.Labels = append(h.Labels, t.Labels[i])
		}
	}
	held, measured := &halves[0], &halves[1]
	if len(measured.OODScores) == 0 {
		return nil
	}
	sets, err := conformal.Fit(nil, &held.Examples, conformal.SetOptions{Alpha: trialAlpha})
	if err != nil { // they are too few
		return nil
	}
	tally := conformal.NewTally(&conformal.Decisions{Set: sets, MultiLabel: held.Targets != nil})
	tally.Add(measured)
	return &SetTrial{trialAlpha, len(held.OODScores), tally.Result(), tally.Sizes()}
}

// end takes the sizes of a set's prediction sets.
func (g *detailCollector) end(s *Set, decided *conformal.Tally) {
	if decided != nil && decided.Sizes() != nil {
		g.sizes = append(g.sizes, SetSizes{s.Name(), decided.Sizes()})
	}
}

// detail returns the Detail. It reads the inputs of the galleries' examples again.
func (g *detailCollector) detail(ctx context.Context, tallies []*measure.Tally) (*Detail, error) {
	b := g.b
	d := &Detail{
		Manifest: b.manifest, Probabilities: b.servedMethod(), Score: b.calibration.Served().Name,
		Curves: map[string]Curves{}, Sizes: g.sizes, Classes: map[string][]metrics.ClassFigures{},
	}
	if b.cut != nil && b.cut.Preprocess() != nil {
		d.Exif = *b.cut.Preprocess().Exif
	}
	for _, t := range tallies {
		c, err := t.Curves()
		if err != nil {
			return nil, err
		}
		d.Curves[t.Name] = c
		if t.Name == "mle" || t.Name == d.Probabilities {
			d.Classes[t.Name] = t.Classes(nil)
		}
	}
	d.Trial = g.fitTrial()
	var scores [][]float64
	for i, s := range b.sets {
		d.Sets = append(d.Sets, MeasuredSet{s.Name(), s.source.Spec, len(g.scores[i])})
		if s.part.Role != measure.Shift {
			d.Scores.Sets, scores = append(d.Scores.Sets, s.Name()), append(scores, g.scores[i])
		}
	}
	d.Scores.count(scores)
	for _, c := range g.galleries {
		gallery, err := b.gallery(ctx, c)
		if err != nil {
			return nil, err
		}
		if len(gallery.Examples) > 0 {
			d.Galleries = append(d.Galleries, *gallery)
		}
	}
	return d, nil
}

// count fills the histogram. Its edges leave out half a per cent of all scores on either side.
func (c *ScoreCounts) count(sets [][]float64) {
	all := slices.Sorted(slices.Values(slices.Concat(sets...)))
	if len(all) == 0 {
		return
	}
	low, high := all[len(all)/200], all[len(all)-1-len(all)/200]
	if low == high {
		low, high = low-0.5, high+0.5
	}
	for i := range scoreBins + 1 {
		c.Edges = append(c.Edges, low+(high-low)*float64(i)/scoreBins)
	}
	for _, scores := range sets {
		counts := make([]int, scoreBins)
		for _, v := range scores {
			i, found := slices.BinarySearch(c.Edges, v)
			if !found {
				i--
			}
			counts[min(max(i, 0), scoreBins-1)]++
		}
		c.N, c.Counts = append(c.N, len(scores)), append(c.Counts, counts)
	}
}

// gallery returns the examples that were picked.
func (b *bench) gallery(ctx context.Context, c *galleryPicker) (*Gallery, error) {
	g := &Gallery{Kind: c.kind, Set: c.set.Name()}
	var positions []int
	for _, of := range c.list {
		positions = append(positions, of.row.Positions...)
	}
	inputs, err := c.set.source.Fetch(ctx, positions)
	if err != nil {
		return nil, err
	}
	for _, of := range c.list {
		s := b.galleryExample(of.row, c.set.part.Role != measure.OOD)
		s.Input = inputs[s.Position]
		if b.cut != nil && b.cut.HasSteps() && s.Input != nil {
			if s.Step, err = b.cut.DrawnStep(ctx, s.Input); err != nil {
				return nil, err
			}
		}
		g.Examples = append(g.Examples, s)
	}
	return g, nil
}

// galleryExample returns an example with its predictions and, if it is labelled, its label.
func (b *bench) galleryExample(row *rows.Batch, labelled bool) GalleryExample {
	s := GalleryExample{Name: row.Names[0], Position: row.Positions[0], Label: -1}
	r := b.calibration.Predict(row.Features, row.Logits, 1)
	network, _ := calibrate.Plain(b.head, row.Logits, 1, 1)
	p, own := measure.ClassProbabilities(b.head, r.LogP), measure.ClassProbabilities(b.head, network)
	s.OODScore, s.OODPercentile = r.OODScore[0], math.NaN()
	if r.OODPercentile != nil {
		s.OODPercentile = r.OODPercentile[0]
	}
	s.Predicted, s.Network = b.head.Answer(p), b.head.Answer(own)
	s.Confidence, s.NetworkConfidence = p[s.Predicted], own[s.Network]
	s.Reading = row.Reading(0)
	if labelled {
		s.Label = row.Label(0)
	}
	if !b.head.MultiLabel() {
		return s
	}
	s.Label, s.PredictedLabels = -1, []int{}
	s.Confidence, s.NetworkConfidence = 1-conformal.LabelUncertainty(p), 1-conformal.LabelUncertainty(own)
	targets := row.Target(0)
	if labelled {
		s.Labels = []int{}
	}
	for k, v := range p {
		if v > 0.5 {
			s.PredictedLabels = append(s.PredictedLabels, k)
		}
		if labelled && targets[k] == 1 {
			s.Labels = append(s.Labels, k)
		}
	}
	return s
}
