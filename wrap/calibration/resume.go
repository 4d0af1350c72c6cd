package calibration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// A DoneError says that the output is already the result of this calibration.
type DoneError struct{ Out string }

func (e *DoneError) Error() string {
	return fmt.Sprintf("%s already has the result of this calibration: nothing to do", e.Out)
}

// resumes reports whether an existing output may already be the result.
func (c *Config) resumes() bool {
	_, err := os.Lstat(c.Out)
	return c.Resume && err == nil
}

// done returns a [*DoneError] if the existing output is the result of this calibration. It refuses another
// unless that may be replaced.
func (o *output) done(ctx context.Context, a *accumulation) error {
	out := a.cfg.Out
	identity, data, err := o.existing(a.cfg)
	sets := a.in.sets()
	if more := added(data); len(more) > 0 {
		if a.cfg.Force {
			return o.check(a.cfg)
		}
		a.refused = true // even where Force is not set: the update would be lost
		return fmt.Errorf("%s was updated with more training data: %s: choose another %s",
			out, strings.Join(more, ", "), option.Out)
	}
	if err == nil {
		field, is, want := part.Difference(identity, o.expected(a))
		for i := 0; i < len(sets) && field == ""; i++ {
			if len(data[i].Parts) == 0 {
				if err := sets[i].Identify(ctx); err != nil {
					return err
				}
			}
			same, err := a.in.opener.IsRecorded(ctx, sets[i], a.in.head.Classes(), &data[i])
			if err != nil {
				return err
			}
			if !same {
				field, is = sets[i].Name+" fingerprint", data[i].Fingerprint
				want = cmp.Or(sets[i].Fingerprint, "from other data")
			}
		}
		if field == "" {
			files.Sweep(filepath.Dir(filepath.Clean(out))) // drafts of a run that was killed at its end
			return &DoneError{out}
		}
		err = fmt.Errorf("%s is not the result of this calibration: its %s is %s, want %s", out, fieldName(field), is, want)
	}
	if a.cfg.Force {
		return o.check(a.cfg)
	}
	a.refused = true
	return fmt.Errorf("%w: use %s to replace it, or choose another %s", err, option.Force, option.Out)
}

// added returns the SPECs of training data added by updates.
func added(data []bundle.Dataset) (specs []string) {
	for _, d := range data {
		if d.Role == bundle.Train {
			specs = append(specs, d.Spec)
		}
	}
	return specs[min(1, len(specs)):]
}

// fieldName names a field of an identity: by its option, if it has one, or by its keys.
func fieldName(keys string) string {
	key := keys
	for _, group := range []string{"recipe.", "settings.", "decisions."} {
		key = strings.TrimPrefix(key, group)
	}
	for _, n := range option.All {
		if n.Key() == key {
			return n.String()
		}
	}
	return keys
}

// identity is what must agree for two calibrations to give the same bundle. Fingerprints of the data are compared
// after the rest, since they cost more.
type identity struct {
	Tool            string `yaml:"tool"`
	bundle.Settings `yaml:",inline"`
	Found           bundle.Head      `yaml:"found_head"`
	Model           string           `yaml:"model.sha256"`
	Posterior       string           `yaml:"posterior"` // its SHA-256
	Preprocess      *preprocess.Spec `yaml:"preprocess"`
	Batch           int              `yaml:"batch"`
	Classes         []string         `yaml:"classes"`
	KeepCurvature   bool             `yaml:"keep_curvature"`
	NoModel         bool             `yaml:"no_model"`
	NoProbe         bool             `yaml:"no_probe"`

	Data map[string]dataIdentity `yaml:"data"`
}

// resolve replaces settings by what they led to: the head that was found, the structure, and the number of
// examples.
func (id *identity) resolve() {
	id.Structure, _ = id.Structure.Resolve(id.Found.Head)
	id.Head, id.Limit = head.Options{}, 0
}

type dataIdentity struct {
	Spec     string `yaml:"spec"`
	Examples int    `yaml:"examples"`
}

