package dataset

import (
	"archive/tar"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
)

func TestSpecReadings(t *testing.T) {
	t.Parallel()
	files := []string{"a.npy", "odd[1:2]", "odd[1:2][3:4]", "npz:a", "dir[x]/b", `C:\data\a.npy`, "idx", "-", "both", "both[1:2]"}
	exists := func(p string) bool { return slices.Contains(files, p) }
	for _, c := range []struct {
		spec string
		want Spec
		err  string
	}{
		{spec: "a.npy", want: Spec{Path: "a.npy", To: -1}},
		{spec: "a.npy[2:5]", want: Spec{Path: "a.npy", From: 2, To: 5, sliced: true}},
		{spec: "a.npy[2:]", want: Spec{Path: "a.npy", From: 2, To: -1, sliced: true}},
		{spec: "a.npy[:5]", want: Spec{Path: "a.npy", To: 5, sliced: true}},
		{spec: "a.npy[:]", want: Spec{Path: "a.npy", To: -1, sliced: true}},
		{spec: "idx:a.npy", want: Spec{Format: "idx", Path: "a.npy", To: -1}},
		{spec: "idx:a.npy[1:2]", want: Spec{Format: "idx", Path: "a.npy", From: 1, To: 2, sliced: true}},
		{spec: "odd[1:2]", want: Spec{Path: "odd[1:2]", To: -1}},
		{spec: "odd[1:2][3:4]", want: Spec{Path: "odd[1:2][3:4]", To: -1}},
		{spec: "odd[1:2][0:1]", want: Spec{Path: "odd[1:2]", To: 1, sliced: true}},
		{spec: "npy:odd[1:2]", want: Spec{Format: "npy", Path: "odd[1:2]", To: -1}},
		{spec: "npz:a", want: Spec{Path: "npz:a", To: -1}},
		{spec: "npz:a[1:2]", want: Spec{Path: "npz:a", From: 1, To: 2, sliced: true}},
		{spec: "dir[x]/b[:7]", want: Spec{Path: "dir[x]/b", To: 7, sliced: true}},
		{spec: `C:\data\a.npy[0:3]`, want: Spec{Path: `C:\data\a.npy`, To: 3, sliced: true}},
		{spec: "idx", want: Spec{Path: "idx", To: -1}},
		{spec: "both[1:2]", want: Spec{Path: "both[1:2]", To: -1}},
		{spec: "csv:a.npy", want: Spec{Format: "csv", Path: "a.npy", To: -1}},
		{spec: "", err: "the dataset SPEC is empty; want a path"},
		{spec: "[1:2]", err: "[1:2]: no path in this SPEC"},
		{spec: "gone", err: "gone: no such file or folder"},
		{spec: "gone[1:2]", err: "gone: no such file or folder"},
		{spec: "npy:gone[1:2]", err: "gone: no such file or folder"},
		{spec: "a.npy[-5:]", err: "a.npy: slice [-5:] is not understood; want [a:b], [a:] or [:b] with whole numbers"},
		{spec: "a.npy[5]", err: "a.npy: slice [5] is not understood; want [a:b], [a:] or [:b] with whole numbers"},
		{spec: "a.npy[5:5]", err: "a.npy[5:5]: slice [5:5] holds no examples"},
		{spec: "a.npy[5:3]", err: "a.npy[5:3]: slice [5:3] holds no examples"},
		{spec: "a.npy[:99999999999999999999]", err: "a.npy[:99999999999999999999]: slice end 99999999999999999999 is too large"},
		{spec: "hdf5:a.npy", err: `a.npy: unknown format "hdf5"; want one of ` + strings.Join(Formats(), ", ")},
	} {
		got, err := parseSpec(c.spec, exists)
		switch {
		case c.err != "":
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: error %v, want %s", c.spec, err, c.err)
			}
		case err != nil || got != c.want:
			t.Errorf("%s: %+v, %v; want %+v", c.spec, got, err, c.want)
		}
	}
}

