package chart

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Heat is a map of a figure over two quantities in geometric progression.
type Heat struct {
	Name string // what it shows, for those who do not see it
	X, Y string // labels of the axes
	// Columns are values of X and Rows of Y, two or more of each; Values are the figure, [rows][columns].
	Columns, Rows []float64
	Values        [][]float64
	Unit          string     // of the figure, above its scale
	Log           bool       // colours are by its logarithm: values are positive
	Format        string     // of the figure, such as "%.3f"; "": to two digits at most
	Best          [2]float64 // the X and Y that a star marks
	Cell          float64    // width and height of a cell in pixels; 0: 34
}

// SVG draws the map for a page.
func (h Heat) SVG() string {
	canvas := newCanvas(h.size())
	h.draw(draw.Crop(draw.New(canvas), margin, 0, margin, 0), h.plot())
	return canvas.svg(h.Name, false)
}

// Document draws the map as a file of its own, with its name above it.
func (h Heat) Document() []byte {
	width, height := h.size()
	canvas := newCanvas(width+30, height+60)
	c := inset(canvas)
	title := sansStyle(15, Ink)
	c.FillText(title, vg.Point{X: c.Center().X, Y: c.Max.Y}, h.Name)
	h.draw(draw.Crop(c, 0, 0, 0, -30), h.plot())
	return []byte(canvas.svg(h.Name, true))
}

// scale is the span of colours.
type scale struct {
	least, most float64
	log         bool
}

func (h Heat) scale() scale {
	s := scale{math.Inf(1), math.Inf(-1), h.Log}
	for _, row := range h.Values {
		for _, v := range row {
			if finite(v) && (!s.log || v > 0) {
				s.least, s.most = math.Min(s.least, v), math.Max(s.most, v)
			}
		}
	}
	return s
}

// of returns where in [0,1] a value lies, NaN where it lies nowhere.
func (s scale) of(v float64) float64 {
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
func (s scale) value(t float64) float64 {
	if s.log {
		return s.least * math.Pow(s.most/s.least, t)
	}
	return s.least + t*(s.most-s.least)
}

// Sizes in pixels of what stands beside a map.
const (
	heatLeft, heatBelow, heatAbove, heatRight = 62, 52, 24, 70
	heatBar                                   = 16
)

// size is that of the map with what stands beside it.
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

func (h Heat) plot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	marks := func(values []float64) (t plot.ConstantTicks) {
		for i, v := range values {
			t = append(t, plot.Tick{Value: float64(i), Label: brief(v)})
		}
		return t
	}
	Axis{Label: h.X}.apply(&p.X, nil)
	Axis{Label: h.Y}.apply(&p.Y, nil)
	p.X.Min, p.X.Max, p.X.Tick.Marker = -.5, float64(len(h.Columns))-.5, marks(h.Columns)
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = -.5, float64(len(h.Rows))-.5, marks(h.Rows)
	p.X.Tick.Label.Font, p.Y.Tick.Label.Font = sans(10), sans(10)
	p.Add(plotted(h.cells))
	return p
}

// draw draws the plot, and the scale of its colours to the right of it.
func (h Heat) draw(c draw.Canvas, p *plot.Plot) {
	whole := c
	c = draw.Crop(c, 0, -heatRight, 0, -heatAbove)
	p.Draw(c)
	data := p.DataCanvas(c)
	s := h.scale()
	const steps = 50
	left, height := data.Max.X+14, data.Max.Y-data.Min.Y
	for i := range steps {
		low := data.Min.Y + height*vg.Length(i)/steps
		whole.SetColor(onRamp((float64(i) + .5) / steps))
		whole.Fill(box(left, low, left+heatBar, min(low+height/steps+.5, data.Max.Y)))
	}
	label := sansStyle(10, Ink)
	label.XAlign = text.XLeft
	for i := range 5 {
		t := float64(i) / 4
		at := vg.Point{X: left + heatBar + 5, Y: data.Min.Y + height*vg.Length(t)}
		whole.FillText(label, at, h.write(s.value(t)))
	}
	label.XAlign, label.YAlign = text.XCenter, text.YBottom
	whole.FillText(label, vg.Point{X: left + heatBar, Y: data.Max.Y + 9}, h.Unit)
}

// cells fills the map, writes the figures into it, and marks the best.
func (h Heat) cells(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	s := h.scale()
	for i, row := range h.Values {
		for j, v := range row {
			left, right := x(float64(j)-.5), x(float64(j)+.5)
			low, high := y(float64(i)-.5), y(float64(i)+.5)
			c.SetColor(onRamp(s.of(v)))
			c.Fill(box(left, low, right, high))
			label := sansStyle(9, over(s.of(v)))
			label.YAlign = text.YBottom
			c.FillText(label, vg.Point{X: (left + right) / 2, Y: low + 3}, h.write(v))
		}
	}
	star(c, x(at(h.Columns, h.Best[0])), y(at(h.Rows, h.Best[1])), vg.Length(h.cell()/4.5))
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

func box(left, low, right, high vg.Length) vg.Path {
	var p vg.Path
	p.Move(vg.Point{X: left, Y: low})
	p.Line(vg.Point{X: right, Y: low})
	p.Line(vg.Point{X: right, Y: high})
	p.Line(vg.Point{X: left, Y: high})
	p.Close()
	return p
}

// star draws one of five points.
func star(c draw.Canvas, x, y, radius vg.Length) {
	var p vg.Path
	for i := range 10 {
		r := float64(radius)
		if i%2 == 1 {
			r *= .4
		}
		sin, cos := math.Sincos(float64(i) * math.Pi / 5)
		corner := vg.Point{X: x + vg.Length(r*sin), Y: y + vg.Length(r*cos)}
		if i == 0 {
			p.Move(corner)
		} else {
			p.Line(corner)
		}
	}
	p.Close()
	c.SetColor(rgb("#ffd33d"))
	c.Fill(p)
	c.SetLineStyle(draw.LineStyle{Color: rgb("#1f2328"), Width: 1})
	c.Stroke(p)
}

// at returns where a value lies among values in geometric progression: 0 at the first, 1 at the second,
// and within them.
func at(values []float64, v float64) float64 {
	last := len(values) - 1
	i := float64(last) * math.Log(v/values[0]) / math.Log(values[last]/values[0])
	return min(max(i, 0), float64(last))
}

// brief writes a positive number with two digits, very small and very large ones with one: at most five
// characters, as in 0.25, 770, 3e-7, 3e10.
func brief(v float64) string {
	if v < 0.01 || v >= 1000 {
		return exponential(v, 0)
	}
	unit := math.Pow(10, math.Max(math.Floor(math.Log10(v))-1, -2))
	return Short(math.Round(v/unit) * unit)
}
