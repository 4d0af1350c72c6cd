package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

// file puts the length before a header and n bytes of data after it.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func open(b []byte) (*File, error) {
	return NewFile(bytes.NewReader(b), int64(len(b)))
}

// invalid are files that are inconsistent in one respect each.
var invalid = []struct {
	name string
	file []byte
	err  error
	want string // in the message
}{
	{"no bytes", nil, ErrTruncated, "0 bytes"},
	{"half a length", []byte{2, 0, 0, 0}, ErrTruncated, "4 bytes"},
	{"header longer than allowed", binary.LittleEndian.AppendUint64(nil, MaxHeader+1), ErrHeaderSize, "16777217"},
	{"header of all bits", bytes.Repeat([]byte{0xff}, 100), ErrHeaderSize, "18446744073709551615"},
	{"header longer than the file", file(`{}`, 0)[:9], ErrTruncated, "header of 2 bytes in a file of 9"},
	{"no header", file("", 0), ErrHeader, "'{'"},
	{"header that begins with a space", file(` {}`, 0), ErrHeader, "'{'"},
	{"header that is a list", file(`[]`, 0), ErrHeader, "'{'"},
	{"header that ends early", file(`{"a":`, 0), ErrHeader, "EOF"},
	{"header with a trailing comma", file(`{"__metadata__":{},}`, 0), ErrHeader, ""},
	{"header without colon", file(`{"__metadata__" {}}`, 0), ErrHeader, ""},
	{"second object", file(`{}{}`, 0), ErrHeader, "follows the object"},
	{"padding that is not spaces", file("{}\n", 0), ErrHeader, "follows the object"},
	{"header that is not UTF-8", file("{\"\xff\":{}}", 0), ErrHeader, "UTF-8"},
	{"tensor that is null", file(`{"a":null}`, 0), ErrHeader, `want "{"`},
	{"tensor that is a list", file(`{"a":[]}`, 0), ErrHeader, `want "{"`},
	{"metadata that is null", file(`{"__metadata__":null}`, 0), ErrHeader, ""},
	{"metadata that is a number", file(`{"__metadata__":{"a":1}}`, 0), ErrHeader, "want a string"},
	{"metadata twice", file(`{"__metadata__":{},"__metadata__":{}}`, 0), ErrDuplicate, "__metadata__"},
	{"metadata key twice", file(`{"__metadata__":{"a":"","a":""}}`, 0), ErrDuplicate, `metadata "a"`},
	{"tensor twice", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), ErrDuplicate, `tensor "a"`},
	{"tensor twice by an escape", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), ErrDuplicate, `tensor "a"`},
	{"field twice", file(`{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), ErrDuplicate, `"dtype"`},
	{"unknown field", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}`, 1), ErrHeader, `"x" is unknown`},
	{"field of another case", file(`{"a":{"DType":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), ErrHeader, `"DType" is unknown`},
	{"no dtype", file(`{"a":{"shape":[1],"data_offsets":[0,1]}}`, 1), ErrHeader, `"dtype" is missing`},
	{"no shape", file(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1), ErrHeader, `"shape" is missing`},
	{"no offsets", file(`{"a":{"dtype":"U8","shape":[1]}}`, 1), ErrHeader, `"data_offsets" is missing`},
	{"unknown dtype", file(`{"a":{"dtype":"F7","shape":[1],"data_offsets":[0,1]}}`, 1), ErrDType, `"F7"`},
	{"dtype that is a number", file(`{"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}}`, 1), ErrHeader, "want a string"},
	{"negative dimension", file(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, 1), ErrShape, "-1"},
	{"fractional dimension", file(`{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}`, 1), ErrShape, "1.0"},
	{"dimension that is a string", file(`{"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}}`, 1), ErrHeader, "want a number"},
	{"dimension of 2^64", file(`{"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1]}}`, 1), ErrShape, "18446744073709551616"},
	{"product that wraps to 0", file(`{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), ErrShape, "overflows"},
	{"product that wraps with the dtype", file(`{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}`, 0), ErrShape, "overflows"},
	{"product that wraps beside a 0", file(`{"a":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}}`, 0), ErrShape, "overflows"},
	{"size larger than shape", file(`{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,9]}}`, 9), ErrSize, "takes 8 bytes"},
	{"size smaller than shape", file(`{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,7]}}`, 7), ErrSize, "takes 8 bytes"},
	{"end before begin", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}`, 1), ErrSize, "[1 0]"},
	{"one offset", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1]}}`, 1), ErrSize, "[1]"},
	{"three offsets", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}}`, 1), ErrSize, "[0 1 1]"},
	{"negative offset", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}}`, 1), ErrSize, "-1"},
	{"offsets near 2^63", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807]}}`, 1), ErrHole, "begins at byte 9223372036854775806"},
	{"hole at the start", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), ErrHole, "ends at 0"},
	{"hole in the middle", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3), ErrHole, `tensor "b"`},
	{"overlap", file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), ErrOverlap, `tensor "b"`},
	{"empty tensor inside another", file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}`, 2), ErrOverlap, `tensor "b"`},
	{"data longer than the file", file(`{"a":{"dtype":"U8","shape":[1000000000000],"data_offsets":[0,1000000000000]}}`, 3), ErrTruncated, "of 3"},
	{"data after the last tensor", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 2), ErrTrailing, "byte 1 of 2"},
	{"data without a tensor", file(`{}`, 1), ErrTrailing, "byte 0 of 1"},
}

func TestInconsistentFilesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range invalid {
		t.Run(c.name, func(t *testing.T) {
			f, err := open(c.file)
			if err == nil {
				t.Fatalf("accepted with %v", f.Tensors())
			}
			if !errors.Is(err, c.err) {
				t.Errorf("error %q is not %q", err, c.err)
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want a line with %q", err, c.want)
			}
		})
	}
}

// unusual are valid files of an unusual form.
var unusual = [][]byte{
	file(`{}`, 0),
	file("{ }   ", 0),
	file(`{"__metadata__":{}}`, 0),
	file(`{"a":{"data_offsets":[0,1],"shape":[],"dtype":"U8"}}`, 1),
	file(`{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 2),
	file(`{"":{"dtype":"U8","shape":[0,5],"data_offsets":[0,0]},"a":{"dtype":"F64","shape":[0],"data_offsets":[0,0]}}`, 0),
}

