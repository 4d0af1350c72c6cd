package chart

import (
	"fmt"
	"math"
)

// A Heat is a heat map of a figure over two quantities in geometric progression.
type Heat struct {
	Name string // a description, for screen readers
	X, Y string // labels of the axes
	// Columns are values of X and Rows of Y, two or more of each; Values are the figure, [rows][columns].
	Columns, Rows []float64
	Values        [][]float64
	Unit          string     // of the figure, above the colour scale
	Log           bool       // logarithmic colours, for positive values
	Format        string     // of the figure, such as "%.3f"; "": at most two digits
	Best          [2]float64 // X and Y of a star
	Cell          float64    // width and height of a cell in pixels; 0: 34
}

// SVG draws the heat map for a page.
func (h Heat) SVG() string {
	width, height := h.size()
	on := &canvas{width: width, height: height}
	h.draw(on)
	return on.svg(h.Name, false)
}

// Document draws the heat map as a file of its own, with a title.
func (h Heat) Document() []byte {
	width, height := h.size()
	on := &canvas{width: width + 30, height: height + 60}
	on.text(point{on.width / 2, 24}, 15, anchorMiddle, Ink, h.Name)
	on.left, on.top = 15, 45
	h.draw(on)
	return []byte(on.svg(h.Name, true))
}

// span is the range of the colour scale.
type span struct {
	least, most float64
	log         bool
}

func (h Heat) span() span {
	s := span{math.Inf(1), math.Inf(-1), h.Log}
	for _, row := range h.Values {
		for _, v := range row {
			if finite(v) && (!s.log || v > 0) {
				s.least, s.most = math.Min(s.least, v), math.Max(s.most, v)
			}
		}
	}
	return s
}

// of maps a value to [0,1], and to NaN if it is not finite.
func (s span) of(v float64) float64 {
	switch {
	case !finite(v):
		return math.NaN()
	case !(s.least < s.most):
		return .5
	case s.log:
		return math.Log(v/s.least) / math.Log(s.most/s.least)
	}
	return (v - s.least) / (s.most - s.least)
}

// value is the inverse of of.
func (s span) value(t float64) float64 {
	if s.log {
		return s.least * math.Pow(s.most/s.least, t)
	}
	return s.least + t*(s.most-s.least)
}

// Margins of a heat map, in pixels.
const (
	heatLeft, heatBelow, heatAbove, heatRight = 62, 52, 24, 70
	heatBar                                   = 16
)

// size is the size of the heat map with its margins.
func (h Heat) size() (width, height float64) {
	cell := h.cell()
	return heatLeft + cell*float64(len(h.Columns)) + heatRight, heatBelow + cell*float64(len(h.Rows)) + heatAbove
}

func (h Heat) cell() float64 {
	if h.Cell == 0 {
		return 34
	}
	return h.Cell
}

// draw draws the heat map, and its colour scale to the right.
func (h Heat) draw(on *canvas) {
	cell, s := h.cell(), h.span()
	right, bottom := heatLeft+cell*float64(len(h.Columns)), heatAbove+cell*float64(len(h.Rows))
	centre := func(column, row float64) point { return point{heatLeft + cell*(column+.5), bottom - cell*(row+.5)} }
	for i, row := range h.Values {
		for j, v := range row {
			p := centre(float64(j), float64(i))
			on.fill(onRamp(s.of(v)), box(p.x-cell/2, p.y-cell/2, p.x+cell/2, p.y+cell/2))
			on.text(point{p.x, p.y + cell/2 - 7}, 9, anchorMiddle, over(s.of(v)), h.write(v))
		}
	}
	best := centre(at(h.Columns, h.Best[0]), at(h.Rows, h.Best[1]))
	corners := star(best, cell/4.5)
	on.fill(rgb("#ffd33d"), corners)
	on.stroke(rgb("#1f2328"), 1, nil, append(corners, corners[0]))
	for j, v := range h.Columns {
		on.text(point{centre(float64(j), 0).x, bottom + 12}, 10, anchorMiddle, Ink, brief(v))
	}
	for i, v := range h.Rows {
		on.text(point{heatLeft - 6, centre(0, float64(i)).y}, 10, anchorEnd, Ink, brief(v))
	}
	on.text(point{(heatLeft + right) / 2, bottom + 34}, labelSize, anchorMiddle, Ink, h.X)
	on.upward(point{14, (heatAbove + bottom) / 2}, labelSize, Ink, h.Y)

	const steps = 50
	left, height := right+14, bottom-heatAbove
	for i := range steps {
		low := bottom - height*float64(i)/steps
		on.fill(onRamp((float64(i)+.5)/steps), box(left, max(low-height/steps-.5, heatAbove), left+heatBar, low))
	}
	for i := range 5 {
		t := float64(i) / 4
		on.text(point{left + heatBar + 5, bottom - height*t}, 10, anchorStart, Ink, h.write(s.value(t)))
	}
	on.text(point{left + heatBar, heatAbove - 12}, 10, anchorMiddle, Ink, h.Unit)
}

// write writes the figure.
func (h Heat) write(v float64) string {
	switch {
	case h.Format != "":
		return fmt.Sprintf(h.Format, v)
	case v > 0 && finite(v):
		return brief(v)
	}
	return Short(v)
}

// star are the corners of one of five points.
func star(centre point, radius float64) (corners []point) {
	for i := range 10 {
		r := radius
		if i%2 == 1 {
			r *= .4
		}
		sin, cos := math.Sincos(float64(i) * math.Pi / 5)
		corners = append(corners, point{centre.x + r*sin, centre.y - r*cos})
	}
	return corners
}

// at returns the fractional index of a value in a geometric progression, clipped to it.
func at(values []float64, v float64) float64 {
	last := len(values) - 1
	i := float64(last) * math.Log(v/values[0]) / math.Log(values[last]/values[0])
	return min(max(i, 0), float64(last))
}

// brief formats a positive number in at most five characters: two digits, one if it is very small or large, as in 0.25,
// 770, 3e-7, 3e10.
func brief(v float64) string {
	if v < 0.01 || v >= 1000 {
		return exponential(v, 0)
	}
	unit := math.Pow(10, math.Max(math.Floor(math.Log10(v))-1, -2))
	return Short(math.Round(v/unit) * unit)
}
