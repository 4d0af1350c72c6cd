package featurize_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// reading is what a line of text reads as, by definition.
type reading struct {
	symbols       []int64
	probabilities []float64 // of each symbol: the largest in the steps of its run
	logp          float64   // of the text
}

// collapsed is the text of a path: without repetitions, then without blanks.
func collapsed(path []int, blank int) (symbols []int64) {
	for t, s := range path {
		if s != blank && (t == 0 || path[t-1] != s) {
			symbols = append(symbols, int64(s))
		}
	}
	return symbols
}

// read reads p, [T,K] probabilities. enumerate sums over all paths; else the forward algorithm does.
func read(p [][]float64, blank int, enumerate bool) (r reading) {
	best := make([]int, len(p))
	for t, row := range p {
		for k, v := range row {
			if v > row[best[t]] {
				best[t] = k
			}
		}
	}
	r.symbols = collapsed(best, blank)
	for t, s := range best {
		switch {
		case s == blank:
		case t > 0 && best[t-1] == s:
			last := len(r.probabilities) - 1
			r.probabilities[last] = math.Max(r.probabilities[last], p[t][s])
		default:
			r.probabilities = append(r.probabilities, p[t][s])
		}
	}
	if enumerate {
		r.logp = math.Log(enumerated(p, blank, r.symbols))
	} else {
		r.logp = math.Log(forward(p, blank, r.symbols))
	}
	return r
}

// enumerated is the sum of the probabilities of all paths that give a text.
func enumerated(p [][]float64, blank int, symbols []int64) (sum float64) {
	path := make([]int, len(p))
	var from func(t int, product float64)
	from = func(t int, product float64) {
		if t == len(p) {
			if slices.Equal(collapsed(path, blank), symbols) {
				sum += product
			}
			return
		}
		for k, v := range p[t] {
			path[t] = k
			from(t+1, product*v)
		}
	}
	from(0, 1)
	return sum
}

// forward is the same by equation 6 and 7 of Graves et al. 2006, for lines that float64 does not underflow at.
func forward(p [][]float64, blank int, symbols []int64) float64 {
	places := []int{blank}
	for _, s := range symbols {
		places = append(places, int(s), blank)
	}
	alpha := make([]float64, len(places))
	for s := range min(2, len(places)) {
		alpha[s] = p[0][places[s]]
	}
	for t := 1; t < len(p); t++ {
		next := make([]float64, len(places))
		for s, k := range places {
			sum := alpha[s]
			if s > 0 {
				sum += alpha[s-1]
			}
			if s > 1 && k != blank && places[s-2] != k {
				sum += alpha[s-2]
			}
			next[s] = sum * p[t][k]
		}
		alpha = next
	}
	last := len(places) - 1
	if last == 0 {
		return alpha[0]
	}
	return alpha[last] + alpha[last-1]
}

// The twins of the tests below agree with each other.
func TestForwardAlgorithmSumsOverAllPaths(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(71, 1))
	for range 200 {
		T, k := 1+rng.IntN(5), 2+rng.IntN(2)
		blank := rng.IntN(k)
		_, p := drawnLine(rng, T, k, 2, head.Probabilities)
		if a, b := read(p, blank, true).logp, read(p, blank, false).logp; !approx.Equal(a, b, 1e-12) {
			t.Errorf("%v: %v by all paths, %v by the forward algorithm", p, a, b)
		}
	}
}

// drawnLine returns the numbers of one line as a network gives them, [T·K], and their probabilities. width is the
// standard deviation of scores.
func drawnLine(rng *rand.Rand, steps, k int, width float64, of head.Kind) (numbers []float32, p [][]float64) {
	for range steps {
		scores, sum := make([]float64, k), 0.0
		for i := range scores {
			scores[i] = float64(float32(width * rng.NormFloat64()))
			sum += math.Exp(scores[i])
		}
		row := make([]float64, k)
		for i, s := range scores {
			var v float32
			switch of {
			case head.Probabilities:
				v = float32(math.Exp(s) / sum)
				row[i] = float64(v)
			case head.LogProbabilities:
				v = float32(s - math.Log(sum))
				row[i] = math.Exp(float64(v))
			default:
				v = float32(s)
				row[i] = math.Exp(s) / sum
			}
			numbers = append(numbers, v)
		}
		p = append(p, row)
	}
	return numbers, p
}

