package preprocess

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// An Image is one example before preprocessing: uint8 pixels in a Layout, or a ready array. Data is a slice of
// numbers, bool or string, in row-major order.
type Image struct {
	Shape       []int
	Layout      tensor.Layout
	Data        any
	Orientation uint8 // the EXIF orientation, not applied to Data: 1 to 8, or 0 for none
}

// String formats an image as "28×28 grey image".
func (m Image) String() string {
	dims := make([]string, len(m.Shape))
	for i, d := range m.Shape {
		dims[i] = fmt.Sprint(d)
	}
	if v, ok, err := viewOf(m); ok && err == nil {
		return v.String()
	}
	return fmt.Sprintf("array [%s] of %s", strings.Join(dims, ","), strings.TrimPrefix(fmt.Sprintf("%T", m.Data), "[]"))
}

// A ShapeError reports an example of another shape than the model's. It seldom concerns one example alone.
type ShapeError struct {
	Got  string // the example: "28×28 grey image"
	Want string // the model's input: "x [N,3,224,224] float32"
	Hint error  // what to do about it
}

func (e *ShapeError) Error() string {
	article := "a"
	if strings.HasPrefix(e.Got, "a") { // an array
		article = "an"
	}
	return fmt.Sprintf("%s %s does not fit the model's input %s: %s", article, e.Got, e.Want, e.Hint)
}

func (e *ShapeError) Unwrap() error { return e.Hint }

// A Pipeline preprocesses examples for one model input. It is safe for concurrent use.
type Pipeline struct {
	spec   Spec
	target Target
	axes   axes
	noAxes error // why the target does not accept images
	shape  []int // of one preprocessed example, -1 unknown
	size   int   // elements of shape, -1 unknown

	f32 *tables[float32]
	f64 *tables[float64]
	u8  *tables[uint8]

	scratch *sync.Pool // of *buffers

	arrays bool // made by Arrays
}

// ErrUnknown reports pixels for a model whose preprocessing is unknown.
var ErrUnknown = errors.New("the preprocessing of images for the model is not known")

// tables has the value of every byte, and that of Pad, per channel in the order of Spec.Color.
type tables[T any] struct {
	of  [3][256]T
	pad [3]T
}

// buffers is the working memory of one Apply.
type buffers struct {
	grey, resized []uint8
	resampler
}

// New fits spec to a target, which supplies what the Spec leaves open: see Pipeline.Spec.
func New(spec Spec, t Target) (*Pipeline, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if err := t.validate(); err != nil {
		return nil, err
	}
	if spec.Exif == nil {
		spec.Exif = new(true)
	}
	p := &Pipeline{target: t, spec: spec.fill(t), scratch: &sync.Pool{New: func() any { return new(buffers) }}}
	p.axes, p.noAxes = t.axes(p.spec.Layout)
	if p.noAxes == nil {
		if err := p.fit(); err != nil {
			return nil, fmt.Errorf("preprocessing: %w", err)
		}
		p.setShape(p.axes.shape(len(t.Shape) - 1))
	} else {
		shape := make([]int, len(t.Shape)-1)
		for i, d := range t.Shape[1:] {
			shape[i] = int(d)
		}
		p.setShape(shape)
	}
	p.f32 = makeTables(p.spec, func(v float64) float32 { return float32(v) })
	p.f64 = makeTables(p.spec, func(v float64) float64 { return v })
	p.u8 = makeTables(Spec{Pad: p.spec.Pad}, func(v float64) uint8 { return uint8(v) })
	return p, nil
}

// Arrays returns the pipeline for a target without known preprocessing: it accepts ready arrays, and pixels are
// [ErrUnknown].
func Arrays(t Target) (*Pipeline, error) {
	p, err := New(For(t), t)
	if err == nil {
		p.arrays = true
	}
	return p, err
}

// Pixels reports whether the Spec applies to m: an image for a target that accepts images, or bytes for a
// floating-point one.
func (p *Pipeline) Pixels(m Image) bool {
	if _, bytes := m.Data.([]uint8); !bytes {
		return false
	}
	return p.target.Type.IsFloat() || p.target.Type == tensor.Uint8 && m.Layout != tensor.NoImage && p.noAxes == nil
}

// TakesImages reports whether images of some size can be preprocessed for the target.
func (p *Pipeline) TakesImages() bool {
	return p.noAxes == nil && !p.arrays && (p.target.Type.IsFloat() || p.target.Type == tensor.Uint8)
}

