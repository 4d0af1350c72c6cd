package calibration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// UpdateConfig says what Update does. Bundle must be set, and Train or one of Prior and Unlabelled.
type UpdateConfig struct {
	Bundle string // folder of a bundle; to add training data, of one that was calibrated with KeepCurvature
	Train  string // SPEC of additional training data

	// Prior is the class frequencies in use: see [bundle.Settings]. nil keeps the bundle's; without an entry there are
	// none. Unlabelled is the SPEC of data in use, from which they are estimated. It excludes Prior and Train.
	Prior      map[string]float64
	Unlabelled string

	// SPECs of validation and OOD data. "" takes those of the bundle, whose content must not have
	// changed.
	Val, OOD string
	// Decisions replace the bundle's; zero keeps these.
	Decisions conformal.Plan

	Out   string // folder of the bundle to write; "" replaces Bundle
	Force bool   // replace a bundle at Out
	Model string // path of the model, if the bundle has none

	MaxBad  int    // unreadable records to allow in each set
	Cache   string // folder that keeps features between runs; "" keeps none
	Runtime wrap.Runtime

	Progress func(wrap.Progress)
}

// Update adds training data to a bundle, or changes the class frequencies in use. On error the bundle is left
// unchanged.
//
// With training data it adds them to the sums of the bundle's curvature, and tunes damping
// and temperatures again. The result is what Calibrate makes from the old data followed by the new, up to the
// rounding of sums; the old data are not read.
//
// With class frequencies alone it keeps posterior, temperatures and scores, and reads validation data only: to set the
// thresholds of decisions and to measure a sample of the data in use. Without validation data it can correct the
// probabilities of a bundle that has no decisions.
func Update(ctx context.Context, cfg UpdateConfig) (*Report, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	to := &target{dir: cfg.Out, keepCurvature: true, WriteOptions: bundle.WriteOptions{Force: cfg.Force}}
	if cfg.Out == "" {
		to.dir, to.Force = cfg.Bundle, true
	}
	u := &update{UpdateConfig: cfg, log: newJournal(cfg.Progress, nil)}
	u.log.begin("open")
	if err := u.openBundle(); err != nil {
		return nil, err
	}
	switch {
	case cfg.Train != "" && u.manifest.Head.Nonlinear:
		return nil, fmt.Errorf("%s has no linear layer, so that no training data can be added: calibrate again", cfg.Bundle)
	case cfg.Train != "" && u.manifest.External != nil:
		return nil, fmt.Errorf("%s has the posterior of another program, to which no training data can be added: calibrate with a new one", cfg.Bundle)
	case cfg.Train != "" && !u.bundle.KeepsCurvature():
		return nil, fmt.Errorf("%s has no curvature to add to: calibrate with %s", cfg.Bundle, option.KeepCurvature)
	}
	if cfg.Model != "" && u.manifest.Model != nil && u.manifest.Model.File == nil {
		to.Keep = []string{cfg.Model}
	}
	if err := bundle.CheckTarget(to.dir, to.Force, to.Keep...); err != nil {
		return nil, err
	}
	defer u.in.close()
	if cfg.Train == "" {
		return u.changePrior(ctx, to)
	}
	return u.addTraining(ctx, to)
}

func (c *UpdateConfig) check() error {
	switch {
	case c.Bundle == "":
		return errors.New("a bundle is missing: an update needs one")
	case c.Train == "" && c.Prior == nil && c.Unlabelled == "":
		return fmt.Errorf("there is nothing to update: give %s or %s", option.Train, option.Prior)
	case c.Unlabelled != "" && c.Prior != nil:
		return errors.New("class frequencies are given and to be estimated: want one of the two")
	case c.Unlabelled != "" && c.Train != "":
		return fmt.Errorf("class frequencies are estimated with the probabilities of a bundle: add %s first, and estimate them in another update", option.Train)
	case c.Train == "" && c.OOD != "":
		return fmt.Errorf("%s needs %s: class frequencies do not change OOD scores", option.OOD, option.Train)
	case len(c.Prior) > 0:
		if err := (bundle.Settings{Prior: c.Prior}).Validate(); err != nil {
			return err
		}
	}
	return c.Decisions.Validate()
}

