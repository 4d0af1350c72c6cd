package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/bench"
)

func arrays(of ...dataset.Array) *dataset.Example { return &dataset.Example{Inputs: of} }

// pictureOf decodes the picture of a card.
func pictureOf(t *testing.T, c *card) image.Image {
	t.Helper()
	kind, data, ok := strings.Cut(string(c.Picture), ";base64,")
	if !ok {
		t.Fatalf("no picture: %+v", c)
	}
	file, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	decode := map[string]func([]byte) (image.Image, error){
		"data:image/png":  func(b []byte) (image.Image, error) { return png.Decode(bytes.NewReader(b)) },
		"data:image/jpeg": func(b []byte) (image.Image, error) { return jpeg.Decode(bytes.NewReader(b)) },
	}[kind]
	img, err := decode(file)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// An image is shown with each pixel in its place, for any layout.
func TestImagesAreShown(t *testing.T) {
	// Of 8 rows and 9 columns, the value in row y, column x and channel c is 3y + 5x + 60c.
	value := func(y, x, c int) int { return 3*y + 5*x + 60*c }
	planes := func(channels int, planar bool) (v []uint8) {
		for i := range 8 * 9 * channels {
			y, x, c := i/channels/9, i/channels%9, i%channels
			if planar {
				y, x, c = i/9%8, i%9, i/72
			}
			v = append(v, uint8(value(y, x, c)))
		}
		return v
	}
	floats := func(v []uint8) (f []float32) {
		for _, b := range v {
			f = append(f, float32(b)/10-7)
		}
		return f
	}
	for name, test := range map[string]struct {
		array    dataset.Array
		channels int
		scaled   bool
	}{
		"HW":            {dataset.Array{Shape: []int{8, 9}, Layout: tensor.HW, Data: planes(1, false)}, 1, false},
		"HWC, grey":     {dataset.Array{Shape: []int{8, 9, 1}, Layout: tensor.HWC, Data: planes(1, false)}, 1, false},
		"HWC":           {dataset.Array{Shape: []int{8, 9, 3}, Layout: tensor.HWC, Data: planes(3, false)}, 3, false},
		"CHW":           {dataset.Array{Shape: []int{3, 8, 9}, Layout: tensor.CHW, Data: planes(3, true)}, 3, false},
		"no layout":     {dataset.Array{Shape: []int{3, 8, 9}, Data: planes(3, true)}, 3, false},
		"numbers":       {dataset.Array{Shape: []int{3, 8, 9}, Data: floats(planes(3, true))}, 3, true},
		"numbers, last": {dataset.Array{Shape: []int{8, 9, 3}, Data: floats(planes(3, false))}, 3, true},
	} {
		var c card
		show(&c, arrays(test.array), true)
		img := pictureOf(t, &c)
		if b := img.Bounds(); b.Dx() != 9 || b.Dy() != 8 || !c.Small || (c.More != "") != test.scaled {
			t.Errorf("%s: %v, small %v, %q", name, b, c.Small, c.More)
		}
		most := value(7, 8, test.channels-1)
		for y := range 8 {
			for x := range 9 {
				got := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
				want := [3]int{value(y, x, 0), value(y, x, 1), value(y, x, 2)}
				for i, v := range [3]uint8{got.R, got.G, got.B} {
					w := want[min(i, test.channels-1)]
					if test.scaled {
						w = int(math.Round(255 * float64(w) / float64(most)))
					}
					if !approx.Equal(float64(v), float64(w), 1) {
						t.Fatalf("%s: pixel %d, %d is %v, want %d in channel %d", name, y, x, got, w, i)
					}
				}
			}
		}
	}
}

// Other data are shown as text, or by their first values.
func TestRowsAndTextsAreShown(t *testing.T) {
	long := strings.Repeat("é\x1b", 1000)
	cells := dataset.Text{Cells: strings.Fields("1 2 3 4 5 6 7 8 9 10"), Columns: strings.Fields("a b c d e f g h i j")}
	for name, test := range map[string]struct {
		example *dataset.Example
		text    string
		values  string
		more    string
	}{
		"text":            {arrays(dataset.Array{Data: []string{"two\r\nlines"}}), "two\nlines", "", ""},
		"a cell of words": {arrays(dataset.Array{Data: dataset.Text{Cells: []string{"words"}, Columns: []string{"t"}}}), "words", "", ""},
		"a cell of a number": {arrays(dataset.Array{Data: dataset.Text{Cells: []string{"3.5"}, Columns: []string{"t"}}}), "",
			"t=3.5", ""},
		"cells":    {arrays(dataset.Array{Data: cells}), "", "a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8", "and 2 more values"},
		"numbers":  {arrays(dataset.Array{Shape: []int{3}, Data: []float32{.5, 1e-9, 3}}), "", "0=0.5 1=1e-09 2=3", ""},
		"a matrix": {arrays(dataset.Array{Shape: []int{2, 2}, Data: []float64{1, 2, 3, 4}}), "", "0=1 1=2 2=3 3=4", ""},
		"many tokens": {arrays(dataset.Array{Shape: []int{90}, Data: make([]int64, 90)}), "", "0=0 1=0 2=0 3=0 4=0 5=0 6=0 7=0",
			"and 82 more values"},
		"several": {arrays(dataset.Array{Name: "ids", Data: []int64{7, 8}}, dataset.Array{Name: "mask", Data: make([]bool, 9)}), "",
			"ids=7 8 mask=false false false false false false false false … (9 values)", ""},
		"more than are shown": {arrays(make([]dataset.Array, 6)...), "", "= = = =", "and 2 more inputs"},
		"no pixels":           {&dataset.Example{Encoded: []byte("\x89PNG\r\n\x1a\nbroken")}, "", "", ""},
		"none":                {arrays(), "", "", ""},
	} {
		var c card
		show(&c, test.example, true)
		var values []string
		for _, v := range c.Values {
			values = append(values, v[0]+"="+v[1])
		}
		if c.Text != test.text || strings.Join(values, " ") != test.values || c.More != test.more || c.Picture != "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	var c card
	show(&c, arrays(dataset.Array{Data: []string{long}}), true)
	if n := len([]rune(c.Text)); n > 5*mostText || strings.Contains(c.Text, "\x1b") {
		t.Errorf("a long text is shown as %d characters, %.40q", n, c.Text)
	}
}

// photograph is a JPEG file of noise, the worst to make small.
func photograph(t *testing.T, w, h int) []byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(w)))
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = uint8(rng.Uint32()) | 3
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPhotographsAreMadeSmall(t *testing.T) {
	for _, size := range [][2]int{{800, 600}, {300, 1200}, {3000, 2}} {
		var c card
		show(&c, &dataset.Example{Encoded: photograph(t, size[0], size[1])}, true)
		b := pictureOf(t, &c).Bounds()
		if max(b.Dx(), b.Dy()) != thumbnail || c.Small || len(c.Picture) > 60e3 || min(b.Dx(), b.Dy()) < 1 {
			t.Errorf("%v became %v in %d bytes", size, b, len(c.Picture))
		}
	}
}

