package dataset

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/mfgs/mfgs/internal/testerr"
)

// tarball makes an archive. A member whose name ends in / is a folder, one whose name holds -> a
// symbolic link, and => a hard link; the others are files that hold their paths in the archive.
func tarball(t testing.TB, format tar.Format, members ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, m := range members {
		h := &tar.Header{Name: m, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(unpackedPath(m))), Format: format}
		if from, to, ok := strings.Cut(m, "->"); ok {
			h.Name, h.Linkname, h.Typeflag, h.Size = from, to, tar.TypeSymlink, 0
		} else if from, to, ok := strings.Cut(m, "=>"); ok {
			h.Name, h.Linkname, h.Typeflag, h.Size = from, to, tar.TypeLink, 0
		} else if strings.HasSuffix(m, "/") {
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			io.WriteString(w, unpackedPath(m))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// short sums up an example: its name, label and content.
func short(e Example) string { return fmt.Sprintf("%s %d %s", e.Name, e.Label, e.Encoded) }

func TestTar(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long/", 60) + "x.png"
	for _, c := range []struct {
		name     string
		members  []string
		labels   string // of the label file, "" for none
		o        Options
		want     []string // name and label
		labelled bool
		classes  []string
		ignored  []Ignored
	}{
		{"class folders, in the archive's order", []string{"dog/", "dog/b.png", "cat/z.JPG", "dog/a.jpeg", "cat/deep/er/x.png"}, "", Options{Classes: 2},
			[]string{"dog/b.png 1", "cat/z.JPG 0", "dog/a.jpeg 1", "cat/deep/er/x.png 0"}, true, []string{"cat", "dog"}, nil},
		{"class folders by name", []string{"a/x.png", "b/y.png"}, "", Options{Classes: 3, LabelClasses: []string{"b", "c", "a"}},
			[]string{"a/x.png 2", "b/y.png 0"}, true, []string{"a", "b"}, nil},
		{"class folders by number", []string{"7/x.png", "10/y.png"}, "", Options{Classes: 11},
			[]string{"7/x.png 7", "10/y.png 10"}, true, []string{"10", "7"}, nil},
		{"class folders, no labels wanted", []string{"a/x.png", "b/y.png", "z.png"}, "", Options{Classes: 9, Unlabelled: true},
			[]string{"a/x.png -1", "b/y.png -1"}, false, []string{"a", "b"}, []Ignored{{"an image outside the class folders", 1, "z.png"}}},
		{"within other folders", []string{"./data/", "./data/val/b/x.png", "./data/val/b/y.png", "./data/val/a/x.png"}, "", Options{},
			[]string{"data/val/b/x.png 1", "data/val/b/y.png 1", "data/val/a/x.png 0"}, true, []string{"a", "b"}, nil},
		{"a folder whose name begins another's", []string{"ab/x.png", "a/x.png", "abc/x.png"}, "", Options{},
			[]string{"ab/x.png 1", "a/x.png 0", "abc/x.png 2"}, true, []string{"a", "ab", "abc"}, nil},
		{"flat", []string{"b.png", "a.png"}, "", Options{Classes: 9}, []string{"b.png -1", "a.png -1"}, false, nil, nil},
		{"flat in a folder", []string{"photos/b.png", "photos/a.png"}, "", Options{Classes: 9}, []string{"photos/b.png -1", "photos/a.png -1"}, false, nil, nil},
		{"what is passed over", []string{"a/x.png", "a/readme.txt", "a/._x.png", "__MACOSX/a/x.png", ".git/x.png", "a/soft.png->x.png", "b/x.png", "b/hard.png=>a/x.png", "x.png", "y.png", "x.gif"}, "", Options{},
			[]string{"a/x.png 0", "b/x.png 1"}, true, []string{"a", "b"},
			[]Ignored{{"not PNG or JPEG", 2, "a/readme.txt"}, {"a link or a special file", 2, "a/soft.png"}, {"an image outside the class folders", 2, "x.png"}}},
		{"names that lead elsewhere", []string{"../../a/x.png", "/b/../c/x.png", "./a/y.png"}, "", Options{},
			[]string{"a/x.png 0", "c/x.png 1", "a/y.png 0"}, true, []string{"a", "c"}, nil},
		{"long names", []string{"a/" + long, "b/" + long}, "", Options{}, []string{"a/" + long + " 0", "b/" + long + " 1"}, true, []string{"a", "b"}, nil},
		{"a label file, tabs", []string{"b/x y.png", "a.png"}, "a.png\t3\tn07\r\n\n./b/x y.png\t0\tn01 n02\r\n", Options{Classes: 4},
			[]string{"b/x y.png 0", "a.png 3"}, true, nil, nil},
		{"a label file, blanks, a byte order mark, no end of line", []string{"x.png", "y.png"}, "\ufeff y.png  0 of 2\nx.png 1", Options{Classes: 2},
			[]string{"x.png 1", "y.png 0"}, true, nil, nil},
		{"a label file, lines that end with CR", []string{"x.png", "y.png", "z.png"}, "x.png 2\ry.png\t0\r\rz.png 1\r", Options{},
			[]string{"x.png 2", "y.png 0", "z.png 1"}, true, nil, nil},
		{"a label file, lines that end as they like", []string{"x.png", "y.png", "z.png"}, "x.png 2\r\r\ny.png 0\n\rz.png 1", Options{},
			[]string{"x.png 2", "y.png 0", "z.png 1"}, true, nil, nil},
		{"a label file of class names", []string{"x.png", "y.png"}, "x.png\t great white shark \n \t\ny.png\ttench\n", Options{Classes: 2, LabelClasses: []string{"tench", "great white shark"}},
			[]string{"x.png 1", "y.png 0"}, true, nil, nil},
		{"a label file of numbers beside class names", []string{"x.png"}, "x.png 1", Options{Classes: 2, LabelClasses: []string{"tench", "shark"}}, []string{"x.png 1"}, true, nil, nil},
		{"a label file before class folders", []string{"a/x.png", "b/x.png", "c.png"}, "a/x.png 5\nb/x.png 5\nc.png 4\n", Options{},
			[]string{"a/x.png 5", "b/x.png 5", "c.png 4"}, true, nil, nil},
		{"a label file, not wanted", []string{"a/x.png", "c.png"}, "nonsense", Options{Unlabelled: true}, []string{"a/x.png -1", "c.png -1"}, false, nil, nil},
		{"stray labels", []string{"x.png", "y.png", "z.png"}, "x.png 2\ny.png ferret\nz.png 1\n", Options{Classes: 2, IgnoreUnknownLabels: true},
			[]string{"x.png -1", "y.png -1", "z.png 1"}, true, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, format := range []tar.Format{tar.FormatPAX, tar.FormatGNU, tar.FormatUnknown} {
				dir := t.TempDir()
				path := write(t, dir, "x.tar", tarball(t, format, c.members...))
				if c.labels != "" {
					write(t, dir, "x-labels.txt", []byte(c.labels))
				}
				d, err := Open(t.Context(), path, c.o)
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				got, bad := all(t, d)
				var names []string
				for i, e := range got {
					names = append(names, fmt.Sprintf("%s %d", e.Name, e.Label))
					if e.Index != i || string(e.Encoded) != e.Name {
						t.Errorf("%s: %s at %d holds %q", format, e.Name, e.Index, e.Encoded)
					}
				}
				if !slices.Equal(names, c.want) || len(bad) > 0 || d.Len() != len(c.want) {
					t.Errorf("%s: %q of %d, bad %v; want %q", format, names, d.Len(), bad, c.want)
				}
				if d.HasLabels() != c.labelled || !slices.Equal(d.Classes(), c.classes) || d.Format() != "tar" ||
					d.Path() != path {
					t.Errorf("%s: labelled %t, classes %q, format %s of %s", format, d.HasLabels(), d.Classes(), d.Format(), d.Path())
				}
				if !reflect.DeepEqual(d.Ignored(), c.ignored) {
					t.Errorf("%s: ignored %+v, want %+v", format, d.Ignored(), c.ignored)
				}
			}
		})
	}
}

func TestTarIsRefused(t *testing.T) {
	t.Parallel()
	good := tarball(t, tar.FormatUnknown, "a.png", "b.png")
	patched := func(at int, b ...byte) []byte {
		out := bytes.Clone(good)
		copy(out[at:], b)
		return out
	}
	tall := strings.Repeat("x", 4096-len(".png")) + ".png"
	for _, c := range []struct {
		name    string
		archive []byte
		labels  string
		o       Options
		words   []string
	}{
		{"gzipped", gzipped(t, good), "", Options{}, []string{"a gzipped archive", "gunzip"}},
		{"no image", tarball(t, tar.FormatUnknown, "a/", "a/x.gif", "a.png->b", "c.txt"), "", Options{},
			[]string{"no PNG or JPEG files; 2 ignored, not PNG or JPEG (first: a/x.gif); 1 ignored, a link or a special file (first: a.png)"}},
		{"no member", make([]byte, 1024), "", Options{}, []string{"x.tar: no PNG or JPEG files"}},
		{"half an end", make([]byte, 512), "", Options{}, []string{"is cut off: the two blocks of zeros that end an archive are missing after its beginning: create it again"}},
		{"not even a block", []byte("tar?"), "", Options{}, []string{"not a tar archive, or a damaged one, after its beginning"}},
		{"not an archive", bytes.Repeat([]byte("tar?"), 256), "", Options{}, []string{"not a tar archive, or a damaged one, after its beginning"}},
		{"a broken header", patched(1024+150, '9'), "", Options{}, []string{`a damaged one, after "a.png": archive/tar: invalid tar header`}},
		{"truncated within a header", good[:1024+100], "", Options{}, []string{`is cut off: the two blocks of zeros that end an archive are missing after "a.png": create it again`}},
		{"truncated within an image", good[:1536+2], "", Options{}, []string{`is cut off: "b.png" has 5 bytes, and the file has 2 of them: create it again`}},
		{"truncated after an image", good[:1536+5], "", Options{}, []string{`is cut off`, `are missing after "b.png"`}},
		{"truncated within padding", good[:1536+100], "", Options{}, []string{`is cut off`, `are missing after "b.png"`}},
		{"truncated between images", good[:1024], "", Options{}, []string{`is cut off`, `are missing after "a.png"`}},
		{"truncated within its end", good[:2048+100], "", Options{}, []string{`is cut off`, `are missing after "b.png"`}},
		{"truncated halfway its end", good[:2048+512], "", Options{}, []string{`is cut off`, `are missing after "b.png"`}},
		{"truncated within its end's last block", good[:2048+1023], "", Options{}, []string{`is cut off`, `are missing after "b.png"`}},
		{"truncated within what is passed over", tarball(t, tar.FormatUnknown, "a.png", "readme.txt")[:1536+2], "", Options{}, []string{`is cut off`, `are missing after "readme.txt"`}},
		{"truncated after a long name", tarball(t, tar.FormatPAX, "a.png", tall)[:1024+512+4608], "", Options{}, []string{`is cut off`, `are missing after "a.png"`}},
		{"one name twice", tarball(t, tar.FormatUnknown, "a/x.png", "./a/x.png"), "", Options{}, []string{`two members are called "a/x.png"`}},
		{"a long name", tarball(t, tar.FormatPAX, "a.png", tall, "a"+tall), "", Options{}, []string{`xxx.png" has 4097 bytes; want at most 4096`}},
		{"a sparse file of PAX", bytes.ReplaceAll(sparsePAX(t), []byte("GNU.sparsE"), []byte("GNU.sparse")), "", Options{}, []string{`"s.png" is a sparse file`, "without the option --sparse"}},
		{"a sparse file of old", sparseGNU(t), "", Options{}, []string{`"s.png" is a sparse file`}},
		{"a folder too many", tarball(t, tar.FormatUnknown, "a/x.png", "b/x.png", "c/x.png"), "", Options{Classes: 2}, []string{"3 class folders (a, b, c) for 2 classes"}},
		{"folders for a multi-label head", tarball(t, tar.FormatUnknown, "a/x.png", "b/x.png"), "", Options{Classes: 2, MultiLabel: true}, []string{"its labels are one class per example"}},
		{"labels for a multi-label head", good, "a.png 0\nb.png 1\n", Options{Classes: 2, MultiLabel: true}, []string{"-labels.txt: its labels are one class per example"}},
		{"no label", good, "a.png 0\nb.png\n", Options{}, []string{`-labels.txt: line 2 is "b.png"; want a path in the archive and its label`}},
		{"a label twice", good, "a.png 0\n\nb.png 1\n./a.png 0\n", Options{}, []string{`-labels.txt: line 4 is the second for "a.png"`}},
		{"a label that is no class", good, "a.png 0\nb.png 2\n", Options{Classes: 2}, []string{"-labels.txt: line 2: label 2 is outside [0,2)"}},
		{"a negative label", good, "a.png -1\nb.png 2\n", Options{}, []string{"-labels.txt: line 1: label -1 is negative"}},
		{"a label that is no number", good, "a.png ferret\n", Options{}, []string{`-labels.txt: line 1: label "ferret" is not a whole number`, "give the class names"}},
		{"a label that is no name", good, "a.png ferret\n", Options{LabelClasses: []string{"cat"}}, []string{`-labels.txt: line 1: label "ferret" is not one of the 1 class names (cat)`}},
		{"lines for no image", good, "path label\na.png 0\nc.png 0\nb.png 1\n", Options{}, []string{`-labels.txt: 2 of its lines match no image in the archive (first: line 1, "path")`}},
		{"blanks in a path", tarball(t, tar.FormatUnknown, "a b.png"), "a b.png 0\n", Options{},
			[]string{`-labels.txt: 1 of its lines match no image in the archive (first: line 1, "a"); a path with spaces needs a tab between it and its label`}},
		{"images without a line", tarball(t, tar.FormatUnknown, "a.png", "b.png", "c.png"), "b.png 0\n", Options{}, []string{`-labels.txt: has no line for 2 of the archive's 3 images (first: "a.png")`}},
		{"a line too long", good, "a.png 0\n" + strings.Repeat("x", 70000), Options{}, []string{"-labels.txt: line 2 is longer than 65536 bytes: is it a label file?"}},
		{"many zeros for labels", good, strings.Repeat("\x00", 70000), Options{}, []string{"-labels.txt: line 1 is longer than 65536 bytes: is it a label file?"}},
		{"zeros for labels", good, "\x00\x00", Options{}, []string{`-labels.txt: line 1 is "\x00\x00"; want a path in the archive and its label`}},
		{"lines that end with CR", good, "a.png 0\r\rb.png\r", Options{}, []string{`-labels.txt: line 3 is "b.png"; want`}},
		{"lines that end with CR LF", good, "a.png 0\r\n\r\nb.png\r\n", Options{}, []string{`-labels.txt: line 3 is "b.png"; want`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := write(t, dir, "x.tar", c.archive)
			if c.labels != "" {
				write(t, dir, "x-labels.txt", []byte(c.labels))
			}
			_, err := Open(t.Context(), "tar:"+path, c.o)
			testerr.OneLine(t, err, append(c.words, strings.TrimSuffix(path, ".tar"))...)
		})
	}
	dir := t.TempDir()
	path := write(t, dir, "x.tar", good)
	write(t, dir, "x-labels.txt", nil)
	_, err := Open(t.Context(), path, Options{})
	testerr.OneLine(t, err, "x-labels.txt: the file is empty")
	_, err = indexTar(bytes.NewReader(good), int64(len(good)), 1)
	testerr.OneLine(t, err, "holds more than 1 images; unpack it")
	if x, err := indexTar(bytes.NewReader(good), int64(len(good)), 2); err != nil || len(x.members) != 2 {
		t.Errorf("%+v, %v", x, err)
	}
}

// A file of zeros is an archive of nothing, as tar writes it, if it is called one.
func TestAnEmptyTarIsRefused(t *testing.T) {
	t.Parallel()
	zeros := make([]byte, 10240)
	_, err := Open(t.Context(), write(t, t.TempDir(), "x.tar", zeros), Options{})
	testerr.OneLine(t, err, "x.tar: no PNG or JPEG files")
	_, err = Open(t.Context(), write(t, t.TempDir(), "x.tar", append([]byte{1}, zeros...)), Options{})
	testerr.OneLine(t, err, "x.tar: not a .tar file by its content (it begins 01 00 00 00)")
	_, err = Open(t.Context(), write(t, t.TempDir(), "x.png", zeros), Options{})
	testerr.OneLine(t, err, "x.png: not a .png file by its content")
}

// An archive that is cut off anywhere is refused.
func TestTarCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, format := range []tar.Format{tar.FormatPAX, tar.FormatGNU} {
		b := tarball(t, format, "a/", "a/x.png", "a/"+strings.Repeat("y", 120)+".png", "a/l.png->x.png", "readme.txt")
		for n := range len(b) {
			if x, err := indexTar(bytes.NewReader(b[:n]), int64(n), 9); err == nil {
				t.Errorf("%s: %d of %d bytes are accepted, with %d images", format, n, len(b), len(x.members))
			}
		}
		if x, err := indexTar(bytes.NewReader(b), int64(len(b)), 9); err != nil || len(x.members) != 2 {
			t.Errorf("%s: %+v, %v", format, x, err)
		}
	}
}

