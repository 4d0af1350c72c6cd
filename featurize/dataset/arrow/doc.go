// Package arrow reads datasets from Parquet files, and from Arrow's IPC files and streams. It
// registers itself with package dataset, as formats parquet and arrow, and brings large modules along:
// programs import it for that, as the command does.
//
//	import _ "github.com/mfgs/mfgs/featurize/dataset/arrow"
//
// # Columns
//
// What a column is to the model its name and type say, as in other formats:
//
//   - The label is in the column label or labels, else in the only one of Hugging Face's ClassLabel: a
//     class number or name or, for a multi-label head, a list of zeros and ones. Numbers of classes that
//     the file names are mapped by name to the model's; either all names must be the model's or none.
//   - Columns named like the model's inputs feed these: numbers, truth values or strings, one an
//     example, or lists of them, which may be nested. Lists of fixed sizes, arrow.fixed_shape_tensor and
//     Hugging Face's Array2D to Array5D have one shape; of other lists examples may differ in it.
//   - Else a model of one input is fed by a column of images, PNG or JPEG files as bytes or as a record
//     {bytes, path}, as Hugging Face has them; of several by that called image or img.
//   - Else by the only column that there is, or the only one of lists, whatever its name; else by all
//     columns of numbers, in the order of the file, as a table's.
//
// Other columns are passed over unread, and so is pandas' __index_level_0__. Precomputed features are
// lists in the columns features (or phi) and logits.
//
// A null is a bad record, which names the column, but for single real numbers, which are NaN: so
// pandas writes what is missing.
//
// # Parquet
//
// Row groups are read one after another, and of each the columns that are wanted, page by page: in
// memory is a page of each, and of long pages of images 1 MiB and one image. Row groups outside of a slice
// are not read. Encodings are all but for LZO and the LZ4 framing that the format has given up;
// encrypted files are refused.
//
// # Arrow
//
// Files (.arrow, Feather version 2) and streams (.arrows, or .arrow as Hugging Face saves them) are read
// by the same code, one record batch in memory after another; those outside of a slice are not read. A
// stream may come on standard input, as arrow:- or -. Bodies may be compressed, with LZ4 or Zstandard,
// and dictionaries replaced or grow. Lists are those by offsets or of fixed sizes. Numbers must be
// stored with the lowest byte first.
//
// # Bounds
//
// Nothing is believed that a file says of sizes. A footer, or the metadata of a message, has at most
// 64 MiB, 65,536 columns and a depth of 64, and lists in it no more elements than bytes; a page, or the
// body of a message, at most 1 GiB, and what it decompresses to also at most the larger of 64 MiB and
// 1,024 times what is compressed; an array of one example at most 67,108,864 elements, or 1,048,576
// strings.
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

// sniffIPC takes a file, and a stream, which begins with the length of its first message.
func sniffIPC(p *dataset.Peek) (bool, error) {
	if p.Gzip || len(p.Head) < 8 {
		return false, nil
	}
	n := binary.LittleEndian.Uint32(p.Head[4:])
	return bytes.HasPrefix(p.Head, fileMagic) ||
		binary.LittleEndian.Uint32(p.Head) == continuation && n > 0 && n <= maxMetadata, nil
}
