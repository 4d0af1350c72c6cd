package fuse

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// The results of fused graphs are tested in run_test.go, with a runtime; here their structure is.

// head returns a mean-field head of the right sizes, of no meaning.
func meanField(h *head.Head) *MeanField {
	d, m := h.Features, h.Logits+1
	fill := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = 1 / float64(i+1)
		}
		return x
	}
	return &MeanField{
		Lambda0: 0.3, NLL: layer.Temperatures{Act: 1, Ens: 2}, OOD: layer.Temperatures{Act: 3, Ens: 4},
		Forms: layer.Quadratic{Forms: m, Center: fill(d), Projection: fill(d * d), Offset: fill(d),
			Weights: fill(d * m)},
		Intervals: []Interval{{4, 1, 20}, {100, 1, 60}},
		Scores: []Score{
			{Name: "ood_score", Double: true,
				Emit: func(t *Terms) string { return t.Div(t.Number(1), t.Add(t.Margin(), t.Number(1))) }},
			{Name: "leverage", Emit: (*Terms).Leverage},
		},
		Metadata: map[string]string{"mfgs.version": "test"},
	}
}

func parsedModel(t *testing.T, pb *onnxpb.Model) (*onnx.Model, *head.Head) {
	t.Helper()
	m, err := onnx.Parse("model", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m, h
}

func outputNames(m *onnx.Model) string {
	var names []string
	for _, v := range m.Outputs() {
		names = append(names, v.String()+" "+v.Name)
	}
	return strings.Join(names, ", ")
}

func TestFuseNamesOutputs(t *testing.T) {
	t.Parallel()
	const ours = "[?,32] float32 probabilities, [?,32] float32 logits, [?,32] float32 logit_variance, [?] float64 ood_score, [?] float32 leverage"
	for _, c := range []struct {
		name   string
		change func(*onnxpb.Graph)
		alone  bool
		want   string
	}{
		{"plain", func(*onnxpb.Graph) {}, false, "[?,32] float32 y, " + ours},
		{"alone", func(*onnxpb.Graph) {}, true, ours},
		{"an output of the same name, another tensor", func(g *onnxpb.Graph) {
			g.Node = append(g.Node, onnxtest.Node("Softmax", "y", "probabilities"))
			g.Output = []*onnxpb.ValueInfo{onnxpb.TensorInfo("probabilities", tensor.Float32, -1, 32)}
		}, false, "[?,32] float32 probabilities, " + strings.Replace(ours, "probabilities", "mfgs_probabilities", 1)},
		{"a tensor within of the same name", func(g *onnxpb.Graph) {
			g.Node = []*onnxpb.Node{onnxtest.Node("Relu", "x", "leverage"), onnxtest.Node("MatMul", "leverage w", "y")}
		}, false, "[?,32] float32 y, " + ours},
		{"a tensor in a subgraph of the same name", func(g *onnxpb.Graph) {
			branch := func(name string) *onnxpb.Attribute {
				return onnxpb.GraphAttribute(name, &onnxpb.Graph{Name: &name,
					Node: []*onnxpb.Node{onnxtest.Node("Relu", "x", "ood_score"),
						onnxtest.Node("Abs", "ood_score", name)}, Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo(name,
						tensor.Float32, -1, 16)}})
			}
			g.Initializer = append(g.Initializer, &onnxpb.Tensor{Name: proto.String("logits"),
				DataType: proto.Int32(int32(tensor.Bool)), RawData: []byte{1}})
			g.Node = []*onnxpb.Node{onnxtest.Node("If", "logits", "leverage", branch("then_branch"),
				branch("else_branch")), onnxtest.Node("MatMul", "leverage w", "y")}
		}, false, "[?,32] float32 y, " + ours},
		{"the logits themselves", func(g *onnxpb.Graph) {
			g.Node[0].Output[0], g.Output = "logits", []*onnxpb.ValueInfo{onnxpb.TensorInfo("logits", tensor.Float32,
				-1, 32)}
		}, false, "[?,32] float32 logits, " + strings.Replace(ours, "[?,32] float32 logits, ", "", 1)},
		{"the logits themselves, alone", func(g *onnxpb.Graph) {
			g.Node[0].Output[0], g.Output = "logits", []*onnxpb.ValueInfo{onnxpb.TensorInfo("logits", tensor.Float32,
				-1, 32)}
		}, true, ours},
		{"both names taken", func(g *onnxpb.Graph) {
			g.Input[0] = onnxpb.TensorInfo("leverage", tensor.Float32, -1, 16)
			g.Node = []*onnxpb.Node{onnxtest.Node("Relu", "leverage", "mfgs_leverage"),
				onnxtest.Node("MatMul", "mfgs_leverage w", "y")}
		}, false, "[?,32] float32 y, " + strings.Replace(ours, "leverage", "mfgs_leverage_1", 1)},
		{"a fixed batch", func(g *onnxpb.Graph) { g.Input[0] = onnxpb.TensorInfo("x", tensor.Float32, 8, 16) }, true,
			strings.ReplaceAll(ours, "?", "8")},
		{"a named batch", func(g *onnxpb.Graph) {
			g.Input[0].Type.TensorType.Shape.Dim[0].Value = &onnxpb.Dimension_DimParam{DimParam: "batch"}
		}, true, strings.ReplaceAll(ours, "?", "batch")},
	} {
		t.Run(c.name, func(t *testing.T) {
			pb := onnxtest.Network()
			c.change(pb.Graph)
			m, h := parsedModel(t, pb)
			mf := meanField(h)
			mf.Alone = c.alone
			fused, outputs, err := Append(m, h, mf)
			if err != nil {
				t.Fatal(err)
			}
			if got := outputNames(fused); got != c.want {
				t.Errorf("outputs %s\n   want %s", got, c.want)
			}
			for _, o := range outputs {
				if !slices.ContainsFunc(fused.Outputs(), func(v onnx.ValueInfo) bool { return v.Name == o.Name }) {
					t.Errorf("there is no output %s", o.Name)
				}
				if got := fused.Metadata()["mfgs.output."+o.Key]; got != o.Name {
					t.Errorf("the metadata say %s is %q, want %q", o.Key, got, o.Name)
				}
			}
			// It is read again, and its head is the old one.
			b, err := fused.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			again, err := onnx.Parse("fused", b)
			if err != nil {
				t.Fatal(err)
			}
			if c.alone {
				return
			}
			h2, err := head.Find(again, head.Options{})
			if err != nil || strings.TrimPrefix(h2.FeaturesTensor, "mfgs_inner_") != h.FeaturesTensor ||
				h2.LogitsTensor != h.LogitsTensor {
				t.Errorf("the fused model's head is %+v, %v", h2, err)
			}
		})
	}
}

