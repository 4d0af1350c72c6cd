package head_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

const fixtures = "../../testdata/onnx"

// golden is one entry of a golden.json; generate.py beside it says how they were made.
type golden struct {
	File    string
	Options head.Options
	Refused string
	Nearest []string // what is suggested instead
	Head    struct {
		Op, Features, Logits, Link string
		FeatureDim                 int `json:"feature_dim"`
		Classes                    int
		Bias                       bool
		Tail                       []string
		Labels                     []string
		Steps                      int
	}
	Examples    int
	Phi, Logits []float64
	Tolerance   float64   // of the logits: what the model's rounding may add
	Gives       []float64 // what the model makes of the probabilities, in its first output
}

func goldens(t testing.TB) []golden {
	var all []golden
	for _, folder := range []string{".", "operators"} {
		b, err := os.ReadFile(filepath.Join(fixtures, folder, "golden.json"))
		if err != nil {
			t.Fatal(err)
		}
		var list []golden
		if err := json.Unmarshal(b, &list); err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			t.Fatal("no fixtures")
		}
		all = append(all, list...)
	}
	return all
}

func TestFindHead(t *testing.T) {
	t.Parallel()
	for _, g := range goldens(t) {
		name := strings.TrimSuffix(g.File, ".onnx")
		if g.Options != (head.Options{}) {
			name += " with options"
		}
		t.Run(name, func(t *testing.T) {
			m, err := onnx.Open(filepath.Join(fixtures, g.File))
			if err != nil {
				t.Fatal(err)
			}
			h, err := head.Find(m, g.Options)
			if g.Refused != "" {
				var u *head.UnsupportedError
				if !errors.As(err, &u) {
					t.Fatalf("got head %+v and error %v, want it refused: %s", h, err, g.Refused)
				}
				if !strings.Contains(err.Error(), g.Refused) || strings.Contains(err.Error(), "\n") {
					t.Errorf("refused with %q, want one line with %q", err, g.Refused)
				}
				if nearest := candidates(u); g.Nearest != nil && !slices.Equal(nearest, g.Nearest) {
					t.Errorf("suggests %q, want %q", nearest, g.Nearest)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := g.Head
			got := want
			got.Op, got.Features, got.Logits, got.Link = h.Op, h.FeaturesTensor, h.LogitsTensor, string(h.Link)
			got.FeatureDim, got.Classes, got.Bias, got.Tail = h.Features, h.Logits, h.Bias, h.Tail
			got.Labels, got.Steps = h.Labels, h.Steps
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if h.Node == "" || len(h.Evidence) < 2 {
				t.Errorf("node %q, evidence %q: too little to tell a person", h.Node, h.Evidence)
			}
			again, err := head.Find(m, head.Options{Features: h.FeaturesTensor, Logits: h.LogitsTensor,
				Approximate: h.Approximation, Link: h.Link})
			if err != nil {
				t.Errorf("not found again by the names it was given: %v", err)
			} else if again.Node != h.Node || again.Link != h.Link || again.Features != h.Features ||
				again.Logits != h.Logits || again.Bias != h.Bias {
				t.Errorf("by the names it was given it is %+v, and was %+v", again, h)
			}
			if (h.Rounding > 0) != (g.Tolerance > 0) || h.Rounding/2 > g.Tolerance {
				t.Errorf("rounded to multiples of %v, want half of that within %v", h.Rounding, g.Tolerance)
			}
			checkWeights(t, h, g)
			checkGives(t, h, g)
			checkCut(t, m, h, g.Options)
		})
	}
}

// candidates lists what an error suggests, as features and logits.
func candidates(u *head.UnsupportedError) []string {
	list := []string{}
	for _, h := range u.Candidates {
		list = append(list, h.FeaturesTensor+" "+h.LogitsTensor)
	}
	return list
}

// checkWeights holds the weights against features and logits that the reference evaluator computed.
func checkWeights(t *testing.T, h *head.Head, g golden) {
	t.Helper()
	w, b, err := h.Weights()
	if err != nil {
		t.Fatal(err)
	}
	d, k := h.Features, h.Logits
	if len(w) != k*d || (b != nil) != h.Bias || b != nil && len(b) != k {
		t.Fatalf("%d weights and %d biases for %d × %d", len(w), len(b), k, d)
	}
	for n := range g.Examples {
		for i := range k {
			var a, size float64
			for j := range d {
				x := g.Phi[n*d+j] * float64(w[i*d+j])
				a += x
				size += math.Abs(x)
			}
			if b != nil {
				a += float64(b[i])
			}
			want := g.Logits[n*k+i]
			// The reference works in the model's precision: float16 rounds to 2⁻¹¹, and a sum of
			// its products errs by some of these.
			tol := 1e-5 * (size + 1)
			if strings.HasPrefix(g.File, "float16") {
				tol = 2e-3 * (size + 1)
			}
			if g.Tolerance > 0 && h.Rounding > 0 {
				a, tol = min(max(a, h.Low), h.High), tol+g.Tolerance
			}
			if !approx.Equal(a, want, tol) {
				t.Fatalf("example %d class %d: φ·w + b = %v, the model gives %v", n, i, a, want)
			}
		}
	}
}

// checkGives holds what the head says of the model's output against what the model gave.
func checkGives(t *testing.T, h *head.Head, g golden) {
	t.Helper()
	if g.Gives == nil {
		return
	}
	k, width := h.Logits, len(g.Gives)/g.Examples
	for n := range g.Examples {
		want := g.Gives[n*width:][:width]
		got := h.Gives(probabilities(h.Link, g.Logits[n*k:][:k]))
		if len(got) != width {
			if h.Gives(make([]float64, k)) == nil && h.Link == layer.Softmax && k == width {
				got = g.Logits[n*k:][:k] // it ends in logits
			} else {
				t.Fatalf("gives %v, the model %v", got, want)
			}
		}
		for i, want := range want {
			if !approx.Equal(got[i], want, 1e-5*(1+math.Abs(want))) {
				t.Fatalf("example %d: gives %v, the model %v", n, got, g.Gives[n*width:][:width])
			}
		}
	}
}

func probabilities(by layer.Link, logits []float64) []float64 {
	var p []float64
	sum := 0.0
	for _, a := range logits {
		x := math.Exp(a)
		if by != layer.Softmax {
			x = 1 / (1 + math.Exp(-a))
		}
		p = append(p, x)
		sum += x
	}
	switch {
	case by == layer.Sigmoid && len(p) == 1:
		return []float64{1 - p[0], p[0]}
	case by != layer.Sigmoid:
		for i := range p {
			p[i] /= sum
		}
	}
	return p
}

// checkCut holds the form of the cut model: two float32 outputs, and its own head at the same
// place.
func checkCut(t *testing.T, m *onnx.Model, h *head.Head, o head.Options) {
	t.Helper()
	c, err := head.Cut(m, h)
	if err != nil {
		t.Fatal(err)
	}
	out, in := c.Outputs(), c.Inputs()
	if h.Steps > 0 {
		last := len(in) - 1
		if len(out) != 3 || out[2].String() != fmt.Sprintf("[%d] int64", h.Steps+1) || in[last].String() != "[?] int64" {
			t.Fatalf("cut model has inputs %v and outputs %v, want one more of each, for the steps", in, out)
		}
		out, in = out[:2], in[:last]
	}
	if len(out) != 2 {
		t.Fatalf("cut model has %d outputs, want 2", len(out))
	}
	for i, want := range []struct {
		name string
		dim  int
	}{{head.CutFeatures, h.Features}, {head.CutLogits, h.Logits}} {
		// A number is appended where the model has a tensor of this name.
		if !strings.HasPrefix(out[i].Name, want.name) || out[i].String() != fmt.Sprintf("[?,%d] float32", want.dim) {
			t.Errorf("cut model has output %s %v, want %s [?,%d] float32", out[i].Name, out[i], want.name, want.dim)
		}
	}
	if !reflect.DeepEqual(in, m.Inputs()) {
		t.Errorf("cut model has inputs %v, want %v", in, m.Inputs())
	}
	b, err := c.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	again, err := onnx.Parse("again", b)
	if err != nil {
		t.Fatalf("the cut model cannot be read: %v", err)
	}
	if h.Steps > 0 {
		return // the selection of a step is not part of a head
	}
	h2, err := head.Find(again, head.Options{Output: out[1].Name, Approximate: o.Approximate, Link: h.Link})
	if err != nil {
		t.Fatalf("the cut model has lost the head: %v", err)
	}
	// A layer within a fused operator is a separate layer in the cut model.
	if h2.Op == h.Op && h2.Node != h.Node || h2.Features != h.Features || h2.Logits != h.Logits {
		t.Errorf("the cut model has head %+v, want %+v", h2, h)
	}
}
