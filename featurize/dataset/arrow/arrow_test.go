package arrow

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// golden is what Python says that the files hold.
func golden[T any](t testing.TB, key string) (v T) {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(all[key])))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return v
}

// read returns the examples of a SPEC, in testdata, and their errors.
func read(t testing.TB, spec string, o dataset.Options) (examples []dataset.Example, errs []error) {
	t.Helper()
	d, err := dataset.Open(t.Context(), filepath.Join("testdata", spec), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for e, err := range d.Examples(t.Context()) {
		examples, errs = append(examples, e), append(errs, err)
	}
	return examples, errs
}

// readAll is read where all can be read.
func readAll(t testing.TB, spec string, o dataset.Options) []dataset.Example {
	t.Helper()
	examples, errs := read(t, spec, o)
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s: example %d: %v", spec, i, err)
		}
	}
	return examples
}

// flat returns the shape and elements of a value in JSON, the latter in words.
func flat(v any) (shape []int, elements []string) {
	list, ok := v.([]any)
	if !ok {
		return nil, []string{fmt.Sprint(v)}
	}
	shape = []int{len(list)}
	for i, e := range list {
		inner, more := flat(e)
		if i == 0 {
			shape = append(shape, inner...)
		}
		elements = append(elements, more...)
	}
	return shape, elements
}

// words returns the elements of an array as JSON has them.
func words(t testing.TB, data any) []string {
	t.Helper()
	v := reflect.ValueOf(data)
	out := make([]string, v.Len())
	for i := range out {
		if v.Index(i).Kind() == reflect.String {
			out[i] = v.Index(i).String()
			continue
		}
		text, err := json.Marshal(v.Index(i).Interface())
		if err != nil {
			t.Fatal(err)
		}
		out[i] = string(text)
	}
	return out
}

// numbersAlike takes the point off whole numbers, which Python writes and Go does not.
func numbersAlike(words []string) string {
	words = slices.Clone(words)
	for i, w := range words {
		words[i] = strings.TrimSuffix(w, ".0")
	}
	return strings.Join(words, " ")
}

// checkColumn compares a column of a file, as the model's only input, with what Python wrote.
func checkColumn(t *testing.T, spec, name string, want []any) {
	t.Helper()
	o := dataset.Options{Inputs: []string{name}, Unlabelled: name == "label"}
	examples := readAll(t, spec, o)
	if len(examples) != len(want) {
		t.Fatalf("%s: %s has %d examples, want %d", spec, name, len(examples), len(want))
	}
	for i, e := range examples {
		shape, elements := flat(want[i])
		if shape == nil {
			shape = []int{1}
		}
		a := e.Inputs[0]
		if got := words(t, a.Data); numbersAlike(got) != numbersAlike(elements) {
			t.Errorf("%s: %s of %s is %v, want %v", spec, name, e.Name, got, elements)
		}
		if !slices.Equal(a.Shape, shape) || a.Name != "" {
			t.Errorf("%s: %s of %s has the shape %v, want %v", spec, name, e.Name, a.Shape, shape)
		}
		if e.Index != i {
			t.Errorf("%s: example %d has the index %d", spec, i, e.Index)
		}
	}
}

// All types, nested as they may be, are read as Python wrote them: from pages of both versions, with
// and without dictionaries, of every compression, with word of the Arrow types and without, and from
// Arrow's files and streams.
func TestColumnsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	want := golden[map[string][]any](t, "columns")
	if len(want) < 20 {
		t.Fatalf("only %d columns", len(want))
	}
	for _, file := range []string{
		"none.parquet", "snappy.parquet", "gzip.parquet", "zstd.parquet", "lz4.parquet", "brotli.parquet",
		"plain.arrows", "lz4.arrow", "zstd.feather",
	} {
		for name, rows := range want {
			if file == "zstd.parquet" && name == "tensor" { // which nothing there says the shape of
				continue
			}
			checkColumn(t, file, name, rows)
		}
	}
	for file, names := range map[string][]string{
		"delta.parquet": {"text", "f64", "label"}, "lengths.parquet": {"text", "label"}, "views.arrows": {"text", "ragged"},
		"replaced.arrows": {"kind", "label"},
	} {
		for _, name := range names {
			checkColumn(t, file, name, want[name])
		}
	}
	checkColumn(t, "grown.arrows", "kind", golden[[]any](t, "grown"))
}