// known returns ErrUnknown for pixels if no preprocessing is known.
func (p *Pipeline) known(m Image) error {
	if p.arrays && p.Pixels(m) {
		return fmt.Errorf("%v for %v: %w: give %s, as a YAML file or a preset such as imagenet, or ready arrays",
			m, p.target, ErrUnknown, option.Preprocess)
	}
	return nil
}

// fit checks the Spec against the target's axes, and sets the sizes that are fixed.
func (p *Pipeline) fit() error {
	s, a := p.spec, &p.axes
	if s.Flatten && !a.flat {
		return fmt.Errorf("flatten does not fit the model's input %v", p.target)
	}
	if !p.target.Type.IsFloat() && (len(s.Mean) > 0 || len(s.Std) > 0 || s.Scale != 0 && s.Scale != 1) {
		return fmt.Errorf("scale, mean and std do not fit the model's input %v, which takes whole numbers", p.target)
	}
	if !p.target.Type.IsFloat() && s.Pad != nil {
		for _, v := range append([]float64{s.Pad.Value}, s.Pad.Values...) {
			if v != math.Trunc(v) {
				return fmt.Errorf("pad value %v does not fit the model's input %v, which takes whole numbers", v,
					p.target)
			}
		}
	}
	if c := s.Color.channels(); c > 0 {
		if a.c > 0 && a.c != c {
			return fmt.Errorf("color %s does not fit the model's input %v, whose number of channels is %d", s.Color, p.target,
				a.c)
		}
		a.c = c
	}
	var w, h int
	if s.Crop != nil {
		w, h = s.Crop.sides()
	} else if r := s.Resize; r != nil && (r.exact() || s.Pad != nil) {
		w, h = r.sides()
	} else {
		return nil
	}
	if a.h > 0 && a.h != h || a.w > 0 && a.w != w || a.flat && a.c > 0 && a.n > 0 && a.n != a.c*h*w {
		return fmt.Errorf("it produces images of %d×%d (height × width), which do not fit the model's input %v", h, w,
			p.target)
	}
	a.h, a.w = h, w
	return nil
}

// shape returns the sizes of the axes for a model input of the given rank, without the batch axis.
func (a axes) shape(rank int) []int {
	switch {
	case a.flat && a.n < 0 && a.c > 0 && a.h > 0 && a.w > 0:
		return []int{a.c * a.h * a.w}
	case a.flat:
		return []int{a.n}
	case rank == 2:
		return []int{a.h, a.w}
	case a.order == NHWC:
		return []int{a.h, a.w, a.c}
	}
	return []int{a.c, a.h, a.w}
}

func (p *Pipeline) setShape(shape []int) {
	p.shape, p.size = shape, 1
	for _, d := range shape {
		if d < 0 {
			p.size = -1
			return
		}
		p.size *= d
	}
}

// makeTables computes (v·scale − mean) / std for every byte v, and for Pad's value.
func makeTables[T any](s Spec, convert func(float64) T) *tables[T] {
	at := func(v []float64, c int, otherwise float64) float64 {
		switch len(v) {
		case 0:
			return otherwise
		case 1:
			return v[0]
		}
		return v[c]
	}
	scale := s.Scale
	if scale == 0 {
		scale = 1
	}
	t := new(tables[T])
	for c := range t.of {
		value := func(v float64) T { return convert((v*scale - at(s.Mean, c, 0)) / at(s.Std, c, 1)) }
		for v := range t.of[c] {
			t.of[c][v] = value(float64(v))
		}
		if s.Pad != nil {
			t.pad[c] = value(s.Pad.of(c))
		}
	}
	return t
}

// Spec returns the preprocessing, with everything filled in that the target decides. New of it and the same
// target gives the same pipeline.
func (p *Pipeline) Spec() Spec { return p.spec }

// Shape returns the shape of one preprocessed example, without the batch axis. Sizes that neither model nor Spec
// fixes are -1.
func (p *Pipeline) Shape() []int { return slices.Clone(p.shape) }

// Resolved reports whether Shape has no unknown size.
func (p *Pipeline) Resolved() bool { return p.size >= 0 }

// Len returns the number of elements of one preprocessed example, -1 if the pipeline is not resolved.
func (p *Pipeline) Len() int { return p.size }

