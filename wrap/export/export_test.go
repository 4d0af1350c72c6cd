package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/approx"
	drafts "github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// exported runs the model in a file, as a program without mfgs would.
func exported(t testing.TB, path string, inputs ...wrap.Tensor) map[string]wrap.Tensor {
	t.Helper()
	s, err := ort.NewSession(ort.SessionConfig{Graph: read(t, path)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	outputs, err := s.Run(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]wrap.Tensor{}
	for _, o := range outputs {
		byName[o.Name] = o
	}
	return byName
}

func TestAnExportedModelPredictsAsItsBundle(t *testing.T) {
	const n = 37
	x := digitTensor(t, 1500, 1500+n)
	for i, s := range slices.Concat(structures, structures) {
		dir, _ := calibrated(t, s)
		path, precision := filepath.Join(t.TempDir(), "digits.onnx"), Precisions()[i/len(structures)]
		r, err := Write(t.Context(), dir, Options{Out: path, Precision: precision})
		if err != nil {
			t.Fatal(err)
		}
		none := exported(t, path, wrap.Tensor{Shape: []int64{0, 1, 8, 8}, Data: []float32{}})
		if shape := none["probabilities"].Shape; !slices.Equal(shape, []int64{0, 10}) {
			t.Errorf("%s: probabilities of no examples have the shape %v", s, shape)
		}
		got := exported(t, path, x)
		if ood := r.Outputs.Of("ood_score").Type; ood.String() != precision {
			t.Errorf("%s: ood_score is %s, want %s", s, ood, precision)
		}
		if len(got) != 7 {
			t.Errorf("%s: %d outputs, want the 7: the model's only own one are the logits", s, len(got))
		}
		want, err := opened(t, dir, wrap.Options{}).Predict(t.Context(), []wrap.Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		// near compares within the absolute and relative tolerances that are documented for the fused graph.
		near := func(what *fuse.Output, width int, abs, rel float64, of func(p wrap.Prediction, j int) float64) {
			t.Helper()
			values, ok := got[what.Name].Data.([]float32)
			if d, double := got[what.Name].Data.([]float64); double && what.Type == tensor.Float64 {
				ok = true
				for _, v := range d {
					values = append(values, float32(v))
				}
			}
			if !ok || len(values) != n*width {
				t.Errorf("%s: output %s is %T of %d", s, what, got[what.Name].Data, len(values))
				return
			}
			for i, p := range want {
				for j := range width {
					g, w := float64(values[i*width+j]), of(p, j)
					if !approx.Equal(g, w, abs+rel*math.Abs(w)) {
						t.Errorf("%s: %s of example %d: %v, want %v", s, what.Name, i, g, w)
						return
					}
				}
			}
		}
		near(&r.Outputs[fuse.Probabilities], 10, 1e-5, 0,
			func(p wrap.Prediction, j int) float64 { return p.Probabilities[j] })
		near(&r.Outputs[fuse.Logits], 10, 0, 1e-4,
			func(p wrap.Prediction, j int) float64 { return float64(p.Logits[j]) })
		near(&r.Outputs[fuse.LogitVariance], 10, 0, 1e-4,
			func(p wrap.Prediction, j int) float64 { return p.LogitVariance[j] })
		near(r.Outputs.Of("ood_score"), 1, 1e-5, 0, func(p wrap.Prediction, _ int) float64 { return p.OODScore })
		near(r.Outputs.Of("ood_percentile"), 1, 1e-4, 0, func(p wrap.Prediction, _ int) float64 { return *p.OODPercentile })
		near(r.Outputs.Of("ood_pvalue"), 1, 1e-4, 0, func(p wrap.Prediction, _ int) float64 { return *p.OODPValue })
		near(r.Outputs.Of("leverage"), 1, 0, 1e-4, func(p wrap.Prediction, _ int) float64 { return p.Leverage })
	}
}

// In float32 the default score keeps its digits where features are a thousand times as far from zero as they spread, as
// years are, and where such features are far shorter or longer.
func TestFloat32KeepsTheDigitsOfFeaturesFarFromZero(t *testing.T) {
	t.Parallel()
	const n, d, k, away = 600, 4, 3, 1000
	rng := rand.New(rand.NewPCG(8, 8))
	w, b := make([]float64, d*k), make([]float64, k)
	for i := range w {
		w[i] = rng.NormFloat64()
		b[i%k] -= away * float64(float32(w[i]))
	}
	x, labels := make([]float32, n*d), make([]int64, n)
	for i := range n {
		labels[i] = int64(rng.IntN(k))
		for j := range d {
			x[i*d+j] = away + float32(rng.NormFloat64()+w[j*k+int(labels[i])])
		}
	}
	dir := t.TempDir()
	model := write(t, dir, "model.onnx", onnxtest.Marshal(t, &onnxpb.Model{IrVersion: new(int64(8)),
		OpsetImport: []*onnxpb.OperatorSet{{Version: new(int64(17))}},
		Graph: &onnxpb.Graph{Name: new("network"),
			Node:        []*onnxpb.Node{onnxtest.Node("MatMul", "x w", "a"), onnxtest.Node("Add", "a b", "y")},
			Initializer: []*onnxpb.Tensor{onnxtest.FloatTensor("w", w, d, k), onnxtest.FloatTensor("b", b, k)},
			Input:       []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1, d)},
			Output:      []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, k)}}}))
	file := write(t, dir, "x.npz", npz(t, map[string]array{"x": {x, []int{n, d}}, "labels": {labels, []int{n}}}))
	c := calibration.Config{Model: model, Train: file + "[:300]", Val: file + "[300:]", Out: filepath.Join(dir, "bundle"),
		Settings: bundle.Settings{Damping: calibrate.Damping{Relative: 1e-3}}}
	mustCalibrate(t, c)
	for scale, most := range map[float32]float64{1: 1e-5, 0.001: 5e-4, 0.1: 5e-4, 10: 5e-4} {
		var scores [2]map[string]wrap.Tensor
		scaled := slices.Clone(x)
		for i := range scaled {
			scaled[i] *= scale
		}
		for i, precision := range Precisions() {
			path := filepath.Join(dir, precision+".onnx")
			if _, err := Write(t.Context(), c.Out, Options{Out: path, Precision: precision, Force: true}); err != nil {
				t.Fatal(err)
			}
			scores[i] = exported(t, path, wrap.Tensor{Shape: []int64{n, d}, Data: scaled})
		}
		for i, want := range scores[0]["ood_percentile"].Data.([]float64) {
			if got := float64(scores[1]["ood_percentile"].Data.([]float32)[i]); !approx.Equal(got, want, most) {
				t.Errorf("example %d times %v: percentile %v, want %v", i, scale, got, want)
			}
		}
	}
}

