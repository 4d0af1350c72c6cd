package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// slowDetect is Detect from the definitions: every pair, every threshold.
func slowDetect(in, out []float64) OOD {
	nIn, nOut := float64(len(in)), float64(len(out))
	var wins float64
	for _, a := range in {
		for _, b := range out {
			switch {
			case b > a:
				wins++
			case b == a:
				wins += 0.5
			}
		}
	}

	thresholds := slices.Concat(in, out)
	slices.Sort(thresholds)
	thresholds = slices.Compact(thresholds)
	upTo := func(scores []float64, t float64) (n float64) {
		for _, s := range scores {
			if s <= t {
				n++
			}
		}
		return n
	}
	d := OOD{N: len(out), AUROC: wins / nIn / nOut, Accuracy: 0.5, FPR95: math.NaN(), FPR95OOD: math.NaN()}
	var recall float64
	for _, t := range thresholds { // accept score <= t
		tp, fp := upTo(in, t), upTo(out, t)
		d.Accuracy = max(d.Accuracy, 0.5*(tp/nIn+(nOut-fp)/nOut))
		d.AUPRIn += (tp/nIn - recall) * tp / (tp + fp)
		recall = tp / nIn
		if math.IsNaN(d.FPR95) && 100*tp >= 95*nIn {
			d.FPR95 = fp / nOut
		}
	}
	recall = 0
	for _, t := range slices.Backward(thresholds) { // flag score >= t
		atLeast := func(scores []float64) (n float64) {
			for _, s := range scores {
				if s >= t {
					n++
				}
			}
			return n
		}
		tp, fp := atLeast(out), atLeast(in)
		d.AUPROut += (tp/nOut - recall) * tp / (tp + fp)
		recall = tp / nOut
		if math.IsNaN(d.FPR95OOD) && 100*tp >= 95*nOut {
			d.FPR95OOD = fp / nIn
		}
	}
	return d
}

// scores returns n scores, with ties where levels is small.
func scores(rng *rand.Rand, n int, shift float64, levels float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = math.Round((rng.NormFloat64()+shift)*levels) / levels
	}
	return s
}

func wantCloseOOD(t *testing.T, got, want OOD) {
	t.Helper()
	if got.N != want.N {
		t.Errorf("N = %d, want %d", got.N, want.N)
	}
	wantClose(t, "Accuracy", got.Accuracy, want.Accuracy)
	wantClose(t, "AUROC", got.AUROC, want.AUROC)
	wantClose(t, "AUPRIn", got.AUPRIn, want.AUPRIn)
	wantClose(t, "AUPROut", got.AUPROut, want.AUPROut)
	wantClose(t, "FPR95", got.FPR95, want.FPR95)
	wantClose(t, "FPR95OOD", got.FPR95OOD, want.FPR95OOD)
}

func detect(t *testing.T, in, out []float64) OOD {
	t.Helper()
	d, err := Detect(in, out)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDetectIsItsDefinitions(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		levels := []float64{0.5, 1, 4, 1e9}[rng.IntN(4)]
		in := scores(rng, 1+rng.IntN(60), 0, levels)
		out := scores(rng, 1+rng.IntN(60), 3*rng.Float64()-1, levels)
		wantCloseOOD(t, detect(t, in, out), slowDetect(in, out))
	}
}

func TestDetectAtTheExtremes(t *testing.T) {
	t.Parallel()
	low, high := []float64{1, 2, math.Inf(-1)}, []float64{3, math.Inf(1)}
	if got, want := detect(t, low, high), (OOD{N: 2, Accuracy: 1, AUROC: 1, AUPRIn: 1, AUPROut: 1,
		FPR95: 0, FPR95OOD: 0}); got != want {
		t.Errorf("separated: %+v, want %+v", got, want)
	}
	same := []float64{7, 7, 7, 7}
	if got, want := detect(t, same[:3], same), (OOD{N: 4, Accuracy: 0.5, AUROC: 0.5, AUPRIn: 3. / 7, AUPROut: 4. / 7,
		FPR95: 1, FPR95OOD: 1}); got != want {
		t.Errorf("all tied: %+v, want %+v", got, want)
	}
	if got := detect(t, high, low); got.AUROC != 0 || got.Accuracy != 0.5 || got.FPR95 != 1 || got.FPR95OOD != 1 {
		t.Errorf("reversed: %+v", got)
	}
	zero := math.Copysign(0, -1)
	if got := detect(t, []float64{0, zero}, []float64{zero, 0}); got.AUROC != 0.5 {
		t.Errorf("0 and -0 are not tied: %+v", got)
	}
}

