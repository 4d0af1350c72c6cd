package serve

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"golang.org/x/sync/semaphore"
)

// A body holds what was sent, after the bytes that align it, however it arrives and whatever its reused memory held
// before; and no more memory is held than is reserved.
func TestReusedBuffersHoldWhatWasSent(t *testing.T) {
	t.Parallel()
	beyond := errors.New("too many bytes")
	failed := func(err error) error { return err }
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		sent := make([]byte, random.IntN(1<<random.IntN(19)))
		for j := range sent {
			sent[j] = byte(random.Uint32())
		}
		pad, expected, limit := random.IntN(8), int64(0), int64(1<<18)
		if i%2 == 0 {
			expected = int64(len(sent))
		}
		if i%5 == 0 {
			limit = int64(random.IntN(len(sent) + 2))
		}
		in := iotest.DataErrReader(bytes.NewReader(sent))
		if i%3 == 0 {
			in = iotest.HalfReader(bytes.NewReader(sent))
		}
		const all = 1 << 30
		memory := &reservation{of: semaphore.NewWeighted(all), limit: all}
		got, err := readAll(in, pad, expected, limit, beyond, memory, failed)
		if int64(len(sent)) > limit {
			if !errors.Is(err, beyond) {
				t.Fatalf("%d bytes, where %d may be: %v", len(sent), limit, err)
			}
			continue
		}
		if err != nil || !bytes.Equal(got[pad:], sent) {
			t.Fatalf("%d bytes behind %d are read as %d, %v", len(sent), pad, len(got)-pad, err)
		}
		if int64(cap(got)) != memory.held {
			t.Fatalf("%d bytes are held for a body, and %d counted", cap(got), memory.held)
		}
		bodies.give(got)
	}
}
