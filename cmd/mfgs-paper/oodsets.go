package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/internal/pixels"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/wrap/bench"
)

// A nearness says how similar an OOD set is to the training data.
type nearness string

const (
	near    nearness = "near"    // other classes, similar images
	far     nearness = "far"     // other kinds of images
	noise   nearness = "noise"   // no images of anything
	altered nearness = "altered" // the test data, in a way that training data never are
)

// A pair is a network with an OOD set.
type pair struct {
	network, set string
	nearness
	why string
}

func (e pair) String() string { return e.network + ": " + e.set }

// label is how paper.md words the pair; its String is part of keys.
func (e pair) label() string { return e.network + ": " + setLabel(e.set) }

// Networks and sets that only this part uses.
const (
	smallDigitsName = "digits"
	textName        = "text"
	tableName       = "table"

	drawings       = "drawings"
	cifarSet       = "cifar10"
	faded          = "faded"
	inverted       = "inverted"
	otherClasses   = "other classes"
	romance        = "romance"
	otherLanguages = "others"
	randomLetters  = "random letters"
	slipped        = "slipped"
	sentinel       = "sentinel"
	zero           = "zero"
)

// restrictedName names a network of which only the last layer's first classes are kept.
func restrictedName(of string, classes int) string {
	return fmt.Sprintf("%s, %d of 10 classes", of, classes)
}

// restrictions are the numbers of classes kept.
var restrictions = []int{2, 3, 8}

// allPairs are the pairs measured. Near and far are judged by semantics and kind of image, as in OpenOOD
// (Yang et al. 2022, "OpenOOD: Benchmarking Generalized Out-of-Distribution Detection").
var allPairs = []pair{
	{mnistName, notMNIST, near, "letters in the same format as the digits: glyphs, white on black, 28 × 28"},
	{mnistName, cifarSet, far, "photographs in grey, scaled to 28 × 28"},
	{mnistName, tinyImageNet, far, "photographs in grey, scaled to 28 × 28"},
	{mnistName, uniformNoise, noise, "independent pixels"},
	{mnistName, gaussianNoise, noise, "independent pixels"},
	{cifar10Name, tinyImageNet, near, "photographs of 200 classes at 32 × 32; some classes are in CIFAR-10 or close to it"},
	{cifar10Name, digits, far, "digits in grey on black"},
	{cifar10Name, uniformNoise, noise, "independent channels of independent pixels"},
	{cifar10Name, gaussianNoise, noise, "independent channels of independent pixels"},
	{shiftName, tinyImageNet, near, "as above"},
	{shiftName, digits, far, "as above"},
	{shiftName, uniformNoise, noise, "as above"},
	{shiftName, gaussianNoise, noise, "as above"},
	{smallDigitsName, drawings, near, "letters in the same format as the digits, inverted digits, and shuffled pieces of digits"},
	{smallDigitsName, cifarSet, far, "photographs in grey, scaled to 8 × 8"},
	{imagenetName, cifarSet, far, "photographs of 32 × 32 pixels, enlarged"},
	{imagenetName, digits, far, "digits in grey on black, enlarged"},
	{imagenetName, uniformNoise, noise, "independent channels of independent pixels"},

	{mnistName, faded, altered, "the test images with a quarter of their pixel values"},
	{mnistName, inverted, altered, "the test images, black on white"},
	{cifar10Name, faded, altered, "as above"},
	{cifar10Name, inverted, altered, "the test images, each pixel value v as 255 − v"},
	{shiftName, faded, altered, "as above"},
	{shiftName, inverted, altered, "as above"},
	{smallDigitsName, faded, altered, "as above"},
	{smallDigitsName, inverted, altered, "as above"},
	{restrictedName(mnistName, 2), otherClasses, near, "test images of 2 to 9, for a network of 0 and 1"},
	{restrictedName(mnistName, 2), notMNIST, far, "letters, less similar than the other digits"},
	{restrictedName(mnistName, 3), otherClasses, near, "test images of 3 to 9"},
	{restrictedName(mnistName, 3), notMNIST, far, "as above"},
	{restrictedName(mnistName, 8), otherClasses, near, "test images of 8 and 9"},
	{restrictedName(mnistName, 8), notMNIST, far, "as above"},
	{restrictedName(cifar10Name, 2), otherClasses, near, "test images of the eight classes from bird on"},
	{restrictedName(cifar10Name, 2), tinyImageNet, far, "photographs, less similar than the other classes"},
	{restrictedName(cifar10Name, 3), otherClasses, near, "test images of the seven classes from cat on"},
	{restrictedName(cifar10Name, 3), tinyImageNet, far, "as above"},
	{restrictedName(cifar10Name, 8), otherClasses, near, "test images of ships and trucks"},
	{restrictedName(cifar10Name, 8), tinyImageNet, far, "as above"},
	{textName, romance, near, "numbers in Spanish, Italian and Portuguese, for a network of six Germanic languages"},
	{textName, otherLanguages, near, "numbers in Polish, Hungarian and Lithuanian"},
	{textName, randomLetters, noise, "independent letters, in the lengths of the test texts"},
	{tableName, slipped, altered, "validation rows, one value of each ten times too large"},
	{tableName, sentinel, altered, "the test rows, one value of each replaced by −999"},
	{tableName, zero, altered, "the test rows, one value of each replaced by 0"},
}

