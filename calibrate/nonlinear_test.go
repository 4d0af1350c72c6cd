package calibrate_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx/head"
)

// outputs are the logits of n examples of K classes from probabilities [n,K], as a head without a linear layer has
// them, with labels drawn from other probabilities.
func outputs(given, right []float64, k int, rng *rand.Rand) *rows.Batch {
	b := &rows.Batch{N: len(given) / k}
	for _, p := range given {
		b.Logits = append(b.Logits, float32(math.Log(math.Max(p, head.LeastProbability))))
	}
	for i := range b.N {
		left, y := rng.Float64(), 0
		for y < k-1 && left >= right[i*k+y] {
			left -= right[i*k+y]
			y++
		}
		b.Labels = append(b.Labels, y)
	}
	return b
}

// softmaxOf is exp(power·z)/Σ.
func softmaxOf(z []float64, power float64) []float64 {
	p, sum := make([]float64, len(z)), 0.0
	for j, v := range z {
		p[j] = math.Exp(power * v)
		sum += p[j]
	}
	for j := range p {
		p[j] /= sum
	}
	return p
}

// votes are the outputs of a simulated forest of 100 trees that agree more than they are right: they vote by p³/Σp³
// where the classes have the probabilities p, and so often not at all for a class that is right.
func votes(n, k int, seed uint64) *rows.Batch {
	const trees = 100
	rng := rand.New(rand.NewPCG(seed, 11))
	var given, right []float64
	for range n {
		z := make([]float64, k)
		for j := range z {
			z[j] = 1.5 * rng.NormFloat64()
		}
		count := make([]float64, k)
		for range trees {
			left, y := rng.Float64(), 0
			for of := softmaxOf(z, 3); y < k-1 && left >= of[y]; y++ {
				left -= of[y]
			}
			count[y] += 1. / trees
		}
		given, right = append(given, count...), append(right, softmaxOf(z, 1)...)
	}
	return outputs(given, right, k, rng)
}

// exact are outputs that are the probabilities of the labels.
func exact(n, k int, seed uint64) *rows.Batch {
	rng := rand.New(rand.NewPCG(seed, 12))
	var p []float64
	for range n {
		z := make([]float64, k)
		for j := range z {
			z[j] = 2 * rng.NormFloat64()
		}
		p = append(p, softmaxOf(z, 1)...)
	}
	return outputs(p, p, k, rng)
}