// What float32 refuses of many classes does not concern labels, which have no integral of pairs.
func TestManyLabelsAreExportedInFloat32(t *testing.T) {
	t.Parallel()
	const n, width, labels = 40, 2, 2100
	dir := t.TempDir()
	model := write(t, dir, "model.onnx", selector(13, "y", random(4, width*labels), width, labels))
	y := make([]int64, n*labels)
	for i := range y {
		y[i] = int64(i % 3 % 2)
	}
	file := write(t, dir, "x.npz", npz(t, map[string]array{"x": {random(3, n*width), []int{n, width}}, "labels": {y, []int{n, labels}}}))
	c := calibration.Config{Model: model, Train: file + "[:20]", Val: file + "[20:]", Out: filepath.Join(dir, "bundle"),
		Settings: bundle.Settings{
			Head: head.Options{Link: layer.Sigmoid}, Damping: calibrate.Damping{Relative: 1}, Structure: calibrate.Full,
		}}
	mustCalibrate(t, c)
	if _, err := Write(t.Context(), c.Out, Options{Out: filepath.Join(dir, "m.onnx"), Precision: "float32"}); err != nil {
		t.Error(err)
	}
}

// A caller that asks for "probabilities" must not silently get an output of the network with that name.
func TestExportWarnsAboutNamesThatAreTaken(t *testing.T) {
	const n, width, classes = 60, 4, 3
	dir := t.TempDir()
	model := write(t, dir, "model.onnx", selector(13, "probabilities", random(4, width*classes), width, classes))
	labels := make([]int64, n)
	for i := range labels {
		labels[i] = int64(i % classes)
	}
	file := write(t, dir, "data.npz", npz(t, map[string]array{"x": {random(3, n*width), []int{n, width}}, "labels": {labels, []int{n}}}))
	c := calibration.Config{Model: model, Train: file + "[:40]", Val: file + "[40:]", Out: filepath.Join(dir, "bundle"),
		Settings: bundle.Settings{Damping: calibrate.Damping{Relative: 1}}}
	mustCalibrate(t, c)
	r, err := Write(t.Context(), c.Out, Options{Out: filepath.Join(dir, "out.onnx")})
	if err != nil {
		t.Fatal(err)
	}
	warned := slices.ContainsFunc(r.Warnings, func(w string) bool {
		return strings.Contains(w, `already has an input or output "probabilities"`) && strings.Contains(w, `"mfgs_probabilities"`)
	})
	if !warned || r.Outputs[fuse.Probabilities].Name != "mfgs_probabilities" {
		t.Errorf("the probabilities are called %s, warnings %q", r.Outputs[fuse.Probabilities].Name, r.Warnings)
	}
}

