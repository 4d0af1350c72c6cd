package pixels

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"strings"
	"testing"
)

// file is a JPEG or PNG file of 4 × 3 pixels with some bytes at one of exif.py's places.
func file(t testing.TB, place string, metadata []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	m := image.NewGray(image.Rect(0, 0, 4, 3))
	if strings.HasPrefix(place, "png") {
		err = png.Encode(&b, m)
	} else {
		err = jpeg.Encode(&b, m, nil)
	}
	at, ok := map[string]int{"jpeg": 2, "jpeg-behind": b.Len(), "png": 33, "png-end": b.Len() - 12, "png-behind": b.Len()}[place]
	if err != nil || !ok {
		t.Fatal(place, err)
	}
	return bytes.Join([][]byte{b.Bytes()[:at], metadata, b.Bytes()[at:]}, nil)
}

// exifCases are those of testdata/exif.txt: see exif.py.
func exifCases(t testing.TB, yield func(name string, file []byte, orientation uint8)) {
	t.Helper()
	f, err := os.Open("testdata/exif.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var place, data, name string
		var orientation uint8
		if _, err := fmt.Sscan(lines.Text(), &place, &data, &orientation, &name); err != nil {
			t.Fatal(err)
		}
		metadata, err := hex.DecodeString(data)
		if data != "-" && err != nil {
			t.Fatal(err)
		}
		yield(place+", "+name, file(t, place, metadata), orientation)
	}
}

// Broken metadata are read up to where Pillow reads them.
func TestOrientationsArePillows(t *testing.T) {
	found := map[uint8]int{}
	exifCases(t, func(name string, file []byte, want uint8) {
		p, err := Decode(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if p.Orientation != want && !(p.Orientation == 1 && want == 0) || p.Height != 3 || p.Width != 4 {
			t.Errorf("%s: orientation %d of %d×%d, want %d of 3×4", name, p.Orientation, p.Height, p.Width, want)
		}
		found[want]++
	})
	for _, o := range []uint8{0, 2, 3, 4, 5, 6, 7, 8} {
		if found[o] < 4 {
			t.Errorf("%d cases of orientation %d, want 4 at least", found[o], o)
		}
	}
}

// Upright has every pixel once, and what it exchanges are height and width.
func TestUprightMovesEveryPixel(t *testing.T) {
	for o := range uint8(10) {
		h, w, stored := Upright(o, 3, 5)
		if turned := o >= 5 && o <= 8; h*w != 15 || (h == 5) != turned {
			t.Errorf("orientation %d: %d×%d of 3×5", o, h, w)
		}
		seen := map[[2]int]bool{}
		for y := range h {
			for x := range w {
				fromY, fromX := stored(y, x)
				if fromY < 0 || fromY >= 3 || fromX < 0 || fromX >= 5 {
					t.Fatalf("orientation %d: (%d,%d) from (%d,%d)", o, y, x, fromY, fromX)
				}
				seen[[2]int{fromY, fromX}] = true
			}
		}
		if len(seen) != 15 {
			t.Errorf("orientation %d: %d of 15 pixels", o, len(seen))
		}
	}
}

func FuzzOrientation(f *testing.F) {
	exifCases(f, func(_ string, file []byte, _ uint8) { f.Add(file) })
	f.Fuzz(func(t *testing.T, b []byte) {
		if o := orientation(b); o > 8 {
			t.Fatalf("orientation %d", o)
		}
	})
}
