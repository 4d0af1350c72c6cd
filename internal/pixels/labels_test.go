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

// labelsPNG is a PNG file with one row of samples that are packed already.
func labelsPNG(t testing.TB, width int, depth, colours byte, row []byte) []byte {
	t.Helper()
	file := bytes.NewBufferString("\x89PNG\r\n\x1a\n")
	chunk := func(name string, data []byte) {
		data = append([]byte(name), data...)
		_ = binary.Write(file, binary.BigEndian, uint32(len(data)-4))
		file.Write(data)
		_ = binary.Write(file, binary.BigEndian, crc32.ChecksumIEEE(data))
	}
	header := binary.BigEndian.AppendUint32(nil, uint32(width))
	chunk("IHDR", append(binary.BigEndian.AppendUint32(header, 1), depth, colours, 0, 0, 0))
	if colours == 3 {
		chunk("PLTE", make([]byte, 3<<depth))
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write(append([]byte{0}, row...))
	_ = z.Close()
	chunk("IDAT", packed.Bytes())
	chunk("IEND", nil)
	return file.Bytes()
}

// Numbers are those that are stored, whatever the depth.
func TestLabelsAreTheStoredNumbers(t *testing.T) {
	for name, test := range map[string]struct {
		file []byte
		want []int32
	}{
		"1 bit":     {labelsPNG(t, 4, 1, 0, []byte{0b0101 << 4}), []int32{0, 1, 0, 1}},
		"2 bits":    {labelsPNG(t, 4, 2, 0, []byte{0b00011011}), []int32{0, 1, 2, 3}},
		"4 bits":    {labelsPNG(t, 2, 4, 0, []byte{0x7f}), []int32{7, 15}},
		"8 bits":    {labelsPNG(t, 3, 8, 0, []byte{0, 18, 255}), []int32{0, 18, 255}},
		"16 bits":   {labelsPNG(t, 3, 16, 0, []byte{0, 5, 1, 44, 255, 255}), []int32{5, 300, -1}},
		"palette":   {labelsPNG(t, 3, 8, 3, []byte{0, 20, 255}), []int32{0, 20, 255}},
		"palette 2": {labelsPNG(t, 4, 2, 3, []byte{0b11000110}), []int32{3, 0, 1, 2}},
	} {
		l, err := DecodeLabels(test.file)
		if err != nil || l.Height != 1 || l.Width != len(test.want) || !slices.Equal(l.Data, test.want) {
			t.Errorf("%s: %v, %v; want %v", name, l, err, test.want)
		}
	}
}

// What are no numbers of classes is refused, and so is a header that claims too much.
func TestOtherLabelMapsAreRefused(t *testing.T) {
	encode := func(m image.Image) []byte {
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	colours := image.NewRGBA(image.Rect(0, 0, 2, 2))
	colours.Set(0, 0, color.RGBA{R: 9, A: 255})
	bomb := labelsPNG(t, 1, 8, 0, []byte{0})
	copy(bomb[16:], []byte{0, 0, 0x20, 0, 0, 0, 0x20, 0}) // 8192×8192
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	for want, file := range map[string][]byte{
		"not a PNG file":       []byte("\xff\xd8\xff\xe0"),
		"its pixels are colou": encode(colours),
		"cannot be in":         bomb,
		"broken PNG":           encode(image.NewGray(image.Rect(0, 0, 9, 9)))[:50],
	} {
		if _, err := DecodeLabels(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func FuzzLabels(f *testing.F) {
	f.Add(labelsPNG(f, 4, 1, 0, []byte{0b0101 << 4}))
	f.Add(labelsPNG(f, 3, 16, 0, []byte{0, 5, 1, 44, 255, 255}))
	f.Add(labelsPNG(f, 3, 8, 3, []byte{0, 20, 255}))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeLabels(b)
		if err == nil && (len(l.Data) != l.Height*l.Width || len(l.Data) == 0) {
			t.Fatalf("%d numbers for %d×%d", len(l.Data), l.Height, l.Width)
		}
	})
}
