// Package images reads, scales, rotates and writes the experiments' images: tar archives of encoded files, sets of
// pixels of one size, noise, IDX files.
package images

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/pixels"
)

// Images are images of one size, with labels.
type Images struct {
	Width, Height, Channels int    // 1 channel of grey, or 3 of RGB
	Pixels                  []byte // [n,height,width,channels]
	Labels                  []byte
}

// Len returns the number of images.
func (g *Images) Len() int { return len(g.Labels) }

// Image returns the pixels of image i, [height,width,channels].
func (g *Images) Image(i int) []byte {
	size := g.Width * g.Height * g.Channels
	return g.Pixels[i*size : (i+1)*size]
}

// Read reads a labelled dataset of ten classes. Its images have one size, and are all grey or all RGB.
func Read(ctx context.Context, spec string) (*Images, error) {
	d, err := dataset.Open(ctx, spec, dataset.Options{Classes: 10})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if !d.HasLabels() {
		return nil, fmt.Errorf("%s has no labels", spec)
	}
	return read(ctx, d, spec)
}

// Decode writes the pixels and labels of encoded images of ten classes as IDX files, and returns their SPEC. Images
// that many networks read are so decoded once. The files' names begin with name.
func Decode(ctx context.Context, name string, encoded []File) (string, error) {
	if err := WriteArchive(name+".tar", encoded); err != nil {
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

// ReadUnlabelled is Read for images without labels. The labels returned mean nothing.
func ReadUnlabelled(ctx context.Context, spec string) (*Images, error) {
	d, err := dataset.Open(ctx, spec, dataset.Options{})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return read(ctx, d, spec)
}

// read reads the images of a dataset.
func read(ctx context.Context, d *dataset.Dataset, spec string) (*Images, error) {
	g := new(Images)
	for e, err := range d.Examples(ctx) {
		if err != nil {
			return nil, err
		}
		if err := e.Decode(); err != nil {
			return nil, err
		}
		if len(e.Inputs) != 1 || len(e.Inputs[0].Shape) < 2 {
			return nil, fmt.Errorf("%s: %s is not an image", spec, e.Name)
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
			return nil, fmt.Errorf("%s: %s: want an 8-bit image of the same size as the first", spec, e.Name)
		}
		g.Height, g.Width, g.Channels = a.Shape[0], a.Shape[1], channels
		g.Pixels, g.Labels = append(g.Pixels, pixels...), append(g.Labels, byte(e.Label))
	}
	return g, nil
}

// CentredRGB pastes grey images into the centre of black RGB ones: [n,side,side,3].
func (g *Images) CentredRGB(side int) ([]byte, error) {
	if g.Width > side || g.Height > side || g.Channels != 1 {
		return nil, fmt.Errorf("images of %d × %d × %d: want grey images of at most %d × %d", g.Width, g.Height, g.Channels, side, side)
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

// Uniform returns n uniform random bytes.
func Uniform(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}

// Gaussian returns n bytes of Gaussian noise, mean 127.5 and standard deviation 63.75, clipped.
func Gaussian(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(min(max(127.5+63.75*rng.NormFloat64()+.5, 0), 255))
	}
	return out
}

// WriteIDX writes an IDX file of bytes. The first dimension of shape is the number of examples.
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
	return WriteFile(path, append(b, data...))
}

// Write writes the images and their labels as IDX files, whose names begin with name, and returns their SPEC.
func (g *Images) Write(name string) (string, error) {
	if err := WriteIDX(name+"labels-idx1-ubyte", g.Labels, g.Len()); err != nil {
		return "", err
	}
	file, shape := g.FileAndShape(name)
	return file, WriteIDX(file, g.Pixels, shape...)
}

// FileAndShape returns the file that Write writes the images to, and its shape.
func (g *Images) FileAndShape(name string) (file string, shape []int) {
	if g.Channels == 1 {
		return name + "images-idx3-ubyte", []int{g.Len(), g.Height, g.Width}
	}
	return name + "images-idx4-ubyte", []int{g.Len(), g.Height, g.Width, g.Channels}
}

// Subsample returns at most n images, evenly spaced.
func (g *Images) Subsample(n int) *Images {
	if g.Len() <= n {
		return g
	}
	few := &Images{Width: g.Width, Height: g.Height, Channels: g.Channels}
	for i := range n {
		at := i * g.Len() / n
		few.Pixels, few.Labels = append(few.Pixels, g.Image(at)...), append(few.Labels, g.Labels[at])
	}
	return few
}

// Framed returns grey images with their central square of crop × crop pixels scaled to inner × inner, in the centre of
// black images of side × side.
func (g *Images) Framed(crop, inner, side int) (*Images, error) {
	if g.Channels != 1 || crop < 1 || crop > min(g.Width, g.Height) || inner < 1 || inner > side {
		return nil, fmt.Errorf("images of %d × %d × %d: no grey square of %d × %d to scale to %d × %d of %d × %d", g.Width, g.Height, g.Channels, crop, crop, inner, inner, side, side)
	}
	out := &Images{Width: side, Height: side, Channels: 1, Labels: g.Labels, Pixels: make([]byte, g.Len()*side*side)}
	square := pixels.Pixels{Data: make([]byte, crop*crop), Height: crop, Width: crop, Channels: 1}
	left, top, margin := (g.Width-crop)/2, (g.Height-crop)/2, (side-inner)/2
	for i := range g.Len() {
		from, to := g.Image(i), out.Image(i)
		for y := range crop {
			copy(square.Data[y*crop:(y+1)*crop], from[(top+y)*g.Width+left:])
		}
		scaled := Resize(square, inner, inner)
		for y := range inner {
			copy(to[(margin+y)*side+margin:], scaled.Data[y*inner:(y+1)*inner])
		}
	}
	return out, nil
}
