package dataset

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx/tensor"
)

func TestCSVColumnsFeedInputs(t *testing.T) {
	t.Parallel()
	// Examples are written as label and cells of each input.
	for _, c := range []textCase{
		{"all columns for the only input", "a,b,label,c\n1,2,0,3\n4,5,1,6\n", Options{}, []string{`0 "":[3]1|2|3`, `1 "":[3]4|5|6`}, nil, ""},
		{"and its width", "a,b,label,c\n1,2,0,3\n", Options{Inputs: []string{"x"}, Widths: []int{3}}, []string{`0 "":[3]1|2|3`}, nil, ""},
		{"columns of another table", "id,c,a,label,b\n9,3,1,0,2\n", Options{Inputs: []string{"x"}, Widths: []int{3}, Columns: []string{"a", "b", "c"}}, []string{`0 "":[3]1|2|3`}, nil, ""},
		{"no label", "a,b\n1,2\n", Options{}, []string{`-1 "":[2]1|2`}, nil, ""},
		{"columns by name", "age,id,colour,label\n7,1,red,1\n8,2,\"b,l\"\"u\"\"e\",0\n", Options{Inputs: []string{"colour", "age"}}, []string{`1 "colour":[1]red "age":[1]7`, `0 "colour":[1]b,l"u"e "age":[1]8`}, nil, ""},
		{"one column by name", "id,text,label\n7,some words,1\n", Options{Inputs: []string{"text"}, Widths: []int{1}}, []string{`1 "":[1]some words`}, nil, ""},
		{"one column by name, of unknown width", "id,text,label\n7,some words,1\n", Options{Inputs: []string{"text"}}, []string{`1 "":[1]some words`}, nil, ""},
		{"a column that happens to be called like the input", "x,y,label\n7,8,1\n", Options{Inputs: []string{"x"}, Widths: []int{2}}, []string{`1 "":[2]7|8`}, nil, ""},
		{"an input called label", "label\n7\n", Options{Inputs: []string{"label"}}, []string{`-1 "":[1]7`}, nil, ""},
		{"class names", "a,label\n1,cat\n1,dog\n1,1\n1,1.0\n", Options{LabelClasses: []string{"cat", "dog"}}, []string{`0 "":[1]1`, `1 "":[1]1`, `1 "":[1]1`, `1 "":[1]1`}, nil, ""},
		{"unlabelled on request", "a,label\n1,cow\n", Options{Unlabelled: true}, []string{`-1 "":[1]1`}, nil, ""},
		{"stray labels", "a,label\n1,cow\n2,\n3,7\n4,1\n", Options{LabelClasses: []string{"a", "b"}, Classes: 2, IgnoreUnknownLabels: true}, []string{`-1 "":[1]1`, `-1 "":[1]2`, `-1 "":[1]3`, `1 "":[1]4`}, nil, ""},
		{"semicolons", "a;label\n1,5;1\n", Options{}, []string{`1 "":[1]1,5`}, nil, ""},
		{"tabs", "a\tlabel\n1\t1\n", Options{}, []string{`1 "":[1]1`}, nil, ""},
		{"byte order mark, carriage returns, blank lines and no end", "\xef\xbb\xbfa, label\r\n\r\n1,1\r\n\r\n2,0", Options{}, []string{`1 "":[1]1`, `0 "":[1]2`}, nil, ""},
		{"a line within a cell", "a,label\n\"1\n2\",1\n3,0\n", Options{}, []string{"1 \"\":[1]1\n2", `0 "":[1]3`}, nil, ""},
		{"broken records", "a,b,label\n1,2\n1,2,0\n1,2,3,4\n1,\"2\"x,1\n1,2,\n3,4,1\n1,\"2,3\n", Options{}, []string{`0 "":[2]1|2`, `1 "":[2]3|4`},
			[]string{"x.csv[0]: 2 cells; want 3, as the header has", "x.csv[2]: 4 cells", `x.csv[3]: broken CSV: extraneous or missing " in quoted-field`, "x.csv[4]: no label", "x.csv[6]: broken CSV"}, ""},

		{"no examples", "a,b\n\n", Options{}, nil, nil, "holds no examples, only a header"},
		{"blank", "\n\n", Options{}, nil, nil, "holds no examples: it has no lines"},
		{"no header", "1,2,0\n3,4,1\n", Options{}, nil, nil, "the first line is numbers (1, 2, 0)"},
		{"broken header", "a,\"b\n", Options{}, nil, nil, "header: broken CSV"},
		{"label only", "label\n1\n", Options{}, nil, nil, "no columns but label"},
		{"two labels", "a,label,label\n1,1,1\n", Options{}, nil, nil, `two columns are called "label"`},
		{"two columns of one input", "b,a,a\n1,1,1\n", Options{Inputs: []string{"b", "a"}}, nil, nil, `two columns are called "a"`},
		{"wrong width", "a,b,label\n1,2,0\n", Options{Inputs: []string{"x"}, Widths: []int{3}}, nil, nil, `2 columns besides label (a, b) for the model's input "x", which takes 3 numbers per example`},
		{"a column of another table is missing", "a,c,label\n1,2,0\n", Options{Inputs: []string{"x"}, Widths: []int{2}, Columns: []string{"a", "b"}}, nil, nil, `no column "b", which the model's input was calibrated with; there are a, c`},
		{"a column of another table is there twice", "a,b,b,label\n1,2,2,0\n", Options{Inputs: []string{"x"}, Widths: []int{2}, Columns: []string{"a", "b"}}, nil, nil, `two columns are called "b"`},
		{"input missing", "a,b,label\n1,2,0\n", Options{Inputs: []string{"a", "c"}}, nil, nil, `no column "c" for the model's input; there are a, b`},
		{"wide input among several", "a,b,label\n1,2,0\n", Options{Inputs: []string{"a", "b"}, Widths: []int{1, 4}}, nil, nil, `input "b" takes 4 numbers per example and a column has one; use JSON lines or an .npz`},
		{"targets", "a,label\n1,1\n", Options{MultiLabel: true, Classes: 3}, nil, nil, "column label: its labels are one class per example; want a 0 or 1 for each of the head's 3 labels"},
		{"unknown class", "a,label\n1,cow\n", Options{LabelClasses: []string{"a", "b"}}, nil, nil, `x.csv[0]: label "cow" is not one of the 2 class names (a, b)`},
		{"no class names", "a,label\n1,cow\n", Options{}, nil, nil, "give the class names"},
		{"a label of a half", "a,label\n1,0.5\n", Options{}, nil, nil, `label "0.5" is not a whole number`},
		{"label out of range", "a,label\n1,2\n", Options{Classes: 2}, nil, nil, "x.csv[0]: label 2 is outside [0,2)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, "x.csv", "csv", false, func(e Example) string {
				s := fmt.Sprint(e.Label)
				for _, a := range e.Inputs {
					s += fmt.Sprintf(" %q:%v%s", a.Name, a.Shape, strings.Join(a.Data.(Text).Cells, "|"))
				}
				return s
			})
		})
	}
}

