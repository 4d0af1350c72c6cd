package wrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/onnx/files"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/source"
	"github.com/mfgs/mfgs/wrap/part"
)

// A DoneError says that an output is already what was asked for.
type DoneError struct{ Out string }

func (e *DoneError) Error() string {
	return fmt.Sprintf("%s is the result of this calibration already: nothing to do", e.Out)
}

// An output is a kind of folder that comes of reading the data of a calibration.
type output struct {
	// check reports why none can be written to cfg.Out.
	check func(*Config) error
	// standing returns what tells that of cfg.Out from others, with the fingerprints of its sets.
	standing func(*Config) (identity any, fingerprints []string, err error)
	// wanted returns what tells from others what is made here.
	wanted func(*accumulation) any
}

// run reads the data of a calibration and has an output made of them. Until that stands, what was
// read is kept in a checkpoint.
func (o *output) run(
	ctx context.Context, cfg *Config, log *journal, make func(*sources, *part.Part) error,
) (err error) {
	log.tell = cfg.Notice
	if cfg.Out == "" {
		return errors.New("calibration needs a folder to write to")
	}
	if !cfg.resumes() {
		if err := o.check(cfg); err != nil {
			return err
		}
	}
	var c *checkpoint
	if cfg.stream() == "" {
		if c, err = openCheckpoint(cfg.Out, cfg.Resume, cfg.Force); err != nil {
			return err
		}
	}
	a := &accumulation{cfg: cfg, log: log, checkpoint: c}
	defer func() { err = a.end(ctx, err) }()
	log.begin("open")
	if a.in, err = openSources(ctx, cfg, log); err != nil {
		return err
	}
	defer a.in.close()
	if err := a.begin(); err != nil {
		return err
	}
	if cfg.resumes() {
		if err := o.done(ctx, a); err != nil {
			return err
		}
	}
	if err := a.accumulate(ctx); err != nil {
		return err
	}
	return make(a.in, a.part)
}

// resumes reports whether there is an output that may be what is asked for.
func (c *Config) resumes() bool {
	_, err := os.Lstat(c.Out)
	return c.Resume && err == nil
}

// done returns a [*DoneError] where the output that is there is what is asked for, and refuses another
// unless it may be replaced.
func (o *output) done(ctx context.Context, a *accumulation) error {
	identity, fingerprints, err := o.standing(a.cfg)
	if err == nil {
		field, is, want := part.Difference(identity, o.wanted(a))
		for i, s := range a.in.sets() {
			if field != "" {
				break
			}
			if err := s.Identify(ctx); err != nil {
				return err
			}
			if s.Fingerprint != fingerprints[i] {
				field, is, want = s.Name+" fingerprint", fingerprints[i], s.Fingerprint
			}
		}
		if field == "" {
			files.Sweep(filepath.Dir(filepath.Clean(a.cfg.Out))) // what a run that was killed after that has left
			return &DoneError{a.cfg.Out}
		}
		err = fmt.Errorf("%s is not the result of this calibration: its %s is %s, want %s", a.cfg.Out, field, is, want)
	}
	if a.cfg.Force {
		return o.check(a.cfg)
	}
	return fmt.Errorf("%w: use --force to replace it, or choose another --out", err)
}

// bundleOutput is a bundle.
var bundleOutput = output{
	check: func(c *Config) error { return bundle.CheckTarget(c.Out, c.Force, c.keep()...) },
	standing: func(c *Config) (any, []string, error) {
		b, err := bundle.Open(c.Out)
		if err != nil {
			return nil, nil, err
		}
		m := &b.Manifest
		id := map[string]any{
			"tool": m.Tool, "head": m.Head, "covariance": m.Covariance, "structure": m.Structure,
			"damping": m.Damping.Rule, "lambda0": m.MeanField.Lambda0, "classes": m.Labels,
			"kept curvature": m.Curvature != nil,
		}
		if m.Model != nil {
			id["model"], id["preprocess"], id["batch"] = m.Model.SHA256, m.Preprocess, m.Batch
			id["kept model"] = m.Model.File != nil
		}
		var fingerprints []string
		for _, d := range m.Datasets {
			id[string(d.Role)] = map[string]any{"spec": d.Spec, "examples": d.Count + d.Bad}
			fingerprints = append(fingerprints, d.Fingerprint)
		}
		return id, fingerprints, nil
	},
	wanted: func(a *accumulation) any {
		r := &a.part.Recipe
		id := map[string]any{
			"tool": a.part.Tool, "head": r.Head, "covariance": r.Covariance, "structure": r.Structure,
			"damping": r.Damping, "lambda0": r.Lambda0, "classes": r.Classes,
			"kept curvature": a.cfg.KeepCurvature,
		}
		if r.Model != nil {
			id["model"], id["preprocess"], id["batch"] = r.Model.SHA256, r.Preprocess.Spec, r.Batch
			id["kept model"] = !a.cfg.NoModel
		}
		for _, s := range a.in.sets() {
			id[s.Name] = map[string]any{"spec": s.Spec, "examples": s.Len()}
		}
		return id
	},
}

