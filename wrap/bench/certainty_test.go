package bench

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/models"
)

// Every figure has an interval, unless draws cannot give one, and differences to the network and to temperature
// scaling, whether or not these are among the methods.
func TestFiguresHaveIntervals(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	cfg := Config{
		Bundle: dir, Test: digits(t, models.DigitsTest), Methods: []string{"mf0", "leverage", "ts"},
		Shifts: []NamedSpec{{"part", strings.Replace(digits(t, models.DigitsTest), "[1500:1797]", "[1500:1600]", 1)}},
		OOD:    []NamedSpec{{"drawings", digits(t, models.OODTest)}},
	}
	by := evaluated(t, cfg)
	labelled := []string{"error", "nll", "ece", "debiased_ce", "brier", "aurc", "risk80", "risk90", "risk95"}
	detection := []string{"accuracy", "auroc", "aupr_in", "aupr_out", "fpr95", "fpr95_ood"}
	for _, name := range []string{"mf0", "ts"} {
		wantCertain(t, name, labelled, *by[name].InDomain, by[name].InDomain.Certainty)
		wantCertain(t, name+" of a part", labelled, by[name].Shifts[0].Labelled, by[name].Shifts[0].Certainty)
	}
	for _, name := range cfg.Methods {
		wantCertain(t, name, detection, by[name].OOD[0].DetectionResult, by[name].OOD[0].Certainty)
		wantCertain(t, name, detection, by[name].OODNLL[0].DetectionResult, by[name].OODNLL[0].Certainty)
	}
	if by["leverage"].InDomain != nil || by["leverage"].Shifts != nil {
		t.Error("leverage has figures of probabilities")
	}

	// The values compared are those in the table.
	mle := evaluated(t, Config{Bundle: dir, Test: cfg.Test, OOD: cfg.OOD, Methods: []string{"mle"}})["mle"]
	for name, pair := range map[string][2]float64{
		"nll": {by["mf0"].InDomain.NLL - mle.InDomain.NLL, by["mf0"].InDomain.Differences["mle"]["nll"].Difference},
		"auroc": {by["leverage"].OOD[0].AUROC - mle.OOD[0].AUROC,
			by["leverage"].OOD[0].Differences["mle"]["auroc"].Difference},
		"auroc under temperatures for likelihood": {by["mf0"].OODNLL[0].AUROC - by["ts"].OODNLL[0].AUROC,
			by["mf0"].OODNLL[0].Differences["ts"]["auroc"].Difference},
	} {
		if !approx.Equal(pair[1], pair[0], 1e-12) {
			t.Errorf("difference of %s %v, want %v", name, pair[1], pair[0])
		}
	}

	again := evaluated(t, cfg)
	if a, b := again["ts"].InDomain.Intervals["nll"], by["ts"].InDomain.Intervals["nll"]; a != b {
		t.Errorf("interval %v, then %v with the same seed", b, a)
	}
	cfg.Seed = 5
	other := evaluated(t, cfg)
	if other["ts"].InDomain.Intervals["nll"] == by["ts"].InDomain.Intervals["nll"] {
		t.Error("the same interval with another seed")
	}
	if other["ts"].InDomain.InDomain != by["ts"].InDomain.InDomain {
		t.Error("another seed changed the figures of temperature scaling")
	}
}

