package calibration_test

import (
	"image"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	. "github.com/mfgs/mfgs/wrap"
)

// Servers get images that cannot be decoded, and empty batches.
func TestEmptyInputsGiveEmptyResultsOrAnError(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Kronecker)
	p := opened(t, dir, Options{})
	inputs := p.Inputs()
	if len(inputs) != 1 {
		t.Fatalf("the model has %d inputs", len(inputs))
	}
	shape := []int64{0}
	for _, d := range inputs[0].Shape[1:] {
		shape = append(shape, d.Value)
	}
	none := func(what string, got []Prediction, err error) {
		t.Helper()
		if err != nil || len(got) != 0 {
			t.Errorf("%s: %d predictions, %v", what, len(got), err)
		}
	}
	got, err := p.PredictFeatures(nil, nil)
	none("no features", got, err)
	got, err = p.Predict(t.Context(), []Tensor{{Name: inputs[0].Name, Shape: shape, Data: []float32{}}})
	none("no examples", got, err)
	_, err = p.PredictImages(t.Context())
	says(t, err, "no images")
	grey := image.NewGray(image.Rect(0, 0, 8, 8))
	for what, images := range map[string][]image.Image{
		"nil":             {nil},
		"a nil pointer":   {(*image.Gray)(nil)},
		"the second":      {grey, nil},
		"an empty image":  {image.NewGray(image.Rectangle{})},
		"a sub-image out": {grey.SubImage(image.Rect(20, 20, 30, 30))},
	} {
		if got, err := p.PredictImages(t.Context(), images...); err == nil {
			t.Errorf("%s: %d predictions", what, len(got))
		} else {
			says(t, err, "image ")
		}
	}
	for what, inputs := range map[string][]Tensor{
		"nil":       nil,
		"zero":      {{}},
		"no data":   {{Name: inputs[0].Name, Shape: []int64{1, 1, 8, 8}}},
		"no shape":  {{Name: inputs[0].Name, Data: []float32{1}}},
		"data: nil": {{Name: inputs[0].Name, Shape: []int64{1, 1, 8, 8}, Data: []float32(nil)}},
	} {
		if got, err := p.Predict(t.Context(), inputs); err == nil {
			t.Errorf("%s: %d predictions", what, len(got))
		} else if strings.Contains(err.Error(), "-1") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
