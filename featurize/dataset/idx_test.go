package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx/tensor"
)

func TestIDXPairsImagesWithLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images, labels := idx(ramp(3*4), 3, 2, 2), idx([]byte{7, 0, 9}, 3)
	for _, c := range []struct{ images, labels string }{
		{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
		{"a-images.idx3-ubyte.gz", "a-labels.idx1-ubyte.gz"},
		{"b-images-idx4-ubyte.gz", "b-labels-idx1-ubyte"},
		{"c-images-idx3-ubyte", "c-labels-idx1-ubyte.gz"},
		{"d-idx3", "d-idx1"},
		{"unlabelled-images-idx3", ""},
		{"plain", ""},
	} {
		content := func(name string, b []byte) []byte {
			if strings.HasSuffix(name, ".gz") {
				return gzipped(t, b)
			}
			return b
		}
		path := write(t, dir, c.images, content(c.images, images))
		want := []int{-1, -1, -1}
		if c.labels != "" {
			write(t, dir, c.labels, content(c.labels, labels))
			want = []int{7, 0, 9}
		}
		d, err := Open(t.Context(), path, Options{Classes: 10})
		if err != nil {
			t.Error(err)
			continue
		}
		got, _ := all(t, d)
		for i, e := range got {
			if e.Label != want[i] || e.Index != i ||
				!reflect.DeepEqual(e.Inputs, []Array{
					{Shape: []int{2, 2}, Layout: tensor.HW, Data: ramp(12)[4*i:][:4]},
				}) {
				t.Errorf("%s: example %d is %+v", c.images, i, e)
			}
		}
		if len(got) != 3 || d.HasLabels() != (c.labels != "") || d.Format() != "idx" || d.Path() != path {
			t.Errorf("%s: %d examples, labelled %t", c.images, len(got), d.HasLabels())
		}
		d.Close()
		if d, err = Open(t.Context(), path, Options{Unlabelled: true}); err != nil || d.HasLabels() {
			t.Errorf("%s: unlabelled on request: %v", c.images, err)
		}
		d.Close()
	}
}

func TestIDXNumberTypes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for code, want := range map[byte]any{
		0x08: []uint8{1, 254}, 0x09: []int8{1, -2}, 0x0b: []int16{1, -2}, 0x0c: []int32{1, -2},
		0x0d: []float32{1, -2.5}, 0x0e: []float64{1, math.Pi},
	} {
		b, err := binary.Append(idx(nil, 1, 2), binary.BigEndian, want)
		if err != nil {
			t.Fatal(err)
		}
		b[2] = code
		d, err := Open(t.Context(), write(t, dir, "x", b), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := all(t, d); !reflect.DeepEqual(got[0].Inputs[0].Data, want) {
			t.Errorf("type %#x: %v, want %v", code, got[0].Inputs[0].Data, want)
		}
	}
}