// Reading a slice equals reading everything and then slicing, in every format.
func TestSliceEqualsSliceOfAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "images-idx3", idx(ramp(10*6), 10, 2, 3))
	write(t, dir, "labels-idx1", idx(ramp(10), 10))
	write(t, dir, "zipped-images-idx3.gz", gzipped(t, idx(ramp(10*6), 10, 2, 3)))
	for i := range 10 {
		write(t, dir, "folder/"+string(rune('a'+i/4))+"/"+strconv.Itoa(i)+".png", []byte{byte(i)})
	}
	var members []string
	for i := range 10 {
		members = append(members, string(rune('b'-i%2))+"/"+strconv.Itoa(i)+".png")
	}
	write(t, dir, "x.tar", tarball(t, tar.FormatPAX, members...))
	for i, n := range []int{4, 1, 5} {
		var b []byte
		for j := range n {
			b = append(b, byte(j))
			b = append(b, ramp(cifarPixels)...)
		}
		write(t, dir, "cifar/data_batch_"+strconv.Itoa(i)+".bin", b)
	}
	write(t, dir, "x.npy", npy("|u1", "(10, 2)", ramp(20)))
	write(t, dir, "x.npz", zipped(t, map[string][]byte{
		"a.npy": npy("<i2", "(10, 2)", ramp(40)), "b.npy": npy("|u1", "(10,)", ramp(10)), "labels.npy": npy("|i1", "(10,)", ramp(10)),
	}))
	lines := "\n"
	for i := range 10 {
		lines += fmt.Sprintf(`{"a": [%d], "label": %d}`+strings.Repeat("\n", 1+i%3), i, i)
	}
	write(t, dir, "x.jsonl", []byte(lines))
	table := "a,label\n"
	for i := range 10 {
		table += fmt.Sprintf("\"%d\n\",%d\n", i, i)
	}
	write(t, dir, "x.csv", []byte(table))
	write(t, dir, "y.csv.gz", gzipped(t, []byte(table)))
	write(t, dir, "y.jsonl.gz", gzipped(t, []byte(lines)))
	for _, name := range []string{"images-idx3", "zipped-images-idx3.gz", "folder", "x.tar", "cifar", "x.npy", "x.npz", "x.jsonl", "y.jsonl.gz", "x.csv", "y.csv.gz"} {
		path := filepath.Join(dir, name)
		d, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		whole, _ := all(t, d)
		if len(whole) != 10 || d.Len() != 10 {
			t.Fatalf("%s: %d examples, Len %d", name, len(whole), d.Len())
		}
		d.Close()
		for _, s := range [][2]int{{0, 10}, {0, 1}, {3, 7}, {4, 5}, {9, 10}, {5, 10}} {
			d, err := Open(t.Context(), path+"["+strconv.Itoa(s[0])+":"+strconv.Itoa(s[1])+"]", Options{})
			if err != nil {
				t.Fatal(err)
			}
			part, _ := all(t, d)
			if d.Len() != s[1]-s[0] ||
				!slices.EqualFunc(part, whole[s[0]:s[1]], func(a, b Example) bool { return key(a) == key(b) }) {
				t.Errorf("%s%v differs from the slice of all", name, s)
			}
			d.Close()
		}
		for _, s := range []string{"[0:11]", "[10:]", "[10:11]"} {
			_, err := Open(t.Context(), path+s, Options{})
			testerr.OneLine(t, err, path, s, "reaches beyond its 10 examples")
		}
	}
}

func FuzzSpec(f *testing.F) {
	for _, s := range []string{"a[0:1]", "npy:a", "idx:b[1:][2:]", "C:\\x[:3]", "[", "a[1:2", "::[:]", "npz:[:]"} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, spec, file string) {
		exists := func(p string) bool { return p == file && p != "" }
		s, err := parseSpec(spec, exists)
		if err != nil {
			return
		}
		if s.several && (file == s.Path || !strings.ContainsAny(s.Path, "*?[{")) {
			t.Errorf("%q with %q present is several files: %+v", spec, file, s)
		}
		if s.several {
			return
		}
		if s.Path != file || s.Format != "" && formatOf(s.Format) == nil {
			t.Errorf("%q with %q present gives %+v", spec, file, s)
		}
		from, to, err := s.bounds(7)
		if err == nil && (from < 0 || from >= to || to > 7) {
			t.Errorf("%q takes [%d:%d] of 7", spec, from, to)
		}
	})
}

func TestUnsuitableFilesAreRefused(t *testing.T) { // not parallel: TestRegisteredFormat adds to the listed formats
	dir := t.TempDir()
	for _, c := range []struct {
		name    string
		content []byte
		words   []string
	}{
		{"empty", nil, []string{"the file is empty"}},
		{"x.csv", []byte("1,2\n"), []string{"the first line is numbers (1, 2); want a header"}},
		{"x.tar", []byte("hello"), []string{"not a .tar file by its content (it begins 68 65 6c 6c)"}},
		{"x.parquet", []byte("PAR1...."), []string{"Parquet is not supported", "supported are IDX"}},
		{"x.tar.gz", gzipped(t, tarball(t, tar.FormatGNU, "a.png")), []string{"a gzipped archive", "gunzip"}},
		{"x.tgz", gzipped(t, nil), []string{"a gzipped archive", "gunzip"}},
		{"x.gz", gzipped(t, []byte("hello")), []string{"no format recognised inside the gzip"}},
		{"y.gz", []byte{0x1f, 0x8b, 9}, []string{"broken gzip header"}},
		{"x.png", []byte("hello"), []string{"not a .png file by its content"}},
		{"x.txt", []byte("hello"), []string{"format not recognised: supported are IDX"}},
		{"csv:x.txt", nil, []string{"holds no examples, only a header"}},
		{"x.bin", []byte("hello"), []string{"not CIFAR binary", "3073", "3074", "got 5 bytes"}},
		{"idx:x.txt", nil, []string{"not an IDX file (it begins 68 65 6c 6c)"}},
		{"npy:x.txt", nil, []string{"ends within its .npy header"}},
		{"npz:x.txt", nil, []string{"broken .npz"}},
		{"cifar:x.txt", nil, []string{"format not recognised"}},
		{"folder:x.txt", nil, []string{"a file, not a folder"}},
	} {
		spec := filepath.Join(dir, c.name)
		format, name, explicit := strings.Cut(c.name, ":")
		if explicit {
			spec = format + ":" + filepath.Join(dir, name)
		} else {
			name = c.name
			write(t, dir, name, c.content)
		}
		_, err := Open(t.Context(), spec, Options{})
		testerr.OneLine(t, err, append(c.words, filepath.Join(dir, name)+": ")...)
	}
	_, err := Open(t.Context(), "idx:"+dir, Options{})
	testerr.OneLine(t, err, dir, "a folder, not a file of format idx")
	_, err = Open(t.Context(), filepath.Join(dir, "gone"), Options{})
	testerr.OneLine(t, err, "gone: no such file or folder")
	_, err = Open(t.Context(), write(t, dir, "folder/readme.txt", nil)[:len(dir)+len("/folder")], Options{})
	testerr.OneLine(t, err, "folder: no PNG or JPEG files; 1 ignored, not PNG or JPEG (first: readme.txt)")
}
