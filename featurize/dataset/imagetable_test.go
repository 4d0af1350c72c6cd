package dataset

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
)

// A table and JSON lines of paths are the images that they name, with their labels.
func TestTablesOfImages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.png", "sub/b.JPG", "c d.jpeg"} {
		write(t, dir, name, []byte(name))
	}
	o := Options{Classes: 2, LabelClasses: []string{"cat", "dog"}, Inputs: []string{"pixels"}, Widths: []int{64}, Fingerprint: true}
	want := "a.png 1, sub/b.JPG 0, c d.jpeg 1"
	sums := map[string]bool{}
	for name, text := range map[string]string{
		"t.csv":   "file_name,width,label\na.png,3,dog\n./sub/b.JPG,4,cat\nc d.jpeg,5,1\n",
		"t.tsv":   "Path\tlabel\na.png\t1\nsub/b.JPG\t0\nc d.jpeg\tdog\n",
		"t.jsonl": `{"image":"a.png","label":"dog","box":[1]}` + "\n" + `{"label":0,"image":"sub/b.JPG"}` + "\n" + `{"label":1,"image":"c d.jpeg"}` + "\n",
	} {
		for _, spec := range []string{name, strings.SplitAfter(name, ".")[1] + ":" + name} {
			format, _, _ := strings.Cut(spec, ":")
			path := write(t, dir, name, []byte(text))
			if format != spec && format != "tsv" {
				path = format + ":" + path
			}
			for _, read := range []bool{true, false} {
				d, err := Open(t.Context(), path, o)
				if err != nil {
					t.Fatal(err)
				}
				if read {
					got, bad := all(t, d)
					var list []string
					for i, e := range got {
						list = append(list, fmt.Sprintf("%s %d", strings.TrimPrefix(e.Name, "./"), e.Label))
						if e.Index != i || string(e.Encoded) != strings.TrimPrefix(e.Name, "./") || e.Inputs != nil {
							t.Errorf("%s: %+v", path, e)
						}
					}
					s := strings.Join(list, ", ")
					if s != want || len(bad) > 0 || d.Ragged() || d.IsText() || !d.HasLabels() {
						t.Errorf("%s: %s, %v; want %s", path, s, bad, want)
					}
				}
				sum, err := d.Fingerprint(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				sums[d.Format()+sum] = true
				d.Close()
			}
		}
	}
	if len(sums) != 3 { // ./sub is another path than sub
		t.Errorf("%d fingerprints, want one of each file, read or not", len(sums))
	}
}

// A table is untrusted: files outside its folder are not read, and errors do not reveal whether they exist.
func TestTablesOfImagesLeadNowhereElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := write(t, dir, "secret.png", []byte("secret"))
	write(t, dir, "set/a.png", []byte("a"))
	for link, to := range map[string]string{"out.png": secret, "in.png": "a.png", "up": ".."} {
		if err := os.Symlink(to, filepath.Join(dir, "set", link)); err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{"a.png", secret, "../secret.png", "x/../../secret.png", "out.png", "up/secret.png", "in.png", "none.png", "x/../a.png"}
	d, err := Open(t.Context(), write(t, dir, "set/t.csv", []byte("image\n"+strings.Join(paths, "\n")+"\n")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, bad := all(t, d)
	var names []string
	for _, e := range got {
		names = append(names, e.Name+"="+string(e.Encoded))
	}
	if s := strings.Join(names, " "); s != "a.png=a in.png=a x/../a.png=a" {
		t.Errorf("read %s", s)
	}
	if len(bad) != 6 {
		t.Errorf("bad records %v", bad)
	}
	for _, err := range bad {
		if s := err.Error(); !strings.Contains(s, "leads out of the folder") && !strings.Contains(s, "follows a link") && !strings.HasPrefix(s, "none.png") {
			t.Error(err)
		}
	}
	in := NewStream(strings.NewReader(`{"image":"a.png","label":1}`+"\n"), stdinPath)
	_, err = Open(t.Context(), "-", Options{Stream: in})
	testerr.OneLine(t, err, "image paths need a file next to the images")
	for e, err := range StreamJSONL(strings.NewReader(fmt.Sprintf("{\"image\":%q}\n", secret)), "-", Options{}) {
		if err != nil || e.Encoded != nil {
			t.Errorf("a line by itself: %+v, %v", e, err)
		}
	}
}

// Only images in the table's folder are read, whatever the table contains.
func FuzzImageTable(f *testing.F) {
	f.Add("file_name,label\na.png,1\n../secret.png,0\n", "x.csv")
	f.Add(`{"image":"a.png","label":1}`+"\n"+`{"image":"..\\u002f../secret.png"}`+"\n", "x.jsonl")
	f.Fuzz(func(t *testing.T, text, name string) {
		if name != "x.csv" && name != "x.jsonl" {
			return
		}
		dir := t.TempDir()
		write(t, dir, "secret.png", []byte("secret"))
		write(t, dir, "set/a.png", []byte("public"))
		d, err := Open(t.Context(), write(t, dir, "set/"+name, []byte(text)), Options{})
		if err != nil {
			return
		}
		defer d.Close()
		for e := range d.Examples(context.Background()) {
			if bytes.Contains(e.Encoded, []byte("secret")) {
				t.Fatalf("%q reads %s", text, e.Name)
			}
		}
		if _, err := d.Fingerprint(context.Background()); err != nil && strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
	})
}
