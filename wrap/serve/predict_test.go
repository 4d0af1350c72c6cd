package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/mfgs/mfgs/wrap/serve"
)

// pngOf returns a PNG file.
func pngOf(t *testing.T, m image.Image) string {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// digitFile returns a digit as a PNG file.
func digitFile(t *testing.T, i int) string {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 8, 8))
	for k, v := range wraptest.DigitTensor(t, i, i+1).Data.([]float32) {
		m.Pix[k] = uint8(v*255 + 0.5)
	}
	return pngOf(t, m)
}

// form returns a multipart form of field names and contents; those called file are files.
func form(t *testing.T, fields ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		create := w.CreateFormField
		if fields[i] == "file" {
			create = func(name string) (io.Writer, error) { return w.CreateFormFile(name, "digit.png") }
		}
		part, err := create(fields[i])
		if err != nil {
			t.Fatal(err)
		}
		part.Write([]byte(fields[i+1]))
	}
	w.Close()
	return b.String(), w.FormDataContentType()
}

// An answer is the answer to POST /v1/predict.
type answer struct {
	Model      string
	Label      string
	Class      int
	Labels     []int
	Names      []string `json:"label_names"`
	Confidence float64
	Top        []struct {
		Label       string
		Class       int
		Probability float64
		Network     float64 `json:"network_probability"`
	}
	Abstain       *bool
	Reason        string   `json:"abstain_reason"`
	Set           []int    `json:"prediction_set"`
	OODScore      float64  `json:"ood_score"`
	OODPercentile *float64 `json:"ood_percentile"`
	Entropy       float64
	Network       struct {
		Class      int
		Labels     []int
		Confidence float64
	}
}

// predict sends a request that must succeed.
func (r *running) predict(query, body string, headers ...string) answer {
	r.t.Helper()
	code, _, text := r.send("POST", "/v1/predict"+query, body, headers...)
	var a answer
	if err := json.Unmarshal(text, &a); code != http.StatusOK || err != nil {
		r.t.Fatalf("predict%s: %d %s", query, code, text)
	}
	return a
}

func TestEveryFormOfARequestGetsTheSamePrediction(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Name: "first", Dir: dir}, {Name: "second", Dir: dir}}})
	p := wraptest.Opened(t, dir, wrap.Options{})
	x := wraptest.DigitTensor(t, 1500, 1501)
	run, err := p.Run(t.Context(), []wrap.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	of := func(v wrap.Override) wrap.Prediction {
		applied, err := p.Apply(run, v)
		if err != nil {
			t.Fatal(err)
		}
		return applied.Predictions[0]
	}
	row, err := json.Marshal(x.Data)
	if err != nil {
		t.Fatal(err)
	}
	var nested []string
	for i := range 8 {
		line, _ := json.Marshal(x.Data.([]float32)[8*i : 8*i+8])
		nested = append(nested, string(line))
	}
	object := `{"image": [[` + strings.Join(nested, ",") + `]]}`
	file := digitFile(t, 1500)
	inForm, formType := form(t, "file", file)
	asField, fieldType := form(t, "image", file)
	none := 0.0
	for _, c := range []struct {
		name, query, body string
		headers           []string
		model             string
		v                 wrap.Override
	}{
		{"a file", "", file, nil, "first", wrap.Override{}},
		{"as curl calls it", "", file, []string{"Content-Type", "application/x-www-form-urlencoded"}, "first", wrap.Override{}},
		{"another model", "?model=second", file, []string{"Content-Type", "image/png"}, "second", wrap.Override{}},
		{"a form", "", inForm, []string{"Content-Type", formType}, "first", wrap.Override{}},
		{"a field of a form", "", asField, []string{"Content-Type", fieldType}, "first", wrap.Override{}},
		{"an object", "", object, []string{"Content-Type", "application/json"}, "first", wrap.Override{}},
		{"an object, as curl calls it", "", object, []string{"Content-Type", "application/x-www-form-urlencoded"}, "first", wrap.Override{}},
		{"temperatures", "?method=mf0&t_act=3&t_ens=0.001", file, nil, "first", wrap.Override{Method: "mf0", TAct: 3, TEns: 0.001}},
		{"thresholds", "?max_uncertainty=0&max_ood_score=0", file, nil, "first", wrap.Override{MaxUncertainty: &none, MaxOODScore: &none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, want, own := r.predict(c.query, c.body, c.headers...), of(c.v), of(wrap.Override{Method: "mle"})
			near := func(what string, got, want float64) {
				if !approx.Equal(got, want, 1e-4*want+1e-6) {
					t.Errorf("%s is %v, want %v", what, got, want)
				}
			}
			if got.Model != c.model || got.Class != want.Class || got.Network.Class != own.Class || len(got.Top) != 5 ||
				got.Abstain == nil || *got.Abstain != *want.Abstain || got.Reason != want.AbstainReason ||
				!slices.Equal(got.Set, want.PredictionSet) {
				t.Errorf("answer %+v, want %+v", got, want)
			}
			near("confidence", got.Confidence, want.Confidence)
			near("score", got.OODScore, want.OODScore)
			near("percentile", *got.OODPercentile, *want.OODPercentile)
			near("the network's confidence", got.Network.Confidence, own.Confidence)
			for i, one := range got.Top {
				if i > 0 && one.Probability > got.Top[i-1].Probability || one.Label != fmt.Sprint(one.Class) {
					t.Errorf("top %+v", got.Top)
				}
				near("a probability", one.Probability, want.Probabilities[one.Class])
				near("the network's", one.Network, own.Probabilities[one.Class])
			}
		})
	}
	t.Run("a row that is flat", func(t *testing.T) {
		code, _, text := r.send("POST", "/v1/predict", `{"image":`+string(row)+`}`)
		if code != 400 || !strings.Contains(string(text), "[N,1,8,8]") {
			t.Errorf("%d %s", code, text)
		}
	})
	if got := r.predict("?top=10", file); len(got.Top) != 10 {
		t.Errorf("%d classes, want all 10", len(got.Top))
	}
}