// addTraining adds training data.
func (u *update) addTraining(ctx context.Context, to *target) (*Report, error) {
	if err := u.open(ctx); err != nil {
		return nil, err
	}
	a := &accumulation{cfg: u.config(), in: u.in, log: u.log}
	if err := a.begin(); err != nil {
		return nil, err
	}
	if m := u.manifest.Model; m != nil { // the bundle's copy may be another file
		a.part.Recipe.Model = &bundle.Model{SHA256: m.SHA256, Producer: m.Producer, Opset: m.Opset}
	}
	from, _ := u.in.train.Range()
	if err := u.takeSums(a, from); err != nil {
		return nil, err
	}
	if err := a.accumulate(ctx); err != nil {
		return nil, err
	}
	if err := u.check(ctx); err != nil {
		return nil, err
	}
	train := a.shard(u.in.train)
	if w := repeated("train", a.part.Counts); w != "" {
		train.Warnings = append(train.Warnings, w)
	}
	train.Warnings = append(train.Warnings, u.overlaps...)
	a.part.Counts = nil
	for _, d := range u.manifest.Datasets {
		if d.Role == bundle.Train {
			to.trained = append(to.trained, d)
		}
	}
	if u.manifest.Probe == nil {
		a.shard(u.in.val).NoProbe = hadNone
	}
	u.describe(to)
	if u.Prior == nil {
		to.estimate = u.manifest.PriorEstimate
	}
	return fitAndWrite(ctx, a.part, to, u.log)
}

// update is the state of an update.
type update struct {
	UpdateConfig
	log      *journal
	bundle   *bundle.Bundle
	manifest *bundle.Manifest
	document []byte // bundle.yaml when it was opened
	in       *sources
	overlaps []string // warnings
}

// openBundle opens the bundle.
func (u *update) openBundle() (err error) {
	if u.document, err = u.read(); err != nil {
		if _, e := bundle.Open(u.Bundle); e != nil {
			return e // says what is wrong with it
		}
		return err
	}
	if u.bundle, err = bundle.Open(u.Bundle); err != nil {
		return err
	}
	u.manifest = &u.bundle.Manifest
	u.in = &sources{head: u.manifest.Head.Head, classes: u.manifest.Labels}
	return nil
}

// read reads the manifest.
func (u *update) read() ([]byte, error) {
	data, err := files.Read(filepath.Join(u.Bundle, bundle.ManifestName), bundle.MaxManifest)
	if err != nil {
		return nil, fmt.Errorf("%s: not a bundle: %w", u.Bundle, err)
	}
	return data, nil
}

// config returns the configuration that made the bundle, with the new data.
func (u *update) config() *Config {
	ood := u.spec(bundle.OOD, u.OOD)
	if u.OOD == "" && u.recorded(bundle.SyntheticOOD) != nil {
		ood = wrap.SyntheticOOD
	}
	c := &Config{
		Settings:            u.manifest.CalibrationSettings(),
		PrecomputedFeatures: u.manifest.Model == nil, NoProbe: u.manifest.Probe == nil,
		Train: u.Train, Val: u.spec(bundle.Val, u.Val), OOD: ood, Out: u.Out, Cache: u.Cache, Runtime: u.Runtime,
	}
	c.Limit, c.MaxBad = 0, u.MaxBad
	if u.Decisions != (conformal.Plan{}) {
		c.Decisions = u.Decisions
	}
	if u.Prior != nil {
		c.Prior = u.Prior
	}
	if len(c.Prior) == 0 {
		c.Prior = nil
	}
	c.Settings = c.Complete()
	return c
}

// recorded returns the bundle's dataset of a role, or nil.
func (u *update) recorded(role bundle.Role) *bundle.Dataset {
	all := u.manifest.Datasets
	if i := slices.IndexFunc(all, func(d bundle.Dataset) bool { return d.Role == role }); i >= 0 {
		return &all[i]
	}
	return nil
}

// spec returns the SPEC of a role: the bundle's if none is configured.
func (u *update) spec(role bundle.Role, configured string) string {
	if d := u.recorded(role); configured == "" && d != nil {
		return d.Spec
	}
	return configured
}

// optionOf is the option for the data of a role.
var optionOf = map[bundle.Role]option.Name{
	bundle.Train: option.Train, bundle.Val: option.Val, bundle.OOD: option.OOD,
}