// Resolve returns a pipeline whose unknown sizes are those of m after preprocessing, so that all examples of a
// batch have one shape. If all sizes are known it returns p.
func (p *Pipeline) Resolve(m Image) (*Pipeline, error) {
	if p.Resolved() {
		return p, nil
	}
	if err := p.known(m); err != nil {
		return nil, err
	}
	q := *p
	v, isImage, err := p.view(m)
	if err != nil {
		return nil, err
	}
	if !isImage {
		shape, err := p.ready(m)
		if err != nil {
			return nil, err
		}
		q.setShape(slices.Clone(shape))
		return &q, nil
	}
	g, err := p.geometry(v)
	if err != nil {
		return nil, err
	}
	q.axes.c, q.axes.h, q.axes.w = g.c, g.outH, g.outW
	q.setShape(q.axes.shape(len(p.shape)))
	return &q, nil
}

// Apply preprocesses m into dst, a slice of Len elements of the target's number type, float32 for 16-bit
// floating point. The pipeline must be resolved. An example of the wrong shape is a *ShapeError.
func (p *Pipeline) Apply(m Image, dst any) error {
	switch d := dst.(type) {
	case []float32:
		return apply(p, m, d, p.f32)
	case []float64:
		return apply(p, m, d, p.f64)
	case []uint8:
		return apply(p, m, d, p.u8)
	case []int8:
		return apply(p, m, d, nil)
	case []int16:
		return apply(p, m, d, nil)
	case []uint16:
		return apply(p, m, d, nil)
	case []int32:
		return apply(p, m, d, nil)
	case []uint32:
		return apply(p, m, d, nil)
	case []int64:
		return apply(p, m, d, nil)
	case []uint64:
		return apply(p, m, d, nil)
	case []bool:
		p.mustHold(len(d))
		if _, err := p.ready(m); err != nil {
			return err
		}
		if err := truth(d, m.Data); err != nil {
			return fmt.Errorf("%v for the model's input %v: %w", m, p.target, err)
		}
		return nil
	case []string:
		p.mustHold(len(d))
		if _, err := p.ready(m); err != nil {
			return err
		}
		src, ok := m.Data.([]string)
		if !ok {
			return fmt.Errorf("%v for the model's input %v: it takes strings", m, p.target)
		}
		copy(d, src)
		return nil
	}
	panic(fmt.Sprintf("preprocess: Apply to %T", dst))
}

func (p *Pipeline) mustHold(n int) {
	if n != p.size {
		panic(fmt.Sprintf("preprocess: Apply of shape %v to %d elements", p.shape, n))
	}
}

// apply is Apply for one number type. t is nil for types that pixels are not converted to.
func apply[T number](p *Pipeline, m Image, dst []T, t *tables[T]) error {
	p.mustHold(len(dst))
	if err := p.known(m); err != nil {
		return err
	}
	v, isImage, err := p.view(m)
	if err != nil {
		return err
	}
	if isImage && t != nil {
		return applyImage(p, v, dst, t)
	}
	if _, err := p.ready(m); err != nil {
		return err
	}
	if src, ok := m.Data.([]uint8); ok && t != nil {
		if p.spec.Resize != nil || p.spec.Crop != nil || len(p.spec.Mean) > 1 || len(p.spec.Std) > 1 {
			return fmt.Errorf("a %v has no image axes, which resize, crop, and mean and std by channel need", m)
		}
		for i, b := range src {
			dst[i] = t.of[0][b]
		}
		return nil
	}
	if err := convert(dst, m.Data); err != nil {
		return fmt.Errorf("%v for the model's input %v: %w", m, p.target, err)
	}
	return nil
}

// ready returns the shape of a ready array for the target. Axes of size 1 may be added or dropped, and all axes
// may be flattened into one, since neither moves an element.
func (p *Pipeline) ready(m Image) ([]int, error) {
	n := 1
	for _, d := range m.Shape {
		n *= d
	}
	if got := (tensor.Tensor{Data: m.Data}).Len(); got != n {
		return nil, fmt.Errorf("array of shape %v holds %d elements", m.Shape, got)
	}
	switch {
	case matches(m.Shape, p.shape):
		return m.Shape, nil
	case p.size == n && (len(p.shape) == 1 || slices.Equal(squeeze(m.Shape), squeeze(p.shape))):
		return p.shape, nil
	case len(p.shape) == 1 && p.shape[0] < 0:
		return []int{n}, nil
	}
	hint := errors.New("ready arrays must have its shape")
	if _, ok := m.Data.([]uint8); ok && p.noAxes != nil {
		hint = p.noAxes
	}
	return nil, &ShapeError{m.String(), p.target.String(), hint}
}