// Tabs are asked for only where they would help.
func TestTarLabelsThatWantTabs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		member, lines string
		want          bool
	}{
		{"a b.png", "path label\na b.png 0\n", true},
		{"a b.png", "b.png\t0\n", false},
		{"a.png", "a b.png 0\n", false},
	} {
		err := labelMembers([]tarMember{{name: c.member}}, strings.NewReader(c.lines), Options{})
		testerr.OneLine(t, err, "match no image in the archive (first: line 1, ")
		if got := strings.Contains(err.Error(), "a tab"); got != c.want {
			t.Errorf("%q for %q: %v", c.lines, c.member, err)
		}
	}
}

// Lines come out whole wherever the reads end.
func TestTarLabelLinesInPieces(t *testing.T) {
	t.Parallel()
	members := []tarMember{{name: "x.png"}, {name: "y.png"}}
	err := labelMembers(members, iotest.OneByteReader(strings.NewReader("x.png 1\r\n\r\ny.png 2\r\rz.png 3\r\n")), Options{})
	testerr.OneLine(t, err, `first: line 5, "z.png"`)
	if members[0].label != 1 || members[1].label != 2 {
		t.Errorf("%+v", members)
	}
}

// Archives that git archive writes are read, with names that a strict reader of archives would refuse.
func TestTarHeaders(t *testing.T) {
	t.Setenv("GODEBUG", "tarinsecurepath=0")
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []*tar.Header{
		{Name: "pax_global_header", Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "b45cc6e"}},
		{Name: "/a.png", Typeflag: tar.TypeReg},
		{Name: "../b.png", Typeflag: tar.TypeReg},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	x, err := indexTar(bytes.NewReader(buf.Bytes()), int64(buf.Len()), 2)
	if err != nil || len(x.members) != 2 || x.members[0].name != "a.png" || x.members[1].name != "b.png" ||
		x.ignored != nil {
		t.Errorf("%+v, %v", x, err)
	}
}

