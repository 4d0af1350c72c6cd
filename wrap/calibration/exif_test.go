package calibration_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	goimage "image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/pixels"
	. "github.com/mfgs/mfgs/wrap"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// turned stores an upright image as a camera held in one of eight ways does: img is how the pixels
// lie, and file a PNG file of it that says the orientation.
func turned(t *testing.T, upright *goimage.Gray, orientation uint8) (img *goimage.Gray, file []byte) {
	t.Helper()
	h, w := upright.Rect.Dy(), upright.Rect.Dx()
	if orientation >= 5 {
		h, w = w, h
	}
	img = goimage.NewGray(goimage.Rect(0, 0, w, h))
	_, _, stored := pixels.Upright(orientation, h, w)
	for y := range upright.Rect.Dy() {
		for x := range upright.Rect.Dx() {
			atY, atX := stored(y, x)
			img.SetGray(atX, atY, upright.GrayAt(x, y))
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	exif := []byte("MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00")
	exif[19] = orientation
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(exif)))
	chunk = append(append(chunk, "eXIf"...), exif...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	const ihdr = 33
	return img, bytes.Join([][]byte{b.Bytes()[:ihdr], chunk, b.Bytes()[ihdr:]}, nil)
}

// ofFiles are the predictions of an image file by each of the ways in which it can come.
func ofFiles(t *testing.T, p *Predictor, file []byte) map[string]Prediction {
	t.Helper()
	dir := t.TempDir()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "x.png", Mode: 0o644, Size: int64(len(file))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	specs := map[string]string{
		"file":   write(t, dir, "x.png", file),
		"folder": filepath.Dir(write(t, folder, "x.png", file)),
		"tar":    write(t, dir, "x.tar", archive.Bytes()),
		"table":  write(t, dir, "x.csv", []byte("image\nx.png\n")),
	}
	all := map[string]Prediction{}
	for way, spec := range specs {
		for one, err := range p.PredictDataset(t.Context(), spec, nil) {
			if err != nil {
				t.Fatalf("%s: %v", way, err)
			}
			all[way] = one
		}
	}
	inputs, err := p.ImageInputs(file)
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.Predict(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	all["request"] = list[0]
	if len(all) != len(specs)+1 {
		t.Fatalf("predictions of %d ways, want %d", len(all), len(specs)+1)
	}
	return all
}

// A photograph is predicted alike however the camera was held and however it comes. Bundles that do
// not say so predict its pixels as they are stored.
func TestImageFilesArePredictedUpright(t *testing.T) {
	t.Parallel()
	dir, r := calibrated(t, calibrate.Kronecker)
	if s := r.Preprocess.Spec; s.Exif == nil || !*s.Exif {
		t.Errorf("preprocessing %+v does not say that images are turned", s)
	}
	const says = "  exif: true\n"
	old := reseal(t, dir, says, "")
	upright := goimage.NewGray(goimage.Rect(0, 0, 8, 8))
	for i, v := range digitTensor(t, 1507, 1508).Data.([]float32) {
		upright.Pix[i] = byte(v*255 + 0.5)
	}
	for name, tc := range map[string]struct {
		bundle string
		exif   *bool // of the preprocessing that is given, which is the bundle's otherwise
		given  bool
		turns  bool
	}{
		"a new bundle":                                   {bundle: dir, turns: true},
		"a new bundle, other preprocessing":              {bundle: dir, given: true, turns: true},
		"a new bundle, other preprocessing without EXIF": {bundle: dir, given: true, exif: new(false)},
		"an old bundle":                                  {bundle: old},
		"an old bundle, other preprocessing":             {bundle: old, given: true},
		"an old bundle, other preprocessing with EXIF":   {bundle: old, given: true, exif: new(true), turns: true},
		"a bundle that says no":                          {bundle: reseal(t, dir, says, "  exif: false\n")},
	} {
		var o Options
		if tc.given {
			s := *r.Preprocess.Spec
			s.Exif = tc.exif
			o.Preprocess = &s
		}
		p := opened(t, tc.bundle, o)
		for orientation := uint8(1); orientation <= 8; orientation++ {
			img, file := turned(t, upright, orientation)
			if tc.turns {
				img = upright
			}
			want, err := p.PredictImages(t.Context(), img)
			if err != nil {
				t.Fatal(err)
			}
			for way, got := range ofFiles(t, p, file) {
				want := want[0]
				if got.Class != want.Class || got.Confidence != want.Confidence || got.OODScore != want.OODScore {
					t.Errorf("%s, orientation %d, %s: class %d at %v, want %d at %v", name, orientation, way,
						got.Class, got.Confidence, want.Class, want.Confidence)
				}
			}
		}
	}
}

// What one setting has read goes with nothing that the other has: parts, and results that are there.
func TestEXIFIsPartOfTheIdentityOfACalibration(t *testing.T) {
	t.Parallel()
	c := quick(config(t, filepath.Join(t.TempDir(), "b")))
	c.Resume = true
	mustCalibrate(t, c)
	_, err := Calibrate(t.Context(), c)
	if !errors.As(err, new(*DoneError)) {
		t.Fatalf("the same again: %v", err)
	}
	spec := preprocess.Spec{Scale: 1. / 255, Exif: new(false)}
	c.Preprocess = &spec
	_, err = Calibrate(t.Context(), c)
	says(t, err, "not the result of this calibration", "preprocess", "exif")

	// A bundle that does not say it is of the other setting, and a calibration without EXIF makes it.
	c.Out = reseal(t, c.Out, "  exif: true\n", "")
	if _, err = Calibrate(t.Context(), c); !errors.As(err, new(*DoneError)) {
		t.Errorf("what an old bundle is: %v", err)
	}

	c.Damping = calibrate.Damping{Absolute: 1}
	var dirs []string
	for i := 1; i <= 2; i++ {
		c.Shard, c.Out = rows.Shard{Index: i, Count: 2}, filepath.Join(t.TempDir(), fmt.Sprint(i))
		spec.Exif = new(i == 1)
		if _, err := Accumulate(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, c.Out)
	}
	_, err = Merge(t.Context(), MergeConfig{Parts: dirs, Out: filepath.Join(t.TempDir(), "merged")})
	says(t, err, "exif")
}
