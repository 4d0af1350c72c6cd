package featurize

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// array makes a NumPy array of any type.
func array(t testing.TB, descr string, data any, dims ...int) []byte {
	t.Helper()
	shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", ", "), "[]")
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }\n", descr, shape)
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	for _, part := range []any{uint16(len(header)), []byte(header), data} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// typed is example data of every element type: n rows of 2, and the same as each type's Go slice.
type typed struct {
	name, descr string
	npy         any                // as NumPy holds it
	tensor      func(from int) any // two elements as ONNX Runtime takes them
	json        func(i int) string // one element
}

func take[T any](v []T) func(int) any { return func(from int) any { return v[from : from+2] } }

func show[T any](v []T) func(int) string { return func(i int) string { return fmt.Sprint(v[i]) } }

func integers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](rng *rand.Rand, name, descr string,
	size, lowest int) typed {
	v := make([]T, size)
	for i := range v {
		v[i] = T(lowest + rng.IntN(9))
	}
	return typed{name, descr, v, take(v), show(v)}
}

func typesData(n int) []typed {
	rng := rand.New(rand.NewPCG(1, 8))
	f32, f64, truth := random(1, 2*n), make([]float64, 2*n), make([]bool, 2*n)
	half, brain := make(tensor.Float16Bits, 2*n), make(tensor.BFloat16Bits, 2*n)
	halves, brains := make([]float32, 2*n), make([]float32, 2*n)
	words, utf32 := make([]string, 2*n), make([][5]uint32, 2*n)
	for i := range f64 {
		f64[i] = rng.NormFloat64()
		truth[i] = rng.IntN(2) == 1
		halves[i], brains[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
		half[i], brain[i] = tensor.ToFloat16(float64(halves[i])), tensor.ToBFloat16(brains[i])
		words[i] = []string{"red", "green", "blå", "none"}[rng.IntN(4)]
		for j, r := range []rune(words[i]) {
			utf32[i][j] = uint32(r)
		}
	}
	return []typed{
		{"f32", "<f4", f32, take(f32), show(f32)}, {"f64", "<f8", f64, take(f64), show(f64)},
		{"f16", "<f2", []uint16(half), func(i int) any { return half[i : i+2] }, show(halves)},
		{"bf16", "<f4", brains, func(i int) any { return brain[i : i+2] }, show(brains)},
		integers[int8](rng, "i8", "|i1", 2*n, -4), integers[int16](rng, "i16", "<i2", 2*n, -4),
		integers[int32](rng, "i32", "<i4", 2*n, -4), integers[int64](rng, "i64", "<i8", 2*n, -4),
		integers[uint8](rng, "u8", "|u1", 2*n, 0), integers[uint16](rng, "u16", "<u2", 2*n, 0),
		integers[uint32](rng, "u32", "<u4", 2*n, 0), integers[uint64](rng, "u64", "<u8", 2*n, 0),
		{"bool", "|b1", truth, take(truth), show(truth)},
		{"s", "<U5", utf32, take(words), func(i int) string { return `"` + words[i] + `"` }},
	}
}

// Inputs of every element type, in one model.
func TestInputsOfEveryType(t *testing.T) {
	t.Parallel()
	data := typesData(n)
	want := uncut(t, "types", n, func(i int) (tensors []tensor.Tensor) {
		for _, d := range data {
			tensors = append(tensors, tensor.Tensor{Name: d.name, Shape: []int64{1, 2}, Data: d.tensor(2 * i)})
		}
		return tensors
	})
	var arrays []any
	var lines strings.Builder
	for _, d := range data {
		arrays = append(arrays, d.name, array(t, d.descr, d.npy, n, 2))
	}
	for i := range n {
		var members []string
		for _, d := range data {
			members = append(members, fmt.Sprintf("%q:[%s,%s]", d.name, d.json(2*i), d.json(2*i+1)))
		}
		lines.WriteString("{" + strings.Join(members, ",") + "}\n")
	}
	e := extractor(t, "types", Config{Batch: 7})
	for name, content := range map[string][]byte{"x.npz": npz(t, arrays...), "x.jsonl": []byte(lines.String())} {
		ds := openData(t, write(t, t.TempDir(), name, content), dataset.Options{Inputs: e.InputNames()})
		got, _ := stream(t, e, ds, StreamConfig{})
		same(t, &got.Batch, want)
	}
}

// Other types of arrays than the model's, where they hold the same values.
func TestArraysOfOtherTypesAreConverted(t *testing.T) {
	t.Parallel()
	data := typesData(n)
	want := uncut(t, "types", n, func(i int) (tensors []tensor.Tensor) {
		for _, d := range data {
			tensors = append(tensors, tensor.Tensor{Name: d.name, Shape: []int64{1, 2}, Data: d.tensor(2 * i)})
		}
		return tensors
	})
	e := extractor(t, "types", Config{})
	other := map[string]string{"i32": "<i8", "i64": "<i8", "u8": "<i8", "i8": "<i8", "i16": "<i8", "u16": "<i8", "u32": "<i8", "u64": "<i8"}
	var arrays []any
	for _, d := range data {
		descr, values := d.descr, d.npy
		switch v := d.npy.(type) {
		case []int8:
			values = widened(v)
		case []int16:
			values = widened(v)
		case []int32:
			values = widened(v)
		case []uint8:
			values = widened(v)
		case []uint16:
			if d.name == "u16" { // and not f16
				values = widened(v)
			}
		case []uint32:
			values = widened(v)
		case []uint64:
			values = widened(v)
		case []bool:
			ints := make([]int64, len(v))
			for i, b := range v {
				if b {
					ints[i] = 1
				}
			}
			descr, values = "<i8", ints
		case []float32:
			wide := make([]float64, len(v))
			for i, f := range v {
				wide[i] = float64(f)
			}
			descr, values = "<f8", wide
		}
		if o := other[d.name]; o != "" {
			descr = o
		}
		arrays = append(arrays, d.name, array(t, descr, values, n, 2))
	}
	ds := openData(t, write(t, t.TempDir(), "x.npz", npz(t, arrays...)), dataset.Options{Inputs: e.InputNames()})
	got, _ := stream(t, e, ds, StreamConfig{})
	same(t, &got.Batch, want)
}

func widened[T int8 | int16 | int32 | uint8 | uint16 | uint32 | uint64](v []T) []int64 {
	w := make([]int64, len(v))
	for i, x := range v {
		w[i] = int64(x)
	}
	return w
}

func TestValuesThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	good := map[string]string{}
	for _, d := range typesData(1) {
		good[d.name] = fmt.Sprintf("[%s,%s]", d.json(0), d.json(1))
	}
	line := func(name, value string) string {
		var members []string
		for k, v := range good {
			if k == name {
				v = value
			}
			members = append(members, fmt.Sprintf("%q:%s", k, v))
		}
		return "{" + strings.Join(members, ",") + "}\n"
	}
	e := extractor(t, "types", Config{})
	for _, tt := range []struct{ name, value, words string }{
		{"f16", "[1,66000]", "value 66000 is too large"},
		{"bf16", "[1,3.4e38]", "value 3.4e+38 is too large"},
		{"f32", "[1,1e39]", "value 1e+39 does not fit float32"},
		{"i8", "[1,128]", "value 128 does not fit int8"},
		{"u8", "[1,-1]", "value -1 does not fit uint8"},
		{"i32", "[1,0.5]", "real numbers"},
		{"i64", "[1,9223372036854775808]", "value 9223372036854775808 does not fit int64"},
		{"u64", "[1,-9]", "value -9 does not fit uint64"},
		{"bool", "[1,2]", "neither 0 nor 1"},
		{"bool", `["a","b"]`, "no conversion from []string"},
		{"s", "[1,2]", "it takes strings"},
		{"f64", `["a","b"]`, "no conversion from []string"},
	} {
		path := write(t, t.TempDir(), "x.jsonl", []byte(line("", "")+line(tt.name, tt.value)))
		stats, err := pass(t.Context(), e.Rows, openData(t, path, dataset.Options{Inputs: e.InputNames()}),
			StreamConfig{MaxBad: 1}, collect(&collected{}))
		if err != nil || len(stats.Bad) != 1 {
			t.Errorf("%s %s: %v, bad records %v", tt.name, tt.value, err, stats.Bad)
			continue
		}
		if bad := stats.Bad[0].Message; !strings.HasPrefix(bad, "x.jsonl[1]: ") || !strings.Contains(bad, tt.words) ||
			!strings.Contains(bad, " "+tt.name+" ") && !strings.Contains(bad, `"`+tt.name+`"`) {
			t.Errorf("%s %s: bad record %v, want %q", tt.name, tt.value, bad, tt.words)
		}
	}
	// The largest that do.
	path := write(t, t.TempDir(), "x.jsonl", []byte(line("f16", "[65504,-65519]")+line("bf16", "[3.38e38,NaN]")+line("f64", "[NaN,Infinity]")))
	if _, err := pass(t.Context(), e.Rows, openData(t, path, dataset.Options{Inputs: e.InputNames()}), StreamConfig{},
		collect(&collected{})); err != nil {
		t.Error(err)
	}
}

