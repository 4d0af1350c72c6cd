package wrap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/files"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/attach"
	"github.com/mfgs/mfgs/wrap/internal/measure"
	"github.com/mfgs/mfgs/wrap/internal/source"
)

// Calibrate fits the posterior and the temperatures of a classifier and writes
// the bundle cfg.Out. On error there is no bundle, and an older one stands as it
// was.
//
// The training set is streamed; the held-out sets, at most 50,000 examples of
// each, are kept in memory.
func Calibrate(ctx context.Context, cfg Config) (*Report, error) {
	c := &calibration{
		Config:  cfg,
		started: time.Now(),
		notes:   source.Notes{Progress: cfg.step()},
		report: Report{
			Bundle: cfg.Out, Seconds: map[string]float64{},
			Bad: []string{}, Ignored: []string{}, Warnings: []string{},
		},
	}
	defer c.close()
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	return &c.report, nil
}

// calibration is one run of Calibrate.
type calibration struct {
	Config
	started time.Time
	notes   source.Notes
	report  Report

	network   *attach.Cut // nil for ready-made features
	head      calibrate.Head
	product   *featurize.Product
	sets      []*source.Set
	datasets  []bundle.Dataset
	sums      *calibrate.Sums
	curvature *calibrate.Curvature // of them
	census    map[bundle.Role]*census
	val, ood  *rows.Batch // ood may be nil
	fitted    *calibrate.Fitted
}

func (c *calibration) close() {
	for _, s := range c.sets {
		s.Close()
	}
	if c.product != nil {
		c.product.Close()
	}
	if c.network != nil {
		c.network.Close()
	}
}

// timed runs one stage of the work and notes how long it took.
func (c *calibration) timed(stage string, f func() error) error {
	start := time.Now()
	err := f()
	c.report.Seconds[stage] += time.Since(start).Seconds()
	return err
}

func (c *calibration) run(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	for _, stage := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"open", c.open},
		{"proof", c.prove},
		{"train", c.accumulate},
		{"held_out", c.collect},
		{"fingerprint", c.fingerprint},
		{"tuning", c.fit},
		{"write", c.write},
	} {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := c.timed(stage.name, func() error { return stage.run(ctx) }); err != nil {
			return err
		}
	}
	c.report.Bad, c.report.Ignored = append(c.report.Bad, c.notes.Bad...), append(c.report.Ignored, c.notes.Ignored...)
	c.report.Examples.Bad = len(c.notes.Bad)
	c.report.Seconds["total"] = time.Since(c.started).Seconds()
	return nil
}

// check refuses what cannot work before any work is done.
func (c *calibration) check() error {
	if c.Covariance == "" {
		c.Covariance = calibrate.Hessian
	}
	if c.Lambda0 == 0 {
		c.Lambda0 = meanfield.Lambda0
	}
	if err := c.Covariance.Validate(); err != nil {
		return err
	}
	if err := c.Runtime.Validate(); err != nil {
		return err
	}
	if err := c.Damping.Validate(); err != nil {
		return err
	}
	switch {
	case !(c.Lambda0 > 0) || math.IsInf(c.Lambda0, 1):
		return fmt.Errorf("lambda0 is %v, want a positive number", c.Lambda0)
	case c.Limit < 0 || c.MaxBad < 0:
		return fmt.Errorf("limit is %d and max-bad %d, want no negative numbers", c.Limit, c.MaxBad)
	case c.Train == "" || c.Val == "":
		return errors.New("calibration needs training data and held-out data")
	case c.ReadyMade && c.Model != "":
		return errors.New("ready-made features come without a model")
	case c.ReadyMade && (c.Config.Head != head.Options{Link: c.Config.Head.Link} || c.Preprocess != nil || c.Cache != "" || c.NoModel):
		return errors.New("head, preprocessing, features cache and no-model are for a model, and with ready-made features there is none")
	case !c.ReadyMade && c.Model == "":
		return errors.New("calibration needs a model, or ready-made features")
	case c.Out == "":
		return errors.New("calibration needs a folder to write the bundle to")
	}
	return bundle.CheckTarget(c.Out, c.Force, c.keep()...)
}

