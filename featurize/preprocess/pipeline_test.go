package preprocess

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// randomImage makes an image of the given layout.
func randomImage(r *rand.Rand, layout tensor.Layout, h, w, c int) Image {
	pix := make([]uint8, h*w*c)
	for i := range pix {
		pix[i] = uint8(r.Uint32())
	}
	switch layout {
	case tensor.HW:
		return Image{Shape: []int{h, w}, Layout: tensor.HW, Data: pix}
	case tensor.HWC:
		return Image{Shape: []int{h, w, c}, Layout: tensor.HWC, Data: pix}
	}
	return Image{Shape: []int{c, h, w}, Layout: tensor.CHW, Data: pix}
}

// pixel reads channel k of (x,y) by the meaning of the axes.
func pixel(m Image, x, y, k int) float64 {
	pix := m.Data.([]uint8)
	switch m.Layout {
	case tensor.HW:
		return float64(pix[y*m.Shape[1]+x])
	case tensor.HWC:
		return float64(pix[(y*m.Shape[1]+x)*m.Shape[2]+k])
	}
	return float64(pix[(k*m.Shape[1]+y)*m.Shape[2]+x])
}

// side returns an image's height, 0, or width, 1.
func (m Image) side(i int) int {
	if m.Layout == tensor.CHW {
		i++
	}
	return m.Shape[i]
}

// naive computes one output number without resize: pad, crop, colour, scale.
func naive(m Image, s Spec, channels, x, y, k int) float64 {
	in := 3
	if m.Layout == tensor.HW || m.Layout == tensor.HWC && m.Shape[2] == 1 || m.Layout == tensor.CHW && m.Shape[0] == 1 {
		in = 1
	}
	var v float64
	switch {
	case s.Pad != nil && (x < 0 || y < 0 || x >= m.side(1) || y >= m.side(0)):
		v = s.Pad.Value
	case in == 1:
		v = pixel(m, x, y, 0)
	case channels == 1:
		r, g, b := pixel(m, x, y, 0), pixel(m, x, y, 1), pixel(m, x, y, 2)
		v = math.Floor((19595*r + 38470*g + 7471*b + 32768) / 65536)
	case s.Color == BGR:
		v = pixel(m, x, y, 2-k)
	default:
		v = pixel(m, x, y, k)
	}
	pick := func(l []float64, otherwise float64) float64 {
		if len(l) == 0 {
			return otherwise
		}
		return l[k%len(l)]
	}
	if s.Scale != 0 {
		v *= s.Scale
	}
	return (v - pick(s.Mean, 0)) / pick(s.Std, 1)
}

// Every layout, colour and target against a twin that computes one number at a time.
func TestApplyEqualsNaive(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	const h, w = 6, 9
	checked := 0
	for _, img := range []Image{
		randomImage(r, tensor.HW, h, w, 1), randomImage(r, tensor.HWC, h, w, 1), randomImage(r, tensor.HWC, h, w, 3),
		randomImage(r, tensor.CHW, h, w, 1), randomImage(r, tensor.CHW, h, w, 3),
	} {
		for _, color := range []Color{RGB, BGR, Grey} {
			for _, order := range []Order{NCHW, NHWC} {
				for _, window := range []string{"whole", "crop", "bars above and below", "a bar on the right"} {
					for _, form := range []string{"image", "flat", "plane"} {
						c, oh, ow, dx, dy := color.channels(), h, w, 0, 0
						s := Spec{Color: color, Layout: order, Scale: 1. / 128, Mean: []float64{.25}}
						if c == 3 {
							s.Mean, s.Std = []float64{.1, .2, .3}, []float64{1, 2, 3}
						}
						switch window {
						case "crop":
							oh, ow = 4, 4 // 2.5 columns to either side: half to even is 2
							dx, dy = 2, 1
							s.Crop = &Crop{Size: 4}
						case "bars above and below":
							oh, dy = 13, -4 // 3.5 rows: half to even is 4
							s.Resize, s.Pad = &Resize{Width: ow, Height: oh, Mode: Fit}, &Pad{Value: 127.5}
						case "a bar on the right":
							ow = 11
							s.Resize, s.Pad = &Resize{Width: ow, Height: oh, Mode: Height},
								&Pad{Value: 3, Position: Corner}
						}
						shape := []int64{-1, int64(c), int64(oh), int64(ow)}
						if order == NHWC {
							shape = []int64{-1, int64(oh), int64(ow), int64(c)}
						}
						switch {
						case form == "flat":
							shape = []int64{-1, int64(c * oh * ow)}
						case form == "plane" && c == 1:
							shape = []int64{-1, int64(oh), int64(ow)}
						}
						p, err := New(s, Target{Shape: shape, Type: tensor.Float32})
						if err != nil {
							t.Fatal(err)
						}
						got := make([]float32, p.Len())
						double := make([]float64, p.Len())
						if err := errors.Join(p.Apply(img, got), p.Apply(img, double)); err != nil {
							t.Fatal(err)
						}
						for i := range got {
							k, y, x := i/(oh*ow), i/ow%oh, i%ow
							if order == NHWC {
								y, x, k = i/(ow*c), i/c%ow, i%c
							}
							want := naive(img, s, c, x+dx, y+dy, k)
							if got[i] != float32(want) || double[i] != want {
								t.Fatalf("%v to %s %v %v %s: (%d,%d,%d) is %v, want %v", img, color, order, shape, window, x, y, k, got[i], want)
							}
							checked++
						}
					}
				}
			}
		}
	}
	if checked == 0 {
		t.Error("nothing checked")
	}
}