// Bytes go as they are into a network that brings its preprocessing along.
func TestPreprocessingInsideTheGraph(t *testing.T) {
	t.Parallel()
	want := uncut(t, "inside", n, func(i int) []tensor.Tensor {
		return []tensor.Tensor{{Name: "image", Shape: []int64{1, 8, 8, 3}, Data: pixels(i, 8, 8, 3)}}
	})
	e := extractor(t, "inside", Config{Batch: 7})
	if s := e.Preprocess(); s.Scale != 0 || s.Mean != nil || s.Layout != "NHWC" {
		t.Errorf("preprocessing %+v", s)
	}
	got, _ := stream(t, e, openData(t, photos(t, n, 8, 8, 3), dataset.Options{}), StreamConfig{})
	same(t, &got.Batch, want)
}

// Bytes beside other inputs are a mask here, not pixels by 255.
func TestBytesBesideOtherInputsAreNumbers(t *testing.T) {
	t.Parallel()
	ids, weight := make([]int64, n*5), make([]uint8, n*5)
	for i := range ids {
		ids[i], weight[i] = int64(i%20), uint8(i%7%2)
	}
	want := uncut(t, "tokens", n, func(i int) []tensor.Tensor {
		w := make([]float32, 5)
		for j := range w {
			w[j] = float32(weight[5*i+j])
		}
		return []tensor.Tensor{{Name: "ids", Shape: []int64{1, 5}, Data: ids[5*i : 5*i+5]},
			{Name: "weight", Shape: []int64{1, 5}, Data: w}}
	})
	file := npz(t, "ids", npy(ids, n, 5), "weight", npy(weight, n, 5))
	data := openData(t, write(t, t.TempDir(), "x.npz", file), dataset.Options{})
	got, _ := stream(t, extractor(t, "tokens", Config{}), data, StreamConfig{})
	same(t, &got.Batch, want)

	// If only ready arrays are known, the meaning of bytes is not.
	_, err := pass(t.Context(), extractor(t, "tokens", Config{ArraysOnly: true}).Rows, data, StreamConfig{},
		func(*rows.Batch) error { return nil })
	if !errors.Is(err, preprocess.ErrUnknown) {
		t.Errorf("error %v, want %v", err, preprocess.ErrUnknown)
	}
}

