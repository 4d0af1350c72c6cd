package part

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

// ErrField says that a field of a manifest is wrong.
var ErrField = errors.New("a field of the manifest is wrong")

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrField, fmt.Sprintf(format, args...))
}

// Validate reports the first field of a manifest that is wrong.
func (m *Manifest) Validate() error {
	if err := folder.Finite(m); err != nil {
		return err
	}
	if m.Tool == "" {
		return wrong("tool is missing")
	}
	if err := m.Recipe.validate(); err != nil {
		return err
	}
	if len(m.Sets) == 0 {
		return wrong("sets is missing")
	}
	last := -1
	for i := range m.Sets {
		s := &m.Sets[i]
		role := slices.Index(roles, s.Role)
		if role <= last {
			return wrong("sets[%d].role is %.20q, want train, val and ood, each once and in this order", i, s.Role)
		}
		last = role
		if err := s.validate(); err != nil {
			return err
		}
	}
	at := 0
	for i, f := range m.Files {
		place := slices.Index(kind.Files, f.Name)
		if place <= at || !folder.IsHash(f.SHA256) {
			return wrong("files[%d] is %.40q with sha256 %.70q, want %s in this order, with their hashes", i, f.Name, f.SHA256, strings.Join(kind.Files[1:], ", "))
		}
		at = place
	}
	return m.validateModel()
}

// validateModel refuses a model that is not that of the recipe.
func (m *Manifest) validateModel() error {
	holds := func(name string) int {
		return slices.IndexFunc(m.Files, func(f bundle.File) bool { return f.Name == name })
	}
	i, weights := holds(ModelName), holds(ModelDataName) >= 0
	switch {
	case i < 0 && weights:
		return wrong("files has %s without %s", ModelDataName, ModelName)
	case i < 0:
	case m.Recipe.Model == nil:
		return wrong("files has %s, and recipe has no model", ModelName)
	case m.Recipe.Gathered:
	case weights:
		return wrong("files has %s, and the model of recipe is one file", ModelDataName)
	case m.Files[i].SHA256 != m.Recipe.Model.SHA256:
		return wrong("%s is not the model of the recipe: its sha256 is %s, want %s", ModelName, m.Files[i].SHA256, m.Recipe.Model.SHA256)
	}
	return nil
}

func (r *Recipe) validate() error {
	s := &r.Settings
	err := errors.Join(r.Head.Validate(), option.Respell(s.Validate(), option.Name.Key))
	if err == nil {
		_, err = s.Structure.Resolve(r.Head.Head)
	}
	if r.Preprocess != nil && r.Preprocess.Spec != nil {
		err = errors.Join(err, r.Preprocess.Spec.Validate())
	}
	if !reflect.DeepEqual(*s, s.Complete()) {
		err = errors.Join(err, errors.New("settings are not complete: want covariance, lambda0, and decisions with confidence and sets"))
	}
	switch {
	case err != nil:
		return wrong("recipe: %v", strings.ReplaceAll(err.Error(), "\n", "; "))
	case (r.External != nil) != (s.Covariance == calibrate.External):
		return wrong("recipe.external_posterior without settings.covariance %s, or the other way round", calibrate.External)
	case (r.Model == nil) != (r.Preprocess == nil):
		return wrong("recipe.model without recipe.preprocess, or the other way round")
	case r.Model != nil && (!folder.IsHash(r.Model.SHA256) || r.Model.File != nil || r.Model.Data != nil):
		return wrong("recipe.model.sha256 is %.70q, want 64 hexadecimal digits in lower case, and no files", r.Model.SHA256)
	case r.Gathered && r.Model == nil:
		return wrong("recipe.gathered goes with recipe.model")
	case r.Batch < 0 || r.Batch > bundle.MaxBatch:
		return wrong("recipe.batch is %d, want 0 to %d", r.Batch, bundle.MaxBatch)
	case len(r.Classes) > 0 && len(r.Classes) != r.Head.Classes():
		return wrong("recipe.classes has %d names for %d classes", len(r.Classes), r.Head.Classes())
	}
	return nil
}

// maxPosition keeps positions far from overflow.
const maxPosition = 1 << 49

func (s *Set) validate() error {
	if s.Spec == "" || s.From < 0 || s.Count < 1 || s.From > maxPosition || s.Count > maxPosition || len(s.Shards) == 0 {
		return wrong("set %s: spec %.40q, from %d, count %d, %d shards", s.Role, s.Spec, s.From, s.Count, len(s.Shards))
	}
	for i := range s.Shards {
		p := &s.Shards[i]
		if err := p.Shard.Validate(); err != nil || p.Shard == (rows.Shard{}) {
			return wrong("set %s: shard %s", s.Role, p.Shard)
		}
		from, to := p.Shard.Range(s.From, s.From+s.Count)
		if p.From != from || p.To != to {
			return wrong("set %s: shard %s has positions %d to %d, want %d to %d", s.Role, p.Shard, p.From, p.To, from, to)
		}
		if p.Examples < 0 || p.Examples > to-from || p.Ignored < 0 || !folder.IsHash(p.Fingerprint) && !p.partly() {
			return wrong("set %s: shard %s has %d examples of %d, %d files skipped and the fingerprint %.70q", s.Role, p.Shard, p.Examples, to-from, p.Ignored, p.Fingerprint)
		}
		if p.Progress != nil && (p.Progress.Next < p.From || p.Progress.Next > max(p.To, p.From)+rows.BlockSize) {
			return wrong("set %s: shard %s is read up to %d", s.Role, p.Shard, p.Progress.Next)
		}
		if i > 0 && (p.Shard.Count != s.Shards[0].Shard.Count || p.Shard.Index <= s.Shards[i-1].Shard.Index) {
			return wrong("set %s: shard %s after %s, want shards of one division, in order", s.Role, p.Shard, s.Shards[i-1].Shard)
		}
	}
	return nil
}

