package export

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// decides compares the decisions of an exported model with those of its bundle in Go.
func decides(t *testing.T, dir string, want []string, inputs ...wrap.Tensor) (abstained, inSets int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.onnx")
	r, err := Write(t.Context(), dir, Options{Out: path})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range r.Outputs[len(r.Outputs)-len(want):] {
		names = append(names, o.Key)
	}
	if !slices.Equal(names, want) {
		t.Fatalf("the last outputs are %v, want %v", names, want)
	}
	got := exported(t, path, inputs...)
	predictions, err := opened(t, dir, wrap.Options{}).Predict(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range predictions {
		if o := r.Outputs.Of("abstain"); o != nil {
			abstain := got[o.Name].Data.([]bool)[i]
			if abstain != *p.Abstain || abstain != (p.AbstainReason != "") {
				t.Errorf("example %d: the graph abstains: %t, and the bundle %t for %q", i, abstain, *p.Abstain, p.AbstainReason)
			}
			if abstain {
				abstained++
			}
		}
		if o := r.Outputs.Of("prediction_set"); o != nil {
			c := len(p.Probabilities)
			set := []int{}
			for k, in := range got[o.Name].Data.([]bool)[i*c : (i+1)*c] {
				if in {
					set = append(set, k)
				}
			}
			if !slices.Equal(set, p.PredictionSet) {
				t.Errorf("example %d: the graph's set is %v, and the bundle's %v of %v", i, set, p.PredictionSet, p.Probabilities)
			}
			inSets += len(set)
		}
	}
	return abstained, inSets
}

func TestAnExportedModelDecidesAsItsBundle(t *testing.T) {
	t.Parallel()
	x := digitTensor(t, 1500, 1797)
	for _, score := range conformal.Scores {
		for _, conditional := range []bool{false, true} {
			c := quick(config(t, filepath.Join(t.TempDir(), "bundle")))
			c.Decisions = conformal.Plan{
				TargetError: 0.04, FalseAlarm: 0.1, Alpha: 0.02, Sets: score, ClassConditional: conditional,
			}
			if conditional { // with about 15 examples of each class
				c.Decisions.Alpha = 0.1
			}
			mustCalibrate(t, c)
			abstained, in := decides(t, c.Out, []string{"abstain", "prediction_set"}, x)
			if abstained == 0 || abstained > 150 || in < 200 || in > 900 {
				t.Errorf("%s: of 297 examples %d are abstained from, and %d classes are in sets: nothing was compared", score, abstained, in)
			}
		}
	}
}

// Linear networks of every link, in old and new operator sets. In that of eight classes two and two are always equally
// probable.
func TestExportedModelsOfEveryLinkDecideAsTheirBundles(t *testing.T) {
	t.Parallel()
	const n, width, twins = 900, 6, 8
	for _, tt := range []struct {
		link   layer.Link
		k      int
		opset  uint64
		multi  bool
		score  conformal.Score
		wanted []string
	}{
		{layer.Softmax, 5, 13, false, conformal.RAPS, []string{"abstain", "prediction_set"}},
		{layer.Softmax, 300, 13, false, conformal.RAPS, []string{"abstain", "prediction_set"}},
		{layer.Softmax, 5, 7, false, conformal.LAC, []string{"abstain", "prediction_set"}},
		{layer.Softmax, 5, 9, false, conformal.APS, []string{"leverage", "abstain"}}, // the operator set cannot rank
		{layer.Sigmoid, 1, 18, false, conformal.APS, []string{"abstain", "prediction_set"}},
		{layer.Sigmoid, 3, 13, true, conformal.LAC, []string{"abstain", "prediction_set"}},
		{layer.OneVsRest, 4, 11, false, conformal.APS, []string{"abstain", "prediction_set"}},
		{layer.Softmax, twins, 13, false, conformal.APS, []string{"abstain", "prediction_set"}},
	} {
		t.Run(fmt.Sprintf("%s of %d, opset %d", tt.link, tt.k, tt.opset), func(t *testing.T) {
			dir := t.TempDir()
			weights := random(4, width*tt.k)
			if tt.k == twins {
				for i := 1; i < len(weights); i += 2 {
					weights[i] = weights[i-1]
				}
			}
			model := write(t, dir, "model.onnx", selector(tt.opset, "y", weights, width, tt.k))
			x := wrap.Tensor{Shape: []int64{n, width}, Data: random(3, n*width)}
			labels, dims := drawn(x.Data.([]float32), weights, n, tt.k, tt.multi)
			file := write(t, dir, "data.npz", npz(t, map[string]array{"x": {x.Data, []int{n, width}}, "labels": {labels, dims}}))
			c := calibration.Config{
				Model: model, Train: file + "[:300]", Val: file + "[300:800]",
				Out: filepath.Join(dir, "bundle"),
				Settings: bundle.Settings{
					Head: head.Options{Link: tt.link}, Damping: calibrate.Damping{Relative: 1},
					Decisions: conformal.Plan{TargetCoverage: 0.7, FalseAlarm: 0.1, Alpha: 0.2, Sets: tt.score},
				},
			}
			mustCalibrate(t, c)
			fresh := wrap.Tensor{Shape: []int64{100, width}, Data: x.Data.([]float32)[800*width:]}
			abstained, in := decides(t, c.Out, tt.wanted, fresh)
			if abstained == 0 || abstained == 100 || in == 0 && slices.Contains(tt.wanted, "prediction_set") {
				t.Errorf("%d of 100 are abstained from, %d classes are in sets: nothing was compared", abstained, in)
			}
		})
	}
}

// drawn draws labels from the softmax of x·w, or one from each sigmoid.
func drawn(x, w []float32, n, k int, multi bool) (labels []int64, dims []int) {
	rng := rand.New(rand.NewPCG(11, 11))
	width := len(x) / n
	for i := range n {
		logits, sum := make([]float64, k), 0.0
		for j := range k {
			for d := range width {
				logits[j] += float64(x[i*width+d]) * float64(w[d*k+j])
			}
			sum += math.Exp(logits[j])
		}
		switch u := rng.Float64(); {
		case multi:
			for _, a := range logits {
				yes := int64(0)
				if rng.Float64() < 1/(1+math.Exp(-a)) {
					yes = 1
				}
				labels = append(labels, yes)
			}
		case k == 1:
			yes := int64(0)
			if u < sum/(1+sum) {
				yes = 1
			}
			labels = append(labels, yes)
		default:
			y := 0
			for u -= math.Exp(logits[0]) / sum; u >= 0 && y < k-1; u -= math.Exp(logits[y]) / sum {
				y++
			}
			labels = append(labels, int64(y))
		}
	}
	if multi {
		return labels, []int{n, k}
	}
	return labels, []int{n}
}

func TestExportSaysWhichDecisionsAreLeftOut(t *testing.T) {
	t.Parallel()
	c := quick(config(t, filepath.Join(t.TempDir(), "bundle")))
	c.Decisions = conformal.Plan{Alpha: 0.1}
	mustCalibrate(t, c)
	r, err := Write(t.Context(), c.Out, Options{Out: filepath.Join(t.TempDir(), "model.onnx"), Method: "mf1"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Outputs.Of("prediction_set") != nil || !strings.Contains(strings.Join(r.Warnings, "\n"), "do not apply to the probabilities of mf1") {
		t.Errorf("outputs %v, warnings %q", r.Outputs, r.Warnings)
	}
}

// No warning is printed about decisions that the model makes, or that were not requested.
func TestExportWarnsOnlyAboutDecisionsThatAreLeftOut(t *testing.T) {
	t.Parallel()
	abstains := fuse.Outputs{{Key: "probabilities"}, {Key: "abstain"}}
	sets := append(abstains[:2:2], fuse.Output{Key: "prediction_set"})
	set := &conformal.Sets{Score: conformal.APS}
	for name, test := range map[string]struct {
		decisions *conformal.Decisions
		outputs   fuse.Outputs
		wanted    bool
		want      string
	}{
		"no decisions":                  {nil, abstains, false, ""},
		"none of this method":           {&conformal.Decisions{Set: set}, abstains, false, "abstain and prediction_set are left out"},
		"no set was asked for":          {&conformal.Decisions{}, abstains, true, ""},
		"the set is there":              {&conformal.Decisions{Set: set}, sets, true, ""},
		"the operators cannot rank one": {&conformal.Decisions{Set: set}, abstains, true, "prediction_set is left out: aps needs operator set"},
	} {
		got := strings.Join(undecided(test.decisions, &Report{Method: "mf1", Outputs: test.outputs}, test.wanted), "\n")
		if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
