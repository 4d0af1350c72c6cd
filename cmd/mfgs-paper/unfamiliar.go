package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/gallery"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/resize"
	"github.com/mfgs/mfgs/internal/pixels"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/wrap/bench"
)

// A nearness says how like its network's training data an unfamiliar set is.
type nearness string

const (
	near  nearness = "near"  // other classes, in pictures of the same make
	far   nearness = "far"   // pictures of another make
	noise nearness = "noise" // no pictures: far, and nothing that a camera gives
)

// An encounter is a network with a set to be told from its test data.
type encounter struct {
	network, set string
	nearness
	why string
}

func (e encounter) String() string { return e.network + ": " + e.set }

// Networks and sets that the scores are measured on beyond those of the paper's tables.
const (
	smallDigitsName = "digits"

	drawings = "drawings"
	cifarSet = "cifar10"
)

// encounters are all of them. What is near and what is far is by what the images mean and how they are made,
// as in OpenOOD (Yang et al. 2022, "OpenOOD: Benchmarking Generalized Out-of-Distribution Detection").
var encounters = []encounter{
	{mnistName, notMNIST, near, "letters in the form of the digits: glyphs, white on black, 28 × 28"},
	{mnistName, cifarSet, far, "photographs in grey, scaled to 28 × 28"},
	{mnistName, tinyImageNet, far, "photographs in grey, scaled to 28 × 28"},
	{mnistName, uniformNoise, noise, "every pixel on its own"},
	{mnistName, gaussianNoise, noise, "every pixel on its own"},
	{cifar10Name, tinyImageNet, near, "photographs of 200 classes at 32 × 32, some of them CIFAR-10's own or nearly"},
	{cifar10Name, digits, far, "digits in grey on black"},
	{cifar10Name, uniformNoise, noise, "every channel of every pixel on its own"},
	{cifar10Name, gaussianNoise, noise, "every channel of every pixel on its own"},
	{shiftName, tinyImageNet, near, "as above"},
	{shiftName, digits, far, "as above"},
	{shiftName, uniformNoise, noise, "as above"},
	{shiftName, gaussianNoise, noise, "as above"},
	{smallDigitsName, drawings, near, "letters in the form of the digits, inverted digits, and digits in pieces"},
	{smallDigitsName, cifarSet, far, "photographs in grey, scaled to 8 × 8"},
	{imagenetName, cifarSet, far, "photographs of 32 × 32 pixels, enlarged"},
	{imagenetName, digits, far, "digits in grey on black, enlarged"},
	{imagenetName, uniformNoise, noise, "every channel of every pixel on its own"},
}

// designed reports whether the default score and the recipe of the learned one were made up with this set
// and such a network in view: see docs/standins.md.
func (e encounter) designed() bool {
	return e.network == cifar10Name || e.network == shiftName || e.network == mnistName && e.set == notMNIST
}

// A home is a network with the sets to be told from its test data.
type home struct {
	name  string
	set   *benchmark
	kind  string
	seeds []int
	sets  []unfamiliar
}

// An unfamiliar is such a set: its first held images are set aside, of which at most oodHeldOut are tuned
// on, and those behind them up to end are tested.
type unfamiliar struct {
	name, spec string
	held, end  int
}

func (u unfamiliar) heldOut() string { return fmt.Sprintf("%s[0:%d]", u.spec, min(u.held, oodHeldOut)) }

func (u unfamiliar) test() bench.NamedSpec {
	return bench.NamedSpec{Name: u.name, Spec: fmt.Sprintf("%s[%d:%d]", u.spec, u.held, u.end)}
}

// A maker makes unfamiliar sets for one network.
type maker struct {
	dir           string
	side, channel int
	held, end     int
}

// write writes images, each as the network takes them.
func (m maker) write(name string, images []pixels.Pixels) (unfamiliar, error) {
	var data []byte
	for _, p := range images {
		data = append(data, p.Data...)
	}
	return m.writeBytes(name, data)
}

func (m maker) writeBytes(name string, data []byte) (unfamiliar, error) {
	n := len(data) / (m.side * m.side * m.channel)
	path, shape := filepath.Join(m.dir, fileName(name)+"-images-idx4-ubyte"), []int{m.side, m.side, m.channel}
	if m.channel == 1 {
		path, shape = filepath.Join(m.dir, fileName(name)+"-images-idx3-ubyte"), shape[:2]
	}
	u := unfamiliar{name, path, m.held, min(n, m.end)}
	return u, gallery.WriteIDX(path, data, append([]int{n}, shape...)...)
}

// noise writes noise of one kind.
func (m maker) noise(name string) (unfamiliar, error) {
	of := gallery.Uniform
	if name == gaussianNoise {
		of = gallery.Gaussian
	}
	return m.writeBytes(name, of(m.end*m.side*m.side*m.channel, 1))
}

