package published_test

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs/internal/published"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/pixels"
	"github.com/mfgs/mfgs/onnx/tensor"
)

const samples = 192 // of a tensor: SAMPLES of libraries.py

// libraryCase is a record of testdata/libraries.bin.gz: see libraries.py.
type libraryCase struct {
	Config, Backend, Picture string
	Shape                    []int
	values                   [samples]float32
}

func libraryCases(t testing.TB) []libraryCase {
	t.Helper()
	f, err := os.Open("testdata/libraries.bin.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(z)
	var cases []libraryCase
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return cases
		}
		var c libraryCase
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		if err := binary.Read(r, binary.LittleEndian, &c.values); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
}

// specOf reads the configuration of a case, as --preprocess does.
func specOf(t testing.TB, config string) preprocess.Spec {
	t.Helper()
	var s preprocess.Spec
	var err error
	if name, ok := strings.CutPrefix(config, published.TorchvisionPrefix); ok {
		s, err = published.Torchvision(name)
	} else {
		var document []byte
		if document, err = os.ReadFile("testdata/configs/" + config); err == nil {
			if !published.Recognise(document) {
				t.Errorf("%s is not recognised", config)
			}
			s, _, err = published.Read(document, "")
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	return s
}

// tensorOf preprocesses a picture.
func tensorOf(t testing.TB, s preprocess.Spec, picture string) ([]float32, []int) {
	t.Helper()
	file, err := os.ReadFile("testdata/pictures/" + picture)
	if err != nil {
		t.Fatal(err)
	}
	m, err := pixels.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := preprocess.New(s, preprocess.Target{Shape: []int64{-1, 3, -1, -1}, Type: tensor.Float32})
	if err != nil {
		t.Fatal(err)
	}
	img := preprocess.Image{Shape: []int{m.Height, m.Width, m.Channels}, Layout: tensor.HWC, Data: m.Data,
		Orientation: m.Orientation}
	if p, err = p.Resolve(img); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, p.Len())
	if err := p.Apply(img, out); err != nil {
		t.Fatal(err)
	}
	return out, p.Shape()
}

// level returns the step of element i between two consecutive pixel values.
func level(s preprocess.Spec, shape []int, i int) float64 {
	step := s.Scale
	if step == 0 {
		step = 1
	}
	switch c := i / (shape[1] * shape[2]); len(s.Std) {
	case 1:
		step /= s.Std[0]
	case 3:
		step /= s.Std[c]
	}
	return step
}

// Tensors equal those of transformers, timm and torchvision, with the files that these libraries write; exactly, if an
// image is resized in bytes and decoded identically.
func TestTensorsEqualTheLibraries(t *testing.T) {
	t.Parallel()
	cases := libraryCases(t)
	files, err := filepath.Glob("testdata/configs/*.json")
	if err != nil {
		t.Fatal(err)
	}
	configs := map[string]bool{}
	worst := map[string]float64{}
	for _, c := range cases {
		configs[c.Config] = true
		name := fmt.Sprintf("%s, %s, %s", c.Config, c.Backend, c.Picture)
		s := specOf(t, c.Config)
		if c.Backend == "pil" && s.Resize != nil {
			s.Resize.Arithmetic = preprocess.Pillow
		}
		if s.Exif == nil { // the loaders of timm and torchvision, by which the tensors were made, ignore EXIF
			s.Exif = new(false)
		}
		got, shape := tensorOf(t, s, c.Picture)
		if !slices.Equal(shape, c.Shape) {
			t.Errorf("%s: shape %v, want %v", name, shape, c.Shape)
			continue
		}
		most := 0.
		for i, want := range c.values {
			at := int(uint32(i*2654435761)) % len(got)
			off := math.Abs(float64(got[at])-float64(want)) / level(s, shape, at)
			most = max(most, off)
		}
		// Rounding of float32 at magnitude 255.
		bound, kind := 1e-3, c.Backend
		if strings.HasPrefix(c.Config, "dinov3") {
			bound, kind = 1, "fractions" // the rounding to bytes, half of it after either pass
		}
		if strings.HasSuffix(c.Picture, ".jpg") {
			bound, kind = 4+1e-3, "JPEG" // the decoder's 3, which filters with negative weights add to
		}
		if !(most <= bound) {
			t.Errorf("%s: off by %.3f of 255", name, most)
		}
		worst[kind] = max(worst[kind], most)
	}
	for _, f := range files {
		if !configs[filepath.Base(f)] {
			t.Errorf("%s: no tensors", f)
		}
	}
	if len(configs) < 60 {
		t.Errorf("%d configurations, want at least 60", len(configs))
	}
	t.Logf("%d configurations, %d tensors, off by at most %v of 255", len(configs), len(cases), worst)
}
