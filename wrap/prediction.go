package wrap

import (
	"bytes"
	"encoding/json"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/measure"
)

// Prediction is the result for one example.
type Prediction struct {
	Input      string  `json:"input,omitempty"` // name of the record, where there is one
	Label      *int    `json:"label"`           // the record's own label; null without
	Class      int     `json:"class"`           // the most probable
	ClassName  string  `json:"class_name,omitempty"`
	Confidence float64 `json:"confidence"` // the largest probability

	// Of a multi-label head only, whose K labels are independent of each other; Label is then null,
	// and Confidence the mean over labels of max(p, 1-p). Labels are those with p > ½, by number
	// and, where there are names, by name; Targets those that the record itself has, nil where it
	// tells none. All ascend.
	Labels     []int    `json:"labels,omitzero"`
	LabelNames []string `json:"label_names,omitzero"`
	Targets    []int    `json:"targets,omitzero"`

	Probabilities []float64 `json:"probabilities"`  // [C], sum 1; of a multi-label head [K], of each label
	Logits        []float32 `json:"logits"`         // [K], the network's own
	LogitVariance []float64 `json:"logit_variance"` // [K], the posterior's own: at T_ens = 1
	Entropy       float64   `json:"entropy"`        // of the probabilities, nats; of K labels the sum of theirs

	// Of bundles with decisions only. Abstain says that the example is better not answered, and
	// AbstainReason why: "doubtful", "unfamiliar" or both. PredictionSet are the classes, ascending and
	// perhaps none, of which one is the label as often as the bundle promises; where there are names,
	// PredictionSetNames are theirs.
	Abstain            *bool    `json:"abstain,omitempty"`
	AbstainReason      string   `json:"abstain_reason,omitempty"`
	PredictionSet      []int    `json:"prediction_set,omitzero"`
	PredictionSetNames []string `json:"prediction_set_names,omitzero"`

	// OODScore says how unlike the training data the example is: the score that the bundle serves, in
	// (0,1], half of the held-out examples below ½. It is strictly monotone, and has digits where
	// Confidence is the same in floating point.
	OODScore float64 `json:"ood_score"`
	// OODPercentile is the share of held-out examples in distribution that have a lower OODScore, in
	// [0,1]; null of bundles that were written before it was known.
	OODPercentile *float64 `json:"ood_percentile"`
	// Leverage is φᵀ(A+δI)⁻¹φ: how far the features are from those of the training set. Not bounded.
	Leverage float64 `json:"leverage"`
}

// EncodeJSON writes the JSON of a prediction, <, > and & as they are.
func (p *Prediction) EncodeJSON(w *bytes.Buffer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(p); err != nil {
		return err
	}
	w.Truncate(w.Len() - len("\n"))
	return nil
}

// row returns the i-th of rows of n numbers.
func row[T any](rows []T, i, n int) []T { return rows[i*n : (i+1)*n : (i+1)*n] }

func widened(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// follow sets what follows from the probabilities of a head's classes, which may have names.
func (p *Prediction) follow(h layer.Head, names []string) {
	a := measure.AnswerOf(h, p.Probabilities)
	p.Class, p.Confidence, p.Entropy = a.Class, a.Confidence, a.Entropy
	if h.MultiLabel() {
		p.Labels = present(len(p.Probabilities), func(j int) bool { return p.Probabilities[j] > 0.5 })
		p.LabelNames = named(p.Labels, names)
	}
}

// present lists those of k labels that are there; the list is never nil.
func present(k int, is func(int) bool) []int {
	list := []int{}
	for j := range k {
		if is(j) {
			list = append(list, j)
		}
	}
	return list
}

// decide sets what the bundle's decisions make of a prediction.
func (p *Prediction) decide(d *conformal.Decisions, names []string) {
	if d == nil {
		return
	}
	if d.Abstains() {
		p.AbstainReason = d.Abstain(p.Probabilities, p.OODScore)
		abstain := p.AbstainReason != ""
		p.Abstain = &abstain
	}
	if d.Set != nil {
		p.PredictionSet = d.Set.Set(p.Probabilities)
		p.PredictionSetNames = named(p.PredictionSet, names)
	}
}

// named returns the names of classes, nil where there are none.
func named(classes []int, names []string) []string {
	if len(names) == 0 {
		return nil
	}
	list := make([]string, len(classes))
	for i, k := range classes {
		list[i] = names[k]
	}
	return list
}
