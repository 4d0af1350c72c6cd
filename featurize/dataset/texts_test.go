package dataset

import (
	"bytes"
	"image"
	"image/png"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
)

// Texts are labels of tables, of images too, and of JSON lines. Another text is another dataset.
func TestTextsAreLabels(t *testing.T) {
	t.Parallel()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 4, 2))); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file, content string
		want          []string
	}{
		"CSV":          {"x.csv", "x,label\n1,\"one, two\"\n2,\n3,007\n", []string{"one, two", "", "007"}},
		"image table":  {"x.csv", "image,label\na.png,\"one, two\"\na.png,\na.png,007\n", []string{"one, two", "", "007"}},
		"JSON lines":   {"x.jsonl", "{\"x\":1,\"label\":\"one, two\"}\n{\"x\":2,\"label\":\"\"}\n{\"x\":3,\"label\":\"007\"}\n", []string{"one, two", "", "007"}},
		"without some": {"x.jsonl", "{\"x\":1,\"label\":\"Ä\"}\n{\"x\":2,\"label\":null}\n{\"x\":3}\n", []string{"Ä", "none", "none"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Texts: true, Fingerprint: true, IgnoreUnknownLabels: true}
			open := func(content string) ([]string, string) {
				dir := t.TempDir()
				write(t, dir, "a.png", picture.Bytes())
				d, err := Open(t.Context(), write(t, dir, tt.file, []byte(content)), o)
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				examples, errs := all(t, d)
				var texts []string
				for i, e := range examples {
					switch {
					case i < len(errs) && errs[i] != nil:
						t.Errorf("example %d: %v", i, errs[i])
					case e.Label == -1:
						texts = append(texts, "none")
					default:
						texts = append(texts, e.Text)
					}
				}
				fingerprint, err := d.Fingerprint(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return texts, fingerprint
			}
			texts, first := open(tt.content)
			if !slices.Equal(texts, tt.want) {
				t.Errorf("%q, want %q", texts, tt.want)
			}
			if _, again := open(tt.content); again != first {
				t.Error("the same texts have another fingerprint")
			}
			if _, changed := open(strings.NewReplacer("one", "won", "Ä", "Ö").Replace(tt.content)); changed == first {
				t.Error("another text has the same fingerprint")
			}
		})
	}
}

// Where labels are numbers of classes by their format, the error says which formats have texts.
func TestLabelsThatAreNoTextsAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images := write(t, dir, "images-idx3", idx(ramp(8), 2, 2, 2))
	write(t, dir, "labels-idx1", idx(ramp(2), 2))
	x := npy("<f4", "(2, 2)", ramp(16))
	for name, tt := range map[string]struct {
		spec  string
		words []string
	}{
		"npz": {write(t, dir, "x.npz", zipped(t, map[string][]byte{"x.npy": x, "labels.npy": npy("|u1", "(2,)", make([]byte, 2))})),
			[]string{"its labels are classes", "image and label, JSON lines, Parquet"}},
		"idx":           {images, []string{"labels-idx1", "its labels are classes"}},
		"cifar":         {write(t, dir, "x.bin", make([]byte, 1+cifarPixels)), []string{"x.bin", "its labels are classes"}},
		"a number":      {write(t, dir, "n.jsonl", []byte("{\"x\":1,\"label\":7}\n")), []string{"want a text"}},
		"a list":        {write(t, dir, "l.jsonl", []byte("{\"x\":1,\"label\":[\"a\"]}\n")), []string{"want a text"}},
		"a long text":   {write(t, dir, "long.jsonl", []byte("{\"x\":1,\"label\":\""+strings.Repeat("a", maxLabelText+1)+"\"}\n")), []string{"a text of 4097 bytes, want at most 4096"}},
		"an encoding":   {write(t, dir, "latin.csv", []byte("x,label\n1,caf\xe9\n")), []string{"the text is not in UTF-8: convert it"}},
		"class folders": {filepath.Dir(filepath.Dir(write(t, dir, "folder/a/1.png", []byte{1}))), []string{"in a .txt file beside it"}},
	} {
		t.Run(name, func(t *testing.T) {
			testerr.OneLine(t, readError(tt.spec, Options{Texts: true}), tt.words...)
		})
	}
}