// bundleOutput is a bundle.
var bundleOutput = output{
	check: func(c *Config) error { return bundle.CheckTarget(c.Out, c.Force, c.keep()...) },
	existing: func(c *Config) (any, []bundle.Dataset, error) {
		b, err := bundle.Open(c.Out)
		if err != nil {
			return nil, nil, err
		}
		m := &b.Manifest
		id := identity{
			Tool: m.Tool, Settings: m.CalibrationSettings(), Found: m.Head, Preprocess: m.Preprocess, Batch: m.Batch,
			Classes: m.Labels, KeepCurvature: m.Curvature != nil, NoModel: true, NoProbe: m.Probe == nil,
			Data: map[string]dataIdentity{},
		}
		id.MaxBad = c.MaxBad // decides what is refused, not what is read
		id.resolve()
		if m.External != nil {
			id.Posterior = m.External.SHA256
		}
		if m.Model != nil {
			id.Model, id.NoModel = m.Model.SHA256, m.Model.File == nil
		}
		for _, d := range m.Datasets {
			id.Data[string(d.Role)] = dataIdentity{d.Spec, d.Count + d.Bad}
		}
		return id, m.Datasets, nil
	},
	expected: func(a *accumulation) any {
		r := &a.part.Recipe
		id := identity{
			Tool: a.part.Tool, Settings: r.Settings, Found: r.Head, Batch: r.Batch, Classes: r.Classes,
			KeepCurvature: a.cfg.KeepCurvature,
			NoModel:       true, NoProbe: a.part.Probe == nil, Data: map[string]dataIdentity{},
		}
		if r.External != nil {
			id.Posterior = r.External.SHA256
		}
		if r.Model != nil {
			id.Model, id.Preprocess, id.NoModel = r.Model.SHA256, r.Preprocess.Spec, a.cfg.NoModel
		}
		id.resolve()
		for _, s := range a.in.sets() {
			id.Data[s.Name] = dataIdentity{s.Spec, s.Len()}
		}
		return id
	},
}

// partOutput is a part.
var partOutput = output{
	check: func(c *Config) error { return part.CheckTarget(c.Out, c.Force) },
	existing: func(c *Config) (any, []bundle.Dataset, error) {
		m, err := part.ReadManifest(c.Out)
		if err != nil {
			return nil, nil, err
		}
		m.Recipe.Settings.MaxBad = c.MaxBad // decides what is refused, not what is read
		var data []bundle.Dataset
		for i := range m.Sets {
			data = append(data, bundle.Dataset{Role: m.Sets[i].Role, Fingerprint: m.Sets[i].Shards[0].Fingerprint})
		}
		holds := func(name string) bool { return m.Copy(c.Out, name) != nil }
		return partIdentity(m, holds(part.ModelName), holds(part.ProbeName)), data, nil
	},
	expected: func(a *accumulation) any {
		return partIdentity(&a.part.Manifest, a.cfg.holdsModel(a.part), a.part.Probe != nil)
	},
}

// partIdentity is the identity of a part; model and probe say whether it has them.
func partIdentity(m *part.Manifest, model, probe bool) any {
	id := m.Identity()
	id["no_model"], id["no_probe"] = !model, !probe
	return id
}

// holdsModel reports whether the model goes into a part: the one with the first training examples or, where none are
// read, the first validation examples.
func (c *Config) holdsModel(p *part.Part) bool {
	first := p.Set(bundle.Train)
	if !p.Recipe.Trained() {
		first = p.Set(bundle.Val)
	}
	return !c.PrecomputedFeatures && !c.NoModel && first != nil && first.First(&first.Shards[0])
}

// resume continues from the checkpoint with the sets that have not changed since. It refuses the checkpoint of
// another calibration.
func (a *accumulation) resume(ctx context.Context) error {
	c := a.checkpoint
	if c == nil {
		return nil
	}
	for s, r := range a.read {
		var err error
		if r.Stamp, err = s.Stamp(); err != nil {
			return err
		}
	}
	if !c.kept {
		a.resumed = true
		return nil
	}
	old, err := part.OpenCheckpoint(c.part(), a.in.matrixProduct())
	if err != nil {
		a.log.notice("the interrupted calibration is started again: %v", err)
		a.resumed = true
		return nil
	}
	// These decide what is refused and how the data are used, not what is read.
	asked := &a.part.Recipe.Settings
	old.Recipe.Settings.MaxBad, old.Recipe.Settings.Decisions = asked.MaxBad, asked.Decisions
	old.Recipe.Settings.Prior = asked.Prior
	if field, before, now := part.Difference(old.Identity(), a.part.Identity()); field != "" {
		a.refused = true
		return fmt.Errorf("%s belongs to another calibration: %s was %s, and is now %s: start again with %s, or choose another %s",
			c.dir, fieldName(field), before, now, option.Force, option.Out)
	}
	for _, s := range a.in.sets() {
		if err := a.take(ctx, s, old); err != nil {
			return err
		}
	}
	a.resumed = true
	return nil
}