func TestUnusualFilesAreAccepted(t *testing.T) {
	t.Parallel()
	for _, b := range unusual {
		if _, err := open(b); err != nil {
			t.Errorf("%q: %v", b, err)
		}
	}
}

// A file that shrinks between the check and the reading is cut short too.
func TestAFileThatShrinks(t *testing.T) {
	t.Parallel()
	whole := file(`{"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}`, 16)
	f, err := NewFile(bytes.NewReader(whole[:len(whole)-1]), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read[float64](f, "a"); !errors.Is(err, ErrTruncated) {
		t.Errorf("error %v", err)
	}
}

// FuzzOpen holds that what is accepted covers its bytes, and comes back the
// same after it was written.
func FuzzOpen(f *testing.F) {
	for _, c := range invalid {
		f.Add(c.file)
	}
	for _, b := range unusual {
		f.Add(b)
	}
	golden, err := os.ReadFile(goldenPath)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := open(b)
		if err != nil {
			return
		}
		var tensors []Tensor
		sum := in.data
		for _, info := range in.Tensors() {
			sum += info.Bytes()
			s, err := in.Section(info.Name)
			if err != nil {
				t.Fatal(err)
			}
			data := make([]byte, s.Size())
			if _, err := s.ReadAt(data, 0); err != nil && len(data) > 0 {
				t.Fatal(err)
			}
			tensors = append(tensors, Tensor{info.Name, info.Shape, data, info.Type})
			Read[float64](in, info.Name)
			Read[float32](in, info.Name)
			Read[int64](in, info.Name)
		}
		if sum != int64(len(b)) {
			t.Fatalf("the tensors cover %d bytes of %d", sum, len(b))
		}

		var first, second bytes.Buffer
		if err := Encode(&first, tensors, in.Metadata()); err != nil {
			t.Fatal(err)
		}
		out, err := open(first.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(in.Metadata()) > 0 && !reflect.DeepEqual(in.Metadata(), out.Metadata()) {
			t.Fatalf("metadata %q came back as %q", in.Metadata(), out.Metadata())
		}
		if err := Encode(&second, tensors, out.Metadata()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatal("written twice, two files")
		}
		for _, want := range tensors {
			s, err := out.Section(want.Name)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, s.Size())
			if _, err := s.ReadAt(got, 0); err != nil && len(got) > 0 {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want.Data.([]byte)) {
				t.Fatalf("tensor %q came back as %q, was %q", want.Name, got, want.Data)
			}
		}
	})
}
