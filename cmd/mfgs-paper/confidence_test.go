package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/compare"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/corrupt"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/wrap/bench"
)

// Figures are those of package compare; those of a severity are means over kinds.
func TestTheConfidencePart(t *testing.T) {
	t.Parallel()
	l := digitsForShift(t)
	shifted := *l.mnist()
	shifted.name = shiftName
	l.sets[shiftName] = &shifted
	if err := os.Symlink(l.models, filepath.Join(l.models, "digits-mlp")); err != nil {
		t.Fatal(err)
	}
	chosen, err := parseParts("confidence")
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.make(t.Context(), chosen)
	if err != nil {
		t.Fatal(err)
	}
	rows := r.results()
	want := 0
	for _, c := range confidenceSets {
		want += len(confidenceTrials(c.kind)) * len(c.data())
		for _, data := range c.data() {
			for _, trial := range confidenceTrials(c.kind) {
				if all := rows[c.place(data, trial.row)].over(nllOf); len(all) != 1 || !(all[0] > 0) {
					t.Errorf("%s, %s, %s: NLL %v", c.name, data, trial.row, all)
				}
			}
		}
	}
	if len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}

	set := l.mnist()
	var shifts []bench.NamedSpec
	for _, way := range corrupt.Corruptions() {
		if way.Severity == 3 {
			file := fileName(way.String()) + "-images-idx3-ubyte"
			shifts = append(shifts, bench.NamedSpec{Name: way.String(), Spec: filepath.Join(l.scratch, "corrupted", "mnist", file)})
		}
	}
	direct, err := compare.Evaluate(t.Context(), compare.Config{Config: bench.Config{
		Bundle: l.bundlePath(subject{set: set}), Test: set.test, Shifts: shifts, Methods: []string{"noise", "mf0_noise"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{noiseRow, mf0NoiseRow} {
		m, c := direct.Methods[i], confidenceSets[0]
		if got := *rows[c.place(testData, name)].mean().NLL; got != m.InDomain.NLL {
			t.Errorf("%s: NLL %v on test data, want %v", name, got, m.InDomain.NLL)
		}
		var nll float64
		for _, s := range m.Shifts {
			nll += s.NLL / 15
		}
		if got := *rows[c.place("severity 3", name)].mean().NLL; !approx.Equal(got, nll, 1e-12) || !(nll > m.InDomain.NLL) {
			t.Errorf("%s: NLL %v at severity 3, want %v, more than %v", name, got, nll, m.InDomain.NLL)
		}
	}
	for _, c := range confidenceClaims() {
		if got := r.claimOf(c.Text); len(got.Comparisons) != len(c.contrasts) {
			t.Errorf("%q: %d of %d comparisons", c.Text, len(got.Comparisons), len(c.contrasts))
		}
	}
	text := r.sections[0].text.String()
	for _, want := range []string{
		"### CIFAR-10, a network kept aside", "NLL: other digits", "| **feature noise** |", "### Differences in NLL", "compared with T × 1.1", "the ECE of feature noise at severity 5",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
}

// The verdict follows from all comparisons with T × 1.1.
func TestFeatureNoiseIsOfferedOnlyIfItIsBetterEverywhere(t *testing.T) {
	t.Parallel()
	q := shiftNLL
	of := func(text string, differences ...float64) claim {
		c := claim{Text: text}
		for _, d := range differences {
			i := [2]float64{d - 0.01, d + 0.01}
			c.Comparisons = append(c.Comparisons, comparison{Difference: d, Interval: i, Result: q.judge(i)})
		}
		return c
	}
	for _, test := range []struct {
		differences []float64
		offered     bool
		words       string
	}{
		{[]float64{-0.1, -0.2}, true, "compared with T × 1.1 better in 2 of 2."},
		{[]float64{-0.1, 0.2, 0, 0.3}, false, "compared with T × 1.1 better in 1, worse in 2, inconclusive in 1 of 4."},
	} {
		text := confidenceConclusion([]claim{of(noiseScalingText, -1), of(noiseHotText, test.differences...)})
		if strings.Contains(text, "It beats T × 1.1 on all of these.") != test.offered || !strings.Contains(text, test.words) ||
			strings.Contains(text, "mfgs does not offer it") == test.offered {
			t.Errorf("%v: %s", test.differences, text)
		}
	}
	if text := confidenceConclusion(nil); text != "" {
		t.Errorf("without measurements: %s", text)
	}
}

// The digits of one source are as large as those of the other, with the same margins.
func TestOtherDigitsHaveTheMarginsOfTheNetworksOwn(t *testing.T) {
	t.Parallel()
	l := digitsLab(t)
	if err := os.Symlink(l.models, filepath.Join(l.models, "digits-mlp")); err != nil {
		t.Fatal(err)
	}
	l.sets[cifar10Name], l.sets[shiftName] = l.sets[mnistName], l.sets[mnistName]
	for name, want := range map[string]struct{ n, inner int }{mnistName: {1797, 5}, smallDigitsName: {297, 8}} {
		c := confidenceSet{name: name}
		_, spec, err := l.benchmarkOf(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		g, err := images.Read(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		inked := map[int]bool{} // rows
		for i, v := range g.Pixels {
			if v > 0 {
				inked[i/8%8] = true
			}
		}
		if g.Len() != want.n || g.Height != 8 || g.Width != 8 || len(inked) != want.inner {
			t.Errorf("%s: %d digits of %d × %d on %d rows, want %d on %d", name, g.Len(), g.Height, g.Width, len(inked), want.n, want.inner)
		}
	}
}
