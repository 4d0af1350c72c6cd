package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/internal/realdata"
	"github.com/mfgs/mfgs/wrap/bench"
)

// docs/paper.md has the figures on all the data. On the subset here the 95 % intervals
// are ± .005 for digits and ± .013 to .016 for the others.
func TestTheDefaultScoreDetectsOODImagesForCIFAR10(t *testing.T) {
	t.Parallel()
	data := realdata.Dir(t)
	l := newLab(data, "../../models", t.TempDir(), nil, io.Discard)
	encoded, err := images.ReadArchive(t.Context(), filepath.Join(data, "cifar10", "cifar10.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	first := func(encoded []images.File, n int) []images.File {
		t.Helper()
		before, _, err := images.Split(encoded, n)
		if err != nil {
			t.Fatal(err)
		}
		return before
	}
	_, heldOut, err := images.Split(images.Under(encoded, "train"), cifarHeldOut)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(l.scratch, name) }
	for name, part := range map[string][]images.File{
		"train.tar": first(images.Under(encoded, "train"), 300),
		"val.tar":   first(heldOut, 50),
		"test.tar":  first(images.Under(encoded, "test"), 200),
	} {
		if err := images.WriteArchive(file(name), part); err != nil {
			t.Fatal(err)
		}
	}
	ood, err := l.cifarOOD(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	ood = append(ood, bench.NamedSpec{Name: tinyImageNet, Spec: filepath.Join(data, "tinyimagenet32", "images-idx4-ubyte.gz")})
	for i := range ood {
		ood[i].Spec += "[0:1500]"
	}
	set := &benchmark{
		name: cifar10Name, train: file("train.tar"), val: file("val.tar"), test: file("test.tar"),
		network: func(string, int) string { return "../../models/cifar10-resnet20/model.onnx" },
	}
	e, err := l.evaluate(t.Context(), request{subject: subject{set: set}}, []string{"ood_score"}, 1, ood, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := e.Methods[0]; m.Name != score.Default || len(m.OOD) != 4 {
		t.Fatalf("%s serves, and was measured on %d sets", m.Name, len(m.OOD))
	}
	least := map[string]float64{tinyImageNet: .83, digits: .967, uniformNoise: .78, gaussianNoise: .77}
	for _, o := range e.Methods[0].OOD {
		t.Logf("%s: AUROC %.4f, %.3f", o.Name, o.AUROC, o.Intervals["auroc"])
		if !(o.AUROC >= least[o.Name]) {
			t.Errorf("%s: AUROC %v, want %v", o.Name, o.AUROC, least[o.Name])
		}
	}
}
