package bundle

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/featurize/preprocess"
)

// numbers returns n numbers from a rising sequence that float64 holds exactly.
func numbers(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i+1) / 8
	}
	return x
}

// posterior returns one with numbers of no meaning.
func posterior(h layer.Head, s calibrate.Structure, c calibrate.Covariance) *calibrate.Posterior {
	p := &calibrate.Posterior{Head: h, Structure: s, Covariance: c, Epsilon: 0.125}
	for _, t := range tensors(p) {
		n, _ := t.elements()
		*t.data = numbers(n)
	}
	return p
}

// served is a score that needs fitting.
func served() *score.Served {
	react, _ := score.Find("react")
	fitted, err := react.With(3, 2, score.Tensors{
		{Name: "threshold", Shape: []int{1}, Data: []float64{1.5}},
		{Name: "weight", Shape: []int{2, 3}, Data: []float64{1, 2, 3, 4, 5, 6}},
		{Name: "bias", Shape: []int{3}, Data: []float64{-1, 0, 1}},
	})
	if err != nil {
		panic(err)
	}
	return &score.Served{Fitted: *fitted, Median: -2, Scale: 0.5, Quantiles: []float64{0.125, 0.5, 0.875}, Examples: 3}
}

var softmax = layer.Head{Features: 2, Logits: 3, Bias: true, Link: layer.Softmax}

// full and kron are bundles as Write takes them; what it sets is empty.
func full() Bundle {
	return Bundle{
		Posterior: posterior(softmax, calibrate.Full, calibrate.Hessian),
		Score:     served(),
		Manifest: Manifest{
			Tool:  "mfgs v0.1.0",
			Model: &Model{SHA256: strings.Repeat("0a", 32), Producer: "pytorch 2.4.0", Opset: 17},
			Head: Head{
				Op: "Gemm", Node: "/fc/Gemm", FeaturesTensor: "/relu/Relu_output_0", LogitsTensor: "logits",
				Head: softmax, Tail: []string{"Softmax"},
			},
			Preprocess: &preprocess.Spec{Resize: &preprocess.Resize{Size: 8}, Scale: 0.0039, Layout: preprocess.NCHW,
				Exif: new(false)},
			Damping: Damping{Rule: "auto", Rho: 1,
				Candidates: []calibrate.Candidate{{Rho: 1, Epsilon: 0.125, NLL: 0.05},
					{Rho: 10, Epsilon: 1.25, NLL: 0.06, Gain: -0.01, StdErr: 1e-7}}},
			Temperatures: Temperatures{
				NLL: Pair{Temperatures: layer.Temperatures{Act: 0.5, Ens: 12.5}, TunedOn: "nll"},
				OOD: Pair{Temperatures: layer.Temperatures{Act: 0.25, Ens: 1e-6}, TunedOn: "ood"},
				TS:  1.5,
			},
			MeanField: MeanField{Lambda0: 0.303964, MedianVariance: 20, MaxRatio: 1.75},
			OODScore: &OODScore{
				Selection: score.Selection{Name: "react", AUROC: 0.97, Rival: "react", Gain: 0.02, Needed: 0.01},
			},
			Validation: Validation{
				Before: Figures{InDomain: metrics.InDomain{N: 100, Error: 0.015, NLL: 0.16, ECE: 0.0135, Brier: 0.03},
					OOD: &metrics.OOD{N: 150, Accuracy: 0.7, AUROC: 0.75, AUPRIn: 0.7, AUPROut: 0.6, FPR95: 0.9}},
				TS:  Figures{InDomain: metrics.InDomain{N: 100, Error: 0.015, NLL: 0.05, ECE: 0.002, Brier: 0.02}},
				MF0: &Figures{InDomain: metrics.InDomain{N: 100, Error: 0.015, NLL: 0.05, ECE: 0.003, Brier: 0.02}},
				After: Figures{InDomain: metrics.InDomain{N: 100, Error: 0.015, NLL: 0.05, ECE: 0.003, Brier: 0.02},
					OOD: &metrics.OOD{N: 150, AUROC: 0.97}, OODNLL: &metrics.OOD{N: 150, AUROC: 0.94}},
			},
			Probabilities: &calibrate.Choice{Method: calibrate.TS, TSGain: 0.1, TSNeeded: 0.005, MF0Gain: -0.01,
				MF0Needed: 0.02},
			Datasets: []Dataset{
				{Role: Train, Spec: "train-images-idx3-ubyte.gz[0:55000]", Fingerprint: strings.Repeat("1b", 32), Count: 54998, Ignored: 3, Bad: 2},
				{Role: Val, Spec: "idx:val [1:2] # odd: \"name\"", Fingerprint: strings.Repeat("2c", 32), Count: 100},
				{Role: OOD, Spec: "ood/", Fingerprint: strings.Repeat("3d", 32), Count: 50},
			},
			Batch:    64,
			Warnings: []string{"held" + "-out likelihood drives T_ens to its upper bound"},
			Labels:   []string{"null", "two\nlines", "2"},
			Grids: &Grids{
				NLL: &calibrate.Grid{Act: []float64{0.02, 20}, Tau: []float64{3e-7, 1e3},
					Value: [][]float64{{1, 2}, {3, 4}}},
				AUROC: &calibrate.Grid{Act: []float64{1}, Tau: []float64{2, 3}, Value: [][]float64{{0.5, 0.75}}},
			},
		},
	}
}