// usedForDesign reports whether the default score and the learned one were designed on such a network and this set:
// see docs/evidence/synthetic-ood.md.
func (e pair) usedForDesign() bool {
	onMNIST := e.network == mnistName && (e.set == notMNIST || e.nearness == altered)
	return onMNIST || e.network == cifar10Name || e.network == shiftName
}

// pairOf returns the pair of a network and a set.
func pairOf(network, set string) pair {
	i := slices.IndexFunc(allPairs, func(p pair) bool { return p.network == network && p.set == set })
	return allPairs[i]
}

// scoreImages bounds the examples of a set that are tested, evenly spaced, to save time.
const scoreImages = 2500

// A scoreNetwork is a kind of network with its OOD sets.
type scoreNetwork struct {
	name  string
	set   *benchmark
	kind  string
	seeds []int
	sets  []oodSet

	// restrictedOn is the OOD set that restrictions of its last layer are also tested on; "" if there are none.
	restrictedOn string
	// untuned says that there are no synthetic OOD images, and that nothing is tuned on an OOD set.
	untuned bool
	// sigmoid says that the head is not a softmax, which some scores need.
	sigmoid bool
}

// tunedSets are the sets that temperatures and scores are tuned on.
func (h scoreNetwork) tunedSets() []oodSet {
	if h.untuned {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(h.sets), func(u oodSet) bool {
		return pairOf(h.name, u.name).nearness == altered
	})
}

// An oodSet is a set of OOD examples. The first held are set aside, at most oodHeldOut of them for tuning; those up
// to end are for testing, all of them if end is 0.
type oodSet struct {
	name, spec string
	held, end  int
}

func (u oodSet) heldOut() string { return fmt.Sprintf("%s[0:%d]", u.spec, min(u.held, oodHeldOut)) }

func (u oodSet) test() bench.NamedSpec {
	if u.end == 0 { // all of it
		return bench.NamedSpec{Name: u.name, Spec: u.spec}
	}
	return bench.NamedSpec{Name: u.name, Spec: fmt.Sprintf("%s[%d:%d]", u.spec, u.held, u.end)}
}

// An oodWriter writes OOD sets in the input format of one network.
type oodWriter struct {
	dir           string
	side, channel int
	held, end     int
}

// write writes images that have the network's size.
func (m oodWriter) write(name string, all []pixels.Pixels) (oodSet, error) {
	var data []byte
	for _, p := range all {
		data = append(data, p.Data...)
	}
	return m.writeBytes(name, data)
}

func (m oodWriter) writeBytes(name string, data []byte) (oodSet, error) {
	n := len(data) / (m.side * m.side * m.channel)
	path, shape := filepath.Join(m.dir, fileName(name)+"-images-idx4-ubyte"), []int{m.side, m.side, m.channel}
	if m.channel == 1 {
		path, shape = filepath.Join(m.dir, fileName(name)+"-images-idx3-ubyte"), shape[:2]
	}
	u := oodSet{name, path, m.held, min(n, m.end)}
	return u, images.WriteIDX(path, data, append([]int{n}, shape...)...)
}

// noise writes a set of noise.
func (m oodWriter) noise(name string) (oodSet, error) {
	of := images.Uniform
	if name == gaussianNoise {
		of = images.Gaussian
	}
	return m.writeBytes(name, of(m.end*m.side*m.side*m.channel, 1))
}

// from writes evenly spaced images, scaled and converted to the network's size and channels.
func (m oodWriter) from(name string, g *images.Images) (oodSet, error) {
	scaled := make([]pixels.Pixels, 0, m.end)
	g = g.Subsample(m.end)
	for i := range g.Len() {
		p := pixels.Pixels{Data: g.Image(i), Height: g.Height, Width: g.Width, Channels: g.Channels}
		if m.channel == 1 {
			p = images.ToGrey(p)
		} else {
			p = images.ToRGB(p)
		}
		scaled = append(scaled, images.Resize(p, m.side, m.side))
	}
	return m.write(name, scaled)
}

