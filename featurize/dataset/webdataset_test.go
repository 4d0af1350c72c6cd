package dataset

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
)

// packed makes an archive of files, each NAME=CONTENT.
func packed(t testing.TB, files ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// listed names the examples of a dataset with their labels.
func listed(t testing.TB, d *Dataset) string {
	t.Helper()
	var names []string
	got, bad := all(t, d)
	for _, e := range got {
		names = append(names, fmt.Sprintf("%s %d", e.Name, e.Label))
	}
	for _, err := range bad {
		names = append(names, err.Error())
	}
	return strings.Join(names, ", ")
}

// Members of one key are a sample: from a file and from a stream.
func TestWebDataset(t *testing.T) {
	t.Parallel()
	animals := Options{Classes: 3, LabelClasses: []string{"cat", "dog", "great auk"}}
	for _, c := range []struct {
		name     string
		files    []string
		o        Options
		want     string // names and labels; or what the error says
		labelled bool
		ignored  int
		stream   string // where it differs
	}{
		{"numbers", []string{"0.cls=2", "0.jpg=x", "1.cls=0\n", "1.jpg=x"}, animals, "0.jpg 2, 1.jpg 0", true, 0, ""},
		{"names, in any order", []string{"b/0.jpg=x", "b/0.cls= great auk ", "b/0.txt=hello", "a/1.png=x", "a/1.json={}", "a/1.cls=dog"}, animals,
			"b/0.jpg 2, a/1.png 1", true, 0, ""},
		{"JSON", []string{"0.jpg=x", `0.json={"w": [1, {"label": 9}], "label": 1}`, "1.jpg=x", `1.json={"labels":"cat"}`}, animals,
			"0.jpg 1, 1.jpg 0", true, 0, ""},
		{"JSON without labels", []string{"0.jpg=x", `0.json={"w": 1}`, "0.txt=a cat"}, animals, "0.jpg -1", false, 0, ""},
		{"captions alone", []string{"0.jpg=x", "0.txt=a cat", "1.txt=lost"}, animals, "0.jpg -1", false, 1, ""},
		{"a name with several dots", []string{"0.cls=1", "0.left.jpg=x", "0.right.jpg=x"}, animals, "0.left.jpg 1, 0.right.jpg 1", true, 0, ""},
		{"class folders, with what else there is", []string{"dog/0.jpg=x", `dog/0.json={"label":0}`, "cat/1.jpg=x", `cat/1.json={"label":0}`}, animals,
			"dog/0.jpg 1, cat/1.jpg 0", true, 0, ""},
		{"cls before class folders", []string{"dog/0.jpg=x", "dog/0.cls=2", "cat/1.jpg=x", "cat/1.cls=2"}, animals, "dog/0.jpg 2, cat/1.jpg 2", true, 0, ""},
		{"labels that are not wanted", []string{"0.cls=nonsense", "0.jpg=x"}, Options{Unlabelled: true}, "0.jpg -1", false, 0, ""},
		{"stray labels", []string{"0.cls=ferret", "0.jpg=x", "1.cls=7", "1.jpg=x", "2.cls=dog", "2.jpg=x"},
			Options{Classes: 3, LabelClasses: animals.LabelClasses, IgnoreUnknownLabels: true}, "0.jpg -1, 1.jpg -1, 2.jpg 1", true, 0, ""},
		{"an empty image", []string{"0.cls=1", "0.jpg=", "1.cls=2", "1.jpg=x"}, animals, "1.jpg 2, 0.jpg: the file is empty", true, 0, ""},
		{"a name that is none", []string{"0.cls=1", "0.jpg=x", "1.cls=Dog ", "1.jpg=x"}, animals, `did you mean "dog"?`, true, 0, ""},
		{"a number too many", []string{"0.cls=1", "0.jpg=x", "1.cls=3", "1.jpg=x"}, animals, "label 3 is outside [0,3)", true, 0, ""},
		{"one without", []string{"0.cls=1", "0.jpg=x", "1.jpg=x"}, animals, `1 of 2 images have no label in a .cls next to them (first: "1.jpg")`, true, 0,
			`"1.jpg": it has no label in a .cls next to it`},
		{"one without, in JSON", []string{`0.json={"label":1}`, "0.jpg=x", "1.jpg=x", "1.json={}"}, animals, `have no label in a .json`, true, 0,
			`"1.jpg": it has no label in a .json next to it`},
		{"labels of several", []string{"0.cls=1", "0.jpg=x"}, Options{Classes: 3, MultiLabel: true}, "its labels are one class per example", true, 0, ""},
		{"a label too long", []string{"0.cls=" + strings.Repeat("1", 5000), "0.jpg=x"}, animals, "0.jpg -1", false, 0, ""},
		{"not images", []string{"0.cls=1", "0.txt=x"}, animals, "no PNG or JPEG files", true, 0, ""},
	} {
		b := packed(t, c.files...)
		path := write(t, t.TempDir(), "x.tar", b)
		try := func(how, want string, open func() (*Dataset, error)) {
			d, err := open()
			got := ""
			if err == nil {
				defer d.Close()
				for e, err := range d.Examples(t.Context()) {
					if _, ok := err.(*RecordError); err != nil && !ok {
						got = err.Error()
						break
					} else if err == nil && string(e.Encoded) != "x" {
						t.Errorf("%s, %s: %s holds %q", c.name, how, e.Name, e.Encoded)
					}
				}
				if got == "" && how == "file" {
					got = listed(t, d)
				}
			} else {
				got = err.Error()
			}
			if !strings.Contains(got, want) {
				t.Errorf("%s, %s: %s; want %s", c.name, how, got, want)
			}
			if err == nil && !strings.Contains(got, ": ") && d.HasLabels() != c.labelled {
				t.Errorf("%s, %s: labelled %t", c.name, how, d.HasLabels())
			}
			n := 0
			if err == nil {
				for _, i := range d.Ignored() {
					n += i.Count
				}
			}
			if how == "file" && n != c.ignored {
				t.Errorf("%s: %d ignored, want %d", c.name, n, c.ignored)
			}
		}
		try("file", c.want, func() (*Dataset, error) { return Open(t.Context(), path, c.o) })
		want := c.stream
		if want == "" && strings.Contains(c.want, ".jpg ") || strings.Contains(c.want, ".png ") {
			d := streamed(t, "-", bytes.NewReader(b), c.o)
			if got := listed(t, d); got != c.want || d.Format() != "tar" {
				t.Errorf("%s, stream of %s: %s; want %s", c.name, d.Format(), got, c.want)
			}
			continue
		} else if want == "" {
			want = c.want
		}
		try("stream", want, func() (*Dataset, error) {
			o := c.o
			o.Stream = NewStream(bytes.NewReader(b), stdinPath)
			return Open(t.Context(), "tar:-", o)
		})
	}
}

// A stream of an archive that is cut off anywhere is refused.
func TestTarStreamCutAnywhere(t *testing.T) {
	t.Parallel()
	b := packed(t, "0.cls=1", "0.jpg=x", "1.jpg="+strings.Repeat("y", 700), "1.cls=0", "readme=z")
	for n := range len(b) {
		d, err := Open(t.Context(), "tar:-", Options{Classes: 2, Stream: NewStream(bytes.NewReader(b[:n]), stdinPath)})
		if err != nil {
			continue
		}
		for _, e := range d.Examples(t.Context()) {
			err = e
		}
		if err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(b))
		}
	}
}

