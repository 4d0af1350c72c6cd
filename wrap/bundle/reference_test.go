package bundle

import (
	"math"
	"reflect"
	"testing"

	"github.com/mfgs/mfgs/calibrate/drift"
)

// referred is full with a reference.
func referred() Bundle {
	b := full()
	of := func(edges ...float64) drift.Reference {
		return drift.Reference{Examples: 30, Edges: edges, Below: []int{9, 19}, AtMost: []int{10, 20}}
	}
	b.Manifest.Reference = &Reference{
		Confidence: of(0.5, 1), Entropy: of(0, math.Log(3)), OODScore: of(0.25, 0.75), Classes: []int{0, 10, 20},
	}
	return b
}

func TestAReferenceIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	got, err := Open(written(t, referred(), WriteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	if want := referred().Manifest.Reference; !reflect.DeepEqual(got.Manifest.Reference, want) {
		t.Errorf("reference %+v, want %+v", got.Manifest.Reference, want)
	}
	m := got.Manifest
	m.Format, m.Probabilities, m.Validation.MF0, m.OODScore, m.Scores = 1, nil, nil, nil, nil
	oneLine(t, m.Validate(), ErrField, "reference is a field of format 2")
}

func TestInvalidReferencesAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Reference)
		err    error
		text   string
	}{
		"edges that fall": {func(r *Reference) { r.OODScore.Edges[1] = 0.125 }, ErrField, "reference.ood_score: edges 0 and 1"},
		"one edge twice":  {func(r *Reference) { r.Entropy.Edges[1] = 0 }, ErrField, "reference.entropy: edges 0 and 1"},
		"not a number":    {func(r *Reference) { r.Confidence.Edges[0] = math.NaN() }, ErrNotFinite, "reference.confidence.edges[0]"},
		"fewer counts":    {func(r *Reference) { r.Confidence.Below = r.Confidence.Below[:1] }, ErrField, "reference.confidence: 2 edges with 1"},
		"no edges":        {func(r *Reference) { r.Entropy = drift.Reference{Examples: 30} }, ErrField, "reference.entropy: 0 edges"},
		"another rank":    {func(r *Reference) { r.Confidence.Below[1] = 25 }, ErrField, "reference.confidence: edge 1"},
		"other examples": {func(r *Reference) {
			r.Entropy.Examples, r.Entropy.Below, r.Entropy.AtMost = 31, []int{10, 20}, []int{11, 21}
		}, ErrField, "reference.entropy.examples is 31, want 30"},
		"confidence above 1":   {func(r *Reference) { r.Confidence.Edges[1] = 1.5 }, ErrField, "reference.confidence.edges are not in 0 … 1"},
		"entropy above log 3":  {func(r *Reference) { r.Entropy.Edges[1] = 1.2 }, ErrField, "reference.entropy.edges are not in 0 … 1.09861"},
		"negative score":       {func(r *Reference) { r.OODScore.Edges[0] = -0.5 }, ErrField, "reference.ood_score.edges are not in"},
		"classes do not sum":   {func(r *Reference) { r.Classes[0] = 1 }, ErrField, "reference.classes add up to 31 examples, want 30"},
		"a negative class":     {func(r *Reference) { r.Classes = []int{-1, 11, 20} }, ErrField, "reference.classes has -1"},
		"counts that overflow": {func(r *Reference) { r.Classes = []int{math.MaxInt, math.MaxInt, 32} }, ErrField, "reference.classes has 9223372036854775807"},
		"fewer classes":        {func(r *Reference) { r.Classes = []int{10, 20} }, ErrField, "2 counts for 3 classes"},
		"more than validated": {func(r *Reference) {
			for _, q := range []*drift.Reference{&r.Confidence, &r.Entropy, &r.OODScore} {
				q.Examples, q.Below, q.AtMost = 120, []int{39, 79}, []int{40, 80}
			}
			r.Classes = []int{40, 40, 40}
		}, ErrField, "reference has 120 examples, and the validation data 100"},
		"many edges": {func(r *Reference) {
			q := &r.OODScore
			*q = drift.Reference{Examples: 100}
			for i := range maxReferenceEdges + 1 {
				at := ((i+1)*100 + 65) / 66
				q.Edges = append(q.Edges, float64(at)/100)
				q.Below, q.AtMost = append(q.Below, at-1), append(q.AtMost, at)
			}
		}, ErrField, "reference.ood_score has 65 edges, want at most 64"},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := Open(written(t, referred(), WriteOptions{}))
			if err != nil {
				t.Fatal(err)
			}
			test.change(read.Manifest.Reference)
			oneLine(t, read.Manifest.Validate(), test.err, test.text)
		})
	}
}