func recogniser(t testing.TB, r onnxtest.Recogniser, d head.Decoding, c featurize.Config) *featurize.Network {
	t.Helper()
	m, err := onnx.Parse("recogniser", onnxtest.Marshal(t, r.Model()))
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{Kind: head.CTC})
	if err != nil {
		t.Fatal(err)
	}
	if d.Of != "" {
		if h, err = h.Read(d); err != nil {
			t.Fatal(err)
		}
	}
	c.Model, c.Head = m, h
	w, err := featurize.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// alphabet has k symbols, a, b, c…, and a blank.
func alphabet(k, blank int) []string {
	symbols := make([]string, k)
	for i := range symbols {
		if i != blank {
			symbols[i] = string(rune('a' + i))
		}
	}
	return symbols
}

// lines are the numbers of n lines of one number of steps, as one input, with what they read as.
func lines(rng *rand.Rand, n, steps, k, blank int, of head.Kind) (tensor.Tensor, []reading) {
	in := tensor.Tensor{Name: "line", Shape: []int64{int64(n), int64(steps), int64(k)}}
	var numbers []float32
	var all []reading
	for range n {
		line, p := drawnLine(rng, steps, k, 0.5+3*rng.Float64(), of)
		numbers = append(numbers, line...)
		all = append(all, read(p, blank, steps <= 5 && k <= 3))
	}
	in.Data = numbers
	return in, all
}

// equalsReading compares what a network gives for a line with what it reads as. tolerance is relative for probabilities
// and absolute for log p(text).
func equalsReading(t *testing.T, got featurize.Text, logits []float32, want reading, tolerance float64) {
	t.Helper()
	if !slices.Equal(got.Symbols, want.symbols) {
		t.Errorf("text %v, want %v", got.Symbols, want.symbols)
		return
	}
	for i, p := range got.Probabilities {
		if !approx.Relative(float64(p), want.probabilities[i], tolerance) {
			t.Errorf("text %v: p(symbol %d) = %v, want %v", got.Symbols, i, p, want.probabilities[i])
		}
	}
	right, wrong := want.logp, math.Log(math.Max(1-math.Exp(want.logp), head.LeastProbability))
	// The derivative of log(1-p) by log p is p/(1-p).
	room := tolerance * (1 + math.Exp(right)/math.Max(1-math.Exp(right), head.LeastProbability))
	if !approx.Equal(float64(logits[1]), right, tolerance*(1+math.Abs(right))) ||
		!approx.Equal(float64(logits[0]), wrong, room+tolerance*math.Abs(wrong)) {
		t.Errorf("text %v: logits %v, want %v and %v", got.Symbols, logits, wrong, right)
	}
}

// Text, the probabilities of its characters and that of the whole text are their definitions, in every form that an
// output has, and in a batch as alone.
func TestTextIsReadByDefinition(t *testing.T) {
	t.Parallel()
	const n = 24
	for _, opset := range []int64{11, 12, 13, 17, 18, 21} {
		for _, of := range []head.Kind{head.Probabilities, head.LogProbabilities, head.Scores} {
			for _, stepsFirst := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d %s %t", opset, of, stepsFirst), func(t *testing.T) {
					t.Parallel()
					rng := rand.New(rand.NewPCG(72, uint64(opset)))
					seen := map[string]bool{}
					for _, size := range [][2]int{{1, 2}, {1, 3}, {2, 3}, {4, 3}, {5, 3}, {5, 2}, {9, 5}, {30, 12}} {
						steps, k := size[0], size[1]
						blank := []int{0, k - 1, k / 2}[rng.IntN(3)]
						d := head.Decoding{Of: of, StepsFirst: stepsFirst, Blank: blank, Alphabet: alphabet(k, blank)}
						r := onnxtest.Recogniser{Opset: opset, Symbols: k, Type: tensor.Float32, StepsFirst: stepsFirst}
						w := recogniser(t, r, d, featurize.Config{Batch: n})
						in, want := lines(rng, n, steps, k, blank, of)
						got, err := w.Run(t.Context(), []tensor.Tensor{in})
						if err != nil {
							t.Fatal(err)
						}
						logits := got.Rows().Logits
						for i := range n {
							// float32 rounds log-softmax, of up to 10, at each step
							equalsReading(t, got.Texts[i], logits[2*i:2*i+2], want[i], float64(steps)*1e-6)
							kinds(seen, got.Texts[i].Symbols)
							alone, err := w.Run(t.Context(), []tensor.Tensor{in.Slice(i, i+1)})
							if err != nil {
								t.Fatal(err)
							}
							if !slices.Equal(alone.Texts[0].Symbols, got.Texts[i].Symbols) ||
								!slices.Equal(alone.Texts[0].Probabilities, got.Texts[i].Probabilities) ||
								!approx.Equal(float64(alone.Rows().Logits[1]), float64(logits[2*i+1]), 1e-6) {
								t.Errorf("alone: %+v, in a batch %+v", alone.Texts[0], got.Texts[i])
							}
						}
					}
					for _, kind := range []string{"empty", "one", "repeated", "several"} {
						if !seen[kind] {
							t.Errorf("no text is %s, which tells nothing", kind)
						}
					}
				})
			}
		}
	}
}