func fitMaps(t testing.TB, h layer.Head, val, ood *rows.Batch, o calibrate.FitOptions) *calibrate.Fitted {
	t.Helper()
	f, err := calibrate.FitMaps(t.Context(), h, val, ood, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// meanNLL is the mean -log p of the labels.
func meanNLL(logp []float64, b *rows.Batch) (sum float64) {
	for i, y := range b.Labels {
		sum -= logp[i*len(logp)/b.N+y] / float64(b.N)
	}
	return sum
}

// smoothedTS is log softmax(log(p+ε)/T) with p = softmax(a), as it is written down.
func smoothedTS(logits []float32, epsilon, temperature float64) (logp []float64) {
	z, sum := make([]float64, len(logits)), 0.0
	for j, a := range logits {
		z[j] = float64(a)
	}
	for _, p := range softmaxOf(z, 1) {
		logp = append(logp, math.Log(p+epsilon)/temperature)
		sum += math.Exp(math.Log(p+epsilon) / temperature)
	}
	for j := range logp {
		logp[j] -= math.Log(sum)
	}
	return logp
}

func unlayered(k, features int) layer.Head {
	return layer.Head{Logits: k, Features: features, Link: layer.Softmax, Nonlinear: true}
}

// A class that few trees have seen is not one that cannot be: with votes the smoothing is chosen, and predicts new data
// better than any temperature does alone.
func TestVotesAreSmoothed(t *testing.T) {
	t.Parallel()
	for _, k := range []int{2, 4} {
		h, fresh := unlayered(k, 0), votes(4000, k, 2)
		f := fitMaps(t, h, votes(1000, k, 1), nil, calibrate.FitOptions{KeepClass: true})
		if f.Method != calibrate.TS || !(f.Smoothing >= 1e-5 && f.Smoothing <= 0.1) || !f.Choice.NoPosterior {
			t.Fatalf("K=%d: smoothing %v, %+v", k, f.Smoothing, f.Choice)
		}
		best := math.Inf(1)
		for _, temperature := range []float64{1, 1.5, 2, 2.5, 3, 4, 5, 7, 10} {
			logp, _ := calibrate.Plain(h, fresh.Logits, fresh.N, temperature)
			best = min(best, meanNLL(logp, fresh))
		}
		if got := meanNLL(f.Predict(nil, fresh.Logits, fresh.N).LogP, fresh); !(got < best-0.01) {
			t.Errorf("K=%d: NLL %v on fresh data, the best temperature without smoothing has %v", k, got, best)
		}
		// What else may be chosen begins with it.
		all := fitMaps(t, h, votes(1000, k, 1), nil, calibrate.FitOptions{})
		if all.Smoothing != f.Smoothing || all.TS != f.TS || all.Choice.Matrix &&
			all.Posterior.Affine.Smoothing != f.Smoothing {
			t.Errorf("K=%d: smoothing %v and T %v, where the class is kept %v and %v", k, all.Smoothing, all.TS, f.Smoothing, f.TS)
		}
		if got := meanNLL(all.Predict(nil, fresh.Logits, fresh.N).LogP, fresh); !(got < best-0.01) {
			t.Errorf("K=%d: NLL %v of %s on fresh data, temperature scaling has %v", k, got, all.Method, best)
		}
	}
}

// Half a nat is gained by chance in one sample of three: these are two of the others.
func TestRightProbabilitiesAreLeftAsTheyAre(t *testing.T) {
	t.Parallel()
	for k, seed := range map[int]uint64{2: 12, 5: 11} {
		f := fitMaps(t, unlayered(k, 0), exact(1000, k, seed), nil, calibrate.FitOptions{})
		if f.Method != calibrate.MLE || f.Smoothing != 0 || !approx.Equal(f.TS, 1, 0.1) {
			t.Errorf("K=%d: %s with T=%v and smoothing %v: %s", k, f.Method, f.TS, f.Smoothing, f.Choice)
		}
		if text := f.Choice.String(); !strings.Contains(text, "mf0 needs a linear last layer") {
			t.Errorf("the reason %q", text)
		}
	}
}

// Temperature scaling with a smoothing is softmax(log(p+ε)/T), wherever it is computed.
func TestSmoothedTemperatureScalingIsItsFormula(t *testing.T) {
	t.Parallel()
	const k = 3
	h, val, ood := unlayered(k, 0), votes(600, k, 4), votes(200, k, 5)
	for i := range ood.Logits { // flatter
		ood.Logits[i] /= 3
	}
	f := fitMaps(t, h, val, ood, calibrate.FitOptions{KeepClass: true})
	if f.Method != calibrate.TS || f.Smoothing == 0 || !f.OODTuned || !(f.TSOOD > 0) {
		t.Fatalf("%s, smoothing %v, T for OOD detection %v", f.Method, f.Smoothing, f.TSOOD)
	}
	fresh := votes(50, k, 6)
	fresh.Logits[0], fresh.Logits[1], fresh.Logits[2] = 0, -104, -50
	got := f.Predict(nil, fresh.Logits, fresh.N)
	plain, margin := f.Plain(calibrate.TS, fresh.Logits, fresh.N)
	unsmoothed, _ := f.Plain(calibrate.MLE, fresh.Logits, fresh.N)
	own, _ := calibrate.Plain(h, fresh.Logits, fresh.N, 1)
	for i := range fresh.N {
		want := smoothedTS(fresh.Logits[i*k:(i+1)*k], f.Smoothing, f.TS)
		for j, w := range want {
			if g := got.LogP[i*k+j]; !approx.Equal(g, w, 1e-13*(1+math.Abs(w))) {
				t.Fatalf("example %d: log p %v, want %v", i, g, w)
			}
		}
		// The log-odds of the most probable class, minus those by chance.
		best := slices.Max(want)
		if w := best - math.Log(-math.Expm1(best)) + math.Log(k-1); !approx.Equal(margin[i], w, 1e-9*(1+math.Abs(w))) {
			t.Fatalf("example %d: margin %v, want %v", i, margin[i], w)
		}
	}
	if !slices.Equal(plain, got.LogP) || !slices.Equal(margin, got.Margin) {
		t.Error("Plain and Predict differ")
	}
	if !slices.Equal(unsmoothed, own) {
		t.Error("the network's own probabilities are smoothed")
	}
	// The temperature for OOD detection is of the smoothed logits too: no other detects better.
	detects := func(temperature float64) float64 {
		of := func(b *rows.Batch) (s []float64) {
			for i := range b.N {
				s = append(s, -slices.Max(smoothedTS(b.Logits[i*k:(i+1)*k], f.Smoothing, temperature)))
			}
			return s
		}
		v, err := metrics.AUROC(of(val), of(ood), nil)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, factor := range []float64{0.5, 0.8, 1.25, 2} {
		if got, other := detects(f.TSOOD), detects(factor*f.TSOOD); !(got >= other-1e-3) {
			t.Errorf("AUROC %v at T=%v, %v at %v times that", got, f.TSOOD, other, factor)
		}
	}
}

// Without a layer there is no posterior, and so none of its numbers: they are absent, not zero.
func TestWithoutALayerThereAreNoVariances(t *testing.T) {
	t.Parallel()
	f := fitMaps(t, unlayered(3, 0), votes(300, 3, 7), votes(100, 3, 8), calibrate.FitOptions{})
	p := f.Predict(nil, votes(5, 3, 9).Logits, 5)
	if p.Variance != nil || p.Leverage != nil {
		t.Errorf("variances %v, leverages %v", p.Variance, p.Leverage)
	}
	if len(p.LogP) != 15 || len(p.Margin) != 5 || len(p.OODScore) != 5 || len(p.OODPercentile) != 5 {
		t.Errorf("predictions %+v", p)
	}
	zero := layer.Temperatures{}
	if f.NLL != zero || f.OOD != zero || f.Optimum != zero || f.Candidates != nil || f.MedianVariance != 0 ||
		f.Posterior.Blocks != nil || f.Posterior.Structure != "" || f.Posterior.Covariance != "" {
		t.Errorf("%+v with the posterior %+v", f, f.Posterior)
	}
}

// Matrix scaling of the logits log(1-p) and log p is beta calibration, softmax of 0 and a log p - b log(1-p) + c: it
// finds the probabilities of data made by one.
func TestMatrixScalingOfTwoClassesIsBetaCalibration(t *testing.T) {
	t.Parallel()
	draw := func(n int, seed uint64) (b *rows.Batch, q []float64) {
		rng := rand.New(rand.NewPCG(seed, 13))
		var given, right []float64
		for range n {
			p := 0.002 + 0.996*rng.Float64()
			one := 1 / (1 + math.Exp(-(0.4*math.Log(p) - 2*math.Log(1-p) - 0.7)))
			given, right, q = append(given, 1-p, p), append(right, 1-one, one), append(q, one)
		}
		return outputs(given, right, 2, rng), q
	}
	val, _ := draw(4000, 1)
	f := fitMaps(t, unlayered(2, 0), val, nil, calibrate.FitOptions{})
	if f.Method != calibrate.Matrix {
		t.Fatalf("%s", f.Choice)
	}
	fresh, q := draw(4000, 2)
	got := f.Predict(nil, fresh.Logits, fresh.N).LogP
	var truth, off float64
	for i, y := range fresh.Labels {
		truth -= math.Log([]float64{1 - q[i], q[i]}[y]) / float64(fresh.N)
		off += math.Abs(math.Exp(got[2*i+1])-q[i]) / float64(fresh.N)
	}
	// Three parameters of 4,000 examples lose 3/8000 nats, with a standard deviation of as much.
	if nll := meanNLL(got, fresh); !(nll < truth+2e-3) || !(off < 0.02) {
		t.Errorf("NLL %v, of the truth %v; probabilities are off by %v", nll, truth, off)
	}
}

// Parts of a head without a layer keep what scores are fitted to, and that there is no layer.
func TestSumsSayThatThereIsNoLayer(t *testing.T) {
	t.Parallel()
	for _, nonlinear := range []bool{true, false} {
		h := layer.Head{Features: 3, Logits: 2, Link: layer.Softmax, Nonlinear: nonlinear}
		sums, err := calibrate.NewSums(calibrate.CurvatureConfig{Head: h})
		if err != nil {
			t.Fatal(err)
		}
		b := votes(40, 2, 10)
		rng := rand.New(rand.NewPCG(5, 5))
		for i := range b.N {
			b.Positions = append(b.Positions, i)
			b.Features = append(b.Features, float32(rng.NormFloat64()), float32(rng.NormFloat64()), 1)
		}
		if err := sums.AddBlock(b); err != nil {
			t.Fatal(err)
		}
		var data, again bytes.Buffer
		if err := sums.Encode(&data); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data.Bytes(), []byte("nonlinear")) != nonlinear {
			t.Errorf("nonlinear %t is not what is encoded", nonlinear)
		}
		got, err := calibrate.DecodeSums(bytes.NewReader(data.Bytes()), int64(data.Len()), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Encode(&again); err != nil || !bytes.Equal(again.Bytes(), data.Bytes()) {
			t.Errorf("%v, or other bytes", err)
		}
		c, err := got.Finish()
		if err != nil || c.Head() != h {
			t.Fatalf("head %+v, want %+v: %v", c.Head(), h, err)
		}
		for j, want := range c.Training(nil, nil, b).Sum {
			var sum float64
			for i := range b.N {
				sum += float64(b.Features[i*3+j])
			}
			if !approx.Equal(want, sum, 1e-12*(1+math.Abs(sum))) {
				t.Errorf("column %d adds up to %v, want %v", j, want, sum)
			}
		}
	}
}

// columns are a training set of columns in units of their own, validation data like it, and others that are not in one
// column.
func columns(t *testing.T, k int) (training *score.Training, val, ood *rows.Batch) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 6))
	draw := func(n int, seed uint64, away float32) *rows.Batch {
		b := votes(n, k, seed)
		for i := range n {
			x, y := float32(rng.NormFloat64()), float32(rng.NormFloat64())
			b.Positions = append(b.Positions, i)
			b.Features = append(b.Features, 1e4+100*x+away, y, 1e-3*(x+y), 7)
		}
		return b
	}
	sums, err := calibrate.NewSums(calibrate.CurvatureConfig{Head: unlayered(k, 4)})
	if err != nil {
		t.Fatal(err)
	}
	train := draw(200, 21, 0)
	if err := sums.AddBlock(train); err != nil {
		t.Fatal(err)
	}
	c, err := sums.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c.Training(nil, nil, train), draw(150, 22, 0), draw(100, 23, 500)
}