// open opens model and data.
func (u *update) open(ctx context.Context) error {
	cfg, m := u.config(), u.manifest
	if err := cfg.Runtime.Validate(); err != nil {
		return err
	}
	specs := map[string]string{"train": cfg.Train, "val": cfg.Val, "ood": cfg.OOD}
	for _, role := range []bundle.Role{bundle.Val, bundle.OOD} {
		configured := map[bundle.Role]string{bundle.Val: u.Val, bundle.OOD: u.OOD}[role]
		if configured == "" && dataset.IsStream(specs[string(role)]) {
			return fmt.Errorf("the %s data of the bundle came on standard input: give it again with %s", role, optionOf[role])
		}
	}
	if err := source.OneStream(specs); err != nil {
		return err
	}
	if err := u.openRunner(ctx, cfg); err != nil {
		return err
	}
	if err := u.in.openTrain(ctx, cfg, u.log); err != nil {
		return err
	}
	// The same SPEC need not be the same data. Identifying them now costs less than reading
	// all of them in vain.
	for _, d := range m.Datasets {
		if d.Role == bundle.Train && d.Spec == u.Train && u.in.train.Size() >= 0 {
			if err := u.in.train.Identify(ctx); err != nil {
				return err
			}
			if err := u.checkNew(ctx); err != nil {
				return err
			}
		}
	}
	if err := u.checkOverlap(ctx); err != nil {
		return err
	}
	if err := u.in.openTuning(ctx, cfg); err != nil {
		return fmt.Errorf("%w (validation data defaults to that of the bundle)", err)
	}
	return nil
}

// openRunner opens what computes features, and an opener of data for it.
func (u *update) openRunner(ctx context.Context, cfg *Config) error {
	u.in.opener = &source.Opener{
		MaxBad: u.MaxBad, Cache: u.Cache, MultiLabel: u.in.head.MultiLabel(), Kind: u.manifest.Head.Kind,
		Fingerprint: true, Notes: &u.log.Notes, Columns: u.manifest.Columns,
	}
	if u.manifest.Model != nil {
		return u.openModel(ctx)
	}
	if u.Model != "" {
		return errors.New("the bundle was calibrated with precomputed features and has no model: leave the model out")
	}
	return u.in.openProduct(ctx, cfg)
}

// openModel opens the model, to be run as in the calibration.
func (u *update) openModel(ctx context.Context) error {
	a, err := attach.Open(ctx, u.bundle, u.Model, nil)
	if err != nil {
		return err
	}
	defer func() {
		if u.in.cut == nil {
			a.Close()
		}
	}()
	if err := u.Runtime.Load(ctx); err != nil {
		return err
	}
	run := attach.RunConfig(u.Runtime.Provider, u.Runtime.Threads, u.Runtime.Batch)
	run.Batch = u.manifest.Batch
	if u.Runtime.Batch > 0 {
		run.Batch = u.Runtime.Batch
	}
	err = a.Run(nil, run, func(c featurize.Config) (err error) {
		u.in.cut, err = attach.OpenCut(a.Model, a.Head, c)
		return err
	})
	if err != nil {
		return err
	}
	u.in.opener.Network = u.in.cut.Network
	u.in.preprocess = &bundle.Preprocessing{Source: bundle.Unknown}
	switch {
	case u.manifest.Preprocess != nil:
		u.in.preprocess = &bundle.Preprocessing{Source: bundle.Given, Spec: u.manifest.Preprocess}
	case u.manifest.Bytes:
		u.in.preprocess.Source = bundle.Assumed
	}
	u.in.product, err = featurize.NewProduct(u.Runtime.Threads)
	return err
}

// takeSums starts from the bundle's sums. The new data, which begin at position from, get the block numbers after
// them.
func (u *update) takeSums(a *accumulation, from int) error {
	sums, err := u.bundle.Sums(u.in.matrixProduct())
	if err != nil {
		return fmt.Errorf("%s: %w", u.Bundle, err)
	}
	a.part.Sums, a.offset = sums, sums.End()-from/calibrate.BlockSize
	if u.manifest.Sample == nil {
		a.part.Sample = nil
		return nil
	}
	s, err := files.Open(filepath.Join(u.Bundle, bundle.SampleName))
	if err != nil {
		return err
	}
	defer s.Close()
	info, err := s.Stat()
	if err != nil {
		return err
	}
	if a.part.Sample, err = rows.DecodeSample(s, info.Size()); err != nil {
		return fmt.Errorf("%s: %s: %w", u.Bundle, bundle.SampleName, err)
	}
	return nil
}