func matches(got, want []int) bool {
	return slices.EqualFunc(got, want, func(g, w int) bool { return g == w || w < 0 })
}

func squeeze(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(d int) bool { return d == 1 })
}

// view returns m as an image, upright if the Spec says so; ok is false if m, or the target, is not an image.
func (p *Pipeline) view(m Image) (v view, isImage bool, err error) {
	v, isImage, err = viewOf(m)
	if isImage = isImage && p.noAxes == nil && err == nil; isImage && *p.spec.Exif {
		v = v.upright(m.Orientation)
	}
	return v, isImage, err
}

// A geometry is the sizes and positions of the steps for an image of one size.
type geometry struct {
	w, h   int // after resize
	x, y   int // the crop's corner
	cw, ch int // after crop
	c      int // channels of the result

	outW, outH int // after pad
	left, top  int // the image's corner in it
}

// geometry computes the geometry of an image.
func (p *Pipeline) geometry(v view) (g geometry, err error) {
	g.w, g.h = v.w, v.h
	if r := p.spec.Resize; r != nil {
		g.w, g.h = r.to(v.w, v.h, p.spec.Crop != nil)
		if g.w > maxPixels/g.h {
			return g, fmt.Errorf("resize of a %v would make %d×%d pixels", v, g.h, g.w)
		}
	}
	g.cw, g.ch = g.w, g.h
	pad := p.spec.Pad
	crop := p.spec.Crop
	if crop != nil {
		g.cw, g.ch = crop.sides()
		if pad == nil && (g.cw > g.w || g.ch > g.h) {
			return g, p.shapeError(v,
				fmt.Sprintf("it is smaller than the crop of %d×%d: put a resize before it, or give pad", g.ch, g.cw))
		}
	}
	g.outW, g.outH = g.cw, g.ch
	switch {
	case crop != nil:
		// Pad before cropping, with the odd pixel on the right and at the bottom.
		g.left, g.top = max(g.cw-g.w, 0)/2, max(g.ch-g.h, 0)/2
		g.cw, g.ch = min(g.cw, g.w), min(g.ch, g.h)
		g.x, g.y = crop.from(g.w, g.cw), crop.from(g.h, g.ch)
	case pad != nil:
		g.outW, g.outH = p.spec.Resize.sides()
		if pad.Position != Corner {
			g.left, g.top = centre(g.outW, g.w), centre(g.outH, g.h)
		}
	}
	a := p.axes
	g.c = a.c
	if g.c < 0 {
		g.c = v.c
		if a.flat && v.c == 3 && a.n == g.outW*g.outH {
			g.c = 1 // only grey fits
		} else if a.flat && v.c == 1 && a.n == 3*g.outW*g.outH {
			g.c = 3
		}
	}
	if a.h > 0 && a.h != g.outH || a.w > 0 && a.w != g.outW || a.flat && a.n > 0 && a.n != g.c*g.outH*g.outW ||
		p.size > 0 && p.size != g.c*g.outH*g.outW {
		return g, p.shapeError(v, "")
	}
	if a.flat && a.order == "" && g.c > 1 {
		return g, fmt.Errorf(
			"a colour image flattened can have its channels first or last: say layout NCHW or NHWC in %s", option.Preprocess)
	}
	return g, nil
}

// shapeError refuses an image; why is "" where its size is wrong.
func (p *Pipeline) shapeError(v view, why string) error {
	hint := errors.New(why)
	switch r := p.spec.Resize; {
	case why != "":
	case r != nil && r.leavesRoom() && p.spec.Pad == nil:
		hint = fmt.Errorf("the preprocessing's resize of mode %s leaves another size, and has no pad to fill it", r.Mode)
	case r != nil || p.spec.Crop != nil:
		hint = errors.New("the preprocessing's resize and crop leave another size")
	default:
		hint = fmt.Errorf("images are not resized automatically: "+
			"give %s with a resize, as a YAML file or a preset such as imagenet", option.Preprocess)
	}
	want := p.target.String()
	if slices.Contains(p.target.Shape[1:], -1) {
		want += fmt.Sprintf(" (here %v)", p.shape)
	}
	return &ShapeError{v.String(), want, hint}
}
