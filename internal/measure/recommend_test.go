package measure

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

// figuresOf makes tallies of methods with figures on some out-of-distribution sets: their values,
// and draws with a standard error each.
func figuresOf(
	rng *rand.Rand, draws int, stderr float64, nll map[string]float64, auroc map[string][]float64,
) *Resampled {
	r := &Resampled{figures: map[place]map[string]metrics.Series{}}
	around := func(v float64) metrics.Series {
		s := metrics.Series{Value: v, Draws: make([]float64, draws)}
		for i := range s.Draws {
			s.Draws[i] = v + stderr*rng.NormFloat64()
		}
		return s
	}
	for _, name := range slices.Sorted(maps.Keys(auroc)) {
		i := len(r.tallies)
		t := &Tally{Name: name}
		if v, ok := nll[name]; ok {
			r.figures[place{tally: i}] = map[string]metrics.Series{"nll": around(v)}
		}
		for j, v := range auroc[name] {
			t.out, t.oods = append(t.out, Scores{}), append(t.oods, string(rune('a'+j)))
			r.figures[place{tally: i, part: SetID{OOD, j}}] = map[string]metrics.Series{"auroc": around(v)}
		}
		r.tallies = append(r.tallies, t)
	}
	return r
}

func TestRecommendations(t *testing.T) {
	t.Parallel()
	type both struct{ probabilities, score string }
	for _, test := range []struct {
		name           string
		nll            map[string]float64
		auroc          map[string][]float64
		serves         both
		want           both
		probable, tell string // of the sentences
		worse          []string
	}{
		{"nothing is significantly better",
			map[string]float64{"mle": 0.5, "ts": 0.495, "mf0": 0.52},
			map[string][]float64{"mle": {.8}, "ts": {.8}, "mf0": {.81}, "leverage": {.5}},
			both{"ts", "mf0"}, both{"mle", "mle"},
			"network (uncalibrated): no method has a significantly lower NLL than its 0.5000; that of ts (selected) is lower by 0.0050 [-0.0",
			"network (uncalibrated): no method has a significantly higher AUROC than its 80.00 %; that of mf0 (selected) is higher by 1.00 [-", nil},
		{"what serves may be the best",
			map[string]float64{"mle": 0.5, "ts": 0.495, "mf0": 0.52},
			map[string][]float64{"mle": {.8}, "ts": {.8}, "mf0": {.81}, "leverage": {.5}},
			both{"ts", "mf0"}, both{"mle", "mle"},
			"], not significant",
			"] points, not significant", nil},
		{"what serves may be as good, and another is better by chance",
			map[string]float64{"mle": 0.5, "ts": 0.495, "mf0": 0.502},
			map[string][]float64{"mle": {.8}, "ts": {.795}, "mf0": {.81}},
			both{"mf0", "ts"}, both{"mle", "mle"},
			"], not significant; the bundle uses mf0, and the difference is not significant",
			"] points, not significant; the bundle uses ts, and the difference is not significant", nil},
		{"what serves is better than the network",
			map[string]float64{"mle": 0.5, "ts": 0.395, "mf0": 0.4},
			map[string][]float64{"mle": {.7}, "ts": {.7}, "mf0": {.9}, "leverage": {.91}},
			both{"mf0", "mf0"}, both{"mf0", "mf0"},
			"mf0 (selected): NLL 0.4000, significantly lower than the network's, by 0.1000 [0.0", "that of leverage is higher by 1.00 [", nil},
		{"another is better than what serves",
			map[string]float64{"mle": 0.5, "ts": 0.3, "mf0": 0.4},
			map[string][]float64{"mle": {.7}, "ts": {.7}, "mf0": {.8}, "leverage": {.95}},
			both{"mf0", "mf0"}, both{"ts", "leverage"},
			"ts: NLL 0.3000, significantly lower than the network's, by 0.2000 [0.1", "and than that of mf0 (selected), by 15.00 [", nil},
		{"what serves is worse than the network",
			map[string]float64{"mle": 0.5, "ts": 0.5, "mf0": 0.9},
			map[string][]float64{"mle": {.9}, "ts": {.9}, "mf0": {.6}, "leverage": {.5}},
			both{"mf0", "leverage"}, both{"mle", "mle"}, "; the bundle uses mf0, which is significantly worse, by 0.4000 [0.", "; the bundle uses leverage, which is significantly worse, by 40.00 [", nil},
		{"scaling is the simplest that is better",
			map[string]float64{"mle": 0.5, "ts": 0.4, "mf0": 0.395},
			map[string][]float64{"mle": {.9}, "ts": {.9}, "mf0": {.9}},
			both{"mle", "none"}, both{"ts", "mle"}, "ts: NLL", "", nil},
		{"sets on average, and one on which it is worse",
			map[string]float64{"mle": 0.5},
			map[string][]float64{"mle": {.8, .7, .6}, "mf0": {.6, .9, .95}},
			both{"mle", "mf0"}, both{"mle", "mf0"}, "",
			"mf0 (selected): mean AUROC over 3 sets 81.67 %, significantly higher than the network's, by 11.67 [", []string{"a"}},
		{"no number is worse than none",
			map[string]float64{"mle": 0.5, "mf0": math.Inf(1)},
			map[string][]float64{"mle": {.8}, "mf0": {.8}},
			both{"mf0", "mf0"}, both{"mle", "mle"}, "", "", nil},
	} {
		r := figuresOf(rand.New(rand.NewPCG(1, 1)), 1000, 0.01, test.nll, test.auroc)
		got := r.Recommend(test.serves.probabilities, test.serves.score)
		if p, s := got.Probabilities, got.Score; p.Method != test.want.probabilities || s.Method != test.want.score ||
			p.Served != (p.Method == test.serves.probabilities) || s.Served != (s.Method == test.serves.score) ||
			p.Value != test.nll[p.Method] || len(s.Over) != len(test.auroc)-1 || !slices.Equal(s.Worse, test.worse) ||
			!strings.Contains(p.Sentence, test.probable) || !strings.Contains(s.Sentence, test.tell) {
			t.Errorf("%s:\n%+v\n%+v\nwant %+v", test.name, *p, *s, test.want)
		}
		if len(test.worse) > 0 && !strings.HasSuffix(got.Score.Sentence, "; the network itself is significantly better on a") {
			t.Errorf("%s: %s", test.name, got.Score.Sentence)
		}
	}
	r := figuresOf(rand.New(rand.NewPCG(1, 1)), 10, 0.01, map[string]float64{"mle": 1}, map[string][]float64{"mle": nil})
	if got := r.Recommend("mle", "mf0"); got.Score != nil || got.Probabilities == nil {
		t.Errorf("without out-of-distribution data: %+v", got)
	}
}