func TestFuseReplacesMetadata(t *testing.T) {
	t.Parallel()
	pb := onnxtest.Network()
	for _, kv := range []string{"mfgs.version=old", "mfgs.labels=of another head", "author=someone"} {
		k, v, _ := strings.Cut(kv, "=")
		pb.MetadataProps = append(pb.MetadataProps, &onnxpb.Entry{Key: &k, Value: &v})
	}
	m, h := parsedModel(t, pb)
	fused, _, err := Append(m, h, meanField(h))
	if err != nil {
		t.Fatal(err)
	}
	if got := fused.Metadata(); got["mfgs.version"] != "test" || got["author"] != "someone" ||
		got["mfgs.labels"] != "" || len(fused.Proto().MetadataProps) != len(got) {
		t.Errorf("metadata %v", fused.Proto().MetadataProps)
	}
	if len(m.Proto().MetadataProps) != 3 {
		t.Error("the model itself has changed")
	}
}

func TestFuseRefuses(t *testing.T) {
	t.Parallel()
	m, h := parsedModel(t, onnxtest.Network())
	for _, c := range []struct {
		change func(*MeanField)
		want   string
	}{
		{func(mf *MeanField) { mf.Method = "mf9" }, `method "mf9"`},
		{func(mf *MeanField) { mf.Forms.Forms = 3 }, "3 quadratic forms, want 33"},
		{func(mf *MeanField) { mf.Forms.Center = mf.Forms.Center[1:] }, "do not fit"},
		{func(mf *MeanField) { mf.Forms.Offset = nil }, "do not fit"},
		{func(mf *MeanField) { mf.Forms.Projection = mf.Forms.Projection[1:] }, "do not fit"},
		{func(mf *MeanField) { mf.Forms.Weights = mf.Forms.Weights[1:] }, "do not fit"},
		{func(mf *MeanField) { mf.Forms.Weights = nil }, "do not fit"},
		{func(mf *MeanField) { mf.Forms.Reduction = make([]float64, 17) }, "do not fit"},
		{func(mf *MeanField) { mf.Forms.Reduction = make([]float64, 32) }, "do not fit"},
		{func(mf *MeanField) { mf.NLL.Act = 0 }, "positive finite"},
		{func(mf *MeanField) { mf.OOD.Ens = math.Inf(1) }, "positive finite"},
		{func(mf *MeanField) { mf.Lambda0 = math.NaN() }, "positive finite"},
		{func(mf *MeanField) { mf.Forms.Offset[0] = 1e39 }, "float32"},
		{func(mf *MeanField) { mf.Single, mf.Forms.Double = true, true }, "variances in float32, want float64"},
		{func(mf *MeanField) { mf.Forms.Weights[0] = math.NaN() }, "float32"},
		{func(mf *MeanField) { mf.Intervals = []Interval{{4, 1, 1}} }, "nodes"},
		{func(mf *MeanField) { mf.Intervals = []Interval{{4, 1, 1 << 30}} }, "nodes"},
		{func(mf *MeanField) { mf.Intervals = []Interval{{4, 1, 10}, {3, 1, 10}} }, "rising"},
		{func(mf *MeanField) { mf.Single = true }, "2 intervals of temperatures in float32, the first of 1 parts, want one"},
		{func(mf *MeanField) { mf.Intervals = []Interval{{math.NaN(), 1, 10}} }, "rising"},
		{func(mf *MeanField) { mf.Intervals = []Interval{{4, 0, 10}} }, "0 parts"},
		{func(mf *MeanField) { mf.Intervals, mf.Single = []Interval{{4, 2, 10}}, true }, "of 2 parts, want one of one part"},
	} {
		mf := meanField(h)
		c.change(mf)
		if _, _, err := Append(m, h, mf); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
	other, _ := parsedModel(t, onnxtest.Network())
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the head of another model is taken")
			}
		}()
		Append(other, h, meanField(h))
	}()
	// As many classes as mf1 takes, and more.
	most := onnxtest.Network()
	most.Graph.Initializer[0].Dims = []int64{2, 256}
	most.Graph.Input[0], most.Graph.Output[0] = onnxpb.TensorInfo("x", tensor.Float32, -1, 2), onnxpb.TensorInfo("y",
		tensor.Float32, -1, 256)
	m, h = parsedModel(t, most)
	pairwise := meanField(h)
	pairwise.Method = MF1
	if _, _, err := Append(m, h, pairwise); err != nil {
		t.Errorf("mf1 for %d classes: %v", h.Logits, err)
	}
	wide := onnxtest.Network()
	wide.Graph.Initializer[0].Dims = []int64{1, 512}
	wide.Graph.Input[0], wide.Graph.Output[0] = onnxpb.TensorInfo("x", tensor.Float32, -1, 1), onnxpb.TensorInfo("y",
		tensor.Float32, -1, 512)
	m, h = parsedModel(t, wide)
	mf := meanField(h)
	mf.Method = MF1
	if _, _, err := Append(m, h, mf); err == nil || !strings.Contains(err.Error(), "mf1 for 512 classes") {
		t.Errorf("got %v", err)
	}
}

