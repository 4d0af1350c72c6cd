//go:build unix

package featurize

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// fullDiskEnv names the folder in which the test binary, started once more, may
// write no file of more than 4 KiB.
const fullDiskEnv = "FEATURIZE_TEST_FULL_DISK"

func init() { helpers[fullDiskEnv] = streamOnFullDisk }

func TestAFullDiskEndsTheCacheAndNotThePass(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	labelled(t, dir, 600) // 600 rows of 10 numbers
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fullDiskEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cache := filepath.Join(dir, "cache")
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		failed, rows, found := strings.Cut(line, ": file too large, ")
		if i > 1 || !found || !strings.HasPrefix(failed, "features cache: write "+cache) || rows != "600 rows, <nil>" {
			t.Errorf("pass %d: %q", i, line)
		}
	}
	if left := entries(t, cache); len(left) > 0 {
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
	images := filepath.Join(dir, "x-images-idx3-ubyte")
	ds, err := dataset.Open(context.Background(), images, dataset.Options{})
	if err != nil {
		panic(err)
	}
	for range 2 { // new files go to a draft, old ones to a partial file
		var failed []error
		n := 0
		cache := &Cache{Dir: filepath.Join(dir, "cache"), Failed: func(err error) { failed = append(failed, err) }}
		_, err = pass(context.Background(), e.Rows, ds, StreamConfig{Cache: cache}, func(b *rows.Batch) error {
			for i, at := range b.Positions {
				if at != n+i {
					panic("rows are missing")
				}
			}
			n += b.N
			return nil
		})
		fmt.Printf("%v, %d rows, %v\n", errors.Join(failed...), n, err)
		past := time.Now().Add(-time.Hour)
		if err := os.Chtimes(images, past, past); err != nil {
			panic(err)
		}
	}
}
