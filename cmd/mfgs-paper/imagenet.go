package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/featurize/preprocess"
)

// imagenetTrain is the number of images in ILSVRC-2012's training set.
const imagenetTrain = 1_281_167

// imagenet makes ready what there is of ILSVRC-2012: of every class of the validation
// images half are held out, half tested.
func (l *lab) imagenet(ctx context.Context) (*benchmark, error) {
	dir := filepath.Join(l.data, "imagenet")
	images, err := readArchive(ctx, filepath.Join(dir, "ilsvrc_val.tar"))
	if err != nil {
		return nil, err
	}
	if err := readLabels(filepath.Join(dir, "ilsvrc_val-labels.txt"), images); err != nil {
		return nil, err
	}
	val, test, err := split(images, 25)
	if err != nil {
		return nil, err
	}
	b := &benchmark{
		name:  imagenetName,
		train: filepath.Join(dir, "ilsvrc_train_subset.tar"),
		val:   filepath.Join(l.scratch, "imagenet", "val.tar"),
		test:  filepath.Join(l.scratch, "imagenet", "test.tar"),
		preprocess: &preprocess.Spec{Crop: &preprocess.Crop{Size: 224}, Color: preprocess.RGB, Scale: 1 / 127.5,
			Mean: []float64{1}},
		network: func(string, int) string {
			return filepath.Join(l.data, "models", "imagenet_mobilenet_v2_1.0_224.onnx")
		},
	}
	if err := writeArchive(b.val, val); err != nil {
		return nil, err
	}
	return b, writeArchive(b.test, test)
}

func imagenetTrials() []trial {
	return []trial{
		{row: "Deep E.(5)", note: "not made: there is one network"},
		{row: "RUE", method: "rue:50"},
		{row: "MLE", method: "mle"},
		{row: "T. Scale", method: "ts"},
		{row: "Dropout", method: "dropout:50", note: "of the features of a network trained without it"},
		{row: "BNN(VI)", note: "not made: 20 classes are no data to fit 1,000 with"},
		{row: "BNN(KFAC)", method: "bnn-kfac:50", note: "of the last layer alone"},
		{row: "mf0", method: "mf0"},
		{row: "mf1", note: "not made: a million terms an example and pair of temperatures take too long to tune"},
		{row: "mf2", note: "not made, for the same reason"},
	}
}

func table3(ctx context.Context, l *lab, s *section) error {
	const absent = "not made: no CIFAR-100, and no network for it"
	s.write("There is no CIFAR-100 and no ImageNet-O. Of ILSVRC-2012 there are 20 of the 1,000 classes: 3,000 training images for the " +
		"curvature (the paper's 1.28 million), and of each class 25 validation images to tune on and 25 to test. The network is a MobileNet v2 " +
		"that was stored in 8 bits, not a ResNet-50. Small sets and another network: orders within the table can be compared, and hardly more.")
	set, err := l.imagenet(ctx)
	if err != nil {
		return err
	}
	// What it costs is to be measured: features kept from another run would hide it.
	if err := os.RemoveAll(l.cache(set.name)); err != nil {
		return err
	}
	resetPeak()
	report, err := l.calibrate(ctx, subject{set: set})
	if err != nil {
		return err
	}
	peak, known := peakMemory()
	rows, err := l.measure(ctx, "3", set, []int{0}, imagenetTrials())
	if err != nil {
		return err
	}
	s.write("%s", render(s.add(rows...), inDomain...))
	s.write("ImageNet versus ImageNet-O, which is not to be had:")
	s.write("%s", render(unmade("3", imagenetName, ""), detecting(imagenetO, false)...))
	s.write("CIFAR-100, and CIFAR-100 versus LSUN, which are not to be had:")
	cifar := s.add(unmade("3", cifar100Name, absent)...)
	for i := range cifar {
		cifar[i].note = ""
	}
	s.write("%s", render(cifar, slices.Concat(inDomain, detecting(lsun, false))...))

	n := report.Examples.Train
	each := report.Seconds["train"] / float64(n)
	text := fmt.Sprintf("What calibration costs here, with %s structure: %.1f ms an image, %.0f s for %d images", report.Structure, 1000*each, report.Seconds["train"], n)
	if known {
		text += fmt.Sprintf(", and %.0f MB of memory at most", peak/1e6)
	}
	s.write("%s. For the 1,281,167 images of the whole training set that is an estimate of %.1f hours on this machine, and no more memory: "+
		"curvature is a sum over images. Nothing was run at that scale.", text, each*imagenetTrain/3600)
	return nil
}

// resetPeak has the kernel forget the most memory that was used, where it is Linux.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// peakMemory returns the most memory used since, in bytes.
func peakMemory() (float64, bool) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib * 1024, err == nil
		}
	}
	return 0, false
}