// The columns of a table are known if their names tell them apart. Another table gives the same inputs with its columns
// in another order, and so does another file of a pattern.
func TestColumnsOfAnotherTableAreFoundByName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, want := range map[string][]string{
		"a,b,label,c\n1,2,0,3\n": {"a", "b", "c"}, "a,b,a\n1,2,3\n": nil, "a,,b\n1,2,3\n": nil,
	} {
		d, err := Open(t.Context(), write(t, dir, "x.csv", []byte(name)), Options{Inputs: []string{"x"}, Widths: []int{3}})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Columns(); !slices.Equal(got, want) {
			t.Errorf("%q has the columns %q, want %q", name, got, want)
		}
		d.Close()
	}
	write(t, dir, "part-0.csv", []byte("a,b,label\n1,2,0\n"))
	write(t, dir, "part-1.csv", []byte("label,b,a\n1,4,3\n"))
	d, err := Open(t.Context(), filepath.Join(dir, "part-*.csv"), Options{Inputs: []string{"x"}, Widths: []int{2}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	examples, bad := all(t, d)
	if len(bad) > 0 || len(examples) != 2 || !slices.Equal(examples[1].Inputs[0].Data.(Text).Cells, []string{"3", "4"}) {
		t.Errorf("%v, %v", examples, bad)
	}
}

func TestTextBecomesWhatTheInputTakes(t *testing.T) {
	t.Parallel()
	of := func(cells ...string) Text { return Text{cells, []string{"a", "b", "c", "d", "e", "f"}[:len(cells)]} }
	for _, c := range []struct {
		text Text
		elem tensor.Type
		want any
	}{
		{of("1", " -2.5 ", "1e3", "inf"), tensor.Float32, []float64{1, -2.5, 1000, math.Inf(1)}},
		{of("nan", ""), tensor.BFloat16, []float64{math.NaN(), math.NaN()}},
		{of("9007199254740993", "-9223372036854775808", "3.0", "2e3"), tensor.Int64, []int64{1<<53 + 1, math.MinInt64, 3, 2000}},
		{of("300"), tensor.Int8, []int64{300}},
		{of("18446744073709551615", "7.0"), tensor.Uint8, []uint64{math.MaxUint64, 7}},
		{of("true", "0", "False", "1"), tensor.Bool, []bool{true, false, false, true}},
		{of(" 1", ""), tensor.String, []string{" 1", ""}},
	} {
		got, err := c.text.As(c.elem)
		if err != nil || fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", c.want, c.want) {
			t.Errorf("%q as %s: %T %v, %v; want %v", c.text.Cells, c.elem, got, got, err, c.want)
		}
	}
	for _, c := range []struct {
		cell string
		elem tensor.Type
		want string
	}{
		{"x", tensor.Float32, `column "b" is "x"; want a number`},
		{"1e999", tensor.Float32, "want a number"},
		{"1,5", tensor.Float64, "want a number"},
		{"0.5", tensor.Int32, "want a whole number"},
		{"", tensor.Int32, "want a whole number"},
		{"9223372036854775808", tensor.Int64, "want a whole number"},
		{"-1", tensor.Uint8, "want a whole number from 0"},
		{"-1.0", tensor.Uint8, "want a whole number from 0"},
		{"2", tensor.Bool, "want true or false"},
	} {
		_, err := of("1", c.cell).As(c.elem)
		testerr.OneLine(t, err, c.want)
	}
}

