//go:build unix

package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// A few kills of testdata/faults, at least one of them after a periodic checkpoint, from which the next run resumes.
func TestKilledRunsAreResumed(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "run", "./faults", "-kills", "4", "-examples", "12000", "-only", "calibrate --resume")
	cmd.Dir = "../../testdata"
	out, err := cmd.CombinedOutput()
	// Columns: kills, before the output existed and after, with a checkpoint and while writing one, resumed.
	row := regexp.MustCompile(`(?m)^calibrate --resume +(\d+) +\d+ +\d+ +(\d+) +\d+ +(\d+) `).FindSubmatch(out)
	if err != nil || row == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, want := range []int{4, 1, 1} {
		if n, _ := strconv.Atoi(string(row[i+1])); n < want {
			t.Errorf("column %d is %d, want at least %d:\n%s", i, n, want, out)
		}
	}
}
