//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	format "github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// The models served. The bundle of swapped alternates with that of another network, and is corrupted; steady never
// changes; spare is unloaded and loaded.
const (
	swapped = "swapped"
	steady  = "steady"
	spare   = "spare"
)

// What an example is: an image of the digits model.
const (
	examples = 600 // that are asked about
	pixels   = 64
)

// bundles are the bundles served.
type bundles struct {
	dir     string             // holds a folder for each served model, and one for each original bundle
	made    []*bundle          // the two
	images  []byte             // [examples, pixels]
	current int                // index in made of the bundle of swapped, if it is whole
	by      map[string]*bundle // by hash
}

// A bundle is a bundle with its predictions for the examples.
type bundle struct {
	dir, sha256 string
	want        []wrap.Prediction
}

func makeBundles(ctx context.Context, dir string) (*bundles, error) {
	data := filepath.Join(dir, "data")
	if err := os.CopyFS(data, models.DigitsMLP()); err != nil {
		return nil, err
	}
	b := &bundles{dir: dir, by: map[string]*bundle{}}
	for _, name := range []string{"digits-images-idx3-ubyte.gz", "drawings-images-idx3-ubyte.gz"} {
		images, err := unzipped(filepath.Join(data, name))
		if err != nil {
			return nil, err
		}
		images = images[16:] // the header
		b.images = append(b.images, images[len(images)-examples/2*pixels:]...)
	}
	in := func(name string) string { return filepath.Join(data, name) }
	for i, damping := range []float64{1, 30} {
		one := &bundle{dir: filepath.Join(dir, fmt.Sprint("made", i))}
		model := in(fmt.Sprint("network", i, ".onnx"))
		if err := os.WriteFile(model, network(uint64(i)), 0o644); err != nil {
			return nil, err
		}
		_, err := calibration.Calibrate(ctx, calibration.Config{
			Model: model, Train: in(models.DigitsTrain), Val: in(models.DigitsVal),
			OOD: in(models.OODVal), Out: one.dir,

			Settings: format.Settings{
				Structure: calibrate.Kronecker, Limit: 300, Damping: calibrate.Damping{Relative: damping},
				Decisions: conformal.Plan{TargetCoverage: 0.8, FalseAlarm: 0.1, Alpha: 0.05},
			},
		})
		if err == nil {
			err = b.predict(ctx, one)
		}
		if err != nil {
			return nil, err
		}
		b.made = append(b.made, one)
		b.by[one.sha256] = one
	}
	for _, name := range []string{swapped, steady, spare} {
		if err := os.CopyFS(b.place(name), os.DirFS(b.made[0].dir)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func unzipped(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// predict computes a bundle's predictions for the examples.
func (b *bundles) predict(ctx context.Context, one *bundle) error {
	p, err := wrap.Open(ctx, one.dir, wrap.Options{Runtime: wrap.Runtime{Threads: 1}})
	if err != nil {
		return err
	}
	defer p.Close()
	one.sha256 = p.SHA256()
	all := make([]int, examples)
	for i := range all {
		all[i] = i
	}
	one.want, err = p.Predict(ctx, []tensor.Tensor{b.input(all)})
	return err
}

// input returns the model's input for some examples.
func (b *bundles) input(of []int) tensor.Tensor {
	data := make([]float32, 0, len(of)*pixels)
	for _, i := range of {
		for _, v := range b.images[i*pixels:][:pixels] {
			data = append(data, float32(v)/255)
		}
	}
	return tensor.Tensor{Name: "image", Shape: []int64{int64(len(of)), 1, 8, 8}, Data: data}
}

// place is the folder of a served model's bundle.
func (b *bundles) place(name string) string { return filepath.Join(b.dir, "served-"+name) }

// args are the arguments of mfgs serve.
func (b *bundles) args() []string {
	var args []string
	for _, name := range []string{swapped, steady, spare} {
		args = append(args, "--bundle", name+"="+b.place(name))
	}
	return args
}

// put replaces the bundle of swapped by one of the two, in a random way, which it returns.
func (b *bundles) put(rng *rand.Rand, which int) (string, error) {
	b.current = which
	w := ways[rng.IntN(len(ways))]
	return w.name, w.put(rng, b.place(swapped), b.made[which])
}

// damage corrupts the bundle of swapped on disk, so that it cannot be loaded, and returns how.
func (b *bundles) damage(rng *rand.Rand) (string, error) {
	dir := b.place(swapped)
	name := []string{"bundle.yaml", "model.onnx", "posterior.safetensors"}[rng.IntN(3)]
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	switch rng.IntN(4) {
	case 0:
		return "cuts " + name, os.WriteFile(path, data[:rng.IntN(len(data))], 0o644)
	case 1:
		return "removes " + name, os.Remove(path)
	case 2:
		return "removes all", os.RemoveAll(dir)
	}
	data = bytes.Clone(data)
	at := rng.IntN(len(data) - 64) // before a seal's own letters
	data[at] ^= 1 << rng.IntN(8)
	return fmt.Sprintf("changes byte %d of %s", at, name), os.WriteFile(path, data, 0o644)
}

// near reports whether two numbers are equal up to rounding, which depends on the batch size.
func near(got, want float64) bool { return math.Abs(got-want) <= 1e-4*math.Abs(want)+1e-6 }

// check compares an answer with the predictions of the bundle that it names.
func (b *bundles) check(r *oip.Response, model, id string, of []int) error {
	if r.Model != model || r.ID != id {
		return fmt.Errorf("the answer is to %q about %s, and was asked as %q about %s", r.ID, r.Model, id, model)
	}
	sum, _ := r.Parameters["bundle_sha256"].(string)
	one := b.by[sum]
	if one == nil || model != swapped && one != b.made[0] {
		return fmt.Errorf("%s answers from the bundle %.12q, which was never there", model, sum)
	}
	if len(r.Outputs) != len(outputs) {
		return fmt.Errorf("%d outputs, want %d", len(r.Outputs), len(outputs))
	}
	for _, o := range r.Outputs {
		want := outputs[o.Name]
		if want == nil {
			return fmt.Errorf("an output %q", o.Name)
		}
		at := 0
		for _, i := range of {
			w := want(&one.want[i])
			if at+len(w) > o.Len() {
				return fmt.Errorf("%s has shape %v for %d examples", o.Name, o.Shape, len(of))
			}
			for k, v := range w {
				if g := number(o, at+k); !near(g, v) {
					return fmt.Errorf("%s of example %d from bundle %.12s: %v at %d, want %v", o.Name, i, sum, g, k, v)
				}
			}
			at += len(w)
		}
		if at != o.Len() {
			return fmt.Errorf("%s has shape %v for %d examples", o.Name, o.Shape, len(of))
		}
	}
	return nil
}

// number converts an element of a tensor; true is 1.
func number(t tensor.Tensor, i int) float64 {
	switch d := t.Data.(type) {
	case []float32:
		return float64(d[i])
	case []float64:
		return d[i]
	case []bool:
		return truth(d[i])
	}
	return math.NaN()
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// outputs returns the outputs of an answer that a prediction determines.
var outputs = map[string]func(*wrap.Prediction) []float64{
	"probabilities":  func(p *wrap.Prediction) []float64 { return p.Probabilities },
	"logit_variance": func(p *wrap.Prediction) []float64 { return p.LogitVariance },
	"ood_score":      func(p *wrap.Prediction) []float64 { return []float64{p.OODScore} },
	"ood_percentile": func(p *wrap.Prediction) []float64 { return []float64{*p.OODPercentile} },
	"ood_pvalue":     func(p *wrap.Prediction) []float64 { return []float64{*p.OODPValue} },
	"leverage":       func(p *wrap.Prediction) []float64 { return []float64{p.Leverage} },
	"abstain":        func(p *wrap.Prediction) []float64 { return []float64{truth(*p.Abstain)} },
	"logits": func(p *wrap.Prediction) []float64 {
		all := make([]float64, len(p.Logits))
		for i, v := range p.Logits {
			all[i] = float64(v)
		}
		return all
	},
	"prediction_set": func(p *wrap.Prediction) []float64 {
		set := make([]float64, len(p.Probabilities))
		for k := range set {
			set[k] = truth(slices.Contains(p.PredictionSet, k))
		}
		return set
	},
}
