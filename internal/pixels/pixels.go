// Package pixels decodes PNG and JPEG files, and images in memory, to the bytes that Pillow decodes.
package pixels

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"reflect"
)

// Max bounds the pixels of an image; Pillow warns of a decompression bomb at 89 million.
const Max = 100_000_000

// maxInflate is deflate's largest ratio.
const maxInflate = 1032

// Pixels are [Height,Width,Channels]: one channel for grey, else RGB.
type Pixels struct {
	Data                    []uint8
	Height, Width, Channels int
	Orientation             uint8 // the EXIF orientation, not applied to Data: 1 to 8, or 0 for none; see Upright
}

// Recognise reports whether a file with these first bytes is a PNG or JPEG file.
func Recognise(head []byte) bool { return isPNG(head) || isJPEG(head) }

func isPNG(b []byte) bool  { return bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")) }
func isJPEG(b []byte) bool { return bytes.HasPrefix(b, []byte("\xff\xd8\xff")) }

// Decode decodes a PNG or JPEG file as Pillow's convert("RGB") does, but for grey images: alpha is
// dropped, 16-bit samples keep their high byte, palettes are looked up, and an EXIF orientation is
// reported but not applied. PNG is exact; JPEG equals libjpeg's, with its interpolation of chroma, within 3 of 255.
func Decode(b []byte) (*Pixels, error) {
	decodeConfig, decode, name := png.DecodeConfig, png.Decode, "PNG"
	// The most pixels that a byte of the file can encode: deflate's 1032 bytes of 8 one-bit pixels; JPEG
	// takes at least one bit for a block of 64.
	perByte := 8 * maxInflate
	switch {
	case isPNG(b):
	case isJPEG(b):
		decodeConfig, decode, name = jpeg.DecodeConfig, jpeg.Decode, "JPEG"
		perByte = 8 * 64
	default:
		return nil, fmt.Errorf("not a PNG or JPEG file (it begins % x)", b[:min(4, len(b))])
	}
	broken := func(err error) (*Pixels, error) {
		return nil, fmt.Errorf("broken %s: %w", name, err)
	}
	cfg, err := decodeConfig(bytes.NewReader(b))
	if err != nil {
		return broken(err)
	}
	n := cfg.Width * cfg.Height
	if !within(cfg.Width, cfg.Height) {
		return nil, fmt.Errorf("%d×%d pixels are more than the %d allowed", cfg.Width, cfg.Height, Max)
	}
	if n/perByte > len(b) {
		return broken(fmt.Errorf("%d×%d pixels cannot be in %d bytes", cfg.Width, cfg.Height, len(b)))
	}
	img, err := decode(bytes.NewReader(b))
	if err != nil {
		return broken(err)
	}
	if img.Bounds().Empty() {
		return broken(errors.New("no pixels"))
	}
	p := toRGB(img)
	// image/png decodes grey with transparency as colour. Colour types with bit 1 clear are grey. The header
	// chunk is always first, so that the colour type is at 25.
	if name == "PNG" && p.Channels == 3 && b[25]&2 == 0 {
		for i := range len(p.Data) / 3 {
			p.Data[i] = p.Data[3*i]
		}
		p.Data, p.Channels = p.Data[:len(p.Data)/3], 1
	}
	p.Orientation = orientation(b)
	return p, nil
}

// within reports whether an image of these sides, which are not negative, has at most Max pixels.
func within(w, h int) bool { return w == 0 || h <= Max/w }

// Of returns the pixels of an image in memory, without alpha.
func Of(img image.Image) (*Pixels, error) {
	// Images that failed to decode are nil or empty.
	if v := reflect.ValueOf(img); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("there is none: it is nil")
	}
	b := img.Bounds()
	if b.Empty() || !within(b.Dx(), b.Dy()) {
		return nil, fmt.Errorf("an image of %d×%d pixels, want 1 to %d in all", b.Dx(), b.Dy(), Max)
	}
	switch m := img.(type) {
	case *image.Gray, *image.Gray16, *image.NRGBA, *image.NRGBA64:
	case *image.RGBA:
		if len(m.Pix) < (b.Dy()-1)*m.Stride+4*b.Dx() {
			return nil, fmt.Errorf("an image of %d×%d pixels has %d bytes of them", b.Dx(), b.Dy(), len(m.Pix))
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
	return toRGB(img), nil
}

func toNRGBA(img image.Image) *image.NRGBA {
	b := img.Bounds()
	out := image.NewNRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	draw.Draw(out, out.Bounds(), img, b.Min, draw.Src)
	return out
}

// toRGB returns the pixels of an image from a decoder.
func toRGB(img image.Image) *Pixels {
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	var pix []uint8
	switch m := img.(type) {
	case *image.Gray:
		pix = make([]uint8, 0, w*h)
		for y := range h {
			pix = append(pix, m.Pix[y*m.Stride:][:w]...)
		}
		return &Pixels{Data: pix, Height: h, Width: w, Channels: 1}
	case *image.Gray16:
		pix = make([]uint8, w*h)
		for y := range h {
			row := m.Pix[y*m.Stride:]
			for x := range w {
				pix[y*w+x] = row[2*x]
			}
		}
		return &Pixels{Data: pix, Height: h, Width: w, Channels: 1}
	}
	pix = make([]uint8, 3*w*h)
	// each sets all pixels from src, whose pixels have n bytes.
	each := func(src []uint8, stride, n int, set func(dst, px []uint8)) {
		for y := range h {
			row := src[y*stride:]
			for x := range w {
				set(pix[3*(y*w+x):][:3:3], row[n*x:][:n:n])
			}
		}
	}
	first3 := func(d, p []uint8) { d[0], d[1], d[2] = p[0], p[1], p[2] }
	high3 := func(d, p []uint8) { d[0], d[1], d[2] = p[0], p[2], p[4] }
	switch m := img.(type) {
	case *image.YCbCr:
		ycbcrToRGB(pix, m)
	case *image.RGBA: // an opaque PNG, so nothing is premultiplied
		each(m.Pix, m.Stride, 4, first3)
	case *image.NRGBA:
		each(m.Pix, m.Stride, 4, first3)
	case *image.RGBA64:
		each(m.Pix, m.Stride, 8, high3)
	case *image.NRGBA64:
		each(m.Pix, m.Stride, 8, high3)
	case *image.Paletted:
		var table [256][3]uint8 // indexes beyond the palette are black
		for i, col := range m.Palette {
			n := color.NRGBAModel.Convert(col).(color.NRGBA)
			if q, ok := col.(color.NRGBA); ok {
				n = q // as stored: a transparent entry keeps its colour
			}
			table[i] = [3]uint8{n.R, n.G, n.B}
		}
		each(m.Pix, m.Stride, 1, func(d, p []uint8) { copy(d, table[p[0]][:]) })
	case *image.CMYK:
		each(m.Pix, m.Stride, 4, func(d, p []uint8) {
			k := 255 - int(p[3])
			for i := range d {
				// Pillow's MULDIV255: p·k/255, rounded.
				t := int(p[i])*k + 128
				d[i] = uint8(max(0, k-(t>>8+t)>>8))
			}
		})
	default:
		panic(fmt.Sprintf("pixels: a decoder returned %T", img))
	}
	return &Pixels{Data: pix, Height: h, Width: w, Channels: 3}
}
