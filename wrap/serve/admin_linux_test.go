package serve_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mfgs/mfgs/wrap/serve"
)

// getFrom sends a request from an address of this machine.
func getFrom(t *testing.T, from, url string, headers ...string) (int, string, error) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := http.Client{Transport: &http.Transport{DialContext: d.DialContext}, Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	request, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(headers) > 0 {
		request.Host = headers[0]
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// A client that opens as many connections as it can locks nobody out, neither from HTTP nor from Admin.
func TestOneClientCannotLockOutOthers(t *testing.T) {
	t.Parallel()
	const each, flood = 128, 1024
	r := start(t, serve.Config{
		Bundles: []serve.Bundle{{Dir: digits(t)}}, Admin: "127.0.0.1:0", Token: "secret", MaxPerClient: each,
	})
	closed := make(chan error, flood)
	for range flood {
		c, err := net.Dial("tcp", r.HTTPAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			_, err := c.Read(make([]byte, 1))
			closed <- err
		}()
	}
	for range flood - each {
		select {
		case err := <-closed:
			if err != io.EOF {
				t.Fatalf("a connection beyond the limit reads %v, want the end", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("connections beyond the limit are open")
		}
	}
	admin := "http://" + r.AdminAddr().String()
	for _, c := range []struct {
		from, url string
		code      int
		says      string
	}{
		{"127.0.0.2", r.url + "/v2/health/live", 200, `"live":true`},
		{"127.0.0.1", admin + "/v2/health/live", 200, `"live":true`},
		{"127.0.0.1", admin + "/v2/health/ready", 200, `"ready":true`},
		{"127.0.0.1", admin + "/metrics", 200, `mfgs_bundle_info{`},
		{"127.0.0.1", admin + "/v1/models", 404, "there is no GET /v1/models"},
	} {
		code, body, err := getFrom(t, c.from, c.url)
		if err != nil || code != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%s from %s: %d, %v, %.200q", c.url, c.from, code, err, body)
		}
	}
	if code, _, err := getFrom(t, "127.0.0.1", r.url+"/v2/health/live"); err == nil {
		t.Errorf("one that has its connections gets %d on another", code)
	}
	if code, _, err := getFrom(t, "127.0.0.1", admin+"/metrics", "evil.example"); code != 403 {
		t.Errorf("a request for another name: %d, %v", code, err)
	}
}

// Admin answers without TLS, and reports during shutdown that the server is not ready, until the process ends.
func TestAdminAnswersToTheLast(t *testing.T) {
	t.Parallel()
	mode := modes(t)["TLS"]
	s, err := serve.New(t.Context(), serve.Config{
		Bundles: []serve.Bundle{{Dir: digits(t)}}, HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0", TLS: mode.server,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	url := "http://" + s.AdminAddr().String()
	if code, _, err := getFrom(t, "127.0.0.1", url+"/v2/health/ready"); code != 200 {
		t.Fatal(code, err)
	}
	idle, err := net.Dial("tcp", s.HTTPAddr().String()) // shutdown waits for it
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	cancel()
	begun := time.Now()
	for ; ; time.Sleep(time.Millisecond) {
		code, _, err := getFrom(t, "127.0.0.1", url+"/v2/health/ready")
		if code == 503 {
			break
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal("ready at the end: ", code, err)
		}
	}
	last := begun // when it answered
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			// Shutdown waits for two seconds, and closes Admin last.
			if last.Sub(begun) < time.Second {
				t.Errorf("live for %v of an end of %v", last.Sub(begun), time.Since(begun))
			}
			return
		default:
		}
		if code, _, err := getFrom(t, "127.0.0.1", url+"/v2/health/live"); code == 200 {
			last = time.Now()
		} else if code != 0 {
			t.Fatal("live at the end: ", code, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
