package dataset

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
	"github.com/mfgs/mfgs/internal/testerr"
)

func TestJSONLinesNameInputsAndLabels(t *testing.T) {
	t.Parallel()
	two := Options{Inputs: []string{"ids", "mask"}}
	for _, c := range []textCase{
		{"one input", `{"x":[1,2],"label":1}` + "\n" + `{"label":0,"x":[3]}`, Options{}, []string{`0 x.jsonl[0] 1  "" [2]  [1 2]`, `1 x.jsonl[1] 0  "" [1]  [3]`}, nil, ""},
		{"no label", `{"x":[1,2]}`, Options{}, []string{`0 x.jsonl[0] -1  "" [2]  [1 2]`}, nil, ""},
		{"a scalar", `{"x":1}`, Options{}, []string{`0 x.jsonl[0] -1  "" []  [1]`}, nil, ""},
		{"one input of another name", `{"text":[1]}`, Options{Inputs: []string{"ids"}}, []string{`0 x.jsonl[0] -1  "" [1]  [1]`}, nil, ""},
		{"one input among others", `{"text":"a","ids":[1],"more":{"a":[{}]}}`, Options{Inputs: []string{"ids"}}, []string{`0 x.jsonl[0] -1  "" [1]  [1]`}, nil, ""},
		{"two inputs in the model's order", `{"mask":[1],"text":"hello","ids":[[2]]}`, two, []string{`0 x.jsonl[0] -1  "ids" [1 1]  [2] "mask" [1]  [1]`}, nil, ""},
		{"inputs not known", `{"mask":[1],"ids":[2]}`, Options{}, []string{`0 x.jsonl[0] -1  "ids" [1]  [2] "mask" [1]  [1]`}, nil, ""},
		{"an input called label", `{"label":[5],"labels":3}`, Options{Inputs: []string{"label"}}, []string{`0 x.jsonl[0] 3  "" [1]  [5]`}, nil, ""},
		{"unlabelled on request", `{"x":1,"label":"cat"}`, Options{Unlabelled: true}, []string{`0 x.jsonl[0] -1  "" []  [1]`}, nil, ""},
		{"class names", `{"x":1,"label":"dog"}` + "\n" + `{"x":1,"label":0}`, Options{LabelClasses: []string{"cat", "dog"}}, []string{`0 x.jsonl[0] 1  "" []  [1]`, `1 x.jsonl[1] 0  "" []  [1]`}, nil, ""},
		{"integers that are names", `{"x":1,"label":"7"}`, Options{LabelClasses: []string{"5", "7"}}, []string{`0 x.jsonl[0] 1  "" []  [1]`}, nil, ""},
		{"a truth value", `{"x":1,"label":true}`, Options{}, []string{`0 x.jsonl[0] 1  "" []  [1]`}, nil, ""},
		{"targets", `{"x":1,"labels":[0,1,true]}`, Options{MultiLabel: true, Classes: 3}, nil, []string{"x.jsonl[0]: labels: a list that mixes"}, ""},
		{"targets of numbers", `{"x":1,"labels":[0,1,1]}`, Options{MultiLabel: true, Classes: 3}, []string{`0 x.jsonl[0] -1  [0 1 1] "" []  [1]`}, nil, ""},
		{"targets of truth values", `{"x":1,"labels":[false,true]}`, Options{MultiLabel: true}, []string{`0 x.jsonl[0] -1  [0 1] "" []  [1]`}, nil, ""},
		{"byte order mark, blank lines and no end", "\xef\xbb\xbf" + `{"x":1}` + "\r\n\r\n  \n" + `{"x":2}`, Options{}, []string{`0 x.jsonl[0] -1  "" []  [1]`, `1 x.jsonl[1] -1  "" []  [2]`}, nil, ""},
		{"broken lines", `{"x":` + "\n" + `{"x":1,"label":1}` + "\n[1]\n" + `{"x":[[1],2],"label":1}` + "\n" + `{"y":2,"label":1}` + "\n" + `{"x":2}` + "\n" + `{"x":2,"x":2,"label":1}` + "\n" + `{"x":2,"label":1} more` + "\n" + `{"x":3,"label":1}`, Options{},
			[]string{`1 x.jsonl[1] 1  "" []  [1]`, `8 x.jsonl[8] 1  "" []  [3]`},
			[]string{"x.jsonl[0]: x: broken JSON: it ends", "x.jsonl[2]: broken JSON: want {", "x.jsonl[3]: x: lists of different lengths", `x.jsonl[4]: no key "x", which the first example has`, "x.jsonl[5]: no label, which", `x.jsonl[6]: the key "x" appears twice`, "x.jsonl[7]: broken JSON: want the end"}, ""},
		{"a label too many", `{"x":1}` + "\n" + `{"x":1,"label":1}`, Options{}, []string{`0 x.jsonl[0] -1  "" []  [1]`}, []string{"x.jsonl[1]: a label, and the first example does not"}, ""},
		{"wrong label", `{"x":1,"label":1}` + "\n" + `{"x":1,"label":1.5}` + "\n" + `{"x":1,"label":[1]}` + "\n" + `{"x":1,"label":null}`, Options{}, []string{`0 x.jsonl[0] 1  "" []  [1]`},
			[]string{"x.jsonl[1]: label: want a whole number", "x.jsonl[2]: label: want one class", "x.jsonl[3]: no label"}, ""},
		{"wrong targets", `{"x":1,"label":[1,0]}` + "\n" + `{"x":1,"label":[1]}` + "\n" + `{"x":1,"label":1}` + "\n" + `{"x":1,"label":[0,0.5]}`, Options{MultiLabel: true}, []string{`0 x.jsonl[0] -1  [1 0] "" []  [1]`},
			[]string{"x.jsonl[1]: label: want a 0 or 1 for each of the head's 2 labels", "x.jsonl[2]: label: want a 0 or 1", "x.jsonl[3]: label: number 1 is not a whole number"}, ""},
		{"stray labels", `{"x":1,"label":"cow"}` + "\n" + `{"x":1,"label":9}` + "\n" + `{"x":1}`, Options{LabelClasses: []string{"a", "b"}, Classes: 2, IgnoreUnknownLabels: true},
			[]string{`0 x.jsonl[0] -1  "" []  [1]`, `1 x.jsonl[1] -1  "" []  [1]`, `2 x.jsonl[2] -1  "" []  [1]`}, nil, ""},

		{"input missing", `{"ids":[1],"text":1}`, two, nil, nil, `no key "mask" for the model's input; there are ids, text`},
		{"no inputs", `{"label":1}`, Options{}, nil, nil, "no inputs"},
		{"two labels", `{"x":1,"label":1,"labels":1}`, Options{}, nil, nil, `both "label" and "labels"`},
		{"blank", " \n\n", Options{}, nil, nil, "x.jsonl: holds no examples: it has no lines"},
		{"not JSON", "hello\nworld", Options{}, nil, nil, "no line can be read; the first: broken JSON: want {"},
		{"targets for one class", `{"x":1,"label":[1,0]}`, Options{Classes: 2}, nil, nil, "label is a list; want one class"},
		{"one class for targets", `{"x":1,"label":1}`, Options{MultiLabel: true, Classes: 2}, nil, nil, "label is not a list; want a 0 or 1 for each of the head's 2 labels"},
		{"a first label of null", `{"x":1,"label":null}`, Options{}, nil, nil, "label of the first example is null"},
		{"unknown class", `{"x":1,"label":"cow"}`, Options{LabelClasses: []string{"a", "b"}}, nil, nil, `x.jsonl[0]: label: label "cow" is not one of the 2 class names (a, b)`},
		{"no class names", `{"x":1,"label":"cow"}`, Options{}, nil, nil, `there are no class names: give the class names`},
		{"a number where numbers are names", `{"x":1,"label":"1"}`, Options{LabelClasses: []string{"5", "7"}}, nil, nil, `label "1" is not one of the 2 class names`},
		{"a class name of two classes", `{"x":1,"label":"a"}`, Options{LabelClasses: []string{"a", "a"}}, nil, nil, `"a" is used for both 0 and 1`},
		{"label out of range", `{"x":1,"label":2}`, Options{Classes: 2}, nil, nil, "x.jsonl[0]: label 2 is outside [0,2)"},
		{"target out of range", `{"x":1,"label":[2,0]}`, Options{MultiLabel: true}, nil, nil, "x.jsonl[0]: label: number 0 is 2; want 0 or 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, "x.jsonl", "jsonl", true, key)
		})
	}
}

