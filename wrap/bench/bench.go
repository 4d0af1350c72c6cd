package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/wrap/internal/measure"
)

// bench runs methods for which the bundle does not have all they need: they are tuned
// on held-out data, and some are fitted to training data first.
type bench struct {
	*evaluation
	product  calibrate.Product
	closers  []func() error
	train    *evalSet // nil where no method needs it
	val, ood *evalSet // ood may be nil
	limit    float64  // see calibrate.ScalingLimit

	// Made when first asked for.
	tail       *tail
	weights    []float64 // of the head, [K,D] with the bias in the last column
	curvatures map[curvatureKey]*calibrate.Curvature
	damped     map[dampedKey]*calibrate.LogitCovariance
}

// A predictor prepares a set of examples for a method that is fitted.
type predictor func(ctx context.Context, s *evalSet) (calibrate.Predictive, error)

// costlyHeldOut is how many examples of each held-out set a method is tuned on that
// works anew for each T_ens.
const costlyHeldOut = 1000

func (b *bench) close() {
	for _, s := range []*evalSet{b.train, b.val, b.ood} {
		if s != nil {
			s.Close()
		}
	}
	for _, f := range slices.Backward(b.closers) {
		_ = f()
	}
}

// run fits, tunes and measures a method.
func (b *bench) run(ctx context.Context, m method) (MethodResult, error) {
	r, err := b.runMethod(ctx, m)
	if err != nil {
		return r, fmt.Errorf("method %s: %w", m.text, err)
	}
	return r, nil
}

func (b *bench) runMethod(ctx context.Context, m method) (MethodResult, error) {
	for _, s := range []*evalSet{b.val, b.ood} {
		if err := b.collect(ctx, s); err != nil {
			return MethodResult{}, err
		}
	}
	if b.limit == 0 {
		logp, margin := calibrate.Plain(b.head, b.val.data.Logits, b.val.data.N, b.calibration.TS)
		classes := b.head.Classes()
		b.limit = calibrate.ScalingLimit(nllOf(logp, b.val.data.Labels, classes), margin, classes)
	}
	seconds := map[string]float64{}
	timed := func(stage string, f func() error) error {
		b.notes.Step(m.text+": "+stage, "steps", 0, 1)
		start := time.Now()
		err := f()
		seconds[stage] = time.Since(start).Seconds()
		b.notes.Step(m.text+": "+stage, "steps", 1, 1)
		return err
	}

	var predict predictor
	var note string
	var tuned *calibrate.Tuned
	err := timed("fit", func() (err error) {
		predict, note, err = b.fit(ctx, m)
		return err
	})
	if err != nil {
		return MethodResult{}, err
	}
	err = timed("tune", func() (err error) {
		tuned, err = b.tune(ctx, m, predict)
		return err
	})
	if err != nil {
		return MethodResult{}, err
	}
	t := b.newTally(m)
	err = timed("test", func() error {
		for _, s := range b.sets {
			if err := b.test(ctx, t, predict, tuned, s); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return MethodResult{}, err
	}
	r, err := b.result(t)
	r.Temperatures = &TunedPairs{NLL: tuned.NLL, OOD: tuned.OOD}
	if tuned.NLLAtBound {
		note = joinNotes(note, "T_act for the likelihood is at a bound of the search")
	}
	if tuned.OODAtBound {
		note = joinNotes(note, "T_act for out-of-distribution is at a bound of the search")
	}
	r.Note, r.Seconds = note, seconds
	return r, err
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// nllOf returns -log p of each label.
func nllOf(logp []float64, labels []int, classes int) []float64 {
	nll := make([]float64, len(labels))
	for i, y := range labels {
		nll[i] = -logp[i*classes+int(y)]
	}
	return nll
}

func meanNLL(logp []float64, labels []int, classes int) float64 {
	var sum float64
	for _, v := range nllOf(logp, labels, classes) {
		sum += v
	}
	return sum / float64(len(labels))
}

// tune finds a method's temperatures on the held-out sets.
func (b *bench) tune(ctx context.Context, m method, predict predictor) (*calibrate.Tuned, error) {
	v, o := b.val, b.ood
	if m.name == "bnn-kfac" && b.overLayers(m) {
		v, o = b.thinned(v), b.thinned(o)
	}
	val, err := predict(ctx, v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	var ood calibrate.Predictive
	if o != nil {
		if ood, err = predict(ctx, o); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
	}
	return calibrate.Tune(ctx, val, v.data.Labels, ood, b.limit)
}

// test measures a tuned method on a set.
func (b *bench) test(ctx context.Context, t *measure.Tally, predict predictor, tuned *calibrate.Tuned, s *evalSet) error {
	p, err := predict(ctx, s)
	if err != nil {
		return err
	}
	var scores measure.Scores
	if scores.LogP, scores.NLL, err = calibrate.PredictAll(ctx, p, tuned.NLL); err != nil {
		return err
	}
	measure.Negate(scores.NLL)
	scores.OOD = scores.NLL
	if tuned.OOD != tuned.NLL && s.part.Role != measure.Shift {
		if _, scores.OOD, err = calibrate.PredictAll(ctx, p, tuned.OOD); err != nil {
			return err
		}
		measure.Negate(scores.OOD)
	}
	return t.Add(s.part, scores, s.data.Labels, nil)
}

// seedOf returns a seed for one set, so that no two share their draws and none depends
// on which others there are.
func (b *bench) seedOf(s *evalSet) uint64 {
	return rand.NewPCG(b.Seed, uint64(s.part.Role)<<32|uint64(s.part.Index)).Uint64()
}
