package dataset

import (
	"context"
	"slices"
	"testing"
)

func TestUnknownLabelsAreIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images := write(t, dir, "images-idx3", idx(ramp(4*4), 4, 2, 2))
	write(t, dir, "labels-idx1", idx([]byte{7, 10, 9, 255}, 4))
	d, err := Open(t.Context(), images+"[1:]", Options{Classes: 10, IgnoreUnknownLabels: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var labels []int
	for e, err := range d.Examples(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, e.Label)
	}
	if want := []int{-1, 9, -1}; !slices.Equal(labels, want) || !d.HasLabels() {
		t.Errorf("labels %v, want %v", labels, want)
	}
	if from, to := d.Slice(); from != 1 || to != 4 || d.Path() != images {
		t.Errorf("examples [%d:%d] of %s", from, to, d.Path())
	}

	path := write(t, dir, "f.npz", zipped(t, map[string][]byte{
		"features.npy": npy("<f4", "(3, 2)", ramp(24)), "logits.npy": npy("<f4", "(3, 3)", ramp(36)), "y.npy": npy("|i1", "(3,)", []byte{2, 255, 3}),
	}))
	f, err := OpenFeatures(path+"[0:3]", Options{Classes: 3, IgnoreUnknownLabels: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b, err := range f.Blocks(context.Background(), 512) {
		if want := []int{2, -1, -1}; err != nil || !slices.Equal(b.Labels, want) {
			t.Errorf("labels %v, want %v: %v", b.Labels, want, err)
		}
	}
	if from, to := f.Slice(); from != 0 || to != 3 || f.Path() != path {
		t.Errorf("examples [%d:%d] of %s", from, to, f.Path())
	}
}
