package serve_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/mfgs/mfgs/wrap/serve"
)

// A bundle may be copied over the served one, file by file. Until the new one is complete, the old one answers, and
// every answer comes from the bundle that it names.
func TestABundleCopiedOverAnotherIsServedOnceItIsComplete(t *testing.T) {
	t.Parallel()
	const examples, vocabulary = 40, 300_000
	dir := t.TempDir()
	made := map[string]map[int][]float64{} // probabilities of an example, by hash of the bundle
	var dirs, sums []string
	ids := make([]int64, examples)
	labels := make([]int64, examples)
	for i := range ids {
		ids[i], labels[i] = int64(i*(vocabulary/examples)), int64(i%3)
	}
	data := wraptest.Write(t, dir, "x.npz", wraptest.NPZ(t, map[string]wraptest.Array{
		"ids": {Data: ids, Dims: []int{examples, 1}}, "labels": {Data: labels, Dims: []int{examples}},
	}))
	for seed := range uint64(2) {
		model := wraptest.Embedding(seed, vocabulary+1000*int(seed), false)[bundle.ModelName]
		c := wraptest.Quick(calibration.Config{
			Model: wraptest.Write(t, dir, fmt.Sprint(seed, ".onnx"), model),
			Train: data, Val: data, Out: filepath.Join(dir, fmt.Sprint("made", seed)),
		})
		wraptest.MustCalibrate(t, c)
		p := wraptest.Opened(t, c.Out, wrap.Options{})
		all, err := p.Predict(t.Context(), []wrap.Tensor{{Shape: []int64{examples, 1}, Data: ids}})
		if err != nil {
			t.Fatal(err)
		}
		dirs, sums = append(dirs, c.Out), append(sums, p.SHA256())
		made[p.SHA256()] = map[int][]float64{}
		for i := range all {
			made[p.SHA256()][i] = all[i].Probabilities
		}
	}
	served := filepath.Join(dir, "served")
	if err := os.CopyFS(served, os.DirFS(dirs[0])); err != nil {
		t.Fatal(err)
	}
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Name: "e", Dir: served}}, Watch: 5 * time.Millisecond})
	ask := func(i int) (sum string) {
		var answer struct {
			inference
			Parameters struct {
				SHA256 string `json:"bundle_sha256"`
			}
		}
		body := fmt.Sprintf(`{"inputs":[{"name":"ids","shape":[1,1],"datatype":"INT64","data":[%d]}]}`, ids[i])
		code, _, text := r.send("POST", "/v2/models/e/infer", body)
		if code != 200 || json.Unmarshal(text, &answer) != nil {
			t.Errorf("%d %s", code, text)
			return ""
		}
		sum = answer.Parameters.SHA256
		got := answer.numbers(t, "probabilities")
		if !slices.EqualFunc(got, made[sum][i], func(a, b float64) bool { return approx.Equal(a, b, 1e-6) }) {
			t.Errorf("example %d: %v from the bundle %.12q, want %v", i, got, sum, made[sum][i])
		}
		return sum
	}
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			for i := 0; ; i = (i + 1) % examples {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					ask(i)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 10 && !t.Failed(); n++ {
		next := dirs[n%2]
		names := wraptest.List(t, next)
		for _, i := range rng.Perm(len(names)) {
			content := wraptest.Read(t, filepath.Join(next, names[i]))
			half := content[:rng.IntN(len(content))]
			wraptest.Write(t, served, names[i], half)
			time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
			wraptest.Write(t, served, names[i], content)
		}
		for deadline := time.Now().Add(20 * time.Second); ask(0) != sums[n%2] && !t.Failed(); {
			if time.Now().After(deadline) {
				t.Errorf("the bundle on disk is whole, and is not served")
			}
		}
	}
	close(stop)
	asking.Wait()
}
