package score

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
)

// reference is what reference.py wrote.
type reference struct {
	Cases []struct {
		Name              string
		Classes, Features int
		Train             [][]float32
		Labels            []int
		Weight            [][]float64
		Bias              []float64
		Queries           [][]float32
		Threshold, Alpha  float64
		Origin            []float64
		Scores            map[string][]float64
	}
}

func flat[T any](rows [][]T) (all []T) {
	for _, r := range rows {
		all = append(all, r...)
	}
	return all
}

// Every score is that of pytorch-ood, fitted to the same examples, up to the constants by which its
// numbers differ from the paper's.
func TestScoresAreThoseOfTheReference(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref reference
	if err := json.Unmarshal(data, &ref); err != nil || len(ref.Cases) == 0 {
		t.Fatal(len(ref.Cases), err)
	}
	for _, c := range ref.Cases {
		training := trainingOf(flat(c.Train), c.Labels, flat(c.Weight), c.Bias, layer.Softmax)
		queries := flat(c.Queries)
		x := Examples{N: len(c.Queries), K: c.Classes, D: c.Features, Link: layer.Softmax, Features: queries,
			Logits: logitsOf(queries, flat(c.Weight), c.Bias), Variance: make([]float64, len(c.Queries)*c.Classes),
			Leverage: make([]float64, len(c.Queries))}
		n := float64(len(c.Train))
		for name, want := range c.Scores {
			s, ok := Find(name)
			if !ok {
				t.Errorf("there is no score %s", name)
				continue
			}
			x := x
			own := *s // whose fit is replaced
			s = &own
			switch name {
			case "entropy", "gen":
				x.Logits = slices.Clone(x.Logits)
				for i := range x.Logits {
					x.Logits[i] /= 8
				}
			case "mahalanobis": // the library adds 1e-6 to sums: next to nothing
				s.fit = func(t *Training) (Tensors, error) { return fitGaussians(t, 1e-12) }
			case "relative_mahalanobis":
				s.fit = func(t *Training) (Tensors, error) {
					tensors, err := fitGaussians(t, 1e-12)
					if err != nil {
						return nil, err
					}
					return fitBackground(t, tensors, 1e-12)
				}
			}
			fitted, err := s.Fit(training)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for i, got := range fitted.Values(x) {
				want := want[i]
				switch name {
				case "entropy": // without the logarithm
					got = math.Exp(got)
				case "gen": // likewise, and the mean in place of the sum
					got = math.Exp(got) / float64(c.Classes)
				case "mahalanobis": // half of it, of sums in place of a covariance
					want *= 2 * n
				case "relative_mahalanobis": // likewise, but the whole
					want *= n
				}
				if !approx.Relative(got, want, tolerances[name]) {
					t.Errorf("%s, %s: example %d has %v, want %v", c.Name, name, i, got, want)
				}
			}
		}
		if got := must(react.Fit(training)).Tensors.Of("threshold").Data[0]; !approx.Relative(got, c.Threshold, 1e-12) {
			t.Errorf("%s: react clips at %v, want %v", c.Name, got, c.Threshold)
		}
		learned := must(vim.Fit(training)).Tensors
		if got := learned.Of("alpha").Data[0]; !approx.Relative(got, c.Alpha, 1e-7) {
			t.Errorf("%s: vim has alpha %v, want %v", c.Name, got, c.Alpha)
		}
		for i, got := range learned.Of("origin").Data {
			if !approx.Relative(got, c.Origin[i], 1e-9) {
				t.Errorf("%s: vim's origin is %v at %d, want %v", c.Name, got, i, c.Origin[i])
			}
		}
	}
}

// tolerances are relative. Where they are larger, logits are float32 here, or the library adds another
// ridge to a covariance.
var tolerances = map[string]float64{
	"react": 1e-12, "ash": 1e-12, "residual": 1e-9, "knn": 1e-9,
	"max_logit": 1e-6, "energy": 1e-6, "entropy": 1e-6, "gen": 1e-6, "fdbd": 1e-6, "vim": 1e-6,
	"mahalanobis": 1e-5, "relative_mahalanobis": 1e-5,
}

func must[T any](f T, err error) T {
	if err != nil {
		panic(err)
	}
	return f
}

// trainingOf sums examples in the obvious way. All are in the sample.
func trainingOf(features []float32, labels []int, w, b []float64, by layer.Link) *Training {
	n, k := len(labels), len(b)
	d := len(features) / n
	t := &Training{K: k, D: d, Link: by, W: w, B: b, N: n, Gram: make([]float64, d*d), Sum: make([]float64, d)}
	classes := k
	if by == layer.Sigmoid && k == 1 {
		classes = 2
	}
	if by != layer.Sigmoid || k == 1 {
		t.ClassSums, t.ClassCounts = make([]float64, classes*d), make([]int, classes)
	}
	for i, label := range labels {
		phi := features[i*d : (i+1)*d]
		for j, v := range phi {
			t.Sum[j] += float64(v)
			for l, u := range phi {
				t.Gram[j*d+l] += float64(v) * float64(u)
			}
			if t.ClassSums != nil {
				t.ClassSums[label*d+j] += float64(v)
			}
		}
		if t.ClassSums != nil {
			t.ClassCounts[label]++
		}
	}
	t.Sample = Sample{M: n, Features: features}
	return t
}

// directionsOf are training data of the directions of features, nil without sums by class.
func directionsOf(t *Training, labels []int) *Training {
	if t.ClassSums == nil {
		return nil
	}
	units := slices.Clone(t.Sample.Features)
	for at := 0; at < len(units); at += t.D {
		var square float64
		for _, v := range units[at : at+t.D] {
			square += float64(v) * float64(v)
		}
		for j := range t.D {
			units[at+j] = float32(float64(units[at+j]) / math.Sqrt(square))
		}
	}
	return trainingOf(units, labels, t.W, t.B, t.Link)
}

// logitsOf are Wφ + b.
func logitsOf(features []float32, w, b []float64) (logits []float32) {
	k := len(b)
	d := len(w) / k
	for at := 0; at < len(features); at += d {
		for c := range k {
			a := b[c]
			for j, v := range features[at : at+d] {
				a += w[c*d+j] * float64(v)
			}
			logits = append(logits, float32(a))
		}
	}
	return logits
}