// A report on 10,000 examples of 1,000 classes, with pictures that are hard to pack, has at most 5 MB.
func TestSizeIsBounded(t *testing.T) {
	e := evaluation()
	d := e.Detail
	rng := rand.New(rand.NewPCG(4, 4))
	const classes = 1000
	d.Manifest.Head.Logits, d.Manifest.Labels = classes, nil
	for k := range classes {
		d.Manifest.Labels = append(d.Manifest.Labels, fmt.Sprintf("class %d, %s", k, strings.Repeat("a long name ", 20)))
	}
	for _, m := range []string{"mle", "mf0"} {
		d.Classes[m] = nil
		for range classes {
			d.Classes[m] = append(d.Classes[m], metrics.ClassFigures{N: 10, Error: .2, ECE: rng.Float64() / 100})
		}
	}
	d.Sizes[0].Sizes = make([]int, classes+1)
	for range 10_000 {
		d.Sizes[0].Sizes[rng.IntN(classes+1)]++
	}
	photo := photograph(t, 640, 480)
	d.Galleries = nil
	for range 6 {
		g := bench.Gallery{Kind: bench.Uncertain, Set: "test"}
		for range 12 {
			g.Examples = append(g.Examples, bench.GalleryExample{Name: "x.jpg", Input: &dataset.Example{Encoded: photo}})
		}
		d.Galleries = append(d.Galleries, g)
	}
	html := htmlOf(t, e, Options{})
	if len(html) > 5e6 {
		t.Errorf("%d bytes, want at most 5 MB", len(html))
	}
	if n := strings.Count(html, "<img "); n != 72 {
		t.Errorf("%d pictures, want 72", n)
	}
}

// Photographs are shown as they were predicted: upright, or as they are stored.
func TestPhotographsAreShownAsTheyWerePredicted(t *testing.T) {
	data := make([]uint8, 8*9)
	data[3*9] = 255 // left of row 3
	for _, exif := range []bool{true, false} {
		var c card
		array := dataset.Array{Shape: []int{8, 9, 1}, Layout: tensor.HWC, Data: data, Orientation: 6}
		show(&c, arrays(array), exif)
		size, white := image.Pt(9, 8), image.Pt(0, 3)
		if exif { // a quarter turn to the right
			size, white = image.Pt(8, 9), image.Pt(4, 0)
		}
		img := pictureOf(t, &c)
		if img.Bounds().Size() != size {
			t.Errorf("exif %v: %v, want %v", exif, img.Bounds(), size)
		}
		for y := range size.Y {
			for x := range size.X {
				level := color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y
				if (level == 255) != (image.Pt(x, y) == white) {
					t.Errorf("exif %v: level %d at %d,%d", exif, level, x, y)
				}
			}
		}
	}
}