// More records than between two index entries.
func TestManyCSVRecords(t *testing.T) {
	t.Parallel()
	const n = 2*indexStep + 5
	rng := rand.New(rand.NewPCG(1, 1))
	text := strings.Builder{}
	text.WriteString("\xef\xbb\xbfa,b\n")
	for i := range n {
		fmt.Fprintf(&text, "%d,\"%s\"%s", i, strings.Repeat("\n", rng.IntN(3)), strings.Repeat("\n", 1+rng.IntN(2)))
	}
	dir := t.TempDir()
	for _, path := range []string{write(t, dir, "x.csv", []byte(text.String())),
		write(t, dir, "x.csv.gz", gzipped(t, []byte(text.String())))} {
		for _, from := range []int{0, 1, indexStep - 1, indexStep, indexStep + 1, 2 * indexStep, n - 1} {
			d, err := Open(t.Context(), fmt.Sprintf("%s[%d:]", path, from), Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, bad := all(t, d)
			if len(got) != n-from || len(bad) > 0 {
				t.Fatalf("[%d:]: %d examples, bad %v", from, len(got), bad)
			}
			for i, e := range got {
				if e.Index != from+i || e.Inputs[0].Data.(Text).Cells[0] != fmt.Sprint(from+i) {
					t.Fatalf("[%d:]: %s holds %v", from, e.Name, e.Inputs[0].Data)
				}
			}
			d.Close()
		}
	}
}

func TestARecordThatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	path := write(t, t.TempDir(), "x.csv", []byte("a,b\n1,2\n3,\""+strings.Repeat("1,\n", maxText/3+5000)))
	testerr.OneLine(t, readError(path, Options{}), "x.csv: example 1: more than 67108864 bytes", "is a quote left open?")
	// The bound is for one record, not for all.
	path = write(t, t.TempDir(), "x.csv", []byte("a,b\n"+strings.Repeat("1,"+strings.Repeat("2", 1<<20)+"\n", maxText>>20+2)))
	if err := readError(path, Options{}); err != nil {
		t.Error(err)
	}
}

func TestDamagedCSV(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := []byte("a,b\n" + strings.Repeat("1,2\n", 1000))
	whole := gzipped(t, text)
	testerr.OneLine(t, readError(write(t, dir, "x.csv.gz", whole[:len(whole)-9]), Options{}), "x.csv.gz: broken or truncated gzip")
	d, err := Open(t.Context(), write(t, dir, "x.csv", text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if print, err := d.Fingerprint(t.Context()); err != nil || len(print) != 64 {
		t.Errorf("%q, %v", print, err)
	}
	if err := os.Truncate(d.Path(), 404); err != nil {
		t.Fatal(err)
	}
	for _, e := range d.Examples(t.Context()) {
		err = e
	}
	testerr.OneLine(t, err, "changed while in use: it had 1000 examples and has 100")
}

// Each record has as many cells as the header, and they are what encoding/csv reads from the whole file.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b,label\n1,2,0\n\n\"x\ny\",3,1\n"))
	f.Add([]byte("\xef\xbb\xbfa;b\r\n1;\"2\"x\r\n3;\"4"))
	f.Add([]byte("a\n,\n\"\n"))
	path := filepath.Join(f.TempDir(), "x.csv")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openCSV(path, Options{IgnoreUnknownLabels: true})
		if err != nil {
			return
		}
		defer s.Close()
		slow := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(b), string(byteOrderMark))))
		slow.Comma, slow.FieldsPerRecord = s.(*csvSource).comma, -1
		header, err := slow.Read()
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for e, err := range s.Examples(0, s.base().Count) {
			count++
			want, slowErr := slow.Read()
			var bad *RecordError
			if err != nil {
				if !errors.As(err, &bad) && !strings.Contains(err.Error(), "label") {
					t.Fatal(err)
				}
				if slowErr == nil && len(want) == len(header) {
					t.Fatalf("%q: %v", want, err)
				}
				continue
			}
			if slowErr != nil || len(want) != len(header) {
				t.Fatalf("%q was read: %v", want, slowErr)
			}
			i := 0
			for c := range want {
				if c == s.(*csvSource).label {
					continue
				}
				if got := e.Inputs[0].Data.(Text).Cells[i]; got != want[c] {
					t.Fatalf("cell %d is %q, want %q", c, got, want[c])
				}
				i++
			}
		}
		if count != s.base().Count {
			t.Fatalf("%d examples of %d", count, s.base().Count)
		}
	})
}
