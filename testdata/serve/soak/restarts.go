//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/oip/inference"
)

// restarters are the clients of restart: their kind, number, and maximal requests per connection.
var restarters = []struct {
	kind             string
	clients, perConn int
	ask              func(*client, context.Context, int) error
}{
	{"HTTP, new connections", 24, 1, (*client).callHTTP},
	{"HTTP, connections kept", 12, 1 << 30, (*client).callHTTP},
	{"gRPC, new connections", 20, 1, (*client).callRPC},
	{"gRPC, connections kept", 8, 1 << 30, (*client).callRPC},
}

// errNoConnection reports a request that was not sent because the server was not listening.
var errNoConnection = errors.New("connection refused")

// restart stops the server by SIGTERM and starts it again and again while clients send requests. All must be answered,
// except on refused connections.
func (s *soak) restart(ctx context.Context) error {
	s.server = &server{http: unusedAddress(), grpc: unusedAddress()}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	n := 0
	for _, r := range restarters {
		for range r.clients {
			n++
			cl := s.newClient(n, nil, nil)
			group.Go(func() {
				for asking.Err() == nil {
					err := r.ask(cl, asking, r.perConn)
					if errors.Is(err, errNoConnection) {
						_ = sleep(asking, 5*time.Millisecond)
					} else if err != nil && asking.Err() == nil {
						s.tally.fail("%s: lost: %v", r.kind, err)
					}
				}
			})
		}
	}
	begun := time.Now()
	for i := range s.restarts {
		if err := s.serveOnce(asking, i); err != nil {
			return fmt.Errorf("restart %d: %w", i+1, err)
		}
		if time.Since(begun) > s.every {
			begun = time.Now()
			fmt.Printf("%d restarts; %s\n", i+1, s.tally.line())
		}
	}
	stop()
	group.Wait()
	fmt.Printf("%d restarts\n%s", s.restarts, s.tally.table())
	return nil
}

// serveOnce starts a server and stops it while it is busy.
func (s *soak) serveOnce(ctx context.Context, i int) error {
	notice := time.Duration(rand.IntN(500)) * time.Millisecond
	if i%4 == 0 {
		notice = 0
	}
	log := filepath.Join(s.dir, fmt.Sprint("log", i))
	one, err := startServer(s.program, log, append(s.bundles.args(), "--http", s.server.http, "--grpc", s.server.grpc,
		"--notice", notice.String())...)
	if err != nil {
		return err
	}
	defer one.kill()
	_ = sleep(ctx, time.Duration(200+rand.IntN(400))*time.Millisecond)
	if err := one.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-one.ended:
		if err != nil {
			return fmt.Errorf("the server ended with %w", err)
		}
	case <-time.After(60 * time.Second):
		return errors.New("the server does not end on SIGTERM")
	}
	for _, bad := range one.badLines() {
		s.tally.fail("the server says: %s", bad)
	}
	return nil
}

// unusedAddress returns a free address outside the range of ephemeral ports, which a client could take while the server
// is down.
func unusedAddress() string {
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
}

// counted counts the outcome of a request. In this mode nothing is unloaded.
func (cl *client) counted(kind string, q request, begun time.Time, r *oip.Response, err error) error {
	o, err := cl.judged(q, r, err)
	if err == nil && o == absent {
		err = errors.New("refused, as if the model were unloaded")
	}
	if err == nil {
		cl.tally.add(kind, o, len(q.of), time.Since(begun))
	}
	return err
}

// callHTTP makes at most so many consecutive requests on a new connection.
func (cl *client) callHTTP(ctx context.Context, most int) error {
	d := net.Dialer{Timeout: late}
	c, err := d.Dial("tcp", cl.server.http)
	if errors.Is(err, syscall.ECONNREFUSED) {
		cl.tally.add("HTTP", refused, 0, 0)
		return errNoConnection
	}
	if err != nil {
		return err
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	for range most {
		q, begun := cl.request(4), time.Now()
		body, length, err := q.Body(func(string) bool { return true })
		if err != nil {
			return err
		}
		_ = c.SetDeadline(time.Now().Add(late))
		if _, err := fmt.Fprintf(c, "POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s: %s\r\n\r\n%s",
			q.Model, len(body), oip.Header, length, body); err != nil {
			return err
		}
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		var answer *oip.Response
		if err = error(&refusal{response.StatusCode, string(text)}); response.StatusCode == http.StatusOK {
			answer, err = oip.ReadResponse(text, response.Header.Get(oip.Header), oip.Limits{})
		}
		if err := cl.counted("HTTP", q, begun, answer, err); err != nil || response.Close || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// callRPC makes at most so many consecutive calls with a new client.
func (cl *client) callRPC(ctx context.Context, most int) error {
	conn, err := grpc.NewClient(cl.server.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: late, Backoff: backoff.Config{
			BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: time.Millisecond,
		}}))
	if err != nil {
		return err
	}
	defer conn.Close()
	for range most {
		q, begun := cl.request(4), time.Now()
		m, err := cl.message(q)
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), late)
		got, err := inference.NewGRPCInferenceServiceClient(conn).ModelInfer(limited, m)
		cancel()
		if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "connect: connection refused") {
			cl.tally.add("gRPC", refused, 0, 0)
			if err = errNoConnection; most > 1 && ctx.Err() == nil {
				_ = sleep(ctx, 5*time.Millisecond)
				continue
			}
			return err
		}
		var answer *oip.Response
		if err == nil {
			answer, err = oip.ResponseFromProto(got, oip.Limits{})
		} else if status.Code(err) == codes.ResourceExhausted {
			err = ofRPC(err)
		}
		if err := cl.counted("gRPC", q, begun, answer, err); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}
