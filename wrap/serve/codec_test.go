package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"runtime"
	"testing"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/oip/inference"
)

// received is a message as a handler has it.
func received(t *testing.T, raw []byte, packed bool) *inference.ModelInferRequest {
	t.Helper()
	if packed {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(raw)
		_ = z.Close()
		var err error
		if raw, err = (keepPacked{}).Do(&b); err != nil {
			t.Fatal(err)
		}
	}
	m := &inference.ModelInferRequest{}
	if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMessagesAreReadWithinTheMemoryOfRequests(t *testing.T) {
	const most = 1 << 20
	s := &Server{
		config:   Config{MaxBody: most, InFlight: 4 * most},
		inFlight: semaphore.NewWeighted(4 * most), limits: oip.Limits{Bytes: most},
	}
	right, err := proto.Marshal(&inference.ModelInferRequest{
		ModelName: "m", Id: "q", RawInputContents: [][]byte{make([]byte, 5000)},
	})
	if err != nil {
		t.Fatal(err)
	}
	field := func(number, n int, value string) []byte { // n times
		return bytes.Repeat(append([]byte{byte(number<<3 | 2), byte(len(value))}, value...), n)
	}
	small := string(bytes.Repeat([]byte{1}, 100))
	numbers := func(field byte) []byte { // in the contents of an input, one byte each
		body := append([]byte{field<<3 | 2, 0x80, 0x80, 0x20}, make([]byte, 1<<19)...)
		contents := append([]byte{5<<3 | 2, 0x84, 0x80, 0x20}, body...)
		return append([]byte{5<<3 | 2, 0x88, 0x80, 0x20}, contents...)
	}
	for _, c := range []struct {
		name string
		raw  []byte
		want oip.Status
	}{
		{"a right one", right, oip.OK},
		{"none", nil, oip.OK},
		{"no message", []byte{1, 2, 3}, oip.Invalid},
		{"one that ends early", right[:len(right)-1], oip.Invalid},
		{"much of nothing", make([]byte, 64<<20), oip.TooLarge},
		{"many empty inputs", field(5, 400_000, ""), oip.TooLarge},
		{"many empty outputs", field(6, 400_000, ""), oip.TooLarge},
		{"many parameters", field(4, 200_000, "\x0a\x01a"), oip.TooLarge},
		{"many empty contents", field(7, 400_000, ""), oip.TooLarge},
		{"many parameters of an input", field(5, 1, string(field(4, 60, ""))), oip.OK},
		{"many numbers", numbers(3), oip.TooLarge}, // eight bytes each
		{"a message in a field", field(5, 1, small), oip.Invalid},
	} {
		for _, packed := range []bool{false, true} {
			if c.name == "much of nothing" && !packed {
				continue // more than is received
			}
			m := received(t, c.raw, packed)
			memory := s.newReservation()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := s.read(context.Background(), m, &memory)
			runtime.ReadMemStats(&after)
			if oip.StatusOf(err) != c.want {
				t.Errorf("%s, packed %v: %v", c.name, packed, err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 8*most {
				t.Errorf("%s, packed %v: takes %d bytes", c.name, packed, took)
			}
			if c.name == "a right one" && got.GetId() != "q" {
				t.Errorf("%s, packed %v: %v", c.name, packed, got)
			}
			memory.release()
		}
	}
	if !s.inFlight.TryAcquire(4 * most) {
		t.Error("memory is not given back")
	}
	s.inFlight.Release(4 * most)
	broken := received(t, right, true)
	raw := broken.ProtoReflect().GetUnknown()
	broken.ProtoReflect().SetUnknown(raw[:len(raw)/2])
	memory := s.newReservation()
	if _, err := s.read(context.Background(), broken, &memory); oip.StatusOf(err) != oip.Invalid {
		t.Errorf("a packed message that ends early: %v", err)
	}
}