func TestPredictCompressesLongAnswers(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	_, plain, _ := r.send("POST", "/v1/predict?top=1", digitFile(t, 1500), "Accept-Encoding", "gzip")
	_, packed, _ := r.send("POST", "/v1/predict?top=10", digitFile(t, 1500), "Accept-Encoding", "gzip")
	if plain.Get("Content-Encoding") != "" || packed.Get("Content-Encoding") != "gzip" {
		t.Errorf("a short answer has the encoding %q, a long one %q", plain.Get("Content-Encoding"), packed.Get("Content-Encoding"))
	}
}

func TestPredictRefusesInOneLine(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: dir}}, MaxBody: 1 << 20, InFlight: 4 << 20})
	file := digitFile(t, 1500)
	inForm, formType := form(t, "file", file)
	two, twoType := form(t, "file", file, "file", file)
	field, fieldType := form(t, "model", "digits", "file", file)
	empty, emptyType := form(t)
	broken := "multipart/form-data; boundary=x"
	huge := []byte(pngOf(t, image.NewGray(image.Rect(0, 0, 8, 8))))
	copy(huge[16:24], []byte{0, 0, 0x40, 0, 0, 0, 0x40, 0}) // 16384 × 16384, and a wrong checksum
	large := pngOf(t, image.NewNRGBA(image.Rect(0, 0, 1000, 1000)))
	for _, c := range []struct {
		name, query, body, contentType string
		code                           int
		says                           string
	}{
		{"no such model", "?model=letters", file, "", 404, `there is no model "letters"; there are ["digits"]`},
		{"no such parameter", "?temperature=2", file, "", 400, `there is no parameter "temperature"; there are ["model"`},
		{"a parameter twice", "?method=ts&method=mf0", file, "", 400, `parameter "method" appears 2 times`},
		{"a broken query", "?a=%zz", file, "", 400, "malformed query"},
		{"a threshold that is none", "?max_uncertainty=2", file, "", 400, "max_uncertainty is 2, want a number from 0 to 1"},
		{"a score that is none", "?max_ood_score=-1", file, "", 400, "max_ood_score is -1, want a number from 0 to 1"},
		{"a temperature that is too high", "?method=mf0&t_ens=1e99", file, "", 400, "t_ens is 1e+99, want a number"},
		{"no number", "?t_act=NaN", file, "", 400, "t_act"},
		{"no such method", "?method=mood", file, "", 400, "mood"},
		{"no classes", "?top=0", file, "", 400, "parameter top is \"0\""},
		{"nothing", "", "", "", 400, "the body is empty"},
		{"text", "", "hello", "", 400, "not a PNG or JPEG file"},
		{"a form of nothing", "", empty, emptyType, 400, "the form has no file"},
		{"a form of two files", "", two, twoType, 400, "several files, want one"},
		{"a form of other fields", "", field, fieldType, 400, `field "model": send parameters in the query`},
		{"a form that is none", "", "hello", broken, 400, "the form has no file"},
		{"a form that ends early", "", inForm[:len(inForm)-30], formType, 400, "malformed form"},
		{"a broken type", "", file, "a/b/c", 400, "Content-Type"},
		{"an image of another size", "", pngOf(t, image.NewGray(image.Rect(0, 0, 9, 8))), "", 400, "8×9 grey image"},
		{"an image bomb", "", string(huge), "", 400, "broken PNG"},
		{"an image that takes too much memory", "", large, "", 413, "more memory than the limit for all requests"},
		{"a truncated image", "", file[:len(file)-20], "", 400, "broken PNG"},
		{"JSON that is none", "", `{"image": [`, "", 400, "broken JSON"},
		{"a list", "", `[1,2]`, "application/json", 400, "byte 0"},
		{"another name", "", `{"picture": [[1]], "mask": 2}`, "", 400, `no key "image" for the model's input`},
		{"a path of a file here", "", `{"image": "` + filepath.Join(dir, "x.png") + `"}`, "", 400, "of string"},
		{"too deep", "", `{"image": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "", 400, "dimensions"},
		{"too much JSON", "", `{"image": [` + strings.Repeat("1,", 200_000) + `1]}`, "", 413, "more memory than the limit for all requests"},
		{"too long", "", strings.Repeat("x", 1<<20+1), "", 413, "1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			headers := []string{"Content-Type", c.contentType}
			code, _, text := r.send("POST", "/v1/predict"+c.query, c.body, headers[:min(2, 2*len(c.contentType))]...)
			var e struct{ Error string }
			ok := json.Unmarshal(text, &e) == nil && strings.Contains(e.Error, c.says) && !strings.Contains(e.Error, "\n")
			if code != c.code || !ok {
				t.Errorf("%d %s, want %d and %q", code, text, c.code, c.says)
			}
		})
	}
	r.predict("", file) // all memory was given back
}

func TestAnImageTakesNoMoreMemoryThanIsReserved(t *testing.T) {
	const w, h = 640, 480
	gray := image.NewGray(image.Rect(0, 0, w, h))
	deep := image.NewNRGBA64(gray.Rect)
	deep.Set(3, 3, color.NRGBA64{1, 2, 3, 4})
	var baseline bytes.Buffer
	if err := jpeg.Encode(&baseline, deep, nil); err != nil {
		t.Fatal(err)
	}
	p := wraptest.Opened(t, digits(t), wrap.Options{})
	for name, file := range map[string]string{
		"grey": pngOf(t, gray), "16 bits": pngOf(t, deep), "colour": pngOf(t, image.NewNRGBA(gray.Rect)),
		"JPEG": baseline.String(), "progressive JPEG": string(wraptest.Read(t, "testdata/progressive.jpg")),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := p.ImageInputs([]byte(file))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "480×640") {
			t.Fatalf("%s: %v", name, err) // it was decoded, and does not fit
		}
		reserved, err := serve.ImageBytes([]byte(file))
		if err != nil {
			t.Fatal(err)
		}
		took := after.TotalAlloc - before.TotalAlloc
		if took > uint64(reserved)+256<<10 || reserved == 0 {
			t.Errorf("%s: %d bytes, and %d are reserved", name, took, reserved)
		}
	}
}

// made is a bundle of a model of torch's in testdata/onnx, [N,5] in, with targets for its outputs.
func made(t *testing.T, model string, targets wraptest.Array, classes ...string) string {
	t.Helper()
	n, dir := targets.Dims[0], t.TempDir()
	file := wraptest.Write(t, dir, "x.npz", wraptest.NPZ(t, map[string]wraptest.Array{
		"x": {Data: wraptest.Random(1, n*5), Dims: []int{n, 5}}, "labels": targets}))
	out := filepath.Join(dir, "made")
	wraptest.MustCalibrate(t, wraptest.Quick(calibration.Config{
		Model: filepath.Join("../../testdata/onnx", model), Train: file, Val: file, Out: out, Classes: classes}))
	return out
}

// Answers have the outputs in the model's metadata: with decisions if the bundle has them, and with abstain if the
// request has a threshold.
func TestOutputsAreAsDescribed(t *testing.T) {
	t.Parallel()
	const n = 200
	one := make([]int64, n)
	for i := range one {
		one[i] = int64(i % 2)
	}
	r := start(t, serve.Config{Bundles: []serve.Bundle{
		{Name: "digits", Dir: digits(t)},
		{Name: "two", Dir: made(t, "torch_binary.onnx", wraptest.Array{Data: one, Dims: []int{n}})},
	}})
	row := `{"inputs":[{"name":"x","shape":[1,5],"datatype":"FP32","data":[0.5,-1,2,0,1]}]`
	for _, c := range []struct {
		model, body string
		decisions   []string
	}{
		{"digits", inferBody(t, "", 1500, 1501, ""), []string{"abstain", "prediction_set"}},
		{"two", row + `}`, nil},
	} {
		var about oip.Metadata
		r.object("GET", "/v2/models/"+c.model, "", &about)
		var got inference
		r.object("POST", "/v2/models/"+c.model+"/infer", c.body, &got)
		var described, answered, decisions []string
		for _, o := range about.Outputs {
			described = append(described, fmt.Sprint(o.Name, o.Datatype, o.Shape[1:]))
			if o.Datatype == "BOOL" {
				decisions = append(decisions, o.Name)
			}
		}
		for _, o := range got.Outputs {
			answered = append(answered, fmt.Sprint(o.Name, o.Datatype, o.Shape[1:]))
		}
		if !slices.Equal(described, answered) || !slices.Equal(decisions, c.decisions) {
			t.Errorf("%s is described with %v, and answers %v; want the decisions %v", c.model, described, answered, c.decisions)
		}
	}
	for _, parameters := range []string{`{"max_uncertainty":0.5}`, `{"max_ood_score":0.5}`, `{}`} {
		code, _, answer := r.send("POST", "/v2/models/two/infer", row+`,"outputs":[{"name":"abstain"}],"parameters":`+parameters+`}`)
		if want := map[bool]int{true: 400, false: 200}[parameters == "{}"]; code != want {
			t.Errorf("abstain with %s: %d %s, want %d", parameters, code, answer, want)
		}
	}
}

func TestPredictAnswersForRowsOfModelsWithoutImages(t *testing.T) {
	t.Parallel()
	const n = 200
	one, many := make([]int64, n), make([]int64, 4*n)
	for i := range one {
		one[i] = int64(i % 2)
	}
	for i := range many {
		many[i] = int64(i * 7 % 3 & 1)
	}
	names := []string{"cat", "dog", "bird", "tree"}
	r := start(t, serve.Config{Bundles: []serve.Bundle{
		{Name: "two", Dir: made(t, "torch_binary.onnx", wraptest.Array{Data: one, Dims: []int{n}})},
		{Name: "labels", Dir: made(t, "torch_multilabel.onnx", wraptest.Array{Data: many, Dims: []int{n, 4}}, names...)},
	}})
	body := `{"x": [0.5, -1, 2, 0, 1]}`
	two := r.predict("?model=two&top=9", body)
	if len(two.Top) != 2 || !approx.Equal(two.Top[0].Probability+two.Top[1].Probability, 1, 1e-6) ||
		two.Label != fmt.Sprint(two.Class) || two.Abstain != nil || two.Set != nil || two.OODPercentile == nil {
		t.Errorf("of two classes: %+v", two)
	}
	labels := r.predict("?model=labels", body)
	if len(labels.Top) != 4 || len(labels.Labels) != len(labels.Names) || labels.Labels == nil ||
		labels.Network.Labels == nil {
		t.Errorf("of labels: %+v", labels)
	}
	for _, one := range labels.Top {
		if (one.Probability > 0.5) != slices.Contains(labels.Labels, one.Class) || !slices.Contains(names, one.Label) {
			t.Errorf("labels %v, but %+v", labels.Labels, one)
		}
	}
	var list struct {
		Models []struct {
			Name       string
			Images     bool
			Classes    int
			MultiLabel bool `json:"multi_label"`
		}
	}
	r.object("GET", "/v1/models", "", &list)
	if len(list.Models) != 2 || list.Models[0].Images || list.Models[1].Classes != 4 || !list.Models[1].MultiLabel {
		t.Errorf("models %+v", list)
	}
	code, _, text := r.send("POST", "/v1/predict?model=two", digitFile(t, 1500))
	if code != 400 || !strings.Contains(string(text), "does not take images: send a JSON object of its inputs") {
		t.Errorf("an image for rows: %d %s", code, text)
	}
}