// Resizing and cropping computes the crop only; it equals resizing whole, then
// cropping. Planar and interleaved sources give the same.
func TestCropOfResizeEqualsWholeResize(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, filter := range []Filter{Nearest, Bilinear, Bicubic} {
		for _, size := range [][2]int{{31, 17}, {16, 40}, {12, 12}, {5, 9}, {12, 30}} {
			for _, c := range []int{1, 3} {
				img := randomImage(r, tensor.HWC, size[0], size[1], c)
				planar := Image{Shape: []int{c, size[0], size[1]}, Layout: tensor.CHW}
				planar.Data = make([]uint8, len(img.Data.([]uint8)))
				for i, v := range img.Data.([]uint8) {
					planar.Data.([]uint8)[i%c*size[0]*size[1]+i/c] = v
				}
				resize := &Resize{Size: 12, Filter: filter, Mode: Shortest}
				w, h := resize.to(size[1], size[0], false)
				run := func(s Spec, m Image, h, w int) []uint8 {
					t.Helper()
					p, err := New(s, Target{Shape: []int64{-1, int64(h), int64(w), int64(c)}, Type: tensor.Uint8})
					if err != nil {
						t.Fatal(err)
					}
					dst := make([]uint8, p.Len())
					if err := p.Apply(m, dst); err != nil {
						t.Fatal(err)
					}
					return dst
				}
				whole := run(Spec{Layout: NHWC, Resize: resize}, img, h, w)
				s := Spec{Layout: NHWC, Resize: resize, Crop: &Crop{Width: 7, Height: 10}}
				got := run(s, img, 10, 7)
				x0, y0 := centre(w, 7), centre(h, 10)
				for i, v := range got {
					k, x, y := i%c, i/c%7, i/c/7
					if want := whole[((y+y0)*w+x+x0)*c+k]; v != want {
						t.Fatalf("%s of %v×%d: (%d,%d,%d) is %d, want %d", filter, size, c, x, y, k, v, want)
					}
				}
				if !slices.Equal(run(s, planar, 10, 7), got) {
					t.Errorf("%s of %v×%d: planes differ from interleaved pixels", filter, size, c)
				}
			}
		}
	}
}

// What OCR's rule makes of lines of text, worked out by hand: one height, the width
// rounded up and squeezed where it is too much. Of a column fit leaves one pixel.
func TestSidesOfFitAndHeight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		resize   Resize
		w, h     int
		toW, toH int
	}{
		{Resize{Width: 192, Height: 48, Mode: Height}, 100, 40, 120, 48},
		{Resize{Width: 192, Height: 48, Mode: Height}, 101, 41, 119, 48}, // 118.2
		{Resize{Width: 192, Height: 48, Mode: Height}, 400, 20, 192, 48},
		{Resize{Width: 192, Height: 48, Mode: Height}, 1, 16000, 1, 48},
		{Resize{Width: 192, Height: 48, Mode: Height}, 16000, 1, 192, 48},
		{Resize{Size: 640, Mode: Fit}, 1280, 720, 640, 360},
		{Resize{Size: 640, Mode: Fit}, 100, 300, 213, 640}, // 213.3
		{Resize{Size: 640, Mode: Fit}, 32, 32, 640, 640},
		{Resize{Size: 10, Mode: Fit}, 4, 3, 10, 8}, // 7.5, half to even
		{Resize{Size: 10, Mode: Fit}, 4, 1, 10, 2}, // 2.5
		{Resize{Size: 16, Mode: Fit}, 1, 16000, 1, 16},
		{Resize{Size: 16, Mode: Fit}, 16000, 1, 16, 1},
	} {
		if w, h := c.resize.to(c.w, c.h, false); w != c.toW || h != c.toH {
			t.Errorf("%+v of %d×%d: %d×%d, want %d×%d", c.resize, c.w, c.h, w, h, c.toW, c.toH)
		}
	}
}

// torchvision: the longer side is truncated, the crop's corner rounded half to even.
func TestTorchvisionRounding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ w, h, size, toW, toH int }{
		{500, 375, 256, 341, 256}, {375, 500, 256, 256, 341}, {224, 224, 256, 256, 256}, {3, 100, 10, 10, 333},
		{100000, 1, 16384, 1638400000, 16384},
	} {
		if w, h := (&Resize{Size: c.size}).to(c.w, c.h, false); w != c.toW || h != c.toH {
			t.Errorf("%d×%d becomes %d×%d, want %d×%d", c.w, c.h, w, h, c.toW, c.toH)
		}
	}
	for _, c := range []struct{ size, crop, at int }{{256, 224, 16}, {341, 224, 58}, {227, 224, 2}, {225, 224, 0},
		{229, 224, 2}} {
		if got := centre(c.size, c.crop); got != c.at {
			t.Errorf("crop of %d from %d begins at %d, want %d", c.crop, c.size, got, c.at)
		}
	}
}

func TestReadyArraysPassUnchanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shape    []int
		data     any
		target   []int64
		elem     tensor.Type
		dst      any
		want     any
		errWords string
	}{
		{[]int{2, 2}, []float32{1, 2, 3, 4}, []int64{-1, 2, 2}, tensor.Float32, make([]float32, 4),
			[]float32{1, 2, 3, 4}, ""},
		{[]int{2, 2}, []float32{1, 2, 3, 4}, []int64{-1, 1, 2, 2}, tensor.Float32, make([]float32, 4),
			[]float32{1, 2, 3, 4}, ""},
		{[]int{2, 2}, []float32{1, 2, 3, 4}, []int64{-1, 4}, tensor.Float32, make([]float32, 4), []float32{1, 2, 3, 4},
			""},
		{[]int{2, 2}, []float64{1, 2, 3, math.Pi}, []int64{-1, 2, 2}, tensor.Float32, make([]float32, 4),
			[]float32{1, 2, 3, math.Pi}, ""},
		{[]int{2}, []float64{1, math.Pi}, []int64{-1, 2}, tensor.Float64, make([]float64, 2), []float64{1, math.Pi}, ""},
		{[]int{2}, []int32{-7, 9}, []int64{-1, 2}, tensor.Int64, make([]int64, 2), []int64{-7, 9}, ""},
		{[]int{2}, []uint8{7, 9}, []int64{-1, 2}, tensor.Int64, make([]int64, 2), []int64{7, 9}, ""},
		{[]int{2}, []uint8{0, 255}, []int64{-1, 2}, tensor.Float32, make([]float32, 2), []float32{0, 1}, ""},
		{[]int{2}, []int32{-7, 9}, []int64{-1, 2}, tensor.Float32, make([]float32, 2), []float32{-7, 9}, ""},
		{[]int{2}, []bool{true, false}, []int64{-1, 2}, tensor.Bool, make([]bool, 2), []bool{true, false}, ""},
		{[]int{}, []float32{3}, []int64{-1}, tensor.Float32, make([]float32, 1), []float32{3}, ""},
		{[]int{2, 2, 2, 1}, []float32{1, 2, 3, 4, 5, 6, 7, 8}, []int64{-1, 2, 2, 2, 1}, tensor.Float32,
			make([]float32, 8), []float32{1, 2, 3, 4, 5, 6, 7, 8}, ""},
		{[]int{2}, []int64{7, 1 << 40}, []int64{-1, 2}, tensor.Int32, make([]int32, 2), nil, "value 1099511627776 does not fit int32"},
		{[]int{2}, []int64{7, -1}, []int64{-1, 2}, tensor.Uint64, make([]uint64, 2), nil, "value -1 does not fit uint64"},
		{[]int{2}, []int32{7, 1<<24 + 1}, []int64{-1, 2}, tensor.Float32, make([]float32, 2), []float32{7, 1 << 24}, ""},
		{[]int{2}, []float64{math.Inf(1), math.NaN()}, []int64{-1, 2}, tensor.Int64, make([]int64, 2), nil, "real numbers"},
		{[]int{2}, []float64{math.Inf(1), 3e38}, []int64{-1, 2}, tensor.Float32, make([]float32, 2),
			[]float32{float32(math.Inf(1)), 3e38}, ""},
		{[]int{2}, []float64{1, -1e39}, []int64{-1, 2}, tensor.Float32, make([]float32, 2), nil, "value -1e+39 does not fit float32"},
		{[]int{2}, []bool{true, false}, []int64{-1, 2}, tensor.Int64, make([]int64, 2), []int64{1, 0}, ""},
		{[]int{2}, []int64{1, 0}, []int64{-1, 2}, tensor.Bool, make([]bool, 2), []bool{true, false}, ""},
		{[]int{2}, []int64{1, 2}, []int64{-1, 2}, tensor.Bool, make([]bool, 2), nil, "value 2 is neither 0 nor 1"},
		{[]int{2}, []int64{1, -1}, []int64{-1, 2}, tensor.Bool, make([]bool, 2), nil, "value -1 does not fit uint8"},
		{[]int{1}, []string{"a"}, []int64{-1, 1}, tensor.String, make([]string, 1), []string{"a"}, ""},
		{[]int{}, []string{"a"}, []int64{-1, 1}, tensor.String, make([]string, 1), []string{"a"}, ""},
		{[]int{1}, []int64{1}, []int64{-1, 1}, tensor.String, make([]string, 1), nil, "it takes strings"},
		{[]int{1}, []string{"a"}, []int64{-1, 1}, tensor.Float32, make([]float32, 1), nil, "no conversion from []string to []float32"},
		{[]int{2}, []float32{7, 1}, []int64{-1, 2}, tensor.Int64, make([]int64, 2), nil, "real numbers"},
		{[]int{2}, []float32{7, 1}, []int64{-1, 2}, tensor.Bool, make([]bool, 2), nil, "real numbers"},
		{[]int{3}, []float32{1, 2, 3}, []int64{-1, 2}, tensor.Float32, make([]float32, 2), nil, "array [3] of float32 does not fit the model's input x [N,2] float32"},
		{[]int{2, 3}, make([]float32, 6), []int64{-1, 3, 2}, tensor.Float32, make([]float32, 6), nil, "array [2,3] of float32 does not fit"},
		{[]int{2, 3}, make([]float32, 5), []int64{-1, 2, 3}, tensor.Float32, make([]float32, 6), nil, "array of shape [2 3] holds 5 elements"},
	} {
		target := Target{Name: "x", Shape: c.target, Type: c.elem}
		p, err := New(For(target), target)
		if err != nil {
			t.Fatal(err)
		}
		err = p.Apply(Image{Shape: c.shape, Data: c.data}, c.dst)
		switch {
		case c.errWords != "":
			if err == nil || !strings.Contains(err.Error(), c.errWords) {
				t.Errorf("%v to %v: %v, want %s", c.data, c.target, err, c.errWords)
			}
		case err != nil || !reflect.DeepEqual(c.dst, c.want):
			t.Errorf("%v to %v: %v, %v; want %v", c.data, c.target, c.dst, err, c.want)
		}
	}
}

