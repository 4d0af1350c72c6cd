package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	goimage "image"

	"github.com/mfgs/mfgs/calibrate/approx"
	"github.com/mfgs/mfgs/featurize/dataset"
)

func TestRotate(t *testing.T) {
	const w, h = 5, 5
	in := make([]byte, w*h)
	for i := range in {
		in[i] = byte(10 * i)
	}
	// Naive twins for quarter turns.
	turned := func(at func(x, y int) int) []byte {
		out := make([]byte, w*h)
		for y := range h {
			for x := range w {
				out[y*w+x] = in[at(x, y)]
			}
		}
		return out
	}
	tests := []struct {
		degrees float64
		want    []byte
	}{
		{0, in},
		{90, turned(func(x, y int) int { return x*w + w - 1 - y })}, // what is at the right goes up
		{180, turned(func(x, y int) int { return (h-1-y)*w + w - 1 - x })},
		{270, turned(func(x, y int) int { return (h-1-x)*w + y })},
		{360, in},
	}
	for _, test := range tests {
		if got := rotate(in, w, h, test.degrees); !slices.Equal(got, test.want) {
			t.Errorf("by %v degrees:\n%v\nwant\n%v", test.degrees, got, test.want)
		}
	}
}

// The centre of an even patch stays as it is under any turn; a far corner becomes black.
func TestRotateKeepsTheCentre(t *testing.T) {
	const side = 28
	in := bytes.Repeat([]byte{200}, side*side)
	for degrees := 0.; degrees <= 180; degrees += 7.5 {
		out := rotate(in, side, side, degrees)
		for y := 8; y < 20; y++ {
			for x := 8; x < 20; x++ {
				if out[y*side+x] != 200 {
					t.Fatalf("by %v degrees, %d, %d is %d", degrees, x, y, out[y*side+x])
				}
			}
		}
	}
	if out := rotate(in, side, side, 45); out[0] != 0 {
		t.Errorf("the corner is %d, want black", out[0])
	}
}

