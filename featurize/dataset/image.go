package dataset

import (
	"errors"
	"fmt"
	"image"
	"image/draw"
	"path/filepath"
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

// An imageSource is a single image.
type imageSource struct {
	Base
	f *File
}

func sniffImage(p *Peek) (bool, error) { return !p.Gzip && (isPNG(p.Head) || isJPEG(p.Head)), nil }

func openImage(path string, _ Options) (Source, error) {
	s := &imageSource{Base: Base{Count: 1}}
	var err error
	if s.f, err = s.Open(path); err != nil {
		return nil, err
	}
	if err := checkEncoded(s.f.Size()); err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Examples reads the image.
func (s *imageSource) Examples(_, _ int, yield func(Example, error) bool) {
	e := Example{Name: filepath.Base(s.Path), Label: -1, Encoded: make([]byte, s.f.Size())}
	if _, err := s.f.ReadAt(e.Encoded, 0); err != nil {
		e.Encoded = nil
		yield(e, &RecordError{e.Name, 0, bareError(err)})
		return
	}
	yield(e, nil)
}
