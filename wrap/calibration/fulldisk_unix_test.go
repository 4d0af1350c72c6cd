//go:build unix

package calibration_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mfgs/mfgs/models"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// fullDiskEnv names the folder in which the test binary, started once more, may
// write no file of more than 64 KiB: enough for the model, not for the posterior.
const fullDiskEnv = "WRAP_TEST_FULL_DISK"

func init() { helpers[fullDiskEnv] = calibrateOnFullDisk }

func TestAFullDiskLeavesNoBundle(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, models.DigitsMLP()); err != nil {
		t.Fatal(err)
	}
	before := list(t, dir)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fullDiskEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if s := string(out); !strings.Contains(s, "posterior.safetensors") || !strings.Contains(s, "file too large") || strings.Count(s, "\n") != 1 {
		t.Errorf("it says %q", s)
	}
	if left := list(t, dir); fmt.Sprint(left) != fmt.Sprint(before) {
		t.Errorf("there lie %q, before %q", left, before)
	}
}

func calibrateOnFullDisk(dir string) {
	const limit = 64 << 10
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		panic(err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	_, err := Calibrate(context.Background(), quick(Config{
		Model: path(models.DigitsModel), Train: path(models.DigitsTrain), Val: path(models.DigitsVal), Out: path("b"),
	}))
	fmt.Println(err)
}
