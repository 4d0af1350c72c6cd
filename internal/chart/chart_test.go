package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

var nan, inf = math.NaN(), math.Inf(1)

// all has a series of each kind, and values that are not finite.
func all() Chart {
	return Chart{
		Name: `<script>alert("1")</script> & 'more'`, Diagonal: true,
		X: Axis{Label: "x in <b>", Max: 1, Percent: true}, Y: Axis{Label: "y & z in %", Max: 1, Percent: true},
		Series: []Series{
			{Name: "dots </svg>", Tone: Grey, Kind: Dots, X: []float64{.1, .5, .9, nan}, Y: []float64{.2, .4, inf, .1},
				Low: []float64{.1, nan, .2, .1}, High: []float64{.3, nan, .4, .2}},
			{Name: "line", Tone: Blue, Dashes: []float64{3, 2}, X: []float64{0, .5, 1}, Y: []float64{0, nan, 1}},
			{Name: "bars", Tone: Orange, Kind: Bars, X: []float64{0, .1, .2}, Y: []float64{.1, 0}},
			{Name: "steps", Tone: Green, Kind: Steps, X: []float64{0, .1, .2}, Y: []float64{.1, .2}},
		},
	}
}

func heat() Heat {
	return Heat{
		Name: `A < B & "C"`, X: "T_ens", Y: "T_act", Unit: "nats", Log: true, Format: "%.2g", Best: [2]float64{1e-3, 10},
		Columns: []float64{1e-3, 1}, Rows: []float64{.1, 1, 10}, Values: [][]float64{{.5, .4}, {.3, inf}, {.1, .2}},
	}
}

// elements reads a document to its end, and returns its elements.
func elements(t *testing.T, svg string) (list []xml.StartElement) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			list = append(list, e.Copy())
		}
	}
}

func TestDrawingsAreWellFormedAndInert(t *testing.T) {
	t.Parallel()
	swatches := ""
	for _, s := range all().Series {
		swatches += s.Swatch()
	}
	for name, svg := range map[string]string{
		"chart": all().SVG(), "document": string(all().Document()), "heat": heat().SVG(), "heat document": string(heat().Document()),
		"swatches": "<svg>" + swatches + "</svg>", "empty": Chart{}.SVG(), "one value": Chart{Series: []Series{{X: []float64{0}, Y: []float64{0}}}}.SVG(),
	} {
		list := elements(t, svg)
		if list[0].Name.Local != "svg" {
			t.Errorf("%s begins with %s", name, list[0].Name.Local)
		}
		for _, e := range list {
			if !strings.Contains(" svg path text rect ", " "+e.Name.Local+" ") {
				t.Errorf("%s has an element %s", name, e.Name.Local)
			}
			for _, a := range e.Attr {
				if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" {
					t.Errorf("%s: attribute %s=%q", name, a.Name.Local, a.Value)
				}
				if numbers := a.Name.Local == "d" || a.Name.Local == "x"; numbers && strings.ContainsAny(a.Value, "Nn") {
					t.Errorf("%s: %s=%q", name, a.Name.Local, a.Value)
				}
			}
		}
	}
}

// Every class that is drawn has a rule, in light and in dark.
func TestTonesAreInTheStylesheet(t *testing.T) {
	t.Parallel()
	css := Stylesheet()
	for _, class := range regexp.MustCompile(`class="([^"]+)"`).FindAllStringSubmatch(all().SVG(), -1) {
		if !strings.Contains(css, "."+class[1]+"{") {
			t.Errorf("no rule for %s", class[1])
		}
	}
	for _, tone := range tones {
		if n := strings.Count(css, "--chart-"+tone.name+":#"); n != 2 {
			t.Errorf("%s has %d colours, want one for light and one for dark", tone.name, n)
		}
	}
}

