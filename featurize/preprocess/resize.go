package preprocess

import (
	"math"
	"slices"
)

// Resampling equals Pillow's (src/libImaging/Resample.c) to the last bit: two passes, horizontal first, each
// with a kernel stretched by the reduction so that downscaling averages (antialiasing), fixed-point weights
// of 22 bits, and rounding to 8 bits after either pass. PyTorch's resampling of byte tensors
// (aten/src/ATen/native/cpu/UpSampleKernel.cpp) is the same with weights of 16 bits.
const precision = 32 - 8 - 2

// A kernel holds the weights of one pass for outputs from…to-1: output i takes
// weight[i·taps+j] of input first[i]+j, for j < n[i].
type kernel struct {
	precision int // fractional bits of a weight
	taps      int
	first, n  []int
	weight    []int32
}

// A resampler is reusable working memory.
type resampler struct {
	horizontal, vertical kernel
	line, middle         []uint8
	acc                  []int32
	rows, columns        []int
}

// set computes the weights for outputs from…to-1 of a side scaled from in to out.
func (k *kernel) set(in, out, from, to int, r *Resize) {
	scale := float64(in) / float64(out)
	stretch := max(scale, 1)
	weigh, support := r.Filter.kernel()
	support *= stretch
	k.taps = int(math.Ceil(support))*2 + 1
	k.first, k.n, k.weight = k.first[:0], k.n[:0], k.weight[:0]
	w := make([]float64, k.taps)
	// one computes the weights of output i, and returns the first input that they apply to.
	one := func(i int) (first, n int) {
		middle := (float64(i) + 0.5) * scale
		first = max(int(middle-support+0.5), 0)
		n = min(int(middle+support+0.5), in) - first
		sum := 0.
		for j := range n {
			w[j] = weigh((float64(j+first) - middle + 0.5) * (1 / stretch))
			sum += w[j]
		}
		for j := range n {
			if sum != 0 {
				w[j] /= sum
			}
		}
		return first, n
	}
	k.precision = precision
	if r.Arithmetic == Torch {
		largest := 0.
		for i := range out {
			_, n := one(i)
			largest = max(largest, slices.Max(w[:n]))
		}
		k.precision = torchPrecision(largest)
	}
	for i := from; i < to; i++ {
		first, n := one(i)
		k.first, k.n = append(k.first, first), append(k.n, n)
		for j := range k.taps {
			var fixed int32
			if j < n {
				fixed = int32(math.Copysign(0.5, w[j]) + w[j]*float64(int64(1)<<k.precision))
			}
			k.weight = append(k.weight, fixed)
		}
	}
}

// torchPrecision returns the fractional bits of PyTorch's 16-bit weights, which depend on the largest.
func torchPrecision(largest float64) (bits int) {
	for bits < precision && int(0.5+largest*float64(int64(2)<<bits)) < 1<<15 {
		bits++
	}
	return bits
}

// kernel returns the filter's weight at a distance in pixels, and its support.
func (f Filter) kernel() (weigh func(float64) float64, support float64) {
	switch f {
	case Bicubic:
		return cubic, 2
	case Lanczos:
		return lanczos, 3
	case Box:
		return box, 0.5
	case Hamming:
		return hamming, 1
	}
	return triangle, 1
}

// box is 1 in (−½, ½].
func box(x float64) float64 {
	if x > -0.5 && x <= 0.5 {
		return 1
	}
	return 0
}

// hamming is the sinc in a Hamming window, of support 1.
func hamming(x float64) float64 {
	x = math.Abs(x)
	switch {
	case x == 0:
		return 1
	case x >= 1:
		return 0
	}
	x *= math.Pi
	return math.Sin(x) / x * (0.54 + 0.46*math.Cos(x))
}

// lanczos is the sinc windowed by a sinc three times as wide.
func lanczos(x float64) float64 {
	if x < -3 || x >= 3 {
		return 0
	}
	return sinc(x) * sinc(x/3)
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

func triangle(x float64) float64 { return max(1-math.Abs(x), 0) }

// cubic is Keys' kernel with a = −1/2, of support 2.
func cubic(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return (((x-5)*x+8)*x - 4) * a
	}
	return 0
}

// clip8 converts a fixed-point sum, which includes the rounding half, to a byte.
func (k *kernel) clip8(sum int32) uint8 { return uint8(min(max(sum>>k.precision, 0), 255)) }

func (k *kernel) half() int32 { return 1 << (k.precision - 1) }

