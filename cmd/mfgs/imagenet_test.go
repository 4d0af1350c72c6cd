package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/realdata"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// imageNet unpacks 200 of the 1,000 validation images, and 40 of these once more, into folders named by the number of
// the class.
func imageNet(t testing.TB) (all, few string) {
	t.Helper()
	archive := filepath.Join(realdata.Dir(t), "imagenet/ilsvrc_val")
	labels, err := os.ReadFile(archive + "-labels.txt")
	if err != nil {
		t.Fatal(err)
	}
	class := map[string]string{} // by path
	for line := range strings.Lines(string(labels)) {
		fields := strings.Fields(line)
		class[fields[0]] = fields[1]
	}
	f, err := os.Open(archive + ".tar")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, few = t.TempDir(), t.TempDir()
	images := 0
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if class[h.Name] == "" {
			continue
		}
		if images++; images%5 != 0 {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		for dir, every := range map[string]int{all: 5, few: 25} {
			if images%every != 0 {
				continue
			}
			folder := filepath.Join(dir, class[h.Name])
			if err := errors.Join(os.MkdirAll(folder, 0o777),
				os.WriteFile(filepath.Join(folder, path.Base(h.Name)), data, 0o666)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all, few
}

// A published network of 1,000 classes has its known accuracy on photographs, 65 % of all 1,000: decoding, resizing and
// scaling are right.
func TestImageNetIsClassifiedWithTheKnownAccuracy(t *testing.T) {
	t.Parallel()
	realdata.Dir(t)
	test, few := imageNet(t)
	model, bundle := realdata.Dir(t)+"/models/imagenet_mobilenet_v2_1.0_224.onnx", filepath.Join(t.TempDir(), "bundle")
	decode := func(v any, args ...string) {
		t.Helper()
		code, stdout, stderr := invoke(t.Context(), append(args, "--json")...)
		if code != 0 {
			t.Fatalf("%q: exit code %d: %s", args, code, stderr)
		}
		if err := json.Unmarshal([]byte(stdout), v); err != nil {
			t.Fatal(err)
		}
	}
	// The bundle is only needed to evaluate the network.
	var r calibration.Report
	decode(&r, "calibrate", "--model", model, "--no-model", "--preprocess", "mobilenet", "--train", few, "--val", few, "--damping", "1", "--out", bundle)
	if r.Head.Features != 1280 || r.Head.Logits != 1000 || r.Structure != "kron" || r.Examples.Train != 40 {
		t.Errorf("%+v", r)
	}
	var e bench.Evaluation
	decode(&e, "eval", "--bundle", bundle, "--model", model, "--test", test, "--methods", "mle")
	if in := e.Methods[0].InDomain; in.N != 200 || !approx.Equal(1-in.Error, 0.65, 0.04) {
		t.Errorf("top-1 accuracy %.3f of %d images, want about 0.65", 1-in.Error, in.N)
	}
}
