package dataset

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
)

func TestMapClasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		folders, names []string
		k              int
		want           []int
		err            string
	}{
		{"by name", []string{"cat", "dog"}, []string{"dog", "bird", "cat"}, 3, []int{2, 0}, ""},
		{"by name in another case", []string{"cat", "dog"}, []string{"Dog", "Bird", "Cat"}, 3, []int{2, 0}, ""},
		{"case tells classes apart", []string{"A", "a"}, []string{"a", "A"}, 2, []int{1, 0}, ""},
		{"names before integers", []string{"0", "1"}, []string{"1", "0"}, 2, []int{1, 0}, ""},
		{"by integer", []string{"0", "10", "2"}, nil, 11, []int{0, 10, 2}, ""},
		{"by padded integer", []string{"00", "01", "07"}, nil, 10, []int{0, 1, 7}, ""},
		{"by integer, K unknown", []string{"10", "2"}, nil, 0, []int{10, 2}, ""},
		{"by integer beside names", []string{"0", "2"}, []string{"a", "b", "c"}, 3, []int{0, 2}, ""},
		{"alphabetically", []string{"a", "b"}, nil, 2, []int{0, 1}, ""},
		{"alphabetically, K unknown", []string{"a", "b"}, nil, 0, []int{0, 1}, ""},
		{"alphabetically beside names", []string{"n01", "n02"}, []string{"tench", "shark"}, 2, []int{0, 1}, ""},
		{"wrong count", []string{"a", "b"}, nil, 3, nil, "2 class folders (a, b) for 3 classes"},
		{"wrong count for names", []string{"a", "b"}, []string{"x", "y", "z"}, 0, nil, "2 class folders (a, b) for 3 classes"},
		{"many", []string{"a", "b", "c", "d", "e", "f", "g"}, nil, 3, nil, "7 class folders (a, b, c, d, e, …) for 3 classes"},
		{"one misspelt", []string{"cat", "dgo"}, []string{"cat", "dog"}, 2, nil, "1 of 2 class folders are not among the 2 class names: dgo"},
		{"integer out of range", []string{"1", "2"}, nil, 2, nil, "class folder 2 is outside [0,2)"},
		{"the same integer", []string{"01", "1"}, nil, 2, nil, "folders 01 and 1 are both class 1"},
		{"the same name", []string{"CAT", "cat"}, []string{"cat", "dog"}, 2, nil, `folders CAT and cat are both class "cat"`},
		{"class name twice", []string{"cat", "crane"}, []string{"crane", "cat", "crane"}, 3, nil, `class name "crane" is used for both 0 and 2`},
		{"class name twice, of another folder", []string{"cat"}, []string{"crane", "cat", "crane"}, 3, []int{1}, ""},
	} {
		got, byOrder, err := mapFolders(c.folders, c.names, c.k)
		if byOrder != (err == nil && strings.HasPrefix(c.name, "alphabetically")) {
			t.Errorf("%s: by order is %t", c.name, byOrder)
		}
		if c.err != "" {
			t.Run(c.name, func(t *testing.T) { testerr.OneLine(t, err, c.err) })
		} else if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{
		"dog/b.png", "dog/a.JPG", "cat/deep/er/x.jpeg", "cat/z.png", "cat/.hidden.png", ".git/x.png", "__MACOSX/y.png",
		"stray.png", "readme.txt", "cat/notes.txt", "cat/movie.gif", ".DS_Store",
	} {
		write(t, dir, name, []byte(name))
	}
	outside := write(t, t.TempDir(), "real.png", []byte("linked"))
	for link, to := range map[string]string{"dog/link.png": outside, "dog/loop": "..", "ferret": filepath.Dir(outside)} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(t.Context(), dir, Options{Classes: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, bad := all(t, d)
	want := []string{
		"0 cat/z.png 0 " + fmt.Sprintf("%x", "cat/z.png"), "1 cat/deep/er/x.jpeg 0 " + fmt.Sprintf("%x", "cat/deep/er/x.jpeg"),
		"2 dog/a.JPG 1 " + fmt.Sprintf("%x", "dog/a.JPG"), "3 dog/b.png 1 " + fmt.Sprintf("%x", "dog/b.png"), "4 dog/link.png 1 " + fmt.Sprintf("%x", "linked"),
		"5 ferret/real.png 2 " + fmt.Sprintf("%x", "linked"),
	}
	var keys []string
	for _, e := range got {
		keys = append(keys, key(e))
	}
	if !slices.Equal(keys, want) || len(bad) > 0 || d.Len() != 6 {
		t.Errorf("%d of %d: %q, bad %v", len(got), d.Len(), keys, bad)
	}
	if !slices.Equal(d.Classes(), []string{"cat", "dog", "ferret"}) || !slices.Equal(d.FolderLabels(), []int{0, 1, 2}) ||
		!d.HasLabels() || d.Format() != "folder" {
		t.Errorf("classes %q, labels %v, labelled %t", d.Classes(), d.FolderLabels(), d.HasLabels())
	}
	ignored := []Ignored{{"not PNG or JPEG", 4, "readme.txt"}, {"an image outside the class folders", 1, "stray.png"}}
	if !reflect.DeepEqual(d.Ignored(), ignored) {
		t.Errorf("ignored %+v", d.Ignored())
	}

	free, err := Open(t.Context(), dir, Options{Classes: 100, Unlabelled: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := all(t, free); len(got) != 6 || free.HasLabels() || got[5].Label != -1 {
		t.Error("labels are read though none are wanted")
	}
	testerr.OneLine(t, readError(dir, Options{Classes: 100}), dir, "3 class folders (cat, dog, ferret) for 100 classes")
	_, err = Open(t.Context(), dir, Options{Classes: 4, LabelClasses: []string{"cat"}})
	testerr.OneLine(t, err, "1 class names for a model of 4 classes")
}

func TestFlatFolderIsUnlabelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "b.png", []byte("b"))
	write(t, dir, "a.png", []byte("a"))
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o777); err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), dir, Options{Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := all(t, d)
	if len(got) != 2 || got[0].Name != "a.png" || got[0].Label != -1 || d.HasLabels() || d.Classes() != nil ||
		d.FolderLabels() != nil {
		t.Errorf("%+v, labelled %t", got, d.HasLabels())
	}
}

// A file that cannot be read is one bad record; the rest comes through.
func TestBadImagesAreRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 3 {
		write(t, dir, strconv.Itoa(i)+".png", []byte{1})
	}
	write(t, dir, "empty.png", nil)
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling.jpg")); err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, bad := all(t, d)
	if len(got) != 3 || len(bad) != 2 || d.Len() != 5 {
		t.Fatalf("%d good, %v bad of %d", len(got), bad, d.Len())
	}
	testerr.OneLine(t, bad[0], "dangling.jpg: no such file")
	testerr.OneLine(t, bad[1], "empty.png: the file is empty")
	if re := bad[1].(*RecordError); re.Index != 4 || re.Name != "empty.png" {
		t.Errorf("%+v", re)
	}
	err = got[0].Decode()
	testerr.OneLine(t, err, "0.png: not a PNG or JPEG file (it begins 01)")
	if _, ok := err.(*RecordError); !ok {
		t.Errorf("Decode gives a %T", err)
	}
	if _, err := d.Fingerprint(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestFolderThatChangesIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a/1.png", []byte{1})
	d, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := d.Fingerprint(context.Background())
	write(t, dir, "a/1.png", []byte{2})
	if after, _ := d.Fingerprint(context.Background()); after == before {
		t.Error("another image, the same fingerprint")
	}
	write(t, dir, "a/2.png", []byte{1})
	var last error
	for _, err := range d.Examples(context.Background()) {
		last = err
	}
	testerr.OneLine(t, last, filepath.Join(dir, "a"), "changed while in use: it had 1 images and has 2")
}

// Fingerprints of folders depend on content, names, labels and order.
func TestFolderFingerprint(t *testing.T) {
	t.Parallel()
	images := map[string]string{"cat/1.png": "one", "cat/2.png": "two", "dog/3.png": "three"}
	print := func(o Options, rename ...string) string {
		t.Helper()
		dir := t.TempDir()
		for name, content := range images {
			write(t, dir, strings.NewReplacer(rename...).Replace(name), []byte(content))
		}
		d, err := Open(t.Context(), dir, o)
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
	base := print(Options{})
	if print(Options{}) != base || print(Options{LabelClasses: []string{"cat", "dog"}}) != base {
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
	differs("no labels wanted", print(Options{Unlabelled: true}))
	differs("the same folders in another order of classes", print(Options{LabelClasses: []string{"dog", "cat"}}))
	differs("another class that keeps its number", print(Options{}, "dog/", "fox/"))
	differs("another name", print(Options{}, "3.png", "4.png"))
	differs("an image in another folder", print(Options{}, "cat/2", "dog/2"))
	differs("two images that changed places", print(Options{}, "1.png", "2.png", "2.png", "1.png"))
}

func TestSingleImage(t *testing.T) {
	t.Parallel()
	z := imageCases(t)
	path := write(t, t.TempDir(), "anything", z["png-rgb"].file)
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, bad := all(t, d)
	if len(got) != 1 || len(bad) > 0 || d.Len() != 1 || d.HasLabels() || got[0].Name != "anything" || d.Format() != "image" {
		t.Fatalf("%d good, %v bad", len(got), bad)
	}
	if err := got[0].Decode(); err != nil {
		t.Error(err)
	}
	if s, err := d.Fingerprint(context.Background()); err != nil || len(s) != 64 {
		t.Errorf("%q, %v", s, err)
	}
}