func TestGallery(t *testing.T) {
	dir := t.TempDir()
	images := filepath.Join(dir, "a-images-idx3-ubyte")
	g := &gallery{width: 3, height: 2, channels: 1, labels: []byte{4, 9},
		pixels: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
	if err := writeIDX(images, g.pixels, 2, 2, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := readGallery(t.Context(), images); err == nil || !strings.Contains(err.Error(), "no labels") {
		t.Errorf("without labels: %v", err)
	}
	if err := writeIDX(filepath.Join(dir, "a-labels-idx1-ubyte"), g.labels, 2); err != nil {
		t.Fatal(err)
	}
	back, err := readGallery(t.Context(), images)
	if err != nil {
		t.Fatal(err)
	}
	if back.width != 3 || back.height != 2 || !slices.Equal(back.pixels, g.pixels) ||
		!slices.Equal(back.labels, g.labels) {
		t.Errorf("read back: %+v", back)
	}

	c, err := g.colour(4)
	if err != nil {
		t.Fatal(err)
	}
	// The second image's rows stand in the middle, from column 0: (4-3)/2.
	want := make([]byte, 2*4*4*3)
	for i, v := range g.pixels {
		n, y, x := i/6, i%6/3, i%3
		for ch := range 3 {
			want[((n*4+1+y)*4+x)*3+ch] = v
		}
	}
	if !slices.Equal(c, want) {
		t.Errorf("in colour: %v\nwant %v", c, want)
	}
	if _, err := g.colour(2); err == nil {
		t.Error("images larger than the canvas are taken")
	}

	spec, err := g.writeRotated(dir, 180)
	if err != nil {
		t.Fatal(err)
	}
	if back, err = readGallery(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(back.image(0), []byte{6, 5, 4, 3, 2, 1}) || !slices.Equal(back.labels, g.labels) {
		t.Errorf("turned by 180: %v, labels %v", back.image(0), back.labels)
	}
}

func TestNoise(t *testing.T) {
	const n = 100_000
	tests := []struct {
		name         string
		of           func(int, uint64) []byte
		mean, spread float64
	}{
		{"uniform", uniform, 127.5, 256 / math.Sqrt(12)},
		// Clipping beyond two standard deviations takes a few per cent of the spread.
		{"gaussian", gaussian, 127.5, 62},
	}
	for _, test := range tests {
		a := test.of(n, 1)
		if !slices.Equal(a, test.of(n, 1)) || slices.Equal(a, test.of(n, 2)) {
			t.Errorf("%s: the seed does not decide", test.name)
		}
		var s sample
		for _, v := range a {
			s = append(s, float64(v))
		}
		// Five standard errors of the mean; of the spread, a little more than that.
		if m := s.mean(); !approx.Equal(m, test.mean, 5*test.spread/math.Sqrt(n)) {
			t.Errorf("%s: mean %v, want %v", test.name, m, test.mean)
		}
		if d := s.spread(); !approx.Equal(d, test.spread, 1.5) {
			t.Errorf("%s: standard deviation %v, want %v", test.name, d, test.spread)
		}
	}
}

// archive makes a gzipped tar file of members by name.
func archive(t *testing.T, members ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range members {
		data := picture1(t)
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// picture1 is a PNG file of one pixel.
func picture1(t *testing.T) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, goimage.NewGray(goimage.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func namesOf(images []image) []string {
	var names []string
	for _, i := range images {
		names = append(names, i.name)
	}
	return names
}

func TestSplitArchive(t *testing.T) {
	all, err := readArchive(t.Context(), archive(t, "test/cat/9.png", "train/cat/2.png", "train/cat/1.png", "train/dog/1.png", "README", "train/cat/3.png", "train/dog/2.png"))
	if err != nil {
		t.Fatal(err)
	}
	train := within(all, "train")
	if got := namesOf(train); !slices.Equal(got, []string{"cat/1.png", "cat/2.png", "cat/3.png", "dog/1.png", "dog/2.png"}) {
		t.Fatalf("got %v", got)
	}
	tests := []struct {
		n              int
		before, behind []string
	}{
		{1, []string{"cat/1.png", "dog/1.png"}, []string{"cat/2.png", "cat/3.png", "dog/2.png"}},
		{-1, []string{"cat/1.png", "cat/2.png", "dog/1.png"}, []string{"cat/3.png", "dog/2.png"}},
	}
	for _, test := range tests {
		before, behind, err := split(train, test.n)
		if err != nil || !slices.Equal(namesOf(before), test.before) || !slices.Equal(namesOf(behind), test.behind) {
			t.Errorf("at %d: %v and %v, %v", test.n, namesOf(before), namesOf(behind), err)
		}
	}
	if _, _, err := split(train, 2); err == nil || !strings.Contains(err.Error(), "class dog has 2 images") {
		t.Errorf("at 2: %v", err)
	}
}

func TestArchiveIsBounded(t *testing.T) {
	if _, err := readArchive(t.Context(), archive(t, "../evil.png")); err == nil || !strings.Contains(err.Error(), "out of the archive") {
		t.Errorf("a name that leads out: %v", err)
	}
	// A header may promise what is not there: nothing is allocated for it.
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a/1.png", Size: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.tar")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := readArchive(t.Context(), path); err == nil || !strings.Contains(err.Error(), "the most is") {
		t.Errorf("a terabyte: %v", err)
	}
}

// Package dataset reads what is written, labels as given or by folder.
func TestWriteArchive(t *testing.T) {
	p := picture1(t)
	tests := []struct {
		name    string
		images  []image
		classes int
		want    []int
	}{
		{"folders", []image{{name: "cat/1.png", data: p}, {name: "dog/1.png", data: p}, {name: "cat/2.png", data: p}}, 2, []int{0, 1, 0}},
		{"labels", []image{{name: "n01/1.png", data: p, label: "7"}, {name: "n02/1.png", data: p, label: "3"}}, 10, []int{7, 3}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "new", "set.tar")
			if err := writeArchive(path, test.images); err != nil {
				t.Fatal(err)
			}
			d, err := dataset.Open(path, dataset.Options{Classes: test.classes})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			var got []int
			for e, err := range d.Examples(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.Label)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("labels %v, want %v", got, test.want)
			}
		})
	}
}

func TestReadLabels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "labels.txt")
	if err := os.WriteFile(path, []byte("a/1.png\t5\tn05\na/2.png 6\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	images := []image{{name: "a/2.png"}, {name: "a/1.png"}}
	if err := readLabels(path, images); err != nil || images[0].label != "6" || images[1].label != "5" {
		t.Errorf("%+v, %v", images, err)
	}
	if err := readLabels(path, []image{{name: "a/3.png"}}); err == nil || !strings.Contains(err.Error(), "no label for a/3.png") {
		t.Errorf("got %v", err)
	}
}
