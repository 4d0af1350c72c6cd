package featurize

import (
	"bytes"
	"context"
	"fmt"
	goimage "image"
	"image/png"
	"testing"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// The rows of a map model are those of one labelled pixel of each picture: the one that DrawnStep names, in the picture
// and in its label map, also where both are cropped. Other pixels are drawn of other pictures.
func TestOneLabelledPixelOfEachPicture(t *testing.T) {
	t.Parallel()
	const n, h, w = 40, 7, 9
	dir := t.TempDir()
	for i := range n {
		labels := goimage.NewGray(goimage.Rect(0, 0, w, h))
		for at := range labels.Pix {
			if labels.Pix[at] = uint8((at + i) % 3); at%2 > 0 {
				labels.Pix[at] = 255
			}
		}
		var b bytes.Buffer
		if err := png.Encode(&b, labels); err != nil {
			t.Fatal(err)
		}
		for folder, file := range map[string][]byte{"images": pngOf(t, pixels(i, h, w, 3), h, w, 3), "labels": b.Bytes()} {
			write(t, dir, fmt.Sprintf("%s/%02d.png", folder, i), file)
		}
	}
	m, err := onnx.Parse("pixels", onnxtest.PixelsFile(1))
	if err != nil {
		t.Fatal(err)
	}
	found, err := head.Find(m, head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, crop := range map[string]*preprocess.Crop{"whole": nil, "cropped": {Width: 5, Height: 3}} {
		spec := &preprocess.Spec{Crop: crop, Scale: 1. / 255}
		network, err := New(Config{Model: m, Head: found, Preprocess: spec, Batch: 7})
		if err != nil {
			t.Fatal(err)
		}
		defer network.Close()
		ds := openData(t, dir, dataset.Options{Steps: true, Classes: onnxtest.PixelClasses})
		left, top := 0, 0
		if crop != nil {
			left, top = (w-crop.Width)/2, (h-crop.Height)/2
		}
		got, _ := stream(t, network, ds, StreamConfig{})
		drawn := map[[2]int]bool{}
		i := 0
		for ex, err := range ds.Examples(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			at, err := network.DrawnStep(context.Background(), &ex)
			if err != nil || len(at) != 2 {
				t.Fatal(name, at, err)
			}
			drawn[[2]int(at)] = true
			y, x := at[0]+top, at[1]+left
			if want := (y*w + x + i) % 3; got.Labels[i] != want || (y*w+x)%2 > 0 {
				t.Errorf("%s, picture %d: label %d of row %d, column %d, want %d", name, i, got.Labels[i], y, x, want)
			}
			var colour [3]float64
			for c := range colour {
				colour[c] = float64(pixels(i, h, w, 3)[3*(y*w+x)+c]) / 255
			}
			for k, want := range onnxtest.PixelLogits(colour) {
				const near = 1e-5 * 5 // of the largest logit
				if z := float64(got.Logits[i*onnxtest.PixelClasses+k]); !approx.Equal(z, want, near) {
					t.Errorf("%s, picture %d: logit %d is %v, want %v", name, i, k, z, want)
				}
			}
			i++
		}
		if i != n || len(drawn) < 6 { // of 8 that are labelled in the crop, 40 draws leave out one at most
			t.Errorf("%s: %d pictures with %d different pixels", name, i, len(drawn))
		}
	}
}