// take continues from what the checkpoint has of a set.
func (a *accumulation) take(ctx context.Context, s *source.Set, old *part.Part) error {
	role := bundle.Role(s.Name)
	before, shard, r := &old.Set(role).Shards[0], a.shard(s), a.read[s]
	at := before.Progress
	if at == nil || at.Next <= shard.From {
		return nil
	}
	same := at.Stamp != "" && at.Stamp == r.Stamp
	if !same && before.Fingerprint != "" {
		if err := s.Identify(ctx); err != nil {
			return err
		}
		same = s.Fingerprint == before.Fingerprint
	}
	if !same {
		a.log.notice("%s: the data may have changed since the interruption, and is read again", s.Name)
		return nil
	}
	s.Fingerprint = before.Fingerprint
	r.Next = at.Next
	for _, message := range before.Bad {
		r.bad = append(r.bad, rows.Bad{Position: shard.From, Message: strings.TrimPrefix(message, s.Name+": ")})
	}
	noProbe := shard.NoProbe // of this run, if the probe was read already
	*shard = *before
	shard.Progress, shard.NoProbe = nil, noProbe
	if role == bundle.Train {
		a.part.Sums, a.part.Counts, a.part.Sample = old.Sums, old.Counts, old.Sample
	} else {
		*a.part.Rows(role) = *old.Rows(role)
	}
	a.log.notice("%s: resuming after %d examples", s.Name, shard.Examples)
	return nil
}

// save writes a checkpoint if one is due. If that fails, the calibration continues without.
func (a *accumulation) save() {
	if !a.checkpoint.due() || !a.any() {
		return
	}
	c := a.checkpoint
	err := c.write(a.soFar())
	if err != nil && !c.failing {
		a.log.notice("%v: continuing without it", err)
	}
	c.failing = err != nil
}

// soFar returns the whole blocks that were read, with their progress.
func (a *accumulation) soFar() *part.Part {
	p := *a.part
	p.Sets = slices.Clone(p.Sets)
	for i := range p.Sets {
		set := &p.Sets[i]
		s := a.in.sets()[i]
		a.note(s)
		progress := a.read[s].Progress
		set.Shards = slices.Clone(set.Shards)
		shard := &set.Shards[0]
		shard.Progress = &progress
		examples := p.Rows(set.Role)
		if examples == nil {
			continue
		}
		whole, _ := slices.BinarySearch((*examples).Positions, progress.Next)
		*examples, shard.Examples = (*examples).Slice(0, whole), whole
	}
	return &p
}

// end removes the checkpoint once the output is written. An interrupted calibration saves what it has read, and so
// does one whose validation data are too few for its decisions. After other failures a checkpoint stays if one
// had been written.
func (a *accumulation) end(ctx context.Context, failed error) error {
	c := a.checkpoint
	if c == nil {
		return failed
	}
	defer c.close()
	if failed == nil || errors.As(failed, new(*DoneError)) {
		a.removeCheckpoint()
		return failed
	}
	// Until a.resumed, the old checkpoint may have more than this run.
	other := errors.As(failed, new(*conformal.InsufficientDataError)) // other decisions may be possible with these data
	if a.resumed && a.any() && (c.kept || ctx.Err() != nil || other) {
		if err := c.write(a.soFar()); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	switch {
	case a.refused:
		return failed
	case c.kept:
		return &InterruptedError{Checkpoint: c.dir, Err: failed}
	}
	a.removeCheckpoint()
	return failed
}

// removeCheckpoint removes the checkpoint. Failure is reported, and is not an error of the calibration.
func (a *accumulation) removeCheckpoint() {
	if err := a.checkpoint.remove(); err != nil {
		a.log.notice("%s could not be removed: %v", a.checkpoint.dir, err)
	}
}

// any reports whether anything was read.
func (a *accumulation) any() bool {
	for s := range a.read {
		if a.begun(s) {
			return true
		}
	}
	return false
}
