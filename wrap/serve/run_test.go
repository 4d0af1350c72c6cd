package serve_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/serve"
)

// A written collects what several goroutines write.
type written struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(p)
}

func (w *written) count(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.all.String(), text)
}

// Waiting load requests are dropped when their clients leave, and shutdown does not wait for them.
func TestLoadsOfClientsThatLeftAreNotBegun(t *testing.T) {
	t.Parallel()
	const requests = 200
	var log written
	handler := slog.NewTextHandler(&log, nil)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, Log: slog.New(handler)})
	var all []net.Conn
	for range requests {
		c, err := net.Dial("tcp", r.HTTPAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "POST /v2/repository/models/digits/load HTTP/1.1\r\n"+
			"Host: localhost\r\nContent-Length: 0\r\n\r\n")
		all = append(all, c)
	}
	for _, c := range all {
		c.Close()
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if n := log.count("bundle loaded"); n > requests/2 {
		t.Errorf("%d bundles were loaded, of %d requests whose clients were gone", n, requests)
	}
}

// During Config.Notice, answers close their connections.
func TestAnnouncedEndsCloseConnections(t *testing.T) {
	t.Parallel()
	s, err := serve.New(t.Context(), serve.Config{
		Bundles: []serve.Bundle{{Dir: digits(t)}}, HTTP: "127.0.0.1:0", Notice: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	closes := func(path string) (int, bool) {
		response, err := http.Get("http://" + s.HTTPAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode, response.Close
	}
	if code, closed := closes("/v2"); code != 200 || closed {
		t.Errorf("before: %d, closed %v", code, closed)
	}
	cancel()
	for {
		if code, _ := closes("/v2/health/ready"); code != 200 {
			break
		}
	}
	if code, closed := closes("/v2"); code != 200 || !closed {
		t.Errorf("while it is announced: %d, closed %v", code, closed)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A bundle that could not be loaded while it was being copied is served once it is complete.
func TestWatchTriesAgain(t *testing.T) {
	t.Parallel()
	dir := wraptest.Copy(t, digits(t))
	c := wraptest.Quick(wraptest.Config(t, filepath.Join(t.TempDir(), "next")))
	c.Damping = calibrate.Damping{Relative: 10}
	wraptest.MustCalibrate(t, c)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Name: "d", Dir: dir}}, Watch: 20 * time.Millisecond})
	state := func() (sum, reason string) {
		var about struct {
			Models []struct {
				Reason string
				SHA256 string `json:"bundle_sha256"`
			}
		}
		r.object("GET", "/v1/models", "", &about)
		return about.Models[0].SHA256, about.Models[0].Reason
	}
	first, _ := state()
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	copied := func(name string) {
		data := wraptest.Read(t, filepath.Join(c.Out, name))
		if err := os.Rename(wraptest.Write(t, dir, name+".new", data), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	copied(bundle.ManifestName)
	until("the half bundle is not met", func() bool { _, reason := state(); return reason != "" })
	files, err := os.ReadDir(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != bundle.ManifestName {
			copied(f.Name())
		}
	}
	until("the whole bundle is not met", func() bool { sum, reason := state(); return sum != first && reason == "" })
}

// Without time to drain, idle connections are closed without an error.
func TestNoTimeToDrain(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, Drain: -1})
	r.dial().Connect()
	if code, _, _ := r.send("GET", "/v2", ""); code != 200 {
		t.Error(code)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// A handler needs no address.
func TestHandlerWithoutAnAddress(t *testing.T) {
	t.Parallel()
	s, err := serve.New(t.Context(), serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, GRPC: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v2/health/live", nil))
	if w.Code != http.StatusOK {
		t.Error(fmt.Sprint(w.Code), w.Body)
	}
}
