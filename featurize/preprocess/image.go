package preprocess

import (
	"fmt"
	"math"
)

// maxPixels bounds what a resize may make of an image; one of a single column
// would otherwise become endlessly long.
const maxPixels = 100_000_000

// A view reads pixel channel k at (x,y) as pix[y*row + x*col + k*plane].
type view struct {
	pix             []uint8
	h, w, c         int
	row, col, plane int
}

// viewOf returns m's pixels. ok is false where m is not an image.
func viewOf(m Image) (v view, ok bool, err error) {
	pix, isBytes := m.Data.([]uint8)
	if !isBytes || m.Layout == None {
		return v, false, nil
	}
	s := m.Shape
	switch {
	case m.Layout == HW && len(s) == 2:
		v = view{h: s[0], w: s[1], c: 1, row: s[1], col: 1}
	case m.Layout == HWC && len(s) == 3:
		v = view{h: s[0], w: s[1], c: s[2], row: s[1] * s[2], col: s[2], plane: 1}
	case m.Layout == CHW && len(s) == 3:
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

// packed reports whether v's pixels lie as [h,w,c].
func (v view) packed() bool {
	return v.row == v.w*v.c && v.col == v.c && (v.c == 1 || v.plane == 1)
}

// crop narrows a view to a window.
func (v view) crop(x, y, w, h int) view {
	v.pix = v.pix[y*v.row+x*v.col:]
	v.w, v.h = w, h
	return v
}

// packedView is [h,w,c] in buf.
func packedView(buf []uint8, h, w, c int) view {
	return view{pix: buf, h: h, w: w, c: c, row: w * c, col: c, plane: 1}
}

// pack copies v to [h,w,c] in buf.
func (v view) pack(buf *[]uint8) view {
	out := packedView(grow(buf, v.h*v.w*v.c), v.h, v.w, v.c)
	i := 0
	for y := range v.h {
		for x := range v.w {
			for k := range v.c {
				out.pix[i] = v.pix[y*v.row+x*v.col+k*v.plane]
				i++
			}
		}
	}
	return out
}

// turned returns v as it was taken, by its EXIF orientation.
func (v view) turned(orientation uint8) view {
	// The pixel that comes to (x,y).
	var source func(x, y int) (int, int)
	right, bottom := v.w-1, v.h-1
	switch orientation {
	case 2:
		source = func(x, y int) (int, int) { return right - x, y }
	case 3:
		source = func(x, y int) (int, int) { return right - x, bottom - y }
	case 4:
		source = func(x, y int) (int, int) { return x, bottom - y }
	case 5:
		source = func(x, y int) (int, int) { return y, x }
	case 6:
		source = func(x, y int) (int, int) { return y, bottom - x }
	case 7:
		source = func(x, y int) (int, int) { return right - y, bottom - x }
	case 8:
		source = func(x, y int) (int, int) { return right - y, x }
	default:
		return v
	}
	h, w := v.h, v.w
	if orientation >= 5 {
		h, w = w, h
	}
	out := packedView(make([]uint8, h*w*v.c), h, w, v.c)
	i := 0
	for y := range h {
		for x := range w {
			fromX, fromY := source(x, y)
			for k := range v.c {
				out.pix[i] = v.pix[fromY*v.row+fromX*v.col+k*v.plane]
				i++
			}
		}
	}
	return out
}

// grey returns v in one channel, weighted as Pillow's convert("L") does (ITU-R
// 601-2, in 16-bit fixed point).
func (v view) grey(buf *[]uint8) view {
	if v.c == 1 {
		return v
	}
	out := packedView(grow(buf, v.h*v.w), v.h, v.w, 1)
	i := 0
	for y := range v.h {
		for x := range v.w {
			p := v.pix[y*v.row+x*v.col:]
			r, g, b := uint32(p[0]), uint32(p[v.plane]), uint32(p[2*v.plane])
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

// centre returns where a crop of n begins in a side of size, rounding as
// torchvision's center_crop does: half to even.
func centre(size, n int) int { return int(math.RoundToEven(float64(size-n) / 2)) }

// from returns where the crop of n begins in a side of size.
func (c *Crop) from(size, n int) int {
	if c.Round == Down {
		return (size - n) / 2
	}
	return centre(size, n)
}

// applyImage runs all steps on an image seen as v.
func applyImage[T number](p *Pipeline, m Image, v view, dst []T, t *tables[T]) error {
	g, err := p.geometry(m, v)
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
		if !v.packed() {
			v = v.pack(&b.packed)
		}
		v = b.resize(v, g, p.spec.Resize, &b.resized)
	}
	reverse := p.spec.Color == BGR
	nhwc := p.axes.order == NHWC
	for k := range g.c {
		from := 0 // grey serves all channels
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

// write puts one channel of v into every step-th element of dst, whose rows hold so many of these.
func write[T any](dst []T, step, width int, v view, channel int, t *[256]T) {
	if v.row == v.w*v.col && width == v.w { // rows without gaps are one long row
		v.w, v.h = v.w*v.h, 1
	}
	for y := range v.h {
		src := v.pix[y*v.row+channel*v.plane:]
		d := dst[y*width*step:]
		if v.col == 1 && step == 1 {
			src, d = src[:v.w], d[:v.w]
			for x, b := range src {
				d[x] = t[b]
			}
			continue
		}
		for x := range v.w {
			d[x*step] = t[src[x*v.col]]
		}
	}
}
