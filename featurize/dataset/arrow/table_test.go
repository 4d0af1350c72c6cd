package arrow

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	pqschema "github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// arrowStream writes a stream of one batch; without columns it has none.
func arrowStream(t testing.TB, schema *arrow.Schema, columns ...arrow.Array) []byte {
	t.Helper()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema))
	if len(columns) > 0 {
		if err := w.Write(array.NewRecordBatch(schema, columns, int64(columns[0].Len()))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// summaries describe the records of a file: label and inputs, or the error.
func summaries(t testing.TB, path string, o dataset.Options) (all []string) {
	t.Helper()
	d, err := dataset.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for e, err := range d.Examples(t.Context()) {
		says := fmt.Sprint(e.Label)
		for _, in := range e.Inputs {
			says += fmt.Sprintf(" %v%v", in.Shape, in.Data)
		}
		if err != nil {
			says = err.Error()
		}
		all = append(all, says)
	}
	return all
}

// matches compares summaries with what each must hold.
func matches(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d records %q, want %d", what, len(got), got, len(want))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("%s: record %d is %q, want %q in it", what, i, got[i], want[i])
		}
	}
}

// A null may stand in the dictionary, to which a row refers, as well as in the row itself.
func TestNullsInDictionariesAreNulls(t *testing.T) {
	t.Parallel()
	entries := array.NewStringBuilder(memory.DefaultAllocator)
	entries.AppendValues([]string{"x", "y", "z"}, []bool{true, false, true})
	codes := array.NewInt32Builder(memory.DefaultAllocator)
	codes.AppendValues([]int32{2, 1, 0, 0}, []bool{true, true, true, false})
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	column := array.NewDictionaryArray(kind, codes.NewArray(), entries.NewArray())
	schema := arrow.NewSchema([]arrow.Field{{Name: "kind", Type: kind, Nullable: true}}, nil)
	path := written(t, "kinds.arrows", arrowStream(t, schema, column))
	got := summaries(t, path, dataset.Options{Inputs: []string{"kind"}})
	matches(t, "as an input", got, "[z]", `column "kind" is null`, "[x]", `column "kind" is null`)
}

// Labels of a file that names its classes are numbers of these names.
func TestLabelsAreThoseThatTheFileNames(t *testing.T) {
	t.Parallel()
	metadata := arrow.MetadataFrom(map[string]string{
		"huggingface": `{"info":{"features":{"x":{"dtype":"float32","_type":"Value"},"label":{"names":["cat","dog"],"_type":"ClassLabel"}}}}`})
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float32},
		{Name: "label", Type: arrow.PrimitiveTypes.Int64}}, &metadata)
	x := array.NewFloat32Builder(memory.DefaultAllocator)
	x.AppendValues([]float32{1, 2, 3, 4}, nil)
	label := array.NewInt64Builder(memory.DefaultAllocator)
	label.AppendValues([]int64{0, 1, 2, 3}, nil)
	path := written(t, "labels.arrows", arrowStream(t, schema, x.NewArray(), label.NewArray()))
	outside := "is outside [0,2), the classes that the file names"
	got := summaries(t, path, dataset.Options{Inputs: []string{"x"}, LabelClasses: []string{"dog", "bird", "cat"}})
	matches(t, "the model's classes", got, "2 ", "0 ", "label 2 "+outside, "label 3 "+outside)
}

// A list has as many elements as the model's input takes, or any number where that is open.
func TestListsHaveTheWidthOfTheInput(t *testing.T) {
	t.Parallel()
	lists := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Float32)
	for _, v := range [][]float32{{1, 2}, {1, 2, 3}, {1, 2, 3, 4}} {
		lists.Append(true)
		lists.ValueBuilder().(*array.Float32Builder).AppendValues(v, nil)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32)}}, nil)
	path := written(t, "lists.arrows", arrowStream(t, schema, lists.NewArray()))
	matches(t, "three", summaries(t, path, dataset.Options{Inputs: []string{"x"}, Widths: []int{3}}),
		`column "x" has 2 elements; the model's input takes 3`, "[3][1 2 3]", `column "x" has 4 elements; the model's input takes 3`)
	matches(t, "open", summaries(t, path, dataset.Options{Inputs: []string{"x"}, Widths: []int{0}}), "[2][1 2]",
		"[3][1 2 3]", "[4][1 2 3 4]")
}