// probed is full with a probe.
func probed() Bundle {
	b := full()
	b.Probe = probe()
	return b
}

func kron() Bundle {
	b := full()
	b.Posterior = posterior(b.Posterior.Head, calibrate.Kronecker, calibrate.Sandwich)
	m := &b.Manifest
	m.Model = nil
	b.Score, m.OODScore, m.MeanField.MedianMargin = nil, nil, 2.5 // as before there was a choice
	m.Head = Head{Head: softmax}
	m.Preprocess = nil
	m.Damping = Damping{Rule: "rel:0.1", Rho: 0.1}
	m.Temperatures.OOD = m.Temperatures.NLL
	m.Datasets = m.Datasets[:2]
	m.Batch, m.Warnings, m.Labels, m.Grids = 0, nil, nil, nil
	return b
}

func content(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// withFiles are options for a bundle whose model has all of its weights.
func withFiles() WriteOptions {
	return WriteOptions{Model: content("a model"), Curvature: content("curvature"), Sample: content("sample")}
}

// withData are options for a bundle of all files.
func withData() WriteOptions {
	o := withFiles()
	o.ModelData = content("its weights")
	return o
}

func TestOpeningEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := written(t, probed(), withFiles())
	ctx, cancel := context.WithCancelCause(t.Context())
	b, err := OpenContext(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("the user went home")
	cancel(gone)
	if _, err := OpenContext(ctx, dir); !errors.Is(err, gone) || !strings.HasPrefix(err.Error(), dir+": ") {
		t.Errorf("an ended context: %v", err)
	}
	if _, err := fs.ReadFile(b.FS(), ModelName); err != nil {
		t.Errorf("the context of opening was kept: %v", err)
	}
}

// written returns the folder of a bundle written.
func written(t testing.TB, b Bundle, o WriteOptions) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "b")
	if err := Write(dir, b, o); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inMemory returns the files of a folder.
func inMemory(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := fstest.MapFS{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		m[e.Name()] = &fstest.MapFile{Data: data, Mode: 0o644}
	}
	return m
}

func TestABundleIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	sigmoid := kron()
	sigmoid.Posterior = posterior(layer.Head{Logits: 1, Features: 4, Link: layer.Sigmoid}, calibrate.Full,
		calibrate.Fisher)
	sigmoid.Manifest.Head = Head{Head: sigmoid.Posterior.Head}
	sigmoid.Manifest.Labels = []string{"", "yes"}
	diagonal := kron()
	diagonal.Posterior.QB = nil
	multiLabel := kron()
	multiLabel.Posterior = posterior(layer.Head{Logits: 3, Features: 2, Bias: true, Link: layer.Sigmoid},
		calibrate.Kronecker, calibrate.Hessian)
	multiLabel.Posterior.QB = nil
	multiLabel.Manifest.Head.Link = layer.Sigmoid
	multiLabel.Manifest.Labels = []string{"cat", "dog", "bird"}
	oneVsRest := full()
	oneVsRest.Posterior = posterior(layer.Head{Logits: 3, Features: 2, Bias: true, Link: layer.OneVsRest},
		calibrate.Full, calibrate.Sandwich)
	oneVsRest.Manifest.Head.Link = layer.OneVsRest

	approximate := full()
	approximate.Manifest.Head.Approximation = "relu"

	// The curvature is zero where every training probability is 0 or 1.
	flat := full()
	flat.Manifest.Damping = Damping{Rule: "0.125", Candidates: []calibrate.Candidate{{Epsilon: 0.125, NLL: 0.05}}}
	flat.Manifest.Temperatures.Optimum = &Pair{Temperatures: layer.Temperatures{Act: 0.75, Ens: 100}, TunedOn: "nll"}
	flat.Manifest.Batch = MaxBatch

	extended := full()
	extended.Manifest.Extensions = map[string]any{"x-team": "vision", "x-run": map[string]any{"id": 7, "tags": []any{"a", 0.5}}}

	for _, test := range []struct {
		name  string
		b     Bundle
		o     WriteOptions
		files []string
	}{
		{"full, all files", probed(), withData(),
			[]string{ManifestName, CurvatureName, ModelName, ModelDataName, PosteriorName, SampleName}},
		{"full, weights in the model", full(), withFiles(), []string{ManifestName, CurvatureName, ModelName, PosteriorName, SampleName}},
		{"approximate", approximate, withFiles(), []string{ManifestName, CurvatureName, ModelName, PosteriorName, SampleName}},
		{"full, model left out", full(), WriteOptions{}, []string{ManifestName, PosteriorName}},
		{"kron, no model", kron(), WriteOptions{}, []string{ManifestName, PosteriorName}},
		{"kron, diagonal B", diagonal, WriteOptions{}, []string{ManifestName, PosteriorName}},
		{"zero mean eigenvalue", flat, WriteOptions{}, []string{ManifestName, PosteriorName}},
		{"multi-label", multiLabel, WriteOptions{}, []string{ManifestName, PosteriorName}},
		{"one-vs-rest", oneVsRest, WriteOptions{}, []string{ManifestName, PosteriorName}},
		{"fields of others", extended, WriteOptions{}, []string{ManifestName, PosteriorName}},
		{"one logit", sigmoid, WriteOptions{}, []string{ManifestName, PosteriorName}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := written(t, test.b, test.o)
			got, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got.Dir() != dir {
				t.Errorf("Dir() = %q, want %q", got.Dir(), dir)
			}
			if !reflect.DeepEqual(got.Posterior, test.b.Posterior) {
				t.Errorf("posterior %+v, want %+v", got.Posterior, test.b.Posterior)
			}
			files := inMemory(t, dir)
			if test.b.Score != nil {
				test.files = append(test.files, ScoresName)
			}
			if test.b.Probe != nil {
				test.files = slices.Insert(test.files, 5, ProbeName)
			}
			if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, test.files) {
				t.Errorf("files %q, want %q", names, test.files)
			}

			want := test.b.Manifest
			want.Format, want.Covariance, want.Structure = 2, test.b.Posterior.Covariance, test.b.Posterior.Structure
			want.Damping.Epsilon = test.b.Posterior.Epsilon
			want.Posterior = File{PosteriorName, sum(files[PosteriorName].Data)}
			if s := test.b.Score; s != nil {
				o := *want.OODScore
				o.Median, o.Scale, o.Quantiles, o.Examples = s.Median, s.Scale, s.Quantiles, s.Examples
				want.OODScore, want.Scores = &o, &File{ScoresName, sum(files[ScoresName].Data)}
				slices.SortFunc(got.Score.Tensors, func(x, y score.Tensor) int { return cmp.Compare(y.Name, x.Name) })
				slices.SortFunc(s.Tensors, func(x, y score.Tensor) int { return cmp.Compare(y.Name, x.Name) })
				if !reflect.DeepEqual(got.Score, s) {
					t.Errorf("score %+v, want %+v", got.Score, s)
				}
			} else if got.Score.Name != "mf0" || got.Score.Median != 2.5 || got.Score.Quantiles != nil {
				t.Errorf("score %+v, want mf0 and the median margin", got.Score)
			}
			if test.o.Model != nil {
				model := *want.Model
				model.File = &File{ModelName, sum([]byte("a model"))}
				if test.o.ModelData != nil {
					model.Data = &File{ModelDataName, sum([]byte("its weights"))}
				}
				want.Model = &model
				want.Curvature = &File{CurvatureName, sum([]byte("curvature"))}
				want.Sample = &File{SampleName, sum([]byte("sample"))}
			}
			if test.b.Probe != nil {
				want.Probe = &File{ProbeName, sum(files[ProbeName].Data)}
			}
			if !reflect.DeepEqual(got.Probe, test.b.Probe) {
				t.Errorf("probe %+v, want %+v", got.Probe, test.b.Probe)
			}
			if !reflect.DeepEqual(got.Manifest, want) {
				t.Errorf("manifest\n%+v, want\n%+v", got.Manifest, want)
			}

			c := got.Calibration()
			if c.Method != calibrate.TS || c.Posterior != got.Posterior || c.Lambda0 != 0.303964 ||
				c.Ratio != want.MeanField.MaxRatio || c.Score != got.Score || c.TS != 1.5 ||
				c.NLL != (layer.Temperatures{Act: 0.5, Ens: 12.5}) || c.OOD.Act != want.Temperatures.OOD.Act ||
				c.OOD.Ens != want.Temperatures.OOD.Ens {
				t.Errorf("calibration %+v", c)
			}
		})
	}
}