// open opens the model and all sets, so that what is wrong with any of them
// shows before hours are spent on another.
func (c *calibration) open(ctx context.Context) error {
	opener := &source.Opener{Classes: c.Classes, MaxBad: c.MaxBad, Cache: c.Cache, Fingerprint: true, Notes: &c.notes}
	if !c.ReadyMade {
		model, err := onnx.Open(c.Model)
		if err != nil {
			return err
		}
		h, err := head.Find(model, c.Config.Head)
		if err != nil {
			return err
		}
		c.head = attach.Head(h)
		if err := c.head.Validate(); err != nil {
			return err
		}
		if err := c.Runtime.Load(ctx); err != nil {
			return err
		}
		run := c.Runtime.Config()
		run.Preprocess = c.Preprocess
		if c.network, err = attach.OpenCut(model, h, run); err != nil {
			return err
		}
		if c.product, err = featurize.NewProduct(c.Threads); err != nil {
			return err
		}
		opener.Network, opener.Extractor, opener.MultiLabel = c.network.Network, c.network.Extractor, c.head.MultiLabel()
		if c.Classes == nil {
			c.Classes = h.Labels
			opener.Classes = c.Classes
		}
		c.report.Model = NewModelInfo(c.network.Model)
	} else {
		if err := c.findProduct(ctx); err != nil {
			return err
		}
		opener.MultiLabel = (c.Config.Head.Link == "" || c.Config.Head.Link == head.Sigmoid) && source.HasTargets(c.Val)
	}

	opener.Limit = c.Limit
	train, err := c.openSet(opener, bundle.Train, c.Train, true)
	if err != nil {
		return err
	}
	if c.ReadyMade {
		f := train.Ready()
		c.head = calibrate.Head{Logits: f.Logits(), Features: f.Dim(), Bias: true, Link: calibrate.Softmax}
		if f.Logits() == 1 || opener.MultiLabel {
			c.head.Link = calibrate.Sigmoid
		}
		if told := c.Config.Head.Link; told != "" {
			c.head.Link = calibrate.Link(told)
		}
		if err := c.head.Validate(); err != nil {
			return err
		}
		if c.head.MultiLabel() && !opener.MultiLabel {
			return fmt.Errorf("val: %s has labels of one class, and %d logits with link sigmoid want %d labels of 0 or 1 an example", c.Val, c.head.Logits, c.head.Logits)
		}
	}
	if c.Covariance.NeedsFisher() && !train.Labelled() {
		return fmt.Errorf("train: %s has no labels: the %s covariance needs them, hessian does not", c.Train, c.Covariance)
	}
	if err := c.nameClasses(opener, train); err != nil {
		return err
	}

	opener.Limit = source.MaxHeldOut
	val, err := c.openSet(opener, bundle.Val, c.Val, true)
	if err != nil {
		return err
	}
	if !val.Labelled() {
		return fmt.Errorf("val: %s has no labels: held-out data needs them", c.Val)
	}
	if c.OOD != "" {
		if _, err := c.openSet(opener, bundle.OOD, c.OOD, false); err != nil {
			return err
		}
	}
	for _, s := range c.sets[1:] {
		if s.Len() < s.Size() {
			c.warn("%s: %d of %d examples are used for tuning, spread evenly", s.Name, s.Len(), s.Size())
		}
		if err := s.Fits(c.head, "the training set"); err != nil {
			return err
		}
	}
	if err := c.settlePreprocessing(ctx); err != nil {
		return err
	}
	c.sums, err = calibrate.NewSums(calibrate.CurvatureConfig{
		Head: c.head, Structure: c.Structure, Fisher: c.Covariance.NeedsFisher(), Product: c.matrixProduct(),
	})
	return err
}

// settlePreprocessing says how images become the model's input: as was told, else by
// the default if the data are images. Where they are ready arrays it is not known.
func (c *calibration) settlePreprocessing(ctx context.Context) error {
	if c.network == nil {
		return nil
	}
	spec := c.network.Preprocess()
	if c.Preprocess != nil {
		c.report.Preprocess = &PreprocessInfo{Source: Given, Spec: spec}
		return nil
	}
	var images, arrays *source.Set
	for _, s := range c.sets {
		pixels, err := s.Pixels(ctx)
		if err != nil {
			return err
		}
		if pixels && images == nil {
			images = s
		}
		if !pixels && arrays == nil {
			arrays = s
		}
	}
	switch {
	case images != nil && arrays != nil && spec == nil:
		return fmt.Errorf("%s: %s holds bytes, and %s: %s ready arrays: nothing says how the one become the other: give arrays of one type", images.Name, images.Spec, arrays.Name, arrays.Spec)
	case images != nil && arrays != nil:
		return fmt.Errorf("%s: %s holds pixels, and %s: %s ready arrays: %w: give --preprocess, as a YAML file or a preset such as imagenet, or ready arrays alone", images.Name, images.Spec, arrays.Name, arrays.Spec, preprocess.ErrUnknown)
	case images != nil:
		c.report.Preprocess = &PreprocessInfo{Source: Assumed, Spec: spec}
	default:
		c.report.Preprocess = &PreprocessInfo{Source: Unknown}
	}
	return nil
}

