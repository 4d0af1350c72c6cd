package onnxlayers_test

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

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/onnxlayers"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// layersText lists layers as "Op in→out activation", with "+b" where there is a bias.
func layersText(layers []onnxlayers.Dense) string {
	var s []string
	for _, d := range layers {
		bias := ""
		if d.Bias {
			bias = "+b"
		}
		s = append(s, fmt.Sprintf("%s%s %d→%d %v", d.Op, bias, d.In, d.Out, d.Activation))
	}
	return strings.Join(s, ", ")
}

// forward computes the logits of one example from what goes into a tail.
func forward(t *testing.T, tail *onnxlayers.Tail, x []float64) []float64 {
	t.Helper()
	for _, d := range tail.Layers {
		w, b, err := d.Weights()
		if err != nil {
			t.Fatal(err)
		}
		if len(x) != d.In || len(w) != d.In*d.Out || (b != nil) != d.Bias || b != nil && len(b) != d.Out {
			t.Fatalf("%d numbers go into %s %d→%d with %d weights and %d biases", len(x), d.Node, d.In, d.Out, len(w),
				len(b))
		}
		y := make([]float64, d.Out)
		for i := range y {
			if b != nil {
				y[i] = float64(b[i])
			}
			for j, a := range x {
				y[i] += a * float64(w[i*d.In+j])
			}
			y[i], _ = d.Activation.At(y[i])
		}
		x = y
	}
	return x
}

// The layers must give the logits of the model.
func TestTailsOfFixturesAreAsGenerated(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("../../../../testdata/onnx", "dense", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		File         string
		Layers       [][5]any
		End          string
		Tolerance    float64
		Examples     int
		Tail, Logits []float64
	}
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("no fixtures")
	}
	for _, g := range list {
		t.Run(strings.TrimSuffix(g.File, ".onnx"), func(t *testing.T) {
			m, err := onnx.Open(filepath.Join("../../../../testdata/onnx", "dense", g.File))
			if err != nil {
				t.Fatal(err)
			}
			h, err := head.Find(m, head.Options{})
			if err != nil {
				t.Fatal(err)
			}
			tail, err := onnxlayers.Find(m, h, 0)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, l := range g.Layers {
				bias := ""
				if l[3].(bool) {
					bias = "+b"
				}
				want = append(want, fmt.Sprintf("%v%s %v→%v %v", l[0], bias, l[1], l[2], l[4]))
			}
			if got := layersText(tail.Layers); got != strings.Join(want, ", ") {
				t.Fatalf("got  %s\nwant %s", got, strings.Join(want, ", "))
			}
			k, d := h.Logits, tail.Layers[0].In
			for n := range g.Examples {
				for i, a := range forward(t, tail, g.Tail[n*d:][:d]) {
					if w := g.Logits[n*k+i]; !approx.Equal(a, w, 1e-4+g.Tolerance) {
						t.Fatalf("example %d class %d: the layers give %v, the model %v", n, i, a, w)
					}
				}
			}
			for n := 1; n <= len(tail.Layers); n++ {
				top, err := onnxlayers.Find(m, h, n)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := layersText(top.Layers), layersText(tail.Layers[len(tail.Layers)-n:]); got != want {
					t.Errorf("the top %d layers are %s, want %s", n, got, want)
				}
				c, err := onnxlayers.Cut(m, h, top)
				if err != nil {
					t.Fatal(err)
				}
				got := fmt.Sprint(c.Outputs())
				if want := fmt.Sprint([]string{fmt.Sprintf("[?,%d] float32", top.Layers[0].In),
					fmt.Sprintf("[?,%d] float32", k)}); got != want {
					t.Errorf("cut below %d n, outputs are %v, want %v", n, got, want)
				}
			}
			_, err = onnxlayers.Find(m, h, len(tail.Layers)+1)
			var u *onnxlayers.UnsupportedError
			if !errors.As(err, &u) {
				t.Fatalf("one layer more: got %v, want it refused", err)
			}
			counts := fmt.Sprintf("ends in %d dense layer", len(tail.Layers))
			if !strings.Contains(err.Error(), g.End) || !strings.Contains(err.Error(), counts) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("refused with %q, want one line with %q and %q", err, counts, g.End)
			}
		})
	}
}