func TestInconsistentIDXFilesAreRefused(t *testing.T) {
	t.Parallel()
	good, goodLabels := idx(ramp(3*4), 3, 2, 2), idx([]byte{7, 0, 9}, 3)
	long := idx(ramp(1<<20), 1<<10, 1<<10)
	for _, c := range []struct {
		name           string
		images, labels []byte
		words          []string
	}{
		{"truncated", good[:20], nil, []string{"images-idx3", "truncated", "3 examples of 4 bytes", "4 bytes of data"}},
		{"truncated header", good[:9], nil, []string{"images-idx3", "truncated within its header of 16 bytes"}},
		{"more than declared", append(good[:28:28], 1), nil, []string{"images-idx3", "declares 3 examples of 4 bytes", "holds 13 bytes"}},
		{"truncated gzip", gzipped(t, long)[:3000], nil, []string{"images-idx3", "truncated", "1024 examples"}},
		{"truncated inside gzip", gzipped(t, long[:1<<19]), nil, []string{"images-idx3", "truncated", "declares 1024 examples", "ends after 511"}},
		{"more inside gzip", gzipped(t, append(good[:28:28], 1)), nil, []string{"images-idx3", "more data follows the 3 examples"}},
		{"flipped bit inside gzip", flip(gzipped(t, good), -6), nil, []string{"images-idx3", "checksum"}},
		{"huge count", idx(nil, math.MaxUint32, 28, 28), nil, []string{"images-idx3", "truncated or corrupt", "4294967295 examples"}},
		{"huge gzip", gzipped(t, idx(nil, math.MaxUint32, 2, 2)), nil, []string{"images-idx3", "truncated or corrupt"}},
		{"overflowing product", idx(nil, 1, math.MaxUint32, math.MaxUint32, 2), nil, []string{"images-idx3", "impossible size"}},
		{"no examples", idx(nil, 0, 28, 28), nil, []string{"images-idx3", "holds no examples"}},
		{"empty examples", idx(nil, 3, 0, 28), nil, []string{"images-idx3", "impossible size"}},
		{"labels for images", goodLabels, nil, []string{"images-idx3", "name the images file"}},
		{"labels missing some", good, idx([]byte{1, 2}, 2), []string{"labels-idx1", "2 labels for the 3 examples", "images-idx3"}},
		{"labels of others too", good, idx([]byte{1, 2, 3, 4}, 4), []string{"labels-idx1", "4 labels for the 3 examples", "images-idx3"}},
		{"labels truncated", good, goodLabels[:9], []string{"labels-idx1", "truncated"}},
		{"labels truncated in gzip", good, gzipped(t, goodLabels[:9]), []string{"labels-idx1", "truncated"}},
		{"labels empty", good, []byte{}, []string{"labels-idx1", "is empty"}},
		{"labels are images", good, good, []string{"labels-idx1", "want integers"}},
		{"labels are fractions", good, slices.Concat([]byte{0, 0, 0xd, 1, 0, 0, 0, 3}, make([]byte, 12)), []string{"labels-idx1",
			"labels are float32 with 1 dimensions; want integers"}},
		{"label out of range", good, idx([]byte{7, 10, 9}, 3), []string{"images-idx3[1]", "label 10 is outside [0,10)"}},
	} {
		dir := t.TempDir()
		path := write(t, dir, "images-idx3", c.images)
		if c.labels != nil {
			write(t, dir, "labels-idx1", c.labels)
		}
		t.Run(c.name, func(t *testing.T) { testerr.OneLine(t, readError(path, Options{Classes: 10}), c.words...) })
	}
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[len(b)+at] ^= 0x10
	return b
}

// A slice that ends before the damage is as good as ever.
func TestDamageBehindTheSliceDoesNotMatter(t *testing.T) {
	t.Parallel()
	path := write(t, t.TempDir(), "x", gzipped(t, idx(ramp(200), 100, 4)))
	if err := readError(path+"[0:50]", Options{}); err != nil {
		t.Error(err)
	}
	testerr.OneLine(t, readError(path, Options{}), "ends after 50")
}

