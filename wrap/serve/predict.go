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

// An answer is what POST /v1/predict gives: for people, and programs that want no tensors.
type answer struct {
	Model  string `json:"model"`
	SHA256 string `json:"bundle_sha256"`
	named
	Labels []int    `json:"labels,omitzero"` // of a multi-label model: those with p > ½
	Names  []string `json:"label_names,omitzero"`
	// Top are the most probable classes, as many as were asked for.
	Top []ranked `json:"top"`

	Abstain       *bool    `json:"abstain,omitempty"`
	AbstainReason string   `json:"abstain_reason,omitempty"`
	Set           []int    `json:"prediction_set,omitzero"`
	SetNames      []string `json:"prediction_set_names,omitzero"`

	OODScore      float64  `json:"ood_score"`
	OODPercentile *float64 `json:"ood_percentile"`
	Entropy       float64  `json:"entropy"` // nats

	Network own `json:"network"`
}

// own is what the network itself says: its softmax, or its sigmoids.
type own struct {
	named
	Labels  []int    `json:"labels,omitzero"`
	Names   []string `json:"label_names,omitzero"`
	Entropy float64  `json:"entropy"`
}

// named is the most probable class.
type named struct {
	Label      string  `json:"label"` // its name, or its number
	Class      int     `json:"class"`
	Confidence float64 `json:"confidence"`
}

// ranked is one of the most probable classes.
type ranked struct {
	Label       string  `json:"label"`
	Class       int     `json:"class"`
	Probability float64 `json:"probability"`
	Network     float64 `json:"network_probability"` // the network's own
}

// defaultTop is how many classes an answer has.
const defaultTop = 5

// queryKeys are what the query of POST /v1/predict may have.
var queryKeys = []string{"model", "top", "method", "t_act", "t_ens", "max_doubt", "max_ood_score"}

// A question is what the query of a request says.
type question struct {
	model   string // "": the first
	top     int
	variant wrap.Variant
}

func questionOf(query string) (q question, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return q, invalid("broken query: %v", err)
	}
	parameters := oip.Parameters{}
	for key, all := range values {
		if !slices.Contains(queryKeys, key) {
			return q, invalid("there is no parameter %.70q; there are %q", key, queryKeys)
		}
		if len(all) > 1 {
			return q, invalid("parameter %q is given %d times, want it once", key, len(all))
		}
		parameters[key] = all[0]
	}
	q.model, q.top = values.Get("model"), defaultTop
	if text := values.Get("top"); values.Has("top") {
		if q.top, err = strconv.Atoi(text); err != nil || q.top < 1 {
			return q, invalid("parameter top is %.70q, want how many classes to list, 1 or more", text)
		}
	}
	q.variant, err = variantOf(parameters)
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
	q, err := questionOf(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	ctx, c, err := s.begin(r.Context(), cmp.Or(q.model, s.models[0].Name), "", r.Header.Get)
	if err != nil {
		return nil, err
	}
	defer func() { c.end(err) }()
	if c.body, err = readBody(r, 0, s.config.MaxBody, s.beyond("body"), &c.reservation); err != nil {
		return nil, err
	}
	err = c.model.use(func(rev *revision, p *wrap.Predictor) error {
		if err := p.CheckVariant(q.variant); err != nil {
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

// answerOf runs one example.
func (c *call) answerOf(ctx context.Context, rev *revision, p *wrap.Predictor, inputs []tensor.Tensor, q question) (
	*answer, error) {
	outputs, predictions, err := c.run(ctx, rev, p, inputs, q.variant)
	if err != nil {
		return nil, err
	}
	network, err := p.Predictions(outputs, wrap.Variant{Method: "mle"})
	if err != nil {
		return nil, err
	}
	one, plain := predictions[0], network[0]
	return &answer{
		Model: c.model.Name, SHA256: rev.sha256,
		named: name(one, rev.classes), Labels: one.Labels, Names: one.LabelNames,
		Top:     top(one.Probabilities, plain.Probabilities, q.top, rev.classes),
		Abstain: one.Abstain, AbstainReason: one.AbstainReason,
		Set: one.PredictionSet, SetNames: one.PredictionSetNames,
		OODScore: one.OODScore, OODPercentile: one.OODPercentile, Entropy: one.Entropy,
		Network: own{name(plain, rev.classes), plain.Labels, plain.LabelNames, plain.Entropy},
	}, nil
}

func label(class int, names []string) string {
	if len(names) > 0 {
		return names[class]
	}
	return strconv.Itoa(class)
}

func name(one wrap.Prediction, names []string) named {
	return named{label(one.Class, names), one.Class, one.Confidence}
}

// top lists the n most probable classes by p, and what the network gives them.
func top(p, network []float64, n int, names []string) []ranked {
	classes := make([]int, len(p))
	for i := range classes {
		classes[i] = i
	}
	slices.SortStableFunc(classes, func(a, b int) int { return cmp.Compare(p[b], p[a]) })
	list := make([]ranked, 0, min(n, len(p)))
	for _, c := range classes[:min(n, len(p))] {
		list = append(list, ranked{label(c, names), c, p[c], network[c]})
	}
	return list
}