// Alone changes no figure: there is nothing to compare it with, and nothing is recommended without the network.
func TestAloneComparesWithWhatWasAskedFor(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	cfg := Config{
		Bundle: dir, Test: digits(t, models.DigitsTest), Methods: []string{"mf0", "ts"}, Resamples: 50,
		OOD: []NamedSpec{{"drawings", digits(t, models.OODTest)}},
	}
	all, err := Evaluate(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Alone = true
	alone, err := Evaluate(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if all.Recommendation.Probabilities == nil || alone.Recommendation != (metrics.Recommendation{}) {
		t.Errorf("recommended %v, alone %v", all.Recommendation, alone.Recommendation)
	}
	for i, m := range alone.Methods {
		of := all.Methods[i]
		if m.InDomain.InDomain != of.InDomain.InDomain || m.OOD[0].OOD != of.OOD[0].OOD {
			t.Errorf("%s: figures %v and %v, want %v and %v", m.Name, m.InDomain.InDomain, m.OOD[0].OOD, of.InDomain.InDomain, of.OOD[0].OOD)
		}
		if !slices.Equal(m.InDomain.Series["nll"].Draws, of.InDomain.Series["nll"].Draws) {
			t.Errorf("%s: resamples of another kind", m.Name)
		}
		if m.InDomain.Differences["mle"] != nil || of.InDomain.Differences["mle"] == nil {
			t.Errorf("%s: compared with mle: %v, otherwise %v", m.Name, m.InDomain.Differences["mle"], of.InDomain.Differences["mle"])
		}
	}
	if alone.Methods[0].InDomain.Differences["ts"] == nil {
		t.Error("mf0 is not compared with ts, which was asked for")
	}
}

// Figures come with their values on all resamples, from which the intervals are computed. Every evaluation of the
// same test set has the same resamples.
func TestFiguresHaveTheirResamples(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	cfg := Config{Bundle: dir, Test: digits(t, models.DigitsTest), Methods: []string{"ts"}, Seed: 3, Resamples: 50}
	alone, err := Evaluate(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	part := strings.Replace(cfg.Test, "[1500:1797]", "[1500:1600]", 1)
	cfg.Shifts = []NamedSpec{{"same", cfg.Test}, {"part", part}, {"that part", part}}
	cfg.OOD = []NamedSpec{{"drawings", digits(t, models.OODTest)}}
	more, err := Evaluate(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := more.Bootstrap.Resamples; got != 50 {
		t.Errorf("%d resamples, want 50", got)
	}
	ts := more.Methods[0]
	nll := ts.InDomain.Series["nll"]
	if i, ok := nll.Interval(0.95); len(nll.Draws) != 50 || nll.Value != ts.InDomain.NLL || !ok ||
		i != ts.InDomain.Intervals["nll"] {
		t.Errorf("%d values of %v, with the interval %v, want those of %v", len(nll.Draws), nll.Value, i, ts.InDomain.NLL)
	}
	if auroc := ts.OOD[0].Series["auroc"]; len(auroc.Draws) != 50 || auroc.Value != ts.OOD[0].AUROC {
		t.Errorf("%d values of %v, want 50 of %v", len(auroc.Draws), auroc.Value, ts.OOD[0].AUROC)
	}
	drawn := func(l metrics.Labelled) []float64 { return l.Series["nll"].Draws }
	same, first, second := ts.Shifts[0].Labelled, ts.Shifts[1].Labelled, ts.Shifts[2].Labelled
	if !slices.Equal(nll.Draws, drawn(*alone.Methods[0].InDomain)) || !slices.Equal(nll.Draws, drawn(same)) {
		t.Error("the test set is drawn differently with other sets beside it, or as a set under shift")
	}
	if !slices.Equal(drawn(first), drawn(second)) {
		t.Error("two sets of the same examples are drawn differently")
	}
	cfg.Resamples = -1
	_, err = Evaluate(t.Context(), cfg)
	says(t, err, "resamples are -1")
}

// wantCertain checks names, and the intervals around values as JSON has them.
func wantCertain(t *testing.T, what string, names []string, figures any, c metrics.Certainty) {
	t.Helper()
	text, err := json.Marshal(figures)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := json.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	intervals := 0
	for name, i := range c.Intervals {
		v, ok := values[name].(float64)
		if !ok || !slices.Contains(names, name) || !(i[0] <= v && v <= i[1] && i[0] < i[1]) {
			t.Errorf("%s: %s is %v with the interval %v", what, name, values[name], i)
		}
		intervals++
	}
	if intervals < len(names)-2 { // the risks at low coverages are 0
		t.Errorf("%s: %d intervals, want %d", what, intervals, len(names))
	}
	for _, other := range []string{"mle", "ts"} {
		if d := c.Differences[other]; what[:2] != other && len(d) != len(names) {
			t.Errorf("%s: %d differences to %s, want %d", what, len(d), other, len(names))
		}
	}
}
