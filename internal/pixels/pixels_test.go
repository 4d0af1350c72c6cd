package pixels

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"testing"
)

// pngOf is a PNG file of 8-bit samples of a colour type, in rows that begin with their filter.
func pngOf(t testing.TB, w, h uint32, colourType byte, rows []byte, more ...[]byte) []byte {
	t.Helper()
	chunk := func(name string, data []byte) []byte {
		b := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), name...)
		b = append(b, data...)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	return slices.Concat([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", append(header, 8, colourType, 0, 0, 0)),
		slices.Concat(more...), chunk("IDAT", packed.Bytes()), chunk("IEND", nil))
}

// Grey stays one channel, with transparency too, and all else is three.
func TestGreyIsOneChannel(t *testing.T) {
	const grey, rgb, greyAlpha, rgbAlpha = 0, 2, 4, 6
	for name, tc := range map[string]struct {
		colourType byte
		rows       []byte
		want       []uint8
		channels   int
	}{
		"grey":           {grey, []byte{0, 7, 8}, []uint8{7, 8}, 1},
		"grey and alpha": {greyAlpha, []byte{0, 7, 0, 8, 255}, []uint8{7, 8}, 1},
		"RGB":            {rgb, []byte{0, 1, 2, 3, 4, 5, 6}, []uint8{1, 2, 3, 4, 5, 6}, 3},
		"RGB and alpha":  {rgbAlpha, []byte{0, 1, 2, 3, 0, 4, 5, 6, 9}, []uint8{1, 2, 3, 4, 5, 6}, 3},
	} {
		p, err := Decode(pngOf(t, 2, 1, tc.colourType, tc.rows))
		if err != nil || p.Channels != tc.channels || !slices.Equal(p.Data, tc.want) || p.Width != 2 || p.Height != 1 {
			t.Errorf("%s: %+v, %v, want %v", name, p, err, tc.want)
		}
	}
}

// Sizes are refused by the header alone, from the first that is too large on.
func TestSizesAreBoundedByTheHeader(t *testing.T) {
	for size, want := range map[[2]uint32]string{
		{10_000, 10_000}: "10000×10000 pixels cannot be in",
		{10_001, 10_000}: "10001×10000 pixels are more than the 100000000 allowed",
		{10_000, 10_001}: "more than the",
		{1, 100_000_001}: "more than the",
		{1, 100_000_000}: "cannot be in",
		{1 << 30, 1}:     "more than the",
	} {
		if _, err := Decode(pngOf(t, size[0], size[1], 0, nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: error %v, want %q", size, err, want)
		}
	}
}

// Images in memory give their colours without the effect of alpha, or are refused.
func TestOfTakesColoursWithoutAlpha(t *testing.T) {
	rect := image.Rect(0, 0, 2, 2)
	translucent, opaque, short := image.NewRGBA(rect), image.NewRGBA(rect), image.NewRGBA(rect)
	for i := range 4 {
		translucent.SetRGBA(i%2, i/2, color.RGBA{R: 51, G: 102, B: 0, A: 102}) // 51/102 of 255
		opaque.SetRGBA(i%2, i/2, color.RGBA{R: 51, G: 102, B: 0, A: 255})
	}
	short.Pix = short.Pix[:len(short.Pix)-1]
	// The last row of a part of an image may end before the stride does.
	part := opaque.SubImage(image.Rect(0, 0, 1, 2)).(*image.RGBA)
	part.Pix = part.Pix[:part.Stride+4]
	var none *image.RGBA
	for name, tc := range map[string]struct {
		img   image.Image
		pixel []uint8 // of all; nil where it is refused
		n     int
	}{
		"translucent":      {translucent, []uint8{127, 255, 0}, 4},
		"opaque":           {opaque, []uint8{51, 102, 0}, 4},
		"a part":           {part, []uint8{51, 102, 0}, 2},
		"too few bytes":    {short, nil, 0},
		"nil":              {nil, nil, 0},
		"a pointer to nil": {none, nil, 0},
		"empty":            {image.NewRGBA(image.Rect(3, 3, 3, 9)), nil, 0},
		"too many pixels":  {image.NewUniform(color.White), nil, 0},
	} {
		p, err := Of(tc.img)
		if tc.pixel == nil {
			if err == nil {
				t.Errorf("%s: %+v", name, p)
			}
			continue
		}
		if err != nil || !slices.Equal(p.Data, slices.Repeat(tc.pixel, tc.n)) {
			t.Errorf("%s: %+v, %v, want %v", name, p, err, tc.pixel)
		}
	}
}

// An index beyond the palette is black, and a colour that is transparent is itself.
func TestPalettesAreLookedUp(t *testing.T) {
	m := image.NewPaletted(image.Rect(0, 0, 3, 1),
		color.Palette{color.NRGBA{9, 8, 7, 255}, color.NRGBA{200, 100, 50, 0}})
	m.Pix = []uint8{1, 0, 1}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	want := []uint8{200, 100, 50, 9, 8, 7, 200, 100, 50}
	if p, err := Decode(b.Bytes()); err != nil || !slices.Equal(p.Data, want) {
		t.Errorf("%+v, %v, want %v", p, err, want)
	}
	m.Pix[0] = 77
	if p := toRGB(m); !slices.Equal(p.Data[:3], []uint8{0, 0, 0}) {
		t.Errorf("beyond the palette: %v", p.Data[:3])
	}
}