// The network itself is never replaced, even with Force.
func TestExportDoesNotReplaceTheNetwork(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	network := read(t, digits(t, models.DigitsModel))
	path := write(t, t.TempDir(), "mine.onnx", network)
	_, err := Write(t.Context(), dir, Options{Out: path, Force: true})
	if err == nil || !strings.Contains(err.Error(), "is not replaced") {
		t.Errorf("got %v", err)
	}
	if !bytes.Equal(read(t, path), network) {
		t.Error("the network has changed")
	}
}

func TestAnExportIsReported(t *testing.T) {
	dir, calibration := calibrated(t, calibrate.Full)
	path := filepath.Join(t.TempDir(), "digits.onnx")
	r, err := Write(t.Context(), dir, Options{Out: path})
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r.Inputs, m.Inputs()) || len(m.Outputs()) != 7 {
		t.Errorf("inputs %v, the file has %v, and outputs %v", r.Inputs, m.Inputs(), m.Outputs())
	}
	for _, o := range append(r.Outputs.Infos(), r.OwnOutputs...) {
		if !slices.ContainsFunc(m.Outputs(), func(v onnx.ValueInfo) bool { return reflect.DeepEqual(v, o) }) {
			t.Errorf("output %+v is reported, the file has %+v", o, m.Outputs())
		}
	}
	if len(r.OwnOutputs) != 1 || r.OwnOutputs[0].Name != r.Outputs[fuse.Logits].Name {
		t.Errorf("own outputs are %v, want the logits", r.OwnOutputs)
	}
	s, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	own, err := onnx.Open(filepath.Join(dir, bundle.ModelName))
	if err != nil {
		t.Fatal(err)
	}
	if r.Bundle != dir || r.File != path || r.Method != string(calibration.Probabilities.Method) || r.Triton != nil ||
		r.Opset != own.Opset() || r.Model.SHA256 != own.SHA256() ||
		!slices.Equal(r.Files, []WrittenFile{{path, s.Size()}}) || r.Warnings == nil || len(r.Warnings) > 0 {
		t.Errorf("reported %+v", r)
	}

	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	// The last line of bundle.yaml identifies the bundle.
	manifest := strings.TrimSpace(string(read(t, filepath.Join(dir, bundle.ManifestName))))
	metadata, temperatures := m.Metadata(), b.Manifest.Temperatures
	for key, want := range map[string]string{
		"mfgs.version": wrap.Version(), "mfgs.bundle": manifest[strings.LastIndex(manifest, " ")+1:], "mfgs.method": string(calibration.Probabilities.Method),
		"mfgs.temperatures.ts":      fmt.Sprint(temperatures.TS),
		"mfgs.temperatures.nll.act": fmt.Sprint(temperatures.NLL.Act), "mfgs.temperatures.nll.ens": fmt.Sprint(temperatures.NLL.Ens),
		"mfgs.temperatures.ood.act": fmt.Sprint(temperatures.OOD.Act), "mfgs.temperatures.ood.ens": fmt.Sprint(temperatures.OOD.Ens),
		"mfgs.logit_variance.ens": "1", "mfgs.ood_score": b.Manifest.OODScore.Name,
		"mfgs.output.probabilities": r.Outputs[fuse.Probabilities].Name, "mfgs.output.logits": r.Outputs[fuse.Logits].Name, "mfgs.output.logit_variance": r.Outputs[fuse.LogitVariance].Name,
		"mfgs.output.ood_score": r.Outputs.Of("ood_score").Name, "mfgs.output.leverage": r.Outputs.Of("leverage").Name,
	} {
		if want == "" || metadata[key] != want {
			t.Errorf("metadata %s is %q, want %q", key, metadata[key], want)
		}
	}
}

