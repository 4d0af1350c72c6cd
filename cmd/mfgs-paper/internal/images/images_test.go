package images

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"gonum.org/v1/gonum/stat"
)

func TestDecodedImagesAreThoseOfTheArchive(t *testing.T) {
	t.Parallel()
	var images []File
	var want []byte
	for i, name := range []string{"a/1.png", "a/2.png", "b/1.png"} {
		picture := image.NewRGBA(image.Rect(0, 0, 2, 3))
		for y := range 3 {
			for x := range 2 {
				c := color.RGBA{byte(10*i + x), byte(20 * y), 200, 255}
				picture.SetRGBA(x, y, c)
				want = append(want, c.R, c.G, c.B)
			}
		}
		var file bytes.Buffer
		if err := png.Encode(&file, picture); err != nil {
			t.Fatal(err)
		}
		images = append(images, File{Name: name, Data: file.Bytes(), Label: []string{"7", "7", "3"}[i]})
	}
	spec, err := Decode(t.Context(), filepath.Join(t.TempDir(), "some"), images)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Read(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if g.Width != 2 || g.Height != 3 || g.Channels != 3 || !slices.Equal(g.Pixels, want) ||
		!slices.Equal(g.Labels, []byte{7, 7, 3}) {
		t.Errorf("%d × %d × %d of %v with %v, want 3 × 2 × 3 of %v with 7, 7, 3", g.Height, g.Width, g.Channels, g.Pixels, g.Labels, want)
	}
}

func TestRotationsByQuarterTurnsAreExact(t *testing.T) {
	t.Parallel()
	const w, h = 5, 5
	in := make([]byte, w*h)
	for i := range in {
		in[i] = byte(10 * i)
	}
	// Naive twins for quarter turns.
	turned := func(at func(x, y int) int) []byte {
		out := make([]byte, w*h)
		for y := range h {
			for x := range w {
				out[y*w+x] = in[at(x, y)]
			}
		}
		return out
	}
	tests := []struct {
		degrees float64
		want    []byte
	}{
		{0, in},
		{90, turned(func(x, y int) int { return x*w + w - 1 - y })}, // what is at the right goes up
		{180, turned(func(x, y int) int { return (h-1-y)*w + w - 1 - x })},
		{270, turned(func(x, y int) int { return (h-1-x)*w + y })},
		{360, in},
	}
	for _, test := range tests {
		if got := rotate(in, w, h, test.degrees); !slices.Equal(got, test.want) {
			t.Errorf("by %v degrees:\n%v\nwant\n%v", test.degrees, got, test.want)
		}
	}
}

// The centre of a uniform image keeps its value under any rotation; a far corner becomes black.
func TestRotationKeepsTheCentre(t *testing.T) {
	t.Parallel()
	const side = 28
	in := bytes.Repeat([]byte{200}, side*side)
	for degrees := 0.; degrees <= 180; degrees += 7.5 {
		out := rotate(in, side, side, degrees)
		for y := 8; y < 20; y++ {
			for x := 8; x < 20; x++ {
				if out[y*side+x] != 200 {
					t.Fatalf("by %v degrees, %d, %d is %d", degrees, x, y, out[y*side+x])
				}
			}
		}
	}
	if out := rotate(in, side, side, 45); out[0] != 0 {
		t.Errorf("the corner is %d, want black", out[0])
	}
}

func TestImagesAreWrittenAndReadBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images := filepath.Join(dir, "a-images-idx3-ubyte")
	g := &Images{Width: 3, Height: 2, Channels: 1, Labels: []byte{4, 9},
		Pixels: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
	if err := WriteIDX(images, g.Pixels, 2, 2, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), images); err == nil || !strings.Contains(err.Error(), "no labels") {
		t.Errorf("without labels: %v", err)
	}
	if err := WriteIDX(filepath.Join(dir, "a-labels-idx1-ubyte"), g.Labels, 2); err != nil {
		t.Fatal(err)
	}
	back, err := Read(t.Context(), images)
	if err != nil {
		t.Fatal(err)
	}
	if back.Width != 3 || back.Height != 2 || !slices.Equal(back.Pixels, g.Pixels) ||
		!slices.Equal(back.Labels, g.Labels) {
		t.Errorf("read back: %+v", back)
	}

	c, err := g.CentredRGB(4)
	if err != nil {
		t.Fatal(err)
	}
	// The second image's rows stand in the middle, from column 0: (4-3)/2.
	want := make([]byte, 2*4*4*3)
	for i, v := range g.Pixels {
		n, y, x := i/6, i%6/3, i%3
		for ch := range 3 {
			want[((n*4+1+y)*4+x)*3+ch] = v
		}
	}
	if !slices.Equal(c, want) {
		t.Errorf("in colour: %v\nwant %v", c, want)
	}
	if _, err := g.CentredRGB(2); err == nil {
		t.Error("images larger than the canvas are taken")
	}

	spec, err := g.WriteRotated(dir, 180)
	if err != nil {
		t.Fatal(err)
	}
	if back, err = Read(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(back.Image(0), []byte{6, 5, 4, 3, 2, 1}) || !slices.Equal(back.Labels, g.Labels) {
		t.Errorf("turned by 180: %v, labels %v", back.Image(0), back.Labels)
	}
}

func TestNoiseHasItsMeanAndStandardDeviation(t *testing.T) {
	t.Parallel()
	const n = 100_000
	tests := []struct {
		name         string
		of           func(int, uint64) []byte
		mean, stdDev float64
	}{
		{"uniform", Uniform, 127.5, 256 / math.Sqrt(12)},
		// Clipping beyond two standard deviations takes a few per cent of the standard deviation.
		{"gaussian", Gaussian, 127.5, 62},
	}
	for _, test := range tests {
		a := test.of(n, 1)
		if !slices.Equal(a, test.of(n, 1)) || slices.Equal(a, test.of(n, 2)) {
			t.Errorf("%s: the seed does not decide", test.name)
		}
		var s []float64
		for _, v := range a {
			s = append(s, float64(v))
		}
		// Five standard errors of the mean; of the standard deviation, a little more than that.
		m, d := stat.MeanStdDev(s, nil)
		if !approx.Equal(m, test.mean, 5*test.stdDev/math.Sqrt(n)) {
			t.Errorf("%s: mean %v, want %v", test.name, m, test.mean)
		}
		if !approx.Equal(d, test.stdDev, 1.5) {
			t.Errorf("%s: standard deviation %v, want %v", test.name, d, test.stdDev)
		}
	}
}

// rainbow returns n small images, each of one colour and labelled with its index.
func rainbow(n, channels int) *Images {
	g := &Images{Width: 4, Height: 3, Channels: channels}
	for i := range n {
		g.Pixels = append(g.Pixels, bytes.Repeat([]byte{byte(i), byte(2 * i), byte(3 * i)}[:channels], 4*3)...)
		g.Labels = append(g.Labels, byte(i))
	}
	return g
}

func TestASubsampleIsEvenlySpaced(t *testing.T) {
	t.Parallel()
	few := rainbow(10, 3).Subsample(4)
	if !slices.Equal(few.Labels, []byte{0, 2, 5, 7}) || few.Len() != 4 || few.Image(3)[2] != 21 || few.Channels != 3 {
		t.Errorf("labels %v, pixels %v", few.Labels, few.Pixels)
	}
	if all := rainbow(3, 1); all.Subsample(3) != all || all.Subsample(9) != all {
		t.Error("where there are no more, others are taken than all")
	}
}

func TestImagesMustHaveOneSize(t *testing.T) {
	t.Parallel()
	colours := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	copy(colours.Pix, []byte{1, 2, 3, 255, 4, 5, 6, 255})
	var file bytes.Buffer
	if err := png.Encode(&file, colours); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.tar")
	files := []File{{Name: "a/1.png", Data: file.Bytes(), Label: "7"}, {Name: "a/2.png", Data: file.Bytes(), Label: "3"}}
	if err := WriteArchive(path, files); err != nil {
		t.Fatal(err)
	}
	g, err := Read(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if g.Width != 2 || g.Height != 1 || g.Channels != 3 || !slices.Equal(g.Image(1), []byte{1, 2, 3, 4, 5, 6}) ||
		!slices.Equal(g.Labels, []byte{7, 3}) {
		t.Errorf("%+v", g)
	}
	if _, err := g.CentredRGB(8); err == nil || !strings.Contains(err.Error(), "want grey images") {
		t.Errorf("in colour once more: %v", err)
	}
	if _, err := g.WriteRotated(t.TempDir(), 90); err == nil || !strings.Contains(err.Error(), "want grey images") {
		t.Errorf("rotated: %v", err)
	}
	files[1].Data = picture1(t)
	if err := WriteArchive(path, files); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), path); err == nil || !strings.Contains(err.Error(), "a/2.png") {
		t.Errorf("a grey image after one in colour: %v", err)
	}
}

