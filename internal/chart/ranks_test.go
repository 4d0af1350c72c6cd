package chart

import (
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

func someRanks() Ranks {
	r := Ranks{Name: `Ranks of "A" & <B>`, Critical: 1.5, Groups: [][2]float64{{1.2, 2.6}, {2.6, 3.9}}}
	for i, rank := range []float64{1.2, 2.6, 3.3, 3.9, 5} {
		r.Methods = append(r.Methods, Ranked{Name: string(rune('a'+i)) + " <m>", Rank: rank, Marked: i == 1})
	}
	return r
}

func TestRanksAreWellFormed(t *testing.T) {
	t.Parallel()
	for name, svg := range map[string]string{
		"ranks": string(someRanks().Document()),
		"one":   string(Ranks{Methods: []Ranked{{Name: "a", Rank: 1}}}.Document()), "none": string(Ranks{}.Document()),
	} {
		for i, e := range elements(t, svg) {
			if (i == 0) != (e.Name.Local == "svg") || !strings.Contains(" svg path text rect ", " "+e.Name.Local+" ") {
				t.Errorf("%s: element %d is %s", name, i, e.Name.Local)
			}
			for _, a := range e.Attr {
				if a.Name.Local == "d" && strings.ContainsAny(a.Value, "Nn") {
					t.Errorf("%s: %s", name, a.Value)
				}
			}
		}
	}
}

// Methods, groups and the critical difference are drawn to one scale, and the names within the canvas.
func TestRanksAreDrawnToScale(t *testing.T) {
	t.Parallel()
	svg := string(someRanks().Document())
	left, right := 0., 0. // where ranks 1 and 5 are
	var leaders, bars [][]float64
	for _, e := range elements(t, svg) {
		attributes := map[string]string{}
		for _, a := range e.Attr {
			attributes[a.Name.Local] = a.Value
		}
		p := coordinates(t, attributes["d"])
		switch {
		case e.Name.Local != "path":
		case len(p) == 4 && left == 0:
			left, right = p[0], p[2]
		case len(p) == 6:
			leaders = append(leaders, p)
		case attributes["class"] == "s-blue":
			bars = append(bars, p)
		}
	}
	at := func(rank float64) float64 { return left + (right-left)*(rank-1)/4 }
	if len(leaders) != 5 || len(bars) != 2 {
		t.Fatalf("%d methods and %d groups are drawn", len(leaders), len(bars))
	}
	for i, m := range someRanks().Methods {
		if !approx.Equal(leaders[i][0], at(m.Rank), .11) {
			t.Errorf("%s is drawn at %v, want %v", m.Name, leaders[i][0], at(m.Rank))
		}
	}
	for i, g := range someRanks().Groups {
		if !approx.Equal(bars[i][0], at(g[0])-3, .11) || !approx.Equal(bars[i][2], at(g[1])+3, .11) {
			t.Errorf("group %v is drawn from %v to %v", g, bars[i][0], bars[i][2])
		}
	}
	if strings.Count(svg, `class="f-red"`) != 1 || strings.Count(svg, `class="s-red"`) != 1 {
		t.Error("want one method marked")
	}
}
