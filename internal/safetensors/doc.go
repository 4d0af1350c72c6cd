// Package safetensors reads and writes the safetensors format of Hugging Face
// (https://huggingface.co/docs/safetensors): named arrays of numbers in one file, nothing in it
// executable, every array to be found without reading the others.
//
// # The file
//
//	bytes        content
//	0 … 7        n, the length of the header, unsigned little-endian
//	8 … 8+n−1    the header: one JSON object in UTF-8 that begins with '{',
//	             padded behind with spaces
//	8+n … end    the data: row-major, little-endian, no gaps
//
// The header maps each name to {"dtype": "F64", "shape": [3, 4],
// "data_offsets": [begin, end]}, offsets counted from the start of the data,
// end exclusive. The name "__metadata__" is reserved for an object of strings.
//
// # What is refused
//
// A file is checked whole, and its sizes compared with what is really there, before anything is
// allocated for a tensor. Each lie has its own error, a variable below to compare with [errors.Is]:
// the header no longer than [MaxHeader], no name twice, no unknown dtype or field, no shape whose
// size overflows, offsets that equal shape × dtype, and tensors that cover the data exactly, from
// its first byte to the last, without hole or overlap. This is as strict as the reference
// implementation, and stricter where that passes over duplicate names (they hide one tensor from
// one reader and another from the next) and over unknown fields. Its dtypes of less than a byte,
// complex numbers and float8 are not known here.
//
// # What is written
//
// The same tensors and metadata give the same bytes. The header is padded so that the data starts
// at a multiple of 8. [Encode] orders the tensors as the reference implementation does, by falling
// dtype (U64, I64, F64, F32, U32, I32, BF16, F16, U16, I16, I8, U8, BOOL), then by name, which
// keeps every tensor aligned to its own width, and its files are byte for byte those of version 0.8
// of it. [EncodeSealed] keeps the order it is given, and adds a checksum as one more tensor.
// Numbers are stored as they are, NaN and infinities among them: what they mean is the caller's
// affair.
package safetensors