// Slices, and shards of them, begin and end anywhere, and read no row group or batch that they do not
// need.
func TestSlicesReadWhatTheyNeed(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"snappy.parquet", "gzip.parquet", "plain.arrows", "lz4.arrow"} {
		all := readAll(t, file, dataset.Options{Inputs: []string{"ragged", "text"}})
		for from := range all {
			for to := from + 1; to <= len(all); to++ {
				got := readAll(t, fmt.Sprintf("%s[%d:%d]", file, from, to), dataset.Options{Inputs: []string{"ragged", "text"}})
				if !reflect.DeepEqual(got, all[from:to]) {
					t.Errorf("%s[%d:%d] is %v, want %v", file, from, to, got, all[from:to])
				}
			}
		}
		if all[3].Label != 0 || all[4].Label != 1 || all[4].Name != file+"[4]" || all[4].Inputs[1].Name != "text" {
			t.Errorf("%s: example 4 is %+v", file, all[4])
		}
	}
}

// Bytes outside a slice may be anything.
func TestDataOutsideTheSliceAreNotRead(t *testing.T) {
	t.Parallel()
	o := dataset.Options{Inputs: []string{"ragged", "text"}}
	for _, file := range []string{"snappy.parquet", "lz4.arrow"} {
		content, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		// The second of three groups of rows, from position 3 to 6.
		var from, to int64
		src, err := openParquet("testdata/"+file, o)
		if s, ok := src.(*parquetSource); ok {
			from = s.meta.RowGroups[1].Columns[0].MetaData.DataPageOffset
			to = s.meta.RowGroups[2].Columns[0].MetaData.DataPageOffset - 500 // where its dictionary may be
		} else {
			src, err = openIPC("testdata/"+file, o)
			s := src.(*ipcSource)
			for _, m := range s.messages {
				switch m.row {
				case 3:
					from = m.at + 1500 // after its metadata
				case 6:
					to = m.at
				}
			}
		}
		if err != nil || from >= to {
			t.Fatalf("%s: from %d to %d, %v", file, from, to, err)
		}
		src.Close()
		for i := from; i < to; i++ {
			content[i] = 0xa5
		}
		path := written(t, file, content)
		want := readAll(t, file, o)
		for slice, broken := range map[string]bool{"[0:3]": false, "[6:7]": false, "[2:5]": true} {
			err := drain(t, path+slice, o)
			if (err != nil) != broken {
				t.Errorf("%s%s: %v", file, slice, err)
			}
		}
		d, err := dataset.Open(t.Context(), path+"[6:7]", o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for e, err := range d.Examples(t.Context()) {
			if err != nil || !reflect.DeepEqual(e, want[6]) {
				t.Errorf("%s: %v, %v; want %v", file, e, err, want[6])
			}
		}
	}
}

// Images are found as Hugging Face stores them and as plain bytes; their labels are numbers of classes
// that the file names, or names.
func TestImages(t *testing.T) {
	t.Parallel()
	want := golden[[]string](t, "images")
	for _, c := range []struct {
		file    string
		classes []string
		labels  []int
	}{
		{"hf.parquet", nil, []int{2, 0, 1, 2}},
		{"hf.arrows", nil, []int{2, 0, 1, 2}},
		{"hf.parquet", []string{"emu", "cat", "dog"}, []int{0, 1, 2, 0}},
		{"hf.arrows", []string{"Emu", "x", "Cat", "Dog"}, []int{0, 2, 3, 0}},
		{"hf.parquet", []string{"un", "deux", "trois"}, []int{2, 0, 1, 2}}, // in the file's order
		{"binary.parquet", []string{"cat", "dog", "emu"}, []int{2, 0, 1, 2}},
		{"binary.arrow", []string{"emu", "dog", "cat"}, []int{0, 2, 1, 0}},
	} {
		examples := readAll(t, c.file, dataset.Options{LabelClasses: c.classes, Inputs: []string{"pixels"}, Widths: []int{60}})
		for i, e := range examples {
			if got := base64.StdEncoding.EncodeToString(e.Encoded); got != want[i] || e.Label != c.labels[i] {
				t.Errorf("%s: example %d is of class %d, want %d, and %d bytes", c.file, i, e.Label, c.labels[i], len(got))
			}
			if err := e.Decode(); err != nil || !slices.Equal(e.Inputs[0].Shape, []int{4, 5, 3}) {
				t.Errorf("%s: example %d: %v", c.file, i, err)
			}
		}
		if len(examples) != len(want) {
			t.Errorf("%s has %d examples, want %d", c.file, len(examples), len(want))
		}
	}
}

// Bytes may be stored as views, as Polars writes them: short ones within the view, others beside it.
func TestImagesInViews(t *testing.T) {
	t.Parallel()
	want := [][]byte{[]byte("\x89PNG"), bytes.Repeat([]byte("\x89PNG"), 100), []byte("GIF")}
	schema := arrow.NewSchema([]arrow.Field{{Name: "image", Type: arrow.BinaryTypes.BinaryView}}, nil)
	column := array.NewBinaryViewBuilder(memory.DefaultAllocator)
	column.AppendValues(want, nil)
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema))
	err := w.Write(array.NewRecordBatch(schema, []arrow.Array{column.NewArray()}, int64(len(want))))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Open(t.Context(), written(t, "views.arrows", b.Bytes()), dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	i := 0
	for e, err := range d.Examples(t.Context()) {
		if err != nil || !bytes.Equal(e.Encoded, want[i]) {
			t.Errorf("image %d has %d bytes, want %d; %v", i, len(e.Encoded), len(want[i]), err)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d images, want %d", i, len(want))
	}
}

// A table's numbers feed a model's only input, in the file's order, but for the label and pandas'
// numbers of rows; what is null is NaN among real numbers.
func TestTables(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"table.parquet", "table.arrows", "polars.arrow"} {
		o := dataset.Options{Inputs: []string{"float_input"}, Widths: []int{3}, LabelClasses: []string{"a", "b"}}
		var got []string
		for _, e := range readAll(t, file, o) {
			got = append(got, fmt.Sprint(e.Label, e.Inputs[0].Shape, e.Inputs[0].Data))
		}
		want := []string{"1 [3] [1.5 2 1]", "0 [3] [NaN 3 0]", "1 [3] [3.5 4 1]"}
		if !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
		o.Columns, o.Widths = []string{"count", "width"}, []int{2}
		if got := fmt.Sprint(readAll(t, file, o)[0].Inputs[0].Data); got != "[2 1.5]" {
			t.Errorf("%s: the columns of another table are %s", file, got)
		}
		o = dataset.Options{Inputs: []string{"open", "count"}, Unlabelled: true}
		e := readAll(t, file, o)[1]
		if got := fmt.Sprint(e.Label, e.Inputs[0].Data, e.Inputs[1].Name, e.Inputs[1].Data); got != "-1 [false]count[3]" {
			t.Errorf("%s: named columns are %s", file, got)
		}
	}
}