// Nothing is resized, cropped or reinterpreted unasked.
func TestImagesThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		img   Image
		spec  *Spec // nil is the default
		shape []int64
		elem  tensor.Type
		want  string
	}{
		{randomImage(r, tensor.HW, 28, 28, 1), nil, []int64{-1, 3, 224, 224}, tensor.Float32,
			"a 28×28 grey image does not fit the model's input x [N,3,224,224] float32: images are not resized automatically: give Preprocess with a resize"},
		{randomImage(r, tensor.HW, 28, 28, 1), nil, []int64{-1, 64}, tensor.Float32, "a 28×28 grey image does not fit the model's input x [N,64] float32"},
		{randomImage(r, tensor.HWC, 10, 12, 3), nil, []int64{-1, 3, 12, 10}, tensor.Float32, "a 10×12 colour image does not fit"},
		{randomImage(r, tensor.HWC, 4, 4, 3), nil, []int64{-1, 48}, tensor.Float32, "say layout NCHW or NHWC"},
		{randomImage(r, tensor.HWC, 4, 4, 3), nil, []int64{-1, 4, 84, 84}, tensor.Float32, "a 4×4 colour image does not fit the model's input x [N,4,84,84] float32: it has 4 channels as NCHW, and images have 1 or 3"},
		{randomImage(r, tensor.HWC, 4, 4, 3), nil, []int64{-1, 4, 4, 3}, tensor.Int64, ""},
		{randomImage(r, tensor.HWC, 4, 6, 3), &Spec{Crop: &Crop{Size: 5}}, []int64{-1, 3, 5, 5}, tensor.Float32, "smaller than the crop of 5×5: put a resize before it"},
		{randomImage(r, tensor.HWC, 1, 9000, 3), &Spec{Resize: &Resize{Size: 16000}, Crop: &Crop{Size: 5}},
			[]int64{-1, 3, 5, 5}, tensor.Float32, "would make 16000×144000000 pixels"},
		{randomImage(r, tensor.HWC, 4, 6, 3), &Spec{Resize: &Resize{Size: 8}}, []int64{-1, 3, 8, 8}, tensor.Float32, "resize and crop leave another size"},
		{randomImage(r, tensor.HWC, 4, 6, 3), &Spec{Resize: &Resize{Size: 8, Mode: Fit}},
			[]int64{-1, 3, 8, 8}, tensor.Float32,
			"resize of mode fit leaves another size, and has no pad to fill it"},
		{Image{Shape: []int{4, 4, 5}, Layout: tensor.HWC, Data: make([]uint8, 80)}, nil,
			[]int64{-1, 3, 4, 4}, tensor.Float32,
			"want 1 or 3 channels"},
		{Image{Shape: []int{4, 4}, Data: make([]uint8, 16)}, &Spec{Mean: []float64{1, 2, 3}}, []int64{-1, 16},
			tensor.Float32,
			"has no image axes"},
	} {
		target := Target{Name: "x", Shape: c.shape, Type: c.elem}
		spec := For(target)
		if c.spec != nil {
			spec = *c.spec
		}
		p, err := New(spec, target)
		if err != nil {
			t.Fatal(err)
		}
		var dst any = make([]float32, p.Len())
		if c.elem == tensor.Int64 {
			dst = make([]int64, p.Len())
		}
		if err = p.Apply(c.img, dst); c.want == "" && err == nil {
			continue
		}
		if c.want == "" || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v to %v: %v, want %s", c.img, c.shape, err, c.want)
		}
	}
}

func TestSpecsThatDoNotSuitTheModelAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec  Spec
		shape []int64
		elem  tensor.Type
		want  string
	}{
		{Spec{Color: Grey}, []int64{-1, 3, 8, 8}, tensor.Float32, "color grey does not fit the model's input [N,3,8,8] float32, whose number of channels is 3"},
		{Spec{Color: RGB}, []int64{-1, 1, 8, 8}, tensor.Float32, "color RGB does not fit"},
		{Spec{Mean: []float64{1, 2, 3}}, []int64{-1, 1, 8, 8}, tensor.Float32, "color RGB does not fit"},
		{Spec{Flatten: true}, []int64{-1, 1, 8, 8}, tensor.Float32, "flatten does not fit"},
		{Spec{Scale: .5}, []int64{-1, 8, 8, 3}, tensor.Uint8, "which takes whole numbers"},
		{Spec{Crop: &Crop{Size: 7}}, []int64{-1, 1, 8, 8}, tensor.Float32, "it produces images of 7×7 (height × width), which do not fit"},
		{Spec{Color: Grey, Crop: &Crop{Size: 7}}, []int64{-1, 64}, tensor.Float32, "it produces images of 7×7"},
		{Spec{Resize: &Resize{Width: 8, Height: 7}}, []int64{-1, 1, 8, 7}, tensor.Float32, "it produces images of 7×8"},
		{Spec{Resize: &Resize{Width: 8, Height: 7, Mode: Fit}, Pad: &Pad{}}, []int64{-1, 1, 8, 7}, tensor.Float32, "it produces images of 7×8"},
		{Spec{Resize: &Resize{Width: 8, Height: 7, Mode: Fit}, Pad: &Pad{Value: .5}}, []int64{-1, 7, 8, 3},
			tensor.Uint8, "pad value 0.5 does not fit"},
		{Spec{}, []int64{-1, 3, 8, 3}, tensor.Float32, "it can be NCHW and NHWC; say which with layout"},
		{Spec{}, []int64{-1, 3, 0, 8}, tensor.Float32, "impossible dimension 0"},
		{Spec{}, []int64{-1, 3, 1 << 31, 8}, tensor.Float32, "impossible dimension 2147483648"},
		{Spec{}, nil, tensor.Float32, "has no batch axis"},
		{Spec{Std: []float64{-1}}, []int64{-1, 3, 8, 8}, tensor.Float32, "std -1 is not positive"},
	} {
		p, err := New(c.spec, Target{Shape: c.shape, Type: c.elem})
		if err == nil && p.noAxes != nil {
			image := Image{Shape: []int{8, 8}, Layout: tensor.HW, Data: make([]uint8, 64)}
			err = p.Apply(image, make([]float32, p.Len()))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v for %v: %v, want %s", c.spec, c.shape, err, c.want)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		spec  Spec
		shape []int64
		img   Image
		open  []int // Shape before
		want  []int // and after Resolve
	}{
		{Spec{}, []int64{-1, 3, -1, -1}, randomImage(r, tensor.HWC, 5, 7, 3), []int{3, -1, -1}, []int{3, 5, 7}},
		{Spec{}, []int64{-1, 3, -1, -1}, randomImage(r, tensor.HWC, 5, 7, 1), []int{3, -1, -1}, []int{3, 5, 7}},
		{Spec{}, []int64{-1, -1, -1, -1}, randomImage(r, tensor.HW, 5, 7, 1), []int{-1, -1, -1}, []int{1, 5, 7}},
		{Spec{}, []int64{-1, -1, -1, 3}, randomImage(r, tensor.CHW, 5, 7, 3), []int{-1, -1, 3}, []int{5, 7, 3}},
		{Spec{Crop: &Crop{Size: 4}}, []int64{-1, 3, -1, -1}, randomImage(r, tensor.HWC, 5, 7, 3), []int{3, 4, 4},
			[]int{3, 4, 4}},
		{Spec{}, []int64{-1, -1}, randomImage(r, tensor.HW, 5, 7, 1), []int{-1}, []int{35}},
		{Spec{Color: Grey, Crop: &Crop{Size: 4}}, []int64{-1, -1},
			randomImage(r, tensor.HW, 5, 7, 1), []int{16}, []int{16}},
		{Spec{}, []int64{-1, 35}, randomImage(r, tensor.HWC, 5, 7, 3), []int{35}, []int{35}},
		{Spec{Layout: NCHW}, []int64{-1, 105}, randomImage(r, tensor.HW, 5, 7, 1), []int{105}, []int{105}},
		{Spec{}, []int64{-1, -1, 4}, Image{Shape: []int{3, 4}, Data: make([]float32, 12)}, []int{-1, 4}, []int{3, 4}},
		{Spec{}, []int64{-1, -1}, Image{Shape: []int{3, 4}, Data: make([]float32, 12)}, []int{-1}, []int{12}},
	} {
		p, err := New(c.spec, Target{Shape: c.shape, Type: tensor.Float32})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(p.Shape(), c.open) || p.Resolved() == slices.Contains(c.open, -1) {
			t.Errorf("%+v for %v: shape %v, want %v", c.spec, c.shape, p.Shape(), c.open)
		}
		q, err := p.Resolve(c.img)
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.Equal(q.Shape(), c.want) || !slices.Equal(p.Shape(), c.open) {
			t.Errorf("%+v for %v resolves to %v, want %v", c.spec, c.shape, q.Shape(), c.want)
		}
		if err := q.Apply(c.img, make([]float32, q.Len())); err != nil {
			t.Error(err)
		}
		// The next image of another size is refused, even of equal area.
		other := Image{Shape: slices.Clone(c.img.Shape), Layout: c.img.Layout, Data: c.img.Data}
		slices.Reverse(other.Shape)
		switch s := c.img.Shape; other.Layout {
		case tensor.HWC:
			other.Shape = []int{s[1], s[0], s[2]}
		case tensor.CHW:
			other.Shape = []int{s[0], s[2], s[1]}
		}
		var wrong *ShapeError
		if !p.Resolved() && !p.axes.flat && !errors.As(q.Apply(other, make([]float32, q.Len())), &wrong) {
			t.Errorf("%v after %v is taken", other, c.img)
		}
	}
	p, err := New(Spec{}, Target{Shape: []int64{-1, 3, -1, 8}, Type: tensor.Float32})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Resolve(randomImage(r, tensor.HWC, 5, 7, 3)); err == nil || !strings.Contains(err.Error(), "does not fit the model's input [N,3,?,8] float32") {
		t.Error(err)
	}
}

