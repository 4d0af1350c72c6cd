package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
)

// Pictures are drawn on a light ground of their own, so that they can be read on a
// dark page as well: an SVG inside a page of Markdown knows nothing of its colours.
const (
	ground = "#ffffff"
	ink    = "#1f2328"
	faint  = "#d0d7de"
)

// A canvas is an SVG document that is being written.
type canvas struct{ b bytes.Buffer }

func newCanvas(width, height int, title string) *canvas {
	c := new(canvas)
	fmt.Fprintf(&c.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" font-family="system-ui, sans-serif" font-size="13" fill="%s">`+"\n",
		width, height, ink)
	fmt.Fprintf(&c.b, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(&c.b, `<rect width="%d" height="%d" rx="6" fill="%s"/>`+"\n", width, height, ground)
	c.text(float64(width)/2, 24, "middle", title, `font-size="15" font-weight="600"`)
	return c
}

// text writes a line of text; anchor is start, middle or end.
func (c *canvas) text(x, y float64, anchor, text string, attributes ...string) {
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, strings.Join(attributes, " "), html.EscapeString(text))
}

// upright writes a line of text that is read from below, centred at x, y.
func (c *canvas) upright(x, y float64, text string) {
	c.text(x, y, "middle", text, fmt.Sprintf(`transform="rotate(-90 %.1f %.1f)"`, x, y))
}

func (c *canvas) rect(x, y, width, height float64, fill string) {
	fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, width, height, fill)
}

func (c *canvas) line(x1, y1, x2, y2 float64, stroke string) {
	fmt.Fprintf(&c.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, stroke)
}

// star draws a five-pointed star.
func (c *canvas) star(x, y, radius float64) {
	var points []string
	for i := range 10 {
		r := radius
		if i%2 == 1 {
			r *= .4
		}
		sin, cos := math.Sincos(float64(i) * math.Pi / 5)
		points = append(points, fmt.Sprintf("%.1f,%.1f", x+r*sin, y-r*cos))
	}
	fmt.Fprintf(&c.b, `<polygon points="%s" fill="#ffd33d" stroke="%s"/>`+"\n", strings.Join(points, " "), ink)
}

func (c *canvas) bytes() []byte { return append(c.b.Bytes(), "</svg>\n"...) }

// ramp are the colours of a heat map from the least value to the greatest, dark to
// light, even in lightness so that they are told without hue as well.
var ramp = [][3]float64{{43, 10, 90}, {62, 60, 150}, {30, 120, 150}, {50, 170, 120}, {150, 210, 80}, {250, 235, 110}}

// colour returns the colour at t in [0,1], a faint grey where t is no number.
func colour(t float64) string {
	if t-t != 0 {
		return faint
	}
	t = min(max(t, 0), 1) * float64(len(ramp)-1)
	i := min(int(t), len(ramp)-2)
	var rgb [3]int
	for j := range rgb {
		rgb[j] = int(math.Round(ramp[i][j] + (t-float64(i))*(ramp[i+1][j]-ramp[i][j])))
	}
	return fmt.Sprintf("#%02x%02x%02x", rgb[0], rgb[1], rgb[2])
}

// A heat is a grid of held-out figures over the two temperatures.
type heat struct {
	act, ens []float64              // rows and columns
	value    [][]float64            // [len(act)][len(ens)]
	best     calibrate.Temperatures // refined from the best cell
}

// svg draws the map: T_ens to the right, T_act upwards. Values are coloured by their
// logarithms, or as they are; format prints them in the cells and beside the bar.
func (h heat) svg(title, unit string, logarithmic bool, format string) []byte {
	const cell, left, top, bar = 52., 92., 44., 22.
	columns, rows := float64(len(h.ens)), float64(len(h.act))
	right, bottom := left+columns*cell, top+rows*cell
	c := newCanvas(int(right+130), int(bottom+70), title)

	least, greatest := math.Inf(1), math.Inf(-1)
	for _, row := range h.value {
		for _, v := range row {
			if v-v == 0 {
				least, greatest = min(least, v), max(greatest, v)
			}
		}
	}
	scale := func(v float64) float64 {
		if logarithmic {
			return math.Log(v/least) / math.Log(greatest/least)
		}
		return (v - least) / (greatest - least)
	}
	for i, row := range h.value {
		y := bottom - float64(i+1)*cell
		c.text(left-8, y+cell/2+4, "end", fmt.Sprintf("%.2g", h.act[i]))
		for j, v := range row {
			x := left + float64(j)*cell
			c.rect(x, y, cell, cell, colour(scale(v)))
			fill := "#ffffff"
			if scale(v) > .6 {
				fill = ink
			}
			c.text(x+cell/2, y+cell-7, "middle", fmt.Sprintf(format, v), fmt.Sprintf(`font-size="11" fill="%s"`, fill))
		}
	}
	for j, v := range h.ens {
		c.text(left+(float64(j)+.5)*cell, bottom+18, "middle", power(v))
	}
	c.text((left+right)/2, bottom+46, "middle", "ensemble temperature T_ens")
	c.upright(28, (top+bottom)/2, "activation temperature T_act")
	c.star(left+(at(h.ens, h.best.Ens)+.5)*cell, bottom-(at(h.act, h.best.Act)+.5)*cell, 11)

	const steps = 60
	x, height := right+28, bottom-top
	for i := range steps {
		c.rect(x, bottom-float64(i+1)*height/steps, bar, height/steps+.5, colour((float64(i)+.5)/steps))
	}
	for i := range 5 {
		t := float64(i) / 4
		v := least + t*(greatest-least)
		if logarithmic {
			v = least * math.Pow(greatest/least, t)
		}
		c.text(x+bar+7, bottom-t*height+4, "start", fmt.Sprintf(format, v))
	}
	c.text(x+bar/2, top-6, "middle", unit)
	return c.bytes()
}

