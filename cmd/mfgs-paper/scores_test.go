package main

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/wrap/bench"
)

// Every score has a row under every protocol, with the figures of package bench.
func TestScoresOfASmallNetwork(t *testing.T) {
	t.Parallel()
	l := digitsLab(t)
	l.models = filepath.Join("..", "..", "models")
	m := oodWriter{t.TempDir(), 8, 1, 60, 160}
	made, err := m.noise(uniformNoise)
	if err != nil {
		t.Fatal(err)
	}
	made.name = cifarSet // as in allPairs
	h := scoreNetwork{name: smallDigitsName, set: l.smallDigits(), seeds: []int{0}, sets: []oodSet{
		{drawings, filepath.Join(l.models, "digits-mlp", "drawings-images-idx3-ubyte.gz"), 300, 600}, made,
	}}
	b := new(scoreBench)
	if err := l.measureScoreNetwork(t.Context(), b, h, 0); err != nil {
		t.Fatal(err)
	}
	s := standingsOf(b.rows)
	pairs := s.pairs("")
	if len(pairs) != 2 {
		t.Fatalf("rows of %v", pairs)
	}
	for _, e := range pairs {
		for _, c := range allCandidates() {
			r := s[scorePlace(e, c.by, c.name)]
			if len(r.Runs) != 1 {
				t.Fatalf("%v: %s, %s has %d runs", e, c, c.by, len(r.Runs))
			}
			if v := s.auroc(e, c); !(v > 0 && v <= 1) {
				t.Errorf("%v: %s, %s has the AUROC %v", e, c, c.by, v)
			}
			d, _ := s.lead(e, c)
			base := s.auroc(e, candidate{untuned, score.Default})
			if got := s.auroc(e, c) - base; c.name != score.Default && max(got-d.Difference, d.Difference-got) > 1e-12 {
				t.Errorf("%v: %s, %s is %v above the default, and its difference %v", e, c, c.by, got, d.Difference)
			}
		}
		if _, is := score.Find(s[scorePlace(e, tuned, chosenScore)].Note); !is {
			t.Errorf("%v: no score is reported as selected", e)
		}
		if learned := s.auroc(e, candidate{tuned, learnedScore}); learned < .9 {
			t.Errorf("%v: learned from the set itself it has the AUROC %v", e, learned)
		}
	}
	l.sameAsTheLibrary(t.Context(), t, h, s)
}

// sameAsTheLibrary compares the rows of untuned scores with package bench.
func (l *lab) sameAsTheLibrary(ctx context.Context, t *testing.T, h scoreNetwork, s standings) {
	t.Helper()
	u := h.sets[0]
	e, err := bench.Evaluate(ctx, bench.Config{
		Bundle: filepath.Join(l.scratch, "bundles", "scores-of-digits-0"), Test: h.set.test, OOD: []bench.NamedSpec{u.test()},
		Methods: []string{"mle", score.Default, "vim"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range e.Methods {
		got := s.auroc(pairOf(h.name, u.name), candidate{untuned, m.Name})
		if want := m.OOD[0].AUROC; got != want {
			t.Errorf("%s has the AUROC %v, want %v", m.Name, got, want)
		}
	}
}
