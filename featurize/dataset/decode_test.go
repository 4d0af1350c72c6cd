package dataset

import (
	"bytes"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx/tensor"
)

type imageCase struct {
	file, pixels []uint8
	shape        []int
}

// imageCases reads testdata/images.npz; see pillow.py.
func imageCases(t testing.TB) map[string]imageCase {
	t.Helper()
	var b Base
	z, err := openNPZFile(&b, "testdata/images.npz")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	whole := func(a *arrays.Array) []uint8 {
		r, err := a.From(0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := r.Read(a.Count)
		if err != nil {
			t.Fatal(err)
		}
		return b.([]uint8)
	}
	cases := map[string]imageCase{}
	for _, name := range z.names {
		if name, ok := strings.CutSuffix(name, ".file"); ok {
			pixels := z.arrays[name+".pixels"]
			cases[name] = imageCase{whole(z.arrays[name+".file"]), whole(pixels), append([]int{pixels.Count}, pixels.Shape...)}
		}
	}
	return cases
}

// PNG is decoded exactly. JPEG may differ in the rounding of the inverse
// transform, by 1 in each of Y, Cb and Cr, so by up to 1 + 1.772 in blue.
func TestDecodeEqualsPillow(t *testing.T) {
	t.Parallel()
	cases := imageCases(t)
	if len(cases) != 10+6*3+3 {
		t.Fatalf("%d cases", len(cases))
	}
	for name, c := range cases {
		e := Example{Name: name, Encoded: c.file}
		if err := e.Decode(); err != nil {
			t.Error(err)
			continue
		}
		a := e.Inputs[0]
		if !reflect.DeepEqual(a.Shape, c.shape) || a.Layout != tensor.HWC || e.Encoded != nil {
			t.Errorf("%s: %v %s, want %v", name, a.Shape, a.Layout, c.shape)
			continue
		}
		most := 0
		for i, v := range a.Data.([]uint8) {
			most = max(most, int(v)-int(c.pixels[i]), int(c.pixels[i])-int(v))
		}
		if strings.HasPrefix(name, "png") && most > 0 || most > 3 {
			t.Errorf("%s: differs by up to %d", name, most)
		}
	}
}

// Formats that Pillow does not write, against what they were made from.
func TestDecodeWhatGoEncodes(t *testing.T) {
	t.Parallel()
	r := image.Rect(0, 0, 5, 4)
	random := rand.New(rand.NewPCG(1, 2))
	deep, deepAlpha := image.NewRGBA64(r), image.NewNRGBA64(r)
	for y := range 4 {
		for x := range 5 {
			deep.SetRGBA64(x, y, color.RGBA64{uint16(random.Uint32()), uint16(random.Uint32()), uint16(random.Uint32()),
				0xffff})
			deepAlpha.SetNRGBA64(x, y,
				color.NRGBA64{uint16(random.Uint32()), uint16(random.Uint32()), uint16(random.Uint32()),
					uint16(random.Uint32())})
		}
	}
	for name, img := range map[string]image.Image{"16 bits": deep, "16 bits and alpha": deepAlpha} {
		var buf bytes.Buffer
		if err := png.Encode(&buf, img); err != nil {
			t.Fatal(err)
		}
		e := Example{Encoded: buf.Bytes()}
		if err := e.Decode(); err != nil {
			t.Fatal(err)
		}
		for i, got := range e.Inputs[0].Data.([]uint8) {
			x, y, k := i/3%5, i/15, i%3
			var want uint8
			if img == image.Image(deep) {
				want = deep.Pix[y*deep.Stride+8*x+2*k]
			} else {
				want = deepAlpha.Pix[y*deepAlpha.Stride+8*x+2*k]
			}
			if got != want {
				t.Errorf("%s: channel %d at (%d,%d) is %d, want %d", name, k, x, y, got, want)
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	cases := imageCases(t)
	pngFile, jpegFile := cases["png-rgb"].file, cases["jpeg-33x45-4:2:0"].file
	resized := func(file []byte, at int, w, h uint32, width int) []byte {
		b := bytes.Clone(file)
		for i := range width {
			b[at+i], b[at+width+i] = byte(w>>(8*(width-1-i))), byte(h>>(8*(width-1-i)))
		}
		return b
	}
	sof := bytes.Index(jpegFile, []byte{0xff, 0xc0})
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"truncated PNG":        {pngFile[:100], "broken PNG"},
		"truncated JPEG":       {jpegFile[:len(jpegFile)/2], "broken JPEG"},
		"JPEG header only":     {jpegFile[:20], "broken JPEG"},
		"GIF":                  {[]byte("GIF89a......"), "not a PNG or JPEG file (it begins 47 49 46 38)"},
		"bomb by dimensions":   {pngSized(pngFile, 100_000, 100_000), "100000×100000 pixels are more than the 100000000 allowed"},
		"PNG of another size":  {pngSized(pngFile, 9000, 9000), "broken PNG: 9000×9000 pixels cannot be in"},
		"JPEG of another size": {resized(jpegFile, sof+5, 9000, 9000, 2), "broken JPEG: 9000×9000 pixels cannot be in"},
	} {
		e := Example{Name: "n", Index: 7, Encoded: c.file}
		err := e.Decode()
		t.Run(name, func(t *testing.T) { testerr.OneLine(t, err, "n: ", c.want) })
	}
}

// The pixels of a file come as they are stored, and with them how they are to be turned.
func TestDecodeKeepsTheOrientation(t *testing.T) {
	t.Parallel()
	file := imageCases(t)["jpeg-33x45-4:2:0"].file
	exif := "\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00" +
		"\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"
	plain, turned := Example{Encoded: file}, Example{Encoded: slices.Insert(bytes.Clone(file), 2, []byte(exif)...)}
	for e, want := range map[*Example]uint8{&plain: 0, &turned: 6} {
		if err := e.Decode(); err != nil {
			t.Fatal(err)
		}
		if got := e.Inputs[0].Orientation; got != want {
			t.Errorf("orientation %d, want %d", got, want)
		}
		e.Inputs[0].Orientation = 0
	}
	if !reflect.DeepEqual(plain.Inputs, turned.Inputs) {
		t.Error("the pixels are not those that are stored")
	}
}

// pngSized rewrites the size in a PNG's header chunk.
func pngSized(file []byte, w, h uint32) []byte {
	var buf bytes.Buffer
	buf.Write(file[:8])
	head := bytes.Clone(file[12:29]) // type and content of IHDR
	for i := range 4 {
		head[4+i], head[8+i] = byte(w>>(24-8*i)), byte(h>>(24-8*i))
	}
	buf.Write(file[8:12])
	buf.Write(head)
	sum := crc32.ChecksumIEEE(head)
	buf.Write([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	buf.Write(file[33:])
	return buf.Bytes()
}

// Any file is decoded or refused.
func FuzzDecode(f *testing.F) {
	for _, c := range imageCases(f) {
		f.Add(c.file)
	}
	var odd bytes.Buffer
	if err := jpeg.Encode(&odd, image.NewYCbCr(image.Rect(0, 0, 3, 3), image.YCbCrSubsampleRatio410), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(odd.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		e := Example{Name: "x", Encoded: b}
		if err := e.Decode(); err != nil {
			if _, ok := err.(*RecordError); !ok {
				t.Fatalf("%T", err)
			}
			return
		}
		if b == nil {
			return
		}
		s := e.Inputs[0].Shape
		if n := len(e.Inputs[0].Data.([]uint8)); n == 0 || n != s[0]*s[1]*s[2] || s[2] != 1 && s[2] != 3 {
			t.Fatalf("%d bytes of shape %v", n, s)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	var buf bytes.Buffer
	m := image.NewYCbCr(image.Rect(0, 0, 500, 375), image.YCbCrSubsampleRatio420)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range m.Y {
		m.Y[i] = uint8(i%251 + random.IntN(5))
	}
	if err := jpeg.Encode(&buf, m, &jpeg.Options{Quality: 90}); err != nil {
		b.Fatal(err)
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			e := Example{Encoded: buf.Bytes()}
			if err := e.Decode(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("image/jpeg alone", func(b *testing.B) {
		for b.Loop() {
			if _, err := jpeg.Decode(bytes.NewReader(buf.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
}
