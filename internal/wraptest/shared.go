package wraptest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// Parts calibrates the shards of a calibration, and returns the folders of the parts.
func Parts(t testing.TB, c calibration.Config, n int) []string {
	t.Helper()
	dir := t.TempDir()
	var all []string
	for i := 1; i <= n; i++ {
		c.Shard, c.Out = rows.Shard{Index: i, Count: n}, filepath.Join(dir, fmt.Sprintf("part-%02d", i))
		if _, err := calibration.Accumulate(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c.Out)
	}
	return all
}

// Merged merges parts into a bundle.
func Merged(t testing.TB, dirs ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "merged")
	if _, err := calibration.Merge(t.Context(), calibration.MergeConfig{Parts: dirs, Out: out}); err != nil {
		t.Fatal(err)
	}
	return out
}

// Group merges parts into a part.
func Group(t testing.TB, dirs ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "group")
	if _, err := calibration.MergeParts(t.Context(), calibration.MergeConfig{Parts: dirs, Out: out}); err != nil {
		t.Fatal(err)
	}
	return out
}

// SameFiles compares two folders byte for byte.
func SameFiles(t testing.TB, what, got, want string) {
	t.Helper()
	if a, b := List(t, got), List(t, want); !slices.Equal(a, b) {
		t.Fatalf("%s: files %q, want %q", what, a, b)
	}
	for _, name := range List(t, want) {
		if !bytes.Equal(Read(t, filepath.Join(got, name)), Read(t, filepath.Join(want, name))) {
			t.Errorf("%s: another %s", what, name)
		}
	}
}

// Classified writes precomputed features with labels drawn from a classifier's own probabilities.
func Classified(t testing.TB, n, d, k int) string {
	t.Helper()
	phi, w := Random(1, n*d), Random(2, d*k)
	logits := make([]float32, n*k)
	for i := range n {
		for j := range k {
			for l := range d {
				logits[i*k+j] += 2 * phi[i*d+l] * w[l*k+j]
			}
		}
	}
	return Write(t, t.TempDir(), "f.npz", NPZ(t, map[string]Array{
		"features": {phi, []int{n, d}}, "logits": {logits, []int{n, k}}, "labels": {Sampled(logits, n), []int{n}},
	}))
}

// Tossed draws a target for each logit from its sigmoid.
func Tossed(logits []float32) []int64 {
	rng := rand.New(rand.NewPCG(6, 6))
	targets := make([]int64, len(logits))
	for i, a := range logits {
		if rng.Float64() < 1/(1+math.Exp(-float64(a))) {
			targets[i] = 1
		}
	}
	return targets
}

// Reseal edits the manifest of a copy of a bundle, and seals it again.
func Reseal(t *testing.T, dir, old, new string) string {
	t.Helper()
	edited := filepath.Join(t.TempDir(), "b")
	if err := os.CopyFS(edited, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	manifest := string(Read(t, filepath.Join(edited, bundle.ManifestName)))
	if !strings.Contains(manifest, old) {
		t.Fatalf("the manifest does not say %q", old)
	}
	Write(t, edited, bundle.ManifestName, []byte(strings.Replace(manifest, old, new, 1)))
	if err := bundle.Reseal(edited); err != nil {
		t.Fatal(err)
	}
	return edited
}

// ServedPair returns the temperatures under which mf0 gives the bundle's probabilities: the network's own and those of
// temperature scaling are mf0's without variances.
func ServedPair(b *bundle.Bundle) layer.Temperatures {
	plain := b.Calibration().PlainTemperature()
	if plain == 0 {
		return b.Manifest.Temperatures.NLL.Temperatures
	}
	return layer.Temperatures{Act: plain, Ens: math.Inf(1)}
}

// Studentized returns the studentized margin as the ood_score of a bundle, from the margin of an example's logits.
func Studentized(b *bundle.Bundle, margin, leverage float64) float64 {
	if name := b.Manifest.OODScore.Name; name != "studentized" {
		panic("the bundle serves " + name)
	}
	m := b.Manifest.OODScore.Median
	return m / (m + margin/math.Sqrt(leverage))
}

// EqualsTheFormulas compares the predictions of the fused network, alone and in batches, with those in float64 from
// features and logits of the cut network.
func EqualsTheFormulas(t *testing.T, p *wrap.Predictor, oracle CutNetwork, inputs []wrap.Tensor) {
	t.Helper()
	for _, n := range []int{1, 37} {
		some := First(inputs, n)
		got, err := p.Predict(t.Context(), some)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := oracle.Network.Run(t.Context(), some)
		if err != nil {
			t.Fatal(err)
		}
		got = FirstSteps(got)
		of := rows.Rows()
		want, err := oracle.Formulas.PredictFeatures(of.Features, of.Logits)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != n || len(want) != n {
			t.Fatalf("%d and %d predictions of %d examples", len(got), len(want), n)
		}
		for i := range want {
			Float32s.Check(t, got[i], want[i])
		}
	}
}

// FirstSteps returns the predictions without those of later steps, which a cut network does not give unasked.
func FirstSteps(all []wrap.Prediction) []wrap.Prediction {
	return slices.DeleteFunc(all, func(p wrap.Prediction) bool { return p.Step != nil && *p.Step > 0 })
}

// Tree makes a folder of images, a sub-folder for each class, labelled by the digits network, with some files that are
// no images.
func Tree(t testing.TB, names []string, each int) string {
	t.Helper()
	dir := t.TempDir()
	for c, name := range names {
		for i := range each {
			Write(t, filepath.Join(dir, name), fmt.Sprintf("%03d.png", i), Photo(t, c*each+i, 8))
		}
		Write(t, filepath.Join(dir, name), "notes.txt", []byte("by hand"))
	}
	return dir
}

// Arrays are inputs for a file.
func Arrays(inputs []wrap.Tensor) map[string]Array {
	m := map[string]Array{}
	for _, in := range inputs {
		var dims []int
		for _, d := range in.Shape {
			dims = append(dims, int(d))
		}
		m[in.Name] = Array{in.Data, dims}
	}
	return m
}

// First returns the first n examples of inputs.
func First(inputs []wrap.Tensor, n int) []wrap.Tensor {
	out := slices.Clone(inputs)
	for i, in := range inputs {
		data := reflect.ValueOf(in.Data)
		out[i].Shape = append([]int64{int64(n)}, in.Shape[1:]...)
		out[i].Data = data.Slice(0, data.Len()/int(in.Shape[0])*n).Interface()
	}
	return out
}

// Total returns the sum of numbers.
func Total(p []float64) (sum float64) {
	for _, x := range p {
		sum += x
	}
	return sum
}

// Close32 reports whether logits are equal up to the order of summation.
func Close32(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return approx.Equal(float64(x), float64(y), 1e-5*max(1, math.Abs(float64(y))))
	})
}

