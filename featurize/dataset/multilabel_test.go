package dataset

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
)

func TestTargetsAreReadFromEveryNumberType(t *testing.T) {
	t.Parallel()
	x := npy("<f4", "(3, 2)", ramp(24))
	want := [][]uint8{{0, 1}, {1, 1}, {0, 0}}
	for descr, data := range map[string][]byte{
		"|b1": {0, 1, 1, 1, 0, 0}, "|u1": {0, 1, 1, 1, 0, 0}, "<i8": pack(t, []int64{0, 1, 1, 1, 0, 0}),
		"<f4": pack(t, []float32{0, 1, 1, 1, 0, 0}),
	} {
		path := write(t, t.TempDir(), "x.npz", zipped(t, map[string][]byte{"x.npy": x, "y.npy": npy(descr, "(3, 2)", data)}))
		for _, from := range []int{0, 2} {
			spec := path + []string{"", "", "[2:]"}[from]
			d, err := Open(t.Context(), spec, Options{MultiLabel: true, Classes: 2})
			if err != nil {
				t.Fatal(err)
			}
			got, bad := all(t, d)
			if len(got) != 3-from || len(bad) > 0 || !d.HasLabels() {
				t.Fatalf("%s: %d examples, bad %v", spec, len(got), bad)
			}
			for i, e := range got {
				if !slices.Equal(e.Targets, want[from+i]) || e.Label != -1 {
					t.Errorf("%s %s: example %d has targets %d and label %d, want %d", descr, spec, i, e.Targets, e.Label, want[from+i])
				}
			}
			d.Close()
		}
	}
}

// More examples than are read at once.
func TestTargetsOfManyExamples(t *testing.T) {
	t.Parallel()
	const n, k = 5000, 3
	y := make([]byte, n*k)
	for i := range y {
		y[i] = byte(i*i/7) % 2
	}
	path := write(t, t.TempDir(), "x.npz", zipped(t, map[string][]byte{"x.npy": npy("|u1", "(5000,)", make([]byte, n)), "labels.npy": npy("|u1", "(5000, 3)", y)}))
	d, err := Open(t.Context(), path+"[1:]", Options{MultiLabel: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, _ := all(t, d)
	if len(got) != n-1 {
		t.Fatalf("%d examples", len(got))
	}
	for i, e := range got {
		if !slices.Equal(e.Targets, y[(i+1)*k:(i+2)*k]) {
			t.Fatalf("example %d has targets %d", i+1, e.Targets)
		}
	}
}

func TestLabelsThatTheHeadDoesNotWantAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := npy("<f4", "(2, 2)", ramp(16))
	npz := func(descr, shape string, y []byte) string {
		return write(t, t.TempDir(), "x.npz", zipped(t, map[string][]byte{"x.npy": x, "labels.npy": npy(descr, shape, y)}))
	}
	images := write(t, dir, "images-idx3", idx(ramp(8), 2, 2, 2))
	write(t, dir, "labels-idx1", idx(ramp(2), 2))
	write(t, dir, "folder/a/1.png", []byte{1})
	write(t, dir, "folder/b/1.png", []byte{1})
	cifar := write(t, dir, "x.bin", make([]byte, 1+cifarPixels))
	multi := Options{MultiLabel: true, Classes: 3}
	for _, c := range []struct {
		name, spec string
		options    Options
		words      []string
	}{
		{"targets for one class", npz("|u1", "(2, 3)", make([]byte, 6)), Options{Classes: 3}, []string{"labels: shape [2 3]", "one label", "exclude each other"}},
		{"one class for targets", npz("|u1", "(2,)", make([]byte, 2)), multi, []string{"labels: shape [2]", "want a 0 or 1 for each of the head's 3 labels"}},
		{"too many targets", npz("|u1", "(2, 4)", make([]byte, 8)), multi, []string{"labels: shape [2 4]", "3 labels"}},
		{"rank", npz("|u1", "(2, 3, 1)", make([]byte, 6)), multi, []string{"labels: shape [2 3 1]"}},
		{"two", npz("|u1", "(2, 3)", []byte{0, 1, 0, 1, 2, 0}), multi, []string{"label 1 of example 1 is 2; want 0 or 1"}},
		{"minus one", npz("|i1", "(2, 3)", []byte{0, 1, 255, 1, 1, 0}), multi, []string{"label 2 of example 0 is -1; want 0 or 1"}},
		{"a half", npz("<f4", "(2, 3)", pack(t, []float32{0, 0, 0, 1, .5, 0})), multi, []string{"label 1 is not a whole number"}},
		{"idx", images, multi, []string{"labels-idx1", "one class per example", "3 labels"}},
		{"folder", filepath.Join(dir, "folder"), multi, []string{"folder: ", "one class per example"}},
		{"cifar", cifar, Options{MultiLabel: true}, []string{"x.bin: ", "one class per example"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			testerr.OneLine(t, readError(c.spec, c.options), c.words...)
			// If labels are not wanted, they are not checked.
			c.options.Unlabelled = true
			d, err := Open(t.Context(), c.spec, c.options)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if got, _ := all(t, d); len(got) == 0 || d.HasLabels() || got[0].Label != -1 || got[0].Targets != nil {
				t.Errorf("%d examples, labelled %t", len(got), d.HasLabels())
			}
		})
	}
}

func TestFeaturesHaveTargets(t *testing.T) {
	t.Parallel()
	y := []byte{0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0}
	file := func(shape string, y []byte) string {
		return write(t, t.TempDir(), "f.npz", zipped(t, map[string][]byte{
			"features.npy": npy("<f4", "(4, 2)", ramp(32)), "logits.npy": npy("<f4", "(4, 3)", ramp(48)), "labels.npy": npy("|u1", shape, y),
		}))
	}
	read := func(spec string, o Options) (targets []uint8, err error) {
		f, err := OpenFeatures(spec, o)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if f.Classes() != 3 {
			t.Errorf("%d classes", f.Classes())
		}
		for b, err := range f.Blocks(context.Background(), 2) {
			if err != nil {
				return nil, err
			}
			if b.Labels != nil || f.HasLabels() != (b.Targets != nil) {
				t.Errorf("labels %d, targets %d", b.Labels, b.Targets)
			}
			targets = append(targets, b.Targets...)
		}
		return targets, nil
	}
	o := Options{MultiLabel: true, Classes: 3}
	got, err := read(file("(4, 3)", y)+"[1:]", o)
	if err != nil || !slices.Equal(got, y[3:]) {
		t.Errorf("%d, %v; want %d", got, err, y[3:])
	}
	_, err = read(file("(4,)", y[:4]), o)
	testerr.OneLine(t, err, "labels: shape [4]", "3 labels")
	_, err = read(file("(4, 2)", y[:8]), Options{MultiLabel: true})
	testerr.OneLine(t, err, "labels: shape [4 2]", "3 labels")
	_, err = read(file("(4, 3)", append([]byte{3}, y[1:]...)), o)
	testerr.OneLine(t, err, "label 0 of example 0 is 3")
	_, err = OpenFeatures(file("(4, 3)", y), Options{Classes: 3})
	testerr.OneLine(t, err, "labels: shape [4 3]", "one label")
}
