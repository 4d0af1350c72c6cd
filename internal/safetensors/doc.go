// Package safetensors reads and writes the safetensors format of Hugging Face
// (https://huggingface.co/docs/safetensors): named arrays of numbers in one file, nothing in it
// executable, and each array can be read without the others.
//
// # The file
//
//	bytes        content
//	0 … 7        n, the length of the header, unsigned little-endian
//	8 … 8+n−1    the header: one JSON object in UTF-8 that begins with '{',
//	             padded with spaces at its end
//	8+n … end    the data: row-major, little-endian, no gaps
//
// The header maps each name to {"dtype": "F64", "shape": [3, 4], "data_offsets": [begin, end]}, offsets counted
// from the start of the data, end exclusive. The name "__metadata__" is reserved for an object of strings.
//
// # What is refused
//
// The header is checked against the size of the file before anything is allocated for a tensor. Each violation
// has its own error, a variable below to compare with [errors.Is]: a header longer than [MaxHeader], duplicate
// names, unknown dtypes and fields, shapes whose size overflows, offsets that differ from shape × dtype, and
// tensors that do not cover the data exactly, from the first byte to the last, without holes or overlaps. This
// is as strict as the reference implementation, and stricter in that it refuses duplicate names (of which
// readers may see different tensors) and unknown fields. Its dtypes of less than a byte, complex numbers and
// float8 are not supported.
//
// # What is written
//
// The same tensors and metadata give the same bytes. The header is padded so that the data starts
// at a multiple of 8. [Encode] orders the tensors as the reference implementation does, by descending
// dtype (U64, I64, F64, F32, U32, I32, BF16, F16, U16, I16, I8, U8, BOOL), then by name, which
// keeps every tensor aligned to its own width, and its files are byte for byte those of its version
// 0.8. [EncodeSealed] keeps the order of its arguments, and adds a checksum as one more tensor.
// Numbers are stored as they are, including NaN and infinities.
package safetensors