// ExternalConfig returns a calibration of External with x.npz, which it writes to dir, and the inputs in it.
func ExternalConfig(t *testing.T, dir string) (calibration.Config, wrap.Tensor) {
	t.Helper()
	const n = 200
	x := wrap.Tensor{Shape: []int64{n, 5}, Data: Random(1, n*5)}
	file := Write(t, dir, "x.npz", NPZ(t,
		map[string]Array{"x": {x.Data, []int{n, 5}}, "labels": {LabelsOf(t, External, n, x), []int{n}}}))
	return Quick(calibration.Config{Model: External, Train: file, Val: file}), x
}

// Decided returns a calibration of precomputed features with decisions, whose validation data are the last 1,000 of
// 4,000 examples.
func Decided(t *testing.T) (calibration.Config, string) {
	file := Classified(t, 4000, 4, 5)
	return calibration.Config{
		PrecomputedFeatures: true, Train: file + "[:3000]", Val: file + "[3000:]", Out: filepath.Join(t.TempDir(), "bundle"),
		Settings: bundle.Settings{Damping: calibrate.Damping{Relative: 1}, Decisions: EveryDecision},
	}, file
}

// Alike compares predictions made in other batches.
func Alike(t *testing.T, got, want wrap.Prediction) {
	t.Helper()
	near := func(a, b float64) bool { return approx.Equal(a, b, 1e-5*math.Abs(b)+1e-7) }
	ok := got.Class == want.Class && near(got.Confidence, want.Confidence) && near(got.OODScore, want.OODScore) &&
		near(got.Leverage, want.Leverage) &&
		near(got.Entropy, want.Entropy)
	for i := range want.Probabilities {
		ok = ok && near(got.Probabilities[i], want.Probabilities[i]) &&
			near(got.LogitVariance[i], want.LogitVariance[i]) &&
			near(float64(got.Logits[i]), float64(want.Logits[i]))
	}
	if !ok {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Within bounds the difference of predictions. In float64, sums are interpolated to 1e-9 relative, and 1 - max p
// cancels to 1e-16. The fused network computes in float32: documented are 1e-5 for a probability and 1e-4 relative
// for a variance, and the fixtures show 1e-7 and 1e-6, with logits around ten.
type Within struct{ relative, probability, variance, entropy float64 }

// Bounds for float64 and float32.
var (
	Float64s = Within{1e-8, 1e-15, 1e-8, 1e-15}
	Float32s = Within{0, 2e-6, 1e-5, 1e-5}
)

// Check compares two predictions.
func (w Within) Check(t *testing.T, got, want wrap.Prediction) {
	t.Helper()
	near := func(name string, got, want, relative, absolute float64) {
		t.Helper()
		if !approx.Equal(got, want, relative*math.Abs(want)+absolute) {
			t.Fatalf("%s is %v, want %v", name, got, want)
		}
	}
	if len(got.Probabilities) != len(want.Probabilities) || len(got.LogitVariance) != len(want.LogitVariance) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for c := range want.Probabilities {
		near("probability", got.Probabilities[c], want.Probabilities[c], w.relative, w.probability)
	}
	for k := range want.LogitVariance {
		near("variance", got.LogitVariance[k], want.LogitVariance[k], w.variance, 0)
	}
	near("confidence", got.Confidence, want.Confidence, w.relative, w.probability)
	near("entropy", got.Entropy, want.Entropy, w.relative, w.entropy)
	near("OOD score", got.OODScore, want.OODScore, w.relative, w.probability)
	near("leverage", got.Leverage, want.Leverage, w.variance, 0)
	// If two classes are equally probable, either may come first.
	if got.Class != want.Class && want.Probabilities[want.Class]-want.Probabilities[got.Class] > 2*w.probability {
		t.Fatalf("class %d, want %d", got.Class, want.Class)
	}
}

// EveryDecision asks for a decision of each kind.
var EveryDecision = conformal.Plan{TargetError: 0.35, FalseAlarm: 0.1, Alpha: 0.1, Sets: conformal.RAPS}

// Models of testdata/onnx.
var (
	External        = fixture("external.onnx")                                // with external data
	MultiLabelModel = fixture("torch_multilabel.onnx")                        // 5 inputs, 6 features, 4 labels
	OneVsRestModel  = fixture("operators/linear_classifier_one_vs_rest.onnx") // 5 inputs, which are the features, 4 classes
)

// fixture returns the path of a file in testdata/onnx, whichever package's tests run.
func fixture(name string) string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "../../testdata/onnx", filepath.FromSlash(name))
}
