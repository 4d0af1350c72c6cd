package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/approx"
)

// A restricted network has the first logits of the other, on the data of the classes kept.
func TestARestrictedNetworkIsTheOtherOnSomeClasses(t *testing.T) {
	t.Parallel()
	l := digitsLab(t)
	l.models = filepath.Join("..", "..", "models")
	h := scoreNetwork{name: smallDigitsName, set: l.smallDigits(), restrictedOn: drawings, sets: []oodSet{
		{drawings, filepath.Join(l.models, "digits-mlp", "drawings-images-idx3-ubyte.gz"), 300, 600},
	}}
	logits := func(h scoreNetwork, spec string, labels bool) *rows.Batch {
		t.Helper()
		cut, _, _, err := l.openCut(t.Context(), h, mustCalibrate(t, l, h))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cut.Close() }()
		b, err := l.read(t.Context(), cut, h, spec, labels)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	whole := logits(h, h.set.test, true)
	far := logits(h, h.sets[0].test().Spec, false)
	all, err := l.restricted(t.Context(), h, 0, mustCalibrate(t, l, h))
	if err != nil || len(all) != len(restrictions) {
		t.Fatal(len(all), err)
	}
	for i, r := range all {
		k := restrictions[i]
		inside := ofClasses(whole, func(label int) bool { return label < k })
		outside := ofClasses(whole, func(label int) bool { return label >= k })
		for spec, want := range map[string]*rows.Batch{
			r.set.test: inside, r.sets[0].spec: outside, r.sets[1].spec: far,
		} {
			got := logits(r, spec, spec == r.set.test)
			if got.N != want.N || spec == r.set.test && !slices.Equal(got.Labels, want.Labels) {
				t.Fatalf("%s: %d examples, want %d, or other labels", spec, got.N, want.N)
			}
			for at := range got.N {
				for c := range k {
					// float32 inference
					if a, b := float64(got.Logits[at*k+c]), float64(want.Logits[at*10+c]); !approx.Equal(a, b, 1e-4) {
						t.Fatalf("%s: logit %d of example %d is %v, want %v", spec, c, at, a, b)
					}
				}
			}
		}
		methods := []string{score.Default, "nci", predictedScore}
		figures, err := l.scoreFigures(t.Context(), r, mustCalibrate(t, l, r), methods, r.sets)
		if err != nil {
			t.Fatal(err)
		}
		for name, of := range figures {
			if v := of[otherClasses].OOD[otherClasses].AUROC; !(v > .5) {
				t.Errorf("%s: %s has the AUROC %v against the other classes", r.name, name, v)
			}
		}
	}
}

func mustCalibrate(t *testing.T, l *lab, h scoreNetwork) string {
	t.Helper()
	report, err := l.scoreCalibration(t.Context(), h, 0, "", score.Default, calibrate.Damping{})
	if err != nil {
		t.Fatal(err)
	}
	return report.Bundle
}