// sparsePAX makes an archive with a misspelt mark of a sparse file, as none can
// be written with the right one.
func sparsePAX(t *testing.T) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	err := w.WriteHeader(&tar.Header{Name: "s.png", Typeflag: tar.TypeReg, Size: 5, PAXRecords: map[string]string{"GNU.sparsE.numblocks": "1", "GNU.sparsE.map": "0,5", "GNU.sparsE.size": "9"}})
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "12345")
	w.Close()
	return buf.Bytes()
}

// sparseGNU makes an archive with a sparse file of 9 zeros.
func sparseGNU(t testing.TB) []byte {
	b := tarball(t, tar.FormatGNU, "s.png")
	b[156] = 'S'
	copy(b[483:], "00000000011\x00") // its size, in octal
	sumHeaders(b)
	return b
}

// sumHeaders renews the checksum of each block that has a header's magic.
func sumHeaders(b []byte) {
	for ; len(b) >= 512; b = b[512:] {
		if string(b[257:262]) != "ustar" {
			continue
		}
		copy(b[148:], "        ")
		sum := 0
		for _, c := range b[:512] {
			sum += int(c)
		}
		copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	}
}

// An image folder and its archive are the same dataset but for the order.
func TestTarEqualsItsFolder(t *testing.T) {
	t.Parallel()
	for _, files := range [][]string{
		{"cat/1.png", "cat/deep/2.png", "dog/3.jpg", "ferret/4.JPEG", "stray.png", "readme.txt", "dog/.x.png", "dog/x.gif"},
		{"b.png", "a.png", "c.txt"},
		{"10/a.png", "2/a.png", "2/b.png"},
	} {
		for _, prefix := range []string{"", "./", "photos/", "/data/photos/"} {
			dir := t.TempDir()
			members := make([]string, len(files))
			for i, f := range files {
				members[i] = prefix + f
				write(t, dir, "folder/"+f, []byte(unpackedPath(members[i])))
			}
			read := func(name string) (lines []string, d *Dataset) {
				d, err := Open(t.Context(), filepath.Join(dir, name), Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { d.Close() })
				got, _ := all(t, d)
				for _, e := range got {
					e.Name = strings.TrimPrefix(e.Name, unpackedPath(prefix + "x")[:len(unpackedPath(prefix+"x"))-1])
					lines = append(lines, short(e))
				}
				slices.Sort(lines)
				return lines, d
			}
			write(t, dir, "x.tar", tarball(t, tar.FormatUnknown, members...))
			want, folder := read("folder")
			got, archive := read("x.tar")
			if !slices.Equal(got, want) || len(want) < 2 {
				t.Errorf("%q packed: %q, as a folder %q", prefix, got, want)
			}
			if !slices.Equal(archive.Classes(), folder.Classes()) || archive.HasLabels() != folder.HasLabels() ||
				!slices.Equal(archive.FolderLabels(), folder.FolderLabels()) {
				t.Errorf("%q packed: classes %q, labelled %t; as a folder %q, %t", prefix, archive.Classes(), archive.HasLabels(), folder.Classes(), folder.HasLabels())
			}
			for i, ig := range archive.Ignored() {
				if want := folder.Ignored()[i]; ig.Reason != want.Reason || ig.Count != want.Count {
					t.Errorf("%q packed: ignored %+v, as a folder %+v", prefix, ig, want)
				}
			}
		}
	}
}

