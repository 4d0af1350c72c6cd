package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"image"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/featurize/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/serve/oip"
)

// An answer is what POST /v1/predict gives: for people, and programs that want no tensors.
type answer struct {
	Model string `json:"model"`
	named
	Labels []int    `json:"labels,omitzero"` // of a multi-label model: those with p > ½
	Names  []string `json:"label_names,omitzero"`

	Abstain       *bool    `json:"abstain,omitempty"`
	AbstainReason string   `json:"abstain_reason,omitempty"`
	Set           []int    `json:"prediction_set,omitzero"`
	SetNames      []string `json:"prediction_set_names,omitzero"`

	OODScore      float64  `json:"ood_score"`
	OODPercentile *float64 `json:"ood_percentile"`
	Entropy       float64  `json:"entropy"` // nats

	Top []ranked `json:"top"` // the most probable classes, at most mostTop
	// Network is what the network itself says.
	Network struct {
		named
		Top []ranked `json:"top"`
	} `json:"network"`
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
}

const mostTop = 5

// predict answers POST /v1/predict.
func (s *Server) predict(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	ctx, c, err := s.beginHTTP(r, cmp.Or(query.Get("model"), s.models[0].Name), "")
	if err != nil {
		s.refuse(w, err)
		return
	}
	defer func() { c.end(err) }()
	parameters := oip.Parameters{}
	for key := range query {
		parameters[key] = query.Get(key)
	}
	v, err := variantOf(parameters)
	if err != nil {
		s.refuse(w, err)
		return
	}
	body, err := readBody(r, s.config.MaxBody, &c.reservation)
	if err != nil {
		s.refuse(w, err)
		return
	}
	var a *answer
	err = c.model.use(func(g *generation, p *wrap.Predictor) error {
		inputs, err := inputsOf(p, r.Header.Get("Content-Type"), body, &c.reservation)
		if err != nil {
			return err
		}
		a, err = c.answerOf(ctx, g, p, inputs, v)
		return err
	})
	if err != nil {
		s.refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, a)
}

// answerOf runs one example.
func (c *call) answerOf(ctx context.Context, g *generation, p *wrap.Predictor, inputs []tensor.Tensor, v wrap.Variant) (
	*answer, error) {
	outputs, predictions, err := c.run(ctx, g, p, inputs, v)
	if err != nil {
		return nil, err
	}
	own, err := p.Predictions(outputs, wrap.Variant{Method: "mle"})
	if err != nil {
		return nil, err
	}
	one := predictions[0]
	a := &answer{
		Model: c.model.Name, named: name(one, g.classes), Labels: one.Labels, Names: one.LabelNames,
		Abstain: one.Abstain, AbstainReason: one.AbstainReason,
		Set: one.PredictionSet, SetNames: one.PredictionSetNames,
		OODScore: one.OODScore, OODPercentile: one.OODPercentile, Entropy: one.Entropy,
		Top: top(one, g.classes),
	}
	a.Network.named, a.Network.Top = name(own[0], g.classes), top(own[0], g.classes)
	return a, nil
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

func top(one wrap.Prediction, names []string) []ranked {
	classes := make([]int, len(one.Probabilities))
	for i := range classes {
		classes[i] = i
	}
	p := one.Probabilities
	slices.SortStableFunc(classes, func(a, b int) int { return cmp.Compare(p[b], p[a]) })
	var list []ranked
	for _, c := range classes[:min(mostTop, len(classes))] {
		list = append(list, ranked{label(c, names), c, one.Probabilities[c]})
	}
	return list
}

// inputsOf turns the body of a request into model inputs: a JSON object of them, or an image file, alone or
// as the only file of a form.
func inputsOf(p *wrap.Predictor, contentType string, body []byte, memory *reservation) ([]tensor.Tensor, error) {
	kind, parameters, err := mime.ParseMediaType(cmp.Or(contentType, "application/octet-stream"))
	if err != nil {
		return nil, invalid("Content-Type %.70q: %v", contentType, err)
	}
	switch {
	case kind == "application/json":
		inputs, err := p.JSONInputs(body)
		return inputs, asInvalid(err)
	case kind == "multipart/form-data":
		if body, err = onlyFile(multipart.NewReader(bytes.NewReader(body), parameters["boundary"])); err != nil {
			return nil, err
		}
	case kind == "application/x-www-form-urlencoded":
		return nil, invalid("Content-Type %s: send the image itself, a form with a file (multipart/form-data), or a JSON object (application/json)", kind)
	}
	if err := checkImage(body, memory); err != nil {
		return nil, err
	}
	inputs, err := p.ImageInputs(body)
	return inputs, asInvalid(err)
}

// onlyFile returns the file in a form.
func onlyFile(form *multipart.Reader) ([]byte, error) {
	var file []byte
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, invalid("broken form: %v", err)
		}
		data, err := io.ReadAll(part) // no more than the body
		if err != nil {
			return nil, invalid("broken form: %v", err)
		}
		if part.FileName() == "" && part.FormName() != "image" {
			continue
		}
		if file != nil {
			return nil, invalid("the form has several files, want one")
		}
		file = data
	}
	if file == nil {
		return nil, invalid("the form has no file, want one: the image")
	}
	return file, nil
}

// maxPixels bounds the images of requests, and bytesPixel is about how much memory each pixel takes while
// one is decoded.
const (
	maxPixels  = 32 << 20
	bytesPixel = 8
)

func checkImage(file []byte, memory *reservation) error {
	c, _, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil // what is wrong with it shows where it is decoded
	}
	if c.Width > maxPixels || c.Height > maxPixels || c.Width*c.Height > maxPixels {
		return invalid("an image of %d×%d pixels, want at most %d in all", c.Width, c.Height, maxPixels)
	}
	return memory.add(int64(c.Width) * int64(c.Height) * bytesPixel)
}

// writeJSON writes a document.
func writeJSON(w http.ResponseWriter, code int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // what is written here has JSON
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes())
}
