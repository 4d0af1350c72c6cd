package dataset

import (
	"errors"
	"fmt"
	"image"
	"image/draw"
	"reflect"
)

// FromImage returns an image in memory as Example.Decode does one in a file:
// uint8 [H,W,1] for grey images, else [H,W,3] RGB without alpha.
func FromImage(img image.Image) (Array, error) {
	// So come those that did not decode.
	if v := reflect.ValueOf(img); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return Array{}, errors.New("there is none: it is nil")
	}
	b := img.Bounds()
	if n, ok := mul(b.Dx(), b.Dy()); !ok || n == 0 || n > maxPixels {
		return Array{}, fmt.Errorf("an image of %d×%d pixels, want 1 to %d in all", b.Dx(), b.Dy(), maxPixels)
	}
	switch m := img.(type) {
	case *image.Gray, *image.Gray16, *image.NRGBA, *image.NRGBA64:
	case *image.RGBA:
		if len(m.Pix) < (b.Dy()-1)*m.Stride+4*b.Dx() {
			return Array{}, fmt.Errorf("an image of %d×%d pixels has %d bytes of them", b.Dx(), b.Dy(), len(m.Pix))
		}
		if !m.Opaque() { // premultiplied
			img = toNRGBA(img)
		}
	case *image.YCbCr:
		if b.Min != (image.Point{}) { // its chroma may begin between samples
			img = toNRGBA(img)
		}
	default:
		img = toNRGBA(img)
	}
	pix, c := toRGB(img)
	return Array{Shape: []int{b.Dy(), b.Dx(), c}, Layout: HWC, Data: pix}, nil
}

func toNRGBA(img image.Image) *image.NRGBA {
	b := img.Bounds()
	out := image.NewNRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	draw.Draw(out, out.Bounds(), img, b.Min, draw.Src)
	return out
}
