package synthetic

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/pixels"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// ErrNoImage says that an example is not an image.
var ErrNoImage = errors.New("this is not an image with 8-bit pixels")

// Replace replaces the image of an example, encoded or not, by a synthetic one. The error is [ErrNoImage] or that of
// Decode.
func Replace(e *dataset.Example) error {
	if err := e.Decode(); err != nil {
		return err
	}
	if len(e.Inputs) != 1 {
		return fmt.Errorf("%s: %w, but %d arrays", e.Name, ErrNoImage, len(e.Inputs))
	}
	a := e.Inputs[0]
	p, ok := pixelsOf(&a)
	if !ok {
		return fmt.Errorf("%s: %w, but an array %v of %s", e.Name, ErrNoImage, a.Shape,
			strings.TrimPrefix(fmt.Sprintf("%T", a.Data), "[]"))
	}
	if a.Layout == tensor.CHW {
		a.Shape, a.Layout = []int{p.Height, p.Width, p.Channels}, tensor.HWC
	}
	a.Data = Of(p, e.Index).Data
	e.Inputs = []dataset.Array{a}
	return nil
}

// pixelsOf returns the pixels of an array that is an image.
func pixelsOf(a *dataset.Array) (*pixels.Pixels, bool) {
	data, bytes := a.Data.([]uint8)
	s, n := a.Shape, 1
	for _, d := range s {
		n *= d
	}
	if !bytes || n < 1 || n != len(data) {
		return nil, false
	}
	switch {
	case a.Layout == tensor.HW && len(s) == 2:
		return &pixels.Pixels{Data: data, Height: s[0], Width: s[1], Channels: 1}, true
	case a.Layout == tensor.HWC && len(s) == 3:
		return &pixels.Pixels{Data: data, Height: s[0], Width: s[1], Channels: s[2]}, true
	case a.Layout == tensor.CHW && len(s) == 3:
		p := &pixels.Pixels{Data: make([]uint8, n), Height: s[1], Width: s[2], Channels: s[0]}
		plane := s[1] * s[2]
		for i, v := range data {
			p.Data[i%plane*s[0]+i/plane] = v
		}
		return p, true
	}
	return nil, false
}
