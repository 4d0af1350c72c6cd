package rows

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
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

var end = End{Fingerprint: "f00d", Labelled: true, Bad: []string{"x.npy[3]: a bad record"}}

// stored writes examples, and an end unless it is nil. It returns the length behind every segment
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
	for i := range b.N {
		if err := w.Add(b.Slice(i, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if e != nil {
		if err := w.End(*e); err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes(), edges
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func opened(data []byte) (*Store, error) { return Open(bytes.NewReader(data), int64(len(data))) }

func all(t testing.TB, s Source) (*Batch, Stats) {
	t.Helper()
	got := &Batch{}
	stats, err := s.Stream(context.Background(), func(b *Batch) error {
		got.Append(b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, stats
}

func TestAStoreIsTheSourceThatWasStored(t *testing.T) {
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
		got, stats := all(t, s)
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(stats, Stats{Examples: want.N, Bad: end.Bad,
			Cached: true}) {
			t.Errorf("%s: other examples came, or %+v", name, stats)
		}
		if len(edges) != 1+4+1 { // head, blocks 0, 1, 2 and 9, end
			t.Errorf("%s: %d segments", name, len(edges))
		}
	}
}

// However it was cut off, what was whole before is there.
func TestACutStoreKeepsItsWholeBlocks(t *testing.T) {
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
		if got, _ := all(t, s); n != got.N || n > 0 && !reflect.DeepEqual(got, want.Slice(0, n)) {
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

func TestAStreamOfAStoreEndsWhenItIsTold(t *testing.T) {
	data, _ := stored(t, examples(positions(0, 2*BlockSize)...), &end)
	s, err := opened(data)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	for _, yield := range []func(*Batch) error{
		func(*Batch) error { return stop },
		func(*Batch) error { cancel(stop); return nil },
	} {
		if _, err := s.Stream(ctx, yield); err != stop {
			t.Errorf("error %v, want %v", err, stop)
		}
	}
}

// FuzzOpen reads whatever comes.
func FuzzOpen(f *testing.F) {
	data, _ := stored(f, examples(3, 4, BlockSize), &end)
	f.Add(data)
	f.Add([]byte(strings.Repeat("\x00", 16)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := opened(data)
		if err != nil {
			return
		}
		got, stats := all(t, s)
		if got.N != s.Len() || stats.Examples != got.N || got.N*(s.Features()+s.Logits())*4 > len(data) {
			t.Errorf("%d examples of %d bytes, want %d", got.N, len(data), s.Len())
		}
	})
}
