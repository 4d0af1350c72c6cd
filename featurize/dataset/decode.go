package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
)

// maxPixels bounds a decoded image; Pillow warns of a decompression bomb at 89
// million.
const maxPixels = 100_000_000

func isPNG(b []byte) bool  { return bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")) }
func isJPEG(b []byte) bool { return bytes.HasPrefix(b, []byte("\xff\xd8\xff")) }

// Decode turns Encoded into the only element of Inputs: uint8 [H,W,1] for grey
// images, else [H,W,3] RGB, as Pillow's convert("RGB") makes it: alpha is
// dropped, 16-bit samples keep their high byte, palettes are looked up, an
// EXIF orientation is not applied. PNG is exact; JPEG equals libjpeg's, with
// its interpolation of chroma, within 3 of 255. It does nothing where Encoded is
// nil. The error is a *RecordError.
//
// Decode is meant for the caller's workers: it touches nothing but e.
func (e *Example) Decode() error {
	if e.Encoded == nil {
		return nil
	}
	pix, h, w, c, err := decodeImage(e.Encoded)
	if err != nil {
		return &RecordError{e.Name, e.Index, err}
	}
	e.Encoded = nil
	e.Inputs = []Array{{Shape: []int{h, w, c}, Layout: HWC, Data: pix}}
	return nil
}

func decodeImage(b []byte) (pix []uint8, h, w, c int, err error) {
	decodeConfig, decode, name := png.DecodeConfig, png.Decode, "PNG"
	// How many pixels a byte of the file can make at most: deflate gives 1032
	// bytes of 8 one-bit pixels; JPEG codes a block of 64 in one bit or more.
	perByte := 8 * maxInflate
	switch {
	case isPNG(b):
	case isJPEG(b):
		decodeConfig, decode, name = jpeg.DecodeConfig, jpeg.Decode, "JPEG"
		perByte = 8 * 64
	default:
		return nil, 0, 0, 0, fmt.Errorf("not a PNG or JPEG file (it begins % x)", b[:min(4, len(b))])
	}
	broken := func(err error) ([]uint8, int, int, int, error) {
		return nil, 0, 0, 0, fmt.Errorf("broken %s: %w", name, err)
	}
	cfg, err := decodeConfig(bytes.NewReader(b))
	if err != nil {
		return broken(err)
	}
	n, ok := mul(cfg.Width, cfg.Height)
	if !ok || n > maxPixels {
		return nil, 0, 0, 0, fmt.Errorf("%d×%d pixels are more than the %d allowed", cfg.Width, cfg.Height, maxPixels)
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
	pix, c = toRGB(img)
	// Grey with transparency comes as colour from image/png. Colour types with
	// bit 1 clear are grey. The header chunk always comes first, so at 25.
	if name == "PNG" && c == 3 && b[25]&2 == 0 {
		for i := range len(pix) / 3 {
			pix[i] = pix[3*i]
		}
		pix, c = pix[:len(pix)/3], 1
	}
	return pix, img.Bounds().Dy(), img.Bounds().Dx(), c, nil
}

// toRGB returns the image as [H,W,c] with c 1 for grey and 3 for RGB.
func toRGB(img image.Image) (pix []uint8, c int) {
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	switch m := img.(type) {
	case *image.Gray:
		pix = make([]uint8, 0, w*h)
		for y := range h {
			pix = append(pix, m.Pix[y*m.Stride:][:w]...)
		}
		return pix, 1
	case *image.Gray16:
		pix = make([]uint8, w*h)
		for y := range h {
			row := m.Pix[y*m.Stride:]
			for x := range w {
				pix[y*w+x] = row[2*x]
			}
		}
		return pix, 1
	}
	pix = make([]uint8, 3*w*h)
	// each sets every pixel from row y of src, whose pixels have n bytes.
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
		panic(fmt.Sprintf("dataset: a decoder returned %T", img))
	}
	return pix, 3
}