// The bundles v1-… under testdata are of format 1, and stay readable. They were made
// by the last release that wrote it, and are never renewed.
func TestFormat1(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		b Bundle
	}{
		"v1-full": {full()},
		"v1-kron": {kron()},
		"v1-data": {full()},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", name)
			b := test.b
			b.Manifest.Probabilities, b.Manifest.Validation.MF0, b.Manifest.MeanField.MedianMargin = nil, nil, 0
			b.Manifest.OODScore = nil
			if b.Manifest.Preprocess == nil { // format 1 always says something
				b.Manifest.Preprocess = &preprocess.Spec{Exif: new(false)}
			}
			got, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Posterior, b.Posterior) {
				t.Errorf("posterior %+v, want %+v", got.Posterior, b.Posterior)
			}
			m := got.Manifest
			if m.Format != 1 {
				t.Errorf("format %d, want 1", m.Format)
			}
			// The fields that Write sets depend on the files.
			b.Manifest.Format, b.Manifest.Posterior, b.Manifest.Curvature, b.Manifest.Model = 1, m.Posterior,
				m.Curvature, m.Model
			b.Manifest.Covariance, b.Manifest.Structure, b.Manifest.Damping.Epsilon = m.Covariance, m.Structure,
				m.Damping.Epsilon
			if !reflect.DeepEqual(m, b.Manifest) {
				t.Errorf("manifest\n%+v, want\n%+v", m, b.Manifest)
			}
			if got := got.Calibration().Method; got != calibrate.MF0 {
				t.Errorf("probabilities of %q, want mf0, which gave them when format 1 was written", got)
			}
			if s := got.Calibration().Score; s.Name != "mf0" || s.Median != 1 || s.Quantiles != nil {
				t.Errorf("the score %s with median margin %v and quantiles %v, want mf0, 1 and none", s.Name, s.Median, s.Quantiles)
			}
		})
	}
}

// The table of fields in the package documentation names every field of a manifest.
func TestTheFormatIsDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(source), "//\tfield   ")
	table, _, _ = strings.Cut(table, "\n//\n")
	var fields func(t reflect.Type) []string
	fields = func(t reflect.Type) (names []string) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || t == reflect.TypeFor[preprocess.Spec]() || t == reflect.TypeFor[Settings]() {
			return nil
		}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			names = append(append(names, name), fields(t.Field(i).Type)...)
		}
		return names
	}
	all := fields(reflect.TypeFor[Manifest]())
	if len(all) < 60 {
		t.Fatalf("only %d fields were found", len(all))
	}
	for _, name := range all {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(table) {
			t.Errorf("the documentation has no field %s", name)
		}
	}
}

func TestEveryFlippedByteIsDetected(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]Bundle{"full": probed(), "kron": kron()} {
		t.Run(name, func(t *testing.T) {
			o := WriteOptions{Curvature: content("curvature")}
			if b.Manifest.Model != nil {
				o = withData()
			}
			files := inMemory(t, written(t, b, o))
			if _, err := OpenFS(files); err != nil {
				t.Fatal(err)
			}
			for name, f := range files {
				whole := f.Data
				for i := range whole {
					// 0x20 changes the case of a letter.
					for _, mask := range []byte{1 << (i % 8), 0x20} {
						f.Data = bytes.Clone(whole)
						f.Data[i] ^= mask
						if _, err := OpenFS(files); err == nil {
							t.Fatalf("%s: byte %d flipped by %#x: not detected", name, i, mask)
						}
						if name != ManifestName {
							break // a hash knows no letters
						}
					}
				}
				for n := 0; n < len(whole); n += 1 + len(whole)/100 {
					f.Data = whole[:n]
					if _, err := OpenFS(files); err == nil {
						t.Fatalf("%s: cut to %d bytes: not detected", name, n)
					}
				}
				for _, more := range []string{"\n", "x", "\x00"} {
					f.Data = append(bytes.Clone(whole), more...)
					if _, err := OpenFS(files); err == nil {
						t.Fatalf("%s: %q appended: not detected", name, more)
					}
				}
				f.Data = whole
			}
		})
	}
}

