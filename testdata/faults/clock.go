//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// clockVariable holds the clock error of a process in seconds, from its start and from some nanoseconds later on:
// "BEFORE LATER NANOSECONDS". libfaketime has no effect on Go programs, which do not use libc for the time, so
// the program is built with a modified package time.
const clockVariable = "MFGS_FAULTS_CLOCK"

// wrongClock is added to package time.
const wrongClock = `package time

import "syscall"

var clockBefore, clockLater, clockAt = readClock()

func readClock() (before, later, at int64) {
	s, _ := syscall.Getenv("` + clockVariable + `")
	var n [3]int64
	for i := range n {
		word := s
		for j := range len(s) {
			if s[j] == ' ' {
				word = s[:j]
				break
			}
		}
		s = s[min(len(s), len(word)+1):]
		x, err := atoi(word)
		if err != nil {
			return 0, 0, 0
		}
		n[i] = int64(x)
	}
	return n[0], n[1], n[2]
}

func clockError(mono int64) int64 {
	if mono-startNano < clockAt {
		return clockBefore
	}
	return clockLater
}
`

// build builds the program, with clock errors if clock is set.
func (h *harness) build(clock bool) error {
	args := []string{"build", "-C", "..", "-ldflags", "-w -X github.com/mfgs/mfgs/wrap/calibration.checkpointEvery=" + every, "-o", h.mfgs}
	if clock {
		overlay, err := h.overlay()
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	if out, err := exec.Command("go", append(args, "./cmd/mfgs")...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %s", err, out)
	}
	return nil
}

// overlay writes a package time with clock errors, and the overlay file for the go command.
func (h *harness) overlay() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", err
	}
	const reads = "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {"
	if strings.Count(string(text), reads) != 1 {
		return "", fmt.Errorf("time.Now of %s is another: change what clock.go looks for", source)
	}
	changed := strings.Replace(string(text), reads, strings.Replace(reads, "\n", "\n	sec += clockError(mono)\n", 1), 1)
	replace := map[string]string{}
	for name, content := range map[string]string{"time.go": changed, "clock_error.go": wrongClock} {
		path := filepath.Join(h.dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(source, name)] = path
	}
	document, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(h.dir, "overlay.json")
	return path, os.WriteFile(path, document, 0o644)
}

// jump returns a clock error that changes once within a duration, by up to ten days: more than the age at which
// abandoned files are removed.
func (h *harness) jump(within time.Duration) string {
	errors := []int{0, 0, -1, 2, -7200, 7200, -10 * 86400, 10 * 86400}
	pick := func() int { return errors[h.rng.IntN(len(errors))] }
	return fmt.Sprint(pick(), pick(), int64(h.rng.Float64()*float64(within)))
}
