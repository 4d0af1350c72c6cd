package chart

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An Axis is one of a chart's two.
type Axis struct {
	Label string // the quantity and its unit
	// Min and Max are its ends. If they are equal, the ends are those of the data and 0.
	Min, Max float64
	Log      bool // logarithmic, for positive values
	Percent  bool // values are fractions, shown in %
	Whole    bool // values are integers
}

// place returns the position of a value on the axis: on a logarithmic one its decimal logarithm.
func (a Axis) place(v float64) float64 {
	if a.Log {
		return math.Log10(v)
	}
	return v
}

// A tick is a mark of an axis, at a place.
type tick struct {
	place float64
	label string
}

// ticks returns four to ten round values between two places, powers of ten on a logarithmic axis.
func (a Axis) ticks(least, most float64) (all []tick) {
	if a.Log {
		every := math.Max(1, math.Ceil((most-least)/5))
		for e := math.Ceil(least - 1e-9); e <= most+1e-9; e += every {
			all = append(all, tick{e, a.label(math.Pow(10, e))})
		}
		return all
	}
	step := Step(most - least)
	if a.Whole {
		step = math.Max(step, 1)
	}
	for i := math.Ceil(least/step - 1e-9); i*step <= most+step*1e-9; i++ {
		all = append(all, tick{i * step, a.label(i * step)})
	}
	return all
}

func (a Axis) label(v float64) string {
	if a.Percent {
		v *= 100
	}
	return Short(v)
}

// Short formats a number to four digits, as in 0.25, 1000, 3e-7.
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

// exponential formats a number with this many decimals, as in 2.6e10.
func exponential(v float64, digits int) string {
	mantissa, exponent, found := strings.Cut(strconv.FormatFloat(v, 'e', digits, 64), "e")
	if !found { // Inf or NaN
		return mantissa
	}
	return strings.TrimSuffix(mantissa, ".0") + "e" + strings.Replace(strings.TrimLeft(exponent, "+0"), "-0", "-", 1)
}

// Step returns a round step, 1, 2 or 5 times a power of ten, that divides a length into four to ten.
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

// ends returns the ends of an axis for values, some of which may not be finite.
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

// A scale is an axis with its ends on a canvas.
type scale struct {
	Axis
	least, most float64 // places
	from, to    float64 // their pixels
	marks       []tick
}

// pixel is the pixel of a place.
func (s scale) pixel(place float64) float64 {
	return s.from + (s.to-s.from)*(place-s.least)/(s.most-s.least)
}

// of is the pixel of a value, clipped to the ends.
func (s scale) of(v float64) float64 {
	if v = s.place(v); v-v != 0 {
		return v
	}
	return s.pixel(min(max(v, s.least), s.most))
}

// A frame is the area between two axes on a canvas.
type frame struct {
	*canvas
	x, y                     scale
	left, right, top, bottom float64
}

// Sizes of text in pixels.
const (
	labelSize = 12 // of axes
	tickSize  = 11
)

// newFrame lays out axes for values, top pixels below the upper edge.
func newFrame(on *canvas, x, y Axis, xs, ys []float64, top float64) *frame {
	scaled := func(a Axis, values []float64) scale {
		least, most := a.ends(values)
		s := scale{Axis: a, least: a.place(least), most: a.place(most)}
		s.marks = a.ticks(s.least, s.most)
		return s
	}
	f := &frame{canvas: on, x: scaled(x, xs), y: scaled(y, ys), top: top, right: on.width - 16, bottom: on.height - 42}
	widest := 0
	for _, t := range f.y.marks {
		widest = max(widest, utf8.RuneCountInString(t.label))
	}
	f.left = 34 + .56*tickSize*float64(widest) // a digit's width relative to its size
	f.x.from, f.x.to, f.y.from, f.y.to = f.left, f.right, f.bottom, f.top
	return f
}

// point is the point of two values, not finite if one of them is not.
func (f *frame) point(x, y float64) point { return point{f.x.of(x), f.y.of(y)} }

// grid draws a line at each mark.
func (f *frame) grid() {
	for _, t := range f.x.marks {
		at := f.x.pixel(t.place)
		f.stroke(Faint, 1, nil, []point{{at, f.top}, {at, f.bottom}})
	}
	for _, t := range f.y.marks {
		at := f.y.pixel(t.place)
		f.stroke(Faint, 1, nil, []point{{f.left, at}, {f.right, at}})
	}
}

// axes draws both axes with their marks and labels.
func (f *frame) axes() {
	const mark = 4
	f.stroke(Grey, 1, nil, []point{{f.left, f.top}, {f.left, f.bottom}, {f.right, f.bottom}})
	for _, t := range f.x.marks {
		at := f.x.pixel(t.place)
		f.stroke(Grey, 1, nil, []point{{at, f.bottom}, {at, f.bottom + mark}})
		f.text(point{at, f.bottom + mark + 9}, tickSize, anchorMiddle, Ink, t.label)
	}
	for _, t := range f.y.marks {
		at := f.y.pixel(t.place)
		f.stroke(Grey, 1, nil, []point{{f.left - mark, at}, {f.left, at}})
		f.text(point{f.left - mark - 3, at}, tickSize, anchorEnd, Ink, t.label)
	}
	f.text(point{(f.left + f.right) / 2, f.bottom + 32}, labelSize, anchorMiddle, Ink, f.x.Label)
	f.upward(point{12, (f.top + f.bottom) / 2}, labelSize, Ink, f.y.Label)
}