// The Arrow schema in a Parquet file gives a list its shape where it describes that column, and no
// other column's shape is put in its place.
func TestTheArrowSchemaShapesItsOwnColumns(t *testing.T) {
	t.Parallel()
	list := func(n int32, of arrow.DataType) arrow.DataType {
		return arrow.FixedSizeListOfField(n, arrow.Field{Name: "element", Type: of})
	}
	float := arrow.PrimitiveTypes.Float32
	for name, tc := range map[string]struct {
		field arrow.Field
		six   bool // whether the shape [6] is that of the column, or unknown
	}{
		"its own":                 {arrow.Field{Name: "x", Type: list(6, float)}, true},
		"with a tensor's shape":   {tensorField("x", list(6, float)), false},
		"another name":            {tensorField("y", list(6, float)), true},
		"another number of lists": {arrow.Field{Name: "x", Type: list(2, list(3, float))}, true},
	} {
		path := written(t, "x.parquet", parquetList(t, []float32{1, 2, 3, 4, 5, 6}, arrow.NewSchema([]arrow.Field{tc.field}, nil)))
		d, err := dataset.Open(t.Context(), path, dataset.Options{Inputs: []string{"x"}})
		if err != nil {
			if name == "its own" || name == "with a tensor's shape" {
				t.Errorf("%s: %v", name, err)
			}
			continue // a file that contradicts itself may be refused
		}
		for e, err := range d.Examples(t.Context()) {
			want := "[2 3]"
			if tc.six {
				want = "[6]"
			}
			if err != nil || fmt.Sprint(e.Inputs[0].Shape) != want || fmt.Sprint(e.Inputs[0].Data) != "[1 2 3 4 5 6]" {
				t.Errorf("%s: %v, %v, want shape %s", name, e.Inputs, err, want)
			}
		}
		d.Close()
	}
}

// tensorField is a tensor of 2 × 3 numbers.
func tensorField(name string, stored arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: stored, Metadata: arrow.MetadataFrom(map[string]string{
		"ARROW:extension:name": "arrow.fixed_shape_tensor", "ARROW:extension:metadata": `{"shape":[2,3]}`})}
}

// parquetList writes a file of one row, a list of numbers in the column x, with an Arrow schema.
func parquetList(t testing.TB, values []float32, said *arrow.Schema) []byte {
	t.Helper()
	element := pqschema.NewFloat32Node("element", parquet.Repetitions.Required, -1)
	inner, err := pqschema.NewGroupNode("list", parquet.Repetitions.Repeated, pqschema.FieldList{element}, -1)
	if err != nil {
		t.Fatal(err)
	}
	x, err := pqschema.NewGroupNodeLogical("x", parquet.Repetitions.Required, pqschema.FieldList{inner},
		pqschema.NewListLogicalType(), -1)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pqschema.NewGroupNode("schema", parquet.Repetitions.Required, pqschema.FieldList{x}, -1)
	if err != nil {
		t.Fatal(err)
	}
	const endOfStream = 8
	message := arrowStream(t, said)
	var b bytes.Buffer
	w := file.NewParquetWriter(&b, root)
	if err := w.AppendKeyValueMetadata("ARROW:schema",
		base64.StdEncoding.EncodeToString(message[:len(message)-endOfStream])); err != nil {
		t.Fatal(err)
	}
	group, err := w.AppendRowGroupChecked()
	if err != nil {
		t.Fatal(err)
	}
	c, err := group.NextColumn()
	if err != nil {
		t.Fatal(err)
	}
	defined, repeated := make([]int16, len(values)), make([]int16, len(values))
	for i := range values {
		defined[i], repeated[i] = 1, int16(min(i, 1))
	}
	if _, err := c.(*file.Float32ColumnChunkWriter).WriteBatch(values, defined, repeated); err != nil {
		t.Fatal(err)
	}
	for _, close := range []func() error{c.Close, w.Close} {
		if err := close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}
