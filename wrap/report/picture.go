package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"

	"golang.org/x/image/draw"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/pixels"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/onnx/tensor"
)

const (
	thumbnail  = 192 // largest side of a picture, in pixels
	smallImage = 64  // largest side of pictures shown as squares
	mostText   = 400 // characters of a text
	mostValues = 8   // of a row
	mostArrays = 4   // of an example
)

// show puts an example's input into a card: a picture if it is one, else a text, or the first values. exif applies the
// EXIF orientation.
func show(c *card, e *dataset.Example, exif bool) {
	if err := e.Decode(); err != nil {
		return
	}
	if len(e.Inputs) == 1 {
		if !exif {
			e.Inputs[0].Orientation = 0
		}
		if img, scaled := imageOf(&e.Inputs[0]); img != nil {
			c.Picture, c.Small = encode(img)
			if scaled {
				c.More = "numbers, from the least (black) to the greatest"
			}
			return
		}
		if s, ok := textOf(e.Inputs[0].Data); ok {
			c.Text = shorten(s)
			return
		}
	}
	for _, a := range e.Inputs[:min(len(e.Inputs), mostArrays)] {
		c.addValues(&a, len(e.Inputs) == 1)
	}
	if more := len(e.Inputs) - mostArrays; more > 0 {
		c.More = "and " + text.Plural(more, "more input")
	}
}

// imageOf returns an array as an image: bytes with a layout, or numbers with the shape of an image, scaled so that the
// least is black and the greatest white. It is nil for other arrays.
func imageOf(a *dataset.Array) (img image.Image, scaled bool) {
	h, w, channels, at := geometry(a)
	values := reflect.ValueOf(a.Data)
	if h*w*channels == 0 || values.Kind() != reflect.Slice || values.Len() != h*w*channels {
		return nil, false
	}
	value, ok := reader(values)
	if !ok {
		return nil, false
	}
	least, most := 0.0, 255.0
	if _, bytes := a.Data.([]uint8); !bytes {
		scaled = true
		least, most = math.Inf(1), math.Inf(-1)
		for i := range values.Len() {
			if v := value(i); v-v == 0 {
				least, most = math.Min(least, v), math.Max(most, v)
			}
		}
	}
	level := func(y, x, channel int) uint8 {
		v := (value(at(y, x, channel)) - least) / (most - least)
		if !(v > 0) { // NaN, too
			return 0
		}
		return uint8(math.Round(255 * math.Min(v, 1)))
	}
	if channels == 1 {
		grey := image.NewGray(image.Rect(0, 0, w, h))
		for y := range h {
			for x := range w {
				grey.SetGray(x, y, color.Gray{Y: level(y, x, 0)})
			}
		}
		return grey, scaled
	}
	rgb := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			rgb.SetNRGBA(x, y, color.NRGBA{level(y, x, 0), level(y, x, 1), level(y, x, 2), 255})
		}
	}
	return rgb, scaled
}

// leastSide is the least height and width of arrays shown as images though not declared as such.
const leastSide = 8

// geometry returns the shape of an array as an image, zero if it is none, and the index of a value.
func geometry(a *dataset.Array) (h, w, channels int, at func(y, x, channel int) int) {
	s := a.Shape
	layout := a.Layout
	if layout == tensor.NoImage {
		switch {
		case len(s) == 2:
			layout = tensor.HW
		case len(s) == 3 && (s[0] == 1 || s[0] == 3):
			layout = tensor.CHW
		case len(s) == 3:
			layout = tensor.HWC
		}
	}
	switch {
	case layout == tensor.HW && len(s) == 2:
		h, w, channels = s[0], s[1], 1
	case layout == tensor.HWC && len(s) == 3:
		h, w, channels = s[0], s[1], s[2]
	case layout == tensor.CHW && len(s) == 3:
		channels, h, w = s[0], s[1], s[2]
	}
	if channels != 1 && channels != 3 || a.Layout == tensor.NoImage && min(h, w) < leastSide {
		return 0, 0, 0, nil
	}
	if layout == tensor.CHW {
		return h, w, channels, func(y, x, channel int) int { return (channel*h+y)*w + x }
	}
	rows, columns, stored := pixels.Upright(a.Orientation, h, w)
	row := w * channels
	return rows, columns, channels, func(y, x, channel int) int {
		y, x = stored(y, x)
		return y*row + x*channels + channel
	}
}

