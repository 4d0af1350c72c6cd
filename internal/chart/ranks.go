package chart

import (
	"fmt"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Ranks is a diagram of mean ranks with a critical difference (Demšar, "Statistical Comparisons of
// Classifiers over Multiple Data Sets", 2006, figure 1): the best stand on the left, and a bar joins
// those that cannot be told apart.
type Ranks struct {
	Name     string // what it shows, for those who do not see it
	Methods  []Ranked
	Critical float64 // ranks that are less apart differ by chance
	Groups   [][2]float64
	Width    float64 // in pixels; 0: 780
}

// Ranked is a method with its mean rank from 1 to the number of methods. Methods are in ascending
// order of it.
type Ranked struct {
	Name   string
	Rank   float64
	Marked bool // it is drawn in another tone
}

// SVG draws the diagram for a page.
func (r Ranks) SVG() string {
	canvas := newCanvas(r.size())
	r.draw(draw.New(canvas))
	return canvas.svg(r.Name, false)
}

// Document draws the diagram as a file of its own, with its name above it.
func (r Ranks) Document() []byte {
	width, height := r.size()
	canvas := newCanvas(width+24, height+44)
	c := inset(canvas)
	c.FillText(sansStyle(15, Ink), vg.Point{X: c.Center().X, Y: c.Max.Y - 4}, r.Name)
	r.draw(draw.Crop(c, 0, 0, 0, -24))
	return []byte(canvas.svg(r.Name, true))
}

// Sizes in pixels of the parts of the diagram.
const (
	ranksSide  = 190 // on each side, for names
	ranksAbove = 64  // for the critical difference and the axis
	ranksBar   = 9   // for each bar of a group
	ranksLine  = 19  // for each name
)

func (r Ranks) size() (width, height float64) {
	width = r.Width
	if width == 0 {
		width = 780
	}
	return width, ranksAbove + ranksBar*float64(len(r.Groups)) + ranksLine*float64(r.left()) + 18
}

// left is how many names stand on the left.
func (r Ranks) left() int { return (len(r.Methods) + 1) / 2 }

// draw draws into a canvas of the size.
func (r Ranks) draw(c draw.Canvas) {
	k := len(r.Methods)
	left, right := c.Min.X+ranksSide, c.Max.X-ranksSide
	at := func(rank float64) vg.Length {
		return left + (right-left)*vg.Length((rank-1)/float64(max(1, k-1)))
	}
	line := func(tone Tone, width float64, points ...vg.Point) {
		c.StrokeLines(lineStyle(tone, width, nil), points)
	}
	axis := c.Max.Y - ranksAbove + 8
	label := sansStyle(11, Ink)
	line(Grey, 1, vg.Point{X: left, Y: axis}, vg.Point{X: right, Y: axis})
	every := max(1, int(Step(float64(k))))
	for rank := 1; rank <= k; rank++ {
		if rank > 1 && rank < k && (rank%every != 0 || k-rank < every) {
			continue
		}
		line(Grey, 1, vg.Point{X: at(float64(rank)), Y: axis}, vg.Point{X: at(float64(rank)), Y: axis + 5})
		c.FillText(label, vg.Point{X: at(float64(rank)), Y: axis + 14}, fmt.Sprint(rank))
	}
	if r.Critical > 0 {
		y, end := c.Max.Y-22, at(1+min(r.Critical, float64(k-1)))
		line(Ink, 1.5, vg.Point{X: left, Y: y}, vg.Point{X: end, Y: y})
		for _, x := range []vg.Length{left, end} {
			line(Ink, 1.5, vg.Point{X: x, Y: y - 4}, vg.Point{X: x, Y: y + 4})
		}
		c.FillText(label, vg.Point{X: (left + end) / 2, Y: y + 11}, fmt.Sprintf("critical difference %.1f", r.Critical))
	}
	bars := axis - 8
	for i, g := range r.Groups {
		y := bars - vg.Length(ranksBar*i)
		line(Blue, 4, vg.Point{X: at(g[0]) - 3, Y: y}, vg.Point{X: at(g[1]) + 3, Y: y})
	}
	names := bars - vg.Length(ranksBar*len(r.Groups)) - 12
	for i, m := range r.Methods {
		row, end, align := i, left-26, text.XRight
		if i >= r.left() {
			row, end, align = k-1-i, right+26, text.XLeft
		}
		tone, width := Ink, 1.
		if m.Marked {
			tone, width = Red, 1.8
		}
		y := names - vg.Length(ranksLine*row)
		line(tone, width, vg.Point{X: at(m.Rank), Y: axis}, vg.Point{X: at(m.Rank), Y: y}, vg.Point{X: end, Y: y})
		style := sansStyle(12, tone)
		style.XAlign = align
		gap := vg.Length(10) // fonts may be wider than the one that it was laid out with
		if align == text.XRight {
			gap = -gap
		}
		c.FillText(style, vg.Point{X: end + gap, Y: y}, fmt.Sprintf("%s %.1f", m.Name, m.Rank))
	}
}