// On tuned data the figures do not decide which probabilities are selected.
// Of several draws of a method the first stands for all.
func TestTheFirstDrawIsCompared(t *testing.T) {
	t.Parallel()
	r := figuresOf(rand.New(rand.NewPCG(2, 2)), 40, 0.01, map[string]float64{"mc": 0.3, "mle": 0.5, "second": 0.1},
		map[string][]float64{"mc": {.8}, "mle": {.7}, "second": {.9}})
	r.tallies[2].Name = "mc"
	rec := r.Recommend("mle", "mle")
	for _, got := range []*metrics.Recommended{rec.Probabilities, rec.Score} {
		if got.Method != "mc" || got.Value != 0.3 && got.Value != 0.8 || len(got.Over) != 1 {
			t.Errorf("%s with %v, over %v", got.Method, got.Value, got.Over)
		}
	}
}

func TestTheTunedMethodStaysRecommended(t *testing.T) {
	t.Parallel()
	r := figuresOf(rand.New(rand.NewPCG(1, 1)), 1000, 0.01,
		map[string]float64{"mle": 0.5, "ts": 0.495, "mf0": 0.3}, map[string][]float64{"mle": {.7}, "ts": {.7}, "mf0": {.9}})
	got := r.RecommendTuned("ts", "for a reason", "mf0")
	p := got.Probabilities
	if p.Method != "ts" || !p.Served || p.Value != 0.495 || p.Sentence != "for a reason" || p.Over["mle"].Significant() ||
		!p.Over["mf0"].Significant() || got.Score.Method != "mf0" {
		t.Errorf("%+v\n%+v", p, got.Score)
	}
}

// Among equally good methods, another one than the network is recommended in at most one case of twenty, for any
// number of methods.
func TestEqualMethodsAreSeldomRecommended(t *testing.T) {
	t.Parallel()
	const runs = 400
	rng := rand.New(rand.NewPCG(2, 2))
	wrong := 0
	for range runs {
		auroc := map[string][]float64{}
		for _, name := range []string{"mle", "ts", "mf0", "leverage", "energy", "knn", "vim", "react"} {
			auroc[name] = []float64{0.8 + 0.01*rng.NormFloat64()}
		}
		r := figuresOf(rng, 300, 0.01, map[string]float64{"mle": 1}, auroc)
		if r.Recommend("mle", "mf0").Score.Method != "mle" {
			wrong++
		}
	}
	if most := int(runs * (0.05 + 4*math.Sqrt(0.05*0.95/runs))); wrong > most {
		t.Errorf("%d of %d recommendations are of chance, want at most %d", wrong, runs, most)
	}
	if wrong == 0 {
		t.Error("no recommendation is of chance: the test shows nothing")
	}
}
