package chart

import (
	"fmt"
	"math"
)

// Kind is how a series is drawn.
type Kind int

const (
	Line  Kind = iota // through the points
	Dots              // the points alone
	Bars              // from X to the next X, of the height Y: the last X is where the last bar ends
	Steps             // the outline of bars
)

// A Series is named points. Points that are not finite are left out.
type Series struct {
	Name   string
	Tone   Tone
	Dashes []float64 // lengths of dashes and gaps, in pixels
	Kind   Kind
	X, Y   []float64
	// Low and High are the ends of intervals of Y, [len(Y)] or nil; NaN for a point without an interval.
	Low, High []float64
}

// A Chart is series over two axes.
type Chart struct {
	Name          string // a description, for screen readers
	X, Y          Axis
	Series        []Series
	Diagonal      bool    // draw the line where both axes are equal
	Width, Height float64 // in pixels; 0: 360 × 270
}

// lineWidth is that of series.
const lineWidth = 2

// SVG draws the chart for a page with the [Stylesheet] and a legend of its own.
func (c Chart) SVG() string {
	on := c.canvas()
	c.draw(on, 10)
	return on.svg(c.Name, false)
}

// Document draws the chart as a file of its own, with title and legend.
func (c Chart) Document() []byte {
	on := c.canvas()
	on.text(point{on.width / 2, 20}, 15, anchorMiddle, Ink, c.Name)
	f := c.draw(on, 44)
	for i, s := range c.Series {
		y := f.top + 14 + 18*float64(i)
		on.stroke(s.Tone, lineWidth, s.Dashes, []point{{f.left + 10, y}, {f.left + 46, y}})
		on.text(point{f.left + 54, y}, 12, anchorStart, Ink, s.Name)
	}
	return []byte(on.svg(c.Name, true))
}

func (c Chart) canvas() *canvas {
	if c.Width == 0 {
		return &canvas{width: 360, height: 270}
	}
	return &canvas{width: c.Width, height: c.Height}
}

// draw draws axes and series, top pixels below the upper edge.
func (c Chart) draw(on *canvas, top float64) *frame {
	var x, y []float64
	for _, s := range c.Series {
		x, y = append(x, s.X...), append(append(append(y, s.Y...), s.Low...), s.High...)
	}
	f := newFrame(on, c.X, c.Y, x, y, top)
	f.grid()
	if c.Diagonal {
		least, most := math.Max(f.x.least, f.y.least), math.Min(f.x.most, f.y.most)
		ends := []point{{f.x.pixel(least), f.y.pixel(least)}, {f.x.pixel(most), f.y.pixel(most)}}
		on.stroke(Grey, 1, []float64{3, 3}, ends)
	}
	for _, s := range c.Series {
		s.draw(f)
	}
	f.axes()
	return f
}

func finite(values ...float64) bool {
	for _, v := range values {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// draw draws the intervals, then the series.
func (s Series) draw(f *frame) {
	if s.Low != nil {
		s.intervals(f)
	}
	var points []point
	for i, y := range s.Y {
		p := f.point(s.X[i], y)
		if !finite(p.x, p.y) {
			continue
		}
		if points = append(points, p); s.Kind == Steps {
			points = append(points, f.point(s.X[i+1], y))
		}
	}
	switch s.Kind {
	case Line, Steps:
		f.stroke(s.Tone, lineWidth, s.Dashes, points)
	case Dots:
		f.dots(s.Tone, 3.2, points...)
	case Bars:
		s.bars(f)
	}
}

// intervals draws error bars with caps.
func (s Series) intervals(f *frame) {
	for i, x := range s.X {
		low, high := f.point(x, s.Low[i]), f.point(x, s.High[i])
		if finite(low.x, low.y, high.y) {
			f.stroke(s.Tone, 1.2, nil, []point{low, high},
				[]point{{low.x - 3, low.y}, {low.x + 3, low.y}}, []point{{low.x - 3, high.y}, {low.x + 3, high.y}})
		}
	}
}

// bars draws all bars as one path.
func (s Series) bars(f *frame) {
	var outlines [][]point
	for i, height := range s.Y {
		if height == 0 || !finite(height) {
			continue
		}
		from, to := f.point(s.X[i], height), f.point(s.X[i+1], height)
		if to.x-from.x > 4 {
			from.x, to.x = from.x+.5, to.x-.5
		}
		outlines = append(outlines, box(from.x, from.y, to.x, f.bottom))
	}
	f.fill(s.Tone, outlines...)
}

// box is the outline of a rectangle.
func box(left, top, right, bottom float64) []point {
	return []point{{left, top}, {right, top}, {right, bottom}, {left, bottom}}
}

// Swatch is a small SVG of the series for a legend.
func (s Series) Swatch() string {
	c := new(canvas)
	switch s.Kind {
	case Dots:
		c.dots(s.Tone, 4, point{14, 6})
	case Bars:
		c.fill(s.Tone, box(4, 1, 24, 11))
	default:
		c.stroke(s.Tone, lineWidth, s.Dashes, []point{{0, 6}, {28, 6}})
	}
	return fmt.Sprintf(`<svg viewBox="0 0 28 12" width="28" height="12" aria-hidden="true">%s</svg>`, c.b.String())
}