func TestMissingFilesAreNamed(t *testing.T) {
	t.Parallel()
	dir := written(t, probed(), withData())
	for _, name := range fileNames {
		files := inMemory(t, dir)
		delete(files, name)
		if _, err := OpenFS(files); !errors.Is(err, ErrMissing) || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("without %s: error %v", name, err)
		}
		files[name] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		if _, err := OpenFS(files); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("with a folder %s: error %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "want a bundle") {
		t.Errorf("absent folder: %v", err)
	}
	if _, err := Open(filepath.Join(dir, ModelName)); err == nil || !strings.Contains(err.Error(), "not a bundle") {
		t.Errorf("a file: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a bundle") {
		t.Errorf("an empty folder: %v", err)
	}
}

// The model is bounded before it is read. Its weights may be in another file.
func TestAModelBeyondTwoGiBIsRefused(t *testing.T) {
	t.Parallel()
	dir := written(t, probed(), withData())
	if err := os.Truncate(filepath.Join(dir, ModelName), 1<<31+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
}

// A file that the manifest does not name is not part of the bundle.
func TestFilesThatTheManifestDoesNotNameAreIgnored(t *testing.T) {
	t.Parallel()
	files := inMemory(t, written(t, full(), withFiles()))
	files[ModelDataName] = &fstest.MapFile{Data: []byte("weights of another model")}
	b, err := OpenFS(files)
	if err != nil {
		t.Fatal(err)
	}
	if d := b.Manifest.Model.Data; d != nil {
		t.Errorf("the manifest names %+v", d)
	}
}

// ONNX readers take no weights from outside the folder in which the model is.
func TestALinkToWeightsElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	move := func(dir, to, name string) {
		t.Helper()
		if err := os.MkdirAll(to, 0o777); err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(to, name+".blob")
		if err := os.Rename(filepath.Join(dir, name), target); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{ModelName, ModelDataName} {
		dir := written(t, full(), withData())
		move(dir, filepath.Join(filepath.Dir(dir), "elsewhere"), name)
		for _, f := range []func() error{
			func() error { _, err := Open(dir); return err },
			func() error { return Reseal(dir) },
		} {
			if err := f(); err == nil || !strings.HasPrefix(err.Error(), dir) ||
				!strings.Contains(err.Error(), ModelDataName+": a link out of") {
				t.Errorf("%s is elsewhere: error %v", name, err)
			}
		}
	}

	// A cache keeps all files as links into one folder, and may itself be reached by a link.
	dir := written(t, probed(), withData())
	for _, name := range fileNames {
		move(dir, filepath.Join(filepath.Dir(dir), "blobs"), name)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, link} {
		if _, err := Open(d); err != nil {
			t.Error(err)
		}
	}
}

// The files of a zip archive have no ReadAt.
func TestOpenFromAnArchive(t *testing.T) {
	t.Parallel()
	want := full()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, f := range inMemory(t, written(t, want, withData())) {
		e, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Write(f.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := OpenFS(r)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Posterior, want.Posterior) {
		t.Errorf("posterior %+v, want %+v", got.Posterior, want.Posterior)
	}
	if got.Dir() != "" {
		t.Errorf("Dir() = %q", got.Dir())
	}
	model, err := fs.ReadFile(got.FS(), ModelName)
	if err != nil || string(model) != "a model" {
		t.Errorf("model %q, %v", model, err)
	}
}

// A dataset that was read in parts has their fingerprints, all of them.
func TestADatasetReadInPartsHasTheirFingerprints(t *testing.T) {
	t.Parallel()
	parts := func() []DatasetPart {
		return []DatasetPart{
			{rows.Shard{Index: 1, Count: 2}, strings.Repeat("4e", 32)},
			{rows.Shard{Index: 2, Count: 2}, strings.Repeat("5f", 32)},
		}
	}
	b := full()
	d := &b.Manifest.Datasets[0]
	d.Parts = parts()
	d.Fingerprint = FingerprintOf(d.Parts)
	got, err := Open(written(t, b, WriteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Manifest.Datasets, b.Manifest.Datasets) {
		t.Errorf("datasets %+v", got.Manifest.Datasets)
	}
	for name, change := range map[string]func(){
		"fingerprint":  func() { d.Fingerprint = strings.Repeat("00", 32) },
		"one missing":  func() { d.Parts = d.Parts[:1] },
		"order":        func() { d.Parts[0], d.Parts[1] = d.Parts[1], d.Parts[0] },
		"other number": func() { d.Parts[1].Shard.Count = 3 },
		"no hash":      func() { d.Parts[1].Fingerprint = "x"; d.Fingerprint = FingerprintOf(d.Parts) },
	} {
		d.Parts = parts()
		d.Fingerprint = FingerprintOf(d.Parts)
		change()
		if err := Write(filepath.Join(t.TempDir(), "b"), b, WriteOptions{}); !errors.Is(err, ErrField) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
