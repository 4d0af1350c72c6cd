package wraptest

import (
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// Sizes of the sets of ForestConfig.
const (
	ForestTrain = 200
	ForestVal   = 300
	ForestOOD   = 100
)

// ForestConfig returns a calibration of the forest of some classes of package onnxtest, whose files it writes: the
// model as change leaves it, training, validation and OOD data. It has no linear layer.
func ForestConfig(t testing.TB, classes int, change func(f *onnxtest.Forest, m *onnxpb.Model)) calibration.Config {
	t.Helper()
	dir := t.TempDir()
	f := onnxtest.NewForest(classes)
	m := f.Model(13, nil, nil)
	if change != nil {
		change(f, m)
	}
	onnxtest.WriteModel(t, filepath.Join(dir, "forest.onnx"), m)
	set := func(name string, seed uint64, n int, scale float32) string {
		x, labels := f.Draw(seed, n)
		for i := range x {
			x[i] *= scale
		}
		return Write(t, dir, name, NPZ(t, map[string]Array{
			"x": {x, []int{n, onnxtest.ForestColumns}}, "labels": {labels, []int{n}}}))
	}
	c := calibration.Config{Model: filepath.Join(dir, "forest.onnx"), Train: set("train.npz", 11, ForestTrain, 1),
		Val: set("val.npz", 12, ForestVal, 1), OOD: set("ood.npz", 13, ForestOOD, 4), Out: filepath.Join(dir, "b")}
	c.Head.Kind = head.None
	return c
}

// ForestInputs are n rows for the forest of ForestConfig, not among its data.
func ForestInputs(classes, n int) wrap.Tensor {
	x, _ := onnxtest.NewForest(classes).Draw(14, n)
	return wrap.Tensor{Name: "x", Shape: []int64{int64(n), onnxtest.ForestColumns}, Data: x}
}
