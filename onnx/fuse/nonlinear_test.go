package fuse_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// scores is y = x as a model of an operator set, whose head has no linear layer, with the features x if there are any.
func scores(t testing.TB, opset int64, by layer.Link, k int, features string) (*onnx.Model, *head.Head) {
	t.Helper()
	pb := &onnxpb.Model{IrVersion: proto.Int64(7), OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(opset)}},
		Graph: &onnxpb.Graph{Name: proto.String("scores"), Node: []*onnxpb.Node{onnxtest.Node("Neg", "x", "z"), onnxtest.Node("Neg", "z", "y")},
			Input:  []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1, int64(k))},
			Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, int64(k))}}}
	m, err := onnx.Parse("scores", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{Kind: head.Scores, Link: by, Features: features})
	if err != nil {
		t.Fatal(err)
	}
	return m, h
}

// plainly are the probabilities of one example by the formulas as they are written down: of log(p + ε), mapped, divided
// by T and corrected for class frequencies.
func plainly(by layer.Link, mf *fuse.MeanField, logits []float32) (p []float64) {
	z, sum := make([]float64, len(logits)), 0.0
	for j, a := range logits {
		z[j] = float64(a)
		sum += math.Exp(float64(a))
	}
	if f := mf.Affine; f != nil {
		if f.Smoothing > 0 {
			for j, a := range logits {
				z[j] = math.Log(math.Exp(float64(a))/sum + f.Smoothing)
			}
		}
		if f.Scale != nil {
			given := slices.Clone(z)
			r := f.Rank()
			for j := range z {
				z[j] = f.Scale[j]*given[j] + f.Offset[j]
				for l := range r {
					for i, v := range given {
						z[j] += f.Left[j*r+l] * f.Right[l*len(z)+i] * v
					}
				}
			}
		}
	}
	sum = 0
	for j := range z {
		v := math.Exp(z[j] / mf.Plain)
		if by != layer.Softmax {
			v = v / (1 + v)
		}
		if mf.Prior != nil && by == layer.Softmax {
			v *= math.Exp(mf.Prior[j])
		}
		p, sum = append(p, v), sum+v
	}
	if by != layer.Sigmoid {
		for j := range p {
			p[j] /= sum
		}
	}
	if by == layer.Sigmoid && len(p) == 1 {
		p = []float64{1 - p[0], p[0]}
	}
	return p
}

// Without a layer the fused model has the formulas of plain probabilities, in every operator set, and no outputs of a
// posterior.
func TestFusedScoresEqualTheFormulas(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	const n = 9
	ood := []fuse.Score{{Name: "ood_score", Double: true, Emit: func(t *fuse.Terms) string { return t.Max(t.Logits()) }}}
	for _, tt := range []struct {
		by layer.Link
		k  int
	}{{layer.Softmax, 2}, {layer.Softmax, 5}, {layer.Sigmoid, 1}, {layer.Sigmoid, 3}, {layer.OneVsRest, 3}} {
		maps := map[string]*layer.Affine{"none": nil}
		h := layer.Head{Logits: tt.k, Link: tt.by, Nonlinear: true}
		r := h.AffineRank()
		matrix := layer.Affine{Scale: normal(rng, tt.k, 1), Offset: normal(rng, tt.k, 1),
			Left: normal(rng, tt.k*r, 0.3), Right: normal(rng, tt.k*r, 0.3)}
		maps["matrix"] = &matrix
		if tt.by == layer.Softmax {
			smoothed := matrix
			smoothed.Smoothing = 0.02
			maps["smoothing"], maps["matrix of smoothed"] = &layer.Affine{Smoothing: 0.05}, &smoothed
		}
		for name, f := range maps {
			for _, opset := range opsets {
				m, found := scores(t, opset, tt.by, tt.k, "")
				mf := &fuse.MeanField{Affine: f, Plain: 1.7, Scores: ood}
				if tt.by == layer.Softmax && name != "matrix" {
					mf.Prior = normal(rng, tt.k, 1)
				}
				x := singles(normal(rng, n*tt.k, 4))
				fused, outputs, err := fuse.Append(m, found, mf)
				if err != nil {
					t.Fatal(err)
				}
				var keys []string
				for _, o := range outputs {
					keys = append(keys, o.Key)
				}
				if want := []string{"probabilities", "logits", "ood_score"}; !slices.Equal(keys, want) || fuse.FirstScore(found.Head) != 2 {
					t.Fatalf("outputs %q, want %q", keys, want)
				}
				out := ranFused(t, fused, outputs, x, tt.k)
				for i := range n {
					a := x[i*tt.k : (i+1)*tt.k]
					want := plainly(tt.by, mf, a)
					for c, p := range want {
						if got := float64(out[0].Data.([]float32)[i*len(want)+c]); !approx.Equal(got, p, 1e-6) {
							t.Fatalf("%s of %d, %s, operator set %d: p[%d] = %v, want %v", tt.by, tt.k, name, opset, c, got, p)
						}
					}
					if got := out[2].Data.([]float64)[i]; got != float64(slices.Max(a)) {
						t.Fatalf("operator set %d: a score of %v, want %v", opset, got, slices.Max(a))
					}
				}
			}
		}
	}
}

// What a head without a layer cannot have is refused.
func TestFuseRefusesAPosteriorWithoutALayer(t *testing.T) {
	t.Parallel()
	m, h := scores(t, 13, layer.Softmax, 3, "x")
	for name, change := range map[string]func(*fuse.MeanField){
		"mf0":           func(mf *fuse.MeanField) { mf.Method = fuse.MF0 },
		"mf1":           func(mf *fuse.MeanField) { mf.Method = fuse.MF1 },
		"forms":         func(mf *fuse.MeanField) { mf.Forms.Forms = 4 },
		"margins":       func(mf *fuse.MeanField) { mf.OOD = layer.Temperatures{Act: 1, Ens: 1} },
		"temperature 0": func(mf *fuse.MeanField) { mf.Plain = 0 },
		"temperature":   func(mf *fuse.MeanField) { mf.Plain = math.NaN() },
		"infinite":      func(mf *fuse.MeanField) { mf.Plain = math.Inf(1) },
		"a map":         func(mf *fuse.MeanField) { mf.Affine = &layer.Affine{Scale: []float64{1}} },
		"a smoothing":   func(mf *fuse.MeanField) { mf.Affine = &layer.Affine{Smoothing: 2} },
		"a prior":       func(mf *fuse.MeanField) { mf.Prior = []float64{1} },
	} {
		mf := &fuse.MeanField{Plain: 1}
		if _, _, err := fuse.Append(m, h, mf); err != nil {
			t.Fatal(err)
		}
		change(mf)
		if _, _, err := fuse.Append(m, h, mf); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