// findProduct prepares the runtime's product for ready-made features, which need
// no runtime: where none is found, Go's own product serves.
func (c *calibration) findProduct(ctx context.Context) error {
	r := c.Runtime
	r.Setup.Install = false
	err := r.Load(ctx)
	if err == nil {
		c.product, err = featurize.NewProduct(c.Threads)
	}
	if err != nil && r.Setup.Flag != "" {
		return err
	}
	return nil
}

// matrixProduct returns the runtime's product where there is a runtime, and
// otherwise nil, which stands for calibrate's own.
func (c *calibration) matrixProduct() calibrate.Product {
	if c.product == nil {
		return nil
	}
	return c.product
}

func (c *calibration) openSet(o *source.Opener, role bundle.Role, spec string, labelled bool) (*source.Set, error) {
	classes := 0
	if c.head.Logits > 0 {
		classes = c.head.Classes()
	}
	s, err := o.Open(string(role), spec, classes, labelled)
	if err == nil {
		c.sets = append(c.sets, s)
	}
	return s, err
}

// nameClasses settles the class names: those given, or those of the training
// folders where their order is the labels'.
func (c *calibration) nameClasses(o *source.Opener, train *source.Set) error {
	k := c.head.Classes()
	if c.Classes != nil {
		if len(c.Classes) != k {
			return fmt.Errorf("%d class names for a model of %d classes", len(c.Classes), k)
		}
		return nil
	}
	if train.Data != nil && len(train.Data.Classes()) == k && !integers(train.Data.Classes()) {
		c.Classes = train.Data.Classes()
		o.Classes = c.Classes
	}
	return nil
}

// integers reports whether all names are numbers: labels themselves, not names.
func integers(names []string) bool {
	for _, n := range names {
		for _, r := range n {
			if r < '0' || r > '9' {
				return false
			}
		}
	}
	return true
}

func (c *calibration) warn(format string, args ...any) {
	c.report.Warnings = append(c.report.Warnings, fmt.Sprintf(format, args...))
}

// fingerprint identifies the sets, now that all have been read, and warns of those that share examples: each
// has a part that the others must not have.
func (c *calibration) fingerprint(ctx context.Context) error {
	for i, s := range c.sets {
		if err := s.Identify(ctx); err != nil {
			return err
		}
		c.datasets[i].Fingerprint = s.Fingerprint
		for _, other := range c.sets[:i] {
			if shared := s.Shares(other); shared != "" {
				c.warn("%s and %s %s: what is tuned here may not hold on new data", other.Name, s.Name, shared)
			}
		}
	}
	return nil
}

// accumulate streams the training set into the curvature.
func (c *calibration) accumulate(ctx context.Context) error {
	train := c.sets[0]
	counts := &census{}
	c.census = map[bundle.Role]*census{bundle.Train: counts}
	first := true
	blocks := rows.NewBlocks(c.sums.AddBlock)
	var inCurvature time.Duration
	examples, bad, err := train.Stream(ctx, c.head, &c.notes, func(b *rows.Batch) error {
		if first && c.network != nil {
			e, err := attach.CheckLogits(c.network.Head, b)
			if err != nil {
				return err
			}
			c.report.Head.LogitError = e
			if a := c.network.Head.Approximation; a != "" {
				c.warn("approximation %s: φW + b differs from the logits by %.2g of the largest; variances are as approximate", a, e)
			}
		}
		first = false
		counts.add(c.head, b)
		start := time.Now()
		defer func() { inCurvature += time.Since(start) }()
		return blocks.Add(b)
	})
	if err != nil {
		return err
	}
	start := time.Now()
	if err := blocks.Flush(); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if c.curvature, err = c.sums.Finish(); err != nil {
		return err
	}
	inCurvature += time.Since(start)
	c.report.Seconds["curvature"] = inCurvature.Seconds()
	c.report.Examples.Train = examples
	c.describeSet(train, bundle.Train, examples, bad)
	return nil
}

// collect reads the held-out sets.
func (c *calibration) collect(ctx context.Context) error {
	for _, s := range c.sets[1:] {
		got, bad, err := s.Collect(ctx, c.head, &c.notes)
		if err != nil {
			return err
		}
		role, n := bundle.Role(s.Name), got.N
		if role == bundle.Val {
			c.val, c.report.Examples.Val = got, n
		} else {
			c.ood, c.report.Examples.OOD = got, n
		}
		c.census[role] = &census{}
		c.census[role].add(c.head, got)
		c.describeSet(s, role, n, bad)
	}
	c.doubtData()
	return nil
}