// A recorded pipeline gives the same pipeline again.
func TestSpecOfAPipelineIsComplete(t *testing.T) {
	t.Parallel()
	for _, name := range Presets {
		for _, shape := range [][]int64{{-1, 3, 64, 64}, {-1, 64, 64, 3}, {-1, 1, 64, 64}, {-1, 3, -1, -1},
			{-1, 4096}} {
			target := Target{Shape: shape, Type: tensor.Float32}
			s, err := Preset(name, target)
			if err != nil {
				t.Fatal(err)
			}
			p, err := New(s, target)
			if err != nil {
				continue // colour for a grey model
			}
			again, err := New(p.Spec(), target)
			if err != nil || !reflect.DeepEqual(again.Spec(), p.Spec()) ||
				!reflect.DeepEqual(again.Shape(), p.Shape()) {
				t.Errorf("%s for %v: %+v, then %+v, %v", name, shape, p.Spec(), again, err)
			}
		}
	}
}

func TestApplyIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 9))
	target := Target{Shape: []int64{-1, 3, 8, 8}, Type: tensor.Float32}
	p, err := New(Spec{Resize: &Resize{Width: 8, Height: 8}}, target)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		img := randomImage(r, tensor.HWC, 10+r.IntN(20), 10+r.IntN(20), 3)
		want := make([]float32, p.Len())
		if err := p.Apply(img, want); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			got := make([]float32, p.Len())
			for range 50 {
				if err := p.Apply(img, got); err != nil || !slices.Equal(got, want) {
					t.Error("differs under concurrency", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestMisusePanics(t *testing.T) {
	t.Parallel()
	p, err := New(Spec{}, Target{Shape: []int64{-1, 4}, Type: tensor.Float32})
	if err != nil {
		t.Fatal(err)
	}
	for name, dst := range map[string]any{"length": make([]float32, 3), "type": []string{"a"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("wrong %s of dst does not panic", name)
				}
			}()
			p.Apply(Image{Shape: []int{4}, Data: make([]float32, 4)}, dst)
		}()
	}
}

func BenchmarkApply(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	imagenet := Target{Shape: []int64{-1, 3, 224, 224}, Type: tensor.Float32}
	preset, err := Preset("imagenet", imagenet)
	if err != nil {
		b.Fatal(err)
	}
	digits := Target{Shape: []int64{-1, 784}, Type: tensor.Float32}
	for _, c := range []struct {
		name   string
		spec   Spec
		target Target
		img    Image
	}{
		{"mnist", For(digits), digits, randomImage(r, tensor.HW, 28, 28, 1)},
		{"imagenet", preset, imagenet, randomImage(r, tensor.HWC, 375, 500, 3)},
		{"imagenet same size", For(imagenet), imagenet, randomImage(r, tensor.HWC, 224, 224, 3)},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, err := New(c.spec, c.target)
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]float32, p.Len())
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Apply(c.img, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func ExamplePipeline() {
	target := Target{Name: "data", Shape: []int64{-1, 1, 2, 2}, Type: tensor.Float32}
	p, err := New(For(target), target)
	if err != nil {
		fmt.Println(err)
		return
	}
	dst := make([]float32, p.Len())
	err = p.Apply(Image{Shape: []int{2, 2}, Layout: tensor.HW, Data: []uint8{0, 51, 102, 255}}, dst)
	fmt.Println(p.Shape(), dst, err)
	err = p.Apply(Image{Shape: []int{3, 3}, Layout: tensor.HW, Data: make([]uint8, 9)}, dst)
	fmt.Println(err)
	// Output:
	// [1 2 2] [0 0.2 0.4 1] <nil>
	// a 3×3 grey image does not fit the model's input data [N,1,2,2] float32: images are not resized automatically: give Preprocess with a resize, as a YAML file or a preset such as imagenet
}

func TestPixelsAreWhatASpecDecides(t *testing.T) {
	t.Parallel()
	image := Image{Shape: []int{2, 2}, Layout: tensor.HW, Data: make([]uint8, 4)}
	bytes := Image{Shape: []int{4}, Data: make([]uint8, 4)}
	floats := Image{Shape: []int{2, 2}, Data: make([]float32, 4)}
	for name, tc := range map[string]struct {
		shape []int64
		elem  tensor.Type
		image Image
		want  bool
	}{
		"image":                        {[]int64{-1, 1, 2, 2}, tensor.Float32, image, true},
		"image, half precision":        {[]int64{-1, 1, 2, 2}, tensor.Float16, image, true},
		"image for pixels":             {[]int64{-1, 1, 2, 2}, tensor.Uint8, image, true},
		"image for whole numbers":      {[]int64{-1, 1, 2, 2}, tensor.Int64, image, false},
		"bytes for real numbers":       {[]int64{-1, 4}, tensor.Float32, bytes, true},
		"bytes for bytes":              {[]int64{-1, 4}, tensor.Uint8, bytes, false},
		"bytes for tokens":             {[]int64{-1, 4}, tensor.Int64, bytes, false},
		"a ready array":                {[]int64{-1, 1, 2, 2}, tensor.Float32, floats, false},
		"a ready array, sizes unknown": {[]int64{-1, -1, -1}, tensor.Float32, floats, false},
		"image for sizes unknown":      {[]int64{-1, 1, -1, -1}, tensor.Float32, image, true},
	} {
		p, err := Arrays(Target{Name: "x", Shape: tc.shape, Type: tc.elem})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Pixels(tc.image); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
		// Without preprocessing pixels are refused, and nothing else.
		_, err = p.Resolve(tc.image)
		if p.Resolved() {
			switch tc.elem {
			case tensor.Uint8:
				err = p.Apply(tc.image, make([]uint8, 4))
			case tensor.Int64:
				err = p.Apply(tc.image, make([]int64, 4))
			default:
				err = p.Apply(tc.image, make([]float32, 4))
			}
		}
		if errors.Is(err, ErrUnknown) != tc.want || !tc.want && err != nil {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Turning as EXIF says equals turning the corners one by one, in every layout, and without the field nothing turns.
func TestExifTurns(t *testing.T) {
	t.Parallel()
	// Where each pixel of [[1 2 3] [4 5 6]] goes.
	turned := map[uint8][][]uint8{
		0: {{1, 2, 3}, {4, 5, 6}}, 1: {{1, 2, 3}, {4, 5, 6}}, 9: {{1, 2, 3}, {4, 5, 6}},
		2: {{3, 2, 1}, {6, 5, 4}},
		3: {{6, 5, 4}, {3, 2, 1}},
		4: {{4, 5, 6}, {1, 2, 3}},
		5: {{1, 4}, {2, 5}, {3, 6}},
		6: {{4, 1}, {5, 2}, {6, 3}},
		7: {{6, 3}, {5, 2}, {4, 1}},
		8: {{3, 6}, {2, 5}, {1, 4}},
	}
	colour := func(rows [][]uint8) (pix []uint8) {
		for _, row := range rows {
			for _, v := range row {
				pix = append(pix, v, 10*v, 100+v)
			}
		}
		return pix
	}
	hwc := colour(turned[1])
	chw := make([]uint8, len(hwc))
	for i, v := range hwc {
		chw[i%3*6+i/3] = v
	}
	for o, rows := range turned {
		for _, img := range []Image{
			{Shape: []int{2, 3, 3}, Layout: tensor.HWC, Data: hwc, Orientation: o},
			{Shape: []int{3, 2, 3}, Layout: tensor.CHW, Data: chw, Orientation: o},
		} {
			for _, exif := range []bool{true, false} {
				want := rows
				if !exif {
					want = turned[1]
				}
				p, err := New(Spec{Exif: &exif, Layout: NHWC},
					Target{Shape: []int64{-1, -1, -1, 3}, Type: tensor.Uint8})
				if err != nil {
					t.Fatal(err)
				}
				if p, err = p.Resolve(img); err != nil {
					t.Fatal(err)
				}
				got := make([]uint8, p.Len())
				if err := p.Apply(img, got); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(p.Shape(), []int{len(want), len(want[0]), 3}) || !slices.Equal(got, colour(want)) {
					t.Errorf("orientation %d, %s, exif %v: %v", o, img.Layout, exif, got)
				}
			}
		}
	}
}

// The upright image must fit the model, and a message names its size.
func TestAnUprightImageMustFitTheModel(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		h, w        int
		orientation uint8
		exif        *bool
		says        string // "" where it fits [N,1,4,6]
	}{
		"turned into fitting":      {6, 4, 6, nil, ""},
		"mirrored":                 {4, 6, 2, nil, ""},
		"turned out of fitting":    {4, 6, 8, nil, "a 6×4 grey image"},
		"stored as it fits":        {4, 6, 8, new(false), ""},
		"stored as it fits not":    {6, 4, 6, new(false), "a 6×4 grey image"},
		"turned, without EXIF":     {4, 6, 0, new(true), ""},
		"turned, and never fits":   {5, 7, 5, new(true), "a 7×5 grey image"},
		"orientation 9 is unknown": {4, 6, 9, nil, ""},
	} {
		p, err := New(Spec{Exif: tc.exif}, Target{Shape: []int64{-1, 1, 4, 6}, Type: tensor.Float32})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Apply(Image{Shape: []int{tc.h, tc.w}, Layout: tensor.HW, Data: make([]uint8, tc.h*tc.w),
			Orientation: tc.orientation}, make([]float32, 24))
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says+" does not fit") {
			t.Errorf("%s: error %v, want %q", name, err, tc.says)
		}
	}
}

// New says what a Spec leaves open, and a crop without a resize is taken from the upright image.
func TestExifIsOnUnlessItIsOff(t *testing.T) {
	t.Parallel()
	target := Target{Shape: []int64{-1, 1, 2, 1}, Type: tensor.Uint8}
	stored := Image{Shape: []int{2, 4}, Layout: tensor.HW, Data: []uint8{1, 2, 3, 4, 5, 6, 7, 8}, Orientation: 6}
	for want, exif := range map[bool][]*bool{true: {nil, new(true)}, false: {new(false)}} {
		for _, e := range exif {
			p, err := New(Spec{Exif: e, Layout: NCHW, Crop: &Crop{Width: 1, Height: 2}}, target)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Spec().Exif; got == nil || *got != want {
				t.Errorf("the pipeline's EXIF is %v, want %v", got, want)
			}
			got, pixels := make([]uint8, 2), []uint8{6, 7} // of [[5 1] [6 2] [7 3] [8 4]]
			if !want {
				pixels = []uint8{3, 7} // of [[1 2 3 4] [5 6 7 8]]
			}
			if err := p.Apply(stored, got); err != nil || !slices.Equal(got, pixels) {
				t.Errorf("EXIF %v: %v, %v, want %v", want, got, err, pixels)
			}
		}
	}
	if s, err := Load(strings.NewReader("exif: false")); err != nil || s.Exif == nil || *s.Exif {
		t.Errorf("exif: false is %+v, %v", s, err)
	}
}

// A turned image is resized as the same one is whose pixels lie in the other layout.
func TestTransposedLayoutsGiveTheSameResize(t *testing.T) {
	t.Parallel()
	const h, w = 4, 3 // columns of a row are as many as channels
	hwc, chw := make([]uint8, h*w*3), make([]uint8, h*w*3)
	for i := range hwc {
		hwc[i] = uint8(i * 7)
		chw[i%3*h*w+i/3] = hwc[i]
	}
	for o := range uint8(9) {
		var got [2][]uint8
		for i, img := range []Image{{Shape: []int{h, w, 3}, Layout: tensor.HWC, Data: hwc, Orientation: o},
			{Shape: []int{3, h, w}, Layout: tensor.CHW, Data: chw, Orientation: o}} {
			p, err := New(Spec{Resize: &Resize{Width: 5, Height: 6}},
				Target{Shape: []int64{-1, 3, 6, 5}, Type: tensor.Uint8})
			if err != nil {
				t.Fatal(err)
			}
			got[i] = make([]uint8, p.Len())
			if err := p.Apply(img, got[i]); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("orientation %d: %v of HWC, %v of CHW", o, got[0], got[1])
		}
	}
}

// Resizing may make as many pixels as are allowed, and not one row more.
func TestResizedPixelsAreBounded(t *testing.T) {
	t.Parallel()
	for side, fits := range map[int]bool{10_000: true, 10_001: false} {
		p, err := New(Spec{Resize: &Resize{Size: side, Mode: Shortest}},
			Target{Shape: []int64{-1, 1, -1, -1}, Type: tensor.Float32})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Resolve(Image{Shape: []int{1, 1}, Layout: tensor.HW, Data: []uint8{0}})
		if (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "would make 10001×10001 pixels") {
			t.Errorf("%d: %v", side, err)
		}
	}
}

// Around an image that lacks an odd number of pixels, one more is filled on the right and below.
func TestTheOddPixelIsRightAndBelow(t *testing.T) {
	t.Parallel()
	p, err := New(Spec{Layout: NCHW, Crop: &Crop{Size: 4}, Pad: &Pad{Value: 255}},
		Target{Shape: []int64{-1, 1, 4, 4}, Type: tensor.Uint8})
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[[2]int][]uint8{
		{1, 3}: {255, 255, 255, 255, 1, 1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255},
		{3, 1}: {255, 1, 255, 255, 255, 1, 255, 255, 255, 1, 255, 255, 255, 255, 255, 255},
	} {
		got := make([]uint8, 16)
		err := p.Apply(Image{Shape: size[:], Layout: tensor.HW, Data: []uint8{1, 1, 1}}, got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d: %v, %v, want %v", size, got, err, want)
		}
	}
}