// A row with a null, or with lists of different lengths, is a bad record that names the column, and the
// next one goes on.
func TestGapsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		column string
		want   []string // by row; "" is read
	}{
		{"list", []string{"", `column "list" is null; want a value`, `column "list": a null within a list`,
			`column "label": no label`, ""}},
		{"whole", []string{"", "", `column "whole" is null; want a value`, `column "label": no label`, ""}},
		{"lists", []string{"", `column "lists": lists of different lengths`, `column "lists": a null within a list`,
			`column "lists": a list without elements`, ""}},
		{"image", []string{"", `column "image" is null; want the bytes of a PNG or JPEG file, not only its path`,
			`column "image" is null`}},
	} {
		for _, ext := range []string{".parquet", ".arrows"} {
			file := "gaps" + ext
			if c.column == "image" {
				file = "gone" + ext
			}
			_, errs := read(t, file, dataset.Options{Inputs: []string{c.column}})
			if len(errs) != len(c.want) {
				t.Fatalf("%s: %d records, want %d", file, len(errs), len(c.want))
			}
			for i, err := range errs {
				_, record := err.(*dataset.RecordError)
				switch want := c.want[i]; {
				case want == "" && err != nil, want != "" && !record:
					t.Errorf("%s: %s of row %d: %v, want %q", file, c.column, i, err, want)
				case want != "" && !strings.HasPrefix(err.Error(), fmt.Sprintf("%s[%d]: %s", file, i, want)):
					t.Errorf("%s: %s of row %d: %v, want %q", file, c.column, i, err, want)
				}
			}
		}
	}
	examples, errs := read(t, "gaps.parquet", dataset.Options{Inputs: []string{"whole"}, IgnoreUnknownLabels: true})
	if errs[3] != nil || examples[3].Label != -1 {
		t.Errorf("a null label is %d, %v; want none", examples[3].Label, errs[3])
	}
}