// doubtData warns of sets that lack what they should have.
func (c *calibration) doubtData() {
	train, val := c.census[bundle.Train], c.census[bundle.Val]
	warnings := []string{
		train.few(), train.absentTrain(c.head, val, c.Classes), val.absentHeldOut(c.head, c.Classes),
	}
	for _, s := range c.sets {
		warnings = append(warnings, c.census[bundle.Role(s.Name)].repeated(s.Name))
	}
	for _, w := range warnings {
		if w != "" {
			c.warn("%s", w)
		}
	}
}

// describeSet notes a set for the manifest.
func (c *calibration) describeSet(s *source.Set, role bundle.Role, examples, bad int) {
	c.datasets = append(c.datasets, bundle.Dataset{
		Role: role, Spec: s.Spec, Count: examples, Ignored: s.Ignored(), Bad: bad,
	})
}

// fit chooses damping and temperatures, and measures what was gained.
func (c *calibration) fit(ctx context.Context) error {
	var err error
	c.fitted, err = calibrate.Fit(ctx, c.curvature, c.val, c.ood, calibrate.FitOptions{
		Covariance: c.Covariance, Damping: c.Damping, Lambda0: c.Lambda0,
		Progress: func(stage string, done, total int) { c.notes.Step(stage, "steps", done, total) },
	})
	if err != nil {
		return err
	}
	for _, w := range c.fitted.Warnings {
		c.warn("%s", w)
	}
	c.describeFit()
	return c.measure()
}

// describeFit fills in the report.
func (c *calibration) describeFit() {
	f, r := c.fitted, &c.report
	r.Structure, r.Covariance = string(f.Posterior.Structure), string(f.Posterior.Covariance)
	r.Damping = bundle.Damping{Rule: c.Damping.String(), Epsilon: f.Posterior.Epsilon, Rho: f.Rho, Candidates: f.Candidates}
	r.Temperatures = TemperatureInfo{
		NLL: f.NLL, OOD: f.OOD, Optimum: &f.Optimum, OODTuned: f.OODTuned, TS: f.TS, TSOOD: f.TSOOD,
	}
	r.Probabilities = choiceInfo(f.Choice)
	r.Head.Head = c.describeHead()
}

func choiceInfo(c calibrate.Choice) ChoiceInfo {
	return ChoiceInfo{
		Method: string(c.Method), Reason: c.String(),
		TSGain: c.TSGain, TSNeeded: c.TSNeeded, MF0Gain: c.MF0Gain, MF0Needed: c.MF0Needed,
	}
}

// describeHead describes the head for the manifest.
func (c *calibration) describeHead() bundle.Head {
	h := bundle.Head{Head: c.head}
	if c.network != nil {
		n := c.network.Head
		h.Op, h.Node, h.FeaturesTensor, h.LogitsTensor, h.Tail = n.Op, n.Node, n.Features, n.Logits, n.Tail
		h.Approximation = string(n.Approximation)
	}
	return h
}

// measure computes the held-out figures of all methods.
func (c *calibration) measure() error {
	h := c.fitted.Posterior.Head
	var oods []string
	if c.ood != nil {
		oods = []string{"ood"}
	}
	var tallies []*measure.Tally
	for _, name := range measure.Plain {
		tallies = append(tallies, measure.New(name, h, 0, oods))
	}
	if err := measure.AddPlain(tallies, &c.fitted.Calibration, measure.Part{Role: measure.Test}, c.val); err != nil {
		return err
	}
	if c.ood != nil {
		if err := measure.AddPlain(tallies, &c.fitted.Calibration, measure.Part{Role: measure.OOD}, c.ood); err != nil {
			return err
		}
	}
	results := map[string]bundle.Figures{}
	for _, t := range tallies {
		f, err := t.Figures()
		if err != nil {
			return err
		}
		m := bundle.Figures{}
		if f.InDomain != nil {
			m.InDomain = *f.InDomain
		}
		if len(f.OOD) > 0 {
			m.OOD, m.OODNLL = &f.OOD[0], &f.OODNLL[0]
		}
		results[t.Name] = m
	}
	report := &c.report.HeldOut
	mf0 := results["mf0"]
	report.Before, report.TS, report.MF0, report.After = results["mle"], results["ts"], &mf0, mf0
	if m := c.fitted.Method; m != calibrate.MF0 {
		served := results[string(m)]
		report.After.InDomain, report.After.OODNLL = served.InDomain, served.OODNLL
	}
	if c.ood != nil {
		report.Scores = map[string]*metrics.OOD{}
		detections := []detection{{"ood_score", report.After.OOD.AUROC}}
		for _, s := range score.All {
			if figures, ok := results[s.Name]; ok {
				report.Scores[s.Name] = figures.OOD
				detections = append(detections, detection{s.Name, figures.OOD.AUROC})
			}
		}
		if w := belowChance(detections, c.val.N, c.ood.N); w != "" {
			c.warn("%s", w)
		}
	}
	c.doubt(report.Before.InDomain, report.TS.InDomain)
	if look := measure.ProbabilitiesIn(c.val.Logits, c.head); look != "" && c.ReadyMade {
		c.warn("val: %s: are they probabilities? Give the values before the %s", look, c.head.Link)
	}
	return nil
}

