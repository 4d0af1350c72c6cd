package part

import (
	"cmp"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Part is what was read of a calibration's data: some shards of some of its sets.
type Part struct {
	Manifest

	Sums         *calibrate.Sums // of the training data; nil where there is none
	Counts       *Counts         // of the training data, likewise
	Sample       *rows.Sample    // of the training data, likewise
	Val, OOD     *rows.Batch     // held-out data, positions rising; nil where there is none
	SyntheticOOD *rows.Batch     // for those of Val, likewise
	Probe        *bundle.Probe   // of the first shard that Val has examples of; nil where none is kept
}

// Manifest is what part.yaml says. Fields marked "set by Write" need not be filled in by who writes
// a part.
type Manifest struct {
	Format int    `yaml:"format"` // set by Write, to [Version]
	Tool   string `yaml:"tool"`   // what wrote the part, such as "mfgs v0.1.0"
	Recipe Recipe `yaml:"recipe"`
	Sets   []Set  `yaml:"sets"` // in the order of Roles

	Files []bundle.File `yaml:"files"` // the others of the folder; set by Write
}

// Recipe is what all parts of a calibration have in common.
type Recipe struct {
	Model *bundle.Model `yaml:"model,omitempty"` // without files; nil for ready-made features
	// Gathered says that the model given kept weights in files of their own: a copy of it is another
	// file than that of the model's hash.
	Gathered   bool                  `yaml:"gathered,omitempty"`
	Head       bundle.Head           `yaml:"head"`
	Preprocess *bundle.Preprocessing `yaml:"preprocess,omitempty"` // nil for ready-made features
	Batch      int                   `yaml:"batch"`                // inference batch; 0 for ready-made features
	Provider   string                `yaml:"provider,omitempty"`   // that runs the model

	Settings bundle.Settings `yaml:"settings"` // complete
	Classes  []string        `yaml:"classes,omitempty"`
}

// resolved is the recipe with what came of the settings in place of what was asked for, by which parts are compared.
func (r *Recipe) resolved() *Recipe {
	same := *r
	same.Settings.Structure, same.Settings.Head = r.Structure(), bundle.Settings{}.Head
	return &same
}

// Structure returns full or kron.
func (r *Recipe) Structure() calibrate.Structure {
	s, _ := r.Settings.Structure.Resolve(r.Head.Head) // the recipe is valid
	return s
}

// Set is a dataset, and what of it was read.
type Set struct {
	Role   bundle.Role `yaml:"role"`
	Spec   string      `yaml:"spec"`             // as given on the command line
	From   int         `yaml:"from"`             // position of the first example
	Count  int         `yaml:"count"`            // examples there are; of streams, positions there is room for
	Stream bool        `yaml:"stream,omitempty"` // it was read from standard input
	Shards []Shard     `yaml:"shards"`
}

// Shard is one of a set's shards.
type Shard struct {
	Shard       rows.Shard `yaml:"shard"` // 1/1 of a set that was read as one
	From        int        `yaml:"from"`  // positions, from one to before another
	To          int        `yaml:"to"`
	Examples    int        `yaml:"examples"` // that were read
	Fingerprint string     `yaml:"fingerprint"`
	Bad         []string   `yaml:"bad,omitempty"`     // one message for each record that was left out
	Ignored     int        `yaml:"ignored,omitempty"` // files passed over, in the whole of the data
	IgnoredBy   []string   `yaml:"ignored_by,omitempty"`
	// Shared warns of what the set has in common with another.
	Shared []string `yaml:"shared,omitempty"`

	// Progress is how far the shard was read. Nil of a part, whose shards are read to their ends.
	Progress *Progress `yaml:"progress,omitempty"`

	// Of the head, from the first training examples.
	LogitError float64       `yaml:"logit_error,omitempty"` // see HeadInfo of package wrap
	Proof      *bundle.Proof `yaml:"proof,omitempty"`
	Warnings   []string      `yaml:"warnings,omitempty"`

	// NoProbe says why there is no probe of this shard, of validation data that could have given one.
	NoProbe string `yaml:"no_probe,omitempty"`
}

// Progress is how far a shard of a checkpoint was read.
type Progress struct {
	Next int `yaml:"next"` // position from which reading goes on
	// Stamp is the data's, before anything was read; "" where the data
	// had changed just then.
	Stamp string `yaml:"stamp,omitempty"`
}

// Roles are those of sets, in their order.
var Roles = []bundle.Role{bundle.Train, bundle.Val, bundle.OOD, bundle.SyntheticOOD}

// Set returns the set of a role, or nil.
func (m *Manifest) Set(role bundle.Role) *Set {
	if i := slices.IndexFunc(m.Sets, func(s Set) bool { return s.Role == role }); i >= 0 {
		return &m.Sets[i]
	}
	return nil
}

// Examples returns how many examples were read.
func (s *Set) Examples() (n int) {
	for _, p := range s.Shards {
		n += p.Examples
	}
	return n
}

// Bad returns how many records were left out.
func (s *Set) Bad() (n int) {
	for _, p := range s.Shards {
		n += len(p.Bad)
	}
	return n
}

// First reports whether a shard holds the first block of its set.
func (s *Set) First(p *Shard) bool { return p.From == s.From && p.To > p.From }

// Probed reports whether a probe is kept of a shard: where it may hold the first examples that can be read.
// Shards of a stream may be empty, and of other data maxBad records may be unreadable.
func (s *Set) Probed(p *Shard, maxBad int) bool {
	return p.To > p.From && (s.Stream || p.From-s.From <= maxBad)
}

// sort orders the shards.
func (s *Set) sort() {
	slices.SortFunc(s.Shards, func(a, b Shard) int {
		return cmp.Or(cmp.Compare(a.Shard.Count, b.Shard.Count), cmp.Compare(a.Shard.Index, b.Shard.Index))
	})
}

// Change has a part finished with another covariance, "" for its own, and another damping, nil for its own,
// than it was made for.
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
			return option.Errorf("the parts were made for the %s covariance and have no Fisher matrix, which %s needs: make them with %s %s",
				s.Covariance, c, option.Covariance, c)
		}
		if !c.NeedsFisher() && p.Sums.Fisher() {
			p.Sums.DropFisher()
		}
	}
	s.Covariance = c
	return nil
}
