package inbound

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
)

const all = 1 << 30 // bytes of memory

// counterOf returns a counter of so much memory.
func counterOf(memory, most int64) *Counter {
	return New(semaphore.NewWeighted(memory), most, slog.New(slog.DiscardHandler))
}

// open returns a connection whose preface has come, and its client's end.
func open(t testing.TB, k *Counter) (*conn, net.Conn) {
	t.Helper()
	client, server := net.Pipe()
	c, _, err := k.Credentials(insecure.NewCredentials()).Clone().ServerHandshake(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); client.Close() })
	counted := c.(*conn)
	if !counted.received(make([]byte, preface)) {
		t.Fatal("closed by the preface")
	}
	return counted, client
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	f := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(binary.BigEndian.AppendUint32(append(f, flags), stream), payload...)
}

func begin(stream uint32) []byte { return frame(typeHeaders, 0, stream, []byte("head")) }
func end(stream uint32) []byte   { return frame(typeHeaders, flagEnd, stream, nil) }

// of gives frames to another stream.
func of(stream uint32, all []byte) []byte {
	for f := all; len(f) > 0; f = f[9+int(binary.BigEndian.Uint32(f)>>8):] {
		binary.BigEndian.PutUint32(f[5:], stream)
	}
	return all
}

// messageOf is one of gRPC, of size bytes.
func messageOf(size int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), make([]byte, size)...)
}

// data is a message in frames of n bytes.
func data(stream uint32, message []byte, n int) []byte {
	var out []byte
	for len(message) > 0 {
		m := min(n, len(message))
		out = append(out, frame(typeData, 0, stream, message[:m])...)
		message = message[m:]
	}
	return out
}

// taken is how much of the memory is.
func taken(k *Counter, of int64) int64 {
	var n int64
	for step := of; step > 0; step /= 2 {
		for k.memory.TryAcquire(step) {
			n += step
		}
	}
	k.memory.Release(n)
	return of - n
}

func TestTheCostOfFramesMatchesTheTransport(t *testing.T) {
	pool := mem.DefaultBufferPool()
	for n := 1; n <= 1<<14; n++ {
		took := n
		if !mem.IsBelowBufferPoolingThreshold(n) {
			b := pool.Get(n)
			took = cap(*b)
			pool.Put(b)
		}
		if cost(n) < int64(took) || cost(n) > int64(took)+256 {
			t.Fatalf("a frame of %d bytes costs %d, and takes %d", n, cost(n), took)
		}
	}
}

// A twin remembers all of what a stream sent.
type twin struct {
	sent   []byte
	frames []int // lengths of their data
	costs  []int64
}

// unfinished reads all messages from the beginning, to find what is of one that is not whole.
func (w *twin) unfinished() int64 {
	whole := 0 // bytes of whole messages
	for len(w.sent)-whole >= prefix {
		size := prefix + int(binary.BigEndian.Uint32(w.sent[whole+1:]))
		if len(w.sent)-whole < size {
			break
		}
		whole += size
	}
	var held int64
	end := 0
	for i, n := range w.frames {
		if end += n; end > whole {
			held += w.costs[i]
		}
	}
	if held <= free {
		return 0
	}
	return held
}

