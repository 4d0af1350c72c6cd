package dataset

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// npy makes a version 1 file.
func npy(descr, shape string, data []byte) []byte {
	return npyHeaded(fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape), data)
}

func npyHeaded(header string, data []byte) []byte {
	b := append([]byte(arrays.Magic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	return append(append(b, header...), data...)
}

// zipped makes a zip, its members in the order of their names.
func zipped(t testing.TB, members map[string][]byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(members[name])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestNumPyTypes(t *testing.T) {
	t.Parallel()
	var b Base
	z, err := openNPZFile(&b, "testdata/numpy.npz")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, order := range "<>|" {
		for _, c := range []struct {
			descr string
			want  any
		}{
			{"i2", up[int16]()}, {"i4", up[int32]()}, {"i8", up[int64]()}, {"u2", up[uint16]()}, {"u4", up[uint32]()}, {"u8", up[uint64]()},
			{"f2", up[float32]()}, {"f4", up[float32]()}, {"f8", up[float64]()}, {"i1", up[int8]()}, {"u1", up[uint8]()},
		} {
			if strings.HasSuffix(c.descr, "1") != (order == '|') {
				continue
			}
			checkRead(t, z, string(order)+c.descr, c.want)
		}
	}
	checkRead(t, z, "?", []bool{false, true, true, true, true, true, true, true, true, true, true, true})
	ignored := []Ignored{{"not an array of numbers", 3, "text"}, {"a single number, not one for each example", 1, "scalar"}}
	if !reflect.DeepEqual(z.ignored, ignored) {
		t.Errorf("ignored %+v", z.ignored)
	}
	if len(z.names) != 2+1+9*2+1 {
		t.Errorf("%d arrays: %q", len(z.names), z.names)
	}
}

// up is 0…11.
func up[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64]() []T {
	s := make([]T, 12)
	for i := range s {
		s[i] = T(i)
	}
	return s
}

func checkRead(t *testing.T, z *npzFile, name string, want any) {
	t.Helper()
	a := z.arrays[name]
	if a == nil {
		t.Errorf("no array %s", name)
		return
	}
	r, err := a.From(0)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	if got, err := r.Read(3); err != nil || !reflect.DeepEqual(got, want) || !slices.Equal(a.Shape, []int{4}) {
		t.Errorf("%s: %v, %v; want %v", name, got, err, want)
	}
}

// Bytes are an image where it is plain which axis is that of the channels.
func TestLayoutOfArrays(t *testing.T) {
	t.Parallel()
	bytes := arrays.Stored(tensor.Uint8, binary.LittleEndian)
	for _, test := range []struct {
		dtype arrays.Type
		shape []int
		want  tensor.Layout
	}{
		{bytes, []int{28, 28}, tensor.HW},
		{bytes, []int{28, 28, 1}, tensor.HWC},
		{bytes, []int{28, 28, 3}, tensor.HWC},
		{bytes, []int{1, 28, 28}, tensor.CHW},
		{bytes, []int{3, 28, 28}, tensor.CHW},
		{bytes, []int{3, 28, 3}, tensor.NoImage},
		{bytes, []int{1, 28, 3}, tensor.NoImage},
		{bytes, []int{3, 28, 1}, tensor.NoImage},
		{bytes, []int{2, 28, 28}, tensor.NoImage},
		{bytes, []int{28}, tensor.NoImage},
		{bytes, []int{2, 28, 28, 3}, tensor.NoImage},
		{arrays.Stored(tensor.Int8, binary.LittleEndian), []int{28, 28}, tensor.NoImage},
		{arrays.Stored(tensor.Float32, binary.LittleEndian), []int{3, 28, 28}, tensor.NoImage},
	} {
		if got := imageLayout(test.dtype, test.shape); got != test.want {
			t.Errorf("%s %v: layout %q, want %q", test.dtype, test.shape, got, test.want)
		}
	}
}

func TestInconsistentNPYFilesAreRefused(t *testing.T) {
	t.Parallel()
	good := npy("<f4", "(2, 2)", ramp(16))
	header := func(s string) []byte { return npyHeaded(s, ramp(16)) }
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"truncated", good[:len(good)-1], "truncated or corrupt: its header declares 2 examples of 8 bytes"},
		{"more than declared", append(slices.Clone(good), 0), "its header declares 16 bytes of data, the file holds 17"},
		{"truncated header", good[:30], "ends within its .npy header"},
		{"cut in the length", good[:9], "ends within its .npy header"},
		{"unknown version", append([]byte(arrays.Magic+"\x09\x00"), good[8:]...), ".npy version 9.0 is not known"},
		{"long header", append([]byte(arrays.Magic+"\x02\x00"), 255, 255, 255, 255), "a .npy header of 4294967295 bytes is too long"},
		{"huge", npy("<f4", "(1000000000000, 1000000)", nil), "truncated or corrupt"},
		{"overflow", npy("<f4", "(2, 4611686018427387904, 4)", nil), "impossible size"},
		{"dimension overflow", npy("<f4", "(99999999999999999999,)", nil), "dimension 99999999999999999999 is too large"},
		{"no examples", npy("<f4", "(0, 3)", nil), "holds no examples"},
		{"scalar", npy("<f4", "()", ramp(4)), "holds a single number"},
		{"objects", npy("|O", "(2,)", ramp(16)), `elements of type "|O" are not supported`},
		{"strings", npy("<U3", "(2,)", ramp(16)), `elements of type "<U3" are not supported`},
		{"complex", npy("<c8", "(2,)", ramp(16)), `elements of type "<c8" are not supported`},
		{"wide float", npy("<f16", "(1,)", ramp(16)), `elements of type "<f16" are not supported`},
		{"no byte order", npy("|f4", "(4,)", ramp(16)), `elements of type "|f4" are not supported`},
		{"structured", header("{'descr': [('x', '<f4'), ('y', '<i4', (2,))], 'fortran_order': False, 'shape': (1,)}"), "structured arrays are not supported"},
		{"fortran", header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2, 1)}"), "Fortran order; save numpy.ascontiguousarray"},
		{"missing key", header("{'descr': '<f4', 'shape': (2, 2)}"), `"fortran_order" is missing`},
		{"double key", header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}"), `"descr" appears twice`},
		{"unknown key", header("{'descr': '<f4', 'x': 1}"), `unknown key "x"`},
		{"code", header("__import__('os')"), "want {"},
		{"text after", header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)} x"), "text after the dict"},
		{"negative", header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 2)}"), "want a dimension"},
		{"many dimensions", npy("<f4", "("+strings.Repeat("1,", 40)+")", ramp(4)), "more than 32 dimensions"},
	} {
		path := write(t, t.TempDir(), "x.npy", c.content)
		t.Run(c.name, func(t *testing.T) { testerr.OneLine(t, readError("npy:"+path, Options{}), path+": ", c.want) })
	}
}