// The default score is that of columns if there are features to learn, else the entropy; what needs a layer or features
// is refused, and never tried.
func TestScoresSuitTheHead(t *testing.T) {
	t.Parallel()
	const k = 3
	training, val, ood := columns(t, k)
	bare := func(b *rows.Batch) *rows.Batch {
		some := *b
		some.Features = nil
		return &some
	}
	for _, tt := range []struct {
		features        int
		first, fallback string
	}{{0, "entropy", "entropy"}, {4, "column_mahalanobis", "entropy"}} {
		if first, fallback := score.DefaultFor(unlayered(k, tt.features)); first != tt.first ||
			fallback != tt.fallback {
			t.Errorf("%d features: %s, or %s", tt.features, first, fallback)
		}
	}
	if first, fallback := score.DefaultFor(layer.Head{Logits: k, Features: 4,
		Link: layer.Softmax}); first != score.Default ||
		fallback != score.Fallback {
		t.Errorf("with a layer: %s, or %s", first, fallback)
	}

	f := fitMaps(t, unlayered(k, 4), val, nil, calibrate.FitOptions{Training: training})
	if f.ScoreChoice.Name != "column_mahalanobis" || f.Score.Name != f.ScoreChoice.Name {
		t.Errorf("%+v", f.ScoreChoice)
	}
	f = fitMaps(t, unlayered(k, 4), val, nil, calibrate.FitOptions{})
	if text := f.ScoreChoice.String(); f.ScoreChoice.Name != "entropy" || !strings.Contains(text, "the default, column_mahalanobis, cannot be fitted") {
		t.Errorf("without training data: %s", text)
	}
	f = fitMaps(t, unlayered(k, 0), bare(val), nil, calibrate.FitOptions{})
	if text := f.ScoreChoice.String(); f.ScoreChoice.Name != "entropy" || strings.Contains(text, "cannot") {
		t.Errorf("without features: %s", text)
	}

	for _, h := range []layer.Head{unlayered(k, 4), unlayered(k, 0)} {
		v, o, of := val, ood, training
		if h.Features == 0 {
			v, o, of = bare(val), bare(ood), nil
		}
		f := fitMaps(t, h, v, o, calibrate.FitOptions{Training: of})
		var tried []string
		for _, c := range f.Scores {
			tried = append(tried, c.Name)
		}
		for i := range score.All {
			s := &score.All[i]
			suits := slices.Contains([]string{"max_logit", "energy", "gen", "entropy"}, s.Name) || h.Features > 0 &&
				slices.Contains([]string{"mahalanobis", "relative_mahalanobis", "knn", "column_mahalanobis", "column_knn"}, s.Name)
			if s.Suits(h) != suits {
				t.Errorf("%d features: %s suits: %t", h.Features, s.Name, s.Suits(h))
			}
			if slices.Contains(tried, s.Name) && !suits {
				t.Errorf("%d features: %s was tried", h.Features, s.Name)
			}
			got, err := calibrate.FitMaps(t.Context(), h, v, nil, calibrate.FitOptions{Training: of, Score: s.Name})
			switch {
			case suits && (err != nil || got.Score.Name != s.Name):
				t.Errorf("%d features: %s: %v", h.Features, s.Name, err)
			case suits:
			case s.Correctness && err != nil:
				testerr.OneLine(t, err, "the score "+s.Name+" is of answers that are right or wrong")
			case err == nil || strings.Contains(err.Error(), "\n"):
				t.Errorf("%d features: %s is fitted, or %v", h.Features, s.Name, err)
			case !strings.Contains(err.Error(), "the score "+s.Name+" needs a linear last layer") &&
				!(h.Features == 0 && strings.Contains(err.Error(), "the score "+s.Name+" needs features")):
				t.Errorf("%d features: %s: %v", h.Features, s.Name, err)
			}
		}
		if len(tried) < 4 || tried[0] != f.ScoreChoice.Base {
			t.Errorf("%d features: tried %q for %+v", h.Features, tried, f.ScoreChoice)
		}
	}
}