// An image that cannot be one is a bad record; the rest comes through.
func TestBadTarImagesAreRecords(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(name string, size int64) {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	add("empty.png", 0)
	add("a.png", 3)
	io.WriteString(w, "abc")
	add("vast.png", maxImage+1)
	path := write(t, t.TempDir(), "x.tar", buf.Bytes())
	// The rest of the archive are zeros, which take no room on the disk.
	if err := os.Truncate(path, int64(buf.Len())+maxImage+512+1024); err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, bad := all(t, d)
	if len(got) != 1 || short(got[0]) != "a.png -1 abc" || len(bad) != 2 || d.Len() != 3 {
		t.Fatalf("%d good, %v bad of %d", len(got), bad, d.Len())
	}
	testerr.OneLine(t, bad[0], "empty.png: the file is empty")
	testerr.OneLine(t, bad[1], "vast.png: 268435457 bytes are too many for an image")
	if re := bad[1].(*RecordError); re.Index != 2 || re.Name != "vast.png" {
		t.Errorf("%+v", re)
	}
	testerr.OneLine(t, got[0].Decode(), "a.png: not a PNG or JPEG file (it begins 61 62 63)")
}

// Passes run side by side, end with their context, and fail after Close and
// where the archive has become shorter.
func TestTarPasses(t *testing.T) {
	t.Parallel()
	var members []string
	for i := range 100 {
		members = append(members, strconv.Itoa(i%7)+"/"+strconv.Itoa(i)+".png")
	}
	path := write(t, t.TempDir(), "x.tar", tarball(t, tar.FormatUnknown, members...))
	d, err := Open(t.Context(), path, Options{Classes: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var passes sync.WaitGroup
	for range 4 {
		passes.Go(func() {
			n := 0
			for e, err := range d.Examples(context.Background()) {
				if err != nil || short(e) != fmt.Sprintf("%s %d %[1]s", members[n], n%7) {
					t.Errorf("%q, %v", short(e), err)
				}
				n++
			}
			if n != len(members) {
				t.Errorf("%d examples", n)
			}
		})
	}
	passes.Wait()

	endsWithContext(t, d)

	end := func() (n int, last error) {
		for _, err := range d.Examples(context.Background()) {
			if last = err; err == nil {
				n++
			}
		}
		return n, last
	}
	if err := os.Truncate(path, 50*1024+512+2); err != nil { // a header and a block each
		t.Fatal(err)
	}
	n, last := end()
	if testerr.OneLine(t, last, path+": changed while in use: it ends within", members[50]); n != 50 {
		t.Errorf("%d examples before the end", n)
	}
	d.Close()
	n, last = end()
	if testerr.OneLine(t, last, path, members[0], "file already closed"); n != 0 {
		t.Errorf("%d examples of a closed archive", n)
	}
}

func TestTarFingerprint(t *testing.T) {
	t.Parallel()
	print := func(spec string, o Options) string {
		t.Helper()
		d, err := Open(t.Context(), spec, o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		s, err := d.Fingerprint(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	dir := t.TempDir()
	path := write(t, dir, "x.tar", tarball(t, tar.FormatGNU, "a.png", "b.png", "c.png"))
	write(t, dir, "x-labels.txt", []byte("a.png 0\nb.png 1\nc.png 0\n"))
	base := print(path, Options{})
	moved := write(t, dir, "moved/y.tar", tarball(t, tar.FormatPAX, "./a.png", "readme", ".hidden.png", "/b.png", "./c.png"))
	write(t, dir, "moved/y-labels.txt", []byte("c.png 0 x\nb.png 1 y\na.png 0 x\n"))
	if print(moved, Options{}) != base || print(path+"[0:3]", Options{}) != base {
		t.Error("the same examples have two fingerprints")
	}
	seen := map[string]string{base: "base"}
	differs := func(what, got string) {
		t.Helper()
		if other, dup := seen[got]; dup {
			t.Errorf("%s has the fingerprint of %s", what, other)
		}
		seen[got] = what
	}
	differs("a slice", print(path+"[1:]", Options{}))
	differs("no labels wanted", print(path, Options{Unlabelled: true}))
	write(t, dir, "x-labels.txt", []byte("a.png 0\nb.png 1\nc.png 1\n"))
	differs("another label", print(path, Options{}))
	write(t, dir, "x-labels.txt", []byte("a.png 0\nc.png 1\nb.png 1\n"))
	write(t, dir, "x.tar", tarball(t, tar.FormatGNU, "b.png", "a.png", "c.png"))
	differs("another order", print(path, Options{}))
}

// The images found are those that reading the whole archive finds.
func FuzzOpenTar(f *testing.F) {
	f.Add(tarball(f, tar.FormatPAX, "dog/", "dog/a.png", "cat/"+strings.Repeat("x", 120)+".jpg", "x->y.png", "a.gif", "../b.png"))
	f.Add(tarball(f, tar.FormatGNU, "dog/a.png", "cat/"+strings.Repeat("x", 120)+".jpg", ".a.png", "./b.png"))
	f.Add(tarball(f, tar.FormatUSTAR, "a.png", "a.png")[:1100])
	f.Add(sparseGNU(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 50
		b = bytes.Clone(b)
		sumHeaders(b) // or few changed headers would be read at all
		x, err := indexTar(bytes.NewReader(b), int64(len(b)), most)
		if err != nil {
			if x != nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%+v with %q", x, err)
			}
			return
		}
		members := x.members
		keys := map[string]bool{}
		for _, m := range members {
			key, _ := memberKey(m.name)
			keys[key] = true
		}
		if len(members) > most {
			t.Fatalf("%d members", len(members))
		}
		i, passed := 0, 0
		for r := tar.NewReader(bytes.NewReader(b)); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("accepted, though %v", err)
			}
			name := unpackedPath(h.Name)
			switch {
			case h.Typeflag == tar.TypeReg && isImageName(name) && !isHiddenMember(name):
				content, err := io.ReadAll(r)
				if err != nil {
					t.Fatalf("accepted, though %q: %v", h.Name, err)
				}
				m := members[i]
				if i++; m.name != name || m.label != -1 || !bytes.Equal(b[m.at:m.at+m.size], content) {
					t.Fatalf("%+v is %q of %d bytes", m, name, len(content))
				}
			case h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeXGlobalHeader && !isHiddenMember(name):
				key, ext := memberKey(name)
				if regular := h.Typeflag == tar.TypeReg; !regular || !keys[key] && ext != "cls" && ext != "json" {
					passed++
				}
			}
		}
		for _, ig := range x.ignored {
			passed -= ig.Count
		}
		if i != len(members) || passed > 0 {
			t.Fatalf("%d members, of which %d are there; %d are passed over without a word", len(members), i, passed)
		}
	})
}

// Labels that are accepted are those of a slow reading, one for each member.
func FuzzTarLabels(f *testing.F) {
	f.Add("a.png 0\nb c.png\t1\n", "a.png", "b c.png")
	f.Add("a 0\r\n\n\ufeffb 1 x", "a", "b")
	f.Add("b\t 1\na/../b 1", "a", "b")
	f.Add("a 0\rb 1\r", "a", "b")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		members := []tarMember{{name: unpackedPath(a), label: -1}, {name: unpackedPath(b), label: -1}}
		if a, b := members[0].name, members[1].name; a == b {
			return
		}
		if err := labelMembers(members, strings.NewReader(text), Options{Classes: 3}); err != nil {
			return
		}
		slow := map[string]int{}
		for _, line := range strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n") {
			line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
			if line == "" {
				continue
			}
			name, rest, ok := strings.Cut(line, "\t")
			label, _, _ := strings.Cut(rest, "\t")
			if !ok {
				fields := strings.Fields(line)
				name, label = fields[0], fields[1]
			}
			y, err := strconv.Atoi(strings.TrimSpace(label))
			if err != nil {
				t.Fatalf("accepted %q", line)
			}
			slow[unpackedPath(name)] = y
		}
		if len(slow) != 2 {
			t.Fatalf("accepted %q, which labels %v", text, slow)
		}
		for _, m := range members {
			if y, ok := slow[m.name]; !ok || y != m.label || y < 0 || y > 2 {
				t.Fatalf("%q of %q has label %d, want %d", m.name, text, m.label, y)
			}
		}
	})
}

