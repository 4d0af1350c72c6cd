package dataset

import (
	"image"
	"image/color"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/onnx/tensor"
)

func TestFromImageGivesTheColours(t *testing.T) {
	t.Parallel()
	red, blue := color.NRGBA{R: 200, G: 10, B: 30, A: 255}, color.NRGBA{R: 1, G: 2, B: 250, A: 255}
	paint := func(m interface {
		image.Image
		Set(x, y int, c color.Color)
	}) image.Image {
		b := m.Bounds()
		m.Set(b.Min.X, b.Min.Y, red)
		m.Set(b.Min.X+1, b.Min.Y, blue)
		return m
	}
	r := image.Rect(0, 0, 2, 1)
	rgb := []uint8{200, 10, 30, 1, 2, 250}
	wide := image.NewNRGBA(image.Rect(0, 0, 6, 4))
	for name, tc := range map[string]struct {
		img  image.Image
		want []uint8
	}{
		"NRGBA":     {paint(image.NewNRGBA(r)), rgb},
		"RGBA":      {paint(image.NewRGBA(r)), rgb},
		"RGBA64":    {paint(image.NewRGBA64(r)), rgb},
		"sub-image": {paint(wide.SubImage(image.Rect(3, 2, 5, 3)).(*image.NRGBA)), rgb},
		"paletted":  {paint(image.NewPaletted(r, color.Palette{red, blue})), rgb},
		"grey":      {&image.Gray{Pix: []uint8{7, 9}, Stride: 2, Rect: r}, []uint8{7, 9}},
	} {
		a, err := FromImage(tc.img)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := a.Data.([]uint8); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		if want := []int{1, 2, len(tc.want) / 2}; !slices.Equal(a.Shape, want) || a.Layout != tensor.HWC {
			t.Errorf("%s: shape %v %s, want %v HWC", name, a.Shape, a.Layout, want)
		}
	}
	if _, err := FromImage(image.NewGray(image.Rect(0, 0, 0, 5))); err == nil {
		t.Error("an empty image was taken")
	}
}
