// Package gallery holds images of one size in memory, decodes them, and writes them as IDX files.
package gallery

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/archive"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/files"
)

// A Gallery is images of one size, with labels.
type Gallery struct {
	Width, Height, Channels int    // 1 channel of grey, or 3 of RGB
	Pixels                  []byte // [n,height,width,channels]
	Labels                  []byte
}

// Len is how many images there are.
func (g *Gallery) Len() int { return len(g.Labels) }

// Image returns the pixels of image i, [height,width,channels].
func (g *Gallery) Image(i int) []byte {
	size := g.Width * g.Height * g.Channels
	return g.Pixels[i*size : (i+1)*size]
}

// Read reads a labelled dataset of images, all grey or all RGB, of ten classes.
func Read(ctx context.Context, spec string) (*Gallery, error) {
	d, err := dataset.Open(ctx, spec, dataset.Options{Classes: 10})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if !d.HasLabels() {
		return nil, fmt.Errorf("%s has no labels", spec)
	}
	return gather(ctx, d, spec)
}

// Decode writes encoded images of ten classes as they are decoded, with their labels, and returns the SPEC: what
// is read for many networks is decoded once. Its files begin with a name.
func Decode(ctx context.Context, name string, images []archive.Image) (string, error) {
	if err := archive.Write(name+".tar", images); err != nil {
		return "", err
	}
	g, err := Read(ctx, name+".tar")
	if err != nil {
		return "", err
	}
	if err := os.Remove(name + ".tar"); err != nil {
		return "", err
	}
	return g.Write(name + "-")
}

// ReadImages reads such images that need no labels, whose labels mean nothing then.
func ReadImages(ctx context.Context, spec string) (*Gallery, error) {
	d, err := dataset.Open(ctx, spec, dataset.Options{})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return gather(ctx, d, spec)
}

// gather reads the images of a dataset.
func gather(ctx context.Context, d *dataset.Dataset, spec string) (*Gallery, error) {
	g := new(Gallery)
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
		if !ok || g.Len() > 0 && (a.Shape[0] != g.Height || a.Shape[1] != g.Width || channels != g.Channels) {
			return nil, fmt.Errorf("%s: %s is no 8-bit image, or of another size than those before it", spec, e.Name)
		}
		g.Height, g.Width, g.Channels = a.Shape[0], a.Shape[1], channels
		g.Pixels, g.Labels = append(g.Pixels, pixels...), append(g.Labels, byte(e.Label))
	}
	return g, nil
}

// Colour returns grey images in the middle of side × side black ones, with three
// equal channels: [n,side,side,3].
func (g *Gallery) Colour(side int) ([]byte, error) {
	if g.Width > side || g.Height > side || g.Channels != 1 {
		return nil, fmt.Errorf("images of %d × %d × %d: want grey ones that fit %d × %d", g.Width, g.Height, g.Channels, side, side)
	}
	left, top := (side-g.Width)/2, (side-g.Height)/2
	out := make([]byte, g.Len()*side*side*3)
	for i := range g.Len() {
		in := g.Image(i)
		for y := range g.Height {
			for x := range g.Width {
				at := ((i*side+top+y)*side + left + x) * 3
				v := in[y*g.Width+x]
				out[at], out[at+1], out[at+2] = v, v, v
			}
		}
	}
	return out, nil
}

// Uniform returns n bytes of uniform noise.
func Uniform(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}

// Gaussian returns n bytes of noise around the middle of their range, with a
// quarter of it as standard deviation, clipped.
func Gaussian(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(min(max(127.5+63.75*rng.NormFloat64()+.5, 0), 255))
	}
	return out
}

// WriteIDX writes an IDX file of bytes; shape begins with their number of examples.
func WriteIDX(path string, data []byte, shape ...int) error {
	b := []byte{0, 0, 0x08, byte(len(shape))}
	size := 1
	for _, d := range shape {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
		size *= d
	}
	if size != len(data) {
		panic(fmt.Sprintf("%d bytes for the shape %v", len(data), shape))
	}
	if err := os.MkdirAll(filepath.Dir(path), files.FolderMode); err != nil {
		return err
	}
	return files.Write(path, func(w io.Writer) error {
		_, err := w.Write(append(b, data...))
		return err
	})
}

// Write writes a gallery and its labels, in files whose names begin so, and returns the SPEC.
func (g *Gallery) Write(name string) (string, error) {
	if err := WriteIDX(name+"labels-idx1-ubyte", g.Labels, g.Len()); err != nil {
		return "", err
	}
	images, shape := g.Place(name)
	return images, WriteIDX(images, g.Pixels, shape...)
}

// Place returns the file in which Write leaves the images, and its shape.
func (g *Gallery) Place(name string) (file string, shape []int) {
	if g.Channels == 1 {
		return name + "images-idx3-ubyte", []int{g.Len(), g.Height, g.Width}
	}
	return name + "images-idx4-ubyte", []int{g.Len(), g.Height, g.Width, g.Channels}
}

// Some returns at most so many images of a gallery, spread evenly.
func (g *Gallery) Some(most int) *Gallery {
	if g.Len() <= most {
		return g
	}
	few := &Gallery{Width: g.Width, Height: g.Height, Channels: g.Channels}
	for i := range most {
		at := i * g.Len() / most
		few.Pixels, few.Labels = append(few.Pixels, g.Image(at)...), append(few.Labels, g.Labels[at])
	}
	return few
}
