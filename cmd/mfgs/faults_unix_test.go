//go:build unix

package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// A few of the kills of testdata/faults, which has many: one after a periodic checkpoint at least, from which the
// next run goes on.
func TestKilledRunsAreGoneOnWith(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "run", "./faults", "-kills", "4", "-examples", "12000", "-only", "calibrate --resume")
	cmd.Dir = "../../testdata"
	out, err := cmd.CombinedOutput()
	// Kills, of these before the output was there and after, with a checkpoint and in the writing of one, resumed.
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