// More lines than between two index entries.
func TestManyJSONLines(t *testing.T) {
	t.Parallel()
	const n = 3*indexStep + 5
	rng := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"x":%d}%s`, i, strings.Repeat("\n", 1+rng.IntN(3)))
	}
	dir := t.TempDir()
	plain := write(t, dir, "x.jsonl", []byte(text.String()))
	zipped := write(t, dir, "x.ndjson.gz", gzipped(t, []byte(text.String())))
	for _, path := range []string{plain, zipped} {
		for _, from := range []int{0, 1, indexStep - 1, indexStep, indexStep + 1, 3 * indexStep, n - 1} {
			d, err := Open(t.Context(), fmt.Sprintf("%s[%d:]", path, from), Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, bad := all(t, d)
			if len(got) != n-from || len(bad) > 0 {
				t.Fatalf("[%d:]: %d examples, bad %v", from, len(got), bad)
			}
			for i, e := range got {
				if e.Index != from+i || e.Inputs[0].Data.([]int64)[0] != int64(from+i) {
					t.Fatalf("[%d:]: %s holds %v", from, e.Name, e.Inputs[0].Data)
				}
			}
			d.Close()
		}
	}
}

func TestALineThatIsTooLongIsABadRecord(t *testing.T) {
	t.Parallel()
	path := write(t, t.TempDir(), "x.jsonl", slices.Concat(
		[]byte(`{"x":1}`+"\n"+`{"x":[`), []byte(strings.Repeat("1,", maxText/2)), []byte("1]}\n"+`{"x":3}`)))
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, bad := all(t, d)
	if len(got) != 2 || got[1].Index != 2 || len(bad) != 1 {
		t.Fatalf("%d examples, bad %v", len(got), bad)
	}
	testerr.OneLine(t, bad[0], "x.jsonl[1]: more than 67108864 bytes of text for one example")
}

func TestDamagedJSONLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := []byte(strings.Repeat(`{"x":[1,2,3]}`+"\n", 1000))
	whole := gzipped(t, text)
	testerr.OneLine(t, readError(write(t, dir, "x.jsonl.gz", whole[:len(whole)-9]), Options{}), "x.jsonl.gz: broken or truncated gzip")
	crc := slices.Clone(whole)
	crc[len(crc)-8] ^= 1
	testerr.OneLine(t, readError(write(t, dir, "x.jsonl.gz", crc), Options{}), "x.jsonl.gz: broken or truncated gzip")
	testerr.OneLine(t, readError(write(t, dir, "x.json", text), Options{}), "x.json: JSON is read as lines")
	testerr.OneLine(t, readError(write(t, dir, "y.jsonl", []byte(strings.Repeat("[\n", tryLines+5))), Options{}), "no line of the first 1000 can be read")

	path := write(t, dir, "x.jsonl", text)
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	print, err := d.Fingerprint(context.Background())
	if err != nil || len(print) != 64 {
		t.Errorf("%q, %v", print, err)
	}
	if err := os.Truncate(path, int64(len(text)/2)); err != nil {
		t.Fatal(err)
	}
	err = nil
	for _, e := range d.Examples(context.Background()) {
		err = e
	}
	testerr.OneLine(t, err, "changed while in use: it had 1000 examples and has 500")
}

func FuzzJSONL(f *testing.F) {
	f.Add([]byte(`{"x":[[1,2],[3,4.5]],"label":1,"more":{"a":[null,true,"\n"]}}` + "\n\n" + `{"x":[NaN]}`))
	f.Add([]byte(`{"x":["a"],"label":[0,1]}`))
	f.Add([]byte("\xef\xbb\xbf{\"x\":18446744073709551615,\"label\":\"\\u0041\"}\n{"))
	f.Add([]byte(strings.Repeat("[", 2000)))
	path := filepath.Join(f.TempDir(), "x.jsonl")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, o := range []Options{{}, {MultiLabel: true}, {Unlabelled: true, Inputs: []string{"x", "y"}}} {
			s, err := openJSONL(path, o)
			if err != nil {
				continue
			}
			count := 0
			for e, err := range s.Examples(0, s.base().Count) {
				count++
				var bad *RecordError
				if err != nil {
					if !errors.As(err, &bad) && !strings.Contains(err.Error(), "label") {
						t.Fatal(err)
					}
					continue
				}
				for _, a := range e.Inputs {
					n, ok := arrays.Mul(a.Shape...)
					if v := reflect.ValueOf(a.Data); !ok || v.Len() != n || n == 0 || n > len(b) {
						t.Fatalf("%v of shape %v", a.Data, a.Shape)
					}
				}
			}
			if count > s.base().Count || count > len(b) {
				t.Fatalf("%d examples of %d", count, s.base().Count)
			}
			s.Close()
		}
	})
}

func BenchmarkJSONLines(b *testing.B) {
	var line strings.Builder
	line.WriteString(`{"ids":[`)
	for i := range 128 {
		fmt.Fprintf(&line, "%d, ", 1000+i*37)
	}
	line.WriteString(`0],"mask":[`)
	line.WriteString(strings.Repeat("1, ", 128) + `1],"label":1}` + "\n")
	path := write(b, b.TempDir(), "x.jsonl", []byte(strings.Repeat(line.String(), 10_000)))
	b.SetBytes(int64(10_000 * line.Len()))
	b.ReportAllocs()
	for b.Loop() {
		d, err := Open(b.Context(), path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range d.Examples(context.Background()) {
			if err != nil {
				b.Fatal(err)
			}
		}
		d.Close()
	}
}
