package dataset

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/realdata"
)

// write puts a file into dir and returns its path.
func write(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	z.Write(b)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// idx makes an IDX file of bytes.
func idx(data []byte, dims ...int) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, data...)
}

// ramp is 0, 1, 2, … as bytes.
func ramp(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// all reads a dataset. Records that fail are kept with their error.
func all(t testing.TB, d *Dataset) (examples []Example, bad []error) {
	t.Helper()
	for e, err := range d.Examples(context.Background()) {
		var re *RecordError
		switch {
		case errors.As(err, &re):
			bad = append(bad, err)
		case err != nil:
			t.Fatal(err)
		default:
			examples = append(examples, e)
		}
	}
	return examples, bad
}

// readError opens and reads spec and returns the error met on the way.
func readError(spec string, o Options) error {
	d, err := Open(context.Background(), spec, o)
	if err != nil {
		return err
	}
	defer d.Close()
	for e, err := range d.Examples(context.Background()) {
		if err != nil {
			return err
		}
		if err := e.Decode(); err != nil {
			return err
		}
	}
	return nil
}

// wantError checks that err is one line holding all the words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not name %q", err, w)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("%q is not one line", err)
	}
}

// sharedData returns a file of the real data.
func sharedData(t testing.TB, path string) string {
	t.Helper()
	return filepath.Join(realdata.Dir(t), path)
}

// key sums up an example for comparison.
func key(e Example) string {
	s := fmt.Sprintf("%d %s %d %x", e.Index, e.Name, e.Label, e.Encoded)
	if e.Targets != nil {
		s += fmt.Sprint(" ", e.Targets)
	}
	for _, a := range e.Inputs {
		s += fmt.Sprintf(" %q %v %s %v", a.Name, a.Shape, a.Layout, a.Data)
	}
	return s
}
