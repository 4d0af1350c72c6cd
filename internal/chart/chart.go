package chart

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Kind is how a series is drawn.
type Kind int

const (
	Line  Kind = iota // through the points
	Dots              // the points alone
	Bars              // from X to the next X, of the height Y: the last X is where the last bar ends
	Steps             // the outline of such bars
)

// A Series is points with a name. Points that are not finite are left out.
type Series struct {
	Name   string
	Tone   Tone
	Dashes []float64 // of lines, drawn and left out in turn, in pixels
	Kind   Kind
	X, Y   []float64
	// Low and High are the ends of intervals of Y, [len(Y)] or nil. Those of a point may be NaN: it has none.
	Low, High []float64
}

// A Chart is series over two axes.
type Chart struct {
	Name   string // what it shows, for those who do not see it
	X, Y   Axis
	Series []Series
	// Diagonal says that points where both axes are equal are marked by a line.
	Diagonal      bool
	Width, Height float64 // in pixels; 0: 360 × 270
}

// SVG draws the chart for a page, which has the [Stylesheet] and says what series are called.
func (c Chart) SVG() string {
	p, canvas := c.plot(), newCanvas(c.size())
	p.Draw(draw.Crop(draw.New(canvas), margin, -14, margin, -8)) // as labels stand out
	return canvas.svg(c.Name, false)
}

// Document draws the chart as a file of its own, with its name above it and those of series within.
func (c Chart) Document() []byte {
	p, canvas := c.plot(), newCanvas(c.size())
	entitle(p, c.Name)
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.ThumbnailWidth = true, true, 10, 36
	p.Legend.TextStyle.Font, p.Legend.TextStyle.Color = sans(12), Ink
	p.Legend.Padding = 3
	for _, s := range c.Series {
		p.Legend.Add("  "+s.Name+" ", &plotter.Line{LineStyle: s.style()})
	}
	p.Draw(inset(canvas))
	return []byte(canvas.svg(c.Name, true))
}

func (c Chart) size() (width, height float64) {
	if c.Width == 0 {
		return 360, 270
	}
	return c.Width, c.Height
}

func (c Chart) plot() *plot.Plot {
	p := newPlot()
	var x, y []float64
	for _, s := range c.Series {
		x, y = append(x, s.X...), append(append(append(y, s.Y...), s.Low...), s.High...)
	}
	c.X.apply(&p.X, x)
	c.Y.apply(&p.Y, y)
	if c.Diagonal {
		least, most := math.Max(p.X.Min, p.Y.Min), math.Min(p.X.Max, p.Y.Max)
		ends := plotter.XYs{{X: least, Y: least}, {X: most, Y: most}}
		add(p, &plotter.Line{XYs: ends, LineStyle: lineStyle(Grey, 1, []float64{3, 3})})
	}
	for _, s := range c.Series {
		s.X, s.Y = c.X.places(s.X), c.Y.places(s.Y)
		if s.Low != nil {
			s.Low, s.High = c.Y.places(s.Low), c.Y.places(s.High)
		}
		s.add(p)
	}
	return p
}

// margin is beside labels of axes, whose letters may be higher than those that they were laid out with.
const margin = 5

// newPlot returns an empty one, with a grid.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	grid := plotter.NewGrid()
	grid.Horizontal, grid.Vertical = lineStyle(Faint, 1, nil), lineStyle(Faint, 1, nil)
	p.Add(grid)
	return p
}

// add adds a plotter without asking it for its range.
func add(p *plot.Plot, of plot.Plotter) { p.Add(plotted(of.Plot)) }

// plotted is a function that draws.
type plotted func(draw.Canvas, *plot.Plot)

func (f plotted) Plot(c draw.Canvas, p *plot.Plot) { f(c, p) }

// entitle puts a title above a plot.
func entitle(p *plot.Plot, title string) {
	p.Title.Text, p.Title.Padding = title, 12
	p.Title.TextStyle.Font, p.Title.TextStyle.Color = sans(15), Ink
}

