package chart

import (
	"fmt"
	"html"
	"image/color"
	"math"
	"strconv"
	"strings"
)

// canvas writes SVG: paths and texts in pixels from the upper left corner, without style attributes, which a strict
// Content-Security-Policy forbids.
type canvas struct {
	b             strings.Builder
	width, height float64
	left, top     float64 // offset of all points
}

// point is a point on a canvas, in pixels.
type point struct{ x, y float64 }

// tenth formats a coordinate to a tenth of a pixel.
func tenth(v float64) string {
	s := strconv.FormatFloat(math.Round(10*v)/10, 'f', -1, 64)
	if s == "-0" {
		return "0"
	}
	return s
}

// paint returns the attributes of a stroke or a fill in a colour.
func paint(attribute string, colour color.Color) string {
	if t, ok := colour.(Tone); ok {
		return fmt.Sprintf(`class="%c-%s" %s="%s"`, attribute[0], t.name, attribute, t.light)
	}
	n := color.NRGBAModel.Convert(colour).(color.NRGBA)
	return fmt.Sprintf(`%s="#%02x%02x%02x"`, attribute, n.R, n.G, n.B)
}

// data returns the commands of a path through points.
func (c *canvas) data(points []point) string {
	var b strings.Builder
	for i, p := range points {
		b.WriteString(map[bool]string{true: "M", false: "L"}[i == 0])
		b.WriteString(tenth(c.left+p.x) + " " + tenth(c.top+p.y))
	}
	return b.String()
}

// stroke draws lines through points.
func (c *canvas) stroke(colour color.Color, width float64, dashes []float64, lines ...[]point) {
	var d strings.Builder
	for _, line := range lines {
		d.WriteString(c.data(line))
	}
	more := ""
	if len(dashes) > 0 {
		more = fmt.Sprintf(` stroke-dasharray="%s"`, strings.Trim(fmt.Sprint(dashes), "[]"))
	}
	fmt.Fprintf(&c.b, `<path d="%s" fill="none" %s stroke-width="%s"%s/>`+"\n", d.String(), paint("stroke", colour), tenth(width), more)
}

// fill fills closed outlines.
func (c *canvas) fill(colour color.Color, outlines ...[]point) {
	var d strings.Builder
	for _, line := range outlines {
		d.WriteString(c.data(line) + "Z")
	}
	fmt.Fprintf(&c.b, `<path d="%s" %s/>`+"\n", d.String(), paint("fill", colour))
}

// dots fills circles.
func (c *canvas) dots(colour color.Color, radius float64, centres ...point) {
	var d strings.Builder
	r := tenth(radius)
	for _, p := range centres {
		for i, x := range []float64{-radius, radius, -radius} {
			command := "M"
			if i > 0 {
				command = "A" + r + " " + r + " 0 0 1 "
			}
			d.WriteString(command + tenth(c.left+p.x+x) + " " + tenth(c.top+p.y))
		}
		d.WriteString("Z")
	}
	fmt.Fprintf(&c.b, `<path d="%s" %s/>`+"\n", d.String(), paint("fill", colour))
}

// Values of text-anchor: which end of a text is at its point.
const (
	anchorEnd    = "end"
	anchorMiddle = "middle"
	anchorStart  = "start"
)

// text writes a line of text, vertically centred on a point.
func (c *canvas) text(at point, size float64, anchor string, colour color.Color, s string) {
	c.write(at, size, fmt.Sprintf(` text-anchor="%s"`, anchor), colour, s)
}

// upward writes a line of text upwards, centred on a point.
func (c *canvas) upward(at point, size float64, colour color.Color, s string) {
	turn := fmt.Sprintf(` text-anchor="middle" transform="rotate(-90 %s %s)"`, tenth(c.left+at.x), tenth(c.top+at.y))
	c.write(at, size, turn, colour, s)
}

func (c *canvas) write(at point, size float64, attributes string, colour color.Color, s string) {
	baseline := .35 * size // below the middle of a digit
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" font-size="%s" %s%s>%s</text>`+"\n", tenth(c.left+at.x), tenth(c.top+at.y+baseline),
		tenth(size), paint("fill", colour), attributes, html.EscapeString(s))
}

// svg returns the document. alone draws a background, for a file shown without the [Stylesheet].
func (c *canvas) svg(name string, alone bool) string {
	var b strings.Builder
	w, h := tenth(c.width), tenth(c.height)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%[1]s" height="%[2]s" role="img" aria-label="%s" font-family="system-ui, 'Liberation Sans', Arial, sans-serif">`+"\n",
		w, h, html.EscapeString(name))
	if alone {
		fmt.Fprintf(&b, `<rect width="%s" height="%s" rx="6" fill="%s"/>`+"\n", w, h, Ground.light)
	}
	b.WriteString(c.b.String())
	b.WriteString("</svg>\n")
	return b.String()
}