// kinds notes what kinds of text one is.
func kinds(seen map[string]bool, symbols []int64) {
	switch {
	case len(symbols) == 0:
		seen["empty"] = true
	case len(symbols) == 1:
		seen["one"] = true
	default:
		seen["several"] = true
	}
	for i := 1; i < len(symbols); i++ {
		if symbols[i] == symbols[i-1] { // there was a blank between
			seen["repeated"] = true
		}
	}
}

// path returns the numbers of a line whose best path has these letters, "-" for the blank, the last symbol.
func path(letters string, k int, p float64) (numbers []float32, rows [][]float64) {
	for _, r := range letters {
		at := k - 1
		if r != '-' {
			at = int(r - 'a')
		}
		row := make([]float64, k)
		for i := range row {
			v := float32((1 - p) / float64(k-1))
			if i == at {
				v = float32(p)
			}
			row[i] = float64(v)
			numbers = append(numbers, v)
		}
		rows = append(rows, row)
	}
	return numbers, rows
}

func TestRepeatedSymbolsNeedABlankBetween(t *testing.T) {
	t.Parallel()
	const k = 3
	d := head.Decoding{Of: head.Probabilities, Blank: k - 1, Alphabet: alphabet(k, k-1)}
	w := recogniser(t, onnxtest.Recogniser{Opset: 13, Symbols: k, Type: tensor.Float32}, d, featurize.Config{Batch: 20})
	texts := map[string]string{"-----": "", "aaaaa": "a", "a-a--": "aa", "aa-aa": "aa", "-a-a-": "aa", "ababa": "ababa",
		"aabb-": "ab", "----b": "b", "b----": "b", "a-b-a": "aba", "aab-b": "abb"}
	in := tensor.Tensor{Name: "line", Shape: []int64{int64(len(texts)), 5, k}}
	var data []float32
	var want []reading
	var names []string
	for letters := range texts {
		numbers, rows := path(letters, k, 0.8)
		data, want, names = append(data, numbers...), append(want, read(rows, k-1, true)), append(names, letters)
	}
	in.Data = data
	got, err := w.Run(t.Context(), []tensor.Tensor{in})
	if err != nil {
		t.Fatal(err)
	}
	for i, letters := range names {
		if text := got.Texts[i].String(&d); text != texts[letters] {
			t.Errorf("%s reads %q, want %q", letters, text, texts[letters])
		}
		equalsReading(t, got.Texts[i], got.Rows().Logits[2*i:2*i+2], want[i], 1e-6)
	}
}

// A network in float16 is read in float64 from the numbers that it gives.
func TestTextOfHalfPrecision(t *testing.T) {
	t.Parallel()
	const n, steps, k, blank = 10, 6, 4, 0
	rng := rand.New(rand.NewPCG(73, 1))
	for _, stepsFirst := range []bool{false, true} {
		d := head.Decoding{Of: head.Probabilities, StepsFirst: stepsFirst, Blank: blank, Alphabet: alphabet(k, blank)}
		r := onnxtest.Recogniser{Opset: 13, Symbols: k, Type: tensor.Float16, StepsFirst: stepsFirst}
		w := recogniser(t, r, d, featurize.Config{})
		in, want := lines(rng, n, steps, k, blank, head.Probabilities)
		got, err := w.Run(t.Context(), []tensor.Tensor{in})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			equalsReading(t, got.Texts[i], got.Rows().Logits[2*i:2*i+2], want[i], 2*steps*0x1p-11)
		}
	}
}