// A chart is lines over a common axis.
type chart struct {
	title, x, y string
	lines       []line
}

type line struct {
	name string
	x, y []float64
}

// strokes tell lines apart, by colour and by dashes: colours that are told by most
// eyes (Okabe and Ito, 2008).
var strokes = []struct{ colour, dashes string }{
	{"#000000", "2 3"}, {"#e69f00", "7 4"}, {"#009e73", "10 3 2 3"}, {"#0072b2", "4 2"}, {"#d55e00", ""}, {"#cc79a7", "1 3"},
}

// svg draws the chart, with both axes from zero and the lines' names at the right.
func (c chart) svg() []byte {
	const width, height, left, right, top, bottom = 760., 460., 70., 600., 44., 400.
	v := newCanvas(int(width), int(height), c.title)
	xmax, ymax := 0., 0.
	for _, l := range c.lines {
		for i := range l.x {
			xmax, ymax = max(xmax, l.x[i]), max(ymax, l.y[i])
		}
	}
	step := tick(ymax)
	ymax = step * math.Ceil(ymax/step)
	px := func(x float64) float64 { return left + x/xmax*(right-left) }
	py := func(y float64) float64 { return bottom - y/ymax*(bottom-top) }
	for i := 0; float64(i)*step <= ymax*(1+1e-9); i++ {
		y := py(float64(i) * step)
		v.line(left, y, right, y, faint)
		v.text(left-8, y+4, "end", fmt.Sprintf("%g", math.Round(float64(i)*step*1e6)/1e6))
	}
	for x := 0.; x <= xmax; x += 30 {
		v.line(px(x), bottom, px(x), bottom+5, ink)
		v.text(px(x), bottom+20, "middle", fmt.Sprint(x))
	}
	v.line(left, bottom, right, bottom, ink)
	v.text((left+right)/2, height-16, "middle", c.x)
	v.upright(22, (top+bottom)/2, c.y)
	for i, l := range c.lines {
		s := strokes[i%len(strokes)]
		var points []string
		for j := range l.x {
			points = append(points, fmt.Sprintf("%.1f,%.1f", px(l.x[j]), py(l.y[j])))
		}
		style := fmt.Sprintf(`stroke="%s" stroke-width="2.2" stroke-dasharray="%s"`, s.colour, s.dashes)
		fmt.Fprintf(&v.b, `<polyline points="%s" fill="none" %s/>`+"\n", strings.Join(points, " "), style)
		y := top + 14 + float64(i)*24
		fmt.Fprintf(&v.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", right+20, y, right+58, y, style)
		v.text(right+66, y+4, "start", l.name)
	}
	return v.bytes()
}

// power prints a number to its leading digit, as in 3e-7.
func power(v float64) string {
	digits, exponent, _ := strings.Cut(fmt.Sprintf("%.0e", v), "e")
	n, _ := strconv.Atoi(exponent) // of our own making
	return fmt.Sprintf("%se%d", digits, n)
}

// tick returns a round distance that divides [0, most] into four to ten.
func tick(most float64) float64 {
	if !(most > 0) {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, part := range []float64{1, .5, .2, .1} {
		if most/(step*part) >= 4 {
			return step * part
		}
	}
	return step / 10
}

// at returns where a value lies among values in geometric progression: 0 at the
// first, 1 at the second, and within them.
func at(values []float64, v float64) float64 {
	last := len(values) - 1
	i := float64(last) * math.Log(v/values[0]) / math.Log(values[last]/values[0])
	return min(max(i, 0), float64(last))
}
