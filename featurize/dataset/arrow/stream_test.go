package arrow

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// A stream on standard input has the same examples as a file, however its bytes arrive, except that its length is
// unknown. Its fingerprint does not depend on how they arrive.
func TestStreamsOnStandardInput(t *testing.T) {
	t.Parallel()
	sums := map[string]string{}
	for _, name := range []string{"hf.arrows", "plain.arrows", "lz4.arrow", "grown.arrows", "binary.arrow"} {
		content, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		o := dataset.Options{Inputs: []string{"kind"}}
		if name[0] == 'h' || name[0] == 'b' {
			o = dataset.Options{LabelClasses: []string{"cat", "dog", "emu"}}
		}
		want := readAll(t, name, o)
		for spec, r := range map[string]io.Reader{
			"-": bytes.NewReader(content), "arrow:-": iotest.OneByteReader(bytes.NewReader(content)),
		} {
			o.Stream = dataset.NewStream(r, "-")
			d, err := dataset.Open(t.Context(), spec, o)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			defer d.Close()
			if d.Len() != -1 || !d.HasLabels() || d.Format() != "arrow" {
				t.Errorf("%s: %d examples, labels %t, of format %s", name, d.Len(), d.HasLabels(), d.Format())
			}
			for e, err := range d.Between(t.Context(), 0, 1) { // which the pass begins with
				if err != nil || e.Name != "-[0]" {
					t.Errorf("%s: %s, %v", name, e.Name, err)
				}
			}
			n := 0
			for e, err := range d.Examples(t.Context()) {
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				e.Name = strings.Replace(e.Name, "-", name, 1)
				if n >= len(want) || !reflect.DeepEqual(e, want[n]) {
					t.Fatalf("%s: example %d is %v, want %v", name, n, e, want[n])
				}
				n++
			}
			sum, err := d.Fingerprint(t.Context())
			if err != nil || n != len(want) || sums[name] != "" && sums[name] != sum {
				t.Errorf("%s: %d examples, want %d; fingerprint %s, %v", name, n, len(want), sum, err)
			}
			sums[name] = sum
		}
	}
}

// The error of a stream that ends within a message or between two says so, and other data are refused.
func TestStreamsThatEnd(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/table.arrows")
	if err != nil {
		t.Fatal(err)
	}
	open := func(content []byte) (*dataset.Dataset, error) {
		o := dataset.Options{Unlabelled: true, Stream: dataset.NewStream(bytes.NewReader(content), "-")}
		return dataset.Open(t.Context(), "arrow:-", o)
	}
	// Within a message, and between the last one and the mark of 8 bytes after it.
	for missing, want := range map[int]error{100: errCut, 8: errNoEnd} {
		d, err := open(content[:len(content)-missing])
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var last error
		for _, err := range d.Examples(t.Context()) {
			last = err
		}
		if last == nil || !strings.HasPrefix(last.Error(), "-: ") || !errors.Is(last, want) {
			t.Errorf("without %d bytes: %v, want -: %v", missing, last, want)
		}
	}
	for want, content := range map[string][]byte{
		"-: arrow/ipc: could not read message schema: a broken message": []byte("{\"x\": [1]}\n{\"x\": [2]}\n"),
		"is cut off": content[:100],
	} {
		if _, err := open(content); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// Who gives up does not wait for more.
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w := io.Pipe()
	go w.Write(content[:len(content)-100])
	d, err := dataset.Open(t.Context(), "-", dataset.Options{Stream: dataset.NewStream(r, "-")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var last error
	gone := errors.New("gone")
	cancel(gone)
	for _, err := range d.Examples(ctx) {
		last = err
	}
	if !errors.Is(last, gone) {
		t.Errorf("%v, want %v", last, gone)
	}
}

// A read error, anywhere in a stream or file, is not reported as a truncation.
func TestReadErrorsAreNotReportedAsTruncation(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/table.arrows")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("input/output error")
	for n := range len(content) - 1 {
		for _, seek := range []func() error{nil, func() error { return nil }} {
			m := &messageReader{memo: &room{}, seek: seek,
				r: io.MultiReader(bytes.NewReader(content[:n]), iotest.ErrReader(broken))}
			var err error
			for err == nil {
				_, err = m.Message()
			}
			if !errors.Is(err, broken) {
				t.Fatalf("after %d bytes: %v, want %v", n, err, broken)
			}
		}
	}
}

// One batch of a stream or a file is in memory at a time: here some megabytes of half a gigabyte.
func TestMemoryIsThatOfABatch(t *testing.T) {
	const batches, size = 512, 1 << 20
	schema := arrow.NewSchema([]arrow.Field{{Name: "image", Type: arrow.BinaryTypes.Binary}}, nil)
	column := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	column.Append(make([]byte, size))
	batch := array.NewRecordBatch(schema, []arrow.Array{column.NewArray()}, 1)
	r, w := io.Pipe()
	go func() {
		stream := ipc.NewWriter(w, ipc.WithSchema(schema))
		for range batches {
			if err := stream.Write(batch); err != nil {
				w.CloseWithError(err)
				return
			}
		}
		w.CloseWithError(stream.Close())
	}()
	d, err := dataset.Open(t.Context(), "-", dataset.Options{Stream: dataset.NewStream(r, "-")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n, most, before := 0, int64(0), heap()
	for e, err := range d.Examples(t.Context()) {
		if err != nil || len(e.Encoded) != size {
			t.Fatalf("example %d: %v", n, err)
		}
		if n++; n%64 == 0 {
			most = max(most, heap()-before)
		}
	}
	if n != batches || most > 64*size {
		t.Errorf("%d examples of %d took %d bytes", n, batches, most)
	}
}
