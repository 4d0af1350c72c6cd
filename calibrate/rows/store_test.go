package rows

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// examples makes examples at some positions of a source.
func examples(positions ...int) *Batch {
	b := &Batch{}
	for _, p := range positions {
		x := float32(p)
		b.Append(&Batch{N: 1, Positions: []int{p}, Features: []float32{x, -x, x / 2}, Logits: []float32{x, 1},
			Labels: []int{p%3 - 1}, Targets: []uint8{uint8(p % 2), 1}})
	}
	return b
}

func positions(from, to int) (p []int) {
	for i := from; i < to; i++ {
		p = append(p, i)
	}
	return p
}

var end = End{Fingerprint: "f00d", Labelled: true}

// bad are the records of examples that are left out.
var bad = []Bad{{3, "x.npy[3]: a bad record"}, {700, "x.npy[700]: another"}, {1 << 20, "x.npy[1048576]: the last"}}

func messages(bad []Bad) []string { return (&Stats{Bad: bad}).Messages() }

// stored writes examples, and an end unless it is nil. It returns the length after every segment
// too.
func stored(t testing.TB, b *Batch, e *End) (data []byte, edges []int) {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter(writerFunc(func(p []byte) (int, error) {
		buf.Write(p)
		edges = append(edges, buf.Len())
		return len(p), nil
	}), map[string]string{"model": "a model"})
	if err != nil {
		t.Fatal(err)
	}
	addFrom(t, w, b, 0)
	if e != nil {
		if err := w.End(*e); err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes(), edges
}

// addFrom adds those of some examples, and of the bad records, that lie at a position or after it.
func addFrom(t testing.TB, w *Writer, b *Batch, position int) {
	t.Helper()
	left := bad
	tell := func(before int) {
		for ; len(left) > 0 && left[0].Position < before; left = left[1:] {
			if left[0].Position >= position {
				w.Bad(left[0])
			}
		}
	}
	for i := range b.N {
		if b.Positions[i] < position {
			continue
		}
		tell(b.Positions[i])
		if err := w.Add(b.Slice(i, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	tell(1 << 40)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func opened(data []byte) (*Store, error) { return Open(bytes.NewReader(data), int64(len(data))) }

func all(t testing.TB, s *Store) *Batch {
	t.Helper()
	got := &Batch{}
	for b, err := range s.Blocks(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		got.Append(b)
	}
	return got
}

func TestAStoreIsTheSourceThatWasStored(t *testing.T) {
	t.Parallel()
	full := examples(append(positions(100, 1100), 5000, 5003)...)
	labels, unlabelled := *full, *full
	labels.Targets = nil
	unlabelled.Labels, unlabelled.Targets = nil, nil
	for name, want := range map[string]*Batch{"all": full, "labels": &labels, "neither": &unlabelled} {
		data, edges := stored(t, want, &end)
		s, err := opened(data)
		if err != nil {
			t.Fatal(err)
		}
		if s.Features() != 3 || s.Logits() != 2 || s.Len() != want.N || !s.Labelled() || s.Fingerprint() != "f00d" ||
			s.Metadata()["model"] != "a model" {
			t.Errorf("%s: %d features, %d logits, %d examples, fingerprint %q of %q", name, s.Features(), s.Logits(), s.Len(), s.Fingerprint(), s.Metadata())
		}
		if got := all(t, s); !reflect.DeepEqual(got, want) || !slices.Equal(messages(s.Bad()), messages(bad)) {
			t.Errorf("%s: other examples came, or the bad records %v", name, s.Bad())
		}
		if len(edges) != 1+4+1 { // head, blocks 0, 1, 2 and 9, end
			t.Errorf("%s: %d segments", name, len(edges))
		}
	}
}

// Wherever a store is cut off, its complete blocks can be read.
func TestACutStoreKeepsItsWholeBlocks(t *testing.T) {
	t.Parallel()
	want := examples(positions(0, 3*BlockSize+5)...)
	data, edges := stored(t, want, &end)
	blocks := edges[1 : len(edges)-1]
	rng := rand.New(rand.NewPCG(1, 1))
	check := func(data []byte, upTo int, what string, at int) {
		t.Helper()
		s, err := opened(data)
		if upTo < edges[0] {
			if !errors.Is(err, ErrStore) || s != nil {
				t.Fatalf("%s %d: %v", what, at, err)
			}
			return
		}
		if err != nil || s.End() != nil || s.Fingerprint() != "" {
			t.Fatalf("%s %d: %v, end %v", what, at, err, s.End())
		}
		n := 0
		for _, e := range blocks {
			if e <= upTo {
				n = min(want.N, n+BlockSize)
			}
		}
		if got := all(t, s); n != got.N || n > 0 && !reflect.DeepEqual(got, want.Slice(0, n)) {
			t.Fatalf("%s %d: %d examples, want %d", what, at, got.N, n)
		}
	}
	for range 60 {
		at := rng.IntN(len(data))
		check(data[:at], at, "cut at", at)
		damaged := bytes.Clone(data)
		damaged[at] ^= 1 << rng.IntN(8)
		check(damaged, at, "damaged at", at)
	}
	for _, at := range edges[:len(edges)-1] {
		check(data[:at], at, "cut at", at)
	}
	check(append(bytes.Clone(data), 0), len(data)-1, "followed by a byte", len(data))
	if whole, err := opened(data); err != nil || whole.End() == nil {
		t.Errorf("the whole: %v", err)
	}
}

// A store that cannot be read is not taken for one that is cut off, which would be continued.
func TestAStoreThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	data, _ := stored(t, examples(positions(0, 2*BlockSize+5)...), &end)
	broken := errors.New("input/output error")
	for reads := 0; ; reads++ {
		left := reads
		s, err := Open(readerAtFunc(func(p []byte, off int64) (int, error) {
			if left--; left < 0 {
				return 0, broken
			}
			return bytes.NewReader(data).ReadAt(p, off)
		}), int64(len(data)))
		if left >= 0 && err == nil && s.End() != nil && reads > 10 {
			return // all was read
		}
		if !errors.Is(err, broken) || errors.Is(err, ErrStore) {
			t.Fatalf("where read %d fails: %v, want %v", reads, err, broken)
		}
	}
}

type readerAtFunc func(p []byte, off int64) (int, error)

func (f readerAtFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// A writer that continues from complete blocks writes the same bytes, wherever the first was interrupted.
func TestAStoreGoesOnWhereItWasCutOff(t *testing.T) {
	t.Parallel()
	want := examples(append(positions(100, 1100), 5000, 5003)...)
	data, edges := stored(t, want, &end)
	goOn := func(torn []byte, at int) {
		t.Helper()
		s, err := opened(torn)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range s.Bad() {
			for _, l := range bad {
				if l.Message == m.Message && (l.Position >= s.Next() || Block(l.Position) > Block(m.Position)) {
					t.Errorf("cut at %d: %v is reported as %v, before position %d", at, l, m, s.Next())
				}
			}
		}
		again := bytes.NewBuffer(bytes.Clone(torn[:s.Size()]))
		w := s.Append(again)
		addFrom(t, w, want, s.Next())
		if err := w.End(end); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Bytes(), data) {
			t.Errorf("cut at %d: other bytes", at)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		at := edges[0] + rng.IntN(len(data)-edges[0])
		goOn(data[:at], at)
		damaged := bytes.Clone(data)
		damaged[at] ^= 1 << rng.IntN(8)
		goOn(damaged, at)
	}
	for _, at := range edges[:len(edges)-1] {
		goOn(data[:at], at)
	}
}

func TestNothingIsAppendedToAWholeStore(t *testing.T) {
	t.Parallel()
	data, _ := stored(t, examples(3), &end)
	s, err := opened(data)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("it is appended to")
		}
	}()
	s.Append(new(bytes.Buffer))
}

func TestBlocksOfAStoreEndWithTheContext(t *testing.T) {
	t.Parallel()
	data, _ := stored(t, examples(positions(0, 2*BlockSize)...), &end)
	s, err := opened(data)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var errs []error
	for _, err := range s.Blocks(ctx) {
		errs = append(errs, err)
		cancel(stop)
	}
	if len(errs) != 2 || errs[0] != nil || errs[1] != stop {
		t.Errorf("errors %v, want that of the context after the first block", errs)
	}
}

// FuzzOpen reads any bytes, and continues from them.
func FuzzOpen(f *testing.F) {
	data, edges := stored(f, examples(3, 4, BlockSize), &end)
	f.Add(data)
	f.Add(data[:edges[1]+7])
	bare := examples(3, 4, BlockSize)
	bare.Features = nil
	without, ends := stored(f, bare, &end)
	f.Add(without)
	f.Add(without[:ends[1]+7])
	f.Add([]byte(strings.Repeat("\x00", 16)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := opened(data)
		if err != nil {
			return
		}
		got := all(t, s)
		if got.N != s.Len() || got.N*(s.Features()+s.Logits())*4 > len(data) {
			t.Errorf("%d examples of %d bytes, want %d", got.N, len(data), s.Len())
		}
		if s.Size() > int64(len(data)) || got.N > 0 && Block(got.Positions[got.N-1]) != Block(s.Next()-1) {
			t.Errorf("%d of %d bytes, and position %d", s.Size(), len(data), s.Next())
		}
		if s.End() != nil {
			return
		}
		// Complete blocks are continued, and can be read again.
		again := bytes.NewBuffer(bytes.Clone(data[:s.Size()]))
		w := s.Append(again)
		if s.Logits() > 0 && Block(s.Next()) < MaxBlocks {
			more := &Batch{N: 1, Positions: []int{s.Next()}, Features: make([]float32, s.Features()),
				Logits: make([]float32, s.Logits())}
			if err := w.Add(more); err != nil {
				t.Fatal(err)
			}
			got.N++
		}
		if err := w.End(end); err != nil {
			t.Fatal(err)
		}
		whole, err := opened(again.Bytes())
		if err != nil || whole.End() == nil || whole.Len() != got.N {
			t.Errorf("%v: %d examples, want %d and an end", err, whole.Len(), got.N)
		}
	})
}

// What has logits alone, such as the outputs of a forest, is stored like any other.
func TestAStoreMayHaveNoFeatures(t *testing.T) {
	t.Parallel()
	want := examples(positions(100, 100+2*BlockSize)...)
	want.Features = nil
	data, edges := stored(t, want, &end)
	s, err := opened(data)
	if err != nil {
		t.Fatal(err)
	}
	if s.Features() != 0 || s.Logits() != 2 || s.Len() != want.N || s.Fingerprint() != "f00d" {
		t.Errorf("%d features, %d logits, %d examples, fingerprint %q", s.Features(), s.Logits(), s.Len(), s.Fingerprint())
	}
	same := func(got *Batch, n int) bool {
		of := want.Slice(0, n)
		return got.N == n && len(got.Features) == 0 && slices.Equal(got.Logits, of.Logits) &&
			slices.Equal(got.Labels, of.Labels) && slices.Equal(got.Targets, of.Targets) &&
			slices.Equal(got.Positions, of.Positions)
	}
	if !same(all(t, s), want.N) {
		t.Error("other examples came")
	}
	// Cut off in any segment, the complete blocks are left, and the rest is appended to the same bytes.
	for i, at := range edges[1 : len(edges)-1] {
		s, err := opened(data[:at+1])
		if err != nil || s.End() != nil || s.Features() != 0 {
			t.Fatalf("cut at %d: %v, end %v", at, err, s.End())
		}
		if got := all(t, s); got.N == 0 || !same(got, got.N) {
			t.Errorf("cut after block %d: %d examples", i, got.N)
		}
		again := bytes.NewBuffer(bytes.Clone(data[:s.Size()]))
		w := s.Append(again)
		addFrom(t, w, want, s.Next())
		if err := w.End(end); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Bytes(), data) {
			t.Errorf("continued after block %d: other bytes", i)
		}
	}
}
