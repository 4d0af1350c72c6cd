package wraptest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// TagNames are the tags of the tagger of TagConfig.
var TagNames = []string{"O", "B-X", "I-X"}

// A Sequence is one as the tagger of TagConfig takes it. Its first and last steps have no tag.
type Sequence struct {
	Scores []float32 // [T,K]
	Mask   []int64   // [T]: steps at the end may be padding
	Tags   []string  // [T], "" for none
}

// Sequences draws n sequences; some are hard to tag. steps is T, or 0 for a T of each sequence's own.
func Sequences(seed uint64, n, steps int) []Sequence {
	rng := rand.New(rand.NewPCG(seed, 19))
	k := len(TagNames)
	all := make([]Sequence, n)
	for i := range all {
		s := &all[i]
		length := 3 + rng.IntN(6)
		margin := 0.5 + 6*rng.Float64()
		for at := range max(length, steps) {
			tag, name, seen := rng.IntN(k), "", int64(0)
			if at < length {
				seen = 1
			}
			if at > 0 && at < length-1 {
				name = TagNames[tag]
			}
			s.Mask, s.Tags = append(s.Mask, seen), append(s.Tags, name)
			for j := range k {
				score := rng.NormFloat64()
				if j == tag && name != "" {
					score += margin
				}
				s.Scores = append(s.Scores, float32(score))
			}
		}
	}
	return all
}

// SequenceInputs are sequences of one length as tensors.
func SequenceInputs(all []Sequence) []wrap.Tensor {
	k := len(TagNames)
	n, steps := int64(len(all)), int64(len(all[0].Mask))
	var scores []float32
	var mask []int64
	for _, s := range all {
		scores, mask = append(scores, s.Scores...), append(mask, s.Mask...)
	}
	return []wrap.Tensor{
		{Name: "line", Shape: []int64{n, steps, int64(k)}, Data: scores},
		{Name: "attention_mask", Shape: []int64{n, steps}, Data: mask},
	}
}

// JSONSequences are sequences as a dataset, with their tags as labels: by name, and every third by number.
func JSONSequences(all []Sequence) []byte {
	var b strings.Builder
	k := len(TagNames)
	for i, s := range all {
		var steps, mask, tags []string
		for at, name := range s.Tags {
			steps = append(steps, strings.ReplaceAll(fmt.Sprint(s.Scores[at*k:(at+1)*k]), " ", ","))
			mask = append(mask, fmt.Sprint(s.Mask[at]))
			switch {
			case name == "" && i%2 == 0:
				tags = append(tags, "null")
			case name == "":
				tags = append(tags, "-100")
			case i%3 == 0 && slices.Contains(TagNames, name):
				tags = append(tags, fmt.Sprint(slices.Index(TagNames, name)))
			default:
				tags = append(tags, fmt.Sprintf("%q", name))
			}
		}
		fmt.Fprintf(&b, "{\"line\":[%s],\"attention_mask\":[%s],\"labels\":[%s]}\n",
			strings.Join(steps, ","), strings.Join(mask, ","), strings.Join(tags, ","))
	}
	return []byte(b.String())
}

// Tagger is the tagger of TagConfig.
func Tagger() onnxtest.Recogniser {
	return onnxtest.Recogniser{Opset: 17, Symbols: len(TagNames), Type: tensor.Float32, Softmax: true, Mask: true}
}

// StepTagger is the same with a linear layer, so that each step has a posterior.
func StepTagger() onnxtest.Recogniser {
	r := Tagger()
	r.Layer = true
	return r
}

// StepConfig calibrates each step of a tagger.
func StepConfig(t testing.TB, r onnxtest.Recogniser) calibration.Config {
	t.Helper()
	c := TagConfig(t, r)
	c.Head.Kind = head.Linear
	c.Train = Write(t, t.TempDir(), "train.jsonl", JSONSequences(Sequences(40, 600, 0)))
	return c
}

// TagConfig calibrates a tagger.
func TagConfig(t testing.TB, r onnxtest.Recogniser) calibration.Config {
	t.Helper()
	dir := t.TempDir()
	onnxtest.WriteModel(t, filepath.Join(dir, "tagger.onnx"), r.Model())
	c := calibration.Config{
		Model: filepath.Join(dir, "tagger.onnx"), Classes: TagNames,
		Val: Write(t, dir, "val.jsonl", JSONSequences(Sequences(41, 400, 0))), Out: filepath.Join(dir, "b"),
	}
	c.Head.Kind = head.Tags
	return c
}
