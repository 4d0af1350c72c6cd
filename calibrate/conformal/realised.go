package conformal

import "slices"

// Realised is the outcome of decisions on N examples, as fractions. What the decisions do not include, or what needs
// missing labels, is nil.
type Realised struct {
	N         int      `json:"n"`
	Answered  *float64 `json:"answered,omitempty"`
	Error     *float64 `json:"error,omitempty"`    // among the answered; for multi-label heads the mean over labels
	OOD       *float64 `json:"ood,omitempty"`      // flagged as out-of-distribution
	Covered   *float64 `json:"covered,omitempty"`  // whose set has the label; for multi-label heads the mean fraction of labels
	SetSize   *float64 `json:"set_size,omitempty"` // mean number of classes in a set
	EmptySets *float64 `json:"empty_sets,omitempty"`
}

// A Tally accumulates a [Realised].
type Tally struct {
	decisions                                  *Decisions
	n, answered, flagged, labelled, size, none int
	wrong, missed                              float64
	sizes                                      []int // examples by the number of classes in their set
}

// NewTally returns an empty one.
func NewTally(d *Decisions) *Tally { return &Tally{decisions: d} }

// Add counts examples. Labels and Targets may both be nil.
func (t *Tally) Add(x *Outcomes) {
	d := t.decisions
	var losses Losses
	if x.Labels != nil || x.Targets != nil {
		losses = x.losses()
		t.labelled += x.len()
	}
	for i := range x.len() {
		p := x.of(i)
		t.n++
		if d.Abstain(p, x.OODScores[i]) == "" {
			t.answered++
			if losses.Loss != nil {
				t.wrong += losses.Loss[i]
			}
		}
		if d.OOD != nil && !(x.OODScores[i] <= d.OOD.Threshold) {
			t.flagged++
		}
		if d.Set == nil {
			continue
		}
		set := d.Set.Set(p)
		t.size += len(set)
		if more := len(set) + 1 - len(t.sizes); more > 0 {
			t.sizes = append(t.sizes, make([]int, more)...)
		}
		t.sizes[len(set)]++
		if len(set) == 0 {
			t.none++
		}
		t.missed += x.missing(i, set)
	}
}

// Sizes returns how many examples have a set of 0, 1, 2 … classes, up to the largest set; nil without sets.
func (t *Tally) Sizes() []int { return t.sizes }

// missing returns the fraction of an example's labels that a set misses.
func (x *Outcomes) missing(i int, set []int) float64 {
	var has, missed float64
	if x.Targets == nil {
		if x.Labels != nil && !slices.Contains(set, x.Labels[i]) {
			return 1
		}
		return 0
	}
	for k := range x.Classes {
		if x.Targets[i*x.Classes+k] == 1 {
			has++
			if !slices.Contains(set, k) {
				missed++
			}
		}
	}
	if has == 0 {
		return 0
	}
	return missed / has
}

// Result returns the fractions so far.
func (t *Tally) Result() Realised {
	r := Realised{N: t.n}
	part := func(of float64, n int) *float64 {
		if n == 0 {
			return nil
		}
		v := of / float64(n)
		return &v
	}
	d := t.decisions
	if d.Abstains() {
		r.Answered = part(float64(t.answered), t.n)
		if t.labelled > 0 {
			r.Error = part(t.wrong, t.answered)
		}
	}
	if d.OOD != nil {
		r.OOD = part(float64(t.flagged), t.n)
	}
	if d.Set != nil {
		r.SetSize, r.EmptySets = part(float64(t.size), t.n), part(float64(t.none), t.n)
		if t.labelled > 0 {
			r.Covered = part(float64(t.n)-t.missed, t.n)
		}
	}
	return r
}
