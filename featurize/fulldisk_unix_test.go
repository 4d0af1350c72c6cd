//go:build unix

package featurize

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

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// fullDiskEnv names the folder in which the test binary, started once more, may
// write no file of more than 4 KiB.
const fullDiskEnv = "FEATURIZE_TEST_FULL_DISK"

func init() { helpers[fullDiskEnv] = streamOnFullDisk }

func TestAFullDiskLeavesNothingInTheCache(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	labelled(t, dir, 600) // 600 rows of 10 numbers
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fullDiskEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if s := string(out); !strings.Contains(s, "features cache: write ") || !strings.Contains(s, "file too large") {
		t.Errorf("it says %q", s)
	}
	if left := entries(t, filepath.Join(dir, "cache")); len(left) > 0 {
		t.Errorf("the cache holds %q", left)
	}
}

func streamOnFullDisk(dir string) {
	const limit = 4096
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		panic(err)
	}
	e, err := newExtractor("grey", Config{})
	if err != nil {
		panic(err)
	}
	ds, err := dataset.Open(context.Background(), filepath.Join(dir, "x-images-idx3-ubyte"), dataset.Options{})
	if err != nil {
		panic(err)
	}
	_, err = pass(context.Background(), e.Rows, ds, StreamConfig{Cache: &Cache{Dir: filepath.Join(dir, "cache")}},
		func(*rows.Batch) error { return nil })
	fmt.Println(err)
}
