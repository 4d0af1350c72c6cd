//go:build unix

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// A few of the kills of testdata/faults, which has many.
func TestKilledRunsAreGoneOnWith(t *testing.T) {
	cmd := exec.Command("go", "run", "./testdata/faults", "-kills", "3", "-examples", "6000", "-only", "calibrate --resume")
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "kills\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
