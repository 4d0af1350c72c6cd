//go:build !race

// The race detector takes more address space than these tests leave.

package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/install"
)

// limited runs a command line with so many KiB of address space.
func limited(t *testing.T, kib int, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	lib, err := install.Find(install.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -v %d && exec mfgs "$@"`, kib), "sh"}, args...)...)
	cmd.Env = append(os.Environ(), install.EnvLibrary+"="+lib.Path)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// Go ends with a trace of hundreds of lines and exit code 2, which means bad usage.
func TestWhatTakesTooMuchMemoryIsToldInOneLine(t *testing.T) {
	dir := t.TempDir()
	wide := filepath.Join(dir, "wide.npz")
	if err := writeWideFeatures(wide, 16, 3000); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "b")
	code, stdout, stderr := limited(t, 1900000, "calibrate", "--train-features", wide, "--val-features", wide, "--structure", "full", "--out", out)
	want := "mfgs: out of memory: this process may have 1855 MiB of address space (ulimit -v): allow more, or ask for less by --structure kron"
	if code != exitFailed || stdout != "" || !strings.HasPrefix(lastLine(stderr), want) || strings.Contains(stderr, "goroutine") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there lie %v, %v", entries, err)
	}
}

// With enough of it a limit changes nothing.
func TestALimitThatSufficesChangesNothing(t *testing.T) {
	const enough = 16000000
	if code, stdout, stderr := limited(t, enough, "--version"); code != exitDone || !strings.HasPrefix(stdout, "mfgs ") || stderr != "" {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	if code, _, stderr := limited(t, enough, "inspect", "nowhere.onnx"); code != exitFailed || !strings.HasPrefix(stderr, "mfgs: ") ||
		strings.Count(stderr, "\n") != 1 {
		t.Errorf("%d, %q", code, stderr)
	}
	if code, _, stderr := limited(t, enough, "inspect"); code != exitUsage || !strings.HasSuffix(stderr, "--help` for usage\n") {
		t.Errorf("%d, %q", code, stderr)
	}
}

// writeWideFeatures writes features of n examples of d numbers, and logits of two
// classes: their full curvature has (2d)² entries.
func writeWideFeatures(path string, n, d int) error {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, a := range []struct {
		name string
		d    int
	}{{"features", d}, {"logits", 2}, {"labels", 0}} {
		kind, shape := "<f4", fmt.Sprintf("(%d, %d)", n, a.d)
		var data any
		if a.d == 0 {
			kind, shape = "<i8", fmt.Sprintf("(%d,)", n)
			labels := make([]int64, n)
			for i := range labels {
				labels[i] = int64(i % 2)
			}
			data = labels
		} else {
			values := make([]float32, n*a.d)
			for i := range values {
				values[i] = float32(r.NormFloat64())
			}
			data = values
		}
		w, err := z.Create(a.name + ".npy")
		if err != nil {
			return err
		}
		header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kind, shape)
		header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
		w.Write([]byte{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, byte(len(header)), byte(len(header) >> 8)})
		if _, err := io.WriteString(w, header); err != nil {
			return err
		}
		if err := binary.Write(w, binary.LittleEndian, data); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	return lines[len(lines)-1]
}
