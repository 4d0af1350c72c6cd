package serve

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
)

// An answer is the answer to POST /v1/predict, for people and for programs that do not want tensors.
type answer struct {
	Model  string `json:"model"`
	SHA256 string `json:"bundle_sha256"`
	topClass
	Labels []int    `json:"labels,omitzero"` // of a multi-label model: those with p > ½
	Names  []string `json:"label_names,omitzero"`
	// Characters are those of a model that reads text, and Tags those of one that tags the steps of sequences. Label
	// is then the text, or the tags, and Class 1: it is right.
	Characters []wrap.Character `json:"characters,omitzero"`
	Tags       []*wrap.Tag      `json:"tags,omitzero"`
	// Steps are the answers for the steps of an example of a model that gives one for each. All else is that of the
	// step with the lowest confidence, Step.
	Step  *int         `json:"step,omitempty"`
	Steps []stepAnswer `json:"steps,omitzero"`
	// Top lists the most probable classes.
	Top []rankedClass `json:"top"`

	Abstain       *bool    `json:"abstain,omitempty"`
	AbstainReason string   `json:"abstain_reason,omitempty"`
	Set           []int    `json:"prediction_set,omitzero"`
	SetNames      []string `json:"prediction_set_names,omitzero"`

	OODScore      float64  `json:"ood_score"`
	OODPercentile *float64 `json:"ood_percentile"`
	OODPValue     *float64 `json:"ood_pvalue"`
	Entropy       float64  `json:"entropy"` // nats

	Network networkAnswer `json:"network"`
}

// A networkAnswer is the prediction of the network alone: its softmax, or its sigmoids.
type networkAnswer struct {
	topClass
	Labels  []int    `json:"labels,omitzero"`
	Names   []string `json:"label_names,omitzero"`
	Entropy float64  `json:"entropy"`
}

// A topClass is the most probable class.
type topClass struct {
	Label      string  `json:"label"` // its name, or its number; or the text
	Class      int     `json:"class"`
	Confidence float64 `json:"confidence"`
}

// A stepAnswer is the answer for one step of an example.
type stepAnswer struct {
	Step int `json:"step"`
	topClass
	Abstain       *bool    `json:"abstain,omitempty"`
	AbstainReason string   `json:"abstain_reason,omitempty"`
	Set           []int    `json:"prediction_set,omitzero"`
	SetNames      []string `json:"prediction_set_names,omitzero"`
	OODScore      float64  `json:"ood_score"`
}

// A rankedClass is one of the most probable classes.
type rankedClass struct {
	Label       string  `json:"label"`
	Class       int     `json:"class"`
	Probability float64 `json:"probability"`
	Network     float64 `json:"network_probability"` // the network's own
}

// defaultTop is the number of classes in an answer.
const defaultTop = 5

// queryKeys are the parameters of POST /v1/predict.
var queryKeys = []string{"model", "top", "method", "t_act", "t_ens", "max_uncertainty", "max_ood_score"}

// A query holds the parameters of a request.
type query struct {
	model    string // "": the first
	top      int
	override wrap.Override
}

func parseQuery(text string) (q query, err error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return q, invalid("malformed query: %v", err)
	}
	parameters := oip.Parameters{}
	for key, all := range values {
		if !slices.Contains(queryKeys, key) {
			return q, invalid("there is no parameter %.70q; there are %q", key, queryKeys)
		}
		if len(all) > 1 {
			return q, invalid("parameter %q appears %d times, want it once", key, len(all))
		}
		parameters[key] = all[0]
	}
	q.model, q.top = values.Get("model"), defaultTop
	if text := values.Get("top"); values.Has("top") {
		if q.top, err = strconv.Atoi(text); err != nil || q.top < 1 {
			return q, invalid("parameter top is %.70q, want the number of classes to list, at least 1", text)
		}
	}
	q.override, err = overrideOf(parameters)
	return q, err
}