// The constants of the head go where the model's weights go: into the file.
func TestFusedModelIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	onnxtest.WriteModel(t, filepath.Join(dir, "model.onnx"), onnxtest.Network())
	m, err := onnx.Open(filepath.Join(dir, "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mf := meanField(h)
	fused, _, err := Append(m, h, mf)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := fused.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	files, err := fused.Files("one.onnx")
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files, want one: %v", len(files), err)
	}
	var one bytes.Buffer
	if err := files[0].Write(&one); err != nil || !bytes.Equal(one.Bytes(), whole) {
		t.Errorf("the file is not what Bytes gives: %v", err)
	}
	// The graph for the runtime refers to the model's own weights, and has the head's.
	graph, folder, err := fused.Runnable()
	if err != nil || folder == "" {
		t.Fatalf("folder %q, %v", folder, err)
	}
	var weights, external int
	for _, tensor := range onnxtest.Unmarshal(t, graph).Graph.Initializer {
		if tensor.GetDataLocation() == 1 {
			external++
		}
		if strings.Contains(tensor.GetName(), "projection") {
			weights = len(tensor.RawData)
			got := math.Float32frombits(binary.LittleEndian.Uint32(tensor.RawData[4:]))
			if got != float32(mf.Forms.Projection[1]) {
				t.Errorf("projection[1] is %v", got)
			}
		}
	}
	if external != 1 || weights != 4*16*16 {
		t.Errorf("%d tensors are external, the projection has %d bytes", external, weights)
	}
}