// What is unusual in one column is found, whatever the units of the others.
func TestScoresOfColumnsDoNotDependOnUnits(t *testing.T) {
	t.Parallel()
	training, val, ood := columns(t, 2)
	for _, name := range []string{"column_mahalanobis", "column_knn"} {
		f := fitMaps(t, unlayered(2, 4), val, ood, calibrate.FitOptions{Training: training, Score: name})
		if !(f.ScoreChoice.AUROC > 0.99) {
			t.Errorf("%s: AUROC %v of a column 5 standard deviations away", name, f.ScoreChoice.AUROC)
		}
	}
}

// A head is either linear or not, and of a sensible size.
func TestFitMapsRefusesBadData(t *testing.T) {
	t.Parallel()
	h := unlayered(3, 0)
	val := func(change func(*rows.Batch)) *rows.Batch {
		b := votes(30, 3, 1)
		change(b)
		return b
	}
	fine := func(*rows.Batch) {}
	for name, tt := range map[string]struct {
		val, ood *rows.Batch
		want     string
	}{
		"no labels":        {val(func(b *rows.Batch) { b.Labels = nil }), nil, "validation data: 0 labels for 30 examples"},
		"features of none": {val(func(b *rows.Batch) { b.Features = make([]float32, 30) }), nil, "validation data: 30 features"},
		"not a number":     {val(func(b *rows.Batch) { b.Logits[4] = float32(math.NaN()) }), nil, "validation data: "},
		"infinite":         {val(func(b *rows.Batch) { b.Logits[4] = float32(math.Inf(-1)) }), nil, "validation data: "},
		"a label beyond":   {val(func(b *rows.Batch) { b.Labels[2] = 3 }), nil, "label 3"},
		"no OOD data":      {val(fine), new(rows.Batch), "out-of-distribution data: no examples"},
	} {
		_, err := calibrate.FitMaps(t.Context(), h, tt.val, tt.ood, calibrate.FitOptions{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// Every link has maps: labels by themselves, one label, and one-vs-rest. Smoothing is for softmax.
func TestMapsOfEveryLink(t *testing.T) {
	t.Parallel()
	for _, h := range []layer.Head{
		{Logits: 1, Link: layer.Sigmoid, Nonlinear: true}, {Logits: 3, Link: layer.Sigmoid, Nonlinear: true},
		{Logits: 3, Link: layer.OneVsRest, Nonlinear: true},
	} {
		rng := rand.New(rand.NewPCG(8, 8))
		b := &rows.Batch{N: 500}
		for range b.N {
			for range h.Logits { // three times too large
				a := 1.5 * rng.NormFloat64()
				b.Logits = append(b.Logits, float32(3*a))
				if y := rng.Float64() < 1/(1+math.Exp(-a)); h.MultiLabel() {
					b.Targets = append(b.Targets, map[bool]uint8{true: 1}[y])
				} else if h.Logits == 1 {
					b.Labels = append(b.Labels, map[bool]int{true: 1}[y])
				}
			}
			if h.Link == layer.OneVsRest {
				b.Labels = append(b.Labels, rng.IntN(3))
			}
		}
		f := fitMaps(t, h, b, nil, calibrate.FitOptions{})
		name := fmt.Sprintf("%s of %d", h.Link, h.Logits)
		if f.Smoothing != 0 || f.Method == calibrate.MLE || h.Link == layer.Sigmoid && !(f.TS > 2 && f.TS < 4) {
			t.Errorf("%s: %s with T=%v and smoothing %v", name, f.Method, f.TS, f.Smoothing)
		}
		if p := f.Predict(nil, b.Logits, b.N); p.Variance != nil || p.Leverage != nil || len(p.OODScore) != b.N {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// An answer's correctness has one score, of two classes that are no classes: no other is tried or can be chosen.
func TestAnswersHaveOneScore(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 2, Link: layer.Softmax, Nonlinear: true, Correctness: true}
	rng := rand.New(rand.NewPCG(41, 42))
	answers := func(n int) *rows.Batch {
		b := &rows.Batch{N: n, Labels: make([]int, n)}
		for i := range n {
			p := rng.Float64()
			b.Logits = append(b.Logits, float32(math.Log(1-p)), float32(math.Log(p)))
			if rng.Float64() < p {
				b.Labels[i] = layer.Right
			}
		}
		return b
	}
	val, ood := answers(300), answers(100)
	for _, o := range []*rows.Batch{nil, ood} {
		f := fitMaps(t, h, val, o, calibrate.FitOptions{})
		if f.Score.Name != score.DefaultOfAnswers || len(f.Scores) > 1 {
			t.Errorf("the score is %s, of %d", f.Score.Name, len(f.Scores))
		}
	}
	for i := range score.All {
		s := &score.All[i]
		if suits := s.Name == score.DefaultOfAnswers; s.Suits(h) != suits {
			t.Errorf("%s suits: %t", s.Name, !suits)
		} else if !suits {
			_, err := calibrate.FitMaps(t.Context(), h, val, nil, calibrate.FitOptions{Score: s.Name})
			testerr.OneLine(t, err, s.Name+" is of classes", "have only error_odds")
		}
	}
}