// A matrix in Fortran order, as pandas has it, is read row by row, from any row on.
func TestMatrixInFortranOrderIsRead(t *testing.T) {
	t.Parallel()
	const rows, columns = 5000, 300 // of more than one block
	data := make([]byte, 0, rows*columns)
	for j := range columns {
		for i := range rows {
			data = append(data, byte(i*7+j*13))
		}
	}
	path := write(t, t.TempDir(), "x.npy",
		npyHeaded(fmt.Sprintf("{'descr': '|u1', 'fortran_order': True, 'shape': (%d, %d)}", rows, columns), data))
	for _, first := range []int{0, 4321} {
		d, err := Open(t.Context(), fmt.Sprintf("%s[%d:]", path, first), Options{Unlabelled: true})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		n := first
		examples, _ := all(t, d)
		for _, e := range examples {
			for j, x := range e.Inputs[0].Data.([]uint8) {
				if want := byte(n*7 + j*13); x != want {
					t.Fatalf("row %d has %d in column %d, want %d", n, x, j, want)
				}
			}
			n++
		}
		if n != rows {
			t.Errorf("%d rows from %d on, want %d", n-first, first, rows-first)
		}
	}
}

// If only one axis is longer than 1, both orders are the same.
func TestFortranOrderOfAVectorIsRead(t *testing.T) {
	t.Parallel()
	path := write(t, t.TempDir(), "x.npy", npyHeaded("{'descr': '|u1', 'fortran_order': True, 'shape': (3, 1)}", ramp(3)))
	if err := readError(path, Options{}); err != nil {
		t.Error(err)
	}
}

func TestNPZNamesInputsAndLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x, y := npy("<f4", "(2, 2)", ramp(16)), npy("|u1", "(2,)", []byte{1, 0})
	for _, c := range []struct {
		name    string
		members map[string][]byte
		options Options
		inputs  []string
		labels  []int
		err     string
	}{
		{"one input", map[string][]byte{"x.npy": x, "labels.npy": y}, Options{}, []string{""}, []int{1, 0}, ""},
		{"one input, another name", map[string][]byte{"x.npy": x}, Options{Inputs: []string{"data"}}, []string{""}, []int{-1, -1}, ""},
		{"y", map[string][]byte{"x.npy": x, "y.npy": y}, Options{}, []string{""}, []int{1, 0}, ""},
		{"column of labels", map[string][]byte{"x.npy": x, "label.npy": npy("<f8", "(2, 1)", make([]byte, 16))}, Options{}, []string{""}, []int{0, 0}, ""},
		{"two inputs", map[string][]byte{"b.npy": x, "a.npy": y}, Options{}, []string{"a", "b"}, []int{-1, -1}, ""},
		{"two inputs of three", map[string][]byte{"b.npy": x, "a.npy": y, "c.npy": x}, Options{Inputs: []string{"c", "b"}}, []string{"c", "b"}, []int{-1, -1}, ""},
		{"one input of two", map[string][]byte{"b.npy": x, "a.npy": y}, Options{Inputs: []string{"b"}}, []string{""}, []int{-1, -1}, ""},
		{"unlabelled on request", map[string][]byte{"x.npy": x, "y.npy": npy("|u1", "(9,)", ramp(9))}, Options{Unlabelled: true}, []string{""}, []int{-1, -1}, ""},
		{"input missing", map[string][]byte{"b.npy": x, "a.npy": x}, Options{Inputs: []string{"c"}}, nil, nil, `no array named "c" for the model's input; there are a, b`},
		{"labels only", map[string][]byte{"y.npy": y}, Options{}, nil, nil, "no input arrays"},
		{"nothing", map[string][]byte{"readme.txt": y}, Options{}, nil, nil, "no input arrays"},
		{"objects only", map[string][]byte{"x.npy": npy("|O", "(2,)", ramp(16))}, Options{}, nil, nil, `"x" is not an array of numbers`},
		{"labels that are words", map[string][]byte{"x.npy": y, "labels.npy": npy("<U3", "(2,)", ramp(24))}, Options{}, nil, nil, "give the class names"},
		{"labels that are objects", map[string][]byte{"x.npy": y, "labels.npy": npy("|O", "(2,)", ramp(16))}, Options{}, nil, nil, "labels is not an array of numbers: labels are whole numbers from 0, or class names as NumPy's strings: labels.astype(str)"},
		{"two labels", map[string][]byte{"x.npy": x, "y.npy": y, "labels.npy": y}, Options{}, nil, nil, `both "labels" and "y" could be the labels`},
		{"one-hot labels", map[string][]byte{"x.npy": x, "y.npy": x}, Options{}, nil, nil, "want one label per example"},
		{"fractional label", map[string][]byte{"x.npy": x, "y.npy": npy("<f4", "(2,)", []byte{0, 0, 0, 0, 0, 0, 0, 0x3f})}, Options{}, nil, nil, "label 1 is not a whole number"},
		{"counts differ", map[string][]byte{"b.npy": x, "a.npy": npy("|u1", "(3,)", ramp(3))}, Options{}, nil, nil, `"a" has 3 examples, "b" has 2`},
		{"label count differs", map[string][]byte{"b.npy": x, "y.npy": npy("|u1", "(3,)", ramp(3))}, Options{}, nil, nil, "3 labels for 2 examples"},
		{"label out of range", map[string][]byte{"b.npy": x, "y.npy": npy("|i1", "(2,)", []byte{0, 255})}, Options{Classes: 3}, nil, nil, "x.npz[1]: label -1 is outside [0,3)"},
		{"negative label", map[string][]byte{"b.npy": x, "y.npy": npy("|i1", "(2,)", []byte{0, 255})}, Options{}, nil, nil, "x.npz[1]: label -1 is negative"},
		{"truncated array", map[string][]byte{"x.npy": x[:len(x)-1]}, Options{}, nil, nil, "x.npz: x: truncated or corrupt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, dir, "x.npz", zipped(t, c.members))
			if c.err != "" {
				testerr.OneLine(t, readError(path, c.options), "x.npz", c.err)
				return
			}
			d, err := Open(t.Context(), path, c.options)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			got, _ := all(t, d)
			for i, e := range got {
				var names []string
				for _, a := range e.Inputs {
					names = append(names, a.Name)
				}
				if !slices.Equal(names, c.inputs) || e.Label != c.labels[i] || d.HasLabels() != (e.Label >= 0) {
					t.Errorf("inputs %q, label %d; want %q, %d", names, e.Label, c.inputs, c.labels[i])
				}
			}
			if len(got) != 2 {
				t.Errorf("%d examples", len(got))
			}
		})
	}
}