// Class folders of a stream are those that are called like a class: how many there are is not known.
func TestTarStreamOfClassFolders(t *testing.T) {
	t.Parallel()
	b := tarball(t, tar.FormatPAX, "data/dog/a.png", "data/cat/b.png", "data/dog/deep/cat/c.png")
	names := Options{Classes: 2, LabelClasses: []string{"cat", "dog"}}
	if got := listed(t, streamed(t, "-", bytes.NewReader(b), names)); got != "data/dog/a.png 1, data/cat/b.png 0, data/dog/deep/cat/c.png 1" {
		t.Errorf("by name: %s", got)
	}
	if d := streamed(t, "-", bytes.NewReader(b), Options{Classes: 2}); d.HasLabels() {
		t.Errorf("places of class folders are labels: %s", listed(t, d))
	}
	b = tarball(t, tar.FormatPAX, "1/a.png", "0/b.png", "z.png")
	d := streamed(t, "-", bytes.NewReader(b), Options{Classes: 2})
	var last error
	for _, err := range d.Examples(t.Context()) {
		last = err
	}
	testerr.OneLine(t, last, `-: "z.png": it is in no class folder`)
}

// What a file's archive holds, its stream holds in the same order, if both are accepted; images
// outside class folders are only known to be so where all have been seen.
func FuzzTarStream(f *testing.F) {
	f.Add(packed(f, "0.cls=1", "0.jpg=x", `1.json={"label":"dog"}`, "1.cls=dog", "1.png=x", "1.txt=z"))
	f.Add(packed(f, "0.jpg=x", `0.json={"a":[{}],"label":1}`, "1.png=x", `1.json={"labels":"cat"}`))
	f.Add(tarball(f, tar.FormatGNU, "dog/a.png", "cat/"+strings.Repeat("x", 120)+".jpg", ".a.png", "./b.png"))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		sumHeaders(b)
		path := filepath.Join(t.TempDir(), "x.tar")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, unlabelled := range []bool{true, false} {
			read := func(spec string) (list []string, ok bool) {
				d, err := Open(t.Context(), spec, Options{
					Classes: 2, LabelClasses: []string{"cat", "dog"}, Unlabelled: unlabelled,
					Stream: NewStream(bytes.NewReader(b), stdinPath),
				})
				if err != nil {
					return nil, false
				}
				defer d.Close()
				for e, err := range d.Examples(context.Background()) {
					if _, bad := err.(*RecordError); err != nil && !bad {
						return nil, false
					}
					if d.HasLabels() && (e.Label < 0 || e.Label > 1) {
						t.Errorf("%s: %s has label %d", spec, e.Name, e.Label)
					}
					list = append(list, fmt.Sprintf("%s %s", e.Name, e.Encoded))
				}
				return list, true
			}
			file, fine := read("tar:" + path)
			stream, streamed := read("tar:-")
			if !fine || !streamed {
				continue
			}
			for _, one := range stream {
				if len(file) > 0 && file[0] == one {
					file = file[1:]
				}
			}
			if len(file) > 0 {
				t.Errorf("%q is in the file, and not in the stream's %q", file[0], stream)
			}
		}
	})
}
