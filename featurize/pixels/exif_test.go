package pixels

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"testing"
)

// tiff is a TIFF structure with one directory: a tag before, and the orientation.
func tiff(order binary.AppendByteOrder, o uint16) []byte {
	b := []byte("II*\x00")
	if order == binary.BigEndian {
		b = []byte("MM\x00*")
	}
	b = order.AppendUint32(b, 8)
	b = order.AppendUint16(b, 2)
	for _, tag := range [][2]uint16{{256, 77}, {274, o}} {
		b = order.AppendUint16(b, tag[0])
		b = order.AppendUint16(b, 3)
		b = order.AppendUint32(b, 1)
		b = order.AppendUint16(b, tag[1])
		b = order.AppendUint16(b, 0)
	}
	return order.AppendUint32(b, 0)
}

func encoded(t testing.TB, encode func(b *bytes.Buffer, m image.Image) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b, image.NewGray(image.Rect(0, 0, 4, 3))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// asJPEG puts a TIFF structure behind another segment of a JPEG file.
func asJPEG(t testing.TB, exif []byte) []byte {
	b := encoded(t, func(b *bytes.Buffer, m image.Image) error { return jpeg.Encode(b, m, nil) })
	segment := func(marker byte, data string) []byte {
		return append([]byte{0xff, marker, byte((len(data) + 2) >> 8), byte(len(data) + 2)}, data...)
	}
	return bytes.Join([][]byte{b[:2], segment(0xe1, "http://ns.adobe.com/xap/1.0/\x00"), {0xff},
		segment(0xe1, "Exif\x00\x00"+string(exif)), b[2:]}, nil)
}

// asPNG puts one into a chunk eXIf of a PNG file.
func asPNG(t testing.TB, exif []byte) []byte {
	b := encoded(t, func(b *bytes.Buffer, m image.Image) error { return png.Encode(b, m) })
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(exif)))
	chunk = append(append(chunk, "eXIf"...), exif...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	return bytes.Join([][]byte{b[:33], chunk, b[33:]}, nil)
}

func TestOrientationIsFound(t *testing.T) {
	for o := range uint16(10) {
		want := uint8(o)
		if o > 8 {
			want = 0
		}
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			for kind, file := range map[string][]byte{"JPEG": asJPEG(t, tiff(order, o)), "PNG": asPNG(t, tiff(order, o))} {
				p, err := Decode(file)
				if err != nil {
					t.Fatal(err)
				}
				if p.Orientation != want || p.Height != 3 || p.Width != 4 {
					t.Errorf("%s, %v: orientation %d of %d×%d, want %d of 3×4", kind, order, p.Orientation, p.Height, p.Width, want)
				}
			}
		}
	}
}

// What is cut off or lies about its size says nothing, and the image is there nevertheless.
func TestBrokenEXIFSaysNothing(t *testing.T) {
	whole := tiff(binary.LittleEndian, 6)
	for n := range len(whole) - 8 {
		if o := tiffOrientation(whole[:n]); o != 0 {
			t.Errorf("%d bytes: orientation %d", n, o)
		}
	}
	for _, at := range []uint32{7, 200, 1 << 31, 1<<32 - 1} {
		b := bytes.Clone(whole)
		binary.LittleEndian.PutUint32(b[4:], at)
		if o := tiffOrientation(b); o != 0 {
			t.Errorf("directory at %d: orientation %d", at, o)
		}
	}
}

func FuzzOrientation(f *testing.F) {
	f.Add(asJPEG(f, tiff(binary.BigEndian, 3)))
	f.Add(asPNG(f, tiff(binary.LittleEndian, 8)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o := orientation(b); o > 8 {
			t.Fatalf("orientation %d", o)
		}
	})
}
