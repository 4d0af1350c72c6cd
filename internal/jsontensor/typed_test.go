package jsontensor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/onnx/tensor"
)

func readTyped(text string, t tensor.Type, shape ...int64) (any, error) {
	p := &Parser{Text: []byte(text), Strict: true}
	data, err := p.Typed(t, shape)
	if err == nil && (p.Peek() != 0 || p.Pos < len(p.Text)) {
		err = p.wrong("the end")
	}
	return data, err
}

func TestTypedReadsElements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		shape []int64
		data  any
	}{
		{" [ 1 , -2 ] ", []int64{2}, []float32{1, -2}},
		{"[[1,2],[3,4]]", []int64{2, 2}, []float32{1, 2, 3, 4}},
		{"[1,2,3,4]", []int64{2, 2}, []float32{1, 2, 3, 4}},
		{"[[[1],[2]]]", []int64{1, 2, 1}, []int8{1, 2}},
		{"[7]", nil, []uint8{7}},
		{"[]", []int64{0}, []uint8{}},
		{"[]", []int64{2, 0}, []uint8{}},
		{"[[],[]]", []int64{2, 0}, []uint8{}},
		{"[0,255]", []int64{2}, []uint8{0, 255}},
		{"[-128,127,-0]", []int64{3}, []int8{-128, 127, 0}},
		{"[-32768,32767]", []int64{2}, []int16{-32768, 32767}},
		{"[-2147483648,2147483647]", []int64{2}, []int32{math.MinInt32, math.MaxInt32}},
		{"[-9223372036854775808,9223372036854775807]", []int64{2}, []int64{math.MinInt64, math.MaxInt64}},
		{"[18446744073709551615,0]", []int64{2}, []uint64{math.MaxUint64, 0}},
		{"[4294967295]", []int64{1}, []uint32{math.MaxUint32}},
		{"[1.0,2e1,30e-1]", []int64{3}, []uint16{1, 20, 3}}, // its value counts, not its spelling
		{"[1e-46,3.4028234663852886e38,-0.0]", []int64{3}, []float32{0, math.MaxFloat32, float32(math.Copysign(0, -1))}},
		{"[1e-400,1.7976931348623157e308]", []int64{2}, []float64{0, math.MaxFloat64}},
		{"[NaN,Infinity, -Infinity]", []int64{3}, []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}},
		{"[[-Infinity],[NaN],[Infinity]]", []int64{3, 1}, []float64{math.Inf(-1), math.NaN(), math.Inf(1)}},
		{"[true,false]", []int64{2}, []bool{true, false}},
		{`["a","\u00e9\n",""]`, []int64{3}, []string{"a", "é\n", ""}},
		{`["\ud83d\ude00","\\ud83d","\ufffd"]`, []int64{3}, []string{"😀", `\ud83d`, "\ufffd"}},
	} {
		got, err := readTyped(c.text, tensor.TypeOf(c.data), c.shape...)
		if err != nil || fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", c.data, c.data) {
			t.Errorf("%s: %T %v, %v; want %v", c.text, got, got, err, c.data)
		}
	}
}

func TestTypedRefusesElementsOfOtherTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		t     tensor.Type
		shape []int64
		want  string
	}{
		{"[1,2]    ", tensor.Float32, []int64{3}, "a list has 2 elements, where the shape says 3"},
		{"[1,2,3,4]", tensor.Float32, []int64{3}, "more than the 3 elements"},
		{"[1]", tensor.Float32, []int64{0}, "more than the 0 elements"},
		{"[[1,2],[3]]", tensor.Float32, []int64{2, 2}, "a list has 1 elements, where the shape says 2"},
		{"[[1,2],[3,4],[5,6]]", tensor.Float32, []int64{2, 2}, "more than the 2 entries"},
		{"[[1,2]]   ", tensor.Float32, []int64{2, 2}, "a list has 1 entries, where the shape says 2"},
		{"[[1],[2]]", tensor.Float32, []int64{2}, "nested in other ways"},
		{"[1,[2]]", tensor.Float32, []int64{2}, "nested in other ways"},
		{"[[1,2],3 ,4]", tensor.Float32, []int64{2, 2}, "nested in other ways"},
		{"[[[1,2]],[[3,4]]]", tensor.Float32, []int64{2, 2}, "nested in other ways"},
		{"1    ", tensor.Float32, nil, "want a list"},
		{"null   ", tensor.Float32, []int64{1}, "want a list"},
		{"[1", tensor.Float32, []int64{1}, "ends within a value"},
		{"[1 2]", tensor.Float32, []int64{1}, "want a comma or ]"},
		{"[1 2]", tensor.Float32, []int64{2}, "want a comma or ]"},
		{"[1,]", tensor.Float32, []int64{2}, "element 1: broken JSON: want a number"},
		{"[01]", tensor.Float32, []int64{1}, "want a number"},
		{"[1.]", tensor.Float32, []int64{1}, "want a digit"},
		{"[1e]", tensor.Float32, []int64{1}, "want a digit"},
		{"[NaN]", tensor.Int32, []int64{1}, "want a number"},
		{"[-Infinity]", tensor.Int64, []int64{1}, "want a number"},
		{"[-NaN]", tensor.Float64, []int64{1}, "want a number"},
		{"[1.NaN]", tensor.Float32, []int64{1}, "want a digit"},
		{"[null]", tensor.Float32, []int64{1}, "want a number"},
		{"[null]", tensor.Float64, []int64{1}, "want a number"},
		{"[true]", tensor.Float64, []int64{1}, "want a number"},
		{"[0,1e39]", tensor.Float32, []int64{2}, "element 1: 1e39 is too large for float32"},
		{"[3.5e38]", tensor.Float32, []int64{1}, "too large for float32"},
		{"[1e309]", tensor.Float64, []int64{1}, "too large for float64"},
		{"[1e99999999999]", tensor.Float64, []int64{1}, "too large for float64"},
		{"[256]", tensor.Uint8, []int64{1}, "256 is no whole number that fits uint8"},
		{"[-1]", tensor.Uint8, []int64{1}, "fits uint8"},
		{"[-1]", tensor.Uint64, []int64{1}, "fits uint64"},
		{"[128]", tensor.Int8, []int64{1}, "fits int8"},
		{"[-129]", tensor.Int8, []int64{1}, "fits int8"},
		{"[255]", tensor.Int8, []int64{1}, "fits int8"},
		{"[-255]", tensor.Int8, []int64{1}, "fits int8"},
		{"[9223372036854775808]", tensor.Int64, []int64{1}, "fits int64"},
		{"[-9223372036854775809]", tensor.Int64, []int64{1}, "fits int64"},
		{"[18446744073709551616]", tensor.Uint64, []int64{1}, "fits uint64"},
		{"[1.5]", tensor.Int32, []int64{1}, "1.5 is no whole number"},
		{"[1e-1]", tensor.Int32, []int64{1}, "no whole number"},
		{"[1e400]", tensor.Int64, []int64{1}, "no whole number"},
		{"[1]", tensor.Bool, []int64{1}, "want true or false"},
		{"[a]", tensor.String, []int64{1}, "want a string"},
		{"[\"\xff\"]", tensor.String, []int64{1}, "no Unicode"},
		{`["\ud83d"]`, tensor.String, []int64{1}, "no Unicode"},
		{`["\\\ud83dx\ude00"]`, tensor.String, []int64{1}, "no Unicode"},
		{"[1]", tensor.Float16, []int64{1}, "float16 has no form in JSON"},
		{"[1]", tensor.Complex64, []int64{1}, "not supported"},
		{"[1]", tensor.Float32, []int64{-1}, "negative dimension"},
		{"[1]", tensor.Float32, []int64{1 << 40, 1 << 40}, "too many elements"},
		{"[1]", tensor.Float32, []int64{1 << 40}, "more than the text has room for"},
	} {
		got, err := readTyped(c.text, c.t, c.shape...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s as %s %v: %v, %v; want %q", c.text, c.t, c.shape, got, err, c.want)
		}
	}
}

