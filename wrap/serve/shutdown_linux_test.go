package serve_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap/serve"
)

// A caller makes requests until the server refuses connections.
type caller struct {
	http, grpc string      // addresses
	tls        *tls.Config // nil: none
	body       string
	message    *pb.ModelInferRequest
}

var errRefused = errors.New("no connection")

// connect opens a connection for HTTP.
func (c *caller) connect() (net.Conn, error) {
	inner, err := net.DialTimeout("tcp", c.http, 10*time.Second)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, errRefused
	}
	if err != nil || c.tls == nil {
		return inner, err
	}
	secure := tls.Client(inner, c.tls)
	return secure, secure.Handshake()
}

// ask makes a request on a connection, and reports whether the server closes it after that.
func (c *caller) ask(conn net.Conn) (last bool, err error) {
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := fmt.Fprintf(conn, "POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		len(c.body), c.body); err != nil {
		return false, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return false, err
	}
	if answer.StatusCode != http.StatusOK {
		return false, fmt.Errorf("status %d", answer.StatusCode)
	}
	return answer.Close, nil
}

// overHTTP makes at most so many requests on a new connection, and records each answer.
func (c *caller) overHTTP(most int, answered func()) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	for range most {
		last, err := c.ask(conn)
		if err != nil {
			return err
		}
		if answered(); last {
			return nil
		}
	}
	return nil
}

// overHTTP2 makes requests by a client that shares its connection.
func (c *caller) overHTTP2(client *http.Client, most int, answered func()) error {
	for range most {
		answer, err := client.Post("https://"+c.http+"/v2/models/digits/infer", "application/json", strings.NewReader(c.body))
		if errors.Is(err, syscall.ECONNREFUSED) {
			return errRefused
		}
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if err != nil || answer.ProtoMajor != 2 || answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s: %w", answer.Proto, answer.Status, err)
		}
		answered()
	}
	return nil
}

// overRPC makes requests on a new client.
func (c *caller) overRPC(ctx context.Context, most int, answered func()) error {
	secure := insecure.NewCredentials()
	if c.tls != nil {
		secure = credentials.NewTLS(c.tls)
	}
	conn, err := grpc.NewClient(c.grpc, grpc.WithTransportCredentials(secure))
	if err != nil {
		return err
	}
	defer conn.Close()
	for range most {
		_, err := pb.NewGRPCInferenceServiceClient(conn).ModelInfer(ctx, c.message)
		if err != nil && strings.Contains(err.Error(), "connect: connection refused") {
			return errRefused
		}
		if err != nil {
			return err
		}
		answered()
	}
	return nil
}

// modes are the kinds of servers, with TLS and without, and their clients' TLS configurations.
func modes(t *testing.T) map[string]struct {
	server serve.TLS
	client *tls.Config
} {
	a := &authority{t: t, dir: t.TempDir()}
	ca, _ := a.sign("ca")
	cert, key := a.sign("server")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(wraptest.Read(t, ca))
	return map[string]struct {
		server serve.TLS
		client *tls.Config
	}{"plain": {}, "TLS": {serve.TLS{CertFile: cert, KeyFile: key}, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}}}
}

// Neither clients that connect again and again nor those that keep their connections lose a request at shutdown.
func TestShutdownLosesNoRequest(t *testing.T) {
	dir := digits(t)
	for name, mode := range modes(t) {
		t.Run(name, func(t *testing.T) {
			r := start(t, serve.Config{
				Bundles: []serve.Bundle{{Name: "digits", Dir: dir}}, TLS: mode.server, Notice: 100 * time.Millisecond,
			})
			c := &caller{
				http: r.HTTPAddr().String(), grpc: r.GRPCAddr().String(), tls: mode.client,
				body: inferBody(t, "q", 1500, 1501, ""), message: message(t, 1500, 1501),
			}
			var mu sync.Mutex
			var clients sync.WaitGroup
			refused := 0
			var lost []error
			type kind struct {
				name    string
				clients int
				ask     func(answered func()) error
			}
			answered := map[string]int{}
			kinds := []kind{
				{"HTTP, new connections", 24, func(answered func()) error { return c.overHTTP(1, answered) }},
				{"HTTP, one connection", 8, func(answered func()) error { return c.overHTTP(1<<20, answered) }},
				{"gRPC, new connections", 12, func(answered func()) error { return c.overRPC(t.Context(), 1, answered) }},
				{"gRPC, one connection", 4, func(answered func()) error { return c.overRPC(t.Context(), 1<<20, answered) }},
			}
			if mode.client != nil {
				shared := &http.Transport{TLSClientConfig: mode.client.Clone(), ForceAttemptHTTP2: true}
				client := &http.Client{Transport: shared}
				kinds = append(kinds, kind{"HTTP/2", 8, func(answered func()) error {
					return c.overHTTP2(client, 1<<20, answered)
				}})
			}
			all := 0
			for _, kind := range kinds {
				all += kind.clients
				for range kind.clients {
					clients.Go(func() {
						for {
							err := kind.ask(func() {
								mu.Lock()
								answered[kind.name]++
								mu.Unlock()
							})
							mu.Lock()
							switch {
							case err == nil:
							case errors.Is(err, errRefused):
								refused++
							default:
								lost = append(lost, err)
							}
							mu.Unlock()
							if err != nil {
								return
							}
						}
					})
				}
			}
			everyKind := func() bool {
				mu.Lock()
				defer mu.Unlock()
				for _, kind := range kinds {
					if answered[kind.name] < kind.clients {
						return false
					}
				}
				return true
			}
			for deadline := time.Now().Add(20 * time.Second); !everyKind(); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Error("not every kind of client is answered")
					break
				}
			}
			if err := r.end(); err != nil {
				t.Error(err)
			}
			clients.Wait()
			if len(lost) > 0 || refused != all {
				t.Errorf("%d clients lost a request, %d of %d were refused in the end, %v answers before: %v",
					len(lost), refused, all, answered, lost)
			}
		})
	}
}