// utf32 encodes words as NumPy does, 5 code points each.
func utf32(order binary.AppendByteOrder, words ...string) (b []byte) {
	for _, w := range words {
		runes := make([]rune, 5)
		copy(runes, []rune(w))
		for _, r := range runes {
			b = order.AppendUint32(b, uint32(r))
		}
	}
	return b
}

// Labels may be class names, in any of NumPy's ways to write strings, and are read as in a table.
func TestLabelsOfAnNPZMayBeClassNames(t *testing.T) {
	t.Parallel()
	x := npy("<f4", "(4,)", ramp(16))
	classes := []string{"blått", "red", "PDF_a"}
	words := []string{"red", "blått", "PDF_a", "red "}
	le := func(words ...string) []byte { return npy("<U5", "(4,)", utf32(binary.LittleEndian, words...)) }
	for _, c := range []struct {
		name    string
		arrays  map[string][]byte
		options Options
		want    []int
		err     string
	}{
		{"little-endian", map[string][]byte{"labels": le(words...)}, Options{LabelClasses: classes}, []int{1, 0, 2, 1}, ""},
		{"big-endian, a column, another name", map[string][]byte{"y": npy(">U5", "(4, 1)", utf32(binary.BigEndian, words...))}, Options{LabelClasses: classes},
			[]int{1, 0, 2, 1}, ""},
		{"bytes", map[string][]byte{"label": npy("|S6", "(4,)", []byte("red\x00\x00\x00blåttPDF_a\x00red \x00\x00"))}, Options{LabelClasses: classes}, []int{1, 0, 2, 1}, ""},
		{"numbers in words", map[string][]byte{"labels": le("2", "0", "red", "1.0")}, Options{LabelClasses: classes}, []int{2, 0, 1, 1}, ""},
		{"numbers in words, of classes without names", map[string][]byte{"labels": le("2", "0", "1", "1")}, Options{}, []int{2, 0, 1, 1}, ""},
		{"names that are numbers", map[string][]byte{"labels": le("7", "3", "3", "5")}, Options{LabelClasses: []string{"3", "5", "7"}}, []int{2, 0, 0, 1}, ""},
		{"numbers go before names", map[string][]byte{"labels": npy("|u1", "(4,)", []byte{2, 1, 0, 0}), "label": le(words...)}, Options{LabelClasses: classes},
			[]int{2, 1, 0, 0}, ""},
		{"stray", map[string][]byte{"labels": le("red", "cow", "", "9")}, Options{LabelClasses: classes, Classes: 3, IgnoreUnknownLabels: true},
			[]int{1, -1, -1, -1}, ""},
		{"not wanted", map[string][]byte{"labels": le("cow", "cow", "cow", "cow")}, Options{LabelClasses: classes, Unlabelled: true}, []int{-1, -1, -1, -1}, ""},

		{"unknown", map[string][]byte{"labels": le("red", "red", "cow", "red")}, Options{LabelClasses: classes}, nil, `labels: example 2: label "cow" is not one of the 3 class names (blått, red, PDF_a)`},
		{"almost known", map[string][]byte{"labels": le("red", "pdf-a", "red", "red")}, Options{LabelClasses: classes}, nil, `labels: example 1: label "pdf-a" is not one of the 3 class names: did you mean "PDF_a"?`},
		{"a number among names that are numbers", map[string][]byte{"labels": le("7", "0", "3", "3")}, Options{LabelClasses: []string{"3", "5", "7"}}, nil, `label "0" is not one of the 3 class names (3, 5, 7)`},
		{"out of range", map[string][]byte{"labels": le("red", "3", "red", "red")}, Options{LabelClasses: classes, Classes: 3}, nil, "x.npz[1]: label 3 is outside [0,3)"},
		{"targets", map[string][]byte{"labels": le(words...)}, Options{LabelClasses: classes, MultiLabel: true, Classes: 3}, nil, "labels: strings; want a 0 or 1 for each of the head's 3 labels"},
		{"two", map[string][]byte{"labels": le(words...), "y": le(words...)}, Options{LabelClasses: classes}, nil, `both "labels" and "y" could be the labels`},
		{"long", map[string][]byte{"labels": npy("<U1025", "(4,)", make([]byte, 4*4100))}, Options{LabelClasses: classes}, nil, "labels: class names of 4100 bytes, want at most 4096"},
		{"a name of two classes", map[string][]byte{"labels": le("b", "b", "b", "b")}, Options{LabelClasses: []string{"a", "b", "b"}}, nil, `the class name "b" is used for both 1 and 2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			members := map[string][]byte{"x.npy": x}
			features := map[string][]byte{"features.npy": npy("<f4", "(4, 1)", ramp(16)), "logits.npy": npy("<f4", "(4, 3)", make([]byte, 48))}
			for name, a := range c.arrays {
				members[name+".npy"], features[name+".npy"] = a, a
			}
			path := write(t, t.TempDir(), "x.npz", zipped(t, members))
			ready := write(t, t.TempDir(), "x.npz", zipped(t, features))
			if c.err != "" {
				testerr.OneLine(t, readError(path, c.options), "x.npz", c.err)
				if c.name != "out of range" { // which is worded without the array's name there
					testerr.OneLine(t, readFeaturesError(ready, c.options), "x.npz", c.err)
				}
				return
			}
			d, err := Open(t.Context(), path, c.options)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			examples, _ := all(t, d)
			var got []int
			for _, e := range examples {
				if len(e.Inputs) != 1 || e.Inputs[0].Name != "" {
					t.Errorf("inputs %+v, want only x", e.Inputs)
				}
				got = append(got, e.Label)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("labels %v, want %v", got, c.want)
			}
			f, err := OpenFeatures(ready, c.options)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for b, err := range f.Blocks(t.Context(), 9) {
				if err != nil || c.want[0] >= 0 && !slices.Equal(b.Labels, c.want) {
					t.Errorf("features have labels %v, %v; want %v", b.Labels, err, c.want)
				}
			}
		})
	}
}

// readFeaturesError returns the first error of a file of features.
func readFeaturesError(path string, o Options) error {
	f, err := OpenFeatures(path, o)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, err := range f.Blocks(context.Background(), 9) {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestStringsOfAnNPZAreInputsWhereTheyAreWanted(t *testing.T) {
	t.Parallel()
	words := []string{"red", "", "blått", "a\x00b"}
	x := npy("<f4", "(4,)", ramp(16))
	for descr, data := range map[string][]byte{
		"<U5": utf32(binary.LittleEndian, words...), ">U5": utf32(binary.BigEndian, words...), "|S6": []byte("red\x00\x00\x00\x00\x00\x00\x00\x00\x00blåtta\x00b\x00\x00\x00"),
	} {
		for shape, dims := range map[string][]int{"(4,)": {}, "(4, 1)": {1}} {
			path := write(t, t.TempDir(), "x.npz", zipped(t, map[string][]byte{"x.npy": x, "colour.npy": npy(descr, shape, data)}))
			d, err := Open(t.Context(), path, Options{Inputs: []string{"x", "colour"}})
			if err != nil {
				t.Fatal(err)
			}
			got, _ := all(t, d)
			for i, e := range got {
				if a := e.Inputs[1]; a.Name != "colour" || !slices.Equal(a.Shape, dims) ||
					!slices.Equal(a.Data.([]string), words[i:i+1]) {
					t.Errorf("%s %s: %+v, want %q", descr, shape, a, words[i])
				}
			}
			if len(got) != 4 || len(d.Ignored()) != 0 {
				t.Errorf("%d examples, ignored %v", len(got), d.Ignored())
			}
			d.Close()

			// Arrays of strings that are not inputs are ignored.
			d, err = Open(t.Context(), path, Options{Inputs: []string{"y"}})
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := all(t, d); len(got) != 4 || len(got[0].Inputs) != 1 || len(d.Ignored()) != 1 {
				t.Errorf("%d examples, ignored %v", len(got), d.Ignored())
			}
			d.Close()
		}
	}
	for descr, want := range map[string]string{
		"|U5": "not an array of numbers", "<U0": "not an array of numbers", "<S5": "not an array of numbers", "<Ux": "not an array of numbers",
		"<U99999999": "not an array of numbers", "<U16777215": "impossible size",
	} {
		path := write(t, t.TempDir(), "x.npz", zipped(t, map[string][]byte{"x.npy": npy(descr, "(4, 9)", ramp(80))}))
		testerr.OneLine(t, readError(path, Options{Inputs: []string{"x"}}), want)
	}
	path := write(t, t.TempDir(), "x.npz", zipped(t, map[string][]byte{"x.npy": npy("|S1", "(1, 1048577)", make([]byte, 1<<20+1))}))
	testerr.OneLine(t, readError(path, Options{Inputs: []string{"x"}}), "x: one example has 1048577 strings, want at most 1048576")
}

// A directory with larger sizes than the file is refused before memory is allocated; a flipped byte is detected by
// the checksum.
func TestInconsistentNPZFilesAreRefused(t *testing.T) {
	t.Parallel()
	good := zipped(t, map[string][]byte{"x.npy": npy("|u1", "(4000, 2)", ramp(8000))})
	entry := bytes.LastIndex(good, []byte("PK\x01\x02"))
	if entry < 0 {
		t.Fatal("no directory")
	}
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint32(huge[entry+24:], 1<<31)
	testerr.OneLine(t, readError(write(t, t.TempDir(), "x.npz", huge), Options{}), "x.npz: x: corrupt: 2147483648 bytes cannot come from")
	short := bytes.Clone(good)
	binary.LittleEndian.PutUint32(short[entry+24:], 1000)
	testerr.OneLine(t, readError(write(t, t.TempDir(), "x.npz", short), Options{}), "x.npz: x: truncated or corrupt")
	testerr.OneLine(t, readError(write(t, t.TempDir(), "x.npz", good[:len(good)/2]), Options{}), "broken .npz")
	crc := bytes.Clone(good)
	crc[entry+16] ^= 1
	testerr.OneLine(t, readError(write(t, t.TempDir(), "x.npz", crc), Options{}), "x.npz: x: after 4000 of 4000 examples", "checksum")
}

func FuzzNPY(f *testing.F) {
	f.Add(npy("<f4", "(2, 2)", ramp(16)))
	f.Add(npy(">i8", "(2,)", ramp(16)))
	f.Add(npyHeaded("{'descr': [('x', '<f4')], 'fortran_order': True, 'shape': (1, 2L,)}", ramp(8)))
	f.Add(npy("|b1", "(99999999, 99999999, 99999999)", ramp(16)))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := arrays.ReadNPY("x", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		if a.Bytes() >= int64(len(b)) {
			t.Fatalf("accepted %d bytes from %d", a.Bytes(), len(b))
		}
		checkArray(t, a, int64(len(b)))
	})
}

func FuzzNPZ(f *testing.F) {
	f.Add(zipped(f, map[string][]byte{"x.npy": npy("<f4", "(2, 2)", ramp(16)), "labels.npy": npy("|u1", "(2,)", ramp(2))}))
	f.Add(zipped(f, map[string][]byte{"a": nil, "b.npy": npy("|S1", "(2,)", ramp(2))}))
	f.Add(zipped(f, map[string][]byte{"text.npy": npy("<U2", "(2, 1)", ramp(16)), "x.npy": npy(">U1", "(1,)", ramp(4))}))
	if b, err := os.ReadFile(filepath.Join("testdata", "numpy.npz")); err != nil {
		f.Fatal(err)
	} else {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		z, err := readNPZ("x", bytes.NewReader(b), int64(len(b)), []string{"x", "b", "text"})
		if err != nil {
			return
		}
		for _, name := range z.names {
			checkArray(t, z.arrays[name], int64(len(b)))
		}
	})
}