// resize scales v to g.w × g.h and returns g's crop of it, in buf. It computes only what the crop needs.
func (r *resampler) resize(v view, g geometry, how *Resize, buf *[]uint8) view {
	if how.Filter == Nearest {
		return r.nearest(v, g, buf)
	}
	// As in Pillow, a pass that does not change its side is skipped.
	top, rows := g.y, g.ch // of the input, for the horizontal pass
	down := g.h != v.h
	if down {
		k := &r.vertical
		k.set(v.h, g.h, g.y, g.y+g.ch, how)
		last := len(k.first) - 1
		top = k.first[0]
		rows = k.first[last] + k.n[last] - top
	}
	if g.w == v.w {
		v = v.crop(g.x, top, g.cw, rows)
		if !v.packed() {
			out := packedView(grow(&r.middle, rows*g.cw*v.c), rows, g.cw, v.c)
			for y := range rows {
				copy(out.pix[y*out.row:], v.line(y, &r.line))
			}
			v = out
		}
	} else {
		r.horizontal.set(v.w, g.w, g.x, g.x+g.cw, how)
		out := packedView(grow(&r.middle, rows*g.cw*v.c), rows, g.cw, v.c)
		for y := range rows {
			src, dst := v.line(top+y, &r.line), out.pix[y*out.row:][:out.row]
			if v.c == 3 {
				r.horizontal.along3(dst, src)
			} else {
				r.horizontal.along(dst, src)
			}
		}
		v = out
	}
	if !down {
		return v
	}
	out := packedView(grow(buf, g.ch*g.cw*v.c), g.ch, g.cw, v.c)
	r.across(out, v, top)
	return out
}

// along runs the kernel along a grey row.
func (k *kernel) along(dst, src []uint8) {
	for i := range dst {
		w := k.weight[i*k.taps:][:k.n[i]]
		s := src[k.first[i]:][:len(w)]
		sum := k.half()
		for j, wj := range w {
			sum += int32(s[j]) * wj
		}
		dst[i] = k.clip8(sum)
	}
}

// along3 runs the kernel along a row of three interleaved channels.
func (k *kernel) along3(dst, src []uint8) {
	for i := range k.n {
		w := k.weight[i*k.taps:][:k.n[i]]
		s := src[3*k.first[i]:][:3*len(w)]
		s0, s1, s2 := k.half(), k.half(), k.half()
		for _, wj := range w {
			s0 += int32(s[0]) * wj
			s1 += int32(s[1]) * wj
			s2 += int32(s[2]) * wj
			s = s[3:]
		}
		d := dst[3*i:][:3]
		d[0], d[1], d[2] = k.clip8(s0), k.clip8(s1), k.clip8(s2)
	}
}

// across runs the vertical kernel down all columns of v, whose row 0 is input row top.
func (r *resampler) across(out, v view, top int) {
	k := &r.vertical
	if cap(r.acc) < out.row {
		r.acc = make([]int32, out.row)
	}
	acc := r.acc[:out.row]
	for i := range k.n {
		for x := range acc {
			acc[x] = k.half()
		}
		for j, w := range k.weight[i*k.taps:][:k.n[i]] {
			src := v.pix[v.at+(k.first[i]+j-top)*v.row:][:len(acc)]
			for x, b := range src {
				acc[x] += int32(b) * w
			}
		}
		dst := out.pix[i*out.row:][:len(acc)]
		for x, sum := range acc {
			dst[x] = k.clip8(sum)
		}
	}
}

// nearest takes the pixel under each output pixel's centre. Positions are added up step by step as in Pillow,
// because rounding shows at boundaries.
func (r *resampler) nearest(v view, g geometry, buf *[]uint8) view {
	r.columns = positions(r.columns, v.w, g.w)
	r.rows = positions(r.rows, v.h, g.h)
	out := packedView(grow(buf, g.ch*g.cw*v.c), g.ch, g.cw, v.c)
	i := 0
	for _, y := range r.rows[g.y:][:g.ch] {
		for _, x := range r.columns[g.x:][:g.cw] {
			for k := range v.c {
				out.pix[i] = v.pix[v.at+y*v.row+x*v.col+k*v.plane]
				i++
			}
		}
	}
	return out
}

func positions(buf []int, in, out int) []int {
	buf = buf[:0]
	step := float64(in) / float64(out)
	at := step * 0.5
	for range out {
		buf = append(buf, min(int(at), in-1))
		at += step
	}
	return buf
}
