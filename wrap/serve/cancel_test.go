package serve_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/wrap/serve"
)

// metrics returns the answer to GET /metrics.
func metrics(t *testing.T, s *serve.Server) string {
	t.Helper()
	request := httptest.NewRequest("GET", "/metrics", nil)
	request.Host = "localhost"
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, request)
	if w.Code != http.StatusOK {
		t.Fatalf("/metrics: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// failures returns how many requests for digits failed, by reason.
func failures(t *testing.T, s *serve.Server) map[string]int {
	t.Helper()
	all := map[string]int{}
	for line := range strings.Lines(metrics(t, s)) {
		var n int
		rest, ok := strings.CutPrefix(line, `nv_inference_request_failure{model="digits",reason="`)
		reason, count, _ := strings.Cut(rest, `",version="1"} `)
		if !ok {
			continue
		}
		if _, err := fmt.Sscan(count, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if n > 0 {
			all[reason] = n
		}
	}
	return all
}

// A request that the client stops sending counts as canceled; an invalid one does not.
func TestRequestsThatBreakOffAreCanceled(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	for _, path := range []string{"/v2/models/digits/infer", "/v1/predict"} {
		r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: dir}}})
		want := map[string]int{}
		for _, c := range []struct{ name, rest, reason string }{
			{"a body", "Content-Length: 100\r\n\r\n{", "CANCELED"},
			{"a body of which nothing came", "Content-Length: 100\r\n\r\n", "CANCELED"},
			{"a chunk", "Transfer-Encoding: chunked\r\n\r\n64\r\n{", "CANCELED"},
			{"chunks", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "CANCELED"},
			{"a packed body", "Content-Encoding: gzip\r\nContent-Length: 100\r\n\r\n\x1f\x8b", "CANCELED"},
			{"a body packed by deflate", "Content-Encoding: deflate\r\nContent-Length: 100\r\n\r\n\x78", "CANCELED"},
			{"a wrong chunk", "Transfer-Encoding: chunked\r\n\r\nZZ\r\n", "OTHER"},
			{"a whole body that is packed in part", "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b", "OTHER"},
			{"half an object", "Content-Length: 1\r\n\r\n{", "OTHER"},
		} {
			for _, reset := range []bool{false, true} {
				if reset && c.name != "a body" {
					continue
				}
				conn, err := net.Dial("tcp", r.HTTPAddr().String())
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s", path, c.rest)
				if reset {
					eventually(t, "the server has begun to read", func() bool { return r.Taken() > 0 })
					_ = conn.(*net.TCPConn).SetLinger(0)
				}
				if err := conn.Close(); err != nil {
					t.Fatal(err)
				}
				want[c.reason]++
				eventually(t, fmt.Sprintf("%s %s is counted, %v", path, c.name, want), func() bool {
					return fmt.Sprint(failures(t, r.Server)) == fmt.Sprint(want)
				})
			}
		}
	}
}

func TestRequestsThatBreakOffAreCanceledInHTTP2(t *testing.T) {
	t.Parallel()
	a := &authority{t: t, dir: t.TempDir()}
	cert, key := a.sign("server")
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, TLS: serve.TLS{CertFile: cert, KeyFile: key}})
	for i, connection := range []bool{false, true} { // which closes, or the stream alone
		var conn net.Conn
		client := http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
			DialContext: func(ctx context.Context, network, address string) (_ net.Conn, err error) {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return conn, err
			},
		}}
		defer client.CloseIdleConnections()
		body, half := io.Pipe()
		var posting sync.WaitGroup
		posting.Go(func() {
			answer, err := client.Post("https://"+r.HTTPAddr().String()+"/v2/models/digits/infer", "application/json", body)
			if err == nil {
				answer.Body.Close()
				t.Errorf("answered %s", answer.Status)
			}
		})
		_, _ = io.WriteString(half, "{")
		eventually(t, "the server has begun to read", func() bool { return r.Taken() > 0 })
		if connection {
			conn.Close()
		}
		half.CloseWithError(io.ErrClosedPipe)
		posting.Wait()
		eventually(t, "it is counted", func() bool {
			return fmt.Sprint(failures(t, r.Server)) == fmt.Sprintf("map[CANCELED:%d]", i+1)
		})
	}
}

// A body that comes too late counts as canceled by the client.
func TestBodiesThatComeTooLateAreCanceled(t *testing.T) {
	t.Parallel()
	s, err := serve.New(t.Context(), serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	late := io.MultiReader(strings.NewReader("{"), iotest.ErrReader(os.ErrDeadlineExceeded))
	request := httptest.NewRequest("POST", "http://localhost/v2/models/digits/infer", late)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, request)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "did not arrive in time") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := fmt.Sprint(failures(t, s)); got != "map[CANCELED:1]" {
		t.Errorf("counted as %s", got)
	}
}

// In gRPC too, a request whose client leaves counts as canceled. An incomplete one names no model.
func TestCallsThatBreakOffAreCanceled(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	_, _, end := r.attack(insecure.NewCredentials(), 1, 1, 1<<20)
	eventually(t, "the message comes in part", func() bool { return r.Unfinished() > 1<<19 })
	end()
	eventually(t, "it is gone", func() bool { return r.Unfinished() == 0 && r.Taken() == 0 })
	if got := failures(t, r.Server); len(got) > 0 {
		t.Errorf("a message that is not whole counts as %v", got)
	}
	c := pb.NewGRPCInferenceServiceClient(r.dial())
	large := message(t, 1500, 1501)
	large.Inputs[0].Shape[0] = 20_000
	large.RawInputContents[0] = make([]byte, 20_000*64*4)
	after := time.Millisecond
	eventually(t, "a call is canceled", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(after, cancel)
		after = min(2*after, time.Second)
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := c.ModelInfer(ctx, large); err != nil && status.Code(err) != codes.Canceled {
				t.Errorf("call %d: %v", i, err)
			}
		}
		return failures(t, r.Server)["CANCELED"] > 0
	})
	if got := failures(t, r.Server); len(got) > 1 {
		t.Errorf("calls that are canceled count as %v", got)
	}
}

// Requests that are not done when the drain is over are cut off, and Run returns an error.
func TestRequestsAreCutOffAfterTheDrain(t *testing.T) {
	t.Parallel()
	s, err := serve.New(t.Context(), serve.Config{
		Bundles: []serve.Bundle{{Dir: digits(t)}}, HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Drain: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	conn, err := net.Dial("tcp", s.HTTPAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	eventually(t, "the server has begun to read", func() bool { return s.Taken() > 0 })
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "still in progress after 50ms were cut off") {
		t.Errorf("Run: %v", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is left open")
	}
}
