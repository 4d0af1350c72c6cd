package chart

import (
	"fmt"
	"html"
	"image"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// canvas writes what gonum/plot draws as SVG: a unit is a point there and a pixel here, and the origin,
// there at the lower left, is at the upper left. The library's own writer has style attributes, which
// strict policies forbid, in colours that no page can change.
type canvas struct {
	b             strings.Builder
	width, height float64
	state
	stack []state
}

// state is what Push keeps. A point is drawn turned, then moved.
type state struct {
	x, y, turn float64 // turn in radians, against the clock
	line       float64
	dashes     []vg.Length
	colour     color.Color
}

func newCanvas(width, height float64) *canvas {
	return &canvas{width: width, height: height, state: state{line: 1, colour: Ink}}
}

func (c *canvas) Size() (w, h vg.Length) { return vg.Length(c.width), vg.Length(c.height) }

func (c *canvas) SetLineWidth(w vg.Length)                    { c.line = float64(w) }
func (c *canvas) SetLineDash(dashes []vg.Length, _ vg.Length) { c.dashes = dashes }
func (c *canvas) SetColor(colour color.Color)                 { c.colour = colour }
func (c *canvas) Rotate(rad float64)                          { c.turn += rad }

func (c *canvas) Translate(pt vg.Point) {
	sin, cos := math.Sincos(c.turn)
	x, y := float64(pt.X), float64(pt.Y)
	c.x, c.y = c.x+x*cos-y*sin, c.y+x*sin+y*cos
}

// Scale is not asked for by what is drawn here.
func (c *canvas) Scale(x, y float64) {
	if x != 1 || y != 1 {
		panic("chart: a scaled canvas")
	}
}

func (c *canvas) Push() { c.stack = append(c.stack, c.state) }

func (c *canvas) Pop() {
	last := len(c.stack) - 1
	c.state, c.stack = c.stack[last], c.stack[:last]
}

// at returns where a point lies in the SVG.
func (c *canvas) at(p vg.Point) (x, y float64) {
	sin, cos := math.Sincos(c.turn)
	x, y = float64(p.X), float64(p.Y)
	return c.x + x*cos - y*sin, c.height - (c.y + x*sin + y*cos)
}

// tenth writes a coordinate, to a tenth of a pixel.
func tenth(v float64) string {
	s := strconv.FormatFloat(math.Round(10*v)/10, 'f', -1, 64)
	if s == "-0" {
		return "0"
	}
	return s
}

func (c *canvas) point(p vg.Point) string {
	x, y := c.at(p)
	return tenth(x) + " " + tenth(y)
}

// paint are the attributes of a stroke (s) or a filling (f).
func (c *canvas) paint(kind byte) string {
	attribute := map[byte]string{'s': "stroke", 'f': "fill"}[kind]
	if t, ok := c.colour.(Tone); ok {
		return fmt.Sprintf(`class="%c-%s" %s="%s"`, kind, t.name, attribute, t.light)
	}
	n := color.NRGBAModel.Convert(c.colour).(color.NRGBA)
	s := fmt.Sprintf(`%s="#%02x%02x%02x"`, attribute, n.R, n.G, n.B)
	if n.A < 255 {
		s += fmt.Sprintf(` %s-opacity="%.2g"`, attribute, float64(n.A)/255)
	}
	return s
}

func (c *canvas) Stroke(path vg.Path) {
	if c.line <= 0 {
		return
	}
	more := ""
	if len(c.dashes) > 0 {
		var parts []string
		for _, d := range c.dashes {
			parts = append(parts, tenth(float64(d)))
		}
		more = fmt.Sprintf(` stroke-dasharray="%s"`, strings.Join(parts, " "))
	}
	fmt.Fprintf(&c.b, `<path d="%s" fill="none" %s stroke-width="%s"%s/>`+"\n", c.data(path), c.paint('s'), tenth(c.line), more)
}

func (c *canvas) Fill(path vg.Path) {
	fmt.Fprintf(&c.b, `<path d="%s" %s/>`+"\n", c.data(path), c.paint('f'))
}

// data are a path's commands.
func (c *canvas) data(path vg.Path) string {
	var b strings.Builder
	for _, p := range path {
		switch p.Type {
		case vg.MoveComp:
			b.WriteString("M" + c.point(p.Pos))
		case vg.LineComp:
			b.WriteString("L" + c.point(p.Pos))
		case vg.ArcComp:
			c.arc(&b, p)
		case vg.CloseComp:
			b.WriteString("Z")
		default:
			panic(fmt.Sprintf("chart: a path with component %d", p.Type))
		}
	}
	return b.String()
}

// arc writes an arc in two halves, as none may end where it begins.
func (c *canvas) arc(b *strings.Builder, p vg.PathComp) {
	on := func(angle float64) vg.Point {
		sin, cos := math.Sincos(angle)
		return vg.Point{X: p.Pos.X + p.Radius*vg.Length(cos), Y: p.Pos.Y + p.Radius*vg.Length(sin)}
	}
	sweep := 0
	if p.Angle < 0 {
		sweep = 1
	}
	fmt.Fprintf(b, "L%s", c.point(on(p.Start)))
	for _, part := range []float64{.5, 1} {
		r := tenth(float64(p.Radius))
		fmt.Fprintf(b, "A%s %s 0 0 %d %s", r, r, sweep, c.point(on(p.Start+part*p.Angle)))
	}
}

// FillString writes a text about the middle of where it is to stand: fonts of browsers are wider or
// narrower than the one it was laid out with.
func (c *canvas) FillString(face font.Face, pt vg.Point, text string) {
	pt.X += face.Width(text) / 2
	x, y := c.at(pt)
	more := ""
	if c.turn != 0 {
		more = fmt.Sprintf(` transform="rotate(%s %s %s)"`, tenth(-c.turn*180/math.Pi), tenth(x), tenth(y))
	}
	if face.Font.Weight > 0 {
		more += ` font-weight="600"`
	}
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" font-size="%s" %s%s>%s</text>`+"\n", tenth(x), tenth(y),
		tenth(float64(face.Font.Size)), c.paint('f'), more, html.EscapeString(text))
}

// DrawImage is not asked for by what is drawn here.
func (c *canvas) DrawImage(vg.Rectangle, image.Image) { panic("chart: an image") }

// svg returns the document. alone says that it has a ground of its own: what a page of Markdown shows
// knows nothing of its colours.
func (c *canvas) svg(name string, alone bool) string {
	var b strings.Builder
	w, h := tenth(c.width), tenth(c.height)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%[1]s" height="%[2]s" role="img" aria-label="%s" text-anchor="middle" font-family="system-ui, 'Liberation Sans', Arial, sans-serif">`+"\n",
		w, h, html.EscapeString(name))
	if alone {
		fmt.Fprintf(&b, `<rect width="%s" height="%s" rx="6" fill="%s"/>`+"\n", w, h, Ground.light)
	}
	b.WriteString(c.b.String())
	b.WriteString("</svg>\n")
	return b.String()
}