// partOutput is a part.
var partOutput = output{
	check: func(c *Config) error { return part.CheckTarget(c.Out, c.Force) },
	standing: func(c *Config) (any, []string, error) {
		m, err := part.ReadManifest(c.Out)
		if err != nil {
			return nil, nil, err
		}
		m.Recipe.MaxBad = c.MaxBad // it decides what is refused, not what is read
		var fingerprints []string
		for i := range m.Sets {
			fingerprints = append(fingerprints, m.Sets[i].Shards[0].Fingerprint)
		}
		return m.Identity(), fingerprints, nil
	},
	wanted: func(a *accumulation) any { return a.part.Identity() },
}

// resume takes over what was read before an interruption, of those sets that have not changed since.
// It refuses that of another calibration.
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
		return nil
	}
	old, err := part.OpenCheckpoint(c.part(), a.in.matrixProduct())
	if err != nil {
		a.log.notice("the interrupted calibration is begun anew: %v", err)
		return nil
	}
	old.Recipe.MaxBad = a.part.Recipe.MaxBad // it decides what is refused, not what is read
	if field, before, now := part.Difference(old.Identity(), a.part.Identity()); field != "" {
		return fmt.Errorf("%s is of another calibration: %s was %s, and is %s: start anew with --force, or choose another --out", c.dir, field, before, now)
	}
	for _, s := range a.in.sets() {
		if err := a.take(ctx, s, old); err != nil {
			return err
		}
	}
	return nil
}

// take takes over what was read of a set.
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
		a.log.notice("%s: whether the data are still those that were read before the interruption, nothing tells: they are read anew", s.Name)
		return nil
	}
	s.Fingerprint = before.Fingerprint
	r.Next = at.Next
	for _, message := range before.Bad {
		r.bad = append(r.bad, rows.Bad{Position: shard.From, Message: strings.TrimPrefix(message, s.Name+": ")})
	}
	*shard = *before
	shard.Progress = nil
	switch role {
	case bundle.Train:
		a.part.Sums, a.part.Counts = old.Sums, old.Counts
	case bundle.Val:
		a.part.Val = old.Val
	case bundle.OOD:
		a.part.OOD = old.OOD
	}
	a.log.notice("%s: going on behind %d examples", s.Name, shard.Examples)
	return nil
}

// save writes what was read so far, if it is time. Where that fails, the calibration goes on without.
func (a *accumulation) save() {
	if !a.checkpoint.due() || !a.any() {
		return
	}
	c := a.checkpoint
	err := c.write(a.soFar())
	if err != nil && !c.failing {
		a.log.notice("%v: going on without", err)
	}
	c.failing = err != nil
}

// soFar returns what was read of whole blocks, with how far that is.
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
		held := map[bundle.Role]**rows.Batch{bundle.Val: &p.Val, bundle.OOD: &p.OOD}[set.Role]
		if held == nil {
			continue
		}
		whole, _ := slices.BinarySearch((*held).Positions, progress.Next)
		*held, shard.Examples = (*held).Slice(0, whole), whole
	}
	return &p
}

// end ends with the checkpoint. It is removed when the output stands, and where nothing would be lost
// that took long: an interrupted calibration, or one that failed after longer, leaves what it read.
func (a *accumulation) end(ctx context.Context, failed error) error {
	c := a.checkpoint
	if c == nil {
		return failed
	}
	defer c.close()
	if failed == nil || errors.As(failed, new(*DoneError)) {
		return errors.Join(failed, c.remove())
	}
	if a.any() && (c.kept || ctx.Err() != nil) {
		if err := c.write(a.soFar()); err != nil {
			return errors.Join(failed, err)
		}
	}
	if c.kept {
		return &InterruptedError{Checkpoint: c.dir, Err: failed}
	}
	c.remove()
	return failed
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
