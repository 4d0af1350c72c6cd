package jsontensor

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// parseJSON reads one tensor from a whole text.
func parseJSON(text string) (*Tensor, error) {
	p := &Parser{Text: []byte(text)}
	t, err := p.Tensor()
	if err == nil && (p.Peek() != 0 || p.Pos < len(p.Text)) {
		err = p.wrong("the end")
	}
	return t, err
}

func TestJSONTensors(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		text  string
		shape []int
		data  any
	}{
		{"7", nil, []int64{7}},
		{" [ 1 , -2 ] ", []int{2}, []int64{1, -2}},
		{"[[1,2],[3,4],[5,6]]", []int{3, 2}, []int64{1, 2, 3, 4, 5, 6}},
		{"[[[1]],[[2]]]", []int{2, 1, 1}, []int64{1, 2}},
		{"[1.5,2]", []int{2}, []float64{1.5, 2}},
		{"[2,1.5]", []int{2}, []float64{2, 1.5}},
		{"[1.0,2e3,10E-1]", []int{3}, []int64{1, 2000, 1}}, // its value counts, not its spelling
		{"[9007199254740993,-9223372036854775808]", []int{2}, []int64{1<<53 + 1, math.MinInt64}},
		{"[1,9223372036854775808,2]", []int{3}, []uint64{1, 1 << 63, 2}},
		{"[18446744073709551615]", []int{1}, []uint64{math.MaxUint64}},
		{"[-1,9223372036854775808]", []int{2}, []float64{-1, 1 << 63}},
		{"[18446744073709551616]", []int{1}, []float64{1 << 64}},
		{"[1e16]", []int{1}, []float64{1e16}},
		{"[0.1,-0.0]", []int{2}, []float64{.1, math.Copysign(0, -1)}},
		{"-0", nil, []float64{math.Copysign(0, -1)}},
		{"[NaN,Infinity,-Infinity,null,1]", []int{5}, []float64{nan, inf, -inf, nan, 1}},
		{"[1,null]", []int{2}, []float64{1, nan}},
		{"[true,false]", []int{2}, []bool{true, false}},
		{`["a","b\n\u00e9","é"]`, []int{3}, []string{"a", "b\né", "é"}},
		{`[1e-400]`, []int{1}, []int64{0}},
	} {
		got, err := parseJSON(c.text)
		if err != nil || !slices.Equal(got.Shape, c.shape) ||
			fmt.Sprintf("%T %v", got.Data(), got.Data()) != fmt.Sprintf("%T %v", c.data, c.data) {
			t.Errorf("%s: %+v, %v; want %v %v", c.text, got, err, c.shape, c.data)
		}
	}
	for text, want := range map[string]string{
		"":            "ends within a value",
		"[1,2":        "ends within a value",
		"[1,2}":       "want a comma or ]",
		"[1 2]":       "want a comma or ]",
		"[1,]":        "want a number",
		"01":          "want a number",
		"+1":          "want a number",
		"1.x":         "want a digit",
		"1e-]":        "want a digit",
		".5":          "want a number",
		"1e999":       "number 1e999 is too large",
		"nul":         "want a number",
		"tru":         "want a value",
		"[]":          "an empty list",
		"[[],[]]":     "an empty list",
		"[[1],[2,3]]": "different lengths",
		"[[1,2],[3]]": "different lengths",
		"[1,[2]]":     "different lengths",
		"[[1],2]":     "different lengths",
		"[[],1]":      "different lengths",
		"[[],[1]]":    "different lengths",
		"[1,true]":    "mixes",
		`["a",1]`:     "mixes",
		`[true,null]`: "mixes",
		`{"a":1}`:     "want a number",
		`"a`:          "ends within a value",
		"\"a\tb\"":    "broken JSON: the string",
		`"\x"`:        "broken JSON: the string",
		"1 2":         "want the end",
		strings.Repeat("[", 40) + "1" + strings.Repeat("]", 40): "more than 32 dimensions",
	} {
		_, err := parseJSON(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// slowTensor is Tensor by encoding/json: the floats of nested lists of equal lengths.
func slowTensor(v any) (shape []int, data []float64, ok bool) {
	switch v := v.(type) {
	case float64:
		return nil, []float64{v}, true
	case []any:
		shape = []int{len(v)}
		for i, e := range v {
			s, d, ok := slowTensor(e)
			if !ok || i > 0 && !slices.Equal(s, shape[1:]) {
				return nil, nil, false
			}
			shape, data = append(shape[:1], s...), append(data, d...)
		}
		return shape, data, len(data) > 0
	}
	return nil, nil, false
}

func (t *Tensor) asFloats() []float64 {
	t.toFloat()
	return t.floats
}

func TestTensorsAgreeWithEncodingJSON(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	var random func(depth int) any
	random = func(depth int) any {
		if depth == 0 {
			switch rng.IntN(3) {
			case 0:
				return float64(rng.IntN(100) - 50)
			case 1:
				return rng.NormFloat64() * math.Pow(10, float64(rng.IntN(60)-30))
			}
			return math.Float64frombits(rng.Uint64() &^ (1 << 62)) // any of magnitude below 2
		}
		n := 2
		if rng.IntN(20) == 0 {
			n = rng.IntN(4)
		}
		list := make([]any, n)
		for i := range list {
			d := depth - 1
			if rng.IntN(200) == 0 {
				d = rng.IntN(depth + 1)
			}
			list[i] = random(d)
		}
		return list
	}
	accepted, refused := 0, 0
	for range 20000 {
		text, err := json.Marshal(random(rng.IntN(4)))
		if err != nil {
			continue // NaN
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		shape, data, ok := slowTensor(v)
		got, err := parseJSON(string(text))
		if (err == nil) != ok {
			t.Fatalf("%s: %v, want it read: %t", text, err, ok)
		}
		if !ok {
			refused++
			continue
		}
		accepted++
		if !slices.Equal(got.Shape, shape) || !slices.Equal(got.asFloats(), data) {
			t.Fatalf("%s: %v %v, want %v %v", text, got.Shape, got.floats, shape, data)
		}
	}
	if accepted < 1000 || refused < 1000 {
		t.Errorf("%d accepted, %d refused: the sample tests one side only", accepted, refused)
	}
}

// The parser accepts exactly the lines that encoding/json accepts, apart from Python's words.
func FuzzJSONSyntax(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,{"b":null}],"c":"\ud83d"}`, `{}`, `{"a":01}`, `{"a":"\x00"}`, `{"a":1,}`, ` {"a" : tru} `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &Parser{Text: b}
		err := p.Object(func(string) error { return p.Skip(0) })
		if err != nil && strings.Contains(err.Error(), "deeper") {
			return
		}
		if strings.Contains(string(b), "NaN") || strings.Contains(string(b), "Infinity") {
			return
		}
		var v map[string]json.RawMessage
		want := json.Unmarshal(b, &v) == nil && v != nil
		if (err == nil) != want {
			t.Errorf("%q: %v, encoding/json takes it: %t", b, err, want)
		}
	})
}
