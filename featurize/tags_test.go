package featurize_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// tagged is what a sequence is tagged as, by definition: the tags of the steps that count, else -1, their
// probabilities, and the logarithm of the product of these.
func tagged(p [][]float64, counts func(t int) bool) (r reading) {
	for t, row := range p {
		if !counts(t) {
			r.symbols, r.probabilities = append(r.symbols, -1), append(r.probabilities, 0)
			continue
		}
		best := 0
		for k, v := range row {
			if v > row[best] {
				best = k
			}
		}
		r.symbols, r.probabilities = append(r.symbols, int64(best)), append(r.probabilities, row[best])
		r.logp += math.Log(row[best])
	}
	return r
}

// counting returns which steps count of those with a mask.
func counting(mask []int64, first, last int) func(t int) bool {
	var at []int
	for t, m := range mask {
		if m != 0 {
			at = append(at, t)
		}
	}
	at = at[min(first, len(at)):]
	at = at[:max(0, len(at)-last)]
	return func(t int) bool { return slices.Contains(at, t) }
}

// names are the names of k tags.
func names(k int) []string {
	list := make([]string, k)
	for i := range list {
		list[i] = fmt.Sprintf("tag%d", i)
	}
	return list
}

func tagger(t testing.TB, r onnxtest.Recogniser, d head.Decoding, c featurize.Config) *featurize.Network {
	t.Helper()
	m, err := onnx.Parse("tagger", onnxtest.Marshal(t, r.Model()))
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{Kind: head.Tags})
	if err == nil {
		h, err = h.Read(d)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Model, c.Head = m, h
	w, err := featurize.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// Tags, their probabilities and that of all of them are their definitions, in every form that an output has, whatever
// steps count, and in a batch as alone.
func TestTagsAreReadByDefinition(t *testing.T) {
	t.Parallel()
	const n, steps, k = 12, 7, 4
	for _, opset := range []int64{11, 13, 18, 21} {
		for _, of := range []head.Kind{head.Probabilities, head.LogProbabilities, head.Scores} {
			for _, masked := range []bool{false, true} {
				for _, skip := range [][2]int{{0, 0}, {1, 1}, {2, 0}, {0, 9}} {
					rng := rand.New(rand.NewPCG(81, uint64(opset)))
					stepsFirst := masked != (opset == 13)
					d := head.Decoding{
						Of: of, StepsFirst: stepsFirst, Blank: -1, Alphabet: names(k),
						SkipFirst: skip[0], SkipLast: skip[1],
					}
					r := onnxtest.Recogniser{
						Opset: opset, Symbols: k, Type: tensor.Float32, StepsFirst: stepsFirst, Mask: masked,
					}
					mask := tensor.Tensor{Name: "attention_mask", Shape: []int64{n, steps}, Data: make([]int64, n*steps)}
					if masked {
						d.Mask = mask.Name
					}
					w := tagger(t, r, d, featurize.Config{Batch: n})
					in, _ := lines(rng, n, steps, k, 0, of)
					inputs := []tensor.Tensor{in}
					if masked {
						inputs = append(inputs, mask)
					}
					counts := mask.Data.([]int64)
					for i := range n { // padded on the right, or on the left
						from, to := 0, 1+rng.IntN(steps)
						if !masked {
							to = steps
						} else if i%2 == 1 {
							from, to = steps-to, steps
						}
						for at := from; at < to; at++ {
							counts[i*steps+at] = 1
						}
					}
					got, err := w.Run(t.Context(), inputs)
					if err != nil {
						t.Fatal(err)
					}
					logits := got.Rows().Logits
					for i := range n {
						want := tagged(probabilitiesOf(in.Data.([]float32)[i*steps*k:(i+1)*steps*k], k, of),
							counting(counts[i*steps:(i+1)*steps], skip[0], skip[1]))
						equalsReading(t, got.Texts[i], logits[2*i:2*i+2], want, steps*1e-6)
						var alone []tensor.Tensor
						for _, in := range inputs {
							alone = append(alone, in.Slice(i, i+1))
						}
						one, err := w.Run(t.Context(), alone)
						if err != nil {
							t.Fatal(err)
						}
						if !slices.Equal(one.Texts[0].Symbols, got.Texts[i].Symbols) ||
							!approx.Equal(float64(one.Rows().Logits[1]), float64(logits[2*i+1]), 1e-6) {
							t.Errorf("alone: %+v, in a batch %+v", one.Texts[0], got.Texts[i])
						}
					}
				}
			}
		}
	}
}

// probabilitiesOf returns the probabilities [T,K] of the numbers of a line.
func probabilitiesOf(numbers []float32, k int, of head.Kind) (p [][]float64) {
	for at := 0; at < len(numbers); at += k {
		row, sum := make([]float64, k), 0.0
		for i, v := range numbers[at : at+k] {
			if row[i] = float64(v); of != head.Probabilities {
				row[i] = math.Exp(float64(v))
			}
			sum += row[i]
		}
		for i := range row {
			if of == head.Scores {
				row[i] /= sum
			}
		}
		p = append(p, row)
	}
	return p
}

// Tags are right if all that count and have a label are. A label of another length, or of a tag that the model does not
// have, is an error.
func TestLabelsOfTags(t *testing.T) {
	t.Parallel()
	d := &head.Decoding{Of: head.Scores, Blank: -1, Alphabet: []string{"O", "B", "1"}}
	text := featurize.Text{Symbols: []int64{-1, 0, 1, 2}, Probabilities: []float32{0, 1, 1, 1}}
	for _, tt := range []struct {
		tags []string
		want int
		err  string
	}{
		{[]string{"", "O", "B", "1"}, 1, ""}, // 1 is the name of the third
		{[]string{"B", "0", "", "2"}, 1, ""},
		{[]string{"", "O", "O", "1"}, 0, ""},
		{[]string{"", "O", "1", ""}, 0, ""},
		{[]string{"", "O"}, 0, "2 tags for 4 steps"},
		{[]string{"", "O", "X", ""}, 0, `tag 2 is "X", want one of the model's 3: O, B, 1`},
		{[]string{"", "O", "3", ""}, 0, `tag 2 is "3"`},
	} {
		r, err := text.Reading(d, &dataset.Example{Tags: tt.tags})
		if tt.err != "" {
			testerr.OneLine(t, err, tt.err)
			continue
		}
		if err != nil || r.Label() != tt.want {
			t.Errorf("%q: %d, %v, want %d", tt.tags, r.Label(), err, tt.want)
		}
	}
	r, err := text.Reading(d, &dataset.Example{Label: -1})
	if given, right := r.Answer(); err != nil || r.Label() != -1 || given != "- O B 1" || right != "" {
		t.Errorf("%q and %q, %d, %v", given, right, r.Label(), err)
	}
}