// reader returns a function that reads the numbers of a slice.
func reader(values reflect.Value) (func(i int) float64, bool) {
	if bytes, ok := values.Interface().([]uint8); ok { // fast: photographs have millions
		return func(i int) float64 { return float64(bytes[i]) }, true
	}
	switch values.Type().Elem().Kind() {
	case reflect.Float32, reflect.Float64:
		return func(i int) float64 { return values.Index(i).Float() }, true
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(i int) float64 { return float64(values.Index(i).Int()) }, true
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(i int) float64 { return float64(values.Index(i).Uint()) }, true
	}
	return nil, false
}

// encode returns an image as a data URL, scaled down if it is large.
func encode(img image.Image) (url template.URL, small bool) {
	b := img.Bounds()
	longer := max(b.Dx(), b.Dy())
	if longer > thumbnail {
		scale := thumbnail / float64(longer)
		w, h := max(1, int(float64(b.Dx())*scale)), max(1, int(float64(b.Dy())*scale))
		to := image.NewNRGBA(image.Rect(0, 0, w, h))
		draw.CatmullRom.Scale(to, to.Bounds(), img, b, draw.Src, nil)
		img = to
	}
	var out bytes.Buffer
	kind := "image/png"
	_, grey := img.(*image.Gray)
	if longer <= smallImage || grey {
		if png.Encode(&out, img) != nil {
			return "", false
		}
	} else {
		kind = "image/jpeg"
		if jpeg.Encode(&out, img, &jpeg.Options{Quality: 82}) != nil {
			return "", false
		}
	}
	return dataURL(kind, base64.StdEncoding.EncodeToString(out.Bytes())), longer <= smallImage
}

// textOf returns data that are a single text.
func textOf(data any) (string, bool) {
	switch d := data.(type) {
	case []string:
		if len(d) == 1 {
			return d[0], true
		}
	case dataset.Text:
		if _, err := fmt.Sscan(strings.Join(d.Cells, ""), new(float64)); len(d.Cells) == 1 && err != nil {
			return d.Cells[0], true
		}
	}
	return "", false
}

// shorten makes a text printable and short, keeping its lines.
func shorten(s string) string {
	if utf8.RuneCountInString(s) > mostText {
		s = string([]rune(s)[:mostText]) + " …"
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = text.Printable(strings.TrimRight(lines[i], "\r"))
	}
	return strings.Join(lines, "\n")
}

// addValues adds the first values of an array: one by one if it is the only one, else on one line with its name.
func (c *card) addValues(a *dataset.Array, alone bool) {
	var names, values []string
	if t, ok := a.Data.(dataset.Text); ok {
		names, values = t.Columns, t.Cells
	} else if v := reflect.ValueOf(a.Data); v.Kind() == reflect.Slice {
		for i := range min(v.Len(), mostValues) {
			values = append(values, value(v.Index(i).Interface()))
		}
		if more := v.Len() - mostValues; more > 0 {
			values = append(values, make([]string, more)...) // to be counted
		}
	}
	if !alone {
		shown := values[:min(len(values), mostValues)]
		s := strings.Join(shown, " ")
		if len(values) > len(shown) {
			s += fmt.Sprintf(" … (%s)", text.Plural(len(values), "value"))
		}
		c.Values = append(c.Values, [2]string{name(a.Name), text.Name(s)})
		return
	}
	for i, s := range values[:min(len(values), mostValues)] {
		term := fmt.Sprint(i)
		if i < len(names) {
			term = name(names[i])
		}
		c.Values = append(c.Values, [2]string{term, text.Name(s)})
	}
	if more := len(values) - mostValues; more > 0 {
		c.More = "and " + text.Plural(more, "more value")
	}
}

// value writes a number to four digits.
func value(v any) string {
	switch v := v.(type) {
	case float32:
		return fmt.Sprintf("%.4g", v)
	case float64:
		return fmt.Sprintf("%.4g", v)
	}
	return fmt.Sprint(v)
}

func dataURL(kind string, base64 string) template.URL {
	return template.URL("data:" + kind + ";base64," + base64)
}