// The rows that fill up a fixed batch are valid inputs, and do not change the results.
func TestAFixedBatchIsFilledUpWithAnExample(t *testing.T) {
	t.Parallel()
	ids := make([]int64, n*3)
	for i := range ids {
		ids[i] = 100 + int64(i*i%20)
	}
	want := uncut(t, "from100", n, func(i int) []tensor.Tensor {
		return []tensor.Tensor{{Name: "ids", Shape: []int64{4, 3}, Data: slices.Repeat(ids[3*i:3*i+3], 4)}}
	})
	want.Features, want.Logits = everyFourth(want.Features, 6), everyFourth(want.Logits, 4)
	e := extractor(t, "from100", Config{})
	got, _ := stream(t, e, openData(t, write(t, t.TempDir(), "x.npy", npy(ids, n, 3)), dataset.Options{}), StreamConfig{})
	same(t, &got.Batch, want)
	rows, err := e.Run(t.Context(), []tensor.Tensor{{Shape: []int64{n, 3}, Data: ids}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, rows.Rows(), want)
}

// everyFourth takes one of each four rows.
func everyFourth(v []float32, each int) (one []float32) {
	for i := 0; i < len(v); i += 4 * each {
		one = append(one, v[i:i+each]...)
	}
	return one
}

func TestModelsWithoutABatchAxisOfThatName(t *testing.T) {
	t.Parallel()
	x := random(3, n*6)
	for name, shape := range map[string][]int64{"folded": {1, 6}, "anonymous": {1, 6}, "default": {1, 6}} {
		t.Run(name, func(t *testing.T) {
			want := uncut(t, name, n, func(i int) []tensor.Tensor {
				return []tensor.Tensor{{Name: "x", Shape: shape, Data: x[6*i : 6*i+6]}}
			})
			e := extractor(t, name, Config{})
			if names := e.InputNames(); !slices.Equal(names, []string{"x"}) {
				t.Errorf("inputs %q", names)
			}
			got, _ := stream(t, e, openData(t, write(t, t.TempDir(), "x.npy", npy(x, n, 6)), dataset.Options{}),
				StreamConfig{})
			same(t, &got.Batch, want)
			rows, err := e.Run(t.Context(), []tensor.Tensor{{Shape: []int64{n, 6}, Data: x}})
			if err != nil {
				t.Fatal(err)
			}
			same(t, rows.Rows(), want)
		})
	}
}

func TestInputsThatAreNoTensorsAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"list", "map"} {
		_, err := newExtractor(name, Config{})
		testerr.OneLine(t, err, `input "x" is a sequence, a map or optional`, "want a tensor")
	}
	_, err := newInput(onnx.ValueInfo{Name: "x", Type: tensor.Float32}, Config{}, true)
	testerr.OneLine(t, err, `input "x" has no declared shape`)
	_, err = newInput(onnx.ValueInfo{Name: "x", Type: tensor.Float32, Shape: []onnx.Dim{}}, Config{}, true)
	testerr.OneLine(t, err, "x [] float32", "no batch axis")
	_, err = newInput(onnx.ValueInfo{Name: "x", Type: tensor.Complex64, Shape: []onnx.Dim{{Value: -1}}}, Config{}, true)
	testerr.OneLine(t, err, `input "x"`, "complex64 are not supported")
}

