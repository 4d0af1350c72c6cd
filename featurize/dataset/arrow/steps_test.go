package arrow

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// A column of lists holds the labels of steps, by number or by name, and the tags of a model that tags steps.
func TestListsAreLabelsOfSteps(t *testing.T) {
	t.Parallel()
	steps := dataset.Options{Steps: true, LabelClasses: []string{"O", "PER"}, Classes: 2}
	numbers := listFile(t, arrow.PrimitiveTypes.Int64, func(b array.Builder) {
		b.(*array.Int64Builder).AppendValues([]int64{1, -100, 0}, nil)
	})
	names := listFile(t, arrow.BinaryTypes.String, func(b array.Builder) {
		b.(*array.StringBuilder).AppendValues([]string{"PER", "", "O"}, nil)
	})
	for name, file := range map[string]string{"numbers": numbers, "names": names} {
		if e := only(t, file, steps); e.Label != 0 || !slices.Equal(e.Steps, []int32{1, -1, 0}) {
			t.Errorf("%s: label %d, steps %v", name, e.Label, e.Steps)
		}
	}
	if e := only(t, names, dataset.Options{Tags: true}); !slices.Equal(e.Tags, []string{"PER", "", "O"}) {
		t.Errorf("tags %q", e.Tags)
	}
}

// only returns the only example of a file.
func only(t *testing.T, file string, o dataset.Options) (only dataset.Example) {
	t.Helper()
	d, err := dataset.Open(t.Context(), file, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for e, err := range d.Examples(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		only = e
	}
	return only
}

// listFile writes an Arrow file with one row: an input, and a label that is a list.
func listFile(t *testing.T, of arrow.DataType, fill func(array.Builder)) string {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.PrimitiveTypes.Float32}, {Name: "label", Type: arrow.ListOf(of)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.Float32Builder).Append(1)
	list := b.Field(1).(*array.ListBuilder)
	list.Append(true)
	fill(list.ValueBuilder())
	var file bytes.Buffer
	w, err := ipc.NewFileWriter(&file, ipc.WithSchema(schema))
	if err == nil {
		err = w.Write(b.NewRecordBatch())
	}
	if err == nil {
		err = w.Close()
	}
	path := filepath.Join(t.TempDir(), "x.arrow")
	if err == nil {
		err = os.WriteFile(path, file.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