// 0.95·20 is 19 in exact arithmetic: 19 of 20 accepted are enough.
func TestFPR95CountsInIntegers(t *testing.T) {
	t.Parallel()
	for n := 20; n <= 400; n += 20 {
		in := make([]float64, n)
		for i := range in {
			in[i] = float64(i)
		}
		enough := float64(n*95/100) - 1 // the score of the last one needed
		if got := detect(t, in, []float64{enough + 0.5}).FPR95; got != 0 {
			t.Errorf("n = %d: FPR95 = %v, want 0", n, got)
		}
		if got := detect(t, in, []float64{enough - 0.5}).FPR95; got != 1 {
			t.Errorf("n = %d: FPR95 = %v, want 1", n, got)
		}
		least := float64(n - n*95/100) // the score of the last one that must be flagged
		if got := detect(t, []float64{least - 0.5}, in).FPR95OOD; got != 0 {
			t.Errorf("n = %d: FPR95OOD = %v, want 0", n, got)
		}
		if got := detect(t, []float64{least + 0.5}, in).FPR95OOD; got != 1 {
			t.Errorf("n = %d: FPR95OOD = %v, want 1", n, got)
		}
	}
}

func TestOnlyTheOrderOfScoresCounts(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	in, out := scores(rng, 80, 0, 4), scores(rng, 70, 1, 4)
	want := detect(t, in, out)
	transformed := func(x []float64) []float64 {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = math.Exp(3*v) - 100
		}
		rng.Shuffle(len(y), func(i, j int) { y[i], y[j] = y[j], y[i] })
		return y
	}
	if got := detect(t, transformed(in), transformed(out)); got != want {
		t.Errorf("transformed and shuffled: %+v, want %+v", got, want)
	}
}

func TestExchangingTheSides(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 5))
	negated := func(x []float64) []float64 {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = -v
		}
		return y
	}
	for range 50 {
		in, out := scores(rng, 40, 0, 2), scores(rng, 30, 0.7, 2)
		d := detect(t, in, out)
		wantClose(t, "AUROC(in, out) + AUROC(out, in)", d.AUROC+detect(t, out, in).AUROC, 1)

		e := detect(t, negated(out), negated(in))
		wantClose(t, "AUROC of the exchanged and negated", e.AUROC, d.AUROC)
		wantClose(t, "accuracy of the exchanged and negated", e.Accuracy, d.Accuracy)
		wantClose(t, "AUPRIn of the exchanged and negated", e.AUPRIn, d.AUPROut)
		wantClose(t, "AUPROut of the exchanged and negated", e.AUPROut, d.AUPRIn)
		wantClose(t, "FPR95 of the exchanged and negated", e.FPR95, d.FPR95OOD)
		wantClose(t, "FPR95OOD of the exchanged and negated", e.FPR95OOD, d.FPR95)
	}
}

func TestAUROCIsThatOfDetect(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 6))
	scratch := make([]float64, 0, 200)
	for range 50 {
		in, out := scores(rng, 100, 0, 3), scores(rng, 90, 1, 3)
		inBefore, outBefore := slices.Clone(in), slices.Clone(out)
		want := detect(t, in, out).AUROC
		for _, s := range [][]float64{nil, scratch, make([]float64, 7)} {
			got, err := AUROC(in, out, s)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("AUROC = %v, Detect says %v", got, want)
			}
		}
		if !slices.Equal(in, inBefore) || !slices.Equal(out, outBefore) {
			t.Fatal("the scores were changed")
		}
	}
}

func TestAUROCDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	in, out := scores(rng, 100, 0, 3), scores(rng, 100, 1, 3)
	scratch := make([]float64, len(in)+len(out))
	if n := testing.AllocsPerRun(20, func() { AUROC(in, out, scratch) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestScoresWithoutAnOrderAreRefused(t *testing.T) {
	t.Parallel()
	nan, ok := []float64{1, math.NaN()}, []float64{1, 2}
	for _, test := range []struct {
		in, out []float64
		want    string
	}{
		{nan, ok, "in-distribution score 1 is NaN"},
		{ok, nan, "out-of-distribution score 1 is NaN"},
		{nil, ok, "no in-distribution scores"},
		{ok, nil, "no out-of-distribution scores"},
	} {
		_, err := Detect(test.in, test.out)
		_, err2 := AUROC(test.in, test.out, nil)
		for _, err := range []error{err, err2} {
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("(%v, %v): error %v, want %q", test.in, test.out, err, test.want)
			}
		}
	}
}

func BenchmarkAUROC(b *testing.B) {
	rng := rand.New(rand.NewPCG(8, 8))
	in, out := scores(rng, 5000, 0, 1e9), scores(rng, 5000, 1, 1e9)
	scratch := make([]float64, len(in)+len(out))
	for b.Loop() {
		if _, err := AUROC(in, out, scratch); err != nil {
			b.Fatal(err)
		}
	}
}
