package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/featurize/preprocess"
)

// imagenetTrain is the size of ILSVRC-2012's training set.
const imagenetTrain = 1_281_167

// imagenet prepares the available part of ILSVRC-2012. Half of the validation images of each class are for validation,
// half for testing.
func (l *lab) imagenet(ctx context.Context) (*benchmark, error) {
	dir := filepath.Join(l.data, "imagenet")
	encoded, err := images.ReadArchive(ctx, filepath.Join(dir, "ilsvrc_val.tar"))
	if err != nil {
		return nil, err
	}
	if err := images.ReadLabels(filepath.Join(dir, "ilsvrc_val-labels.txt"), encoded); err != nil {
		return nil, err
	}
	val, test, err := images.Split(encoded, 25)
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
		seeds: []int{0},
		network: func(string, int) string {
			return filepath.Join(l.data, "models", "imagenet_mobilenet_v2_1.0_224.onnx")
		},
	}
	if err := images.WriteArchive(b.val, val); err != nil {
		return nil, err
	}
	return b, images.WriteArchive(b.test, test)
}

func imagenetTrials() []trial {
	return []trial{
		{row: "Deep E.(5)", note: "not made: there is one network"},
		{row: "RUE", note: "not made: ten draws of last layers of 1,001 classes take too long to tune"},
		{row: "MLE", method: "mle"},
		{row: "T. Scale", method: "ts"},
		{row: "Dropout", note: "not made, for the same reason"},
		{row: "BNN(VI)", note: "not made: 20 classes are no data to fit 1,000 with"},
		{row: "BNN(KFAC)", note: "not made, for the same reason"},
		{row: "mf0", method: "mf0"},
		{row: "mf1", note: "not made: a million terms an example and pair of temperatures take too long to tune"},
		{row: "mf2", note: "not made, as mf1"},
	}
}

func measureTable3(ctx context.Context, l *lab, s *section) error {
	set, err := l.imagenet(ctx)
	if err != nil {
		return err
	}
	// The cost is measured, which cached features would hide.
	if err := os.RemoveAll(l.cache(set.name)); err != nil {
		return err
	}
	l.runtime.Threads = 0 // nothing else runs
	defer func() { l.runtime.Threads = threadsPerTask() }()
	resetPeakMemory()
	report, err := l.accumulate(ctx, subject{set: set})
	if err != nil {
		return err
	}
	if _, err := l.calibrate(ctx, subject{set: set}, false); err != nil {
		return err
	}
	s.Facts = map[string]float64{"images": float64(report.Examples.Train), "seconds": report.Seconds["train"]}
	if most, known := peakMemory(); known {
		s.Facts["peak MB"] = most / 1e6
	}
	rows, err := l.measure(ctx, "3", set, imagenetTrials())
	s.add(rows...)
	s.add(unmade("3", cifar100Name, "not made: no CIFAR-100, and no network for it")...)
	return err
}

func writeTable3(s *section) {
	s.write("There is no CIFAR-100 and no ImageNet-O. Of ILSVRC-2012 there are 20 of the 1,000 classes: 3,000 training images for the " +
		"curvature (the paper's 1.28 million), and of each class 25 validation images to tune on and 25 to test. The network is a MobileNet v2 " +
		"that was stored in 8 bits, not a ResNet-50. Small sets and another network: orders within the table can be compared, and hardly more.")
	s.write("%s", render(s.of("3", imagenetName, imagenetTrials()), inDomain...))
	s.write("ImageNet versus ImageNet-O, which is not to be had:")
	s.write("%s", render(unmade("3", imagenetName, ""), detectionColumns(imagenetO, false)...))
	s.write("CIFAR-100, and CIFAR-100 versus LSUN, which are not to be had:")
	s.write("%s", render(unmade("3", cifar100Name, ""), slices.Concat(inDomain, detectionColumns(lsun, false))...))

	each := s.Facts["seconds"] / s.Facts["images"]
	text := fmt.Sprintf("What calibration costs here, with Kronecker structure: %.1f ms an image, %.0f s for %.0f images",
		1000*each, s.Facts["seconds"], s.Facts["images"])
	if peak, known := s.Facts["peak MB"]; known {
		text += fmt.Sprintf(", and %.0f MB of memory at most", peak)
	}
	s.write("%s. For the 1,281,167 images of the whole training set that is an estimate of %.1f hours on this machine, and no more memory: "+
		"curvature is a sum over images. Nothing was run at that scale.", text, each*imagenetTrain/3600)
}