// A data frame: columns of several types, each an input, [N,1] or [N].
func TestColumnsOfATable(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	var table, lines strings.Builder
	table.WriteString("id,s,size,label,age\n")
	type row struct {
		s    string
		size float32
		age  int64
	}
	var rows []row
	for i := range n {
		r := row{[]string{"red", "green", "blå", "none"}[rng.IntN(4)], float32(rng.NormFloat64()), rng.Int64N(5)}
		rows = append(rows, r)
		fmt.Fprintf(&table, "%d,%s,%v,%d,%d\n", i, r.s, r.size, i%4, r.age)
		fmt.Fprintf(&lines, `{"age":%d,"size":%v,"s":["%s"],"label":%d}`+"\n", r.age, r.size, r.s, i%4)
	}
	want := uncut(t, "columns", n, func(i int) []tensor.Tensor {
		r := rows[i]
		return []tensor.Tensor{
			{Name: "age", Shape: []int64{1, 1}, Data: []int64{r.age}},
			{Name: "size", Shape: []int64{1}, Data: []float32{r.size}},
			{Name: "s", Shape: []int64{1, 1}, Data: []string{r.s}},
		}
	})
	e := extractor(t, "columns", Config{Batch: 7})
	options := dataset.Options{Inputs: e.InputNames(), Widths: e.InputWidths(), Classes: 4}
	if !slices.Equal(options.Widths, []int{1, 1, 1}) {
		t.Errorf("widths %d", options.Widths)
	}
	for name, text := range map[string]string{"x.csv": table.String(), "x.jsonl": lines.String()} {
		got, _ := stream(t, e, openData(t, write(t, t.TempDir(), name, []byte(text)), options), StreamConfig{})
		same(t, &got.Batch, want)
		for i, l := range got.Labels {
			if l != i%4 {
				t.Fatalf("labels %d", got.Labels)
			}
		}
	}

	// Cells that suit no number are bad records, the first too.
	text := strings.ReplaceAll(table.String(), "\n0,", "\n0,x\n0,")
	text = strings.Replace(text, ",4\n", ",four\n", 1)
	first := strings.Index(text, "\n0,") + 1
	text = text[:first] + "9,red,large,1,3\n" + text[first:]
	got := &collected{}
	stats, err := pass(t.Context(), e.Rows, openData(t, write(t, t.TempDir(), "y.csv", []byte(text)), options),
		StreamConfig{MaxBad: 3}, collect(got))
	if err != nil || len(stats.Bad) != 3 || got.N != n-1 {
		t.Fatalf("%v, %d examples, bad records %v", err, got.N, stats.Bad)
	}
	for i, words := range []string{`y.csv[0]: column "size" is "large"; want a number`, "y.csv[1]: 2 cells; want 5", `column "age" is "four"; want a whole number`} {
		if !strings.Contains(stats.Bad[i].Message, words) {
			t.Errorf("bad record %v, want %q", stats.Bad[i], words)
		}
	}
}

