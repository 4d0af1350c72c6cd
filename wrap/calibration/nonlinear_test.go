package calibration_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// withTail replaces the outputs of a forest by one of nodes behind its probabilities.
func withTail(width int, nodes ...*onnxpb.Node) func(*onnxtest.Forest, *onnxpb.Model) {
	return func(_ *onnxtest.Forest, m *onnxpb.Model) {
		m.Graph.Node = append(m.Graph.Node, nodes...)
		m.Graph.Initializer = append(m.Graph.Initializer, onnxtest.FloatTensor("three", []float64{3}, 1),
			onnxtest.FloatTensor("half", []float64{0.5}, 1), onnxtest.FloatTensor("hundred", []float64{100}, 1),
			onnxtest.FloatTensor("little", []float64{1e-3}, 1), &onnxpb.Tensor{Name: proto.String("second"), Dims: []int64{1},
				DataType: proto.Int32(int32(tensor.Int64)), Int64Data: []int64{1}})
		m.Graph.Output = []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, int64(width))}
	}
}

// Tails of a forest by what their numbers are.
var (
	secondColumn = withTail(1, onnxtest.Node("Gather", "probabilities second", "y", onnxpb.IntAttribute("axis", 1)))
	logarithms   = func(k int) func(*onnxtest.Forest, *onnxpb.Model) {
		// The smoothed frequencies add up to 1 as before.
		return withTail(k, onnxtest.Node("Add", "probabilities little", "p"), onnxtest.Node("ReduceSum", "p", "total"),
			onnxtest.Node("LogSoftmax", "log", "y", onnxpb.IntAttribute("axis", 1)), onnxtest.Node("Log", "p", "log"))
	}
	tripled = func(k int) func(*onnxtest.Forest, *onnxpb.Model) {
		return withTail(k, onnxtest.Node("Mul", "probabilities three", "y"))
	}
	halved = func(k int) func(*onnxtest.Forest, *onnxpb.Model) {
		return withTail(k, onnxtest.Node("Mul", "probabilities half", "y"))
	}
	onlyRow = withTail(1, onnxtest.Node("Gather", "probabilities second", "column", onnxpb.IntAttribute("axis", 1)), onnxtest.Node("Mul", "column three", "y"))
)

// grown is the probabilities, larger where a column is above 100.
var grown = withTail(4, onnxtest.Node("Gather", "x second", "column", onnxpb.IntAttribute("axis", 1)),
	onnxtest.Node("Max", "column hundred", "large"), onnxtest.Node("Div", "large hundred", "by"),
	onnxtest.Node("Mul", "probabilities by", "y"))

// centred is the probabilities minus their mean over the examples of a batch.
var centred = withTail(4,
	onnxtest.Node("ReduceMean", "probabilities", "mean", onnxpb.IntsAttribute("axes", 0)),
	onnxtest.Node("Sub", "probabilities mean", "y"))

