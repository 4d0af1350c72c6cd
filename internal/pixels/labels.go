package pixels

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
)

// Labels are the numbers in a label map, [Height,Width]. Those of 16 bits that are 65,535 are -1.
type Labels struct {
	Data          []int32
	Height, Width int
}

// DecodeLabels decodes a PNG file whose pixels are numbers: grey values as they are stored, or indices of the palette.
// Samples of fewer than 8 bits are not scaled to 255, as they are in a picture.
func DecodeLabels(b []byte) (*Labels, error) {
	if !isPNG(b) {
		return nil, fmt.Errorf("not a PNG file (it begins % x): other formats do not keep numbers exactly", b[:min(4, len(b))])
	}
	cfg, err := png.DecodeConfig(bytes.NewReader(b))
	switch {
	case err != nil:
		return nil, fmt.Errorf("broken PNG: %w", err)
	case !within(cfg.Width, cfg.Height):
		return nil, fmt.Errorf("%d×%d pixels are more than the %d allowed", cfg.Width, cfg.Height, Max)
	case cfg.Width*cfg.Height/(8*maxInflate) > len(b):
		return nil, fmt.Errorf("broken PNG: %d×%d pixels cannot be in %d bytes", cfg.Width, cfg.Height, len(b))
	}
	const grey, palette = 0, 3
	depth, colours := b[24], b[25] // the header chunk is always first
	if colours != grey && colours != palette {
		return nil, errors.New("its pixels are colours, want a PNG in grey or with a palette whose values are the numbers of classes: convert it")
	}
	m, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("broken PNG: %w", err)
	}
	r := m.Bounds()
	l := &Labels{Height: r.Dy(), Width: r.Dx()}
	if r.Empty() {
		return nil, errors.New("broken PNG: no pixels")
	}
	l.Data = make([]int32, 0, l.Height*l.Width)
	bytesOf := func(pix []uint8, stride, scale int) {
		for y := range l.Height {
			for _, v := range pix[y*stride:][:l.Width] {
				l.Data = append(l.Data, int32(v)/int32(scale))
			}
		}
	}
	switch m := m.(type) {
	case *image.Paletted:
		bytesOf(m.Pix, m.Stride, 1)
	case *image.Gray:
		bytesOf(m.Pix, m.Stride, 255/(1<<depth-1)) // image/png scales few bits to 8
	case *image.Gray16:
		for y := range l.Height {
			row := m.Pix[y*m.Stride:]
			for x := range l.Width {
				v := int32(row[2*x])<<8 | int32(row[2*x+1])
				if v == math.MaxUint16 {
					v = -1
				}
				l.Data = append(l.Data, v)
			}
		}
	default: // grey with a transparent value
		return nil, errors.New("some of its pixels are transparent, want a PNG in grey or with a palette: convert it")
	}
	return l, nil
}
