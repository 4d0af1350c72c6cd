package preprocess

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/internal/pixels"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// maxPixels bounds the result of a resize: a single column could become endlessly long.
const maxPixels = 100_000_000

// A view reads channel k at (x,y) as pix[at + y*row + x*col + k*plane]. Steps are negative in mirrored
// directions.
type view struct {
	pix             []uint8
	at              int
	h, w, c         int
	row, col, plane int
}

// String describes v as in "28×28 grey image".
func (v view) String() string {
	kind := "grey"
	if v.c == 3 {
		kind = "colour"
	}
	return fmt.Sprintf("%d×%d %s image", v.h, v.w, kind)
}

// viewOf returns m's pixels. ok is false if m is not an image.
func viewOf(m Image) (v view, ok bool, err error) {
	pix, isBytes := m.Data.([]uint8)
	if !isBytes || m.Layout == tensor.NoImage {
		return v, false, nil
	}
	s := m.Shape
	switch {
	case m.Layout == tensor.HW && len(s) == 2:
		v = view{h: s[0], w: s[1], c: 1, row: s[1], col: 1}
	case m.Layout == tensor.HWC && len(s) == 3:
		v = view{h: s[0], w: s[1], c: s[2], row: s[1] * s[2], col: s[2], plane: 1}
	case m.Layout == tensor.CHW && len(s) == 3:
		v = view{h: s[1], w: s[2], c: s[0], row: s[2], col: 1, plane: s[1] * s[2]}
	default:
		return v, false, fmt.Errorf("image of layout %s has shape %v", m.Layout, s)
	}
	if v.h < 1 || v.w < 1 || v.c != 1 && v.c != 3 || len(pix) != v.h*v.w*v.c {
		return v, false, fmt.Errorf("image of layout %s has shape %v and %d bytes; want 1 or 3 channels", m.Layout, s,
			len(pix))
	}
	v.pix = pix
	return v, true, nil
}

// line returns row y as [w,c], copied to buf if it is not stored so.
func (v view) line(y int, buf *[]uint8) []uint8 {
	at := v.at + y*v.row
	if v.packed() {
		return v.pix[at:][:v.w*v.c]
	}
	out := grow(buf, v.w*v.c)
	if v.c == 1 {
		for x := range out {
			out[x] = v.pix[at+x*v.col]
		}
		return out
	}
	for i := 0; i < len(out); i += 3 {
		out[i], out[i+1], out[i+2] = v.pix[at], v.pix[at+v.plane], v.pix[at+2*v.plane]
		at += v.col
	}
	return out
}

// packed reports whether every row of v is stored as [w,c].
func (v view) packed() bool { return v.col == v.c && (v.c == 1 || v.plane == 1) }

// crop narrows a view to a window.
func (v view) crop(x, y, w, h int) view {
	v.at += y*v.row + x*v.col
	v.w, v.h = w, h
	return v
}

// packedView is [h,w,c] in buf.
func packedView(buf []uint8, h, w, c int) view {
	return view{pix: buf, h: h, w: w, c: c, row: w * c, col: c, plane: 1}
}

// upright applies an EXIF orientation to v, without moving pixels.
func (v view) upright(orientation uint8) view {
	h, w, stored := pixels.Upright(orientation, v.h, v.w)
	index := func(y, x int) int {
		y, x = stored(y, x)
		return v.at + y*v.row + x*v.col
	}
	at := index(0, 0)
	v.row, v.col = index(1, 0)-at, index(0, 1)-at
	v.at, v.h, v.w = at, h, w
	return v
}

// grey converts v to one channel as Pillow's convert("L") does (ITU-R 601-2, in 16-bit fixed point).
func (v view) grey(buf *[]uint8) view {
	if v.c == 1 {
		return v
	}
	out := packedView(grow(buf, v.h*v.w), v.h, v.w, 1)
	i := 0
	for y := range v.h {
		for x := range v.w {
			at := v.at + y*v.row + x*v.col
			r, g, b := uint32(v.pix[at]), uint32(v.pix[at+v.plane]), uint32(v.pix[at+2*v.plane])
			out.pix[i] = uint8((19595*r + 38470*g + 7471*b + 0x8000) >> 16)
			i++
		}
	}
	return out
}

func grow(buf *[]uint8, n int) []uint8 {
	if cap(*buf) < n {
		*buf = make([]uint8, n)
	}
	return (*buf)[:n]
}

// centre returns where a crop of n begins in a side of size, rounding half to even as torchvision's
// center_crop does.
func centre(size, n int) int { return int(math.RoundToEven(float64(size-n) / 2)) }

// from returns where the crop of n begins in a side of size.
func (c *Crop) from(size, n int) int {
	if c.Round == Down {
		return (size - n) / 2
	}
	return centre(size, n)
}

// applyImage runs all steps on an image seen as v.
func applyImage[T number](p *Pipeline, v view, dst []T, t *tables[T]) error {
	g, err := p.geometry(v)
	if err != nil {
		return err
	}
	b := p.scratch.Get().(*buffers)
	defer p.scratch.Put(b)
	if g.w == v.w && g.h == v.h {
		v = v.crop(g.x, g.y, g.cw, g.ch)
		if g.c == 1 {
			v = v.grey(&b.grey)
		}
	} else {
		if g.c == 1 {
			v = v.grey(&b.grey)
		}
		v = b.resize(v, g, p.spec.Resize, &b.resized)
	}
	reverse := p.spec.Color == BGR
	nhwc := p.axes.order == NHWC
	for k := range g.c {
		from := 0 // grey is used for all channels
		if v.c == 3 {
			from = k
			if reverse {
				from = 2 - k
			}
		}
		plane, step := dst[k*g.outH*g.outW:], 1
		if nhwc {
			plane, step = dst[k:], g.c
		}
		if g.outW > v.w || g.outH > v.h {
			for i := range g.outH * g.outW {
				plane[i*step] = t.pad[k]
			}
		}
		write(plane[(g.top*g.outW+g.left)*step:], step, g.outW, v, from, &t.of[k])
	}
	return nil
}

// write writes one channel of v to every step-th element of dst, whose rows have width of these.
func write[T any](dst []T, step, width int, v view, channel int, t *[256]T) {
	if v.row == v.w*v.col && width == v.w { // rows without gaps are one long row
		v.w, v.h = v.w*v.h, 1
	}
	for y := range v.h {
		at := v.at + y*v.row + channel*v.plane
		d := dst[y*width*step:]
		if v.col == 1 && step == 1 {
			src, d := v.pix[at:][:v.w], d[:v.w]
			for x, b := range src {
				d[x] = t[b]
			}
			continue
		}
		for x := range v.w {
			d[x*step] = t[v.pix[at+x*v.col]]
		}
	}
}
