package part

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Part has what was read of a calibration's data: some shards of some sets.
type Part struct {
	Manifest

	Sums         *calibrate.Sums // over the training data; nil without any, like the next two
	Counts       *Counts
	Sample       *rows.Sample
	Val, OOD     *rows.Batch   // in the order of positions; nil without such data
	SyntheticOOD *rows.Batch   // made from Val, likewise
	Probe        *bundle.Probe // of the first shard with examples of Val; may be nil
}

// Manifest is the content of part.yaml. The caller of [Write] need not set fields marked "set by Write".
type Manifest struct {
	Format int    `yaml:"format"` // set by Write, to [Version]
	Tool   string `yaml:"tool"`   // what wrote the part, such as "mfgs v0.1.0"
	Recipe Recipe `yaml:"recipe"`
	Sets   []Set  `yaml:"sets"` // in the order of roles

	Files []bundle.File `yaml:"files"` // the other files of the folder; set by Write
}

// Recipe is what all parts of a calibration share.
type Recipe struct {
	Model *bundle.Model `yaml:"model,omitempty"` // without files; nil for precomputed features
	// Gathered says that the calibrated model had weights in other files: its copy in a part is another file, with
	// another hash.
	Gathered   bool                  `yaml:"gathered,omitempty"`
	Head       bundle.Head           `yaml:"head"`
	Preprocess *bundle.Preprocessing `yaml:"preprocess,omitempty"` // nil for precomputed features
	Batch      int                   `yaml:"batch"`                // inference batch; 0 for precomputed features
	Provider   string                `yaml:"provider,omitempty"`   // execution provider

	Settings bundle.Settings  `yaml:"settings"`                     // complete
	External *bundle.External `yaml:"external_posterior,omitempty"` // nil: it is computed from training data
	Classes  []string         `yaml:"classes,omitempty"`
	Columns  []string         `yaml:"columns,omitempty"` // of tables; nil in parts without
}

// resolved returns the recipe with settings replaced by what they led to, for comparing parts.
func (r *Recipe) resolved() *Recipe {
	same := *r
	same.Settings.Structure, same.Settings.Head = r.Structure(), bundle.Settings{}.Head
	return &same
}

// Trained reports whether training data are read: without a linear layer and features there is nothing to add up.
func (r *Recipe) Trained() bool { return !r.Head.Nonlinear || r.Head.Features > 0 }

// Structure returns full or kron, or "" if there is no curvature. Beside a posterior of another program, sums are for
// scores alone, which need the smaller ones.
func (r *Recipe) Structure() calibrate.Structure {
	if r.External != nil {
		return calibrate.Kronecker
	}
	s, _ := r.Settings.Structure.Resolve(r.Head.Head) // the recipe is valid
	return s
}

// Set is a dataset, with the shards that were read.
type Set struct {
	Role   bundle.Role `yaml:"role"`
	Spec   string      `yaml:"spec"`             // as given on the command line
	From   int         `yaml:"from"`             // position of the first example
	Count  int         `yaml:"count"`            // number of examples; of streams, of positions
	Stream bool        `yaml:"stream,omitempty"` // it was read from standard input
	Shards []Shard     `yaml:"shards"`
}

// Shard is one of a set's shards.
type Shard struct {
	Shard       rows.Shard `yaml:"shard"` // 1/1 of a set that is not divided
	From        int        `yaml:"from"`  // positions From … To-1
	To          int        `yaml:"to"`
	Examples    int        `yaml:"examples"` // that were read
	Fingerprint string     `yaml:"fingerprint"`
	Bad         []string   `yaml:"bad,omitempty"`     // one message for each unreadable record
	Ignored     int        `yaml:"ignored,omitempty"` // skipped files of the whole set
	IgnoredBy   []string   `yaml:"ignored_by,omitempty"`
	// Shared has warnings of examples shared with other sets.
	Shared []string `yaml:"shared,omitempty"`

	// Progress is how far the shard was read. It is nil in parts, whose shards are complete.
	Progress *Progress `yaml:"progress,omitempty"`

	// About the head, from the first training examples.
	LogitError float64       `yaml:"logit_error,omitempty"` // see calibration.HeadInfo
	Proof      *bundle.Proof `yaml:"proof,omitempty"`
	Warnings   []string      `yaml:"warnings,omitempty"`

	// NoProbe says why there is no probe, in a shard of validation data that could have one.
	NoProbe string `yaml:"no_probe,omitempty"`
}

// Progress is how far a shard of a checkpoint was read.
type Progress struct {
	Next int `yaml:"next"` // position at which to continue
	// Stamp is that of the data before they were read; "" if they had just changed.
	Stamp string `yaml:"stamp,omitempty"`
}

// roles are the roles of sets, in their order.
var roles = []bundle.Role{bundle.Train, bundle.Val, bundle.OOD, bundle.SyntheticOOD}

// Rows returns the field with the examples of a role; nil for training data, which has none.
func (p *Part) Rows(role bundle.Role) **rows.Batch {
	switch role {
	case bundle.Val:
		return &p.Val
	case bundle.OOD:
		return &p.OOD
	case bundle.SyntheticOOD:
		return &p.SyntheticOOD
	}
	return nil
}

// Set returns the set of a role, or nil.
func (m *Manifest) Set(role bundle.Role) *Set {
	if i := slices.IndexFunc(m.Sets, func(s Set) bool { return s.Role == role }); i >= 0 {
		return &m.Sets[i]
	}
	return nil
}

// Examples returns the number of examples that were read.
func (s *Set) Examples() (n int) {
	for _, p := range s.Shards {
		n += p.Examples
	}
	return n
}

// Bad returns the number of unreadable records.
func (s *Set) Bad() (n int) {
	for _, p := range s.Shards {
		n += len(p.Bad)
	}
	return n
}

// First reports whether a shard has the first block of its set.
func (s *Set) First(p *Shard) bool { return p.From == s.From && p.To > p.From }

// Probed reports whether a shard gives a probe: if it may have the first readable examples of the set.
// Shards of a stream may be empty, and maxBad records of other data may be unreadable.
func (s *Set) Probed(p *Shard, maxBad int) bool {
	return p.To > p.From && (s.Stream || p.From-s.From <= maxBad)
}

// sort orders the shards.
func (s *Set) sort() {
	slices.SortFunc(s.Shards, func(a, b Shard) int {
		return cmp.Or(cmp.Compare(a.Shard.Count, b.Shard.Count), cmp.Compare(a.Shard.Index, b.Shard.Index))
	})
}

// Change sets another covariance, unless c is "", and another damping, unless d is nil.
func (p *Part) Change(c calibrate.Covariance, d *calibrate.Damping) error {
	s := &p.Recipe.Settings
	if d != nil {
		s.Damping = *d
	}
	if c == "" {
		return nil
	}
	if p.Sums != nil {
		if c.NeedsFisher() && !p.Sums.Fisher() {
			return fmt.Errorf("the parts were computed for the %s covariance without the Fisher matrix, which %s needs: compute them with %s %s",
				s.Covariance, c, option.Covariance, c)
		}
		if !c.NeedsFisher() && p.Sums.Fisher() {
			p.Sums.DropFisher()
		}
	}
	s.Covariance = c
	return nil
}
