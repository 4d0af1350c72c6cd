// Package chart draws lines with intervals, bars, heat maps and ranks as SVG.
//
// Colours are tones, classes of the SVG's elements: a page with the [Stylesheet] shows them in light and in dark mode,
// and an SVG on its own in the light colours. There are no style attributes, scripts or references, so that a strict
// Content-Security-Policy allows it.
package chart

import (
	"fmt"
	"image/color"
	"math"
	"strings"
)

// Tone is a colour with a purpose.
type Tone struct {
	name        string // of its class
	light, dark string // #rrggbb
}

// The tones. Most people can distinguish those of lines (Okabe and Ito, "Color Universal Design", 2008), which have a
// contrast of at least 3 to the ground.
var (
	Ink    = Tone{"ink", "#1c1f23", "#e9e7e2"}
	Faint  = Tone{"faint", "#d8d5cd", "#363b44"}
	Ground = Tone{"ground", "#ffffff", "#1b1e24"}
	Grey   = Tone{"grey", "#7a756a", "#a09b91"}
	Blue   = Tone{"blue", "#1b4f8a", "#82b6f0"}
	Orange = Tone{"orange", "#b36200", "#f0a63c"}
	Green  = Tone{"green", "#00795a", "#3fcfa2"}
	Red    = Tone{"red", "#c44601", "#ff8f57"}
	Pink   = Tone{"pink", "#a8518c", "#e79bc8"}
)

var tones = []Tone{Ink, Faint, Ground, Grey, Blue, Orange, Green, Red, Pink}

// Strokes are the tones and dashes of lines, in order.
var Strokes = []struct {
	Tone   Tone
	Dashes []float64
}{
	{Grey, []float64{2, 3}}, {Blue, nil}, {Orange, []float64{7, 4}}, {Green, []float64{10, 3, 2, 3}},
	{Red, []float64{4, 2}}, {Pink, []float64{1, 3}},
}

// RGBA is the light colour, for color.Color.
func (t Tone) RGBA() (r, g, b, a uint32) { return rgb(t.light).RGBA() }

// rgb parses #rrggbb.
func rgb(hex string) color.NRGBA {
	c := color.NRGBA{A: 255}
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
		panic(fmt.Sprintf("chart: colour %q: %v", hex, err))
	}
	return c
}

// Stylesheet is the CSS of the tones: custom properties --chart-NAME, light and dark, and the classes that use them.
func Stylesheet() string {
	properties := func(value func(Tone) string) string {
		var b strings.Builder
		for _, t := range tones {
			fmt.Fprintf(&b, "--chart-%s:%s;", t.name, value(t))
		}
		return b.String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, ":root{%s}\n", properties(func(t Tone) string { return t.light }))
	fmt.Fprintf(&b, "@media screen and (prefers-color-scheme:dark){:root{%s}}\n", properties(func(t Tone) string { return t.dark }))
	for _, t := range tones {
		fmt.Fprintf(&b, ".s-%[1]s{stroke:var(--chart-%[1]s)}.f-%[1]s{fill:var(--chart-%[1]s)}\n", t.name)
	}
	return b.String()
}

// ramp are the colours of a heat map, dark to light, with even steps in lightness so that they need no hue.
var ramp = [][3]float64{{43, 10, 90}, {62, 60, 150}, {30, 120, 150}, {50, 170, 120}, {150, 210, 80}, {250, 235, 110}}

// onRamp returns the colour at t in [0,1], Faint for NaN.
func onRamp(t float64) color.Color {
	if t-t != 0 {
		return Faint
	}
	t = min(max(t, 0), 1) * float64(len(ramp)-1)
	i := min(int(t), len(ramp)-2)
	var c [3]uint8
	for j := range c {
		c[j] = uint8(math.Round(ramp[i][j] + (t-float64(i))*(ramp[i+1][j]-ramp[i][j])))
	}
	return color.NRGBA{c[0], c[1], c[2], 255}
}

// over returns a colour for text on the ramp at t.
func over(t float64) color.Color {
	switch {
	case t-t != 0:
		return Ink
	case t > 0.55:
		return color.NRGBA{0x1f, 0x23, 0x28, 255}
	}
	return color.NRGBA{255, 255, 255, 255}
}
