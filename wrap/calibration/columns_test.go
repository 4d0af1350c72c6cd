package calibration_test

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// A table whose columns have another order than those of the training table is read in that order: by the calibration,
// and with the bundle. A table without them is refused.
func TestTablesAreMatchedByTheNamesOfTheirColumns(t *testing.T) {
	t.Parallel()
	const data = "../../testdata/examples/sklearn/"
	dir := t.TempDir()
	changed := func(name string, change func(row []string)) string {
		content, err := os.ReadFile(data + name)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(string(content))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		header := rows[0]
		for _, row := range rows {
			change(row)
		}
		var b strings.Builder
		if err := csv.NewWriter(&b).WriteAll(rows); err != nil {
			t.Fatal(err)
		}
		return write(t, dir, header[0]+name, []byte(b.String()))
	}
	calibrated := func(val string) Config {
		c := Config{Model: data + "model.onnx", Train: data + "train.csv", Val: val, Out: filepath.Join(t.TempDir(), "b")}
		mustCalibrate(t, c)
		return c
	}
	c := calibrated(data + "val.csv")
	reversed := calibrated(changed("val.csv", slices.Reverse[[]string]))
	b, err := bundle.Open(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	other, err := bundle.Open(reversed.Out)
	if err != nil {
		t.Fatal(err)
	}
	if m := other.Manifest; len(m.Columns) != 30 || m.Columns[0] != "mean radius" || !slices.Equal(m.Columns, b.Manifest.Columns) {
		t.Errorf("the columns are %q", m.Columns)
	}
	if b.Manifest.Temperatures.NLL != other.Manifest.Temperatures.NLL {
		t.Errorf("temperatures %v, with other columns first %v", b.Manifest.Temperatures, other.Manifest.Temperatures)
	}

	p := opened(t, c.Out, Options{})
	logits := func(spec string) (all []float32, err error) {
		for one, err := range p.PredictDataset(t.Context(), spec, nil) {
			if err != nil {
				return nil, err
			}
			all = append(all, one.Logits...)
		}
		return all, nil
	}
	want, err := logits(data + "test.csv")
	if err != nil {
		t.Fatal(err)
	}
	got, err := logits(changed("test.csv", slices.Reverse[[]string]))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("with other columns first, %v", err)
	}
	_, err = logits(changed("test.csv", func(row []string) { row[0] = strings.Replace(row[0], "mean radius", "radius", 1) }))
	if err == nil || errors.As(err, new(*RecordError)) || !strings.Contains(err.Error(), `no column "mean radius"`) {
		t.Errorf("without a column: %v", err)
	}
}
