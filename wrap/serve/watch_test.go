package serve_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap/serve"
)

// A bundle that cannot be loaded is tried again after pauses that double.
func TestWatchBacksOff(t *testing.T) {
	t.Parallel()
	const watch = 10 * time.Millisecond
	dir := wraptest.Copy(t, digits(t))
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Name: "d", Dir: dir}}, Watch: watch})
	failed := func() (n int) {
		_, rest, _ := strings.Cut(metrics(t, r.Server), `mfgs_bundle_load_failures_total{model="d"} `)
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	manifest := wraptest.Read(t, filepath.Join(dir, "bundle.yaml"))
	wraptest.Write(t, dir, "bundle.yaml", bytes.Replace(manifest, []byte("damping"), []byte("dumping"), 1))
	eventually(t, "it is tried", func() bool { return failed() > 0 })
	before := failed()
	// The pauses are 10 ms, 20 ms, 40 ms and so on: six of them take 630 ms.
	time.Sleep(63 * watch)
	if tried := failed() - before; tried > 8 {
		t.Errorf("it is tried %d times in %v", tried, 63*watch)
	}
	eventually(t, "it is tried again", func() bool { return failed() >= 3 })
}
