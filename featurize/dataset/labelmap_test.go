package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// grey is a PNG file of these values, in rows of width.
func grey(t *testing.T, width int, values ...uint8) []byte {
	t.Helper()
	m := &image.Gray{Pix: values, Stride: width, Rect: image.Rect(0, 0, width, len(values)/width)}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tree writes files below a new folder.
func tree(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// labelMaps reads a dataset, and says what the label map of each example became. It checks that the fingerprint of what
// a pass has read is that of the files.
func labelMaps(t *testing.T, spec string, o Options) (got []string) {
	t.Helper()
	ctx := context.Background()
	o.Steps, o.Fingerprint = true, true
	d, err := Open(ctx, spec, o)
	if err != nil {
		return []string{err.Error()}
	}
	defer d.Close()
	for e, err := range d.Examples(ctx) {
		if size := e.Bytes(); err == nil && e.labelMap != nil && size <= len(e.Encoded) {
			t.Errorf("%s: %d bytes with a label map", e.Name, size)
		}
		if err == nil {
			err = e.Decode()
		}
		got = append(got, fmt.Sprint(e.Name, e.Sides, e.Steps, e.Label))
		if err != nil {
			got[len(got)-1] = fmt.Sprintf("%t %v", errors.As(err, new(*RecordError)), err)
		}
	}
	read, err := d.Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o.Fingerprint = false
	again, err := Open(ctx, spec, o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if whole, err := again.Fingerprint(ctx); err != nil || whole != read {
		t.Errorf("fingerprint %s after a pass and %s before one, %v", read, whole, err)
	}
	return append(got, read)
}

// The labels of a table of images may be the paths of label maps, which must not leave its folder either.
func TestTablesOfLabelMaps(t *testing.T) {
	t.Parallel()
	picture, labels := grey(t, 2, 9, 9, 9, 9), grey(t, 2, 0, 2, 255, 1)
	files := map[string][]byte{"a.png": picture, "m/a.png": labels, "far.png": grey(t, 1, 3), "mask.png": grey(t, 2, 0, 255),
		"none.png": grey(t, 1, 255), "t.csv": []byte("image,label\na.png,m/a.png\na.png,../b.png\na.png,none.png\na.png,lost.png\na.png,far.png\na.png,m.JPG\n"), "m.JPG": []byte("\xff\xd8\xff\xe0"),
		"t.jsonl": []byte(`{"image": "a.png", "label": "m/a.png"}`), "two.csv": []byte("image,label\na.png,mask.png\n")}
	dir := tree(t, files)
	got := labelMaps(t, filepath.Join(dir, "t.csv"), Options{Classes: 3})
	for i, want := range []string{"a.png[2 2] [0 2 -1 1] 0", "true a.png: label map ../b.png: the path leads out", "true a.png: label map none.png: no pixel has a label",
		"true a.png: label map lost.png: ", "false a.png: label map far.png: row 0, column 0: label 3 is outside [0,3)",
		"true a.png: label map m.JPG: not a PNG file"} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("record %d: %s, want %s", i, got[i], want)
		}
	}
	if lines := labelMaps(t, filepath.Join(dir, "t.jsonl"), Options{Classes: 3}); lines[0] != got[0] {
		t.Errorf("JSON lines: %s, want %s", lines[0], got[0])
	}
	if two := labelMaps(t, filepath.Join(dir, "two.csv"), Options{Classes: 2}); !strings.Contains(two[0], "its numbers are 0 and 255") {
		t.Errorf("a mask of black and white: %s", two[0])
	}
	lenient := labelMaps(t, filepath.Join(dir, "t.csv[2:3]"), Options{Classes: 3, IgnoreUnknownLabels: true})
	if !strings.HasSuffix(lenient[0], "-1") || strings.Contains(lenient[0], "label map") {
		t.Errorf("labels that may be missing: %s", lenient[0])
	}
	files["m/a.png"] = grey(t, 2, 0, 2, 255, 0)
	if other := labelMaps(t, filepath.Join(tree(t, files), "t.csv[:1]"), Options{Classes: 3}); other[1] == got[len(got)-1] {
		t.Error("the fingerprint does not depend on the label maps")
	}
}

// Label maps in a parallel folder belong to the images of the same names, as in the usual datasets.
func TestFoldersOfLabelMaps(t *testing.T) {
	t.Parallel()
	picture, labels := grey(t, 2, 9, 9), grey(t, 2, 1, 0)
	for name, test := range map[string]struct{ spec, image, labels string }{
		"images and labels": {"", "images/a.jpg", "labels/a.png"},
		"masks":             {"", "images/b/a.png", "masks/b/a.png"},
		"ADE20K":            {"images/training", "images/training/a.jpg", "annotations/training/a.png"},
		"Pascal VOC":        {"", "JPEGImages/a.jpg", "SegmentationClass/a.png"},
		"Cityscapes": {"leftImg8bit/val", "leftImg8bit/val/bonn/a_leftImg8bit.png",
			"gtFine/val/bonn/a_gtFine_labelTrainIds.png"},
	} {
		files := map[string][]byte{test.image: picture, test.labels: labels}
		dir := tree(t, files)
		got := labelMaps(t, filepath.Join(dir, test.spec), Options{Classes: 2})
		if len(got) != 2 || !strings.HasSuffix(got[0], "[1 2] [1 0] 0") {
			t.Errorf("%s: %q", name, got)
		}
		files[test.labels] = grey(t, 2, 0, 0)
		if other := labelMaps(t, filepath.Join(tree(t, files), test.spec), Options{Classes: 2}); other[1] == got[1] {
			t.Errorf("%s: the fingerprint does not depend on the label maps", name)
		}
		alone := labelMaps(t, filepath.Join(dir, test.spec), Options{Unlabelled: true})
		if len(alone) != 2 || !strings.HasSuffix(alone[0], "[] [] -1") {
			t.Errorf("%s, without labels: %q", name, alone)
		}
	}
}

// Images without a label map are ignored, and reported, unless they need none.
func TestImagesWithoutLabelMaps(t *testing.T) {
	t.Parallel()
	picture := grey(t, 2, 9, 9)
	dir := tree(t, map[string][]byte{"images/a.png": picture, "images/b.png": picture, "labels/b.png": grey(t, 2, 1, 0)})
	if got := labelMaps(t, dir, Options{Classes: 2}); len(got) != 2 || !strings.HasPrefix(got[0], "b.png") {
		t.Errorf("%q", got)
	}
	d, err := Open(context.Background(), dir, Options{Steps: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if want := []Ignored{{"without a label map", 1, "a.png"}}; !slices.Equal(d.Ignored(), want) {
		t.Errorf("ignored: %v, want %v", d.Ignored(), want)
	}
	if got := labelMaps(t, dir, Options{IgnoreUnknownLabels: true}); len(got) != 3 || !strings.HasSuffix(got[0], "-1") {
		t.Errorf("labels that may be missing: %q", got)
	}
	none := tree(t, map[string][]byte{"images/a.png": picture, "labels/b.png": picture})
	if got := labelMaps(t, none, Options{}); !strings.Contains(got[0], "none of 1 image has a label map; that of a.png would be ") {
		t.Errorf("%q", got)
	}
}