// scoreNetworks prepares the networks and sets of allPairs.
func (l *lab) scoreNetworks(ctx context.Context) ([]scoreNetwork, error) {
	own, shift, err := l.cifar10(ctx)
	if err != nil {
		return nil, err
	}
	photographs, err := images.Read(ctx, own.test)
	if err != nil {
		return nil, err
	}
	all := []scoreNetwork{
		{name: mnistName, set: l.mnist(), seeds: l.seeds[:min(someNetworks, len(l.seeds))], restrictedOn: notMNIST},
		{name: cifar10Name, set: own, seeds: own.seeds[:someNetworks], restrictedOn: tinyImageNet},
		{name: shiftName, set: shift, seeds: []int{0}},
		{name: smallDigitsName, set: l.smallDigits(), seeds: []int{0}},
	}
	dir := func(name string) string { return filepath.Join(l.scratch, "ood", fileName(name)) }
	mnist := oodWriter{dir(mnistName), 28, 1, oodHeldOut, 7000}
	if all[0].sets, err = l.mnistOODSets(ctx, mnist, photographs); err != nil {
		return nil, err
	}
	for i, b := range []*benchmark{own, shift} {
		for _, o := range b.ood {
			all[1+i].sets = append(all[1+i].sets, oodSet{o.Name, o.Spec, oodHeldOut, noiseImages})
		}
	}
	small, err := oodWriter{dir(smallDigitsName), 8, 1, 300, 1300}.from(cifarSet, photographs)
	if err != nil {
		return nil, err
	}
	all[3].sets = []oodSet{
		{drawings, filepath.Join(l.models, "digits-mlp", "drawings-images-idx3-ubyte.gz"), 300, 600}, small,
	}
	for i := range all {
		sets, err := l.alteredSets(ctx, all[i].set.test, dir(all[i].name))
		if err != nil {
			return nil, err
		}
		all[i].sets = append(all[i].sets, sets...)
	}
	text, err := l.textNetwork(dir(textName))
	if err != nil {
		return nil, err
	}
	photos, err := l.imagenet(ctx)
	if err != nil {
		return nil, err
	}
	paperFigures, err := l.imagenetOODSets(ctx, dir(imagenetName), photographs)
	return append(all, text, l.tableNetwork(),
		scoreNetwork{name: imagenetName, set: photos, seeds: []int{0}, sets: paperFigures}), err
}

// alteredSets writes faded and inverted test images: the first of what a network has never seen and yet recognises.
func (l *lab) alteredSets(ctx context.Context, test, dir string) ([]oodSet, error) {
	g, err := images.Read(ctx, test)
	if err != nil {
		return nil, err
	}
	g = g.Subsample(scoreImages)
	m := oodWriter{dir: dir, side: g.Height, channel: g.Channels, end: g.Len()}
	var sets []oodSet
	for _, a := range []struct {
		name string
		of   func(v byte) byte
	}{{faded, func(v byte) byte { return byte((int(v) + 2) / 4) }}, {inverted, func(v byte) byte { return 255 - v }}} {
		pixels := make([]byte, len(g.Pixels))
		for i, v := range g.Pixels {
			pixels[i] = a.of(v)
		}
		u, err := m.writeBytes(a.name, pixels)
		if err != nil {
			return nil, err
		}
		sets = append(sets, u)
	}
	return sets, nil
}

// mnistOODSets writes the OOD sets of the MLPs on MNIST.
func (l *lab) mnistOODSets(ctx context.Context, m oodWriter, photographs *images.Images) ([]oodSet, error) {
	tiny, err := images.ReadUnlabelled(ctx, filepath.Join(l.data, "tinyimagenet32", "images-idx4-ubyte.gz"))
	if err != nil {
		return nil, err
	}
	letters := filepath.Join(l.data, "notmnist", "notmnist-images-idx3-ubyte.gz")
	sets := []oodSet{{notMNIST, letters, 5000, 18724}}
	for _, s := range []struct {
		name string
		*images.Images
	}{{cifarSet, photographs}, {tinyImageNet, tiny}} {
		u, err := m.from(s.name, s.Images)
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

// imagenetOODSets writes the OOD sets of the network on ImageNet, which is tested on twenty of its classes. Images
// of its other classes are in-distribution: it was trained on them.
func (l *lab) imagenetOODSets(ctx context.Context, dir string, photographs *images.Images) ([]oodSet, error) {
	m := oodWriter{dir, 224, 3, 200, 500}
	enlarged, err := m.from(cifarSet, photographs)
	if err != nil {
		return nil, err
	}
	g, err := images.Read(ctx, l.mnist().test)
	if err != nil {
		return nil, err
	}
	written, err := m.from(digits, g)
	if err != nil {
		return nil, err
	}
	random, err := m.noise(uniformNoise)
	return []oodSet{enlarged, written, random}, err
}

// smallDigits is the digits network, whose data ships with it.
func (l *lab) smallDigits() *benchmark {
	file := func(spec string) string { return filepath.Join(l.models, "digits-mlp", spec) }
	return &benchmark{
		name:  smallDigitsName,
		train: file(models.DigitsTrain), val: file(models.DigitsVal), test: file(models.DigitsTest),
		seeds:   []int{0},
		network: func(string, int) string { return file(models.DigitsModel) },
	}
}