// checkNew refuses training data that the bundle already has.
func (u *update) checkNew(ctx context.Context) error {
	for i := range u.manifest.Datasets {
		d := &u.manifest.Datasets[i]
		if d.Role != bundle.Train {
			continue
		}
		same, err := u.in.opener.IsRecorded(ctx, u.in.train, u.in.head.Classes(), d)
		if err != nil {
			return err
		}
		for _, p := range d.Parts {
			same = same || p.Fingerprint == u.in.train.Fingerprint
		}
		if same {
			return fmt.Errorf("train: %s is already in the bundle: add each example once", u.Train)
		}
	}
	return nil
}

// checkOverlap refuses training data that share examples of a file or folder with the bundle's. If these have
// changed since, it warns.
func (u *update) checkOverlap(ctx context.Context) error {
	for i := range u.manifest.Datasets {
		d := &u.manifest.Datasets[i]
		if d.Role != bundle.Train || dataset.IsStream(d.Spec) {
			continue
		}
		both, same, err := u.overlap(ctx, d)
		switch {
		case err != nil:
			return err
		case same:
			return fmt.Errorf("train: %s is already in the bundle, as part of %s: add each example once", both, d.Spec)
		case both != "":
			u.overlaps = append(u.overlaps, fmt.Sprintf("train: the new data and the bundle's %s share %s, which has changed since: examples in both count twice", d.Spec, both))
		}
	}
	return nil
}

// overlap returns the slice of a file or folder that the new data share with training data of the
// bundle, and whether these are unchanged.
func (u *update) overlap(ctx context.Context, d *bundle.Dataset) (both string, same bool, err error) {
	o := *u.in.opener
	o.Fingerprint, o.Cache, o.Limit, o.Notes = false, "", 0, &source.Notes{}
	old, err := o.Open(ctx, string(d.Role), d.Spec, u.in.head.Classes(), u.in.train.Labelled())
	if err != nil {
		return "", false, nil // removed, or something else now
	}
	defer old.Close()
	if both = u.in.train.Overlap(old); both == "" {
		return "", false, nil
	}
	if err := old.Identify(ctx); err != nil {
		return "", false, err
	}
	same, err = o.IsRecorded(ctx, old, u.in.head.Classes(), d)
	return both, same, err
}

// check refuses training data that the bundle has, and other validation or OOD data than the bundle's, once all
// fingerprints are known.
func (u *update) check(ctx context.Context) error {
	if err := u.checkNew(ctx); err != nil {
		return err
	}
	if err := u.checkUnchanged(ctx, u.in.val, bundle.Val, u.Val); err != nil {
		return err
	}
	return u.checkUnchanged(ctx, u.in.ood, bundle.OOD, u.OOD)
}

// checkUnchanged refuses data of the bundle's SPEC that are not those of the bundle.
func (u *update) checkUnchanged(ctx context.Context, s *source.Set, role bundle.Role, configured string) error {
	d := u.recorded(role)
	if configured != "" || d == nil {
		return nil
	}
	same, err := u.in.opener.IsRecorded(ctx, s, u.in.head.Classes(), d)
	if err == nil && !same {
		err = fmt.Errorf("%s: %s has changed since the bundle was written: give the original data with %s", role, d.Spec, optionOf[role])
	}
	return err
}

// describe takes the model from the bundle, and makes sure before writing that nobody has changed the bundle.
func (u *update) describe(to *target) {
	if m := u.manifest.Model; m != nil {
		to.model, to.weights = u.in.cut.Model.Info(), u.in.cut.Head.Weights
		to.model.SHA256 = m.SHA256
		if m.File != nil {
			to.Model = bundle.Copy(filepath.Join(u.Bundle, bundle.ModelName))
		}
		if m.Data != nil {
			to.ModelData = bundle.Copy(filepath.Join(u.Bundle, bundle.ModelDataName))
		}
	}
	to.confirm = func() error {
		now, err := u.read()
		if err == nil && !bytes.Equal(now, u.document) {
			err = fmt.Errorf("%s has changed since it was opened: update it again", u.Bundle)
		}
		return err
	}
}
