//go:build unix

package main

import (
	"context"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
	"time"
)

// A SIGHUP does not end a server that is still loading bundles, and Go's memory limit is set once they are loaded.
func TestServeTakesASIGHUPWhileItLoads(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	defer func() { debug.SetMemoryLimit(limit); debug.SetGCPercent(percent) }()
	dir := filepath.Join(t.TempDir(), "b")
	data := "../../models/digits-mlp/"
	if code, _, errs := invoke(t.Context(), "calibrate", "--model", data+"model.onnx",
		"--train", data+"digits-images-idx3-ubyte.gz[0:300]", "--val", data+"digits-images-idx3-ubyte.gz[1200:1500]",
		"--damping", "rel:1", "--out", dir); code != 0 {
		t.Fatal(errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address := freeAddress(t)
	args := []string{"serve", "--http", address, "--grpc", "none"}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		args = append(args, "--bundle", name+"="+dir)
	}
	ended := make(chan int)
	go func() {
		code, _, _ := invoke(ctx, args...)
		ended <- code
	}()
	deadline := time.Now().Add(20 * time.Second)
	for {
		c, err := net.Dial("tcp", address) // which is open before bundles are loaded
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	ready, err := http.Get("http://" + address + "/v2/health/ready")
	if err != nil || ready.StatusCode != http.StatusOK {
		t.Errorf("ready: %v, %v", ready, err)
	}
	if limit := debug.SetMemoryLimit(-1); limit == math.MaxInt64 || limit < 512<<20 {
		t.Errorf("the heap may have %d bytes", limit)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("it ended with %d", code)
	}
}