func TestATailOfOneLayerIsTheHead(t *testing.T) {
	t.Parallel()
	type golden struct {
		File    string
		Options head.Options
		Refused string
	}
	var all []golden
	for _, folder := range []string{".", "operators"} {
		b, err := os.ReadFile(filepath.Join("../../../../testdata/onnx", folder, "golden.json"))
		if err != nil {
			t.Fatal(err)
		}
		var list []golden
		if err := json.Unmarshal(b, &list); err != nil || len(list) == 0 {
			t.Fatalf("no fixtures: %v", err)
		}
		all = append(all, list...)
	}
	for _, g := range all {
		if g.Refused != "" {
			continue
		}
		t.Run(strings.TrimSuffix(g.File, ".onnx"), func(t *testing.T) {
			m, err := onnx.Open(filepath.Join("../../../../testdata/onnx", g.File))
			if err != nil {
				t.Fatal(err)
			}
			h, err := head.Find(m, g.Options)
			if err != nil {
				t.Fatal(err)
			}
			tail, err := onnxlayers.Find(m, h, 1)
			if err != nil {
				t.Fatal(err)
			}
			if d := tail.Layers[0]; tail.Input != h.FeaturesTensor || d.Op != h.Op || d.Node != h.Node ||
				d.In != h.Features || d.Out != h.Logits || d.Bias != h.Bias ||
				d.Activation != (onnxlayers.Activation{Func: onnxlayers.Identity}) || d.Rounding != h.Rounding {
				t.Errorf("got %+v of %q, want what the head is: %+v", d, tail.Input, h)
			}
			cut, err := onnxlayers.Cut(m, h, tail)
			if err != nil {
				t.Fatal(err)
			}
			same, err := head.Cut(m, h)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(bytesOf(t, cut), bytesOf(t, same)) {
				t.Error("cut below one layer, the model is another than that cut at the head")
			}
			// Any number of layers is found without an error.
			if all, err := onnxlayers.Find(m, h, 0); err != nil || len(all.Layers) == 0 {
				t.Errorf("all layers: %+v, %v", all, err)
			}
		})
	}
}

func bytesOf(t *testing.T, m *onnx.Model) []byte {
	t.Helper()
	b, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFindRefusesOtherNumbersAndModels(t *testing.T) {
	t.Parallel()
	open := func() (*onnx.Model, *head.Head) {
		m, err := onnx.Open(filepath.Join("../../../../testdata/onnx", "dense", "relu.onnx"))
		if err != nil {
			t.Fatal(err)
		}
		h, err := head.Find(m, head.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return m, h
	}
	m, h := open()
	if _, err := onnxlayers.Find(m, h, -1); err == nil ||
		!strings.Contains(err.Error(), "-1 dense layers, want a positive number") {
		t.Errorf("-1 layers: %v", err)
	}
	tail, err := onnxlayers.Find(m, h, 2)
	if err != nil {
		t.Fatal(err)
	}
	m2, h2 := open()
	for name, f := range map[string]func(){
		"the head of another model":            func() { onnxlayers.Find(m, h2, 1) },
		"a cut with the head of another model": func() { onnxlayers.Cut(m2, h, tail) },
		"a cut with the tail of another head":  func() { onnxlayers.Cut(m2, h2, tail) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestActivationSlopesAreFiniteDifferences(t *testing.T) {
	t.Parallel()
	for _, a := range []onnxlayers.Activation{
		{Func: onnxlayers.Identity}, {Func: onnxlayers.Relu}, {Func: onnxlayers.LeakyRelu, Alpha: 0.01},
		{Func: onnxlayers.Elu, Alpha: 0.7}, {Func: onnxlayers.Selu, Alpha: 1.67, Gamma: 1.05},
		{Func: onnxlayers.Tanh}, {Func: onnxlayers.Logistic}, {Func: onnxlayers.Softplus}, {Func: onnxlayers.Gelu},
		{Func: onnxlayers.GeluTanh}, {Func: onnxlayers.Swish,
			Alpha: 1.702}, {Func: onnxlayers.HardSwish},
	} {
		for x := -40.15; x < 40; x += 0.1 { // never on a kink
			const h = 1e-5
			above, _ := a.At(x + h)
			below, _ := a.At(x - h)
			y, slope := a.At(x)
			// Central differences err by h²/6 times the third derivative, here at most 3, and by
			// the rounding of y over h.
			if want := (above - below) / (2 * h); !approx.Equal(slope, want, 1e-9+1e-15/h*math.Max(1, math.Abs(y))) {
				t.Errorf("%v at %v: slope %v, want %v", a, x, slope, want)
			}
		}
		for _, x := range []float64{-1e3, 1e3} {
			if y, slope := a.At(x); math.IsNaN(y) || math.IsInf(y, 0) || math.IsNaN(slope) || math.IsInf(slope, 0) {
				t.Errorf("%v at %v: %v with slope %v", a, x, y, slope)
			}
		}
		if y, _ := a.At(math.NaN()); !math.IsNaN(y) {
			t.Errorf("%v of NaN is %v", a, y)
		}
		// Apply is At of each, with the derivatives or without.
		x := []float64{-1e3, -3.3, -0.4, 0, 0.4, 3.3, 1e3, math.NaN()}
		y, slope, alone := make([]float64, len(x)), make([]float64, len(x)), slices.Clone(x)
		a.Apply(y, slope, x)
		a.Apply(alone, nil, alone)
		for i, v := range x {
			wantY, wantSlope := a.At(v)
			if !same(y[i], wantY) || !same(alone[i], wantY) || !same(slope[i], wantSlope) {
				t.Errorf("%v at %v: %v and %v with slope %v, want %v with %v", a, v, y[i], alone[i], slope[i], wantY, wantSlope)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown function: no panic")
		}
	}()
	onnxlayers.Activation{Func: "Sine"}.At(0)
}
