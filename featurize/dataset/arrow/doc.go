// Package arrow reads datasets from Parquet files, and from Arrow's IPC files and streams. It registers the
// formats parquet and arrow with package dataset. It needs large modules, so only programs that want these
// formats, such as the command, import it:
//
//	import _ "github.com/mfgs/mfgs/featurize/dataset/arrow"
//
// # Columns
//
// As in other formats, names and types of columns decide how they are used:
//
//   - The label is in the column label or labels, else in the only column of Hugging Face's ClassLabel: a
//     class number or name or, for a multi-label head, a list of zeros and ones. If the file names its
//     classes, its numbers are mapped by name to the model's; all names must be the model's, or none.
//   - Columns named like the model's inputs feed these: numbers, booleans or strings, one per example, or
//     lists of them, which may be nested. Fixed-size lists, arrow.fixed_shape_tensor and Hugging Face's
//     Array2D to Array5D have one shape; other lists may have different shapes in different examples.
//   - Else a model with one input is fed by a column of images: PNG or JPEG files as bytes or, as in Hugging
//     Face's datasets, as records {bytes, path}; if there are several, by the one named image or img.
//   - Else by the only column, or the only one of lists, whatever its name; else by all columns of numbers,
//     in the order of the file, as in a table.
//
// Other columns, and pandas' __index_level_0__, are not read. Precomputed features are lists in the columns
// features (or phi) and logits.
//
// A null makes a bad record, whose error names the column, except for single floating-point numbers, where it
// is NaN: pandas writes missing values so.
//
// # Parquet
//
// Row groups are read one after another, and their used columns page by page: memory holds one page per
// column, or for long pages of images 1 MiB and one image. Row groups outside of a slice are not read. All
// encodings are supported except LZO and the deprecated LZ4 framing; encrypted files are refused.
//
// # Arrow
//
// Files (.arrow, Feather version 2) and streams (.arrows, or .arrow as Hugging Face saves them) are read by
// the same code, one record batch in memory at a time; batches outside of a slice are not read. Streams may
// come on standard input, as arrow:- or -. Bodies may be compressed with LZ4 or Zstandard; dictionaries may
// be replaced or extended. List views are not supported, nor are big-endian numbers.
//
// # Bounds
//
// Sizes in a file are not trusted. A footer, or the metadata of a message, has at most 64 MiB, 65,536 columns
// and a depth of 64, and its lists no more elements than bytes; a page, or the body of a message, at most
// 1 GiB, and decompresses to at most the larger of 64 MiB and 1,024 times its size; an array of one example
// at most 67,108,864 elements, or 1,048,576 strings.
package arrow

import (
	"bytes"
	"encoding/binary"

	"github.com/mfgs/mfgs/featurize/dataset"
)

func init() {
	dataset.Register(dataset.Format{Name: "arrow", Doc: "Arrow", Files: true, Sniff: sniffIPC, Open: openIPC,
		Stream: streamIPC})
	dataset.Register(dataset.Format{Name: "parquet", Doc: "Parquet", Files: true, Sniff: sniffParquet, Open: openParquet})
}

func sniffParquet(p *dataset.Peek) (bool, error) {
	return !p.Gzip && (bytes.HasPrefix(p.Head, parquetMagic) || bytes.HasPrefix(p.Head, encryptedMagic)), nil
}

// sniffIPC recognises a file by its magic, and a stream by the length of its first message.
func sniffIPC(p *dataset.Peek) (bool, error) {
	if p.Gzip || len(p.Head) < 8 {
		return false, nil
	}
	n := binary.LittleEndian.Uint32(p.Head[4:])
	return bytes.HasPrefix(p.Head, fileMagic) ||
		binary.LittleEndian.Uint32(p.Head) == continuation && n > 0 && n <= maxMetadata, nil
}