// The fast paths from text to numbers agree with strconv: for arbitrary numbers, near the middle of two float32, and in
// any spelling.
func TestNumbersAgreeWithStrconv(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	texts := []string{"0", "-0", "0.0", "9007199254740993", "1e22", "1e23", "123456789012345678901234567890"}
	for range 40_000 {
		f := math.Float32frombits(rng.Uint32())
		next := math.Nextafter32(f, 2*f)
		middle := (float64(f) + float64(next)) / 2
		off := math.Float64frombits(math.Float64bits(middle) + rng.Uint64N(9) - 4)
		texts = append(texts, fmt.Sprint(f), strconv.FormatFloat(middle, 'g', -1, 64),
			strconv.FormatFloat(off, 'e', 15+rng.IntN(6), 64), strconv.FormatFloat(float64(f), 'f', rng.IntN(30), 64),
			fmt.Sprintf("%d.%de%d", rng.IntN(1000), rng.Uint64(), rng.IntN(60)-30))
	}
	for _, text := range texts {
		p := &Parser{Text: []byte(text), Strict: true}
		d, err := p.scan()
		if strings.ContainsAny(text, "NIn") {
			continue // of which random bits have a few
		}
		want64, wantErr := strconv.ParseFloat(text, 64)
		got64, ok := d.float64()
		if err != nil || ok != (wantErr == nil) || ok && math.Float64bits(got64) != math.Float64bits(want64) {
			t.Fatalf("%s: %v, %v; want %v", text, got64, err, want64)
		}
		want32, wantErr := strconv.ParseFloat(text, 32)
		got32, ok := d.float32()
		if ok != (wantErr == nil) || ok && math.Float32bits(got32) != math.Float32bits(float32(want32)) {
			t.Fatalf("%s: float32 %v, want %v", text, got32, want32)
		}
	}
}

// Typed accepts what encoding/json accepts for a slice of the type, and gives the same numbers. Beyond that it accepts
// integers with a point or an exponent.
func FuzzTypedList(f *testing.F) {
	for _, s := range []string{"[1,2.5,-3e2]", "[]", "[0.1]", "[256,-1]", `["a"]`, "[true]", "[[1]]", "[1,]", "[18446744073709551615]"} {
		f.Add([]byte(s), byte(0))
		f.Add([]byte(s), byte(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, kind byte) {
		types := []tensor.Type{tensor.Float32, tensor.Float64, tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16,
			tensor.Uint32, tensor.Int32, tensor.Uint64, tensor.Int64, tensor.Bool, tensor.String}
		typ := types[int(kind)%len(types)]
		slice, err := typ.Make(0)
		if err != nil {
			t.Fatal(err)
		}
		want := reflect.New(reflect.TypeOf(slice))
		if bytes.Contains(text, []byte("null")) {
			return // which leaves an element as it was
		}
		if bytes.Contains(text, []byte("NaN")) || bytes.Contains(text, []byte("Infinity")) {
			return // which encoding/json does not take
		}
		var stdErr error
		if typ == tensor.Uint8 { // encoding/json takes []uint8 for base64
			var wide []uint16
			if stdErr = json.Unmarshal(text, &wide); stdErr == nil {
				narrow := make([]uint8, len(wide))
				for i, v := range wide {
					if narrow[i] = uint8(v); v > 255 {
						stdErr = strconv.ErrRange
					}
				}
				want.Elem().Set(reflect.ValueOf(narrow))
			}
		} else {
			stdErr = json.Unmarshal(text, want.Interface())
		}
		n := int64(want.Elem().Len())
		if stdErr != nil {
			n = 3
		}
		got, err := readTyped(string(text), typ, n)
		if stdErr != nil {
			var numbers []json.Number
			spelled := json.Unmarshal(text, &numbers) == nil && strings.ContainsAny(string(text), ".eE")
			if err == nil && (typ.IsFloat() || !spelled) {
				t.Fatalf("%q as %s: taken as %v; encoding/json: %v", text, typ, got, stdErr)
			}
			return
		}
		if err != nil {
			if strings.Contains(err.Error(), "no Unicode") {
				return // for which encoding/json puts U+FFFD
			}
			t.Fatalf("%q as %s: %v; encoding/json takes it", text, typ, err)
		}
		if !reflect.DeepEqual(got, want.Elem().Interface()) {
			t.Fatalf("%q as %s: %v, want %v", text, typ, got, want.Elem())
		}
	})
}
