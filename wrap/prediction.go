package wrap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx/fuse"
)

// A Character is a symbol of a text, mostly one character, and its largest probability in the steps that read it.
type Character struct {
	Text        string  `json:"text"`
	Probability float64 `json:"probability"`
}

// A Tag is the tag of a step, and its probability by the network alone.
type Tag struct {
	Tag         string  `json:"tag"`
	Probability float64 `json:"probability"`
}

// Prediction is the result for one example.
type Prediction struct {
	Input      string  `json:"input,omitempty"` // name of the record, if it has one
	Step       *int    `json:"step,omitempty"`  // of the record, for a model that answers for each of its steps; else nil
	Label      *int    `json:"label"`           // the record's own label; null if it has none
	Class      int     `json:"class"`           // the most probable
	ClassName  string  `json:"class_name,omitempty"`
	Confidence float64 `json:"confidence"` // the largest probability

	// For a model that reads text only: the text and its characters. Confidence is then the probability that the text
	// is right; Class is 1, and Label is 1 if the text is the record's own, and 0 if not.
	Text       *string     `json:"text,omitempty"`
	Characters []Character `json:"characters,omitzero"`

	// For a model that tags the steps of sequences only: the tags up to the last step that counts, nil for those before
	// it that do not.
	// Confidence is then the probability that all of them are right; Class is 1, and Label is 1 if all are those of the
	// record, and 0 if not.
	Tags []*Tag `json:"tags,omitzero"`

	// For a multi-label head only, whose K labels are independent of each other; Label is then null, and
	// Confidence the mean over labels of max(p, 1-p). Labels are those with p > ½, by number and, if there
	// are names, by name. Targets are the record's own labels, nil if it has none. All ascend.
	Labels     []int    `json:"labels,omitzero"`
	LabelNames []string `json:"label_names,omitzero"`
	Targets    []int    `json:"targets,omitzero"`

	Probabilities []float64 `json:"probabilities"`            // [C], sum 1; of a multi-label head [K], one for each label
	Logits        []float32 `json:"logits"`                   // [K], the network's own
	LogitVariance []float64 `json:"logit_variance,omitempty"` // [K], under the posterior, at T_ens = 1; nil without a linear layer
	Entropy       float64   `json:"entropy"`                  // of the probabilities, nats; for K labels the sum over labels

	// For bundles with decisions only. Abstain says that the example should not be answered, and
	// AbstainReason why: "uncertain", "out-of-distribution", or "uncertain and out-of-distribution".
	// PredictionSet are the classes, ascending and possibly none, that contain the label as often as
	// the bundle guarantees; PredictionSetNames are their names, if there are any.
	Abstain            *bool    `json:"abstain,omitempty"`
	AbstainReason      string   `json:"abstain_reason,omitempty"`
	PredictionSet      []int    `json:"prediction_set,omitzero"`
	PredictionSetNames []string `json:"prediction_set_names,omitzero"`

	// OODScore is the bundle's out-of-distribution score, in (0,1]; half of the validation data score below
	// ½. It still has digits where Confidence is saturated in floating point.
	OODScore float64 `json:"ood_score"`
	// OODPercentile is the fraction of the in-distribution validation data with a lower OODScore, in [0,1];
	// null for bundles written before it was kept.
	OODPercentile *float64 `json:"ood_percentile"`
	// OODPValue is the conformal p-value that the input is in-distribution: (1 + number of validation examples that
	// score as high or higher) / (1 + number of validation examples). Flagging inputs with a p-value of at most α
	// flags at most the fraction α of inputs that are drawn as the validation data were, on average over draws of
	// these. It is null for bundles written before it was kept.
	OODPValue *float64 `json:"ood_pvalue"`
	// Leverage is φᵀ(A+δI)⁻¹φ: how far the features are from those of the training set. Not bounded. It is 0, and
	// absent from JSON, without a linear layer.
	Leverage float64 `json:"leverage,omitempty"`
}

// Answer returns the text, or the tags separated by blanks with "-" for steps that do not count, of a model that gives
// these. It is not ok for others.
func (p *Prediction) Answer() (answer string, ok bool) {
	switch {
	case p.Text != nil:
		return *p.Text, true
	case p.Tags != nil:
		list := make([]string, len(p.Tags))
		for i, t := range p.Tags {
			if list[i] = "-"; t != nil {
				list[i] = t.Tag
			}
		}
		return strings.Join(list, " "), true
	}
	return "", false
}

// EncodeJSON writes the JSON of a prediction, with <, > and & unescaped.
func (p *Prediction) EncodeJSON(w *bytes.Buffer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(p); err != nil {
		return err
	}
	w.Truncate(w.Len() - len("\n"))
	return nil
}

// predicted is a batch of predictions with the examples that they are of. Example i has a prediction or, if
// errs[i] is not nil, none.
type predicted struct {
	predictions []Prediction
	errs        []error
	examples    *rows.Batch
}

func predictedOf(x *rows.Batch, n int) predicted {
	return predicted{make([]Prediction, n), make([]error, n), x}
}

// all returns the predictions, or the first error.
func (p predicted) all() ([]Prediction, error) {
	for i, err := range p.errs {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.examples.Name(i), err)
		}
	}
	return p.predictions, nil
}

