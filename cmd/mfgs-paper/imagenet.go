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
		{row: "Deep E.(5)", note: "not run: only one network was available"},
		{row: "RUE", note: "not run: tuning ten draws of last layers with 1,001 classes takes too long"},
		{row: "MLE", method: "mle"},
		{row: "T. Scale", method: "ts"},
		{row: "Dropout", note: "not run, for the same reason"},
		{row: "BNN(VI)", note: "not run: 20 classes are too few to fit 1,000"},
		{row: "BNN(KFAC)", note: "not run, for the same reason"},
		{row: "mf0", method: "mf0"},
		{row: "mf1", note: "not run: tuning a million terms per example and pair of temperatures takes too long"},
		{row: "mf2", note: "not run, for the same reason"},
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
	s.add(unmade("3", cifar100Name, "not run: CIFAR-100 was not available, nor a network for it")...)
	return err
}

func writeTable3(s *section) {
	s.write("CIFAR-100 and ImageNet-O were not available. Of ILSVRC-2012, 20 of the 1,000 classes were: 3,000 training images for the curvature (the paper: " +
		"1.28 million) and, per class, 25 validation and 25 test images. The network is a MobileNet v2 stored in 8 bits, not a ResNet-50. " +
		"Only the order within the table can be compared with the paper.")
	s.write("%s", render(s.of("3", imagenetName, imagenetTrials()), inDomain...))
	s.write("ImageNet versus ImageNet-O (not available):")
	s.write("%s", render(unmade("3", imagenetName, ""), detectionColumns(imagenetO, false)...))
	s.write("CIFAR-100, and CIFAR-100 versus LSUN (not available):")
	s.write("%s", render(unmade("3", cifar100Name, ""), slices.Concat(inDomain, detectionColumns(lsun, false))...))

	each := s.Facts["seconds"] / s.Facts["images"]
	text := fmt.Sprintf("Cost of the calibration, with Kronecker structure: %.1f ms per image, %.0f s for %.0f images",
		1000*each, s.Facts["seconds"], s.Facts["images"])
	if peak, known := s.Facts["peak MB"]; known {
		text += fmt.Sprintf(", %.0f MB of peak memory", peak)
	}
	s.write("%s. Extrapolated, the 1,281,167 images of the whole training set take %.1f hours on this machine and no more memory, because the curvature is a sum over images. "+
		"This was not run.", text, each*imagenetTrain/3600)
}