// predict answers POST /v1/predict.
func (s *Server) predict(w http.ResponseWriter, r *http.Request) {
	a, err := s.predictBody(r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	writeDocument(w, r, a)
}

func (s *Server) predictBody(r *http.Request) (a *answer, err error) {
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	ctx, c, err := s.begin(r.Context(), cmp.Or(q.model, s.models[0].Name), "", r.Header.Get)
	if err != nil {
		return nil, err
	}
	defer func() { c.end(err) }()
	if c.body, err = readBody(r, 0, s.config.MaxBody, s.bodyTooLarge("body"), &c.reservation); err != nil {
		return nil, err
	}
	err = c.model.use(func(rev *revision, p *wrap.Predictor) error {
		if err := p.CheckOverride(q.override); err != nil {
			return asInvalid(err)
		}
		inputs, err := inputsOf(p, r.Header.Get("Content-Type"), c.body, &c.reservation)
		if err != nil {
			return err
		}
		if err := c.add(rev.resultBytes); err != nil {
			return err
		}
		a, err = c.answerOf(ctx, rev, p, inputs, q)
		return err
	})
	return a, err
}

// answerOf runs one example, and makes the answer.
func (c *call) answerOf(ctx context.Context, rev *revision, p *wrap.Predictor, inputs []tensor.Tensor, q query) (
	*answer, error) {
	results, err := c.run(ctx, rev, p, inputs, q.override)
	if err != nil {
		return nil, err
	}
	network, err := p.Apply(c.answer.Outputs, wrap.Override{Method: "mle"})
	if err != nil {
		return nil, err
	}
	if len(results.Predictions) == 0 {
		return nil, invalid("the input has no steps")
	}
	var steps []stepAnswer
	at := 0
	if rev.steps > 0 {
		steps, at = answersOf(p, inputs, results.Predictions, rev.classes)
	}
	one, plain := results.Predictions[at], network.Predictions[at]
	return &answer{
		Step: one.Step, Steps: steps,
		Model: c.model.Name, SHA256: rev.sha256, Characters: one.Characters, Tags: one.Tags,
		topClass: topClassOf(one, rev.classes), Labels: one.Labels, Names: one.LabelNames,
		Top:     top(one.Probabilities, plain.Probabilities, q.top, rev.classes),
		Abstain: one.Abstain, AbstainReason: one.AbstainReason,
		Set: one.PredictionSet, SetNames: one.PredictionSetNames,
		OODScore: one.OODScore, OODPercentile: one.OODPercentile, OODPValue: one.OODPValue, Entropy: one.Entropy,
		Network: networkAnswer{topClassOf(plain, rev.classes), plain.Labels, plain.LabelNames, plain.Entropy},
	}, nil
}

// answersOf returns the answers for the steps of an example that count, and the index of the least confident one.
func answersOf(p *wrap.Predictor, inputs []tensor.Tensor, all []wrap.Prediction, names []string) (
	list []stepAnswer, least int) {
	counted := p.CountedSteps(inputs, 0, len(all))
	least = counted[0]
	list = []stepAnswer{}
	for _, t := range counted {
		one := &all[t]
		if one.Confidence < all[least].Confidence {
			least = t
		}
		list = append(list, stepAnswer{
			Step: t, topClass: topClassOf(*one, names), Abstain: one.Abstain, AbstainReason: one.AbstainReason,
			Set: one.PredictionSet, SetNames: one.PredictionSetNames, OODScore: one.OODScore,
		})
	}
	return list, least
}

func label(class int, names []string) string {
	if len(names) > 0 {
		return names[class]
	}
	return strconv.Itoa(class)
}

func topClassOf(one wrap.Prediction, names []string) topClass {
	if answer, ok := one.Answer(); ok {
		return topClass{answer, one.Class, one.Confidence}
	}
	return topClass{label(one.Class, names), one.Class, one.Confidence}
}

// top lists the n most probable classes by p, with the probabilities that the network alone gives them.
func top(p, network []float64, n int, names []string) []rankedClass {
	classes := make([]int, len(p))
	for i := range classes {
		classes[i] = i
	}
	slices.SortStableFunc(classes, func(a, b int) int { return cmp.Compare(p[b], p[a]) })
	list := make([]rankedClass, 0, min(n, len(p)))
	for _, c := range classes[:min(n, len(p))] {
		list = append(list, rankedClass{label(c, names), c, p[c], network[c]})
	}
	return list
}
