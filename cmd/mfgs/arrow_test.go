package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	columnar "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// writeArrow writes JSON lines with an image and a label as an Arrow stream, in batches of 64.
func writeArrow(path string, lines []byte) error {
	schema := columnar.NewSchema([]columnar.Field{
		{Name: "image", Type: columnar.ListOf(columnar.ListOf(columnar.PrimitiveTypes.Float32)), Nullable: true},
		{Name: "label", Type: columnar.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema))
	all := bytes.Split(bytes.TrimSpace(lines), []byte("\n"))
	for len(all) > 0 {
		n := min(64, len(all))
		text := append(append([]byte("["), bytes.Join(all[:n], []byte(","))...), ']')
		batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, bytes.NewReader(text))
		if err != nil {
			return err
		}
		if err := w.Write(batch); err != nil {
			return err
		}
		all = all[n:]
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}

// readArrow writes the rows of an Arrow stream as JSON lines. The stream must have its end marker.
func readArrow(path, to string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r, err := ipc.NewReader(bytes.NewReader(content))
	if err != nil {
		return err
	}
	defer r.Release()
	var b bytes.Buffer
	for r.Next() {
		if err := array.RecordToJSON(r.RecordBatch(), &b); err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o666)
}

// sameAnswers compares rows of an Arrow stream with predictions in JSON, field by field: fields missing in JSON are
// null in Arrow.
func sameAnswers(rows, lines string) error {
	got, want := strings.Split(strings.TrimSpace(rows), "\n"), strings.Split(strings.TrimSpace(lines), "\n")
	if len(got) != len(want) {
		return fmt.Errorf("%d rows for %d lines", len(got), len(want))
	}
	for i := range got {
		var row, line map[string]any
		err := errors.Join(json.Unmarshal([]byte(got[i]), &row), json.Unmarshal([]byte(want[i]), &line))
		if err != nil {
			return err
		}
		for name, v := range row {
			if name != "input" && !reflect.DeepEqual(v, line[name]) {
				return fmt.Errorf("row %d: %s is %v, want %v", i, name, v, line[name])
			}
			delete(line, name)
		}
		if len(line) > 0 {
			return fmt.Errorf("row %d has nothing of %v", i, line)
		}
	}
	return nil
}