func TestContextEndsThePass(t *testing.T) {
	t.Parallel()
	d, err := Open(t.Context(), write(t, t.TempDir(), "x", idx(ramp(200), 100, 2)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	endsWithContext(t, d)
}

func FuzzOpenIDX(f *testing.F) {
	f.Add(idx(ramp(12), 3, 2, 2))
	f.Add(gzipped(f, idx(ramp(12), 3, 2, 2)))
	f.Add(idx(nil, math.MaxUint32, 28, 28))
	f.Add(idx(ramp(3), 3))
	f.Add(gzipped(f, idx(ramp(11), 3, 2, 2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := arrays.ReadIDX("x", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		checkArray(t, a, int64(len(b)))
	})
}

// checkArray reads an array that was accepted: its sizes are within bounds, and it is either read to the end or gives
// an error.
func checkArray(t *testing.T, a *arrays.Array, size int64) {
	t.Helper()
	if a.Count < 1 || a.Item < 1 || a.Bytes() > size*arrays.MaxInflate {
		t.Fatalf("accepted %d items of %d bytes from %d", a.Count, a.Item, size)
	}
	r, err := a.From(0)
	if err != nil {
		return
	}
	defer r.Close()
	for range a.Count {
		if _, err := r.Read(1); err != nil {
			return
		}
	}
	if _, err := r.Read(1); err == nil {
		t.Fatal("read beyond the end")
	}
}

func TestMNISTIsRead(t *testing.T) {
	t.Parallel()
	d, err := Open(t.Context(), sharedData(t, "mnist/t10k-images-idx3-ubyte.gz")+"[5:12]", Options{Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, _ := all(t, d)
	var labels []int
	for _, e := range got {
		labels = append(labels, e.Label)
		if a := e.Inputs[0]; !reflect.DeepEqual(a.Shape, []int{28, 28}) || a.Layout != tensor.HW {
			t.Errorf("%s: %v %s", e.Name, a.Shape, a.Layout)
		}
	}
	if want := []int{1, 4, 9, 5, 9, 0, 6}; !reflect.DeepEqual(labels, want) {
		t.Errorf("labels %v, want %v", labels, want)
	}
	testerr.OneLine(t, readError(sharedData(t, "mnist/t10k-images-idx3-ubyte.gz"), Options{Classes: 9}), "t10k-images-idx3-ubyte.gz[7]", "label 9 is outside [0,9)")
}

func TestColourIDXIsRead(t *testing.T) {
	t.Parallel()
	d, err := Open(t.Context(), sharedData(t, "tinyimagenet32/images-idx4-ubyte.gz")+"[:3]", Options{Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, _ := all(t, d)
	if len(got) != 3 || d.HasLabels() || got[2].Inputs[0].Layout != tensor.HWC ||
		!reflect.DeepEqual(got[2].Inputs[0].Shape, []int{32, 32, 3}) {
		t.Errorf("%d examples, labelled %t", len(got), d.HasLabels())
	}
}

// Fingerprints depend on content, labels and slice, and on nothing else.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	print := func(spec string, o Options) string {
		t.Helper()
		d, err := Open(t.Context(), spec, o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		s, err := d.Fingerprint(context.Background())
		if err != nil || len(s) != 64 {
			t.Fatalf("%s: %q, %v", spec, s, err)
		}
		return s
	}
	dir := t.TempDir()
	images := write(t, dir, "images-idx3", idx(ramp(12), 3, 2, 2))
	labels := write(t, dir, "labels-idx1", idx(ramp(3), 3))
	base := print(images, Options{})
	moved := t.TempDir()
	write(t, moved, "other-images", idx(ramp(12), 3, 2, 2))
	write(t, moved, "other-labels", idx(ramp(3), 3))
	if print(filepath.Join(moved, "other-images"), Options{}) != base || print(images+"[0:3]", Options{}) != base {
		t.Error("the same examples have two fingerprints")
	}
	seen := map[string]string{base: "base"}
	differs := func(what, got string) {
		if other, dup := seen[got]; dup {
			t.Errorf("%s has the fingerprint of %s", what, other)
		}
		seen[got] = what
	}
	differs("a slice", print(images+"[1:3]", Options{}))
	differs("another slice", print(images+"[1:2]", Options{}))
	differs("no labels wanted", print(images, Options{Unlabelled: true}))
	write(t, dir, "labels-idx1", idx([]byte{0, 1, 1}, 3))
	differs("another label", print(images, Options{}))
	if err := os.Remove(labels); err != nil {
		t.Fatal(err)
	}
	if got := print(images, Options{}); seen[got] != "no labels wanted" {
		t.Error("having no labels differs from wanting none")
	}
}

// An error of reading is not reported as another format, even if it is at the first bytes.
func TestIDXThatCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("input/output error")
	for reads := range 2 {
		data := bytes.NewReader(idx(ramp(6), 6))
		left := reads
		_, err := arrays.ReadIDX("x", readerAtFunc(func(p []byte, off int64) (int, error) {
			if left--; left < 0 {
				return 0, broken
			}
			return data.ReadAt(p, off)
		}), data.Size())
		if !errors.Is(err, broken) {
			t.Errorf("where read %d fails: %v, want %v", reads, err, broken)
		}
	}
}

type readerAtFunc func(p []byte, off int64) (int, error)

func (f readerAtFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }
