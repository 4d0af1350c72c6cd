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
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/realdata"
	"github.com/mfgs/mfgs/internal/testerr"
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

// endsWithContext checks that a pass over more than 10 examples ends with its context.
func endsWithContext(t *testing.T, d *Dataset) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range d.Examples(ctx) {
		if last = err; err == nil {
			n++
		}
		if n == 10 {
			cancel()
		}
	}
	if n != 10 || last != context.Canceled {
		t.Errorf("%d examples, then %v", n, last)
	}
	if _, err := d.Fingerprint(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Fingerprint: %v", err)
	}
}

// A textCase is a text file and what is read of it: the examples, as summed up, and the messages of
// bad records; or the message of the error.
type textCase struct {
	name      string
	text      string
	options   Options
	want, bad []string
	err       string
}

// check writes the text into a file and reads it.
func (c *textCase) check(t *testing.T, file, format string, ragged bool, sum func(Example) string) {
	t.Helper()
	path := write(t, t.TempDir(), file, []byte(c.text))
	if c.err != "" {
		testerr.OneLine(t, readError(path, c.options), file, c.err)
		return
	}
	d, err := Open(t.Context(), path, c.options)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	examples, bad := all(t, d)
	var got []string
	for _, e := range examples {
		got = append(got, sum(e))
	}
	if !slices.Equal(got, c.want) {
		t.Errorf("got %q, want %q", got, c.want)
	}
	if len(bad) != len(c.bad) {
		t.Fatalf("bad records %q, want %q", bad, c.bad)
	}
	for i, err := range bad {
		testerr.OneLine(t, err, c.bad[i])
	}
	if d.Ragged() != ragged || !d.IsText() || d.Format() != format || d.Len() != len(got)+len(bad) {
		t.Errorf("%s of %d, ragged %t, text %t", d.Format(), d.Len(), d.Ragged(), d.IsText())
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