// A probability of 0 at a step, whose logarithm is −∞, leaves the probabilities of texts finite.
func TestImpossibleSymbols(t *testing.T) {
	t.Parallel()
	const k, steps = 3, 5
	inf := float32(math.Inf(-1))
	for _, of := range []head.Kind{head.Probabilities, head.LogProbabilities, head.Scores} {
		d := head.Decoding{Of: of, Blank: 0, Alphabet: alphabet(k, 0)}
		w := recogniser(t, onnxtest.Recogniser{Opset: 13, Symbols: k, Type: tensor.Float32}, d, featurize.Config{})
		sure := []float32{0, inf, inf}
		if of == head.Probabilities {
			sure = []float32{1, 0, 0}
		}
		in := tensor.Tensor{Name: "line", Shape: []int64{2, steps, k}}
		data := slices.Repeat(sure, steps)
		for _, at := range []int{0, 1, 2, 0, 1} { // -bc-b
			data = append(data, slices.Concat(sure[1:][:at], sure[:1], sure[1:][at:])...)
		}
		in.Data = data
		got, err := w.Run(t.Context(), []tensor.Tensor{in})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"", "bcb"} {
			logits := got.Rows().Logits[2*i : 2*i+2]
			// Zero probabilities count as head.LeastProbability at each step.
			if text := got.Texts[i].String(&d); text != want || !approx.Equal(float64(logits[1]), 0, 1e-5) {
				t.Errorf("%s: %q with logits %v, want %q with 0", of, text, logits, want)
			}
		}
	}
}

// Before a decoding is known, a network says what its output holds: see head.StepsOf.
func TestStepsAreFoundFromWhatANetworkGives(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(74, 1))
	const n, k = 3, 5
	for _, of := range []head.Kind{head.Probabilities, head.LogProbabilities, head.Scores} {
		for _, stepsFirst := range []bool{false, true} {
			for _, steps := range []int{2, 7} {
				r := onnxtest.Recogniser{Opset: 13, Symbols: k, Type: tensor.Float32, StepsFirst: stepsFirst}
				w := recogniser(t, r, head.Decoding{}, featurize.Config{Batch: 32})
				in, _ := lines(rng, n, steps, k, 0, of)
				got, err := w.Run(t.Context(), []tensor.Tensor{in})
				if err != nil {
					t.Fatal(err)
				}
				s, err := head.StepsOf(got.Rows().Logits)
				if want := (head.Steps{Of: of, StepsFirst: stepsFirst, Symbols: k}); err != nil || s != want {
					t.Errorf("%+v, %v, want %+v", s, err, want)
				}
				for _, text := range got.Texts {
					if len(text.Symbols) != steps {
						t.Errorf("%d symbols, want one for each of %d steps", len(text.Symbols), steps)
					}
				}
			}
		}
	}
}

// Lines of all lengths are read from one stream, and labelled by whether their texts are the labels.
func TestTextsOfAStreamAreLabelled(t *testing.T) {
	t.Parallel()
	const k = 3
	d := head.Decoding{Of: head.Probabilities, Blank: k - 1, Alphabet: []string{"a", " ", ""}}
	w := recogniser(t, onnxtest.Recogniser{Opset: 13, Symbols: k, Type: tensor.Float32}, d, featurize.Config{Batch: 2})
	var b strings.Builder
	var want []int
	for _, c := range []struct {
		path, label string
		right       int
	}{
		{"a--", "a", 1}, {"a-a-a-a", "aaa", 0}, {"-", "", 1}, {"--", "a", 0}, {"ba-", "a", 1}, {"a", " a ", 1},
		{"a-a-a", "aaa", 1}, {"aba", "a a", 1}, {"aba", "aa", 0},
	} {
		numbers, _ := path(c.path, k, 0.9)
		var rows []string
		for row := range slices.Chunk(numbers, k) {
			rows = append(rows, strings.ReplaceAll(fmt.Sprint(row), " ", ","))
		}
		fmt.Fprintf(&b, "{\"line\":[%s],\"label\":%q}\n", strings.Join(rows, ","), c.label)
		want = append(want, c.right)
	}
	file := filepath.Join(t.TempDir(), "lines.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ds, err := dataset.Open(t.Context(), file, dataset.Options{Texts: true, Inputs: w.InputNames()})
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	var got []int
	for rows, err := range w.Rows(t.Context(), ds, featurize.StreamConfig{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rows.Labels...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}
}

func TestOutputsThatAreNoStepsAreRefused(t *testing.T) {
	t.Parallel()
	r := onnxtest.Recogniser{Opset: 13, Symbols: 3, Type: tensor.Float32}
	// The batch is on an axis that has another length than the batch.
	d := head.Decoding{Of: head.Probabilities, StepsFirst: true, Alphabet: alphabet(3, 0)}
	w := recogniser(t, r, d, featurize.Config{})
	in, _ := lines(rand.New(rand.NewPCG(75, 1)), 2, 7, 3, 0, head.Probabilities)
	_, err := w.Run(t.Context(), []tensor.Tensor{in})
	testerr.OneLine(t, err, "[7,2]", "for 2 examples")
}
