// Command harness measures the Go library for the scripts beside it. Each subcommand prints one JSON document: the
// seconds of each run, and peak_mib, the peak resident memory.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap"
)

var (
	model     = flag.String("model", "", "latency: the plain network")
	folder    = flag.String("bundle", "", "latency, predict, predict-features: the bundle")
	data      = flag.String("data", "", "latency: NPY whose last images are run; predict: SPEC of images; fit, predict-features: NPZ of features")
	structure = flag.String("structure", "kron", "fit: full or kron")
	only      = flag.String("only", "", "latency: plain or fused, not both")
	batch     = flag.Int("batch", 16, "examples at a time")
	runs      = flag.Int("runs", 1, "runs to time, after one that is not")
)

func main() {
	commands := map[string]func(context.Context) (map[string]any, error){
		"latency": latency, "fit": fit, "predict": predict, "predict-features": predictFeatures,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: harness latency|fit|predict|predict-features FLAGS")
		os.Exit(2)
	}
	command := commands[os.Args[1]]
	_ = flag.CommandLine.Parse(os.Args[2:]) // exits on error
	document, err := command(context.Background())
	if err == nil {
		document["peak_mib"], err = peak()
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(document)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// peak returns the kernel's VmHWM, in MiB.
func peak() (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			var kib float64
			_, err := fmt.Sscan(rest, &kib)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in /proc/self/status")
}

// timed returns the seconds that f takes.
func timed(f func() error) (float64, error) {
	start := time.Now()
	err := f()
	return time.Since(start).Seconds(), err
}

// latency alternates between the plain network and the predictor on the same batch.
func latency(ctx context.Context) (map[string]any, error) {
	m, err := onnx.Open(*model)
	if err != nil {
		return nil, err
	}
	input := m.Inputs()[0]
	shape := []int64{int64(*batch)}
	size := *batch
	for _, d := range input.Shape[1:] {
		shape, size = append(shape, d.Value), size*int(d.Value)
	}
	pixels := make([]float32, size)
	if err := tail(pixels, *data); err != nil {
		return nil, err
	}
	tensors := []wrap.Tensor{{Shape: shape, Data: pixels}}

	sides := map[string]func() error{}
	if *only != "fused" {
		if err := (&wrap.Runtime{}).Load(ctx); err != nil {
			return nil, err
		}
		graph, weights, err := m.Runnable()
		if err != nil {
			return nil, err
		}
		session, err := ort.NewSession(ort.SessionConfig{Graph: graph, Folder: weights})
		if err != nil {
			return nil, err
		}
		defer session.Close()
		sides["plain"] = func() error {
			_, err := session.Run(ctx, tensors)
			return err
		}
	}
	if *only != "plain" {
		p, err := wrap.Open(ctx, *folder, wrap.Options{Runtime: wrap.Runtime{Batch: *batch}, FreeMemory: true})
		if err != nil {
			return nil, err
		}
		defer p.Close()
		sides["fused"] = func() error {
			_, err := p.Predict(ctx, tensors)
			return err
		}
	}
	seconds := map[string]any{}
	for r := range *runs + 1 {
		order := []string{"plain", "fused"}
		if r%2 == 1 {
			slices.Reverse(order)
		}
		for _, name := range order {
			if sides[name] == nil {
				continue
			}
			t, err := timed(sides[name])
			if err != nil {
				return nil, err
			}
			if r > 0 {
				list, _ := seconds[name].([]float64)
				seconds[name] = append(list, t)
			}
		}
	}
	return seconds, nil
}

// tail fills dst from the end of a file of float32 numbers, such as an .npy.
func tail(dst []float32, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(-4*int64(len(dst)), io.SeekEnd); err != nil {
		return err
	}
	return binary.Read(f, binary.LittleEndian, dst)
}

// features reads an .npz of features and logits.
func features(ctx context.Context) (head layer.Head, phi, logits []float32, err error) {
	f, err := dataset.OpenFeatures(*data, dataset.Options{})
	if err != nil {
		return head, nil, nil, err
	}
	defer f.Close()
	head = layer.Head{Logits: f.Logits(), Features: f.Dim(), Bias: true, Link: layer.Softmax}
	for b, err := range f.Blocks(ctx, calibrate.BlockSize) {
		if err != nil {
			return head, nil, nil, err
		}
		phi, logits = append(phi, b.Features...), append(logits, b.Logits...)
	}
	return head, phi, logits, nil
}

// fit computes the posterior at damping 1 from features in memory.
func fit(ctx context.Context) (map[string]any, error) {
	debug.SetGCPercent(25) // as mfgs calibrate does
	head, phi, logits, err := features(ctx)
	if err != nil {
		return nil, err
	}
	if err := (&wrap.Runtime{}).Load(ctx); err != nil {
		return nil, err
	}
	product, err := featurize.NewProduct(0)
	if err != nil {
		return nil, err
	}
	defer product.Close()
	config := calibrate.CurvatureConfig{Head: head, Structure: calibrate.Structure(*structure), Product: product}
	one := func() error {
		all := &rows.Batch{N: len(logits) / head.Logits, Features: phi, Logits: logits}
		c, err := calibrate.NewCurvature(config, all)
		if err != nil {
			return err
		}
		_, err = c.Posterior(calibrate.Hessian, 1)
		return err
	}
	return repeat("fit", 1, one)
}

// predictFeatures predicts features in memory, in seconds per example.
func predictFeatures(ctx context.Context) (map[string]any, error) {
	head, phi, logits, err := features(ctx)
	if err != nil {
		return nil, err
	}
	p, err := wrap.Open(ctx, *folder, wrap.Options{})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	n := len(logits) / head.Logits
	return repeat("predict", n, func() error {
		for first := 0; first < n; first += *batch {
			last := min(n, first+*batch)
			part := phi[first*head.Features : last*head.Features]
			_, err := p.PredictFeatures(part, logits[first*head.Logits:last*head.Logits])
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// predict predicts a dataset from its file, in seconds per image.
func predict(ctx context.Context) (map[string]any, error) {
	p, err := wrap.Open(ctx, *folder, wrap.Options{Runtime: wrap.Runtime{Batch: *batch}})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	n := 0
	pass := func() error {
		n = 0
		for _, err := range p.PredictDataset(ctx, *data, nil) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	}
	if err := pass(); err != nil {
		return nil, err
	}
	return repeat("predict", n, pass)
}

// repeat times f after one untimed run, and divides by n.
func repeat(name string, n int, f func() error) (map[string]any, error) {
	if err := f(); err != nil {
		return nil, err
	}
	var seconds []float64
	for range *runs {
		debug.FreeOSMemory() // memory of one run must not count for the next
		t, err := timed(f)
		if err != nil {
			return nil, err
		}
		seconds = append(seconds, t/float64(n))
	}
	return map[string]any{name: seconds}, nil
}