// What an output is is found from its numbers, recorded, and said.
func TestTheKindOfAnOutputIsFound(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		classes int
		tail    func(*onnxtest.Forest, *onnxpb.Model)
		link    layer.Link
		kind    head.Kind
		head    layer.Head
		why     string
	}{
		"probabilities": {4, nil, "", head.Probabilities, layer.Head{Logits: 4, Link: layer.Softmax}, "add up to 1: probabilities"},
		"of two":        {2, nil, "", head.Probabilities, layer.Head{Logits: 2, Link: layer.Softmax}, "add up to 1: probabilities"},
		"one column":    {2, secondColumn, "", head.Probabilities, layer.Head{Logits: 2, Link: layer.Softmax}, "lie in [0,1]: the probability of the second class"},
		"logarithms":    {4, logarithms(4), "", head.LogProbabilities, layer.Head{Logits: 4, Link: layer.Softmax}, "exponentials add up to 1: log-probabilities"},
		"scores":        {4, tripled(4), "", head.Scores, layer.Head{Logits: 4, Link: layer.Softmax}, "scores, larger for a more likely class"},
		"one score":     {2, onlyRow, "", head.Scores, layer.Head{Logits: 1, Link: layer.Sigmoid}, "scores, larger for a more likely class"},
		"rest":          {4, halved(4), layer.OneVsRest, head.Probabilities, layer.Head{Logits: 4, Link: layer.OneVsRest}, "a probability for each class"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := wraptest.ForestConfig(t, tt.classes, tt.tail)
			c.Head.Link, c.OOD = tt.link, ""
			var notices []string
			c.Notice = func(s string) { notices = append(notices, s) }
			r := mustCalibrate(t, c)
			tt.head.Nonlinear = true
			if r.Head.Kind != tt.kind || r.Head.Head.Head != tt.head || r.Structure != "" || r.Covariance != "" ||
				r.Validation.MF0 != nil {
				t.Errorf("report %+v", r)
			}
			if !slices.ContainsFunc(notices, func(s string) bool { return strings.Contains(s, tt.why) }) {
				t.Errorf("notices %q, want %q", notices, tt.why)
			}
			b, err := bundle.Open(c.Out)
			if err != nil {
				t.Fatal(err)
			}
			if m := b.Manifest; m.Head.Kind != tt.kind || m.Settings.Head.Kind != head.None || m.Head.Head != tt.head {
				t.Errorf("manifest of %+v with %+v", m.Head, m.Settings)
			}
			// Declared, it is the same.
			c.Head.Kind, c.Out = tt.kind, c.Out+"-declared"
			mustCalibrate(t, c)
			declared, err := bundle.Open(c.Out)
			if err != nil || declared.Manifest.Temperatures != b.Manifest.Temperatures ||
				declared.Manifest.Head.Head != b.Manifest.Head.Head {
				t.Errorf("declared: %+v, %v", declared.Manifest.Temperatures, err)
			}
			if p, err := opened(t, c.Out, Options{}).Predict(t.Context(),
				[]Tensor{wraptest.ForestInputs(tt.classes, 3)}); err != nil ||
				len(p) != 3 || p[0].LogitVariance != nil {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// forestOfLabels is a calibration of labels that do not exclude each other.
func forestOfLabels(t *testing.T) (Config, Tensor) {
	t.Helper()
	const n = 400
	c := wraptest.ForestConfig(t, 4, nil)
	x := wraptest.ForestInputs(4, n)
	p := onnxtest.NewForest(4).Probabilities(x.Data.([]float32))
	var y []int64
	for i, u := range random(3, n*4) {
		if y = append(y, 0); 0.5+float64(u)/4 < p[i] {
			y[i] = 1
		}
	}
	c.Val = write(t, filepath.Dir(c.Out), "labels.npz", npz(t, map[string]array{"x": arrayOf(x.Data, n, 4), "labels": arrayOf(y, n, 4)}))
	c.Head.Link = layer.Sigmoid
	return c, x
}

// The threshold of a request is of the mean uncertainty of the labels, also where the bundle has no decisions.
func TestAThresholdOfARequestIsOfTheLabels(t *testing.T) {
	t.Parallel()
	c, x := forestOfLabels(t)
	mustCalibrate(t, c)
	p := opened(t, c.Out, Options{})
	outputs, err := p.Run(t.Context(), []Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	most, abstained := 0.2, 0
	got, err := p.Apply(outputs, Override{MaxUncertainty: &most})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range got.Predictions {
		if one.Abstain == nil || *one.Abstain != (1-one.Confidence > most) {
			t.Fatalf("%+v with the threshold %v", one, most)
		}
		if *one.Abstain {
			abstained++
		}
	}
	if abstained == 0 || abstained == len(got.Predictions) {
		t.Errorf("%d of %d abstain, which tells nothing", abstained, len(got.Predictions))
	}
}

// A forest of labels that do not exclude each other is calibrated label by label.
func TestLabelsWithoutALayer(t *testing.T) {
	t.Parallel()
	c, x := forestOfLabels(t)
	r := mustCalibrate(t, c)
	if !r.Head.MultiLabel() || r.Head.Kind != head.Probabilities || r.Validation.After.NLL >= r.Validation.Before.NLL {
		t.Errorf("%+v: NLL %v before, %v after", r.Head, r.Validation.Before.NLL, r.Validation.After.NLL)
	}
	got, err := opened(t, c.Out, Options{}).Predict(t.Context(), []Tensor{wraptest.First([]Tensor{x}, 5)[0]})
	if err != nil || len(got[0].Probabilities) != 4 || got[0].Labels == nil || got[0].LogitVariance != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// What does not fit is refused before anything is written, in one line that names the way out.
func TestCalibrateRefusesWithoutALayer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tail  func(*onnxtest.Forest, *onnxpb.Model)
		edit  func(*Config)
		words []string
	}{
		"in [0,1] and not adding up": {halved(4), func(*Config) {}, []string{`val: "y": `, "do not add up to 1 (by up to 0.5)", "Link sigmoid", "one-vs-rest", "Kind scores"}},
		"scores as probabilities":    {tripled(4), func(c *Config) { c.Head.Kind = head.Probabilities }, []string{"Kind probabilities", `"y"`, "want 1", "Kind none finds out"}},
		"halves as probabilities":    {halved(4), func(c *Config) { c.Head.Kind = head.Probabilities }, []string{"Kind probabilities", "add up to 0.5, want 1", "Link sigmoid"}},
		"probabilities as logs":      {nil, func(c *Config) { c.Head.Kind = head.LogProbabilities }, []string{"Kind log-probabilities", "want 1"}},
		"one score as probability":   {onlyRow, func(c *Config) { c.Head.Kind = head.Probabilities }, []string{"Kind probabilities", "want 1"}},
		"log-probabilities of labels": {logarithms(4), func(c *Config) { c.Head.Kind, c.Head.Link = head.LogProbabilities, layer.Sigmoid },
			[]string{"Link sigmoid", "exclude each other"}},
		"an unknown kind":                {nil, func(c *Config) { c.Head.Kind = "forest" }, []string{`Kind "forest"`, "want none, probabilities"}},
		"a covariance":                   {nil, func(c *Config) { c.Covariance = calibrate.Hessian }, []string{"Covariance is for the posterior", "Kind none has none: leave it out"}},
		"a structure":                    {nil, func(c *Config) { c.Structure = calibrate.Full }, []string{"Structure is for the posterior"}},
		"a damping":                      {nil, func(c *Config) { c.Damping.Relative = 1 }, []string{"Damping is for the posterior"}},
		"a lambda0":                      {nil, func(c *Config) { c.Lambda0 = 0.3 }, []string{"lambda0 is for the posterior"}},
		"an approximation":               {nil, func(c *Config) { c.Head.Approximate = head.IgnoreRelu }, []string{"Approximate is for the posterior"}},
		"a curvature":                    {nil, func(c *Config) { c.KeepCurvature = true }, []string{"KeepCurvature is for a linear last layer", "leave it out"}},
		"precomputed features":           {nil, func(c *Config) { c.PrecomputedFeatures, c.Model = true, "" }, []string{"Kind none needs a model"}},
		"no validation data":             {nil, func(c *Config) { c.Val = "" }, []string{"Val is missing"}},
		"features and no training data":  {nil, func(c *Config) { c.Head.Features, c.Train = "x", "" }, []string{"Train is missing", "Features x"}},
		"features that are not there":    {nil, func(c *Config) { c.Head.Features = "z" }, []string{`no tensor "z"`}},
		"a score of leverages":           {nil, func(c *Config) { c.OODScore = "leverage" }, []string{"the score leverage needs a linear last layer"}},
		"the score of a layer":           {nil, func(c *Config) { c.OODScore = "studentized" }, []string{"the score studentized needs a linear last layer"}},
		"a learned score":                {nil, func(c *Config) { c.OODScore = "learned" }, []string{"the score learned needs a linear last layer"}},
		"a score of no features":         {nil, func(c *Config) { c.OODScore = "column_mahalanobis" }, []string{"the score column_mahalanobis needs features", "Features names a tensor"}},
		"one number for several classes": {onlyRow, func(c *Config) { c.Head.Link = layer.OneVsRest }, []string{"one-vs-rest is for several classes", "has one number"}},
		"scores as those of labels": {tripled(4), func(c *Config) { c.Head.Kind, c.Head.Link = head.Probabilities, layer.OneVsRest },
			[]string{"Kind probabilities", "one lies outside [0,1]"}},
		"what the batch changes":        {centred, func(*Config) {}, []string{`"y": the numbers of an example depend on the other examples of its batch`}},
		"other numbers later":           {grown, func(c *Config) { c.Val = laterVal(t, 4, 1e3, 0) }, []string{`"y" holds probabilities for the first examples, and not for others`, "say what they are with", "Kind"}},
		"other numbers later, declared": {grown, func(c *Config) { c.Val, c.Head.Kind = laterVal(t, 4, 1e3, 0), head.Probabilities }, []string{"Kind probabilities", "add up to 10, want 1"}},
		"a label that is no class":      {nil, func(c *Config) { c.Val = laterVal(t, 4, 0, 9) }, []string{"label 9 is outside [0,4)"}},
		"no kind":                       {nil, func(c *Config) { c.Head.Kind = head.Linear }, []string{"no classification head", "with Kind none"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			classes := 4
			if name == "one score as probability" || name == "one number for several classes" {
				classes = 2
			}
			c := wraptest.ForestConfig(t, classes, tt.tail)
			c.Out = filepath.Join(t.TempDir(), "b")
			tt.edit(&c)
			_, err := Calibrate(t.Context(), c)
			says(t, err, tt.words...)
			if left := list(t, filepath.Dir(c.Out)); len(left) > 0 && !slices.Equal(left, []string{"b.checkpoint"}) {
				t.Errorf("there lie %q", left)
			}
		})
	}
}

// laterVal writes the validation data of a forest, with another number in the last record, and labels that are all
// the same if one is given.
func laterVal(t *testing.T, classes int, number float32, label int64) string {
	x, labels := onnxtest.NewForest(classes).Draw(12, wraptest.ForestVal)
	if number != 0 {
		x[len(x)-onnxtest.ForestColumns+1] = number
	}
	for i := range labels {
		if label != 0 {
			labels[i] = label
		}
	}
	return write(t, t.TempDir(), "val.npz", npz(t, map[string]array{"x": arrayOf(x, wraptest.ForestVal, onnxtest.ForestColumns),
		"labels": arrayOf(labels, wraptest.ForestVal)}))
}

// One number is a probability of two classes or a score of two, whatever of the two links is named for it.
func TestOneNumberHasTheLinkOfItsKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tail func(*onnxtest.Forest, *onnxpb.Model)
		link layer.Link
		want layer.Head
	}{
		{secondColumn, layer.Sigmoid, layer.Head{Logits: 2, Link: layer.Softmax, Nonlinear: true}},
		{onlyRow, layer.Softmax, layer.Head{Logits: 1, Link: layer.Sigmoid, Nonlinear: true}},
	} {
		config := wraptest.ForestConfig(t, 2, c.tail)
		config.Head.Link, config.OOD = c.link, ""
		if r := mustCalibrate(t, config); r.Head.Head.Head != c.want {
			t.Errorf("%s: head %+v, want %+v", c.link, r.Head.Head.Head, c.want)
		}
		if b, err := bundle.Open(config.Out); err != nil || b.Manifest.Settings.Head.Link != c.link {
			t.Errorf("%s: %v", c.link, err)
		}
	}
}

// A fixed input is one in everything that a bundle does, and its file is the model as it was.
func TestFixedInputsStayInABundle(t *testing.T) {
	t.Parallel()
	c := wraptest.ForestConfig(t, 4, func(f *onnxtest.Forest, m *onnxpb.Model) {
		tripled(4)(f, m)
		branch := func(name, in string) *onnxpb.Attribute {
			g := &onnxpb.Graph{Name: proto.String(name), Node: []*onnxpb.Node{onnxtest.Node("Identity", in, name)},
				Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo(name, tensor.Float32)}}
			return &onnxpb.Attribute{Name: proto.String(name + "_branch"), Type: proto.Int32(onnxpb.TypeGraph), G: g}
		}
		m.Graph.Node = append(m.Graph.Node,
			onnxtest.Node("If", "training", "z", branch("then", "y"), branch("else", "probabilities")))
		m.Graph.Input = append(m.Graph.Input, onnxpb.TensorInfo("training", tensor.Bool))
		m.Graph.Output[0].Name = proto.String("z")
	})
	c.OOD = ""
	_, err := Calibrate(t.Context(), c)
	says(t, err, "training")
	c.Head.Fix = "training=false"
	if r := mustCalibrate(t, c); r.Head.Kind != head.Probabilities {
		t.Errorf("kind %s, want that of the branch not taken in training", r.Head.Kind)
	}
	b, err := bundle.Open(c.Out)
	if err != nil || b.Manifest.Head.Fix != c.Head.Fix {
		t.Fatalf("fixed %q, %v", b.Manifest.Head.Fix, err)
	}
	model, err := onnx.Open(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	if b.Manifest.Model.SHA256 != model.SHA256() {
		t.Error("the bundle names another model")
	}
	x := wraptest.ForestInputs(4, 3)
	p, err := opened(t, c.Out, Options{}).Predict(t.Context(), []Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	want := onnxtest.NewForest(4).Probabilities(x.Data.([]float32))
	for i, one := range p {
		for j, a := range one.Logits {
			if e := math.Log(math.Max(want[i*4+j], head.LeastProbability)); !approx.Equal(float64(a), e, 1e-5) {
				t.Errorf("logit %d of %d is %v, want %v", j, i, a, e)
			}
		}
	}
}

// The probabilities that a library gives are compared with the model's, record by record.
func TestExpectedProbabilitiesAreCompared(t *testing.T) {
	t.Parallel()
	const n = wraptest.ForestVal
	for _, classes := range []int{2, 4} {
		f := onnxtest.NewForest(classes)
		x, _ := f.Draw(12, n) // those of ForestConfig
		p := f.Probabilities(x)
		single := make([]float32, len(p))
		var second []float32
		for i, v := range p {
			if single[i] = float32(v); i%classes == 1 {
				second = append(second, float32(v))
			}
		}
		off := slices.Clone(single)
		for _, i := range []int{7, 120, 250} {
			off[i*classes] += 0.05
		}
		off[250*classes] += 0.1
		missing := slices.Clone(single)
		missing[3*classes] = float32(math.NaN())
		dir := t.TempDir()
		file := func(name string, a array) string { return write(t, dir, name+".npy", wraptest.NPY(a)) }
		equal, different := file("equal", arrayOf(single, n, classes)), file("off", arrayOf(off, n, classes))
		for name, tt := range map[string]struct {
			expected, slice string
			warning, err    string
		}{
			"equal":                   {equal, "", "", ""},
			"different":               {different, "", fmt.Sprintf("on 3 of %d validation examples, by up to 0.15", n), ""},
			"different at one":        {different + "[200:300]", "[200:300]", "on 1 of 100 validation examples, by up to 0.15 (val.npz[250])", ""},
			"too few":                 {equal + "[1:]", "", "", fmt.Sprintf("has %d records, and the validation data %d", n-1, n)},
			"another slice":           {equal + "[10:60]", "[0:50]", "on ", ""},
			"the same slice":          {equal + "[100:300]", "[100:300]", "", ""},
			"a slice of another file": {file("part", arrayOf(single[100*classes:], n-100, classes)), "[100:]", "", ""},
			"whole for a slice":       {equal, "[100:]", "", fmt.Sprintf("has %d records, and the validation data %d", n, n-100)},
			"no such file":            {filepath.Join(dir, "none.npy"), "", "", "none.npy"},
			"another width":           {file("wide", arrayOf(make([]float32, n*5), n, 5)), "", "", fmt.Sprintf("5 numbers, want the probabilities of %d classes", classes)},
			"missing numbers":         {file("nan", arrayOf(missing, n, classes)), "", "", "NaN, want probabilities"},
			"whole numbers":           {file("whole", arrayOf(make([]int64, n*classes), n, classes)), "", "", "want float32 or float64 probabilities"},
		} {
			if classes == 2 && tt.slice != "" {
				continue
			}
			t.Run(fmt.Sprintf("%d/%s", classes, name), func(t *testing.T) {
				t.Parallel()
				checkExpected(t, classes, tt.expected, tt.slice, tt.warning, tt.err)
			})
		}
		if classes == 2 {
			one := file("second", arrayOf(second, n))
			t.Run("the second of two", func(t *testing.T) { t.Parallel(); checkExpected(t, classes, one, "", "", "") })
			column := file("column", arrayOf(second, n, 1))
			t.Run("a column", func(t *testing.T) { t.Parallel(); checkExpected(t, classes, column, "", "", "") })
		}
	}
}

func checkExpected(t *testing.T, classes int, expected, slice, warning, problem string) {
	t.Helper()
	c := wraptest.ForestConfig(t, classes, nil)
	c.Val, c.Expected, c.OOD, c.KeepClass = c.Val+slice, expected, "", true
	var notices []string
	c.Notice = func(s string) { notices = append(notices, s) }
	r, err := Calibrate(t.Context(), c)
	if problem != "" {
		says(t, err, "expected: ", problem)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	about := func(s string) bool { return strings.HasPrefix(s, "expected: ") }
	i, j := slices.IndexFunc(r.Warnings, about), slices.IndexFunc(notices, about)
	switch {
	case warning == "" && (i >= 0 || j < 0):
		t.Errorf("warnings %q, notices %q", r.Warnings, notices)
	case warning != "" && (i < 0 || j >= 0 || !strings.Contains(r.Warnings[i], warning)):
		t.Errorf("warnings %q, notices %q, want %q", r.Warnings, notices, warning)
	}
}

// Votes of none are counted, and those for the label that would make the NLL infinite.
func TestProbabilitiesOfZeroAreCounted(t *testing.T) {
	t.Parallel()
	const n, k = wraptest.ForestVal, 4
	f := onnxtest.NewForest(k)
	x, labels := f.Draw(12, n)
	zeros, wrong := 0, 0
	for i, p := range f.Probabilities(x) {
		if p == 0 {
			if zeros++; wrong < 3 && i/k%10 == 0 {
				labels[i/k] = int64(i % k)
			}
		}
		if p == 0 && int(labels[i/k]) == i%k {
			wrong++
		}
	}
	if zeros < 10 || wrong != 3 {
		t.Fatalf("%d zeros, %d of labels: the forest does not serve", zeros, wrong)
	}
	for name, tail := range map[string]func(*onnxtest.Forest, *onnxpb.Model){"votes": nil, "logarithms": logarithms(k)} {
		c := wraptest.ForestConfig(t, k, tail)
		c.OOD, c.KeepClass = "", true
		c.Val = write(t, filepath.Dir(c.Out), "zeros.npz", npz(t, map[string]array{"x": arrayOf(x, n, 4), "labels": arrayOf(labels, n)}))
		r := mustCalibrate(t, c)
		want := ""
		if name == "votes" {
			want = fmt.Sprintf("val: %d of %d probabilities are 0, or below 6e-08, and are taken as that; 3 of them are the label's", zeros, k*n)
		}
		i := slices.IndexFunc(r.Warnings, func(s string) bool { return strings.Contains(s, "probabilities are 0") })
		if (i >= 0) != (want != "") || i >= 0 && !strings.HasPrefix(r.Warnings[i], want) {
			t.Errorf("%s: warnings %q, want %q", name, r.Warnings, want)
		}
	}
}

// Without features training data are not read. With them they are, for the scores alone.
func TestTrainingDataAreForScoresAlone(t *testing.T) {
	t.Parallel()
	c := wraptest.ForestConfig(t, 4, nil)
	var notices []string
	c.Notice = func(s string) { notices = append(notices, s) }
	c.OOD = ""
	r := mustCalibrate(t, c)
	if r.Examples.Train != 0 || r.OODScore.Name != "entropy" || !slices.ContainsFunc(notices, func(s string) bool {
		return strings.Contains(s, "is not read: without a linear layer there is no posterior")
	}) {
		t.Errorf("%+v, score %+v, notices %q", r.Examples, r.OODScore, notices)
	}
	bare := read(t, filepath.Join(c.Out, bundle.ManifestName))
	c.Train, c.Out, notices = "", c.Out+"-bare", nil
	mustCalibrate(t, c)
	if slices.ContainsFunc(notices, func(s string) bool { return strings.Contains(s, "train") }) ||
		string(bare) != string(read(t, filepath.Join(c.Out, bundle.ManifestName))) {
		t.Errorf("without training data the bundle is another, notices %q", notices)
	}

	c = wraptest.ForestConfig(t, 4, nil)
	c.Head.Features, c.OOD = "x", ""
	r = mustCalibrate(t, c)
	if r.Examples.Train != wraptest.ForestTrain || r.OODScore.Name != "column_mahalanobis" ||
		r.Head.Features != 8 { // and flags of missing values
		t.Errorf("%+v, score %+v of %+v", r.Examples, r.OODScore, r.Head)
	}
	far, err := opened(t, c.Out, Options{}).Predict(t.Context(),
		[]Tensor{{Name: "x", Shape: []int64{2, 4}, Data: []float32{0, 0, 0, 0, 40, 0, 0, 0}}})
	if err != nil || !(*far[1].OODPercentile > 0.99) || !(*far[0].OODPercentile < 0.99) {
		t.Errorf("%+v, %v", far, err)
	}
	// The validation data for both: nothing is left out of a posterior that is not there.
	for _, features := range []string{"", "x"} {
		c := wraptest.ForestConfig(t, 4, nil)
		c.Head.Features, c.Train = features, c.Val
		if r := mustCalibrate(t, c); features == "" && r.Examples.Train != 0 || features != "" &&
			r.Examples.Train != wraptest.ForestVal {
			t.Errorf("%q: %+v", features, r.Examples)
		}
	}
}

// Parts of a calibration give what one run gives, in any grouping the same bytes, with features and without.
func TestPartsWithoutALayerAreOneRun(t *testing.T) {
	t.Parallel()
	for _, features := range []string{"", "x"} {
		t.Run("features "+features, func(t *testing.T) {
			t.Parallel()
			c := wraptest.ForestConfig(t, 4, nil)
			c.Head.Features, c.KeepClass, c.OOD = features, true, ""
			f, n := onnxtest.NewForest(4), 2*rows.BlockSize+10 // a block for each part
			for role, seed := range map[*string]uint64{&c.Val: 15, &c.Train: 16} {
				x, labels := f.Draw(seed, n)
				*role = write(t, filepath.Dir(c.Out), fmt.Sprintf("%d.npz", seed),
					npz(t, map[string]array{"x": arrayOf(x, n, 4), "labels": arrayOf(labels, n)}))
			}
			mustCalibrate(t, c)
			if features != "" {
				sameFiles(t, "one part", merged(t, parts(t, c, 1)...), c.Out)
			}
			partsAreOneRun(t, c)
		})
	}
}

// partsAreOneRun checks that three parts of a calibration, merged in any groups, give what one run gave.
func partsAreOneRun(t *testing.T, c Config) {
	t.Helper()
	all := parts(t, c, 3)
	got := merged(t, all...)
	slices.Reverse(all)
	sameFiles(t, "in groups", merged(t, group(t, all[:2]...), all[2]), got)
	// The datasets say which parts were read.
	manifest := func(dir string) bundle.Manifest {
		b, err := bundle.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Manifest.Datasets {
			b.Manifest.Datasets[i].Fingerprint, b.Manifest.Datasets[i].Parts = "", nil
		}
		return b.Manifest
	}
	if a, b := manifest(got), manifest(c.Out); !reflect.DeepEqual(a, b) {
		t.Errorf("manifest %+v, of one run %+v", a, b)
	}
}

// A part without validation data says so.
func TestPartsWithoutALayerNeedValidationData(t *testing.T) {
	t.Parallel()
	c := wraptest.ForestConfig(t, 4, nil)
	c.Head.Features, c.Val, c.OOD, c.OODScore = "x", "", "", "column_knn"
	all := parts(t, c, 1)
	_, err := Merge(t.Context(), MergeConfig{Parts: all, Out: filepath.Join(t.TempDir(), "b")})
	says(t, err, "no part has val data")
}

// Parts of which one has the kind of another are not of one calibration.
func TestPartsOfAnotherKindAreRefused(t *testing.T) {
	t.Parallel()
	c := wraptest.ForestConfig(t, 4, nil)
	first := parts(t, c, 2)
	c.Head.Kind = head.Scores
	second := parts(t, c, 2)
	_, err := Merge(t.Context(), MergeConfig{Parts: []string{first[0], second[1]}, Out: filepath.Join(t.TempDir(), "b")})
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// A calibration that is interrupted at any stage continues to the same bytes.
func TestAnInterruptedCalibrationWithoutALayerContinues(t *testing.T) {
	t.Cleanup(CheckpointEvery(0)) // after the parallel cases
	for _, features := range []string{"", "x"} {
		stages := []string{"val", "tuning"}
		if features != "" {
			stages = []string{"train", "ood"}
		}
		for _, stage := range stages {
			t.Run(features+" "+stage, func(t *testing.T) {
				t.Parallel()
				c := wraptest.ForestConfig(t, 4, nil)
				age(t, filepath.Dir(c.Out))
				c.Head.Features, c.KeepClass, c.OODScore = features, true, "gen"
				mustCalibrate(t, c)
				want := folder(t, c.Out)
				c.Out, c.Resume = filepath.Join(t.TempDir(), "b"), true
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				stop := errors.New("stop")
				c.Progress = func(p Progress) {
					if p.Stage == stage {
						cancel(stop)
					}
				}
				if _, err := Calibrate(ctx, c); !errors.Is(err, stop) {
					t.Fatal(err)
				}
				c.Progress = nil
				mustCalibrate(t, c)
				if got := folder(t, c.Out); !maps.Equal(got, want) {
					t.Errorf("%q, want the same %q", slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(want)))
				}
			})
		}
	}
}

// Frequencies of classes in use are given to a bundle later, or at once; training data cannot be added.
func TestAnUpdateWithoutALayer(t *testing.T) {
	t.Parallel()
	c := wraptest.ForestConfig(t, 4, nil)
	c.OOD = ""
	mustCalibrate(t, c)
	prior := map[string]float64{"0": 0.7}
	out := filepath.Join(t.TempDir(), "updated")
	r, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Prior: prior, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.ClassFrequencies) != 4 || r.ClassFrequencies[0].Use != 0.7 || r.Validation.MF0 != nil ||
		r.Examples.Train != 0 {
		t.Errorf("report %+v", r)
	}
	before := c.Out
	c.Prior, c.Out = prior, c.Out+"-prior"
	mustCalibrate(t, c)
	x := []Tensor{wraptest.ForestInputs(4, 20)}
	got, err := opened(t, out, Options{}).Predict(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	want, err := opened(t, c.Out, Options{}).Predict(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := opened(t, before, Options{}).Predict(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		norm, corrected := 0.0, slices.Clone(plain[i].Probabilities)
		for k, f := range r.ClassFrequencies {
			corrected[k] *= f.Use / f.Validation
			norm += corrected[k]
		}
		for k, v := range want[i].Probabilities {
			if !approx.Equal(got[i].Probabilities[k], v, 1e-6) || !approx.Equal(v, corrected[k]/norm, 2e-6) {
				t.Fatalf("example %d: %v, calibrated with the frequencies %v", i, got[i].Probabilities, want[i].Probabilities)
			}
		}
		if got[i].LogitVariance != nil {
			t.Fatalf("there are variances")
		}
	}
	_, err = Update(t.Context(), UpdateConfig{Bundle: before, Train: c.Val, Out: filepath.Join(t.TempDir(), "more")})
	says(t, err, "")
	// As estimated of data in use.
	estimated := filepath.Join(t.TempDir(), "estimated")
	if r, err = Update(t.Context(), UpdateConfig{Bundle: before, Unlabelled: c.Val,
		Out: estimated}); err != nil || r.PriorEstimate == nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// Decisions, an OOD set to choose the score on and a limit go with features as with a layer.
func TestDecisionsWithoutALayer(t *testing.T) {
	t.Parallel()
	c := wraptest.ForestConfig(t, 4, nil)
	c.Head.Features, c.Limit, c.Decisions = "x", 150, everyDecision
	r := mustCalibrate(t, c)
	if r.Examples.Train != 150 || r.Decisions == nil || len(r.Validation.Scores) < 6 {
		t.Errorf("%+v, decisions %+v, scores %+v", r.Examples, r.Decisions, r.Validation.Scores)
	}
	p := opened(t, c.Out, Options{})
	got, err := p.Predict(t.Context(), []Tensor{wraptest.ForestInputs(4, 10)})
	if err != nil || got[0].Abstain == nil || got[0].PredictionSet == nil {
		t.Errorf("%+v, %v", got, err)
	}
	if err := p.Probe(t.Context()); err != nil || r.Probe.Examples == 0 {
		t.Errorf("the probe %+v: %v", r.Probe, err)
	}
}
