package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
)

// lines are n examples, each of the number that it is labelled with.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"x\":[%d],\"label\":%d}\n", i, i)
	}
	return b.String()
}

// streamed opens what r holds as standard input.
func streamed(t testing.TB, spec string, r io.Reader, o Options) *Dataset {
	t.Helper()
	o.Stream = NewStream(r, stdinPath)
	d, err := Open(t.Context(), spec, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// indices reads the positions from one to before another.
func indices(t testing.TB, d *Dataset, from, to int) (got []int) {
	t.Helper()
	for e, err := range d.Between(t.Context(), from, to) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Index)
	}
	return got
}

// Standard input gives the examples of a file with the same bytes, however they arrive, except that its length is
// unknown.
func TestStreamIsAFileOfUnknownLength(t *testing.T) {
	t.Parallel()
	text := lines(2500)
	file, err := Open(t.Context(), write(t, t.TempDir(), "x.jsonl", []byte(text)), Options{Classes: 2500})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want, _ := all(t, file)
	fingerprints := map[string]string{}
	for name, r := range map[string]io.Reader{
		"-":       strings.NewReader(text),
		"jsonl:-": iotest.HalfReader(iotest.DataErrReader(strings.NewReader(text))),
		"gzipped": bytes.NewReader(gzipped(t, []byte(text))),
	} {
		spec := name
		if name == "gzipped" {
			spec = "-"
		}
		d := streamed(t, spec, r, Options{Classes: 2500})
		if d.Len() != -1 || !d.HasLabels() || d.Format() != "jsonl" || d.Path() != "-" {
			t.Errorf("%s: %d examples of %s, labelled %t", name, d.Len(), d.Format(), d.HasLabels())
		}
		if _, err := d.Fingerprint(t.Context()); err == nil {
			t.Errorf("%s: a fingerprint before it is read", name)
		}
		got, bad := all(t, d)
		for i := range got {
			got[i].Name = "x.jsonl" + strings.TrimPrefix(got[i].Name, "-")
		}
		if len(bad) > 0 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %d examples, %v; want the %d of the file", name, len(got), bad, len(want))
		}
		if fingerprints[name], err = d.Fingerprint(t.Context()); err != nil {
			t.Error(err)
		}
		for _, err := range d.Examples(t.Context()) {
			if !errors.Is(err, errReadTwice) {
				t.Errorf("%s: a second pass: %v", name, err)
			}
		}
	}
	if a, b := fingerprints["-"], fingerprints["jsonl:-"]; a != b || a == fingerprints["gzipped"] {
		t.Errorf("fingerprints %v; want those of equal bytes equal", fingerprints)
	}
}

// The beginning of a stream can be read again until a pass has read on to its end, even after opening it again.
func TestBeginningOfAStreamIsReadAgain(t *testing.T) {
	t.Parallel()
	in := NewStream(strings.NewReader(lines(3000)), stdinPath)
	for _, unlabelled := range []bool{false, true} {
		d, err := Open(t.Context(), "-", Options{Stream: in, Unlabelled: unlabelled})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 700, 3} {
			if got := indices(t, d, 0, n); len(got) != n || got[n-1] != n-1 {
				t.Errorf("the first %d are %v", n, got)
			}
		}
	}
	d, err := Open(t.Context(), "-", Options{Stream: in})
	if err != nil {
		t.Fatal(err)
	}
	_, end := d.Range()
	got := indices(t, d, 2990, end) // those before it are dropped
	if want := []int{2990, 2991, 2992, 2993, 2994, 2995, 2996, 2997, 2998, 2999}; !slices.Equal(got, want) {
		t.Errorf("from 2990 on: %v", got)
	}
	if in.kept != nil {
		t.Error("the beginning is kept after the last pass")
	}
	whole := streamed(t, "-", strings.NewReader(lines(3000)), Options{})
	all(t, whole)
	a, errA := d.Fingerprint(t.Context())
	b, errB := whole.Fingerprint(t.Context())
	if errA != nil || errB != nil || a != b {
		t.Errorf("fingerprints %s, %v and %s, %v; want that of all that was read", a, errA, b, errB)
	}
}

// Shards that are streams have disjoint, ascending positions.
func TestStreamIsItsShard(t *testing.T) {
	t.Parallel()
	for index, want := range map[int]int{1: 0, 2: StreamPositions, 7: 6 * StreamPositions} {
		d := streamed(t, "-", strings.NewReader(lines(2)), Options{Shard: rows.Shard{Index: index, Count: 7}})
		from, to := d.Range()
		if got := indices(t, d, from, to); !slices.Equal(got, []int{want, want + 1}) || from != want {
			t.Errorf("shard %d has positions %v", index, got)
		}
	}
}

func TestStreamRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ spec, text, want string }{
		{"-", "", "nothing comes on standard input"},
		{"-", "hello", "format not recognised: want one of"},
		{"npz:-", "PK", "npz cannot be streamed"},
		{"-[0:3]", lines(5), "a stream has no slices"},
		{"jsonl:-[:3]", lines(5), "a stream has no slices"},
		{"mp3:-", "x", `unknown format "mp3"`},
		{"jsonl:-", "\n\n", "holds no examples: it has no lines"},
		{"-", "{\"x\":1,\"label\":[1]}\n", "label is a list"},
		{"-", "\x1f\x8bxx", "-: "},
	} {
		d, err := Open(t.Context(), c.spec, Options{Stream: NewStream(strings.NewReader(c.text), stdinPath)})
		if err == nil {
			d.Close()
			t.Errorf("%s of %q is opened", c.spec, c.text)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %q: %v; want %q", c.spec, c.text, err, c.want)
		}
	}
	if _, err := OpenFeatures("-", Options{}); err == nil || !strings.Contains(err.Error(), "cannot be streamed") {
		t.Errorf("features of -: %v", err)
	}
}

// A stream that breaks off is an error, not a shorter stream.
func TestStreamBreaksOff(t *testing.T) {
	t.Parallel()
	broken := errors.New("the wire is cut")
	d := streamed(t, "-", io.MultiReader(strings.NewReader(lines(3)), iotest.ErrReader(broken)), Options{})
	n, last := 0, error(nil)
	for _, err := range d.Examples(t.Context()) {
		if n++; err != nil {
			last = err
		}
	}
	if n != 4 || !errors.Is(last, broken) {
		t.Errorf("%d examples, the last of them %v", n, last)
	}
	if _, err := d.Fingerprint(t.Context()); err == nil {
		t.Error("a fingerprint of half a stream")
	}
}

// Who gives up does not wait for what may never come.
func TestACanceledReaderDoesNotWaitForTheStream(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer w.Close()
	go io.WriteString(w, lines(1))
	d := streamed(t, "-", r, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var last error
	for _, err := range d.Examples(ctx) {
		last = err
	}
	if !errors.Is(last, context.DeadlineExceeded) {
		t.Errorf("given up: %v", last)
	}
	if _, err := Open(ctx, "-", Options{Stream: NewStream(r, stdinPath)}); !errors.Is(err, ctx.Err()) {
		t.Errorf("given up while it is opened: %v", err)
	}
}