// from writes as many of a gallery's images as are wanted, spread evenly, scaled and in grey or in
// colour as the network takes them.
func (m maker) from(name string, g *gallery.Gallery) (unfamiliar, error) {
	images := make([]pixels.Pixels, 0, m.end)
	g = g.Some(m.end)
	for i := range g.Len() {
		p := pixels.Pixels{Data: g.Image(i), Height: g.Height, Width: g.Width, Channels: g.Channels}
		if m.channel == 1 {
			p = resize.Grey(p)
		} else {
			p = resize.Coloured(p)
		}
		images = append(images, resize.To(p, m.side, m.side))
	}
	return m.write(name, images)
}

// homes makes the networks and sets of encounters ready.
func (l *lab) homes(ctx context.Context) ([]home, error) {
	own, shift, err := l.cifar10(ctx)
	if err != nil {
		return nil, err
	}
	photographs, err := gallery.Read(ctx, own.test)
	if err != nil {
		return nil, err
	}
	all := []home{
		{name: mnistName, set: l.mnist(), seeds: l.seeds[:min(someNetworks, len(l.seeds))]},
		{name: cifar10Name, set: own, seeds: own.seeds[:someNetworks]},
		{name: shiftName, set: shift, seeds: []int{0}},
		{name: smallDigitsName, set: l.smallDigits(), seeds: []int{0}},
	}
	dir := func(name string) string { return filepath.Join(l.scratch, "unfamiliar", fileName(name)) }
	if all[0].sets, err = l.besideMNIST(ctx, maker{dir(mnistName), 28, 1, oodHeldOut, 7000}, photographs); err != nil {
		return nil, err
	}
	for i, b := range []*benchmark{own, shift} {
		for _, o := range b.ood {
			all[1+i].sets = append(all[1+i].sets, unfamiliar{o.Name, o.Spec, oodHeldOut, noiseImages})
		}
	}
	small, err := maker{dir(smallDigitsName), 8, 1, 300, 1300}.from(cifarSet, photographs)
	if err != nil {
		return nil, err
	}
	all[3].sets = []unfamiliar{
		{drawings, filepath.Join(l.models, "digits-mlp", "unfamiliar-images-idx3-ubyte.gz"), 300, 600}, small,
	}
	photos, err := l.imagenet(ctx)
	if err != nil {
		return nil, err
	}
	beside, err := l.besideImageNet(ctx, dir(imagenetName), photographs)
	return append(all, home{name: imagenetName, set: photos, seeds: []int{0}, sets: beside}), err
}

// besideMNIST makes what the MLPs are to tell from digits.
func (l *lab) besideMNIST(ctx context.Context, m maker, photographs *gallery.Gallery) ([]unfamiliar, error) {
	tiny, err := gallery.ReadImages(ctx, filepath.Join(l.data, "tinyimagenet32", "images-idx4-ubyte.gz"))
	if err != nil {
		return nil, err
	}
	letters := filepath.Join(l.data, "notmnist", "notmnist-images-idx3-ubyte.gz")
	sets := []unfamiliar{{notMNIST, letters, 5000, 18724}}
	for _, s := range []struct {
		name string
		*gallery.Gallery
	}{{cifarSet, photographs}, {tinyImageNet, tiny}} {
		u, err := m.from(s.name, s.Gallery)
		if err != nil {
			return nil, err
		}
		sets = append(sets, u)
	}
	for _, name := range []string{uniformNoise, gaussianNoise} {
		u, err := m.noise(name)
		if err != nil {
			return nil, err
		}
		sets = append(sets, u)
	}
	return sets, nil
}

// besideImageNet makes what the network of ImageNet is to tell from photographs of twenty of its classes.
// Photographs of its other classes are nothing unfamiliar: it was trained on them.
func (l *lab) besideImageNet(ctx context.Context, dir string, photographs *gallery.Gallery) ([]unfamiliar, error) {
	m := maker{dir, 224, 3, 200, 500}
	enlarged, err := m.from(cifarSet, photographs)
	if err != nil {
		return nil, err
	}
	g, err := gallery.Read(ctx, l.mnist().test)
	if err != nil {
		return nil, err
	}
	written, err := m.from(digits, g)
	if err != nil {
		return nil, err
	}
	random, err := m.noise(uniformNoise)
	return []unfamiliar{enlarged, written, random}, err
}

// smallDigits is the network that ships with its data.
func (l *lab) smallDigits() *benchmark {
	file := func(spec string) string { return filepath.Join(l.models, "digits-mlp", spec) }
	return &benchmark{
		name:  smallDigitsName,
		train: file(models.DigitsTrain), val: file(models.DigitsVal), test: file(models.DigitsTest),
		network: func(string, int) string { return file(models.DigitsModel) },
	}
}
