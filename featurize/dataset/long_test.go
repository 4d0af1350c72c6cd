package dataset

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// Messages quote little of a file, and no control characters.
func TestErrorsQuoteLittleOfAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("\x1b[31m\x00", 10000)
	put := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	archive := filepath.Join(dir, "long.npz")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for _, name := range []string{long + ".npy", long} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(npy("<f4", "(2, 3)", make([]byte, 24))); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	check := func(name, s string) {
		t.Helper()
		if len(s) > 1500 || strings.ContainsAny(s, "\x1b\x00\n") || !utf8.ValidString(s) {
			t.Errorf("%s: a message of %d bytes: %.100q", name, len(s), s)
		}
	}
	o := Options{Inputs: []string{"x"}, Widths: []int{3}}
	for name, path := range map[string]string{
		"one column":   put("nul.csv", strings.Repeat("\x00", 400000)),
		"columns":      put("columns.csv", long+",b,label\n1,2,0\n"),
		"a cell":       put("cell.csv", "a,b,c,label\n"+long+",2,3,0\n"),
		"a label":      put("label.csv", "a,b,c,label\n1,2,3,"+long+"\n"),
		"keys":         put("keys.jsonl", `{"`+strings.Repeat("k", 100000)+`": 1}`+"\n"),
		"other arrays": archive,
	} {
		// Another input name, so that what is there has to be listed.
		for _, o := range []Options{o, {Inputs: []string{"x", "y"}, Widths: []int{3, 3}}} {
			ds, err := Open(t.Context(), path, o)
			if err != nil {
				check(name, err.Error())
				continue
			}
			for _, ig := range ds.Ignored() {
				check(name, ig.First)
			}
			for _, err := range ds.Examples(t.Context()) {
				if err != nil {
					check(name, err.Error())
				}
			}
			ds.Close()
		}
	}
	if _, err := OpenFeatures(archive, Options{}); err == nil {
		t.Error("no error")
	} else {
		check("features", err.Error())
	}
}
