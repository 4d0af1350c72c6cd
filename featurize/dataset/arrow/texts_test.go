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

// A column of strings holds the texts of a model that reads text; null is none.
func TestTextsAreLabels(t *testing.T) {
	t.Parallel()
	open := func(first string) (texts []string, fingerprint string) {
		schema := arrow.NewSchema([]arrow.Field{
			{Name: "x", Type: arrow.PrimitiveTypes.Float32}, {Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
		}, nil)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		defer b.Release()
		b.Field(0).(*array.Float32Builder).AppendValues([]float32{1, 2, 3}, nil)
		b.Field(1).(*array.StringBuilder).AppendValues([]string{first, "", "7"}, []bool{true, true, false})
		var file bytes.Buffer
		w, err := ipc.NewFileWriter(&file, ipc.WithSchema(schema))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(b.NewRecordBatch()); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.arrow")
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		o := dataset.Options{Texts: true, Fingerprint: true, IgnoreUnknownLabels: true}
		d, err := dataset.Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for e, err := range d.Examples(t.Context()) {
			switch {
			case err != nil:
				t.Error(err)
			case e.Label == -1:
				texts = append(texts, "none")
			default:
				texts = append(texts, e.Text)
			}
		}
		if fingerprint, err = d.Fingerprint(t.Context()); err != nil {
			t.Fatal(err)
		}
		return texts, fingerprint
	}
	texts, first := open("one, two")
	if want := []string{"one, two", "", "none"}; !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
	if _, changed := open("one two"); changed == first {
		t.Error("another text has the same fingerprint")
	}
}