// Each frame is the crop, scaled, with margins of black.
func TestFramedImagesHaveTheirMargins(t *testing.T) {
	t.Parallel()
	g := &Images{Width: 4, Height: 4, Channels: 1, Labels: []byte{7, 2}}
	for i := range 32 {
		g.Pixels = append(g.Pixels, byte(i+1))
	}
	same, err := g.Framed(4, 4, 6)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for y := range 6 {
			for x := range 6 {
				want := byte(0)
				if y >= 1 && y < 5 && x >= 1 && x < 5 {
					want = g.Image(i)[(y-1)*4+x-1]
				}
				if got := same.Image(i)[y*6+x]; got != want {
					t.Errorf("image %d, %d,%d: %d, want %d", i, x, y, got, want)
				}
			}
		}
	}
	if !slices.Equal(same.Labels, g.Labels) || same.Width != 6 || same.Height != 6 {
		t.Errorf("labels %v of %d × %d", same.Labels, same.Width, same.Height)
	}
	few, err := g.Framed(2, 1, 1)
	// The means of 6, 7, 10, 11 and of 22, 23, 26, 27, rounded.
	if err != nil || !slices.Equal(few.Pixels, []byte{9, 25}) {
		t.Errorf("%v, %v", few, err)
	}
	for _, sides := range [][3]int{{5, 1, 1}, {0, 1, 1}, {2, 3, 2}, {2, 0, 2}} {
		if _, err := g.Framed(sides[0], sides[1], sides[2]); err == nil || !strings.Contains(err.Error(), "4 × 4 × 1") {
			t.Errorf("%v: %v", sides, err)
		}
	}
}
