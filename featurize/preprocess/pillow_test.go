package preprocess

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// pillowCase is one record of testdata/pillow.bin.gz; see pillow.py.
type pillowCase struct {
	head struct {
		Kind, Channels uint8
		H, W, ToH, ToW uint16
	}
	in, out []uint8
}

func pillowCases(t testing.TB) []pillowCase {
	t.Helper()
	f, err := os.Open("testdata/pillow.bin.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(z)
	var cases []pillowCase
	for {
		var c pillowCase
		if err := binary.Read(r, binary.LittleEndian, &c.head); err == io.EOF {
			return cases
		} else if err != nil {
			t.Fatal(err)
		}
		channels := int(c.head.Channels)
		c.in = make([]uint8, int(c.head.H)*int(c.head.W)*channels)
		if c.head.Kind == 3 {
			channels = 1
		}
		c.out = make([]uint8, int(c.head.ToH)*int(c.head.ToW)*channels)
		for _, b := range [][]uint8{c.in, c.out} {
			if _, err := io.ReadFull(r, b); err != nil {
				t.Fatal(err)
			}
		}
		cases = append(cases, c)
	}
}

var pillowFilters = map[uint8]Filter{0: Nearest, 1: Bilinear, 2: Bicubic, 7: Lanczos, 8: Box, 9: Hamming}

// The requirement is 1 of 255 for bilinear; the algorithm is the same, so the bytes are.
func TestResizePadGreyAndTurningEqualPillow(t *testing.T) {
	t.Parallel()
	cases := pillowCases(t)
	kinds := map[uint8]int{}
	for _, c := range cases {
		kinds[c.head.Kind]++
	}
	want := map[uint8]int{0: 72, 1: 72, 2: 72, 3: 4, 4: 44, 5: 44, 6: 48, 7: 72, 8: 72, 9: 72}
	for o := uint8(1); o <= 8; o++ {
		want[20+o], want[30+o] = 8, 8
	}
	if !maps.Equal(kinds, want) {
		t.Fatalf("cases of kinds %v, want %v", kinds, want)
	}
	for _, c := range cases {
		h := c.head
		name := fmt.Sprintf("kind %d, %d×%d×%d to %d×%d", h.Kind, h.H, h.W, h.Channels, h.ToH, h.ToW)
		spec := Spec{Layout: NHWC, Resize: &Resize{Width: int(h.ToW), Height: int(h.ToH),
			Filter: pillowFilters[h.Kind]}}
		channels := int64(h.Channels)
		img := Image{Shape: []int{int(h.H), int(h.W), int(h.Channels)}, Layout: tensor.HWC, Data: c.in}
		if h.Kind > 20 {
			spec.Resize.Filter = map[uint8]Filter{2: Bilinear, 3: Nearest}[h.Kind/10]
			img.Orientation = h.Kind % 10
		}
		switch h.Kind {
		case 3:
			spec.Resize, channels = nil, 1
		case 4:
			spec.Resize.Mode, spec.Pad = Fit, &Pad{Value: 114}
		case 5:
			spec.Resize.Mode, spec.Resize.Filter, spec.Pad = Fit, Bicubic, &Pad{Position: Corner}
		case 6:
			spec.Resize.Mode, spec.Pad = Height, &Pad{Value: 128, Position: Corner}
		}
		p, err := New(spec, Target{Shape: []int64{-1, int64(h.ToH), int64(h.ToW), channels}, Type: tensor.Uint8})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := make([]uint8, p.Len())
		if err := p.Apply(img, got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !slices.Equal(got, c.out) {
			most := 0
			for i := range got {
				most = max(most, int(got[i])-int(c.out[i]), int(c.out[i])-int(got[i]))
			}
			t.Errorf("%s: differs from Pillow by up to %d", name, most)
		}
	}
}
