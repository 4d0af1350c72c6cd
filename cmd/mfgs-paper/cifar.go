package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/wrap/bench"
)

// The OOD sets available for CIFAR-10.
const (
	tinyImageNet  = "tinyimagenet"
	digits        = "mnist"
	uniformNoise  = "uniform noise"
	gaussianNoise = "gaussian noise"
)

// shiftName is CIFAR-10 for a network trained on other encodings of the images.
const shiftName = "CIFAR-10 under shift"

const (
	cifarSide    = 32
	cifarHeldOut = -500 // the last images of each class, as in models/cifar10-resnet20/train.py
	shiftHeldOut = 200  // the first test images of each class, for a network trained on all training images
	noiseImages  = 4500
	digitImages  = 6000
	longEpochs   = 100 // of training, as in models/cifar10-resnet20/README.md
)

// cifar10 prepares CIFAR-10 for the repository's networks and for the network trained on the original pixels.
func (l *lab) cifar10(ctx context.Context) (own, shift *benchmark, err error) {
	if own, shift = l.sets[cifar10Name], l.sets[shiftName]; own != nil {
		return own, shift, nil
	}
	l.say("unpacking CIFAR-10")
	encoded, err := images.ReadArchive(ctx, filepath.Join(l.data, "cifar10", "cifar10.tar.gz"))
	if err != nil {
		return nil, nil, err
	}
	all, test := images.Under(encoded, "train"), images.Under(encoded, "test")
	train, val, err := images.Split(all, cifarHeldOut)
	if err != nil {
		return nil, nil, err
	}
	shiftVal, shiftTest, err := images.Split(test, shiftHeldOut)
	if err != nil {
		return nil, nil, err
	}
	file := func(name string) string { return filepath.Join(l.scratch, "cifar10", name) }
	names := []string{"all", "train", "val", "test", "shift-val", "shift-test"}
	parts := [][]images.File{all, train, val, test, shiftVal, shiftTest}
	specs := make([]string, len(parts))
	err = runParallel(ctx, len(parts), func(ctx context.Context, i int) (err error) {
		specs[i], err = images.Decode(ctx, file(names[i]), parts[i])
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	ood, err := l.cifarOOD(ctx, file)
	if err != nil {
		return nil, nil, err
	}
	tiny := filepath.Join(l.data, "tinyimagenet32", "images-idx4-ubyte.gz")
	of := func(format string, seed int) string {
		return filepath.Join(l.models, "cifar10-resnet20", fmt.Sprintf(format, seed))
	}
	own = &benchmark{
		name:  cifar10Name,
		train: specs[1], val: specs[2], test: specs[3],
		ood:     append([]bench.NamedSpec{{Name: tinyImageNet, Spec: tiny}}, ood...),
		seeds:   []int{0, 1, 2, 3, 4},
		network: func(_ string, seed int) string { return of("long%d.onnx", seed) },
		files: func(method string, q request) map[string][]string {
			switch method {
			case "mf0@swag":
				return map[string][]string{"swag": trajectory(of("long%d", q.seed), longEpochs+1, longEpochs+8)}
			case "ensemble":
				var all []string
				for _, seed := range q.networks() {
					all = append(all, of("long%d.onnx", seed))
				}
				return map[string][]string{"ensemble": all}
			}
			return nil
		},
	}
	other := *own
	shift = &other
	shift.name = shiftName
	shift.train, shift.val, shift.test = specs[0], specs[4], specs[5]
	shift.preprocess = &preprocess.Spec{Color: preprocess.RGB, Scale: 1. / 255, Mean: []float64{.485, .456, .406},
		Std: []float64{.229, .224, .225}}
	shift.files, shift.seeds = nil, []int{0}
	shift.network = func(string, int) string {
		return filepath.Join(l.data, "models", "cifar10_resnet20.onnx")
	}
	l.sets[cifar10Name], l.sets[shiftName] = own, shift
	return own, shift, nil
}

// cifarOOD writes the sets of digits and noise.
func (l *lab) cifarOOD(ctx context.Context, file func(string) string) ([]bench.NamedSpec, error) {
	g, err := images.Read(ctx, l.mnist().test)
	if err != nil {
		return nil, err
	}
	g = g.Subsample(digitImages)
	coloured, err := g.CentredRGB(cifarSide)
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
		{digits, coloured, g.Len()},
		{uniformNoise, images.Uniform(size, 1), noiseImages},
		{gaussianNoise, images.Gaussian(size, 1), noiseImages},
	} {
		path := file(fileName(s.name) + "-images-idx4-ubyte")
		if err := images.WriteIDX(path, s.data, s.n, cifarSide, cifarSide, 3); err != nil {
			return nil, err
		}
		specs = append(specs, bench.NamedSpec{Name: s.name, Spec: path})
	}
	return specs, nil
}

// cifarTrials are the rows for the networks trained on the same files.
func cifarTrials() []trial {
	const (
		onFeatures = "last layers on the features of one network"
		lastLayer  = "last layer only"
	)
	var trials []trial
	for _, m := range []int{2, 3, 4, 5} {
		trials = append(trials, trial{row: fmt.Sprintf("Deep E.(%d)", m), method: "ensemble", ensembleSize: m})
	}
	return append(trials, []trial{
		{row: "Deep E.(20), last layers", method: "ensemble-ll:20", maxNetworks: 1, oneDraw: true, note: onFeatures},
		{row: "RUE", method: "rue:50", maxNetworks: someNetworks, note: lastLayer},
		{row: "MLE", method: "mle"},
		{row: "T. Scale", method: "ts"},
		{row: "Dropout", method: "dropout:50", maxNetworks: someNetworks, note: "network trained without dropout"},
		{row: "BNN(VI)", note: "not run: no such network was trained"},
		{row: "BNN(LL-VI)", method: "bnn-ll-vi:50", maxNetworks: someNetworks},
		{row: "BNN(KFAC)", method: "bnn-kfac:50", note: lastLayer},
		{row: "mf0", method: "mf0"},
		{
			row: "mf0, eps = 1", paper: "mf0", method: "mf0", maxNetworks: someNetworks,
			posterior: posterior{damping: calibrate.Damping{Absolute: 1}},
		},
		{row: "mf1", method: "mf1", maxNetworks: someNetworks},
		{row: "mf2", method: "mf2", maxNetworks: someNetworks},
		{row: "ukf", method: "ukf", maxNetworks: someNetworks},
		{row: "M=50", method: "mc:50"},
		{row: "mf0, J^-1", method: "mf0", maxNetworks: someNetworks, posterior: posterior{covariance: calibrate.Fisher}},
		{row: "mf0, H^-1JH^-1", method: "mf0", maxNetworks: someNetworks, posterior: posterior{covariance: calibrate.Sandwich}},
		{row: "mf0, SWAG", method: "mf0@swag", maxNetworks: someNetworks, note: "covariance of the weights over eight epochs of training"},
		{row: "EDL, last layer", method: "edl", maxNetworks: 1, oneDraw: true, note: onFeatures},
		{row: "leverage", method: "leverage", note: "from mfgs, not the paper"},
		{row: "studentized", method: "studentized", note: "from mfgs, not the paper"},
	}...)
}

// shiftedNetworkTrials are the rows for the network trained on the original pixels.
func shiftedNetworkTrials() []trial {
	rows := []string{"MLE", "T. Scale", "BNN(KFAC)", "mf0", "mf0, eps = 1", "M=50", "mf0, J^-1", "mf0, H^-1JH^-1", "leverage", "studentized"}
	return slices.DeleteFunc(cifarTrials(), func(t trial) bool { return !slices.Contains(rows, t.row) })
}

// oodHeldOut is how many examples of each OOD set are used for tuning.
const oodHeldOut = 2000

// perOODSet returns a benchmark for each OOD set: its first oodHeldOut examples are for tuning, the others for testing.
func (b *benchmark) perOODSet() []*benchmark {
	var all []*benchmark
	for _, o := range b.ood {
		one := *b
		one.valOODName = o.Name
		one.valOOD = fmt.Sprintf("%s[0:%d]", o.Spec, oodHeldOut)
		one.ood = []bench.NamedSpec{{Name: o.Name, Spec: fmt.Sprintf("%s[%d:]", o.Spec, oodHeldOut)}}
		all = append(all, &one)
	}
	return all
}

// everySet reports whether a row is measured on every OOD set, rather than on the first only: rows that claims
// are about and that take little time.
func (t trial) everySet() bool {
	rows := []string{"Deep E.(4)", "Deep E.(5)", "MLE", "T. Scale", "BNN(KFAC)", "mf0", "leverage", "studentized"}
	return slices.Contains(rows, t.row)
}

// measureCIFAR measures the rows of a benchmark, with temperatures tuned for each OOD set.
func (l *lab) measureCIFAR(ctx context.Context, set *benchmark, trials []trial) ([]row, error) {
	sets := set.perOODSet()
	rows, err := l.measure(ctx, "cifar10", sets[0], trials)
	if err != nil {
		return nil, err
	}
	some := slices.DeleteFunc(slices.Clone(trials), func(t trial) bool { return !t.everySet() })
	others := make([][]row, len(sets)-1)
	err = runParallel(ctx, len(others), func(ctx context.Context, i int) (err error) {
		others[i], err = l.measure(ctx, "cifar10", sets[1+i], some)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Concat(others...) {
		first := slices.IndexFunc(rows, func(of row) bool { return of.place == r.place })
		if err := rows[first].addOOD(r); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// addOOD adds the detection figures of another set, run by run. The first set may have more draws, because of others
// in the same request.
func (r row) addOOD(other row) error {
	for _, run := range other.Runs {
		j := slices.IndexFunc(r.Runs, func(m measurement) bool { return m.Seed == run.Seed && m.Draw == run.Draw })
		if j < 0 {
			return fmt.Errorf("%v: no run of seed %v and draw %d for the first set", r.place, run.Seed, run.Draw)
		}
		of := r.Runs[j]
		maps.Copy(of.OOD, run.OOD)
		maps.Copy(of.OODNLL, run.OODNLL)
		for key, values := range run.Resampled {
			if of.Resampled[key] == nil {
				of.Resampled[key] = values
			}
		}
	}
	return nil
}

func measureCIFAR10(ctx context.Context, l *lab, s *section) error {
	own, shift, err := l.cifar10(ctx)
	if err != nil {
		return err
	}
	sets, trials := []*benchmark{own, shift}, [][]trial{cifarTrials(), shiftedNetworkTrials()}
	rows := make([][]row, len(sets))
	// One of the two has one network only, which leaves processors idle.
	err = runParallel(ctx, len(sets), func(ctx context.Context, i int) (err error) {
		rows[i], err = l.measureCIFAR(ctx, sets[i], trials[i])
		return err
	})
	if err != nil {
		return err
	}
	s.add(slices.Concat(rows...)...)
	return nil
}

func writeCIFAR10(s *section) {
	s.write("The images are JPEG files of quality 75, not the original pixels, so only the order within a table can be compared with the paper, not absolute numbers. " +
		"Sampling methods use M = 50, as in the paper. LSUN and SVHN were not available and are replaced by Tiny-ImageNet at 32 × 32, MNIST in grey at 32 × 32, and noise. " +
		"As in the paper, temperatures for detection are tuned on 2,000 images of each OOD set, and the others are for testing. All rows were run on Tiny-ImageNet; on the other " +
		"sets MLE, temperature scaling, BNN(KFAC), mf0, ensembles and two scores of mfgs.")
	s.write("### ResNet-20s trained on these files")
	s.write("Training: SGD with Nesterov momentum for 100 epochs, weight decay 5e-4, convolutions in bfloat16. The paper: Adam for 200 epochs, weight decay 1e-4.")
	writeCIFAR(s, s.of("cifar10", cifar10Name, cifarTrials()))
	s.write("### OOD sets that were not available")
	for _, set := range []string{lsun, svhn} {
		s.write("CIFAR-10 versus %s:", map[string]string{lsun: "LSUN", svhn: "SVHN"}[set])
		s.write("%s", render(unmade("cifar10", cifar10Name, ""), detectionColumns(set, false)...))
	}
	s.write("### A ResNet-20 trained on the original pixels")
	s.write("This network is tested under shift: its test images have another encoding than its training images. It was trained on all training images, so " +
		"2,000 test images, 200 per class, are for validation and the other 8,000 for testing.")
	writeCIFAR(s, s.of("cifar10", shiftName, shiftedNetworkTrials()))
}

// cifarSets are the OOD sets of CIFAR-10.
var cifarSets = []string{tinyImageNet, digits, uniformNoise, gaussianNoise}

// writeCIFAR writes a table for the labelled test set, and one for each OOD set.
func writeCIFAR(s *section, rows []row) {
	in := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.row == "leverage" || r.row == "studentized" })
	s.write("%s", render(in, inDomain...))
	made := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return len(r.Runs) == 0 })
	for i := range made {
		made[i].Note = "" // oodQuantity above
	}
	for _, set := range cifarSets {
		s.write("Detection of %s:", setLabel(set))
		made := slices.DeleteFunc(slices.Clone(made), func(r row) bool { return len(r.over(rocOf(set))) == 0 })
		s.write("%s", render(made, append(detectionColumns(set, false), detectionColumns(set, true)...)...))
	}
}

// unmade returns the rows of one of the paper's tables, without runs.
func unmade(table, data, why string) []row {
	var rows []row
	for _, name := range paperRowNames(table, data) {
		p := place{table, data, name}
		rows = append(rows, row{place: p, Paper: paperFigures(p), Note: why})
	}
	return rows
}

func measureCIFAR100(_ context.Context, _ *lab, s *section) error {
	s.add(unmade("cifar100", cifar100Name, "not run: CIFAR-100 and SVHN were not available")...)
	return nil
}

func writeCIFAR100(s *section) {
	s.write("CIFAR-100 and SVHN were not available. The paper's rows:")
	s.write("%s", render(unmade("cifar100", cifar100Name, ""), detectionColumns(svhn, false)...))
}