// All columns but the label for the one input of a scikit-learn model.
func TestATableForTheOnlyInput(t *testing.T) {
	t.Parallel()
	x := random(3, n*6)
	want := uncut(t, "anonymous", n, func(i int) []tensor.Tensor {
		return []tensor.Tensor{{Name: "x", Shape: []int64{1, 6}, Data: x[6*i : 6*i+6]}}
	})
	table := "a,b,label,c,d,x,e\n"
	for i := range n {
		v := x[6*i:]
		table += fmt.Sprintf("%v,%v,%d,%v,%v,%v,%v\n", v[0], v[1], i%4, v[2], v[3], v[4], v[5])
	}
	e := extractor(t, "anonymous", Config{Batch: 7})
	path := write(t, t.TempDir(), "x.csv", []byte(table))
	ds := openData(t, path, dataset.Options{Inputs: e.InputNames(), Widths: e.InputWidths()})
	got, _ := stream(t, e, ds, StreamConfig{})
	same(t, &got.Batch, want)

	// A dataset that was opened without the widths gives its columns, and they
	// are held against the model here.
	wide := strings.ReplaceAll(strings.ReplaceAll(table, "label", "y"), ",x,", ",z,")
	_, err := pass(t.Context(), e.Rows,
		openData(t, write(t, t.TempDir(), "x.csv", []byte(wide)), dataset.Options{Inputs: e.InputNames()}), StreamConfig{},
		collect(&collected{}))
	testerr.OneLine(t, err, "x.csv[0]", "array [7]", "x [N,6] float32")
}
