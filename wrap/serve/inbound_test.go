package serve_test

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	pb "github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/wrap/serve"
)

// stalled is a connection that sends a number of bytes, and then nothing.
type stalled struct {
	net.Conn
	left int
	sent *atomic.Int64
	done chan struct{} // closed when it may go on
}

func (s *stalled) Write(p []byte) (int, error) {
	n := min(s.left, len(p))
	if _, err := s.Conn.Write(p[:n]); err != nil {
		return 0, err
	}
	s.sent.Add(int64(n))
	if s.left -= n; n < len(p) {
		<-s.done
		s.Close()
		return n, net.ErrClosed
	}
	return n, nil
}

// as sends bytes as they are.
type as struct{}

func (as) Name() string { return "proto" }
func (as) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (as) Unmarshal(mem.BufferSlice, any) error { return nil }

// live returns how much memory is in use.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// attack sends calls with messages of all but the last bytes, on so many connections, and returns what was sent,
// the codes of those that have ended, and how to end the others.
func (r *running) attack(secure credentials.TransportCredentials, connections, calls, size int) (
	sent, refused *atomic.Int64, end func()) {
	sent, refused = new(atomic.Int64), new(atomic.Int64)
	done, body := make(chan struct{}), make([]byte, size)
	ctx, cancel := context.WithCancel(r.t.Context())
	var group sync.WaitGroup
	for range connections {
		var once sync.Once
		c, err := grpc.NewClient(r.GRPCAddr().String(), grpc.WithTransportCredentials(secure),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				var s net.Conn
				err := error(net.ErrClosed)
				once.Do(func() {
					if s, err = (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
						s = &stalled{s, calls*size - (calls+1)<<14, sent, done}
					}
				})
				return s, err
			}))
		if err != nil {
			r.t.Fatal(err)
		}
		for range calls {
			group.Go(func() {
				const method = pb.GRPCInferenceService_ModelInfer_FullMethodName
				err := c.Invoke(ctx, method, body, new([]byte), grpc.ForceCodecV2(as{}))
				if status.Code(err) == codes.Unavailable {
					refused.Add(1)
				}
			})
		}
		r.t.Cleanup(func() { c.Close() })
	}
	return sent, refused, func() { cancel(); close(done); group.Wait() }
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 1000 {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// A client that sends all but the last byte of many messages gets no more memory than the bound for incomplete
// messages. Others are answered meanwhile, over gRPC and HTTP, and nothing remains when the attacker has gone.
func TestIncompleteMessagesAreBounded(t *testing.T) {
	const most, all = 4 << 20, 16 << 20
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, MaxBody: most, InFlight: all})
	c := pb.NewGRPCInferenceServiceClient(r.dial())
	others := func() {
		t.Helper()
		for range 5 {
			var got inference
			r.object("POST", "/v2/models/digits/infer", inferBody(t, "", 1500, 1501, ""), &got)
			if _, err := c.ModelInfer(t.Context(), message(t, 1500, 1600)); err != nil { // of two frames
				t.Error(err)
			}
		}
	}
	others()
	before := live()

	// Exactly the bound: no connection is cut off.
	sent, refused, end := r.attack(insecure.NewCredentials(), 7, 1, 1<<20)
	eventually(t, "all is received", func() bool { return sent.Load() == 7*(1<<20-2<<14) && r.Unfinished() > 6<<20 })
	others()
	if refused.Load() != 0 || r.Unfinished() > all/2 {
		t.Errorf("%d calls are cut off, %d bytes unfinished", refused.Load(), r.Unfinished())
	}
	end()
	eventually(t, "nothing is left", func() bool { return r.Unfinished() == 0 && r.Taken() == 0 })

	// Many times as much.
	sent, refused, end = r.attack(insecure.NewCredentials(), 20, 8, most-1000)
	var largest, memory int64
	eventually(t, "the most is sent", func() bool {
		largest, memory = max(largest, r.Unfinished()), max(memory, live()-before)
		return sent.Load() > 2*all && refused.Load() > 8
	})
	others()
	if largest > all/2 || memory > 4*all {
		t.Errorf("%d bytes are unfinished, %d of memory taken, want %d at most of %d", largest, memory, all/2, sent.Load())
	}
	end()
	eventually(t, "nothing is left", func() bool { return r.Unfinished() == 0 && r.Taken() == 0 })
	others()
	t.Logf("%d bytes sent, %d unfinished at most, %d of memory, %d calls cut off", sent.Load(), largest, memory, refused.Load())
}

// Frames are counted inside TLS too.
func TestMessagesBehindTLSAreCounted(t *testing.T) {
	t.Parallel()
	a := &authority{t: t, dir: t.TempDir()}
	cert, key := a.sign("server")
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, TLS: serve.TLS{CertFile: cert, KeyFile: key}})
	secure := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}) // it is the attacker's
	_, refused, end := r.attack(secure, 7, 1, 1<<20)
	eventually(t, "all is received", func() bool { return r.Unfinished() > 6<<20 })
	end()
	eventually(t, "nothing is left", func() bool { return r.Unfinished() == 0 && r.Taken() == 0 })
	if refused.Load() != 0 {
		t.Errorf("%d calls are cut off", refused.Load())
	}
}

// Complete large messages are answered, however many are sent at a time, and nothing remains of them.
func TestLargeMessagesAreCountedOnce(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	c := pb.NewGRPCInferenceServiceClient(r.dial())
	m := message(t, 1500, 1501)
	m.Inputs[0].Shape[0] = 1000
	one := m.RawInputContents[0]
	m.RawInputContents[0] = nil
	for range 1000 {
		m.RawInputContents[0] = append(m.RawInputContents[0], one...)
	}
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			for range 2 {
				var options []grpc.CallOption
				if i%2 == 0 {
					options = append(options, grpc.UseCompressor("gzip"))
				}
				_, err := c.ModelInfer(t.Context(), m, options...)
				if err != nil && status.Code(err) != codes.ResourceExhausted {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	stream, err := c.ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if got, err := stream.Recv(); err != nil || got.GetErrorMessage() != "" {
			t.Error(got.GetErrorMessage(), err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left", func() bool { return r.Unfinished() == 0 && r.Taken() == 0 })
}