// A connection from before the shutdown is answered if its request comes soon, and closed otherwise.
func TestShutdownWaitsForFirstRequests(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	for name, mode := range modes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log written
			r := start(t, serve.Config{
				Bundles: []serve.Bundle{{Name: "digits", Dir: dir}}, TLS: mode.server,
				Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			c := &caller{http: r.HTTPAddr().String(), grpc: r.GRPCAddr().String(), body: inferBody(t, "q", 1500, 1501, "")}
			dial := func(to string) net.Conn {
				conn, err := net.Dial("tcp", to)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				return conn
			}
			fresh, used, rpc := dial(c.http), dial(c.http), dial(c.grpc)
			never := []net.Conn{dial(c.http), dial(c.grpc)}
			if mode.client != nil {
				fresh, used = tls.Client(fresh, mode.client), tls.Client(used, mode.client)
			}
			if last, err := c.ask(used); last || err != nil {
				t.Fatal(last, err)
			}
			ended := make(chan error)
			begun := time.Now()
			go func() { ended <- r.end() }()
			for log.count(`msg="shutting down"`) == 0 {
				time.Sleep(time.Millisecond)
			}
			for { // until connections are dropped or refused
				conn, err := net.DialTimeout("tcp", c.http, 50*time.Millisecond)
				if err != nil {
					break
				}
				conn.Close()
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Second)
			for what, conn := range map[string]net.Conn{"a new": fresh, "a used": used} {
				if last, err := c.ask(conn); err != nil || !last {
					t.Errorf("%s connection: %v, and closed: %v", what, err, last)
				}
			}
			secure := insecure.NewCredentials()
			if mode.client != nil {
				secure = credentials.NewTLS(mode.client)
			}
			conn, err := grpc.NewClient("passthrough:///127.0.0.1", grpc.WithTransportCredentials(secure),
				grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return rpc, nil }))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = pb.NewGRPCInferenceServiceClient(conn).ModelInfer(t.Context(), message(t, 1500, 1501))
			if err != nil {
				t.Errorf("a new connection of gRPC: %v", err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > 8*time.Second {
				t.Errorf("it ended after %v", took)
			}
			for _, conn := range never {
				_ = conn.SetReadDeadline(time.Now().Add(time.Second))
				if _, err := io.Copy(io.Discard, conn); err != nil {
					t.Errorf("a connection that asked nothing: %v, want its end", err)
				}
			}
		})
	}
}

// A client that stalls while it connects does not delay shutdown beyond Drain.
func TestHandshakesUnderWayHaveDrainAtMost(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, Drain: time.Second})
	conn, err := net.Dial("tcp", r.GRPCAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "P"); err != nil { // of gRPC's preface
		t.Fatal(err)
	}
	begun := time.Now()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it ended after %v, want about a second", took)
	}
}

// An idle HTTP/2 connection receives GOAWAY at shutdown.
func TestShutdownSendsGoAway(t *testing.T) {
	t.Parallel()
	mode := modes(t)["TLS"]
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, TLS: mode.server})
	mode.client.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", r.HTTPAddr().String(), mode.client)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// RFC 9113, 3.4 and 4.1: the preface, then SETTINGS, which are empty.
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.end() }()
	defer func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	const goAway = 7
	var head [9]byte // of a frame: its length, of three bytes, and its type
	for head[3] != goAway {
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			t.Fatalf("%v, want GOAWAY", err)
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, length); err != nil {
			t.Fatal(err)
		}
	}
}