// Exactly the received bytes of incomplete messages are counted, however messages are cut into frames and these into
// reads, and nothing remains of ended streams and connections.
func TestOnlyIncompleteMessagesAreCounted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		k := counterOf(all, all)
		c, _ := open(t, k)
		twins, next := map[uint32]*twin{}, uint32(1)
		pass := func(to func([]byte), p []byte) {
			for len(p) > 0 {
				n := 1 + random.IntN(len(p))
				to(p[:n])
				p = p[n:]
			}
		}
		receive := func(p []byte) { c.received(p) }
		pending := map[uint32][]byte{}
		for range 60 {
			switch id := 1 + 2*random.Uint32N(next/2+1); random.IntN(8) {
			case 0:
				pass(receive, begin(next))
				twins[next] = &twin{}
				next += 2
			case 1:
				pass(receive, frame(typeReset, 0, id, make([]byte, 4)))
				delete(twins, id)
			case 2:
				pass(c.sent, end(id))
				delete(twins, id)
			case 3:
				pass(c.sent, frame(typeData, 0, id, make([]byte, 100)))
			default:
				if len(pending[id]) == 0 {
					for range 1 + random.IntN(3) {
						pending[id] = append(pending[id], messageOf(random.IntN(1<<random.IntN(18)))...)
					}
				}
				n := min(1+random.IntN(1<<14), len(pending[id]))
				part, flags, payload := pending[id][:n], byte(0), pending[id][:n]
				if random.IntN(3) == 0 && n < 1<<14-256 {
					pad := byte(random.Uint32())
					flags, payload = flagPadded, append(append([]byte{pad}, part...), make([]byte, pad)...)
				}
				pass(receive, frame(typeData, flags, id, payload))
				if w := twins[id]; w != nil {
					w.sent, w.frames = append(w.sent, part...), append(w.frames, n)
					w.costs = append(w.costs, cost(len(payload)))
					pending[id] = pending[id][n:]
				} else {
					pending[id] = nil
				}
			}
			var want int64
			for _, w := range twins {
				want += w.unfinished()
			}
			if got := k.Unfinished(); got != want {
				t.Fatalf("round %d: %d bytes are unfinished, and %d counted", round, want, got)
			}
			if took := taken(k, all); took < want {
				t.Fatalf("round %d: %d bytes are taken for %d", round, took, want)
			}
		}
		for id := range twins {
			c.sent(end(id))
		}
		if k.Unfinished() != 0 || taken(k, all) != 0 || len(c.streams) != 0 || len(c.whole) != 0 {
			t.Fatalf("round %d: all streams have ended, and there are %d bytes unfinished, %d taken", round, k.Unfinished(), taken(k, all))
		}
	}
}

// The counts of a connection that always has a call under way do not drift: ended calls leave nothing, whether
// answered or cancelled, and the connection is never closed for them.
func TestAMillionCallsLeaveNothing(t *testing.T) {
	k := counterOf(1<<20, 1<<20)
	c, _ := open(t, k)
	const calls = 1_000_000
	large := messageOf(100_000)
	usual := append(begin(0), data(0, messageOf(300), 1<<14)...)
	whole := append(begin(0), data(0, large, 1<<14)...)
	broken := append(begin(0), data(0, large[:50_000], 1<<14)...)
	broken = append(broken, frame(typeReset, 0, 0, make([]byte, 4))...)
	ended := end(0)
	c.received(begin(1))
	for i := uint32(1); i <= calls; i++ {
		call := usual
		switch i % 1000 {
		case 0:
			call = whole
		case 1:
			call = broken
		}
		if !c.received(of(2*i+1, call)) {
			t.Fatalf("call %d: the connection is closed", i)
		}
		c.sent(of(2*i-1, ended)) // so that this one, or the last, is always under way
	}
	c.sent(end(2*calls + 1))
	if k.Unfinished() != 0 || taken(k, 1<<20) != 0 || len(c.streams) != 0 {
		t.Errorf("%d bytes are unfinished, %d taken, %d streams open", k.Unfinished(), taken(k, 1<<20), len(c.streams))
	}
}

// If incomplete messages exceed their bound, the connection with most of them is closed, whichever sent the last bytes.
// The log reports it, but not each time.
func TestTheConnectionWithMostIsClosed(t *testing.T) {
	var log bytes.Buffer
	k := New(semaphore.NewWeighted(all), 1<<20, slog.New(slog.NewTextHandler(&log, nil)))
	begun := messageOf(1 << 22)
	for range 3 {
		large, client := open(t, k)
		gone := make(chan struct{})
		go func() { // as the transport does
			_, _ = io.Copy(io.Discard, large)
			large.Close()
			close(gone)
		}()
		small, _ := open(t, k)
		if _, err := client.Write(append(begin(1), data(1, begun[:700<<10], 1<<14)...)); err != nil {
			t.Fatal(err)
		}
		if !small.received(append(begin(1), data(1, begun[:500<<10], 1<<14)...)) {
			t.Error("the smaller one is closed")
		}
		<-gone
		if n := k.Unfinished(); n < 500<<10 || n > 600<<10 {
			t.Errorf("%d bytes are counted when the larger one is closed", n)
		}
		small.Close()
	}
	only, _ := open(t, k)
	if only.received(append(begin(1), data(1, begun[:2<<20], 1<<14)...)) {
		t.Error("the only one is not closed")
	}
	only.Close()
	if k.Unfinished() != 0 || taken(k, all) != 0 {
		t.Errorf("%d bytes are unfinished, %d taken", k.Unfinished(), taken(k, all))
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("the log has %d lines: %s", n, &log)
	}
}