// Archives of photographs, whose labels are checked against a slow reading.
func TestImageNetArchivesAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		images, classes int
	}{
		{"ilsvrc_val", 1000, 20},
		{"ilsvrc_train_subset", 3000, 20},
		{"sample_1000", 1000, 1000},
	} {
		path := sharedData(t, "imagenet/"+c.name+".tar")
		d, err := Open(t.Context(), path, Options{Classes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		text, err := os.ReadFile(strings.TrimSuffix(path, ".tar") + "-labels.txt")
		if err != nil {
			t.Fatal(err)
		}
		n, perClass, r := 0, map[int]int{}, tar.NewReader(f)
		for e, err := range d.Examples(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			h, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if e.Index != n || e.Name != h.Name || !bytes.Equal(e.Encoded, content) {
				t.Fatalf("%s: %s at %d, want %s at %d and its content", c.name, e.Name, e.Index, h.Name, n)
			}
			if !bytes.Contains(text, fmt.Appendf(nil, "%s\t%d\tn", e.Name, e.Label)) {
				t.Errorf("%s: %s has label %d", c.name, e.Name, e.Label)
			}
			if n++; n%100 == 0 {
				if err := e.Decode(); err != nil || min(e.Inputs[0].Shape[0], e.Inputs[0].Shape[1]) < 100 {
					t.Errorf("%s: %+v, %v", c.name, e.Inputs[0].Shape, err)
				}
			}
			perClass[e.Label]++
		}
		if n != c.images || d.Len() != n || len(perClass) != c.classes || !d.HasLabels() || d.Ignored() != nil {
			t.Errorf("%s: %d images of %d in %d classes, labelled %t", c.name, n, d.Len(), len(perClass), d.HasLabels())
		}
		for y, m := range perClass {
			if m != c.images/c.classes {
				t.Errorf("%s: %d images of class %d", c.name, m, y)
			}
		}
	}
	// Its class folders alone do not determine the labels for a network of 1,000 classes.
	dir := t.TempDir()
	if err := os.Symlink(sharedData(t, "imagenet/ilsvrc_val.tar"), filepath.Join(dir, "x.tar")); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), filepath.Join(dir, "x.tar"), Options{Classes: 1000})
	testerr.OneLine(t, err, "20 class folders (n01440764, n02086240,", "for 1000 classes")
}
