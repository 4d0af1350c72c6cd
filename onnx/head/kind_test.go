package head_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// loadRuntime loads a real ONNX Runtime, which is installed if it is missing.
var loadRuntime = sync.OnceValue(func() error {
	lib, err := install.Ensure(context.Background(), install.Config{Install: true})
	if err != nil {
		return err
	}
	return ort.Load(lib)
})

// ran are the outputs of a model for rows x.
func ran(t testing.TB, m *onnx.Model, x []float32, outputs ...string) []tensor.Tensor {
	t.Helper()
	if err := loadRuntime(); err != nil {
		t.Fatal(err)
	}
	s, err := ort.NewSession(ort.SessionConfig{Graph: onnxtest.BytesOf(t, m), Outputs: outputs, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	width := int64(onnxtest.ForestColumns)
	out, err := s.Run(t.Context(), []tensor.Tensor{{Name: "x", Shape: []int64{int64(len(x)) / width, width}, Data: x}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parsed(t testing.TB, pb *onnxpb.Model) *onnx.Model {
	t.Helper()
	m, err := onnx.Parse("model", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func row(name string, typ tensor.Type, dims ...int64) *onnxpb.ValueInfo {
	return onnxpb.TensorInfo(name, typ, dims...)
}

func weights(name string, rows, columns int) *onnxpb.Tensor {
	var w []float64
	for i := range rows * columns {
		w = append(w, math.Sin(float64(i+len(name)*7+int(name[0]))))
	}
	return onnxtest.FloatTensor(name, w, int64(rows), int64(columns))
}

func indices(name string, list []int64, dims ...int64) *onnxpb.Tensor {
	return &onnxpb.Tensor{Name: &name, Dims: dims, DataType: proto.Int32(int32(tensor.Int64)), Int64Data: list}
}

// with adds stored tensors.
func with(pb *onnxpb.Model, list ...*onnxpb.Tensor) *onnxpb.Model {
	pb.Graph.Initializer = append(pb.Graph.Initializer, list...)
	return pb
}

// svm is a support vector machine of two classes with Platt's probabilities.
func svm(opset int64) *onnxpb.Model {
	n := onnxtest.Node("SVMClassifier", "x", "label scores", onnxtest.StringAttribute("kernel_type", "RBF"),
		onnxtest.FloatsAttribute("kernel_params", 0.3, 0, 3), onnxtest.FloatsAttribute("support_vectors", 1, 0, 2, 1, 0, 1, 0, -1, -1, 1, 1, 1),
		onnxtest.FloatsAttribute("coefficients", 1.5, -0.5, -1), onnxtest.FloatsAttribute("rho", 0.2),
		onnxtest.FloatsAttribute("prob_a", -1.3), onnxtest.FloatsAttribute("prob_b", 0.1),
		onnxpb.IntsAttribute("vectors_per_class", 1, 2), onnxtest.StringAttribute("post_transform", "NONE"),
		onnxtest.ClassLabels("classlabels_ints", 2))
	n.Domain = proto.String("ai.onnx.ml")
	return onnxtest.TableModel(opset, onnxtest.ForestColumns, []*onnxpb.Node{n}, row("label", tensor.Int64, -1),
		row("scores", tensor.Float32, -1, 2))
}

// averaged is the mean of two networks' probabilities, of k classes.
func averaged(opset, k int64) *onnxpb.Model {
	return with(onnxtest.TableModel(opset, onnxtest.ForestColumns, []*onnxpb.Node{
		onnxtest.Node("MatMul", "x w", "a"), onnxtest.Node("Softmax", "a", "p", onnxpb.IntAttribute("axis", 1)),
		onnxtest.Node("MatMul", "x v", "b"), onnxtest.Node("Softmax", "b", "q", onnxpb.IntAttribute("axis", 1)),
		onnxtest.Node("Mean", "p q", "y")}, row("y", tensor.Float32, -1, k)),
		weights("w", onnxtest.ForestColumns, int(k)), weights("v", onnxtest.ForestColumns, int(k)))
}

// branching has one network or another, depending on all of a batch.
func branching(opset int64) *onnxpb.Model {
	branch := func(name, w string) *onnxpb.Attribute {
		return &onnxpb.Attribute{Name: &name, Type: proto.Int32(onnxpb.TypeGraph), G: &onnxpb.Graph{Name: &name,
			Node: []*onnxpb.Node{onnxtest.Node("MatMul", "x "+w, "a"+w),
				onnxtest.Node("Softmax", "a"+w, "p"+w, onnxpb.IntAttribute("axis", 1))},
			Output: []*onnxpb.ValueInfo{row("p"+w, tensor.Float32, -1, 3)}}}
	}
	return with(onnxtest.TableModel(opset, onnxtest.ForestColumns, []*onnxpb.Node{
		onnxtest.Node("ReduceMax", "x", "most", onnxpb.IntAttribute("keepdims", 0)), onnxtest.Node("Cast", "most", "whether", onnxpb.IntAttribute("to", 9)),
		onnxtest.Node("If", "whether", "y", branch("then_branch", "w"), branch("else_branch", "v"))},
		row("y", tensor.Float32, -1, 3)), weights("w", onnxtest.ForestColumns, 3), weights("v", onnxtest.ForestColumns, 3))
}

// A custom model is one with a tail that is no linear layer.
type custom struct {
	name    string
	model   func(opset int64) *onnxpb.Model
	options head.Options
	own     string // the tensor that holds the model's own numbers
	width   int
	logits  int
	link    layer.Link
	labels  []string
}

func customs() []custom {
	forest2, forest4 := onnxtest.NewForest(2), onnxtest.NewForest(4)
	names := []string{"ash", "beech", "oak", "yew"}
	behind := func(f *onnxtest.Forest, tail []*onnxpb.Node, out ...*onnxpb.ValueInfo) func(int64) *onnxpb.Model {
		return func(opset int64) *onnxpb.Model {
			return with(f.Model(opset, nil, tail, out...), indices("one", []int64{1}, 1), indices("second", []int64{1}))
		}
	}
	probabilities, scores := head.Options{Kind: head.Probabilities}, head.Options{Kind: head.Scores}
	sigmoid := func(k head.Kind) head.Options { return head.Options{Kind: k, Link: layer.Sigmoid} }
	oneVsRest := head.Options{Kind: head.Probabilities, Link: layer.OneVsRest}
	return []custom{
		{"a forest of two", behind(forest2, nil), probabilities, "probabilities", 2, 2, layer.Softmax, nil},
		{"a forest of four", behind(forest4, nil), probabilities, "probabilities", 4, 4, layer.Softmax, nil},
		{"a forest with names", func(opset int64) *onnxpb.Model { return forest4.Model(opset, names, nil) },
			probabilities, "probabilities", 4, 4, layer.Softmax, names},
		{"a forest's maps", func(opset int64) *onnxpb.Model {
			return forest4.Model(opset, names, []*onnxpb.Node{onnxtest.ZipMap("probabilities", "maps", 4, names...)},
				row("label", tensor.String, -1), onnxtest.Maps("maps", tensor.String))
		}, probabilities, "probabilities", 4, 4, layer.Softmax, names},
		{"a forest's scores", behind(forest4, nil), scores, "probabilities", 4, 4, layer.Softmax, nil},
		{"labels by themselves", behind(forest4, nil), sigmoid(head.Probabilities), "probabilities", 4, 4, layer.Sigmoid, nil},
		{"one against the rest", behind(forest4, nil), oneVsRest, "probabilities", 4, 4, layer.OneVsRest, nil},
		{"a column", behind(forest2, []*onnxpb.Node{onnxtest.Node("Gather", "probabilities one", "y", onnxpb.IntAttribute("axis", 1))},
			row("y", tensor.Float32, -1, 1)), probabilities, "y", 1, 2, layer.Softmax, nil},
		{"a column of a sigmoid", behind(forest2, []*onnxpb.Node{onnxtest.Node("Gather", "probabilities one", "y", onnxpb.IntAttribute("axis", 1))},
			row("y", tensor.Float32, -1, 1)), sigmoid(head.Probabilities), "y", 1, 2, layer.Softmax, nil},
		{"a number", behind(forest2, []*onnxpb.Node{onnxtest.Node("Gather", "probabilities second", "y", onnxpb.IntAttribute("axis", 1))},
			row("y", tensor.Float32, -1)), probabilities, "y", 1, 2, layer.Softmax, nil},
		{"a score", behind(forest2, []*onnxpb.Node{onnxtest.Node("Gather", "probabilities one", "y", onnxpb.IntAttribute("axis", 1))},
			row("y", tensor.Float32, -1, 1)), scores, "y", 1, 1, layer.Sigmoid, nil},
		{"axes of length 1", behind(forest4, []*onnxpb.Node{onnxtest.Node("Reshape", "probabilities apart", "y")},
			row("y", tensor.Float32, -1, 4, 1, 1)), probabilities, "y", 4, 4, layer.Softmax, nil},
		{"double precision", behind(forest4, []*onnxpb.Node{onnxtest.Node("Cast", "probabilities", "y", onnxpb.IntAttribute("to", int64(tensor.Float64)))},
			row("y", tensor.Float64, -1, 4)), probabilities, "y", 4, 4, layer.Softmax, nil},
		{"logarithms", behind(forest4, []*onnxpb.Node{onnxtest.Node("Log", "probabilities", "y")}, row("y", tensor.Float32, -1, 4)),
			head.Options{Kind: head.LogProbabilities}, "y", 4, 4, layer.Softmax, nil},
		{"logarithms in double precision", behind(forest4, []*onnxpb.Node{
			onnxtest.Node("Cast", "probabilities", "z", onnxpb.IntAttribute("to", int64(tensor.Float64))), onnxtest.Node("Log", "z", "y")},
			row("y", tensor.Float64, -1, 4)), head.Options{Kind: head.LogProbabilities}, "y", 4, 4, layer.Softmax, nil},
		{"a support vector machine", svm, probabilities, "scores", 2, 2, layer.Softmax, nil},
		{"an average", func(opset int64) *onnxpb.Model { return averaged(opset, 3) }, probabilities, "y", 3, 3, layer.Softmax, nil},
		{"a branch", branching, probabilities, "y", 3, 3, layer.Softmax, nil},
	}
}

// slowLogits are those of one example's numbers, as they are documented.
func slowLogits(k head.Kind, link layer.Link, p []float64) (a []float64) {
	log := func(p float64) float64 { return math.Log(math.Max(p, head.LeastProbability)) }
	if k == head.Probabilities && len(p) == 1 {
		return []float64{log(1 - p[0]), log(p[0])}
	}
	for _, v := range p {
		switch {
		case k == head.LogProbabilities:
			v = math.Max(v, -104)
		case k == head.Probabilities && link == layer.Softmax:
			v = log(v)
		case k == head.Probabilities:
			v = log(v) - log(1-v)
		}
		a = append(a, v)
	}
	return a
}

func numbers(t tensor.Tensor) (x []float64) {
	switch data := t.Data.(type) {
	case []float32:
		for _, v := range data {
			x = append(x, float64(v))
		}
	case []float64:
		for _, v := range data {
			x = append(x, float64(float32(v))) // what is behind it is float32
		}
	}
	return x
}

// The cut of a model with any tail gives the logits that its own numbers have, in every operator set.
func TestACutWithoutALayerGivesTheLogitsOfTheOutput(t *testing.T) {
	t.Parallel()
	x, _ := onnxtest.NewForest(4).Draw(3, 40)
	for _, c := range customs() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, opset := range []int64{8, 12, 17, 21} {
				pb := c.model(opset)
				if strings.HasPrefix(c.name, "axes") {
					pb = with(pb, indices("apart", []int64{0, 0, 1, 1}, 4))
				}
				m := parsed(t, pb)
				h, err := head.Find(m, c.options)
				if err != nil {
					t.Fatalf("operator set %d: %v", opset, err)
				}
				if want := (layer.Head{Logits: c.logits, Link: c.link, Nonlinear: true}); h.Head != want ||
					h.Kind != c.options.Kind ||
					h.LogitsTensor != c.own || h.FeaturesTensor != "" || !slices.Equal(h.Labels, c.labels) {
					t.Errorf("operator set %d: head %+v, want %+v of %s with labels %q", opset, h, want, c.own, c.labels)
				}
				cut, err := head.Cut(m, h)
				if err != nil {
					t.Fatal(err)
				}
				if out := cut.Outputs(); len(out) != 1 || out[0].Type != tensor.Float32 ||
					out[0].Shape[1].Value != int64(c.logits) {
					t.Fatalf("outputs %v", out)
				}
				given := pb.Graph.Output
				if c.own == "probabilities" {
					pb.Graph.Output = []*onnxpb.ValueInfo{row(c.own, tensor.Float32, -1, int64(c.width))}
				}
				own := numbers(ran(t, parsed(t, pb), x, c.own)[0])
				pb.Graph.Output = given
				got := ran(t, cut, x, cut.Outputs()[0].Name)[0]
				n := len(x) / onnxtest.ForestColumns
				if !slices.Equal(got.Shape, []int64{int64(n), int64(c.logits)}) || len(own) != n*c.width {
					t.Fatalf("operator set %d: shape %v", opset, got.Shape)
				}
				for i := range n {
					for j, want := range slowLogits(c.options.Kind, c.link, own[i*c.width:(i+1)*c.width]) {
						if v := float64(got.Data.([]float32)[i*c.logits+j]); !approx.Equal(v, want,
							3e-7*(1+math.Abs(want))) {
							t.Fatalf("operator set %d, example %d: logit %d is %v, want %v", opset, i, j, v, want)
						}
					}
				}
			}
		})
	}
}

// The forest of the tests votes as its slow twin does.
func TestTheForestOfTestsIsItsTwin(t *testing.T) {
	t.Parallel()
	for _, classes := range []int{2, 4} {
		f := onnxtest.NewForest(classes)
		x, _ := f.Draw(5, 50)
		zeros := 0
		got := numbers(ran(t, parsed(t, f.Model(12, nil, nil)), x, "probabilities")[0])
		for i, want := range f.Probabilities(x) {
			if !approx.Equal(got[i], want, 1e-6) {
				t.Fatalf("%d classes: %v, want %v", classes, got[i], want)
			}
			if want == 0 {
				zeros++
			}
		}
		if zeros == 0 {
			t.Errorf("%d classes: every tree disagrees with another", classes)
		}
	}
}

// Features may be named, of any tensor of rows, and come with the logits. Those of an input are followed by flags of
// what is missing among them.
func TestFeaturesWithoutALayer(t *testing.T) {
	t.Parallel()
	f := onnxtest.NewForest(4)
	x, _ := f.Draw(4, 6)
	x[5] = float32(math.NaN())
	for _, opset := range []int64{8, 12, 21} {
		pb := with(f.Model(opset, nil, []*onnxpb.Node{onnxtest.Node("MatMul", "x w", "z"),
			onnxtest.Node("Cast", "z", "d", onnxpb.IntAttribute("to", int64(tensor.Float64)))}),
			weights("w", onnxtest.ForestColumns, 3))
		for name, width := range map[string]int{"x": onnxtest.ForestColumns, "z": 3, "d": 3} {
			m := parsed(t, pb)
			h, err := head.Find(m, head.Options{Kind: head.Probabilities, Features: name})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			missing := name == "x" && opset >= 9 // there is no IsNaN before
			if missing {
				width *= 2
			}
			if h.Features != width || h.Missing != missing || h.FeaturesTensor != name || h.LogitsTensor != "probabilities" ||
				h.Logits != 4 {
				t.Errorf("operator set %d, %s: %+v", opset, name, h)
			}
			cut, err := head.Cut(m, h)
			if err != nil {
				t.Fatal(err)
			}
			out := ran(t, cut, x, head.CutFeatures, head.CutLogits)
			if !slices.Equal(out[0].Shape, []int64{6, int64(width)}) || !slices.Equal(out[1].Shape, []int64{6, 4}) {
				t.Fatalf("operator set %d, %s: shapes %v and %v", opset, name, out[0].Shape, out[1].Shape)
			}
			for i, got := range out[0].Data.([]float32) {
				if !missing {
					break
				}
				column := i % width
				want := float32(0)
				switch v := x[i/width*onnxtest.ForestColumns+column%onnxtest.ForestColumns]; {
				case column < onnxtest.ForestColumns && v == v:
					want = v
				case column >= onnxtest.ForestColumns && v != v:
					want = 1
				}
				if got != want {
					t.Fatalf("operator set %d: column %d of example %d is %v, want %v", opset, column, i/width, got, want)
				}
			}
		}
	}
}

// Numbers that nobody has said what they are stay what they are until somebody does.
func TestAKindIsFoundLater(t *testing.T) {
	t.Parallel()
	f := onnxtest.NewForest(4)
	m := parsed(t, f.Model(12, []string{"a", "b", "c", "d"}, nil))
	h, err := head.Find(m, head.Options{Kind: head.None})
	if err != nil {
		t.Fatal(err)
	}
	evidence := len(h.Evidence)
	for _, kind := range []head.Kind{head.Probabilities, head.LogProbabilities, head.Scores} {
		as, err := h.As(kind)
		if err != nil {
			t.Fatal(err)
		}
		as.Evidence = append(as.Evidence, "more")
		direct, err := head.Find(m, head.Options{Kind: kind})
		if err != nil || as.Head != direct.Head || as.Kind != kind || !slices.Equal(as.Labels, direct.Labels) ||
			h.Kind != head.None || len(h.Evidence) != evidence {
			t.Errorf("%s: %+v, found at once %+v, %v", kind, as, direct, err)
		}
	}
	// A single probability is of the second of two classes, a single score of a sigmoid.
	f = onnxtest.NewForest(2)
	m = parsed(t, with(f.Model(12, nil, []*onnxpb.Node{onnxtest.Node("Gather", "probabilities one", "y", onnxpb.IntAttribute("axis", 1))},
		row("y", tensor.Float32, -1, 1)), indices("one", []int64{1}, 1)))
	if h, err = head.Find(m, head.Options{Kind: head.None}); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[head.Kind]layer.Head{
		head.Probabilities: {Logits: 2, Link: layer.Softmax, Nonlinear: true},
		head.Scores:        {Logits: 1, Link: layer.Sigmoid, Nonlinear: true},
	} {
		if as, err := h.As(kind); err != nil || as.Head != want {
			t.Errorf("%s: %+v, %v, want %+v", kind, as, err, want)
		}
	}
	if _, err := h.As(head.LogProbabilities); err == nil || !strings.Contains(err.Error(), "log-probabilities need one for each class") {
		t.Errorf("one log-probability: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a linear layer has another kind")
		}
	}()
	linear, err := head.Find(parsed(t, onnxtest.Network()), head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	linear.As(head.Scores)
}

// With several outputs the one with a number for each class is taken, and the others are named.
func TestTheOutputWithARowOfNumbersIsTaken(t *testing.T) {
	t.Parallel()
	f := onnxtest.NewForest(4)
	pb := with(f.Model(12, nil, []*onnxpb.Node{onnxtest.Node("ReduceMax", "probabilities", "top", onnxpb.IntsAttribute("axes", 1)),
		onnxtest.Node("MatMul", "x w", "other")}, row("top", tensor.Float32, -1, 1), row("label", tensor.Int64, -1),
		row("probabilities", tensor.Float32, -1, 4), row("other", tensor.Float32, -1, 3)), weights("w", onnxtest.ForestColumns, 3))
	m := parsed(t, pb)
	for _, tt := range []struct {
		options head.Options
		want    string
	}{
		{head.Options{}, "probabilities"}, {head.Options{Output: "top"}, "top"}, {head.Options{Output: "other"}, "other"},
		{head.Options{Logits: "other"}, "other"}, {head.Options{Logits: "other", Output: "top"}, "other"},
	} {
		tt.options.Kind = head.Scores
		h, err := head.Find(m, tt.options)
		if err != nil || h.LogitsTensor != tt.want {
			t.Errorf("%+v: %+v, %v", tt.options, h, err)
			continue
		}
		others := strings.Contains(strings.Join(h.Evidence, "\n"), `other outputs hold numbers too: "top" [N,1], "other" [N,3]`)
		if others != (tt.want == "probabilities") {
			t.Errorf("%+v: evidence %q", tt.options, h.Evidence)
		}
	}
}

// Outputs that are the columns of one tensor are taken together, whichever operators pick them.
func TestColumnsAreTakenTogether(t *testing.T) {
	t.Parallel()
	f := onnxtest.NewForest(3)
	pick := func(op string, class int, out string) []*onnxpb.Node {
		switch name := strconv.Itoa(class); op {
		case "ArrayFeatureExtractor":
			n := onnxtest.Node(op, "probabilities c"+name, out)
			n.Domain = proto.String("ai.onnx.ml")
			return []*onnxpb.Node{n}
		case "Slice":
			return []*onnxpb.Node{onnxtest.Node(op, "probabilities c"+name+" c"+strconv.Itoa(class+1)+" c1", out+"_column"),
				onnxtest.Node("Reshape", out+"_column flat", out)}
		default:
			return []*onnxpb.Node{onnxtest.Node("Gather", "probabilities c"+name, out, onnxpb.IntAttribute("axis", 1))}
		}
	}
	constants := []*onnxpb.Tensor{indices("c0", []int64{0}, 1), indices("c1", []int64{1}, 1), indices("c2", []int64{2}, 1),
		indices("c3", []int64{3}, 1), indices("flat", []int64{-1}, 1), weights("w", onnxtest.ForestColumns, 1)}
	for _, op := range []string{"ArrayFeatureExtractor", "Slice", "Gather"} {
		var nodes []*onnxpb.Node
		var outputs []*onnxpb.ValueInfo
		for class := range 3 {
			nodes = append(nodes, pick(op, class, fmt.Sprint("y", class))...)
			outputs = append(outputs, row(fmt.Sprint("y", class), tensor.Float32, -1))
		}
		m := parsed(t, with(f.Model(13, nil, nodes, outputs...), constants...))
		h, err := head.Find(m, head.Options{Kind: head.Probabilities})
		if err != nil || h.LogitsTensor != "probabilities" || h.Logits != 3 ||
			!strings.Contains(strings.Join(h.Evidence, "\n"), `its columns are the outputs "y0", "y1", "y2"`) {
			t.Errorf("%s: %+v, %v", op, h, err)
		}
		if h, err := head.Find(m, head.Options{Kind: head.Probabilities, Logits: "y1"}); err != nil || h.Logits != 2 {
			t.Errorf("%s: a column that is named: %+v, %v", op, h, err)
		}
	}
	nodes := append(pick("Gather", 0, "y"), onnxtest.Node("MatMul", "x w", "other"))
	two := f.Model(13, nil, nodes, row("y", tensor.Float32, -1, 1), row("other", tensor.Float32, -1, 1))
	m := parsed(t, with(two, constants...))
	if _, err := head.Find(m, head.Options{Kind: head.Scores}); err == nil ||
		!strings.Contains(err.Error(), `several outputs hold one number for each example: "y", "other"; choose one`) {
		t.Errorf("columns of two tensors: %v", err)
	}
}

// An output of probabilities is more likely than an embedding before it.
func TestProbabilitiesComeBeforeEmbeddings(t *testing.T) {
	t.Parallel()
	f := onnxtest.NewForest(4)
	m := parsed(t, with(f.Model(13, nil, []*onnxpb.Node{onnxtest.Node("MatMul", "x w", "embedding")},
		row("embedding", tensor.Float32, -1, 8), row("probabilities", tensor.Float32, -1, 4)), weights("w", onnxtest.ForestColumns, 8)))
	if h, err := head.Find(m, head.Options{Kind: head.None}); err != nil || h.LogitsTensor != "probabilities" {
		t.Errorf("%+v, %v", h, err)
	}
}

// What is no row of numbers for each example is refused in one line, which says what was found.
func TestOutputsThatAreNoRowsAreRefused(t *testing.T) {
	t.Parallel()
	forest := onnxtest.NewForest(4)
	behind := func(tail *onnxpb.Node, out ...*onnxpb.ValueInfo) *onnxpb.Model {
		return with(forest.Model(13, nil, []*onnxpb.Node{tail}, out...), weights("w", onnxtest.ForestColumns, 3),
			indices("steps", []int64{-1, 2, 2}, 3))
	}
	unknown := onnxtest.Node("Mystery", "probabilities", "y")
	unknown.Domain = proto.String("com.example")
	plain := forest.Model(13, nil, nil)
	of := func(o head.Options) head.Options { o.Kind = head.Probabilities; return o }
	for name, tt := range map[string]struct {
		model   *onnxpb.Model
		options head.Options
		want    string
	}{
		"a sequence": {behind(onnxtest.Node("Reshape", "probabilities steps", "y"), row("y", tensor.Float32, -1, 2, 2)), of(head.Options{}),
			"want one row of numbers for each example, not one for each step or position"},
		"whole numbers": {behind(onnxtest.Node("ArgMax", "probabilities", "y", onnxpb.IntAttribute("axis", 1)), row("y", tensor.Int64, -1, 1)),
			of(head.Options{}), `"y" holds int64, want probabilities or scores`},
		"truth values": {behind(onnxtest.Node("Cast", "probabilities", "y", onnxpb.IntAttribute("to", 9)), row("y", tensor.Bool, -1, 4)),
			of(head.Options{}), `"y" holds bool, want probabilities or scores`},
		"a constant":          {behind(onnxtest.Node("Relu", "w", "y"), row("y", tensor.Float32, 4, 3)), of(head.Options{}), `"y" is a constant`},
		"stored numbers":      {plain, of(head.Options{Logits: "x"}), `"x" is an input of the model`},
		"an unknown width":    {behind(unknown, &onnxpb.ValueInfo{Name: proto.String("y")}), of(head.Options{}), "their number declared: export the model with it"},
		"an open width":       {behind(unknown, row("y", tensor.Float32, -1, -1)), of(head.Options{}), "want a row of numbers for each example"},
		"one number for all":  {behind(onnxtest.Node("ReduceMean", "probabilities", "y", onnxpb.IntAttribute("keepdims", 0)), row("y", tensor.Float32)), of(head.Options{}), "want a row of numbers for each example"},
		"no such output":      {plain, of(head.Options{Output: "nowhere"}), "nowhere"},
		"no such tensor":      {plain, of(head.Options{Logits: "nowhere"}), `the graph has no tensor "nowhere"`},
		"a label":             {plain, of(head.Options{Output: "label"}), `"label" `},
		"no such features":    {plain, of(head.Options{Features: "nowhere"}), `the graph has no tensor "nowhere"`},
		"features of labels":  {plain, of(head.Options{Features: "label"}), `"label" is `},
		"constant features":   {behind(onnxtest.Node("Relu", "x", "y"), row("y", tensor.Float32, -1, 4)), of(head.Options{Features: "w"}), `"w" is `},
		"an old operator set": {forest.Model(7, nil, nil), of(head.Options{}), "probabilities need operator set 8, and the model has 7"},
		"an unknown kind":     {plain, head.Options{Kind: "odds"}, `Kind "odds": want none, probabilities, log-probabilities, scores, ctc or tags`},
		"an approximation":    {plain, of(head.Options{Approximate: head.IgnoreRelu}), "Approximate is for a linear layer"},
		"an unknown link":     {plain, of(head.Options{Link: "probit"}), `"probit"`},
		"log-p of labels":     {plain, head.Options{Kind: head.LogProbabilities, Link: layer.Sigmoid}, "classes that exclude each other"},
		"one class's log-p": {behind(onnxtest.Node("ReduceMin", "probabilities", "y", onnxpb.IntsAttribute("axes", 1)), row("y", tensor.Float32, -1, 1)),
			head.Options{Kind: head.LogProbabilities}, "log-probabilities need one for each class"},
		"one class's the rest": {behind(onnxtest.Node("ReduceMin", "probabilities", "y", onnxpb.IntsAttribute("axes", 1)), row("y", tensor.Float32, -1, 1)),
			of(head.Options{Link: layer.OneVsRest}), "is for several classes"},
	} {
		_, err := head.Find(parsed(t, tt.model), tt.options)
		var u *head.UnsupportedError
		if !errors.As(err, &u) || u.Kind != tt.options.Kind || u.Candidates != nil || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// A kind of a head says where its logits come from.
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, k := range append([]head.Kind{head.Linear}, head.Kinds...) {
		if err := k.Validate(); err != nil {
			t.Errorf("%q: %v", k, err)
		}
	}
	for _, k := range []head.Kind{"linear", "None", "log_probabilities"} {
		if err := k.Validate(); err == nil || !strings.Contains(fmt.Sprint(err), string(k)) {
			t.Errorf("%q: %v", k, err)
		}
	}
	if slices.Contains(head.Kinds, head.Linear) {
		t.Error("a linear layer is among what has none")
	}
}