// partly reports whether a shard was not read to its end, and has no fingerprint yet.
func (p *Shard) partly() bool { return p.Progress != nil && p.Fingerprint == "" }

// check reports files that do not fit the manifest.
func (p *Part) check() error {
	h := p.Recipe.Head.Head
	train := p.Set(bundle.Train)
	switch {
	case (p.Sums != nil) != (train != nil) || (p.Counts != nil) != (train != nil) ||
		(p.Sample != nil) != (train != nil):
		return fmt.Errorf("%s, %s and %s must be present with training data, and only then", CurvatureName, CountsName, SampleName)
	case train == nil:
	case p.Sums.Head() != h || p.Sums.Structure() != p.Recipe.Structure() ||
		p.Sums.Fisher() != p.Recipe.Settings.Covariance.NeedsFisher():
		return fmt.Errorf("%s: not the curvature of the recipe", CurvatureName)
	case p.Sums.Examples() != train.Examples() || p.Counts.Examples != train.Examples():
		return fmt.Errorf("%s has %d examples and %s %d, of %d that were read", CurvatureName, p.Sums.Examples(), CountsName, p.Counts.Examples, train.Examples())
	case len(p.Counts.Labels) != h.Classes() || len(p.Counts.Predicted) != h.Classes():
		return fmt.Errorf("%s counts %d classes, want %d", CountsName, len(p.Counts.Labels), h.Classes())
	}
	if train != nil {
		if err := p.checkSample(train, h); err != nil {
			return err
		}
	}
	for _, role := range roles[1:] {
		if err := checkRows(rowsNames[role], *p.Rows(role), p.Set(role), h); err != nil {
			return err
		}
	}
	if p.Val != nil && p.Val.N > 0 && labelsOf(p.Val) != wantedLabels(h) {
		return fmt.Errorf("%s has %s, want %s", ValName, labelsOf(p.Val), wantedLabels(h))
	}
	if p.Probe != nil && (p.Recipe.Model == nil || !p.probed()) {
		return fmt.Errorf("%s must be present with a model and what may be the first validation examples, and only then", ProbeName)
	}
	return nil
}

// probed reports whether there is a shard that gives a probe.
func (m *Manifest) probed() bool {
	s, maxBad := m.Set(bundle.Val), m.Recipe.Settings.MaxBad
	return s != nil && slices.ContainsFunc(s.Shards, func(p Shard) bool { return s.Probed(&p, maxBad) })
}

// checkSample reports a sample that does not fit the training data.
func (p *Part) checkSample(train *Set, h layer.Head) error {
	b := p.Sample.Rows()
	if want := min(train.Examples(), rows.SampleSize(h.Features)); b.N != want {
		return fmt.Errorf("%s has %d examples, want %d of the %d that were read", SampleName, b.N, want, train.Examples())
	}
	if len(b.Features) != b.N*h.Features {
		return fmt.Errorf("%s does not have the %d features of the head", SampleName, h.Features)
	}
	for _, position := range b.Positions {
		if !slices.ContainsFunc(train.Shards, func(s Shard) bool { return s.From <= position && position < s.To }) {
			return fmt.Errorf("%s has position %d, which is not in the shards", SampleName, position)
		}
	}
	return nil
}

// labelsOf names the kind of labels of examples.
func labelsOf(b *rows.Batch) string {
	switch {
	case b.Labels != nil && b.Targets != nil:
		return "labels and targets"
	case b.Labels != nil:
		return "labels"
	case b.Targets != nil:
		return "targets"
	}
	return "no labels"
}

// wantedLabels names the kind of labels that validation examples of a head have.
func wantedLabels(h layer.Head) string {
	if h.MultiLabel() {
		return "targets"
	}
	return "labels"
}

// checkRows reports examples that do not fit the manifest.
func checkRows(name string, b *rows.Batch, s *Set, h layer.Head) error {
	switch {
	case (b != nil) != (s != nil):
		return fmt.Errorf("%s must be present with validation or OOD data, and only then", name)
	case b == nil:
		return nil
	case b.N != s.Examples():
		return fmt.Errorf("%s has %d examples of %d that were read", name, b.N, s.Examples())
	case len(b.Features) != b.N*h.Features || len(b.Logits) != b.N*h.Logits:
		return fmt.Errorf("%s does not have the %d features and %d logits of the head", name, h.Features, h.Logits)
	}
	at := 0
	for i := range s.Shards {
		n := 0
		for at+n < b.N && b.Positions[at+n] >= s.Shards[i].From && b.Positions[at+n] < s.Shards[i].To {
			n++
		}
		if n != s.Shards[i].Examples {
			return fmt.Errorf("%s has %d examples of shard %s, want %d", name, n, s.Shards[i].Shard, s.Shards[i].Examples)
		}
		at += n
	}
	return nil
}
