package pixels

import (
	"bytes"
	"encoding/binary"
)

// Upright returns the height and width of an image of h × w stored pixels after applying an EXIF orientation,
// and where its pixel (y,x) is stored. Orientations other than 2 to 8 change nothing.
func Upright(orientation uint8, h, w int) (uprightH, uprightW int, stored func(y, x int) (int, int)) {
	right, bottom := w-1, h-1
	switch orientation {
	case 2:
		return h, w, func(y, x int) (int, int) { return y, right - x }
	case 3:
		return h, w, func(y, x int) (int, int) { return bottom - y, right - x }
	case 4:
		return h, w, func(y, x int) (int, int) { return bottom - y, x }
	case 5:
		return w, h, func(y, x int) (int, int) { return x, y }
	case 6:
		return w, h, func(y, x int) (int, int) { return bottom - x, y }
	case 7:
		return w, h, func(y, x int) (int, int) { return bottom - x, right - y }
	case 8:
		return w, h, func(y, x int) (int, int) { return x, right - y }
	}
	return h, w, func(y, x int) (int, int) { return y, x }
}

// orientation returns the EXIF orientation of a JPEG or PNG file, from 1 to 8, or 0 for none. It reads the same
// EXIF as Pillow's getexif, and broken EXIF as far as Pillow does. It ignores orientations in XMP and in
// PNG's text chunks, which Pillow reads but image viewers ignore.
func orientation(b []byte) uint8 {
	if isPNG(b) {
		return tiffOrientation(pngEXIF(b))
	}
	return tiffOrientation(jpegEXIF(b))
}

// exifHeader precedes the TIFF structure in JPEG files and some PNG files.
var exifHeader = []byte("Exif\x00\x00")

// jpegEXIF returns the EXIF data in the APP1 segments before the first scan.
func jpegEXIF(b []byte) (exif []byte) {
	const app1, firstAlone, lastAlone, scan = 0xe1, 0xd0, 0xd9, 0xda // RST0 to EOI have no length
	for i := 2; i+4 <= len(b); {
		marker := b[i+1]
		switch {
		case b[i] != 0xff: // junk between segments
			i++
			continue
		case marker == 0xff: // fill byte
			i++
			continue
		case marker == 0, marker >= firstAlone && marker <= lastAlone:
			i += 2
			continue
		case marker == scan:
			return exif
		}
		n := int(binary.BigEndian.Uint16(b[i+2:]))
		if n < 2 || i+2+n > len(b) {
			return exif
		}
		if data, ok := bytes.CutPrefix(b[i+4:i+2+n], exifHeader); ok && marker == app1 {
			exif = append(exif, data...) // long data continue in the next segment
		}
		i += 2 + n
	}
	return exif
}

// pngEXIF returns the content of the last chunk eXIf before IEND.
func pngEXIF(b []byte) (exif []byte) {
	for i := 8; i+12 <= len(b); {
		n := int64(binary.BigEndian.Uint32(b[i:]))
		if int64(len(b)-i-12) < n {
			break
		}
		switch string(b[i+4 : i+8]) {
		case "eXIf":
			exif = b[i+8 : i+8+int(n)]
		case "IEND":
			return exif
		}
		i += 12 + int(n)
	}
	return exif
}

// tiffSize is the size of a value of each TIFF type in bytes.
var tiffSize = [...]uint64{1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}

// tiffOrientation reads tag 274 of the first directory of a TIFF structure. The tag's last entry counts; an
// entry whose value is beyond the end ends the directory.
func tiffOrientation(b []byte) uint8 {
	const orientation, entry = 274, 12
	for bytes.HasPrefix(b, exifHeader) {
		b = b[len(exifHeader):]
	}
	var order binary.ByteOrder
	switch {
	case len(b) < 8:
		return 0
	case bytes.HasPrefix(b, []byte("II*\x00")), bytes.HasPrefix(b, []byte("II\x00*")): // files with the version swapped exist
		order = binary.LittleEndian
	case bytes.HasPrefix(b, []byte("MM\x00*")), bytes.HasPrefix(b, []byte("MM*\x00")):
		order = binary.BigEndian
	default:
		return 0
	}
	at := uint64(order.Uint32(b[4:]))
	if at+2 > uint64(len(b)) {
		return 0
	}
	found := uint8(0)
	entries := b[at+2:]
	for range order.Uint16(b[at:]) {
		if len(entries) < entry {
			break
		}
		e := entries[:entry]
		entries = entries[entry:]
		kind := order.Uint16(e[2:])
		if int(kind) >= len(tiffSize) || tiffSize[kind] == 0 {
			continue
		}
		size, value := tiffSize[kind]*uint64(order.Uint32(e[4:])), e[8:]
		if size > 4 {
			offset := uint64(order.Uint32(value))
			if offset+size > uint64(len(b)) {
				break
			}
			value = b[offset:]
		}
		if order.Uint16(e) == orientation && size > 0 {
			found = orientationOf(order, kind, value)
		}
	}
	return found
}

// orientationOf returns the first of a tag's values, 0 if it is not an integer from 1 to 8.
func orientationOf(order binary.ByteOrder, kind uint16, value []byte) uint8 {
	const short, long, signedByte, signedShort, signedLong, directory, long8 = 3, 4, 6, 8, 9, 13, 16
	var v uint64
	switch kind {
	case signedByte:
		v = uint64(value[0])
	case short, signedShort:
		v = uint64(order.Uint16(value))
	case long, signedLong, directory:
		v = uint64(order.Uint32(value))
	case long8:
		v = order.Uint64(value)
	}
	if v > 8 {
		return 0
	}
	return uint8(v)
}
