//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// timeout is the server's request timeout. late is when an answer is too late: the time for body and answer, and slack
// for a busy machine.
const (
	timeout = 5 * time.Second
	late    = 2*timeout + 20*time.Second
	maxBody = 8 << 20
)

// A server is a running mfgs serve.
type server struct {
	cmd        *exec.Cmd
	log        string // file of its standard error
	http, grpc string // addresses
	start      usage  // when it is ready
	ended      chan error
}

func startServer(program, log string, args ...string) (*server, error) {
	errs, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer errs.Close()
	s := &server{log: log, ended: make(chan error, 1)}
	if !slices.Contains(args, "--http") {
		args = append(args, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
	}
	s.cmd = exec.Command(program, append([]string{"serve",
		"--threads", "1", "--timeout", timeout.String(), "--max-body", strconv.Itoa(maxBody >> 20),
		"--watch", "50ms", "--drain", "10s"}, args...)...)
	s.cmd.Stderr = errs
	s.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=0 exitcode=66")
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for (s.http == "" || s.grpc == "") && lines.Scan() {
		line := strings.Fields(lines.Text())
		switch {
		case len(line) == 0:
		case strings.Contains(lines.Text(), "http://"):
			s.http = strings.TrimPrefix(line[len(line)-1], "http://")
		case line[0] == "gRPC":
			s.grpc = line[len(line)-1]
		}
	}
	go func() {
		for lines.Scan() {
		}
		s.ended <- s.cmd.Wait()
	}()
	if s.http == "" || s.grpc == "" {
		s.kill()
		said, _ := os.ReadFile(log)
		return nil, fmt.Errorf("mfgs serve does not serve: %s", said)
	}
	response, err := http.Get("http://" + s.http + "/v2/health/ready")
	if err != nil || response.StatusCode != http.StatusOK {
		s.kill()
		return nil, fmt.Errorf("mfgs serve is not ready: %v", err)
	}
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections() // the server would wait for requests on them
	s.start, err = s.usage()
	return s, err
}

func (s *server) kill() { _ = s.cmd.Process.Kill() }

func (s *server) hangup() error { return s.cmd.Process.Signal(syscall.SIGHUP) }

// goroutines stops the server by SIGQUIT and counts the goroutines that it dumps.
func (s *server) goroutines() (int, error) {
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return 0, err
	}
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		return 0, errors.New("the server does not end on SIGQUIT")
	}
	said, err := os.ReadFile(s.log)
	return len(regexp.MustCompile(`(?m)^goroutine [1-9]\d* `).FindAll(said, -1)), err
}

// badLines returns log lines that report races, panics or internal errors.
func (s *server) badLines() []string {
	said, err := os.ReadFile(s.log)
	if err != nil {
		return []string{err.Error()}
	}
	var bad []string
	for line := range bytes.Lines(said) {
		if bytes.HasPrefix(line, []byte("SIGQUIT")) {
			break
		}
		for _, word := range []string{"DATA RACE", `"msg":"panic`, "internal error", "panic:", "fatal error"} {
			if bytes.Contains(line, []byte(word)) {
				bad = append(bad, strings.TrimSpace(string(line)))
			}
		}
	}
	if len(bad) > 0 {
		kept := filepath.Join(os.TempDir(), "mfgs-soak.log")
		_ = os.WriteFile(kept, said, 0o644)
		bad = append(bad, "all of it is in "+kept)
	}
	return bad
}

// A usage is the resources of a process.
type usage struct {
	rss          int64 // bytes
	fds, threads int
}

func (u usage) String() string {
	return fmt.Sprintf("%4d MiB, %3d files, %2d threads", u.rss>>20, u.fds, u.threads)
}

// usage reads the server's resources from /proc.
func (s *server) usage() (u usage, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(words[1], 10, 64)
		switch words[0] {
		case "VmRSS:":
			u.rss = n << 10
		case "Threads:":
			u.threads = int(n)
		}
	}
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	u.fds = len(files)
	return u, err
}

// moreThreads is how many threads a server may gain under load: Go keeps threads used for C calls.
const moreThreads = 24

// grown returns an error if files or threads leaked.
func (u usage) grown(start usage) error {
	switch {
	case u.fds > start.fds+2:
		return fmt.Errorf("%d files are open, where there were %d", u.fds, start.fds)
	case u.threads > start.threads+moreThreads:
		return fmt.Errorf("%d threads, where there were %d", u.threads, start.threads)
	}
	return nil
}

// leaks returns an error if memory keeps growing: if its maximum in the second half of the time is far above that
// in the first, in which all kinds of requests occurred.
func leaks(rss []int64) error {
	if len(rss) < 4 {
		return nil
	}
	first, second := slices.Max(rss[:len(rss)/2]), slices.Max(rss[len(rss)/2:])
	fmt.Printf("at most %d MiB in the first half of the time, %d in the second\n", first>>20, second>>20)
	if second > first+first/4+64<<20 {
		return fmt.Errorf("memory grows from %d to %d MiB", first>>20, second>>20)
	}
	return nil
}