// If requests have all the memory, a message waits a while for some.
func TestAMessageWaitsForMemory(t *testing.T) {
	k := counterOf(1<<20, 1<<20)
	c, _ := open(t, k)
	begun := append(begin(1), data(1, messageOf(1 << 22)[:100<<10], 1<<14)...)
	if !k.memory.TryAcquire(1 << 20) {
		t.Fatal("no memory")
	}
	time.AfterFunc(50*time.Millisecond, func() { k.memory.Release(1 << 20) })
	if !c.received(begun) {
		t.Error("closed, though there is memory soon")
	}
	c.Close()
	if !k.memory.TryAcquire(1 << 20) {
		t.Fatal("memory is left taken")
	}
	c, _ = open(t, k)
	before := time.Now()
	if c.received(begun) || time.Since(before) < patience {
		t.Errorf("without memory it is closed after %v", time.Since(before))
	}
}

// Take returns what was counted for a message, once, and nothing of others.
func TestCompleteMessagesAreTakenOver(t *testing.T) {
	k := counterOf(all, all)
	c, _ := open(t, k)
	ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: info{conn: c}})
	if Take(t.Context(), 100_000) != 0 || Take(ctx, 100_000) != 0 {
		t.Error("messages are taken before any has come")
	}
	c.received(append(begin(1), data(1, messageOf(100_000), 1<<14)...))
	c.received(append(begin(3), data(3, messageOf(1000), 1<<14)...))
	counted := taken(k, all)
	if k.Unfinished() != 0 || counted < 90_000 {
		t.Errorf("%d bytes are unfinished and %d counted of a message that is whole", k.Unfinished(), counted)
	}
	if n := Take(ctx, 1000) + Take(ctx, 99_999); n != 0 {
		t.Errorf("%d bytes are handed over for a small message, and one that there is not", n)
	}
	if n := Take(ctx, 100_000); n != counted {
		t.Errorf("%d bytes are handed over, and %d were counted", n, counted)
	}
	if n := Take(ctx, 100_000); n != 0 {
		t.Errorf("%d bytes are handed over twice", n)
	}
	c.sent(end(1))
	if taken(k, all) != counted {
		t.Error("what was taken over is given back by the connection")
	}
}

// FuzzFrames: the counts do not depend on how bytes are split into reads, and everything is released at the end.
func FuzzFrames(f *testing.F) {
	f.Add(append(begin(1), data(1, messageOf(50_000), 1<<14)...), end(1))
	f.Add(append(begin(1), frame(typeData, flagPadded, 1, []byte{200, 0, 0, 0})...), frame(typeReset, 0, 1, nil))
	f.Add(append(begin(1), data(1, messageOf(0), 3)...), []byte(nil))
	f.Fuzz(func(t *testing.T, in, out []byte) {
		k, slow := counterOf(all, all), counterOf(all, all)
		c, _ := open(t, k)
		d, _ := open(t, slow)
		c.received(in)
		for i := range in {
			d.received(in[i : i+1])
		}
		if k.Unfinished() != slow.Unfinished() || taken(k, all) != taken(slow, all) {
			t.Fatalf("%d and %d bytes are counted", k.Unfinished(), slow.Unfinished())
		}
		c.sent(out)
		c.Close()
		if k.Unfinished() != 0 || taken(k, all) != 0 || len(k.conns) != 0 {
			t.Fatalf("%d bytes are left", taken(k, all))
		}
	})
}