// Labels of a multi-label head are lists of zeros and ones.
func TestTargets(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"snappy.parquet", "plain.arrows"} {
		_, err := dataset.Open(t.Context(), "testdata/"+file, dataset.Options{Inputs: []string{"fixed"}, MultiLabel: true, Classes: 2})
		want := `column "label" holds`
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the head wants a 0 or 1 for each of the head's 2 labels") {
			t.Errorf("%s: %v; want %q", file, err, want)
		}
	}
	p, err := newPlan([]field{{name: "x", elem: 1, depth: 1}, {name: "labels", elem: 6, depth: 1}},
		dataset.Options{Inputs: []string{"x"}, MultiLabel: true, Classes: 2})
	if err != nil {
		t.Fatal(err)
	}
	row := func(labels ...int32) []cell {
		return []cell{{data: []float32{1}, shape: []int{1}}, {data: labels, shape: []int{len(labels)}}}
	}
	var e dataset.Example
	if err := p.fill(&e, row(0, 1)); err != nil || !slices.Equal(e.Targets, []uint8{0, 1}) {
		t.Errorf("targets are %v, %v", e.Targets, err)
	}
	for want, bad := range map[string][]cell{
		"want 0 or 1": row(0, 2), "3 numbers; want": row(0, 1, 1),
		"no label": {{data: []float32{1}, shape: []int{1}}, {null: true}},
	} {
		if err := p.fill(&e, bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Ambiguous columns are refused when a file is opened, by name.
func TestColumnsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	column := func(name string, elem int32, depth int) field {
		return field{name: name, elem: tensor.Type(elem), depth: depth, what: "that"}
	}
	image := func(name string) field { return field{name: name, bytes: true, what: "binary"} }
	class := func(name string) field { return field{name: name, elem: 6, names: []string{"a", "b"}, what: "int32"} }
	x := column("x", 1, 1)
	for _, c := range []struct {
		fields []field
		o      dataset.Options
		want   string
	}{
		{[]field{x, column("label", 6, 0), column("labels", 6, 0)}, dataset.Options{Inputs: []string{"x"}},
			"columns label, labels could each be the label"},
		{[]field{image("image"), class("fine"), class("coarse")}, dataset.Options{Inputs: []string{"x"}},
			"columns fine, coarse could each be the label: name only one of them label"},
		{[]field{image("a"), image("b")}, dataset.Options{Inputs: []string{"x"}},
			"columns a, b could each be the image: name only one of them image"},
		{[]field{x, column("y", 1, 1)}, dataset.Options{Inputs: []string{"x", "z"}}, `no column "z" for the model's input; there are x (that), y`},
		{[]field{x, column("z", 0, 0)}, dataset.Options{Inputs: []string{"x", "z"}}, `column "z" for the model's input holds that; want numbers`},
		{[]field{x, x}, dataset.Options{Inputs: []string{"x"}}, `two columns are called "x"`},
		{[]field{column("x", 1, 0), column("s", 8, 0)}, dataset.Options{Inputs: []string{"x", "s"}, Widths: []int{4, 1}},
			`input "x" takes 4 numbers per example and its column has one; want a list`},
		{[]field{column("a", 1, 0), column("b", 1, 0)}, dataset.Options{Inputs: []string{"x"}, Widths: []int{3}},
			`2 columns of numbers besides label (a, b) for the model's input "x", which takes 3`},
		{[]field{column("label", 6, 0)}, dataset.Options{Inputs: []string{"x"}}, "there are only the label"},
		{[]field{x, column("label", 6, 1)}, dataset.Options{Inputs: []string{"x"}}, `column "label" holds that; the head wants one class`},
		{[]field{x, column("label", 6, 0)}, dataset.Options{Inputs: []string{"x"}, MultiLabel: true}, "the head wants a 0 or 1"},
		{[]field{x, column("label", 0, 0)}, dataset.Options{Inputs: []string{"x"}}, `column "label" holds that; want class numbers or names`},
		{[]field{x, class("label")}, dataset.Options{Inputs: []string{"x"}, LabelClasses: []string{"a", "c"}},
			`column "label": its 2 classes (a, b) are not the model's 2 (a, c)`},
		{[]field{x, class("label")}, dataset.Options{Inputs: []string{"x"}, LabelClasses: []string{"c", "d", "e"}},
			`column "label": its 2 classes (a, b) are not the model's 3 (c, d, e)`},
	} {
		if _, err := newPlan(c.fields, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	// Among several images, the one named after the input, or image, is used.
	for _, c := range []struct {
		input string
		want  int
	}{{"b", 1}, {"x", 2}} {
		p, err := newPlan([]field{image("a"), image("b"), image("image")}, dataset.Options{Inputs: []string{c.input}})
		if err != nil || p.used[p.image] != c.want {
			t.Errorf("for input %s the image is column %v, %v", c.input, p, err)
		}
	}
}

// Precomputed features are columns of lists.
func TestFeatures(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"features.parquet", "features.arrows"} {
		f, err := dataset.OpenFeatures("testdata/"+file+"[1:6]", dataset.Options{Classes: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var got []string
		for b, err := range f.Blocks(t.Context(), 4) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(b.Positions, b.Features[:3], b.Logits[:2], b.Labels))
		}
		want := []string{"[1 2 3] [1 0.5 -1] [1 1] [1 0 1]", "[4 5] [4 2 -4] [4 1] [0 1]"}
		if !slices.Equal(got, want) || f.Dim() != 3 || f.Logits() != 2 {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

// The fingerprint depends on a file's content and the selected examples, whether a pass has read them or not.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"hf.parquet", "hf.arrows"} {
		sums := map[string]bool{}
		for _, spec := range []string{file, file + "[1:3]"} {
			var all []string
			for _, kept := range []bool{false, true} {
				d, err := dataset.Open(t.Context(), "testdata/"+spec, dataset.Options{Fingerprint: kept})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				for _, err := range d.Examples(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
				}
				sum, err := d.Fingerprint(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if stamp, err := d.Stamp(); err != nil || len(stamp) != 64 && len(stamp) != 0 {
					t.Errorf("%s: the stamp is %q, %v", spec, stamp, err)
				}
				all = append(all, sum)
			}
			sums[all[0]] = true
			if all[0] != all[1] {
				t.Errorf("%s: %v", spec, all)
			}
		}
		if len(sums) != 2 {
			t.Errorf("%s: a slice has the fingerprint of the whole", file)
		}
	}
}