// doubt warns of held-out figures that speak of a mistake, or say too little.
func (c *calibration) doubt(before, scaled metrics.InDomain) {
	const few = 100
	choices := c.head.Classes()
	if c.head.MultiLabel() {
		choices = 2 // for each label
	}
	switch guess := math.Log(float64(choices)); {
	// A temperature mends probabilities that are too sure, whatever the logits' unit, but
	// not what they say.
	case scaled.NLL >= 0.98*guess:
		c.warn("on the held-out data the network does no better than guessing (NLL %.2f at its best temperature, log %d = %.2f): do the preprocessing, the order of the classes and the labels fit?", scaled.NLL, choices, guess)
	case before.N < few:
		c.warn("%d held-out examples say little about two temperatures: give some hundreds or more", before.N)
	case before.Error == 0:
		c.warn("the network makes no error on the held-out data: was it trained on it? Its temperatures come out too sure")
	}
}

// keep returns the files that must outlive the bundle that is replaced.
func (c *calibration) keep() []string {
	if c.NoModel && c.Model != "" {
		return []string{c.Model}
	}
	return nil
}

// write writes the bundle.
func (c *calibration) write(context.Context) error {
	f, r := c.fitted, &c.report
	m := bundle.Manifest{
		Tool:          "mfgs " + Version(),
		Head:          c.describeHead(),
		Probabilities: &f.Choice,
		Damping:       r.Damping,
		Temperatures: bundle.Temperatures{
			NLL:     bundle.Pair{Temperatures: f.NLL, TunedOn: "nll"},
			OOD:     bundle.Pair{Temperatures: f.OOD, TunedOn: "nll"},
			Optimum: &bundle.Pair{Temperatures: f.Optimum, TunedOn: "nll"},
			TS:      f.TS,
			TSOOD:   f.TSOOD,
		},
		MeanField: bundle.MeanField{Lambda0: f.Lambda0, MedianVariance: f.MedianVariance, MaxRatio: f.Ratio, MedianMargin: f.MedianMargin},
		HeldOut:   r.HeldOut.HeldOut,
		Datasets:  c.datasets,
		Warnings:  r.Warnings,
		Labels:    c.Classes,
		Grids:     &bundle.Grids{NLL: &f.NLLGrid},
	}
	if f.OODTuned {
		m.Temperatures.OOD.TunedOn = "ood"
		m.Grids.AUROC = &f.AUROCGrid
	}
	o := bundle.WriteOptions{Force: c.Force, Keep: c.keep()}
	if c.network != nil {
		m.Model = &bundle.Model{SHA256: r.Model.SHA256, Producer: r.Model.Producer, Opset: r.Model.Opset}
		m.Batch = c.network.Batch()
		m.Preprocess = c.report.Preprocess.Spec
		m.Bytes = c.report.Preprocess.Source == Assumed && m.Preprocess == nil
		if !c.NoModel {
			if err := addModel(&o, c.network.Model); err != nil {
				return err
			}
		}
	}
	return bundle.Write(c.Out, bundle.Bundle{Manifest: m, Posterior: f.Posterior}, o)
}

// addModel has the bundle hold a model: a copy of its file or, where weights lie
// in others, what gathers them, in one file if they fit.
func addModel(o *bundle.WriteOptions, m *onnx.Model) error {
	if m.SelfContained() {
		o.Model = func(w io.Writer) error { return copyModel(w, m) }
		return nil
	}
	files, err := m.Files(bundle.ModelName)
	if err != nil {
		return fmt.Errorf("%w; leave the model out of the bundle with --no-model", err)
	}
	o.Model = files[0].Write
	if len(files) == 2 {
		o.ModelData = files[1].Write
	}
	return nil
}

// copyModel copies the file of a model that is one.
func copyModel(w io.Writer, m *onnx.Model) error {
	f, err := files.Open(m.Path())
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, h), f); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != m.SHA256() {
		return fmt.Errorf("%s changed while it was being calibrated", m.Path())
	}
	return nil
}