// The two-step form of a Chebyshev series is the series.
func TestProductCoefficients(t *testing.T) {
	t.Parallel()
	for _, m := range []int64{2, 7, 8, 9, 20, 48, 63, 64, 65, 150} {
		const r = 8
		groups := (m + r - 1) / r
		matrix := productCoefficients(m, r)
		f := func(x float64) float64 { return math.Exp(x) * math.Sin(3*x+1) }
		d := make([]float64, groups*r)
		values := make([]float64, m)
		for j := range m {
			values[j] = f(chebyshevNode(j, m))
			for i := range d {
				d[i] += values[j] * matrix[j*groups*r+int64(i)]
			}
		}
		for _, x := range []float64{-1, -0.7, 0, 0.31, 1} {
			theta := math.Acos(x)
			var got, want float64
			for q := range groups {
				for j := range int64(r) {
					got += d[q*r+j] * math.Cos(float64(q*r)*theta) * math.Cos(float64(j)*theta)
				}
			}
			for n := range m {
				var c float64
				for j := range m {
					c += 2 / float64(m) * values[j] * math.Cos(math.Pi*float64(n)*(float64(j)+0.5)/float64(m))
				}
				if n == 0 {
					c /= 2
				}
				want += c * math.Cos(float64(n)*theta)
			}
			if !approx.Equal(got, want, 1e-12) {
				t.Errorf("m=%d, x=%v: %v, want %v", m, x, got, want)
			}
		}
	}
}

// Logit variances are computed in the unit of T_ens for likelihood, and given in their own.
func TestFusedVariancesHaveTheUnitOfThePosterior(t *testing.T) {
	t.Parallel()
	m, h := parsedModel(t, onnxtest.Network())
	mf := meanField(h)
	fused, _, err := Append(m, h, mf)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, c := range fused.Proto().Graph.Initializer {
		if !strings.Contains(c.GetName(), "unit") {
			continue
		}
		found++
		if v, err := fused.View().Evaluate(c.GetName()); err != nil || !slices.Equal(v.Data, []float64{mf.NLL.Ens}) {
			t.Errorf("%s is %v, want T_ens %v (%v)", c.GetName(), v, mf.NLL.Ens, err)
		}
	}
	if found != 1 {
		t.Errorf("%d constants are a unit, want 1", found)
	}
	f := &fuser{mf: mf, k: int64(h.Logits)}
	if got := f.formScale(0); got != 1/mf.NLL.Ens || f.formScale(f.k) != 1 {
		t.Errorf("variances are multiplied by %v and the leverage by %v, want %v and 1", got, f.formScale(f.k),
			1/mf.NLL.Ens)
	}
}