// inset leaves a margin at the sides of a canvas.
func inset(c *canvas) draw.Canvas { return draw.Crop(draw.New(c), 12, -16, 12, -12) }

func lineStyle(tone Tone, width float64, dashes []float64) draw.LineStyle {
	s := draw.LineStyle{Color: tone, Width: vg.Length(width)}
	for _, d := range dashes {
		s.Dashes = append(s.Dashes, vg.Length(d))
	}
	return s
}

func (s Series) style() draw.LineStyle { return lineStyle(s.Tone, 2, s.Dashes) }

func finite(values ...float64) bool {
	for _, v := range values {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// add draws the series, its intervals below it.
func (s Series) add(p *plot.Plot) {
	if s.Low != nil {
		add(p, plotted(s.intervals))
	}
	var points plotter.XYs
	for i, y := range s.Y {
		if finite(s.X[i], y) && (s.Kind == Line || s.Kind == Dots) {
			points = append(points, plotter.XY{X: s.X[i], Y: y})
		}
	}
	switch s.Kind {
	case Line:
		add(p, &plotter.Line{XYs: points, LineStyle: s.style()})
	case Dots:
		glyph := draw.GlyphStyle{Color: s.Tone, Radius: 3.2, Shape: draw.CircleGlyph{}}
		add(p, &plotter.Scatter{XYs: points, GlyphStyle: glyph})
	case Bars:
		add(p, plotted(s.bars))
	case Steps:
		add(p, &plotter.Line{XYs: s.outline(), LineStyle: s.style()})
	}
}

// intervals draws them as bars with caps.
func (s Series) intervals(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := lineStyle(s.Tone, 1.2, nil)
	for i := range s.Y {
		if !finite(s.X[i], s.Low[i], s.High[i]) {
			continue
		}
		at, low, high := x(s.X[i]), y(s.Low[i]), y(s.High[i])
		path := []vg.Point{{X: at, Y: low}, {X: at, Y: high}}
		caps := [][]vg.Point{{{X: at - 3, Y: low}, {X: at + 3, Y: low}}, {{X: at - 3, Y: high}, {X: at + 3, Y: high}}}
		c.StrokeLines(style, append(caps, path)...)
	}
}

// bars fills them from the axis on, in one path.
func (s Series) bars(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var path vg.Path
	for i, height := range s.Y {
		if height == 0 || !finite(height) {
			continue
		}
		left, right, top := x(s.X[i]), x(s.X[i+1]), y(height)
		if right-left > 4 {
			left, right = left+.5, right-.5
		}
		path.Move(vg.Point{X: left, Y: c.Min.Y})
		path.Line(vg.Point{X: left, Y: top})
		path.Line(vg.Point{X: right, Y: top})
		path.Line(vg.Point{X: right, Y: c.Min.Y})
		path.Close()
	}
	c.SetColor(s.Tone)
	c.Fill(path)
}

// outline are the corners of bars.
func (s Series) outline() (points plotter.XYs) {
	for i, height := range s.Y {
		points = append(points, plotter.XY{X: s.X[i], Y: height}, plotter.XY{X: s.X[i+1], Y: height})
	}
	return points
}

// Swatch is a small SVG that shows how the series is drawn, for a legend.
func (s Series) Swatch() string {
	c := newCanvas(28, 12)
	c.SetColor(s.Tone)
	switch s.Kind {
	case Dots:
		style := draw.GlyphStyle{Color: s.Tone, Radius: 4}
		draw.CircleGlyph{}.DrawGlyph(&draw.Canvas{Canvas: c}, style, vg.Point{X: 14, Y: 6})
	case Bars:
		c.Fill(box(4, 1, 24, 11))
	default:
		var path vg.Path
		path.Move(vg.Point{X: 0, Y: 6})
		path.Line(vg.Point{X: 28, Y: 6})
		style := s.style()
		c.SetLineWidth(style.Width)
		c.SetLineDash(style.Dashes, 0)
		c.Stroke(path)
	}
	return fmt.Sprintf(`<svg viewBox="0 0 28 12" width="28" height="12" aria-hidden="true">%s</svg>`, c.b.String())
}
