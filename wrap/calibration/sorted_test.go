package calibration_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/models"
)

// A slice of data sorted by class gives a warning; a random part or all of it does not.
func TestDataSortedByClassGiveAWarning(t *testing.T) {
	t.Parallel()
	sorted := t.TempDir()
	pixels, labels := digitsByClass(t)
	write(t, sorted, "x-images-idx3-ubyte", idx(pixels, len(labels), 8, 8))
	write(t, sorted, "x-labels-idx1-ubyte", idx(labels, len(labels)))
	bare := t.TempDir()
	write(t, bare, "x-images-idx3-ubyte", idx(pixels, len(labels), 8, 8))
	file := func(dir, part string) string { return filepath.Join(dir, "x-images-idx3-ubyte") + part }
	for name, tc := range map[string]struct {
		train, val string
		want       []string
	}{
		"all":                  {file(sorted, ""), digits(t, models.DigitsVal), nil},
		"as it comes":          {digits(t, models.DigitsTrain), digits(t, models.DigitsVal), nil},
		"a random part":        {digits(t, "digits-images-idx3-ubyte.gz[100:400]"), digits(t, "digits-images-idx3-ubyte.gz[1200:1300]"), nil},
		"train, the first":     {file(sorted, "[0:500]"), digits(t, models.DigitsVal), []string{"train: 5 of 10 classes have no example among 500"}},
		"train, no labels":     {file(bare, "[0:500]"), digits(t, models.DigitsVal), []string{"train: the network predicts almost none of"}},
		"validation, the last": {digits(t, models.DigitsTrain), file(sorted, fmt.Sprintf("[%d:]", len(labels)-100)), []string{"val: all 100 validation examples are of class 9"}},
	} {
		c := quick(config(t, filepath.Join(t.TempDir(), "b")))
		c.Train, c.Val, c.OOD, c.Limit = tc.train, tc.val, "", 0
		var got []string
		for _, w := range mustCalibrate(t, c).Warnings {
			if strings.Contains(w, "classes") || strings.Contains(w, "of class") || strings.Contains(w, "features as another") {
				got = append(got, w)
			}
		}
		if len(got) != len(tc.want) || len(got) > 0 && !strings.Contains(got[0], tc.want[0]) {
			t.Errorf("%s: warnings %q, want %q", name, got, tc.want)
		}
	}
	copies := quick(config(t, filepath.Join(t.TempDir(), "b")))
	copies.Limit, copies.OOD = 0, ""
	dir := t.TempDir()
	for class := range 10 {
		for i := range 20 {
			write(t, filepath.Join(dir, fmt.Sprint(class)), fmt.Sprintf("%d.png", i), photo(t, class*20+i/2, 8))
		}
	}
	copies.Val = dir
	if w := strings.Join(mustCalibrate(t, copies).Warnings, "; "); !strings.Contains(w, "val: 100 of 200 examples have the same features as another") {
		t.Errorf("of copies: warnings %q", w)
	}
}

// digitsByClass returns the first 1,200 digits, sorted by class.
func digitsByClass(t *testing.T) (pixels, labels []byte) {
	t.Helper()
	x := digitTensor(t, 0, 1200).Data.([]float32)
	all := gunzipped(t, digits(t, "digits-labels-idx1-ubyte.gz"))[8:]
	for class := range byte(10) {
		for i, y := range all[:1200] {
			if y != class {
				continue
			}
			labels = append(labels, y)
			for _, v := range x[i*64 : (i+1)*64] {
				pixels = append(pixels, byte(v*255+0.5))
			}
		}
	}
	return pixels, labels
}

func gunzipped(t *testing.T, path string) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
