package dataset

import (
	"fmt"
	"image"
	"iter"
	"path/filepath"

	"github.com/mfgs/mfgs/internal/pixels"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Decode decodes Encoded into the only element of Inputs: uint8 [H,W,1] for grey images, else RGB [H,W,3]; see
// [pixels.Decode]. It decodes a label map into Steps. It does nothing if there is nothing to decode. The error is a
// *RecordError, unless a label map holds other classes than the model's. It may run in parallel for different examples.
func (e *Example) Decode() error {
	if err := e.decodeImage(); err != nil || e.labelMap == nil {
		return err
	}
	m := e.labelMap
	e.labelMap = nil
	return m.decode(e, m)
}

func (e *Example) decodeImage() error {
	if e.Encoded == nil {
		return nil
	}
	p, err := pixels.Decode(e.Encoded)
	if err != nil {
		return &RecordError{e.Name, e.Index, err}
	}
	e.Encoded, e.Inputs = nil, []Array{arrayOf(p)}
	return nil
}

// FromImage converts an image in memory as Example.Decode does one in a file.
func FromImage(img image.Image) (Array, error) {
	p, err := pixels.Of(img)
	if err != nil {
		return Array{}, err
	}
	return arrayOf(p), nil
}

func arrayOf(p *pixels.Pixels) Array {
	return Array{
		Shape: []int{p.Height, p.Width, p.Channels}, Layout: tensor.HWC, Data: p.Data, Orientation: p.Orientation,
	}
}

// An imageSource is a single image.
type imageSource struct {
	Base
	f *File
}

func sniffImage(p *Peek) (bool, error) { return !p.Gzip && pixels.Recognise(p.Head), nil }

func openImage(path string, _ Options) (Source, error) {
	s := &imageSource{Base: Base{Count: 1}}
	var err error
	if s.f, err = s.Open(path); err != nil {
		return nil, err
	}
	if err := checkImageSize(s.f.Size()); err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Examples reads the image.
func (s *imageSource) Examples(_, _ int) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		e := Example{Name: filepath.Base(s.Path), Label: -1, Encoded: make([]byte, s.f.Size())}
		if _, err := s.f.ReadAt(e.Encoded, 0); err != nil {
			e.Encoded = nil
			yield(e, &RecordError{e.Name, 0, bareError(err)})
			return
		}
		yield(e, nil)
	}
}
