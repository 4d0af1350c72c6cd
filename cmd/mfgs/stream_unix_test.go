//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mfgs/mfgs/internal/install"
)

// A stream is a process of mfgs predict INPUT with pipes to and from it.
type stream struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *os.File
	lines  *bufio.Scanner
	stderr strings.Builder
}

func startStream(t *testing.T, bundle, input string, args ...string) *stream {
	t.Helper()
	lib, err := install.Find(install.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{t: t, cmd: exec.Command("mfgs", append([]string{"predict", "--bundle", bundle, input}, args...)...)}
	s.cmd.Env = append(os.Environ(), install.EnvLibrary+"="+lib.Path, install.EnvNoInstall+"=1")
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s.cmd.Stdout, s.cmd.Stderr, s.out, s.lines = w, &s.stderr, out, bufio.NewScanner(out)
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		out.Close()
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
	})
	// Kill it rather than wait forever for an answer.
	if err := out.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stream) write(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, text); err != nil {
		s.t.Fatal(err)
	}
}

// next reads an answer and returns its input or error.
func (s *stream) next() (input, wrong string) {
	s.t.Helper()
	if !s.lines.Scan() {
		s.t.Fatalf("no answer: %v", s.lines.Err())
	}
	var a struct {
		Input, Error  string
		Probabilities []float64
	}
	if err := json.Unmarshal(s.lines.Bytes(), &a); err != nil || (a.Error == "") != (len(a.Probabilities) == 4) {
		s.t.Fatalf("answered %q, %v", s.lines.Text(), err)
	}
	return a.Input, a.Error
}

// wait waits for the process to end and returns its status.
func (s *stream) wait() syscall.WaitStatus {
	s.t.Helper()
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// streamBundle returns a bundle of four classes for rows of numbers, and a line of input.
func streamBundle(t *testing.T) (bundle, line string) {
	t.Helper()
	dir := t.TempDir()
	table := filepath.Join(dir, "x.csv")
	var rows strings.Builder
	rows.WriteString("a,b,c,d,e,label\n")
	for i := range 60 {
		fmt.Fprintf(&rows, "%d,%d,%d,1,%d,%d\n", i%7, i%5, i%3, i%2, i%4)
	}
	if err := os.WriteFile(table, []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	bundle = filepath.Join(dir, "b")
	code, _, stderr := invoke(t.Context(), "calibrate", "--model", filepath.Join(moduleTestdata, "gemm.onnx"), "--train", table, "--val", table, "--out", bundle)
	if code != exitDone {
		t.Fatal(stderr)
	}
	return bundle, `{"x": [1, 2, 3, 1, 0]}` + "\n"
}

func TestALongStreamIsAnsweredLineByLine(t *testing.T) {
	t.Parallel()
	bundle, line := streamBundle(t)
	s := startStream(t, bundle, "-")
	n := 0
	want := func(bad bool) {
		t.Helper()
		input, wrong := s.next()
		if input != "-["+strconv.Itoa(n)+"]" || (wrong != "") != bad {
			t.Fatalf("answer %d is %s, %q", n, input, wrong)
		}
		n++
	}
	// Each line is answered while standard input is open, bad lines too.
	for range 3 {
		s.write(line)
		want(false)
		s.write("nonsense\n")
		want(true)
	}
	thousands := func(lines int) {
		t.Helper()
		go func() {
			for range lines {
				_, _ = io.WriteString(s.in, line)
			}
		}()
		for range lines {
			want(false)
		}
	}
	thousands(3000)
	before := s.resident()
	thousands(12_000)
	if after := s.resident(); after-before > 16<<20 {
		t.Errorf("%d bytes in memory after 3,000 lines, %d after 15,000", before, after)
	}
	s.write(strings.TrimSpace(line)) // the end of the input ends the line
	s.in.Close()
	want(false)
	if s.lines.Scan() {
		t.Errorf("one more answer: %s", s.lines.Text())
	}
	if status := s.wait(); status.ExitStatus() != exitDone || s.stderr.String() != "mfgs: warning: 3 of 15,007 lines failed\n" {
		t.Errorf("status %v, %q", status, s.stderr.String())
	}
}

// resident returns the resident memory of the process in bytes, 0 if unknown.
func (s *stream) resident() int {
	s.t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	kib := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if kib == nil {
		s.t.Fatalf("no VmRSS in %s", status)
	}
	n, _ := strconv.Atoi(string(kib[1]))
	return n << 10
}

func TestAStreamEndsWithItsInputOrOutput(t *testing.T) {
	t.Parallel()
	bundle, line := streamBundle(t)

	t.Run("signal", func(t *testing.T) {
		s := startStream(t, bundle, "-")
		s.write(line)
		s.next()
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if status := s.wait(); status.ExitStatus() != exitFailed || s.stderr.String() != "mfgs: interrupted\n" {
			t.Errorf("status %v, %q", status, s.stderr.String())
		}
	})

	// Like any filter: by the signal, silently.
	t.Run("nobody reads", func(t *testing.T) {
		s := startStream(t, bundle, "-")
		s.write(line)
		s.next()
		s.out.Close()
		s.write(line)
		if status := s.wait(); !status.Signaled() || status.Signal() != syscall.SIGPIPE || s.stderr.String() != "" {
			t.Errorf("status %v, %q", status, s.stderr.String())
		}
	})

	t.Run("too many bad lines", func(t *testing.T) {
		s := startStream(t, bundle, "-", "--max-bad", "1")
		s.write("{\n" + line + "[]\n" + line)
		for i, bad := range []bool{true, false, true} {
			if input, wrong := s.next(); input != fmt.Sprintf("-[%d]", i) || (wrong != "") != bad {
				t.Fatalf("answer %d is %s, %q", i, input, wrong)
			}
		}
		const want = "mfgs: -[2]: broken JSON: want {, the begin of an object at byte 0, got \"[]\": 2 lines failed, --max-bad allows 1\n"
		if status := s.wait(); status.ExitStatus() != exitFailed || s.stderr.String() != want {
			t.Errorf("status %v, %q", status, s.stderr.String())
		}
	})

	t.Run("nothing comes", func(t *testing.T) {
		s := startStream(t, bundle, "-")
		s.in.Close()
		if status := s.wait(); status.ExitStatus() != exitDone || s.stderr.String() != "" || s.lines.Scan() {
			t.Errorf("status %v, %q", status, s.stderr.String())
		}
	})
}

// An error ends predict while standard input is open, whether readable records follow or not.
func TestTooManyBadRecordsOfAStreamAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	bundle, line := streamBundle(t)
	const bad = `{"x": ["a", "b", "c", "d", "e"]}` + "\n"
	for name, batch := range map[string]string{
		"nothing but bad ones":              strings.Repeat(bad, 4),
		"bad ones behind the last good one": line + strings.Repeat(bad, 3),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startStream(t, bundle, "jsonl:-", "--format", "jsonl", "--batch", "4", "--max-bad", "0")
			s.write(batch)
			for s.lines.Scan() {
			}
			if err := s.lines.Err(); err != nil {
				t.Fatalf("it goes on: %v", err)
			}
			if status := s.wait(); status.ExitStatus() != exitFailed || !strings.Contains(s.stderr.String(), "--max-bad") {
				t.Errorf("status %v, %q", status, s.stderr.String())
			}
		})
	}
}
