package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset"
)

// A shift changes an image, [h,w,c] in 0 to 255.
type shift struct {
	name   string
	change func(rng *rand.Rand, x []float64, h, w, c int) []float64
}

var shifts = []shift{
	{"Gaussian noise, σ = 40 of 255", func(rng *rand.Rand, x []float64, _, _, _ int) []float64 {
		for i := range x {
			x[i] += 40 * rng.NormFloat64()
		}
		return x
	}},
	{"a third of the contrast", func(_ *rand.Rand, x []float64, _, _, _ int) []float64 {
		for i := range x {
			x[i] = 127.5 + (x[i]-127.5)/3
		}
		return x
	}},
	{"rotated by 25°", func(_ *rand.Rand, x []float64, h, w, c int) []float64 {
		sin, cos := math.Sincos(25 * math.Pi / 180)
		out := make([]float64, len(x))
		for i := range out {
			y, z := float64(i/c/w)-float64(h-1)/2, float64(i/c%w)-float64(w-1)/2
			// The nearest pixel, clamped to the edge.
			row := min(max(math.Round(cos*y-sin*z+float64(h-1)/2), 0), float64(h-1))
			column := min(max(math.Round(sin*y+cos*z+float64(w-1)/2), 0), float64(w-1))
			out[i] = x[(int(row)*w+int(column))*c+i%c]
		}
		return out
	}},
}

// write writes a network's pool, shifted, and returns its SPEC.
func (s shift) write(ctx context.Context, dir string, n network) (spec string, err error) {
	var images, labels []byte
	var shape []int
	rng := rand.New(rand.NewPCG(14, uint64(len(s.name))))
	for i, file := range n.Files {
		ds, err := dataset.Open(ctx, file, dataset.Options{})
		if err != nil {
			return "", err
		}
		for one, err := range ds.Examples(ctx) {
			if err != nil {
				return "", err
			}
			if n.Training(i, one.Index) {
				continue
			}
			if err := one.Decode(); err != nil {
				return "", err
			}
			image := one.Inputs[0]
			shape = append([]int{}, image.Shape...)
			channels := append(shape, 1)[2]
			x := make([]float64, len(image.Data.([]uint8)))
			for j, v := range image.Data.([]uint8) {
				x[j] = float64(v)
			}
			for _, v := range s.change(rng, x, shape[0], shape[1], channels) {
				images = append(images, byte(min(max(math.Round(v), 0), 255)))
			}
			labels = append(labels, byte(one.Label))
		}
		ds.Close()
	}
	spec = filepath.Join(dir, strings.Fields(s.name)[0]+"-images-idx3-ubyte")
	if err := writeIDX(spec, images, append([]int{len(labels)}, shape...)); err != nil {
		return "", err
	}
	return spec, writeIDX(strings.NewReplacer("images", "labels", "idx3", "idx1").Replace(spec), labels, []int{len(labels)})
}

// writeIDX writes bytes in MNIST's format.
func writeIDX(name string, data []byte, shape []int) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	w.Write([]byte{0, 0, 8, byte(len(shape))})
	for _, n := range shape {
		w.Write(binary.BigEndian.AppendUint32(nil, uint32(n)))
	}
	w.Write(data)
	return w.Flush()
}