// predictRows predicts finite rows by the formulas, in float64.
func (p *Predictor) predictRows(calibration *calibrate.Calibration, b *rows.Batch) predicted {
	r := calibration.Predict(b.Features, b.Logits, b.N)
	k, c := p.head.Logits, p.head.Classes()
	probabilities := measure.ClassProbabilities(p.head, r.LogP)
	out := predictedOf(b, b.N)
	for i := range out.predictions {
		one := Prediction{
			Probabilities: row(probabilities, i, c),
			Logits:        row(b.Logits, i, k),
			OODScore:      r.OODScore[i],
		}
		if !p.head.Nonlinear {
			one.LogitVariance, one.Leverage = row(r.Variance, i, k), r.Leverage[i]
		}
		if r.OODPercentile != nil {
			one.OODPercentile = &r.OODPercentile[i]
		}
		if r.OODPValue != nil {
			one.OODPValue = &r.OODPValue[i]
		}
		out.predictions[i], out.errs[i] = p.completed(one, i, p.bundle.Manifest.Decisions, b)
	}
	return out
}

// predictions turns the results of Run for some examples into predictions, with the given probabilities, nil
// for those of Run, and decisions.
func (p *Predictor) predictions(
	r []Tensor, probabilities []float64, decisions *conformal.Decisions, x *rows.Batch,
) predicted {
	k, c := p.head.Logits, p.head.Classes()
	var texts []Tensor
	if p.decoding != nil {
		last := len(r) - textOutputs
		r, texts = r[:last], r[last:]
	}
	logits := r[fuse.Logits].Data.([]float32)
	if probabilities == nil {
		probabilities = widened(r[fuse.Probabilities].Data.([]float32))
	}
	scores := r[fuse.FirstScore(p.head):]
	var variance []float64
	var leverage []float32
	if !p.head.Nonlinear {
		variance = widened(r[fuse.LogitVariance].Data.([]float32))
		last := len(scores) - 1
		leverage, scores = scores[last].Data.([]float32), scores[:last]
	}
	ood := scores[0].Data.([]float64)
	var percentile, pvalue []float64 // which older bundles lack
	if len(scores) > 1 {
		percentile = scores[1].Data.([]float64)
	}
	if len(scores) > 2 {
		pvalue = scores[2].Data.([]float64)
	}
	out := predictedOf(x, len(logits)/k)
	for i := range out.predictions {
		one := Prediction{
			Probabilities: row(probabilities, i, c),
			Logits:        row(logits, i, k),
			OODScore:      ood[i],
		}
		if !p.head.Nonlinear {
			one.LogitVariance, one.Leverage = row(variance, i, k), float64(leverage[i])
		}
		if percentile != nil {
			one.OODPercentile = &percentile[i]
		}
		if pvalue != nil {
			one.OODPValue = &pvalue[i]
		}
		if texts != nil {
			p.decode(&one, texts, i)
		}
		out.predictions[i], out.errs[i] = p.completed(one, i, decisions, x)
	}
	return out
}

// completed adds what follows from the numbers of the i-th of some examples, and what is known about it.
func (p *Predictor) completed(
	one Prediction, i int, decisions *conformal.Decisions, x *rows.Batch,
) (Prediction, error) {
	if err := source.CheckRow("logit", one.Logits); err != nil {
		return Prediction{}, err
	}
	sum := one.OODScore + one.Leverage
	for _, list := range [][]float64{one.Probabilities, one.LogitVariance} {
		for _, v := range list {
			sum += v
		}
	}
	// The logits are finite: only absurd features or a foreign posterior lead here.
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return Prediction{}, errNotFinite
	}
	names := p.bundle.Manifest.Labels
	a := measure.AnswerOf(p.head, one.Probabilities)
	one.Class, one.Confidence, one.Entropy = a.Class, a.Confidence, a.Entropy
	if len(names) > 0 {
		one.ClassName = names[one.Class]
	}
	if p.head.MultiLabel() {
		one.Labels = indices(len(one.Probabilities), func(j int) bool { return one.Probabilities[j] > 0.5 })
		one.LabelNames = namesOf(one.Labels, names)
	}
	one.decide(decisions, names)
	if x.Names != nil || x.From != "" {
		one.Input = x.Name(i)
	}
	if x.Steps != nil {
		one.Step = &x.Steps[i]
	}
	if x.Labels != nil && x.Labels[i] >= 0 {
		one.Label = &x.Labels[i]
	}
	if k := p.head.Logits; x.Targets != nil {
		one.Targets = indices(k, func(j int) bool { return x.Targets[i*k+j] == 1 })
	}
	return one, nil
}

var errNotFinite = errors.New("the prediction is not finite: its features overflow float32, or the bundle does not match the model")

// decide applies decisions, which may be nil.
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
		p.PredictionSetNames = namesOf(p.PredictionSet, names)
	}
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

// indices returns the j < n for which is holds, never nil.
func indices(n int, is func(int) bool) []int {
	list := []int{}
	for j := range n {
		if is(j) {
			list = append(list, j)
		}
	}
	return list
}

// namesOf returns the names of classes, nil if there are none.
func namesOf(classes []int, names []string) []string {
	if len(names) == 0 {
		return nil
	}
	list := make([]string, len(classes))
	for i, k := range classes {
		list[i] = names[k]
	}
	return list
}
