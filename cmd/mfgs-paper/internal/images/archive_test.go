package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize/dataset"
)

// packed makes a gzipped tar file of members by name.
func packed(t *testing.T, members ...string) string {
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
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func namesOf(files []File) []string {
	var names []string
	for _, i := range files {
		names = append(names, i.Name)
	}
	return names
}

func TestSplitDividesEachClass(t *testing.T) {
	t.Parallel()
	all, err := ReadArchive(t.Context(), packed(t, "test/cat/9.png", "train/cat/2.png", "train/cat/1.png", "train/dog/1.png", "README", "train/cat/3.png", "train/dog/2.png"))
	if err != nil {
		t.Fatal(err)
	}
	train := Under(all, "train")
	if got := namesOf(train); !slices.Equal(got, []string{"cat/1.png", "cat/2.png", "cat/3.png", "dog/1.png", "dog/2.png"}) {
		t.Fatalf("got %v", got)
	}
	tests := []struct {
		n             int
		before, after []string
	}{
		{1, []string{"cat/1.png", "dog/1.png"}, []string{"cat/2.png", "cat/3.png", "dog/2.png"}},
		{-1, []string{"cat/1.png", "cat/2.png", "dog/1.png"}, []string{"cat/3.png", "dog/2.png"}},
	}
	for _, test := range tests {
		before, after, err := Split(train, test.n)
		if err != nil || !slices.Equal(namesOf(before), test.before) || !slices.Equal(namesOf(after), test.after) {
			t.Errorf("at %d: %v and %v, %v", test.n, namesOf(before), namesOf(after), err)
		}
	}
	if _, _, err := Split(train, 2); err == nil || !strings.Contains(err.Error(), "class dog has 2 images") {
		t.Errorf("at 2: %v", err)
	}
}

func TestArchiveIsBounded(t *testing.T) {
	t.Parallel()
	if _, err := ReadArchive(t.Context(), packed(t, "../evil.png")); err == nil || !strings.Contains(err.Error(), "outside the archive") {
		t.Errorf("a path outside the archive: %v", err)
	}
	// Nothing is allocated for sizes in a header that the file does not have.
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a/1.png", Size: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.tar")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadArchive(t.Context(), path); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("a terabyte: %v", err)
	}
}

// Package dataset reads what is written, labels as given or by folder.
func TestAWrittenArchiveIsADataset(t *testing.T) {
	t.Parallel()
	p := picture1(t)
	tests := []struct {
		name    string
		files   []File
		classes int
		want    []int
	}{
		{"folders", []File{{Name: "cat/1.png", Data: p}, {Name: "dog/1.png", Data: p}, {Name: "cat/2.png", Data: p}}, 2, []int{0, 1, 0}},
		{"labels", []File{{Name: "n01/1.png", Data: p, Label: "7"}, {Name: "n02/1.png", Data: p, Label: "3"}}, 10, []int{7, 3}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "new", "set.tar")
			if err := WriteArchive(path, test.files); err != nil {
				t.Fatal(err)
			}
			d, err := dataset.Open(t.Context(), path, dataset.Options{Classes: test.classes})
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

func TestLabelsAreFoundByPath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "labels.txt")
	if err := os.WriteFile(path, []byte("a/1.png\t5\tn05\na/2.png 6\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	files := []File{{Name: "a/2.png"}, {Name: "a/1.png"}}
	if err := ReadLabels(path, files); err != nil || files[0].Label != "6" || files[1].Label != "5" {
		t.Errorf("%+v, %v", files, err)
	}
	if err := ReadLabels(path, []File{{Name: "a/3.png"}}); err == nil || !strings.Contains(err.Error(), "no label for a/3.png") {
		t.Errorf("got %v", err)
	}
}
