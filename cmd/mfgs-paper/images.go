package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/files"
)

// A gallery is images of one size, with labels.
type gallery struct {
	width, height, channels int    // 1 channel of grey, or 3 of RGB
	pixels                  []byte // [n,height,width,channels]
	labels                  []byte
}

func (g *gallery) len() int { return len(g.labels) }

// image returns the pixels of image i, [height,width,channels].
func (g *gallery) image(i int) []byte {
	size := g.width * g.height * g.channels
	return g.pixels[i*size : (i+1)*size]
}

// readGallery reads a labelled dataset of images, all grey or all RGB, of ten classes.
func readGallery(ctx context.Context, spec string) (*gallery, error) {
	d, err := dataset.Open(spec, dataset.Options{Classes: 10})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if !d.HasLabels() {
		return nil, fmt.Errorf("%s has no labels", spec)
	}
	g := new(gallery)
	for e, err := range d.Examples(ctx) {
		if err != nil {
			return nil, err
		}
		if err := e.Decode(); err != nil {
			return nil, err
		}
		if len(e.Inputs) != 1 || len(e.Inputs[0].Shape) < 2 {
			return nil, fmt.Errorf("%s: %s is no image", spec, e.Name)
		}
		a, channels := e.Inputs[0], 1
		if len(a.Shape) > 2 {
			channels = a.Shape[2]
		}
		if len(a.Shape) > 3 || channels != 1 && channels != 3 {
			return nil, fmt.Errorf("%s: %s has the shape %v: want [height,width], or [height,width,3]", spec, e.Name, a.Shape)
		}
		pixels, ok := a.Data.([]uint8)
		if !ok || g.len() > 0 && (a.Shape[0] != g.height || a.Shape[1] != g.width || channels != g.channels) {
			return nil, fmt.Errorf("%s: %s is no 8-bit image, or of another size than those before it", spec, e.Name)
		}
		g.height, g.width, g.channels = a.Shape[0], a.Shape[1], channels
		g.pixels, g.labels = append(g.pixels, pixels...), append(g.labels, byte(e.Label))
	}
	return g, nil
}

// colour returns grey images in the middle of side × side black ones, with three
// equal channels: [n,side,side,3].
func (g *gallery) colour(side int) ([]byte, error) {
	if g.width > side || g.height > side || g.channels != 1 {
		return nil, fmt.Errorf("images of %d × %d × %d: want grey ones that fit %d × %d", g.width, g.height, g.channels, side, side)
	}
	left, top := (side-g.width)/2, (side-g.height)/2
	out := make([]byte, g.len()*side*side*3)
	for i := range g.len() {
		in := g.image(i)
		for y := range g.height {
			for x := range g.width {
				at := ((i*side+top+y)*side + left + x) * 3
				v := in[y*g.width+x]
				out[at], out[at+1], out[at+2] = v, v, v
			}
		}
	}
	return out, nil
}

// uniform returns n bytes of uniform noise.
func uniform(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}

// gaussian returns n bytes of noise around the middle of their range, with a
// quarter of it as standard deviation, clipped.
func gaussian(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(min(max(127.5+63.75*rng.NormFloat64()+.5, 0), 255))
	}
	return out
}

// writeIDX writes an IDX file of bytes; shape begins with their number of examples.
func writeIDX(path string, data []byte, shape ...int) error {
	b := []byte{0, 0, 0x08, byte(len(shape))}
	size := 1
	for _, d := range shape {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
		size *= d
	}
	if size != len(data) {
		panic(fmt.Sprintf("%d bytes for the shape %v", len(data), shape))
	}
	return errors.Join(os.MkdirAll(filepath.Dir(path), files.FolderMode), writeFile(path, append(b, data...)))
}
