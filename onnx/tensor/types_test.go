package tensor

import (
	"encoding/binary"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// A row of the table does not contradict itself, and no two rows share a name.
func TestTypesAgreeWithThemselves(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for i, e := range types {
		typ := Type(i)
		for kind, name := range map[string]string{"name": e.name, "numpy": e.numpy, "safetensors": e.safe, "triton": e.triton} {
			if name == "" {
				continue
			}
			if other := seen[kind+name]; other != "" {
				t.Errorf("%s and %s have the same %s %q", other, e.name, kind, name)
			}
			seen[kind+name] = e.name
		}
		var back Type
		if text, err := typ.MarshalText(); err != nil || back.UnmarshalText(text) != nil || back != typ {
			t.Errorf("%s comes back as %s", typ, back)
		}
		if e.numpy != "" && (FromNumPy(e.numpy) != typ || strconv.FormatInt(e.bits/8, 10) != e.numpy[1:]) {
			t.Errorf("%s has %d bits and is %q for NumPy", typ, e.bits, e.numpy)
		}
		data, err := typ.Make(3)
		if (err == nil) != typ.Holds() {
			t.Errorf("%s: Holds is %t, Make says %v", typ, typ.Holds(), err)
		}
		if err != nil {
			continue
		}
		if got := (Tensor{Data: data}); got.Type() != typ || got.Len() != 3 {
			t.Errorf("%s has slices of %s with %d elements", typ, got.Type(), got.Len())
		}
		elem := reflect.TypeOf(data).Elem()
		if e.bits != 0 && int64(elem.Size())*8 != e.bits {
			t.Errorf("%s has %d bits and slices of %s", typ, e.bits, elem)
		}
		if !typ.IsBits() && elem.Name() != e.name {
			t.Errorf("%s has slices of %s", typ, elem)
		}
	}
}

// A view has the elements of the bytes, and is refused where it would have others.
func TestViewsShareMemory(t *testing.T) {
	t.Parallel()
	for _, want := range []any{
		[]float32{1, -2.5}, []float64{1, -2.5}, []int8{1, -2}, []uint8{1, 200}, []int16{1, -2}, []uint16{1, 60000},
		[]int32{1, -2}, []uint32{1, 1 << 31}, []int64{1, -2}, []uint64{1, 1 << 63}, []bool{true, false},
		Float16Bits{1, 60000}, BFloat16Bits{1, 60000},
	} {
		typ := TypeOf(want)
		raw, err := binary.Append(make([]byte, 0, 32), binary.LittleEndian, want)
		if err != nil {
			t.Fatal(err)
		}
		got := typ.View(raw)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", typ, got, want)
		}
		if clear(raw); reflect.DeepEqual(got, want) {
			t.Errorf("%s: a copy", typ)
		}
		if size := len(raw) / 2; size > 1 && (typ.View(raw[:size+1]) != nil || typ.View(raw[1:size+1]) != nil) {
			t.Errorf("%s: a view of bytes of another length, or that are not aligned", typ)
		}
		if typ.View(raw[:0]) != nil {
			t.Errorf("%s: a view of nothing", typ)
		}
	}
	for _, typ := range []Type{String, Undefined, Complex64} {
		if got := typ.View(make([]byte, 64)); got != nil {
			t.Errorf("%s: %v", typ, got)
		}
	}
}

// Values are those that Go's own types give the same bytes, at both ends of every type.
func TestValuesOfBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		v    any
		want float64
	}{
		{float32(1.5), 1.5}, {float64(-2.25), -2.25}, {true, 1}, {false, 0},
		{int8(-128), -128}, {int8(127), 127}, {uint8(255), 255},
		{int16(-32768), -32768}, {int16(32767), 32767}, {uint16(65535), 65535},
		{int32(math.MinInt32), math.MinInt32}, {int32(math.MaxInt32), math.MaxInt32},
		{uint32(math.MaxUint32), math.MaxUint32},
		{int64(math.MinInt64), math.MinInt64}, {int64(1 << 53), 1 << 53}, {uint64(1 << 63), 1 << 63},
	} {
		slice := reflect.MakeSlice(reflect.SliceOf(reflect.TypeOf(tt.v)), 1, 1)
		slice.Index(0).Set(reflect.ValueOf(tt.v))
		typ := TypeOf(slice.Interface())
		b, err := binary.Append(nil, binary.LittleEndian, tt.v)
		if err != nil {
			t.Fatal(err)
		}
		if got := typ.Value()(b); got != tt.want {
			t.Errorf("%s %v has the value %v", typ, tt.v, got)
		}
	}
}

// Rounding names the first finite number that is too large, and leaves what was infinite.
func TestRoundReportsOverflow(t *testing.T) {
	t.Parallel()
	inf := float32(math.Inf(1))
	for _, tt := range []struct {
		typ  Type
		src  []float32
		want int
	}{
		{Float16, []float32{1, inf, -inf, 65504}, -1},
		{Float16, []float32{1, inf, -65520, 1e9}, 2},
		{BFloat16, []float32{1, inf, 1e38}, -1},
		{BFloat16, []float32{math.MaxFloat32}, 0},
	} {
		dst, err := tt.typ.Make(len(tt.src))
		if err != nil {
			t.Fatal(err)
		}
		if got := tt.typ.Round(dst, tt.src); got != tt.want {
			t.Errorf("%s %v: overflow at %d, want %d", tt.typ, tt.src, got, tt.want)
		}
	}
}

func TestSliceAndPad(t *testing.T) {
	t.Parallel()
	a := Tensor{Name: "a", Shape: []int64{3, 2}, Data: []int32{1, 2, 3, 4, 5, 6}}
	if got, want := a.Slice(1, 3), (Tensor{"a", []int64{2, 2}, []int32{3, 4, 5, 6}}); !reflect.DeepEqual(got, want) {
		t.Errorf("rows 1 and 2 are %v, want %v", got, want)
	}
	if got, want := a.Slice(1, 2).Pad(3), (Tensor{"a", []int64{3, 2}, []int32{3, 4, 3, 4, 3, 4}}); !reflect.DeepEqual(got,
		want) {
		t.Errorf("padded to 3 rows it is %v, want %v", got, want)
	}
}

func TestElements(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		shape []int64
		want  int64
		err   string
	}{
		{nil, 1, ""},
		{[]int64{2, 3}, 6, ""},
		{[]int64{1 << 62, 0}, 0, ""},
		{[]int64{-1, 0}, 0, "negative dimension in shape [N,0]"},
		{[]int64{1 << 40, 1 << 40}, 0, "has too many elements"},
	} {
		n, err := Elements(tt.shape)
		if n != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v has %d elements, error %v", tt.shape, n, err)
		}
	}
}
