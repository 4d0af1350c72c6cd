package dataset

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// textFolder writes images with these texts beside them; "" writes no file.
func textFolder(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 4, 2))); err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		stem := strings.TrimSuffix(filepath.Join(dir, name), ".png")
		if err := os.MkdirAll(filepath.Dir(stem), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(stem+".png", picture.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			continue
		}
		ext := ".txt"
		if strings.Contains(name, "gt") {
			ext = ".gt.txt"
		}
		if err := os.WriteFile(stem+ext, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The text of an image is in a file beside it, in sub-folders too, and a changed text is another dataset.
func TestTextsBesideImages(t *testing.T) {
	t.Parallel()
	texts := map[string]string{"a.png": "one  two\n", "b-gt.png": "\ufeffÄ ", "sub/c.png": "3"}
	read := func(texts map[string]string) (fingerprint string, got []string) {
		d, err := Open(context.Background(), textFolder(t, texts), Options{Texts: true, Fingerprint: true})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if len(d.Ignored()) > 0 || !d.HasLabels() {
			t.Errorf("%v ignored, labelled: %t", d.Ignored(), d.HasLabels())
		}
		for e, err := range d.Examples(context.Background()) {
			if err != nil {
				got = append(got, err.Error())
				continue
			}
			got = append(got, e.Name+"="+e.Text)
		}
		if fingerprint, err = d.Fingerprint(context.Background()); err != nil {
			t.Fatal(err)
		}
		return fingerprint, got
	}
	first, got := read(texts)
	if got, want := strings.Join(got, "|"), "a.png=one  two|b-gt.png=Ä|sub/c.png=3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if again, _ := read(texts); again != first {
		t.Error("the same texts have another fingerprint")
	}
	texts["sub/c.png"] = "4"
	if changed, _ := read(texts); changed == first {
		t.Error("another text has the same fingerprint")
	}
	texts["sub/c.png"] = ""
	if _, got := read(texts); !strings.Contains(got[2], "sub/c.png: no text beside it, in c.gt.txt or c.txt") {
		t.Errorf("%q, want an error about the image without a text", got[2])
	}
}

// Where labels are optional, so is the text beside an image. One in another encoding is an error.
func TestSomeTextsBesideImages(t *testing.T) {
	t.Parallel()
	dir := textFolder(t, map[string]string{"a.png": "one", "b.png": "", "c.png": "caf\xe9"})
	d, err := Open(t.Context(), dir, Options{Texts: true, IgnoreUnknownLabels: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	examples, errs := all(t, d)
	if len(examples) != 2 || examples[0].Text != "one" || examples[1].Label != -1 {
		t.Errorf("%+v", examples)
	}
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "c.txt: the text is not in UTF-8: convert it") {
		t.Errorf("%v, want an error about the encoding", errs)
	}
}

// A folder without texts is unlabelled, and class folders without them are refused.
func TestFoldersWithoutTexts(t *testing.T) {
	t.Parallel()
	d, err := Open(context.Background(), textFolder(t, map[string]string{"a.png": ""}), Options{Texts: true})
	if err != nil || d.HasLabels() {
		t.Errorf("%v, or labels", err)
	}
	_, err = Open(context.Background(), textFolder(t, map[string]string{"x/a.png": "", "y/b.png": ""}), Options{Texts: true})
	if err == nil || !strings.Contains(err.Error(), "in a .txt file beside it") {
		t.Errorf("%v, want what labels of texts look like", err)
	}
}
