package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/wrap/bench"
)

// The out-of-distribution sets of CIFAR-10 that are to be had.
const (
	tinyImageNet  = "tinyimagenet"
	digits        = "mnist"
	uniformNoise  = "uniform noise"
	gaussianNoise = "gaussian noise"
)

// shiftName is CIFAR-10 for a network that was trained on other encodings of its images.
const shiftName = "CIFAR-10 under shift"

const (
	cifarSide    = 32
	cifarHeldOut = -500 // the last images of each class, as models/cifar10-resnet20/train.py has it
	shiftHeldOut = 200  // the first test images of each class, for a network trained on all the others
	noiseImages  = 10_000
)

// cifar10 makes CIFAR-10 ready, for the repository's network and for the one of the
// original pixels.
func (l *lab) cifar10(ctx context.Context) (own, shift *benchmark, err error) {
	if own, shift = l.sets[cifar10Name], l.sets[shiftName]; own != nil {
		return own, shift, nil
	}
	l.say("unpacking CIFAR-10")
	images, err := readArchive(ctx, filepath.Join(l.data, "cifar10", "cifar10.tar.gz"))
	if err != nil {
		return nil, nil, err
	}
	all, test := within(images, "train"), within(images, "test")
	train, val, err := split(all, cifarHeldOut)
	if err != nil {
		return nil, nil, err
	}
	shiftVal, shiftTest, err := split(test, shiftHeldOut)
	if err != nil {
		return nil, nil, err
	}
	file := func(name string) string { return filepath.Join(l.scratch, "cifar10", name) }
	for name, part := range map[string][]image{"all": all, "train": train, "val": val, "test": test, "shift-val": shiftVal, "shift-test": shiftTest} {
		if err := writeArchive(file(name+".tar"), part); err != nil {
			return nil, nil, err
		}
	}
	ood, err := l.cifarOOD(ctx, file)
	if err != nil {
		return nil, nil, err
	}
	tiny := filepath.Join(l.data, "tinyimagenet32", "images-idx4-ubyte.gz")
	own = &benchmark{
		name:  cifar10Name,
		train: file("train.tar"), val: file("val.tar"), test: file("test.tar"),
		ood: append([]bench.NamedSpec{{Name: tinyImageNet, Spec: tiny}}, ood...),
		network: func(string, int) string {
			return filepath.Join(l.models, "cifar10-resnet20", "model.onnx")
		},
		files: func(method string, _ request) map[string][]string {
			if method != "mf0@swag" {
				return nil
			}
			return map[string][]string{"swag": trajectory(filepath.Join(l.models, "cifar10-resnet20", "trajectory"), 33, 40)}
		},
	}
	other := *own
	shift = &other
	shift.name = shiftName
	shift.train, shift.val, shift.test = file("all.tar"), file("shift-val.tar"), file("shift-test.tar")
	shift.preprocess = &preprocess.Spec{Color: preprocess.RGB, Scale: 1. / 255, Mean: []float64{.485, .456, .406},
		Std: []float64{.229, .224, .225}}
	shift.files = nil
	shift.network = func(string, int) string {
		return filepath.Join(l.data, "models", "cifar10_resnet20.onnx")
	}
	l.sets[cifar10Name], l.sets[shiftName] = own, shift
	return own, shift, nil
}

// cifarOOD writes the digits and the noise.
func (l *lab) cifarOOD(ctx context.Context, file func(string) string) ([]bench.NamedSpec, error) {
	g, err := readGallery(ctx, l.mnist().test)
	if err != nil {
		return nil, err
	}
	coloured, err := g.colour(cifarSide)
	if err != nil {
		return nil, err
	}
	const size = noiseImages * cifarSide * cifarSide * 3
	var specs []bench.NamedSpec
	for _, s := range []struct {
		name string
		data []byte
		n    int
	}{
		{digits, coloured, g.len()},
		{uniformNoise, uniform(size, 1), noiseImages},
		{gaussianNoise, gaussian(size, 1), noiseImages},
	} {
		path := file(fileName(s.name) + "-images-idx4-ubyte")
		if err := writeIDX(path, s.data, s.n, cifarSide, cifarSide, 3); err != nil {
			return nil, err
		}
		specs = append(specs, bench.NamedSpec{Name: s.name, Spec: path})
	}
	return specs, nil
}

// cifarTrials are the rows of one network.
func cifarTrials() []trial {
	const (
		onFeatures = "last layers, on the features of one network"
		lastLayer  = "of the last layer alone"
	)
	return []trial{
		{row: "Deep E.(5)", note: "not made: there is one network"},
		{row: "Deep E.(50), last layers", method: "ensemble-ll:50", note: onFeatures},
		{row: "RUE", method: "rue:50", note: lastLayer},
		{row: "MLE", method: "mle"},
		{row: "T. Scale", method: "ts"},
		{row: "Dropout", method: "dropout:50", note: "of the features of a network trained without it"},
		{row: "BNN(VI)", note: "not made: no network was trained so"},
		{row: "BNN(LL-VI)", method: "bnn-ll-vi:50"},
		{row: "BNN(KFAC)", method: "bnn-kfac:50", note: lastLayer},
		{row: "mf0", method: "mf0"},
		{row: "mf0, eps = 1", paper: "mf0", method: "mf0", posterior: posterior{damping: calibrate.Damping{Absolute: 1}}},
		{row: "mf1", method: "mf1"},
		{row: "mf2", method: "mf2"},
		{row: "ukf", method: "ukf"},
		{row: "M=50", method: "mc:50"},
		{row: "mf0, J^-1", method: "mf0", posterior: posterior{covariance: calibrate.Fisher}},
		{row: "mf0, H^-1JH^-1", method: "mf0", posterior: posterior{covariance: calibrate.Sandwich}},
		{row: "mf0, SWAG", method: "mf0@swag", note: "the covariance is that of eight epochs of training"},
		{row: "EDL, last layer", method: "edl", note: onFeatures},
		{row: "leverage", method: "leverage", note: "of mfgs, not of the paper"},
	}
}

