package chart

import (
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// An Axis is one of a chart's two.
type Axis struct {
	Label string // what, and in which unit
	// Min and Max are its ends; where they are equal they are those of the data, 0 among them.
	Min, Max float64
	Log      bool // positive values, by their logarithms
	Percent  bool // values are fractions, and are written in %
	Whole    bool // values are whole numbers
}

// place returns where on the axis a value is: of a logarithmic one at its logarithm to base 10. The
// library's own logarithmic scale leaves room for labels where they are not.
func (a Axis) place(v float64) float64 {
	if a.Log {
		return math.Log10(v)
	}
	return v
}

// places are those of several values.
func (a Axis) places(values []float64) []float64 {
	if !a.Log {
		return values
	}
	all := make([]float64, len(values))
	for i, v := range values {
		all[i] = a.place(v)
	}
	return all
}

// ticks are where an axis has marks.
type ticks Axis

// Ticks returns four to ten round values between two places, of a logarithmic axis powers of ten.
func (a ticks) Ticks(least, most float64) (all []plot.Tick) {
	if a.Log {
		every := math.Max(1, math.Ceil((most-least)/5))
		for e := math.Ceil(least - 1e-9); e <= most+1e-9; e += every {
			all = append(all, plot.Tick{Value: e, Label: a.label(math.Pow(10, e))})
		}
		return all
	}
	step := Step(most - least)
	if a.Whole {
		step = math.Max(step, 1)
	}
	for i := math.Ceil(least/step - 1e-9); i*step <= most+step*1e-9; i++ {
		v := i * step
		all = append(all, plot.Tick{Value: v, Label: a.label(v)})
	}
	return all
}

func (a ticks) label(v float64) string {
	if a.Percent {
		v *= 100
	}
	return Short(v)
}

// Short writes a number to four digits, as in 0.25, 1000, 3e-7.
func Short(v float64) string {
	if v == 0 {
		return "0"
	}
	if size := math.Abs(v); size >= 1e-4 && size < 1e5 {
		digits := 3 - int(math.Floor(math.Log10(size)))
		scale := math.Pow(10, float64(digits))
		return strconv.FormatFloat(math.Round(v*scale)/scale, 'f', -1, 64)
	}
	return exponential(v, 1)
}

// exponential writes a number to so many digits behind the point, as in 2.6e10.
func exponential(v float64, digits int) string {
	mantissa, exponent, found := strings.Cut(strconv.FormatFloat(v, 'e', digits, 64), "e")
	if !found { // Inf or NaN
		return mantissa
	}
	return strings.TrimSuffix(mantissa, ".0") + "e" + strings.Replace(strings.TrimLeft(exponent, "+0"), "-0", "-", 1)
}

// Step returns a round distance, 1, 2 or 5 times a power of ten, that divides a length into four to ten.
func Step(length float64) float64 {
	if !(length > 0) || math.IsInf(length, 0) {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(length)))
	for _, part := range []float64{1, .5, .2} {
		if length/(step*part) >= 4-1e-9 {
			return step * part
		}
	}
	return step / 10
}

// ends returns the ends of an axis for values, which need not be finite.
func (a Axis) ends(values []float64) (least, most float64) {
	if a.Min < a.Max {
		return a.Min, a.Max
	}
	least, most = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v-v == 0 && (!a.Log || v > 0) {
			least, most = math.Min(least, v), math.Max(most, v)
		}
	}
	switch {
	case least > most:
		return 0.1, 1
	case a.Log && least < most:
		return least, most
	case a.Log:
		return least / 2, most * 2
	}
	least, most = math.Min(least, 0), math.Max(most, 0)
	if least == most {
		most = 1
	}
	step := Step(most - least)
	return step * math.Floor(least/step+1e-9), step * math.Ceil(most/step-1e-9)
}

// apply gives a plot's axis the ends, scale, marks and look.
func (a Axis) apply(p *plot.Axis, values []float64) {
	least, most := a.ends(values)
	p.Min, p.Max, p.Tick.Marker = a.place(least), a.place(most), ticks(a)
	p.Label.Text, p.Padding, p.Color, p.Tick.Color = a.Label, 0, Grey, Grey
	p.Label.TextStyle.Color, p.Tick.Label.Color = Ink, Ink
	p.Label.TextStyle.Font, p.Tick.Label.Font = sans(12), sans(11)
	p.Tick.Length, p.Label.Padding = 4, 5
}

// sans is the font that text is laid out with.
func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)}
}

// sansStyle is a style of centred text.
func sansStyle(size float64, c color.Color) draw.TextStyle {
	return draw.TextStyle{
		Color: c, Font: sans(size), XAlign: text.XCenter, YAlign: text.YCenter, Handler: plot.DefaultTextHandler,
	}
}
