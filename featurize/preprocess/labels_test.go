package preprocess_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A label map goes where the pixels of its image go: an image of the same numbers, resized to the nearest pixel,
// becomes the same numbers, and the padding has no label.
func TestLabelMapsGetTheGeometryOfTheirImages(t *testing.T) {
	t.Parallel()
	size := func(r preprocess.Resize) *preprocess.Resize { r.Filter = preprocess.Nearest; return &r }
	for name, spec := range map[string]preprocess.Spec{
		"as it is": {},
		"exact":    {Resize: size(preprocess.Resize{Width: 31, Height: 9})},
		"crop":     {Crop: &preprocess.Crop{Width: 6, Height: 11}},
		"shortest": {Resize: size(preprocess.Resize{Size: 17, Mode: preprocess.Shortest}), Crop: &preprocess.Crop{Size: 15}},
		"letterbox": {Resize: size(preprocess.Resize{Width: 20, Height: 20, Mode: preprocess.Fit}),
			Pad: &preprocess.Pad{Value: 255}},
		"corner": {Resize: size(preprocess.Resize{Width: 20, Height: 20, Mode: preprocess.Fit}),
			Pad: &preprocess.Pad{Value: 255, Position: preprocess.Corner}},
		"padded crop": {Crop: &preprocess.Crop{Size: 40}, Pad: &preprocess.Pad{Value: 255}},
	} {
		const h, w = 13, 22
		r := rand.New(rand.NewPCG(1, 2))
		pixels, labels := make([]uint8, h*w), make([]int32, h*w)
		for i := range pixels {
			pixels[i] = uint8(r.IntN(20))
			labels[i] = int32(pixels[i])
		}
		p, err := preprocess.New(spec, preprocess.Target{Shape: []int64{-1, 1, -1, -1}, Type: tensor.Float32})
		if err != nil {
			t.Fatal(name, err)
		}
		img := preprocess.Image{Shape: []int{h, w}, Layout: tensor.HW, Data: pixels}
		if p, err = p.Resolve(img); err != nil {
			t.Fatal(name, err)
		}
		applied := make([]float32, p.Len())
		if err := p.Apply(img, applied); err != nil {
			t.Fatal(name, err)
		}
		got, gotH, gotW, err := p.Labels(img, labels, h, w)
		want := make([]int32, len(applied))
		for i, v := range applied {
			if want[i] = int32(v); v == 255 {
				want[i] = -1
			}
		}
		if shape := p.Shape(); err != nil || gotH != shape[1] || gotW != shape[2] || !slices.Equal(got, want) {
			t.Errorf("%s: %d×%d %v, %v; want %v %v", name, gotH, gotW, got, err, shape, want)
		}
		got, gotH, gotW, err = p.Labels(img, labels[:6], 2, 3)
		if err != nil || gotH != 2 || gotW != 3 || len(got) != 6 {
			t.Errorf("%s: a map of another size became %d×%d %v, %v", name, gotH, gotW, got, err)
		}
		img.Orientation = 6
		if _, _, _, err = p.Labels(img, labels, h, w); !errors.Is(err, preprocess.ErrOriented) {
			t.Errorf("%s, turned: %v", name, err)
		}
	}
}