// contrast is that of two colours by the Web Content Accessibility Guidelines 2.2.
func contrast(a, b color.Color) float64 {
	luminance := func(c color.Color) float64 {
		n := color.NRGBAModel.Convert(c).(color.NRGBA)
		sum := 0.0
		for i, v := range []uint8{n.R, n.G, n.B} {
			x := float64(v) / 255
			if x <= 0.04045 {
				x /= 12.92
			} else {
				x = math.Pow((x+0.055)/1.055, 2.4)
			}
			sum += []float64{0.2126, 0.7152, 0.0722}[i] * x
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestColoursCanBeSeen(t *testing.T) {
	t.Parallel()
	for _, tone := range tones {
		want := 3.0
		switch tone {
		case Faint, Ground:
			continue
		case Ink:
			want = 7
		}
		for _, of := range [][2]string{{tone.light, Ground.light}, {tone.dark, Ground.dark}} {
			if got := contrast(rgb(of[0]), rgb(of[1])); got < want {
				t.Errorf("%s on %s: contrast %.2f, want %v", of[0], of[1], got, want)
			}
		}
	}
	for x := 0.0; x <= 1; x += .01 {
		if got := contrast(onRamp(x), over(x)); got < 3 {
			t.Errorf("figures at %.2f of the ramp have contrast %.2f", x, got)
		}
	}
}

// coordinates are the numbers of a path.
func coordinates(t *testing.T, d string) (all []float64) {
	t.Helper()
	for _, s := range regexp.MustCompile(`-?[0-9.]+`).FindAllString(d, -1) {
		var v float64
		if _, err := fmt.Sscan(s, &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// A point stands where the marks of the axes say: those of the grid are drawn by another hand.
func TestPointsStandWhereTheAxesSay(t *testing.T) {
	t.Parallel()
	for _, log := range []bool{false, true} {
		x := Axis{Min: 1, Max: 1000, Log: log}
		line := Series{Tone: Red, X: []float64{1, 10, 1000}, Y: []float64{0, 1, 4}}
		c := Chart{X: x, Y: Axis{Max: 4}, Series: []Series{line}}
		for _, e := range elements(t, c.SVG()) {
			attributes := map[string]string{}
			for _, a := range e.Attr {
				attributes[a.Name.Local] = a.Value
			}
			if attributes["class"] != "s-red" {
				continue
			}
			p := coordinates(t, attributes["d"])
			if len(p) != 6 {
				t.Fatalf("path %q", attributes["d"])
			}
			part := 9. / 999
			if log {
				part = 1. / 3
			}
			// Coordinates are rounded to a tenth.
			if got, want := p[2], p[0]+part*(p[4]-p[0]); !approx.Equal(got, want, 0.11) {
				t.Errorf("logarithmic %v: x = %v, want %v", log, got, want)
			}
			if got, want := p[3], p[1]+(p[5]-p[1])/4; !approx.Equal(got, want, 0.11) || p[5] >= p[1] {
				t.Errorf("y = %v, want %v, above %v", got, want, p[1])
			}
			return
		}
		t.Error("the line was not drawn")
	}
}

func TestTheStarIsPlacedByInterpolation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values []float64
		v      float64
		want   float64
	}{
		{[]float64{1, 10, 100}, 1, 0},
		{[]float64{1, 10, 100}, 10, 1},
		{[]float64{1, 10, 100}, math.Sqrt(1000), 1.5},
		{[]float64{1, 10, 100}, 1e9, 2},
		{[]float64{1, 10, 100}, 1e-9, 0},
	} {
		if got := at(test.values, test.v); !approx.Equal(got, test.want, 1e-12) {
			t.Errorf("%v among %v: %v, want %v", test.v, test.values, got, test.want)
		}
	}
}

func TestRamp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		t    float64
		want color.Color
	}{{0, rgb("#2b0a5a")}, {1, rgb("#faeb6e")}, {-3, rgb("#2b0a5a")}, {7, rgb("#faeb6e")}, {inf, Faint}, {.2, rgb("#3e3c96")}, {nan, Faint}} {
		if got := onRamp(test.t); got != test.want {
			t.Errorf("colour at %v is %v, want %v", test.t, got, test.want)
		}
	}
	s := heat().span()
	for _, v := range []float64{.1, .2, .5} {
		if got := s.value(s.of(v)); !approx.Equal(got, v, 1e-12) {
			t.Errorf("%v comes back as %v", v, got)
		}
	}
	if got := s.of(inf); !math.IsNaN(got) {
		t.Errorf("∞ is at %v", got)
	}
	flat := Heat{Values: [][]float64{{2, 2}}}.span()
	if got := flat.of(2); got != .5 {
		t.Errorf("of equal values each is at %v", got)
	}
}

func TestStep(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ length, want float64 }{
		{1, .2}, {52, 10}, {4, 1}, {9.9, 1}, {.031, .005}, {0, 1}, {nan, 1}, {inf, 1},
	} {
		if got := Step(test.length); !approx.Equal(got, test.want, 1e-12) {
			t.Errorf("of %v: %v, want %v", test.length, got, test.want)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		3e-7: "3e-7", 2.6e10: "2.6e10", 1: "1", 0: "0", .25: "0.25", 1e4: "10000", 1e5: "1e5", 1. / 3: "0.3333", -.5: "-0.5", inf: "+Inf",
		0.1 + 0.2: "0.3", 9.96e-5: "1e-4",
	} {
		if got := Short(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		3e-7: "3e-7", .0017: "2e-3", .0096: "1e-2", .02: "0.02", .128: "0.13", 3.44: "3.4", 774: "770", 999: "1000", 1234: "1e3", 2.6e10: "3e10",
	} {
		if got := brief(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}

func TestMarksOfAxes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		axis        Axis
		least, most float64
		want        string
	}{
		{Axis{Percent: true}, 0, 1, "0 20 40 60 80 100"},
		{Axis{Whole: true}, -.5, 2.5, "0 1 2"},
		{Axis{}, -1, 1, "-1 -0.5 0 0.5 1"},
		{Axis{Log: true}, -3, 2, "0.001 0.01 0.1 1 10 100"},
		{Axis{Log: true}, -20.5, .3, "1e-20 1e-15 1e-10 1e-5 1"},
	} {
		var got []string
		for _, tick := range test.axis.ticks(test.least, test.most) {
			got = append(got, tick.label)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v: %v, want %s", test.axis, got, test.want)
		}
	}
	for _, test := range []struct {
		axis        Axis
		values      []float64
		least, most float64
	}{
		{Axis{}, []float64{.3, .93}, 0, 1},
		{Axis{}, []float64{-3, nan}, -3, 0},
		{Axis{}, nil, .1, 1},
		{Axis{}, []float64{0}, 0, 1},
		{Axis{Log: true}, []float64{0, 2, 8}, 2, 8},
		{Axis{Log: true}, []float64{2}, 1, 4},
		{Axis{Min: 2, Max: 3}, []float64{7}, 2, 3},
	} {
		least, most := test.axis.ends(test.values)
		if !approx.Equal(least, test.least, 1e-12) || !approx.Equal(most, test.most, 1e-12) {
			t.Errorf("%+v of %v: %v to %v", test.axis, test.values, least, most)
		}
	}
}

func TestDrawingsAreDeterministic(t *testing.T) {
	t.Parallel()
	chart, map1, map2 := all().SVG(), heat().Document(), heat().Document()
	if all().SVG() != chart || !bytes.Equal(map1, map2) {
		t.Error("two drawings of the same differ")
	}
}