func TestExportFromAFileSystem(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	out := t.TempDir()
	if _, err := Write(t.Context(), dir, Options{Out: filepath.Join(out, "a.onnx")}); err != nil {
		t.Fatal(err)
	}
	r, err := WriteFS(t.Context(), os.DirFS(dir), Options{Out: filepath.Join(out, "b.onnx")})
	if err != nil || r.Bundle != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	if a, b := read(t, filepath.Join(out, "a.onnx")), read(t, filepath.Join(out, "b.onnx")); string(a) != string(b) {
		t.Error("the bundle in a folder and the same in a file system give different models")
	}
	_, err = WriteFS(t.Context(), os.DirFS(dir), Options{Triton: out})
	says(t, err, "is not a valid name")
	if r, err = WriteFS(t.Context(), os.DirFS(dir), Options{Triton: out, Name: "digits"}); err != nil || r.Triton.Name != "digits" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestExportToTriton(t *testing.T) {
	out := t.TempDir()
	names := []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}
	c := quick(config(t, filepath.Join(out, "digits.mfgs")))
	c.Classes = names
	mustCalibrate(t, c)
	repository := filepath.Join(out, "models") // which is not there
	r, err := Write(t.Context(), c.Out, Options{Triton: repository})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(repository, "digits")
	if *r.Triton != (TritonModel{repository, "digits", DefaultMaxBatch}) || r.File != filepath.Join(folder, "1", "model.onnx") ||
		len(r.Files) != 3 {
		t.Errorf("reported %+v of %+v", r, r.Triton)
	}
	for _, f := range r.Files {
		if s, err := os.Stat(f.Path); err != nil || s.Size() != f.Size {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if got := list(t, repository); !slices.Equal(got, []string{"digits"}) {
		t.Errorf("the repository holds %q", got)
	}
	if got, want := string(read(t, filepath.Join(folder, "labels.txt"))), strings.Join(names, "\n")+"\n"; got != want {
		t.Errorf("labels are %q", got)
	}
	var labels []string
	m, err := onnx.Open(r.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(m.Metadata()["mfgs.labels"]), &labels); err != nil || !slices.Equal(labels, names) {
		t.Errorf("metadata has the labels %q, %v", labels, err)
	}
	if got := exported(t, r.File, digitTensor(t, 0, 3))[r.Outputs[fuse.Probabilities].Name].Shape; !slices.Equal(got,
		[]int64{3, 10}) {
		t.Errorf("probabilities have the shape %v", got)
	}

	// A second export is refused; with Force it writes the same files, and no others.
	before := read(t, filepath.Join(folder, "config.pbtxt"))
	_, err = Write(t.Context(), c.Out, Options{Triton: repository})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want one that says that the folder exists", err)
	}
	says(t, err, folder)
	if r, err = Write(t.Context(), c.Out, Options{Triton: repository, Force: true, MaxBatch: 5}); err != nil ||
		r.Triton.MaxBatch != 5 {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := strings.Replace(string(read(t, filepath.Join(folder, "config.pbtxt"))), "max_batch_size: 5", "max_batch_size: 64", 1); got != string(before) {
		t.Errorf("the second time the configuration is\n%s\nnot\n%s", got, before)
	}
	// Another version was not written by an export.
	write(t, folder, "2/model.onnx", nil)
	_, err = Write(t.Context(), c.Out, Options{Triton: repository, Force: true})
	says(t, err, "it holds 2, which mfgs export did not write")
	if got := list(t, repository); !slices.Equal(got, []string{"digits"}) {
		t.Errorf("the repository holds %q", got)
	}
}

// Triton does not load a model with an output that is not a tensor.
func TestOwnOutputsThatTritonCannotServeAreLeftOut(t *testing.T) {
	out := t.TempDir()
	const data = "../../testdata/examples/sklearn/"
	c := calibration.Config{Model: data + "model.onnx", Train: data + "train.csv", Val: data + "val.csv", Out: filepath.Join(out, "sklearn.mfgs"),
		Settings: bundle.Settings{Damping: calibrate.Damping{Relative: 1}}}
	mustCalibrate(t, c)
	r, err := Write(t.Context(), c.Out, Options{Triton: out})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "is not declared as a tensor") || len(r.OwnOutputs) > 0 {
		t.Errorf("warnings %q, own outputs %v", r.Warnings, r.OwnOutputs)
	}
	m, err := onnx.Open(r.File)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(m.Outputs()), fmt.Sprint(r.Outputs.Infos()); got != want {
		t.Errorf("outputs are %s, want %s", got, want)
	}
	// Chosen outputs have their usual names, and what is chosen is not left out without a word.
	for want, names := range map[string][]string{
		"probabilities, leverage": {"probabilities", "leverage"}, "output_label": {"output_label"},
	} {
		r, err := Write(t.Context(), c.Out, Options{Out: filepath.Join(out, names[0]+".onnx"), Outputs: names})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range append(r.Outputs.Infos(), r.OwnOutputs...) {
			got = append(got, v.Name)
		}
		if strings.Join(got, ", ") != want || len(r.Warnings) > 0 {
			t.Errorf("outputs %q, want %s, and warnings %q", got, want, r.Warnings)
		}
	}
	_, err = Write(t.Context(), c.Out, Options{Triton: out, Force: true, Outputs: []string{"output_probability"}})
	says(t, err, "output_probability", "leave it out")
	// A file keeps them.
	if r, err = Write(t.Context(), c.Out, Options{Out: filepath.Join(out, "m.onnx")}); err != nil || len(r.OwnOutputs) != 2 ||
		len(r.Warnings) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestExportRefuses(t *testing.T) {
	out := t.TempDir()
	c := quick(config(t, filepath.Join(out, "slim")))
	c.NoModel = true
	mustCalibrate(t, c)
	slim, model := c.Out, c.Model
	phi, logits, labels := random(1, 300), random(2, 150), make([]int64, 50)
	features := write(t, out, "features.npz",
		npz(t, map[string]array{"features": {phi, []int{50, 6}}, "logits": {logits, []int{50, 3}}, "labels": {labels, []int{50}}}))
	ready := filepath.Join(out, "ready")
	mustCalibrate(t, calibration.Config{PrecomputedFeatures: true, Train: features, Val: features, Out: ready,
		Settings: bundle.Settings{Damping: calibrate.Damping{Absolute: 1}}})
	dir, _ := calibrated(t, calibrate.Kronecker)
	there := write(t, out, "there.onnx", []byte("there"))
	folder := filepath.Join(out, "folder.onnx")
	if err := os.MkdirAll(filepath.Join(folder, "within"), 0o777); err != nil {
		t.Fatal(err)
	}
	mine := write(t, out, "mine.onnx", read(t, model))
	hard := filepath.Join(out, "hard.onnx")
	if err := os.Link(mine, hard); err != nil {
		t.Fatal(err)
	}
	other := write(t, out, "other.onnx", read(t, filepath.Join("..", "..", "testdata", "examples", "keras", "model.onnx")))
	write(t, out, "theirs/digits/config.pbtxt", []byte("name: \"digits\""))
	dangling, loop, aside := filepath.Join(out, "dangling.onnx"), filepath.Join(out, "loop.onnx"), filepath.Join(out, "aside.onnx")
	for link, to := range map[string]string{dangling: "nothing", aside: "there.onnx", loop: "loop.onnx", filepath.Join(out, "linked"): "theirs"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	fresh := filepath.Join(out, "fresh.onnx")
	tree := func() string {
		var all []string
		if err := filepath.WalkDir(out, func(path string, _ os.DirEntry, err error) error {
			all = append(all, path)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, "\n")
	}
	before := tree()
	for name, test := range map[string]struct {
		dir   string
		o     Options
		words []string
	}{
		"neither file nor repository": {dir, Options{}, []string{"either a file or a Triton model repository"}},
		"both":                        {dir, Options{Out: fresh, Triton: out}, []string{"either"}},
		"another format":              {dir, Options{Out: filepath.Join(out, "m.ort")}, []string{"m.ort", ".onnx"}},
		"a name for a file":           {dir, Options{Out: fresh, Name: "x"}, []string{"name"}},
		"a name that is a path":       {dir, Options{Triton: out, Name: "../x"}, []string{`"../x"`, "letters"}},
		"a batch below nothing":       {dir, Options{Triton: out, MaxBatch: -1}, []string{"-1"}},
		"a batch beyond all":          {dir, Options{Triton: out, MaxBatch: 1 << 30}, []string{"1073741824", "65536"}},
		"an output of none":           {dir, Options{Out: fresh, Outputs: []string{"probability"}}, []string{`"probability"`, "probabilities, logits, logit_variance, ood_score"}},
		"a method without a graph":    {dir, Options{Out: fresh, Method: "ts"}, []string{`"ts"`, "mf0, mf1"}},
		"no bundle":                   {out, Options{Out: fresh}, []string{"bundle.yaml", "not a bundle"}},
		"precomputed features":        {ready, Options{Out: fresh}, []string{"precomputed features", "no network", "calibrate with a model"}},
		"a bundle without its model":  {slim, Options{Out: fresh}, []string{"has no model", "with Model"}},
		"another model":               {slim, Options{Out: fresh, Model: other}, []string{other, "SHA-256"}},
		"no folder":                   {dir, Options{Out: filepath.Join(out, "none", "m.onnx")}, []string{filepath.Join(out, "none") + ": file does not exist"}},
		"no folder of a repository":   {dir, Options{Triton: filepath.Join(out, "none", "models")}, []string{filepath.Join(out, "none") + ": file does not exist"}},
		"a name too long":             {dir, Options{Out: filepath.Join(out, strings.Repeat("x", 300)+".onnx")}, []string{"x.onnx: "}},
		"a link to nothing":           {dir, Options{Out: dangling}, []string{dangling, "a broken link"}},
		"a link to itself":            {dir, Options{Out: loop, Force: true}, []string{loop, "a broken link"}},
		"a link as name":              {dir, Options{Triton: out, Name: "linked"}, []string{filepath.Join(out, "linked") + " is not replaced: it is a link"}},
		"a file for a folder":         {dir, Options{Out: filepath.Join(there, "m.onnx")}, []string{there}},
		"a file for a repository":     {dir, Options{Triton: there}, []string{there, "not a folder"}},
		"a file that is there":        {dir, Options{Out: there}, []string{there, "file already exists"}},
		"a file that is no model":     {dir, Options{Out: there, Force: true}, []string{there, "not replaced", "not an ONNX model"}},
		"a link to what is no model":  {dir, Options{Out: aside, Force: true}, []string{there, "not replaced", "not an ONNX model"}},
		"a folder that is there":      {dir, Options{Out: folder, Force: true}, []string{folder, "not a regular file"}},
		"a device":                    {dir, Options{Out: filepath.Join(out, "null.onnx"), Force: true}, []string{"not a regular file"}},
		"the model":                   {slim, Options{Out: mine, Model: mine, Force: true}, []string{mine, "it is the exported model"}},
		"the model by another name":   {slim, Options{Out: hard, Model: mine, Force: true}, []string{hard, "it is the exported model"}},
		"the bundle's own model":      {dir, Options{Out: filepath.Join(dir, bundle.ModelName), Force: true}, []string{dir, "is the bundle"}},
		"a file in the bundle":        {dir, Options{Out: filepath.Join(dir, "fused.onnx")}, []string{dir, "is the bundle"}},
		"the bundle as repository":    {dir, Options{Triton: dir, Name: "x"}, []string{dir, "is the bundle"}},
		"a repository in the bundle":  {dir, Options{Triton: filepath.Join(dir, "models"), Name: "x"}, []string{dir, "is the bundle"}},
		"another's model in there":    {dir, Options{Triton: filepath.Join(out, "theirs"), Name: "digits", Force: true}, []string{"not written by mfgs export"}},
		"a bundle in its place":       {dir, Options{Triton: out, Name: "slim", Force: true}, []string{slim, "no file config.pbtxt"}},
		"a model that is not there":   {slim, Options{Out: fresh, Model: filepath.Join(out, "nowhere.onnx")}, []string{"nowhere.onnx"}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a device" {
				if err := os.Symlink(os.DevNull, test.o.Out); err != nil {
					t.Fatal(err)
				}
				defer os.Remove(test.o.Out)
			}
			_, err := Write(t.Context(), test.dir, test.o)
			says(t, err, test.words...)
			if o := test.o; o.Model == "" && (strings.Contains(err.Error(), "stat ") || strings.Contains(err.Error(), ".tmp")) {
				t.Errorf("speaks of calls of the system: %v", err)
			}
			if name == "a device" {
				return
			}
			if left := tree(); left != before {
				t.Errorf("files left:\n%s\nbefore\n%s", left, before)
			}
		})
	}
	if got := string(read(t, there)); got != "there" {
		t.Errorf("what was there is %q now", got)
	}
	if string(read(t, mine)) != string(read(t, model)) {
		t.Error("the model has changed")
	}
	has := []string{bundle.ManifestName, bundle.PosteriorName, bundle.ModelName, bundle.ProbeName}
	for name := range bundleFiles(t, dir) {
		if !slices.Contains(has, name) {
			t.Errorf("the bundle holds %s now", name)
		}
	}

	// With Force, or the right model, the exports above succeed.
	if got := string(read(t, there)); got != "there" {
		t.Errorf("what is no model was overwritten by %d bytes", len(got))
	}
	write(t, out, "there.onnx", read(t, other))
	for _, o := range []Options{{Out: aside, Model: mine, Force: true}, {Out: fresh, Model: mine, Method: "mf1"}} {
		if _, err := Write(t.Context(), slim, o); err != nil {
			t.Error(err)
		}
		if _, err := onnx.Open(o.Out); err != nil {
			t.Error(err)
		}
	}
}

func bundleFiles(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, name := range list(t, dir) {
		names[name] = true
	}
	return names
}

func TestAFileIsReplacedWhereItsLinkPoints(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	out := t.TempDir()
	real := write(t, out, "real/m.onnx", nil)
	link := filepath.Join(out, "link.onnx")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	r, err := Write(t.Context(), dir, Options{Out: link, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(link); err != nil || got != real || r.File != real {
		t.Errorf("the link is %q, %v, the file %q", got, err, r.File)
	}
	if _, err := onnx.Open(link); err != nil {
		t.Error(err)
	}
}

func TestAnEndedContextLeavesNothing(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	out := t.TempDir()
	enough := errors.New("enough")
	for _, o := range []Options{{Out: filepath.Join(out, "m.onnx")}, {Triton: filepath.Join(out, "models")}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(enough)
		if _, err := Write(ctx, dir, o); !errors.Is(err, enough) {
			t.Errorf("got %v", err)
		}
	}
	// In the middle of writing.
	ctx, cancel := context.WithCancelCause(t.Context())
	files := []onnx.File{{Name: "m.onnx", Write: func(w io.Writer) error {
		big := make([]byte, 3<<20)
		if _, err := w.Write(big); err != nil {
			return err
		}
		cancel(enough)
		_, err := w.Write(big)
		return err
	}}}
	for _, p := range []destination{
		{folder: out, model: "m.onnx"},
		{folder: filepath.Join(out, "models"), model: "m.onnx", whole: "m", made: true},
	} {
		if _, err := p.write(ctx, files); !errors.Is(err, enough) {
			t.Errorf("got %v", err)
		}
	}
	if left := list(t, out); len(left) > 0 {
		t.Errorf("files left: %q", left)
	}
}

// A model above 2 GiB has its weights in a second file: both are replaced together or not at all.
func TestAModelAndItsWeightsGoTogether(t *testing.T) {
	graph, weights := string(read(t, external)), string(read(t, external+".data"))
	graphOf := func(content string) string { return graph + "\x32" + string(rune(len(content))) + content } // its doc_string
	files := func(content string, fail error) []onnx.File {
		return []onnx.File{text("external.onnx", []byte(graphOf(content))), {Name: "external.onnx.data", Write: func(w io.Writer) error {
			if fail != nil {
				return fail
			}
			_, err := io.WriteString(w, weights+content)
			return err
		}}}
	}
	const model, data = "external.onnx", "external.onnx.data"
	want := func(dir string, files map[string]string) {
		t.Helper()
		if got := list(t, dir); len(got) != len(files) {
			t.Errorf("files left: %q", got)
		}
		for name, content := range files {
			if string(read(t, filepath.Join(dir, name))) != content {
				t.Errorf("%s is another one", name)
			}
		}
	}
	broken := errors.New("broken")
	dir := t.TempDir()
	p := destination{folder: dir, model: model}
	if _, err := p.write(t.Context(), files("1", broken)); !errors.Is(err, broken) ||
		!strings.Contains(err.Error(), data) {
		t.Errorf("got %v", err)
	}
	want(dir, nil)
	// Weights without a model are not replaced either, as they may belong to another model. This is found before
	// anything is written.
	write(t, dir, data, []byte("mine"))
	_, err := p.write(t.Context(), files("1", errors.New("written")))
	says(t, err, data, "file already exists")
	p.force = true
	_, err = p.write(t.Context(), files("1", errors.New("written")))
	says(t, err, data+" is not replaced", "not known to hold the weights of "+model)
	want(dir, map[string]string{data: "mine"})
	if err := os.Remove(filepath.Join(dir, data)); err != nil {
		t.Fatal(err)
	}
	for i, fail := range []error{nil, nil, broken} {
		_, err := p.write(t.Context(), files(fmt.Sprint(i), fail))
		if !errors.Is(err, fail) {
			t.Errorf("got %v", err)
		}
		i := fmt.Sprint(min(i, 1))
		want(dir, map[string]string{model: graphOf(i), data: weights + i})
	}
	// A later export into one file does not need those weights, but others may.
	one := files("one", nil)[:1]
	if warnings := p.leftovers(files("two", nil)); len(warnings) > 0 {
		t.Errorf("weights that are replaced: %q", warnings)
	}
	if warnings := p.leftovers(one); len(warnings) != 1 || !strings.Contains(warnings[0], filepath.Join(dir, data)+" is not used by the model") {
		t.Errorf("warnings %q", warnings)
	}
	if _, err := p.write(t.Context(), one); err != nil {
		t.Error(err)
	}
	want(dir, map[string]string{model: graphOf("one"), data: weights + "1"})
	// A folder in the place of either is not replaced.
	dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, data), 0o777); err != nil {
		t.Fatal(err)
	}
	p = destination{folder: dir, model: model, force: true}
	_, err = p.write(t.Context(), files("1", nil))
	says(t, err, data+" is not replaced")
	if got := list(t, dir); !slices.Equal(got, []string{data}) {
		t.Errorf("files left: %q", got)
	}
	// If the weights cannot be replaced, the model that uses the old ones is not either.
	dir = t.TempDir()
	old := map[string]string{model: graphOf("old"), data: weights + "old"}
	for name, content := range old {
		write(t, dir, name, []byte(content))
	}
	p = destination{folder: dir, model: model, force: true}
	draft, err := drafts.NewDraft(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := draft.Put(model, func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := p.moveFiles(draft, files("1", nil)); err == nil {
		t.Error("weights that are not there were moved")
	}
	if err := draft.Close(); err != nil {
		t.Error(err)
	}
	want(dir, old)
	// The weights are moved first; if the model cannot follow, they are removed again.
	dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, model), 0o777); err != nil {
		t.Fatal(err)
	}
	p = destination{folder: dir, model: model, force: true}
	if draft, err = drafts.NewDraft(dir); err != nil {
		t.Fatal(err)
	}
	if err := draft.Put(data, func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := p.moveFiles(draft, files("1", nil)); err == nil {
		t.Error("a folder was replaced")
	}
	if err := draft.Close(); err != nil {
		t.Error(err)
	}
	if got := list(t, dir); !slices.Equal(got, []string{model}) {
		t.Errorf("files left: %q", got)
	}
}

// Two exports may both find that the repository does not exist yet.
func TestARepositoryMayAppearMeanwhile(t *testing.T) {
	repository := filepath.Join(t.TempDir(), "models")
	var places []*destination
	for _, name := range []string{"a", "b", "c"} {
		o := Options{Triton: repository, Name: name}
		p, err := o.destination(&bundle.Bundle{})
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, p)
	}
	broken := errors.New("broken")
	fail := onnx.File{Name: "config.pbtxt", Write: func(io.Writer) error { return broken }}
	if _, err := places[0].write(t.Context(), []onnx.File{fail}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if left := list(t, filepath.Dir(repository)); len(left) > 0 {
		t.Errorf("files left: %q", left)
	}
	for _, p := range places[:2] {
		if _, err := p.write(t.Context(), []onnx.File{text("config.pbtxt", nil)}); err != nil {
			t.Error(err)
		}
	}
	// An export that fails leaves the folder that another has made.
	if _, err := places[2].write(t.Context(), []onnx.File{fail}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if got := list(t, repository); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the repository holds %q", got)
	}
}

// The error about an absurd posterior names its file.
func TestExportNamesTheFileOfAnAbsurdPosterior(t *testing.T) {
	for name, test := range map[string]struct {
		structure calibrate.Structure
		change    func(p *calibrate.Posterior)
		words     []string
	}{
		"no leverage": {calibrate.Full, func(p *calibrate.Posterior) { clear(p.Leverage) }, []string{"leverage", "positive definite", bundle.PosteriorName, "calibrate again"}},
		"huge variances": {calibrate.Kronecker, func(p *calibrate.Posterior) { p.V[0] = 1e90 },
			[]string{"float32 does not hold", bundle.PosteriorName, bundle.ManifestName}},
	} {
		dir, _ := calibrated(t, test.structure)
		out := t.TempDir()
		_, err := export(t.Context(), func() (*bundle.Bundle, error) {
			b, err := bundle.Open(dir)
			if err == nil {
				test.change(b.Posterior)
			}
			return b, err
		}, Options{Out: filepath.Join(out, "m.onnx")})
		if err == nil {
			t.Errorf("%s: exported", name)
			continue
		}
		says(t, err, test.words...)
		if left := list(t, out); len(left) > 0 {
			t.Errorf("%s: files left: %q", name, left)
		}
	}
}

// Methods lists what package fuse supports.
func TestEveryExportMethodExports(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Full)
	for _, method := range Methods() {
		path := filepath.Join(t.TempDir(), method+".onnx")
		r, err := Write(t.Context(), dir, Options{Out: path, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		m, err := onnx.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Metadata()["mfgs.method"]; got != method || r.Method != method {
			t.Errorf("the file says %s, the report %s, want %s", got, r.Method, method)
		}
		for i, p := range exported(t, path,
			digitTensor(t, 1500, 1510))[r.Outputs[fuse.Probabilities].Name].Data.([]float32) {
			if !(p >= 0 && p <= 1) {
				t.Fatalf("%s: probability %d is %v", method, i, p)
			}
		}
	}
}