// oodHeldOut is how many examples of every out-of-distribution set are tuned on.
const oodHeldOut = 2000

// telling returns the benchmark for each of its out-of-distribution sets: the first
// oodHeldOut of it are tuned on, the others tested.
func (b *benchmark) telling() []*benchmark {
	var all []*benchmark
	for _, o := range b.ood {
		one := *b
		one.told = o.Name
		one.valOOD = fmt.Sprintf("%s[0:%d]", o.Spec, oodHeldOut)
		one.ood = []bench.NamedSpec{{Name: o.Name, Spec: fmt.Sprintf("%s[%d:]", o.Spec, oodHeldOut)}}
		all = append(all, &one)
	}
	return all
}

// everySet reports whether a row is made for every out-of-distribution set, rather than
// for the first alone: those that take little time.
func (t trial) everySet() bool {
	name, _, _ := strings.Cut(t.method, ":")
	return t.posterior == posterior{} && !slices.Contains([]string{"", "ensemble-ll", "edl", "mf0@swag"}, name)
}

// measureCIFAR makes the rows of one network, with the temperatures for telling tuned to each set.
func (l *lab) measureCIFAR(ctx context.Context, set *benchmark, trials []trial) ([]row, error) {
	var rows []row
	for i, b := range set.telling() {
		some := trials
		if i > 0 {
			some = slices.DeleteFunc(slices.Clone(trials), func(t trial) bool { return !t.everySet() })
		}
		more, err := l.measure(ctx, "cifar10", b, []int{0}, some)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			rows = more
			continue
		}
		for _, r := range more {
			of := rows[slices.IndexFunc(rows, func(first row) bool { return first.place == r.place })].runs
			for j, run := range r.runs {
				maps.Copy(of[j].OOD, run.OOD)
				maps.Copy(of[j].OODNLL, run.OODNLL)
			}
		}
	}
	return rows, nil
}

func tableCIFAR10(ctx context.Context, l *lab, s *section) error {
	own, shift, err := l.cifar10(ctx)
	if err != nil {
		return err
	}
	s.write("The images are JPEG files of quality 75, and not the original pixels: no number here can be compared with the paper's " +
		"absolute ones, only orders within a table. M = 50 for what samples, as in the paper. LSUN and SVHN are not to be had; " +
		"Tiny-ImageNet at 32 × 32, the digits of MNIST in grey on 32 × 32, and noise stand in. As in the paper, the temperatures for telling a set " +
		"are tuned on a part of that set, 2,000 images, and the rest is tested; all rows are made for Tiny-ImageNet, and for the other sets those that take little time.")
	rows, err := l.measureCIFAR(ctx, own, cifarTrials())
	if err != nil {
		return err
	}
	s.write("### A ResNet-20 trained on these files")
	writeCIFAR(s, own, s.add(rows...))

	s.write("### Sets not to be had")
	for _, set := range []string{lsun, svhn} {
		absent := unmade("cifar10", cifar10Name, "")
		s.write("CIFAR-10 versus %s:", map[string]string{lsun: "LSUN", svhn: "SVHN"}[set])
		s.write("%s", render(absent, detecting(set, false)...))
	}

	rows, err = l.measureCIFAR(ctx, shift,
		slices.DeleteFunc(cifarTrials(), func(t trial) bool { return t.method == "" || t.method == "mf0@swag" }))
	if err != nil {
		return err
	}
	s.write("### A ResNet-20 trained on the original pixels")
	s.write("Its test data has another encoding than what it was trained on, so it is under shift. It saw all training images, so that " +
		"2,000 test images, 200 of each class, are held out for tuning, and the other 8,000 are tested.")
	writeCIFAR(s, shift, s.add(rows...))
	return nil
}

// writeCIFAR writes the labelled test set's table, and one for each other set.
func writeCIFAR(s *section, set *benchmark, rows []row) {
	in := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.row == "leverage" })
	s.write("%s", render(in, inDomain...))
	made := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return len(r.runs) == 0 })
	for i := range made {
		made[i].note = "" // told above
	}
	for _, o := range set.ood {
		s.write("Told from %s:", o.Name)
		made := slices.DeleteFunc(slices.Clone(made),
			func(r row) bool { return len(r.over(told(o.Name, false, aurocOf))) == 0 })
		s.write("%s", render(made, append(detecting(o.Name, false), detecting(o.Name, true)...)...))
	}
}

// unmade are the paper's rows of a table as rows without runs.
func unmade(table, data, why string) []row {
	var rows []row
	for _, name := range paperRows(table, data) {
		p := place{table, data, name}
		rows = append(rows, row{place: p, paper: paperSays(p), note: why})
	}
	return rows
}

func tableCIFAR100(_ context.Context, _ *lab, s *section) error {
	s.write("Neither CIFAR-100 nor SVHN is to be had; the paper's rows:")
	rows := s.add(unmade("cifar100", cifar100Name, "not made: no CIFAR-100 and no SVHN")...)
	for i := range rows {
		rows[i].note = ""
	}
	s.write("%s", render(rows, detecting(svhn, false)...))
	return nil
}
