package pixels

import (
	"bytes"
	"encoding/binary"
)

// orientation finds the EXIF orientation of a JPEG or PNG file, from 1 to 8, and 0 where there is
// none. What is broken says nothing.
func orientation(b []byte) uint8 {
	if isPNG(b) {
		return tiffOrientation(pngEXIF(b))
	}
	return tiffOrientation(jpegEXIF(b))
}

// jpegEXIF returns the TIFF structure of the first APP1 segment that holds one, nil where there is
// none.
func jpegEXIF(b []byte) []byte {
	for i := 2; i+4 <= len(b) && b[i] == 0xff; {
		marker, n := b[i+1], int(binary.BigEndian.Uint16(b[i+2:]))
		if marker == 0xff { // fill byte
			i++
			continue
		}
		if marker == 0xda || n < 2 || i+2+n > len(b) { // the image itself begins
			return nil
		}
		if tiff, ok := bytes.CutPrefix(b[i+4:i+2+n], []byte("Exif\x00\x00")); ok && marker == 0xe1 {
			return tiff
		}
		i += 2 + n
	}
	return nil
}

// pngEXIF returns the content of the chunk eXIf, nil where there is none.
func pngEXIF(b []byte) []byte {
	for i := 8; i+12 <= len(b); {
		n := int64(binary.BigEndian.Uint32(b[i:]))
		if int64(len(b)-i-12) < n {
			return nil
		}
		data := b[i+8 : i+8+int(n)]
		if string(b[i+4:i+8]) == "eXIf" {
			return bytes.TrimPrefix(data, []byte("Exif\x00\x00"))
		}
		i += 12 + int(n)
	}
	return nil
}

// tiffOrientation reads tag 274 of the first directory of a TIFF structure.
func tiffOrientation(b []byte) uint8 {
	const tag, short, entry = 274, 3, 12
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(b, []byte("II*\x00")):
		order = binary.LittleEndian
	case bytes.HasPrefix(b, []byte("MM\x00*")):
		order = binary.BigEndian
	default:
		return 0
	}
	if len(b) < 8 {
		return 0
	}
	at := int64(order.Uint32(b[4:]))
	if at+2 > int64(len(b)) {
		return 0
	}
	b = b[at:]
	n := int(order.Uint16(b))
	for b = b[2:]; n > 0 && len(b) >= entry; n, b = n-1, b[entry:] {
		if order.Uint16(b) == tag && order.Uint16(b[2:]) == short && order.Uint32(b[4:]) == 1 {
			if o := order.Uint16(b[8:]); o >= 1 && o <= 8 {
				return uint8(o)
			}
			return 0
		}
	}
	return 0
}
