package bundle

import (
	"math"

	"github.com/mfgs/mfgs/calibrate/drift"
)

// maxReferenceEdges is the largest number of edges of each quantity in a [Reference].
const maxReferenceEdges = 64

// A Reference is the distribution of predictions on validation data. A server detects drift by comparing its traffic
// with it.
type Reference struct {
	Confidence drift.Reference `yaml:"confidence" json:"confidence"`
	Entropy    drift.Reference `yaml:"entropy" json:"entropy"` // nats
	OODScore   drift.Reference `yaml:"ood_score" json:"ood_score"`
	Classes    []int           `yaml:"classes,flow" json:"classes"` // [C], examples by predicted class
}

// reference checks the section reference.
func (c *checks) reference(m *Manifest) {
	r := m.Reference
	if r == nil {
		return
	}
	classes := m.Head.Classes()
	entropy := math.Log(float64(classes))
	if m.Head.MultiLabel() {
		entropy = float64(classes) * math.Ln2
	}
	n := r.Confidence.Examples
	for _, q := range []struct {
		name string
		*drift.Reference
		most float64
	}{{"confidence", &r.Confidence, 1}, {"entropy", &r.Entropy, entropy}, {"ood_score", &r.OODScore, 1}} {
		field := "reference." + q.name
		c.nested(field, q.Check())
		edges := len(q.Edges)
		c.that(edges <= maxReferenceEdges, "%s has %d edges, want at most %d", field, edges, maxReferenceEdges)
		c.that(q.Examples == n, "%s.examples is %d, want %d as for confidence", field, q.Examples, n)
		// Edges are rounded to a step, so that the last may exceed the maximum by half of one.
		c.that(edges == 0 || q.Edges[0] >= -1e-9 && q.Edges[edges-1] <= q.most+drift.Step/2+1e-9,
			"%s.edges are not in 0 … %.6g", field, q.most)
	}
	sum := 0
	for _, count := range r.Classes {
		c.that(0 <= count && count <= n, "reference.classes has %d, want 0 to %d", count, n)
		sum += min(count, n)
	}
	c.that(len(r.Classes) == classes, "reference.classes has %d counts for %d classes", len(r.Classes), classes)
	c.that(sum == n, "reference.classes add up to %d examples, want %d", sum, n)
	held := 0
	for _, d := range m.Datasets {
		if d.Role == Val {
			held += d.Count
		}
	}
	c.that(n <= held, "reference has %d examples, and the validation data %d", n, held)
}
