package pixels

import (
	"image"
	"sync"
)

// Most colour JPEGs store chroma at half the resolution. Go's image package repeats the samples; libjpeg,
// and with it Pillow, torchvision and TensorFlow by default, interpolates them ("fancy upsampling",
// jdsample.c). Pixels differ by up to 25 of 255, so this file follows libjpeg.

// ycbcrToRGB converts m to interleaved RGB in pix.
func ycbcrToRGB(pix []uint8, m *image.YCbCr) {
	t := jfifTables()
	w, h := m.Rect.Dx(), m.Rect.Dy()
	up := newUpsampler(m)
	cb, cr := make([]uint8, w), make([]uint8, w)
	for y := range h {
		up.row(cb, m.Cb, y)
		up.row(cr, m.Cr, y)
		luma, out := m.Y[y*m.YStride:][:w], pix[3*w*y:][:3*w]
		cb, cr := cb[:len(luma)], cr[:len(luma)]
		for x, l := range luma {
			b, r, o := cb[x], cr[x], out[:3]
			out = out[3:]
			y := int32(l)
			o[0] = clamp(y + t.red[r])
			o[1] = clamp(y + (t.greenB[b]+t.greenR[r])>>16)
			o[2] = clamp(y + t.blue[b])
		}
	}
}

func clamp(v int32) uint8 {
	if uint32(v) <= 255 { // nearly always
		return uint8(v)
	}
	return uint8(^(v >> 31)) // 0 below, 255 above
}

// chroma are libjpeg's tables (jdcolor.c), green with 16 fractional bits.
type chroma struct{ red, blue, greenB, greenR [256]int32 }

var jfifTables = sync.OnceValue(func() *chroma {
	const half = 1 << 15
	t := new(chroma)
	for i := range t.red {
		x := int32(i) - 128
		t.red[i] = (91881*x + half) >> 16   // 1.40200
		t.blue[i] = (116130*x + half) >> 16 // 1.77200
		t.greenR[i] = -46802 * x            // 0.71414
		t.greenB[i] = -22554*x + half       // 0.34414
	}
	return t
})

// An upsampler interpolates chroma planes to full resolution, row by row.
type upsampler struct {
	w, h             int // of the chroma plane, without the decoder's padding
	stride           int
	sx, sy           int     // luma samples per chroma sample
	smoothX, smoothY bool    // interpolate rather than repeat
	sums             []int32 // of a row, after the vertical step
}

func newUpsampler(m *image.YCbCr) *upsampler {
	sx, sy := 1, 1
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		sx = 2
	case image.YCbCrSubsampleRatio420:
		sx, sy = 2, 2
	case image.YCbCrSubsampleRatio440:
		sy = 2
	case image.YCbCrSubsampleRatio411:
		sx = 4
	case image.YCbCrSubsampleRatio410:
		sx, sy = 4, 2
	}
	u := &upsampler{
		w: (m.Rect.Dx() + sx - 1) / sx, h: (m.Rect.Dy() + sy - 1) / sy,
		stride: m.CStride, sx: sx, sy: sy,
	}
	// libjpeg repeats samples in planes of one or two columns.
	u.smoothX = sx == 2 && u.w > 2
	u.smoothY = sy == 2 && (sx == 1 || u.smoothX)
	u.sums = make([]int32, u.w)
	return u
}

// row writes row y of the full-resolution plane to dst. Interpolation adds 3/4 of the nearer sample and 1/4 of
// the further, first vertically, then horizontally; edge samples are repeated. The biases are libjpeg's: they
// alternate, so that rounding is unbiased.
func (u *upsampler) row(dst, plane []uint8, y int) {
	near := plane[y/u.sy*u.stride:][:u.w]
	if !u.smoothX && !u.smoothY {
		for x := range dst {
			dst[x] = near[x/u.sx]
		}
		return
	}
	sums := u.sums[:len(near)]
	if u.smoothY {
		other := min(max(y/2-1+y%2*2, 0), u.h-1)
		far := plane[other*u.stride:][:len(near)]
		for x, n := range near {
			sums[x] = 3*int32(n) + int32(far[x])
		}
	} else {
		for x, n := range near {
			sums[x] = int32(n)
		}
	}
	switch {
	case !u.smoothX:
		for x, s := range sums {
			dst[x] = uint8((s + 1 + int32(y%2)) >> 2)
		}
	case u.smoothY:
		double(dst, sums, 8, 7, 4)
	default:
		double(dst, sums, 1, 2, 2)
	}
}

// double interpolates between sums, writing two bytes for each.
func double(dst []uint8, sums []int32, left, right, shift int32) {
	before, s := sums[0], sums[0]
	x := 0
	for _, after := range sums[1:] {
		d := dst[x:][:2]
		d[0] = uint8((3*s + before + left) >> shift)
		d[1] = uint8((3*s + after + right) >> shift)
		before, s = s, after
		x += 2
	}
	dst[x] = uint8((3*s + before + left) >> shift)
	if x++; x < len(dst) {
		dst[x] = uint8((4*s + right) >> shift)
	}
}
