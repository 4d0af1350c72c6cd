// Resnet50 generates the inputs of the README's commands: a network of the shape and size of torchvision's
// ResNet-50, and folders of images. From the root of the repository, with ONNX Runtime installed:
//
//	go run -C testdata ./firstrun/resnet50 -out ../try
//
// The images show ten weaves: waves of five directions and two widths, with noise. The network has the layers of
// ResNet-50, version 1.5, and ten classes. All layers but the last have random weights; the last one is fitted to
// the training images, and its logits are tripled, so that it is overconfident like networks after long training.
// It takes the time and memory of a real network, but is useless otherwise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/onnx/tensor"
)

const (
	classes = 10
	side    = 256 // of an image
	crop    = 224 // of the network's input

	sharpness = 3 // factor of the logits
)

// weaves are the names of the classes, in the order of folders.
var weaves = [classes]string{"broad-0", "broad-108", "broad-144", "broad-36", "broad-72",
	"fine-0", "fine-108", "fine-144", "fine-36", "fine-72"}

// waves are the direction, in degrees, and wavelength, in pixels, of each.
var waves = [classes][2]float64{{0, 24}, {108, 24}, {144, 24}, {36, 24}, {72, 24},
	{0, 12}, {108, 12}, {144, 12}, {36, 12}, {72, 12}}

func main() {
	out := flag.String("out", "try", "the folder to make; it must not be there")
	flag.Parse()
	if err := make50(*out); err != nil {
		fmt.Fprintln(os.Stderr, "resnet50:", err)
		os.Exit(1)
	}
}

func make50(out string) error {
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s is there: remove it, or name another folder", out)
	}
	rng := rand.New(rand.NewPCG(50, 1))
	training, err := pictures(rng, filepath.Join(out, "pictures", "train"), 30)
	if err != nil {
		return err
	}
	for _, name := range []string{"val", "test"} {
		if _, err := pictures(rng, filepath.Join(out, "pictures", name), 20); err != nil {
			return err
		}
	}
	if err := spots(rng, filepath.Join(out, "other"), 100); err != nil {
		return err
	}
	body := resnet50(rng)
	features, err := run(body.model("features", featureDim), training)
	if err != nil {
		return err
	}
	weight, bias := fit(features)
	body.linear(weight, bias)
	return files.Write(filepath.Join(out, "resnet50.onnx"), func(w io.Writer) error {
		_, err := w.Write(body.model("logits", classes))
		return err
	})
}

// pictures writes n JPEG files of each weave, one folder per weave, and returns them in the order of classes.
func pictures(rng *rand.Rand, dir string, n int) ([]image.Image, error) {
	var all []image.Image
	for k, name := range weaves {
		for i := range n {
			img := weave(rng, waves[k])
			if err := writeJPEG(filepath.Join(dir, name, fmt.Sprintf("%03d.jpg", i)), img); err != nil {
				return nil, err
			}
			all = append(all, img)
		}
	}
	return all, nil
}

// weave draws waves of jittered direction and length, in two colours and with noise.
func weave(rng *rand.Rand, wave [2]float64) image.Image {
	angle := (wave[0] + 9*rng.NormFloat64()) * math.Pi / 180
	k := 2 * math.Pi / (wave[1] * math.Exp(0.16*rng.NormFloat64()))
	phase, noise := 2*math.Pi*rng.Float64(), 20+60*rng.Float64()
	var from, to [3]float64
	for c := range from {
		from[c], to[c] = 30+90*rng.Float64(), 130+100*rng.Float64()
	}
	return draw(func(x, y float64, c int) float64 {
		w := 0.5 + 0.5*math.Sin(k*(x*math.Cos(angle)+y*math.Sin(angle))+phase)
		return from[c] + (to[c]-from[c])*w + noise*rng.NormFloat64()
	})
}

// spots writes images of discs, the OOD set.
func spots(rng *rand.Rand, dir string, n int) error {
	for i := range n {
		var at [40][3]float64 // x, y, radius
		for k := range at {
			at[k] = [3]float64{side * rng.Float64(), side * rng.Float64(), 4 + 16*rng.Float64()}
		}
		img := draw(func(x, y float64, c int) float64 {
			for k, s := range at {
				if math.Hypot(x-s[0], y-s[1]) < s[2] {
					return float64(60+(k*37+c*71)%190) + 20*rng.NormFloat64()
				}
			}
			return 90 + 20*rng.NormFloat64()
		})
		if err := writeJPEG(filepath.Join(dir, fmt.Sprintf("%03d.jpg", i)), img); err != nil {
			return err
		}
	}
	return nil
}

// draw calls f for each channel of each pixel.
func draw(value func(x, y float64, channel int) float64) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			var p [3]uint8
			for c := range p {
				p[c] = uint8(math.Max(0, math.Min(255, value(float64(x), float64(y), c))))
			}
			img.SetRGBA(x, y, color.RGBA{p[0], p[1], p[2], 255})
		}
	}
	return img
}

func writeJPEG(path string, img image.Image) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return jpeg.Encode(f, img, &jpeg.Options{Quality: 90})
}

// run returns the features [n, featureDim] of images, centre-cropped and normalised as by torchvision.
func run(model []byte, all []image.Image) ([][]float32, error) {
	lib, err := install.Find(install.Config{})
	if err != nil {
		return nil, err
	}
	if err := ort.Load(lib); err != nil {
		return nil, err
	}
	session, err := ort.NewSession(ort.SessionConfig{Graph: model})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	mean, std := [3]float32{0.485, 0.456, 0.406}, [3]float32{0.229, 0.224, 0.225}
	var features [][]float32
	x := make([]float32, 3*crop*crop)
	for _, img := range all {
		const margin = (side - crop) / 2
		for y := range crop {
			for x0 := range crop {
				r, g, b, _ := img.At(x0+margin, y+margin).RGBA()
				for c, v := range [3]uint32{r, g, b} {
					x[(c*crop+y)*crop+x0] = (float32(v>>8)/255 - mean[c]) / std[c]
				}
			}
		}
		given, err := session.Run(context.Background(), []tensor.Tensor{{Shape: []int64{1, 3, crop, crop}, Data: x}})
		if err != nil {
			return nil, err
		}
		features = append(features, given[0].Data.([]float32))
	}
	return features, nil
}

// fit fits a softmax regression to the features of balanced classes, by gradient descent with momentum from zero in the
// dual: each example's coefficient in the weights. It returns weights [classes][featureDim] and biases [classes].
func fit(features [][]float32) ([]float32, []float32) {
	n := len(features)
	mean, spread := make([]float64, featureDim), 0.0
	for d := range mean {
		for _, f := range features {
			mean[d] += float64(f[d]) / float64(n)
		}
		for _, f := range features {
			spread += math.Pow(float64(f[d])-mean[d], 2) / float64(n)
		}
	}
	kernel := make([][]float64, n) // of centred features, with mean diagonal 1
	for i := range kernel {
		kernel[i] = make([]float64, n)
		for j := range i + 1 {
			sum := 0.0
			for d, m := range mean {
				sum += (float64(features[i][d]) - m) * (float64(features[j][d]) - m)
			}
			kernel[i][j] = sum / spread
			kernel[j][i] = kernel[i][j]
		}
	}
	const steps, rate, momentum = 3000, 2.0, 0.99
	adds, pace := make([][classes]float64, n), make([][classes]float64, n)
	for range steps {
		var change [][classes]float64
		for i := range kernel {
			var a [classes]float64
			for j, v := range kernel[i] {
				for k := range a {
					a[k] += v * adds[j][k]
				}
			}
			change = append(change, residual(a, i*classes/n))
		}
		for i := range adds {
			for k := range adds[i] {
				pace[i][k] = momentum*pace[i][k] + rate/float64(n)*change[i][k]
				adds[i][k] += pace[i][k]
			}
		}
	}
	weight, bias := make([]float32, classes*featureDim), make([]float32, classes)
	for k := range classes {
		b := 0.0
		for d, m := range mean {
			w := 0.0
			for i, f := range features {
				w += adds[i][k] * (float64(f[d]) - m)
			}
			w *= sharpness / spread
			weight[k*featureDim+d] = float32(w)
			b -= w * m
		}
		bias[k] = float32(b)
	}
	return weight, bias
}

// residual is the one-hot label minus the softmax of the logits.
func residual(logits [classes]float64, label int) [classes]float64 {
	sum := 0.0
	for _, a := range logits {
		sum += math.Exp(a)
	}
	var r [classes]float64
	for k, a := range logits {
		r[k] = -math.Exp(a) / sum
	}
	r[label]++
	return r
}
