package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// oneLine refuses an error that is nil, not want, or longer than a line.
func oneLine(t *testing.T, err, want error, text string) {
	t.Helper()
	switch {
	case err == nil:
		t.Error("no error")
	case !errors.Is(err, want):
		t.Errorf("error %q is not %q", err, want)
	case !strings.Contains(err.Error(), text):
		t.Errorf("error %q, want %q in it", err, text)
	case strings.Contains(err.Error(), "\n"):
		t.Errorf("error %q is longer than a line", err)
	}
}

// The second FPR95 is kept in format 2; format 1 has none.
func TestFPR95OODNeedsFormat2(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	b := full()
	b.Manifest.Validation.Before.OOD.FPR95OOD = 0.8
	if err := Write(dir, b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	read, err := Open(dir)
	if err != nil || read.Manifest.Validation.Before.OOD.FPR95OOD != 0.8 {
		t.Fatalf("%+v, %v", read, err)
	}
	m := read.Manifest
	m.Format, m.Probabilities, m.Validation.MF0, m.OODScore, m.Scores = 1, nil, nil, nil, nil
	oneLine(t, m.Validate(), ErrField, "fpr95_ood is a field of format 2")
	m.Validation.Before.OOD.FPR95OOD = 0
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
}

// Format 1 knows no padding, which format 2 keeps.
func TestPaddingNeedsFormat2(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	b := full()
	b.Manifest.Preprocess.Resize = &preprocess.Resize{Width: 192, Height: 48, Mode: preprocess.Height}
	b.Manifest.Preprocess.Pad = &preprocess.Pad{Value: 127.5, Position: preprocess.Corner}
	if err := Write(dir, b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	read, err := Open(dir)
	if err != nil || !reflect.DeepEqual(read.Manifest.Preprocess, b.Manifest.Preprocess) {
		t.Fatalf("%+v, %v", read, err)
	}
	m := read.Manifest
	m.Format, m.Probabilities, m.Validation.MF0, m.OODScore, m.Scores = 1, nil, nil, nil, nil
	oneLine(t, m.Validate(), ErrField, "preprocess.pad is a field of format 2")
	m.Preprocess.Pad = nil
	oneLine(t, m.Validate(), ErrField, "preprocess.resize.mode height is of format 2")
	m.Preprocess.Resize.Mode = preprocess.Exact
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	m.Extensions = map[string]any{"x-a": 1}
	oneLine(t, m.Validate(), ErrField, "x-… is a field of format 2")
}

// A bundle that does not say whether image files are turned was made when none were, and none is written
// that does not say it.
func TestABundleWithoutAnEXIFFieldTakesImagesAsStored(t *testing.T) {
	t.Parallel()
	b := full()
	b.Manifest.Preprocess.Exif = new(true)
	dir := written(t, b, WriteOptions{})
	if read, err := Open(dir); err != nil || !*read.Manifest.Preprocess.Exif {
		t.Errorf("%+v, %v", read, err)
	}
	path := filepath.Join(dir, ManifestName)
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(document, []byte("  exif: true\n"), nil, 1), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Reseal(dir); err != nil {
		t.Fatal(err)
	}
	read, err := Open(dir)
	if err != nil || read.Manifest.Preprocess.Exif == nil || *read.Manifest.Preprocess.Exif {
		t.Errorf("without the field: %+v, %v", read, err)
	}
	b.Manifest.Preprocess.Exif = nil
	oneLine(t, Write(filepath.Join(t.TempDir(), "b"), b, WriteOptions{}), ErrField, "preprocess.exif is not set")
	m := read.Manifest
	m.Format, m.Probabilities, m.Validation.MF0, m.OODScore, m.Scores = 1, nil, nil, nil, nil
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	m.Preprocess.Exif = new(true)
	oneLine(t, m.Validate(), ErrField, "preprocess.exif is a field of format 2")
}

var invalidManifests = []struct {
	name     string
	old, new string // what is replaced, once
	err      error
	text     string
}{
	{"unknown field", "batch: 64", "batch: 64\nbacth: 32", ErrUnknownField, "field bacth"},
	{"unknown field within", "act: 0.5", "act: 0.5, cat: 1", ErrUnknownField, "field cat"},
	{"unknown field of preprocessing", "scale: 0.0039", "scale: 0.0039\n  scales: 1", ErrUnknownField, "field scales"},
	{"unknown field of two lines", "batch: 64", "batch: 64\n\"a\\nb\": 32", ErrUnknownField, "field a b"},
	{"newer format", "format: 2\n", "format: 3\nfuture: true\n", ErrVersion, "format 3, this program reads 1 to 2"},
	{"older format", "format: 2\n", "format: 0\n", ErrVersion, "format 0, this program reads 1 to 2"},
	{"field newer than its format", "format: 2\n", "format: 1\n", ErrField, "probabilities is a field of format 2"},
	{"unknown field of a resize", "size: 8", "size: 8\n    sice: 8", ErrUnknownField, "field sice"},
	{"no probabilities", "probabilities: {method: ts, ts_gain: 0.1, ts_needed: 0.005, mf0_gain: -0.01, mf0_needed: 0.02}\n", "", ErrField, "probabilities is missing"},
	{"bytes beside preprocessing", "batch: 64", "batch: 64\nbytes: true", ErrField, "bytes must be left out with preprocess"},
	{"negative need", "mf0_needed: 0.02", "mf0_needed: -0.02", ErrField, "probabilities.mf0_needed"},
	{"gain that is NaN", "ts_gain: 0.1", "ts_gain: .nan", ErrNotFinite, "probabilities.ts_gain"},
	{"figures of mf0 of nothing", "mf0:\n    in_domain: {examples: 100", "mf0:\n    in_domain: {examples: 0", ErrField, "held_out.mf0.in_domain.examples"},
	{"unknown probabilities", "{method: ts,", "{method: mf9,", ErrField, `probabilities.method: method "mf9"`},
	{"no format", "format: 2\n", "", ErrVersion, "missing"},
	{"null format", "format: 2\n", "format: null\n", ErrVersion, "missing"},
	{"format that is a word", "format: 2\n", "format: one\n", ErrYAML, "one"},
	{"field twice", "batch: 64", "batch: 64\nbatch: 65", ErrYAML, "already defined"},
	{"alias", "rule: auto", "rule: &a auto\n  rho: *a", ErrYAML, "anchors"},
	{"second document", "format: 2\n", "format: 2\n---\n", ErrYAML, "more than one document"},
	{"no YAML", "format: 2\n", "format: [\n", ErrYAML, ""},
	{"number that is a word", "batch: 64", "batch: many", ErrYAML, "many"},
	{"field of others, within", "act: 0.5", "act: 0.5, x-cat: 1", ErrUnknownField, "field x-cat"},
	{"field of nobody", "batch: 64", "batch: 64\nX-a: 1", ErrUnknownField, "field X-a"},
	{"no tool", "tool: mfgs v0.1.0\n", "", ErrField, "tool is missing"},
	{"hash in upper case", strings.Repeat("0a", 32), strings.Repeat("0A", 32), ErrField, "model.sha256"},
	{"hash too short", strings.Repeat("1b", 32), strings.Repeat("1b", 31), ErrField, "datasets[0].fingerprint"},
	{"file elsewhere", "name: model.onnx\n", "name: ../model.onnx\n", ErrField, "model.file.name"},
	{"weights elsewhere", "name: model.onnx.data", "name: ../model.onnx.data", ErrField, "model.data.name"},
	{"weights of no hash", "    name: model.onnx.data\n    sha256: ", "    name: model.onnx.data\n    sha256: 0", ErrField, "model.data.sha256"},
	{"weights without a model", "  file:\n    name: model.onnx\n    sha256: " + sum([]byte("a model")) + "\n", "", ErrField, "model.data needs model.file"},
	{"other weights", sum([]byte("its weights")), sum([]byte("its weight")), ErrHash, "model.onnx.data"},
	{"unknown approximation", "bias: true", "bias: true\n  approximation: gelu", ErrField, `head.approximation is "gelu"`},
	{"posterior elsewhere", "name: posterior.safetensors", "name: /etc/passwd", ErrField, "posterior.name"},
	{"model without features", "features: /relu/Relu_output_0", "features: \"\"", ErrField, "head.features"},
	{"no features", "feature_dim: 2", "feature_dim: 0", ErrField, "0 features"},
	{"negative classes", "classes: 3", "classes: -3", ErrField, "-3 logits"},
	{"classes without end", "classes: 3", "classes: 4611686018427387904", ErrField, "2^24"},
	{"one class against no other", "classes: 3\n  bias: true\n  link: softmax", "classes: 1\n  bias: true\n  link: one-vs-rest", ErrField, "one-vs-rest head has 1 logits"},
	{"unknown link", "link: softmax", "link: probit", ErrField, "probit"},
	{"a label less", "  - \"null\"\n", "", ErrField, "2 names for 3 classes"},
	{"impossible preprocessing", "size: 8", "size: -8", ErrField, "preprocess"},
	{"unknown covariance", "covariance: hessian", "covariance: jacobian", ErrField, "jacobian"},
	{"structure left open", "structure: full", "structure: auto", ErrField, "auto"},
	{"unknown damping rule", "rule: auto", "rule: much", ErrField, "much"},
	{"an external covariance from nowhere", "\ncovariance: hessian", "\ncovariance: external", ErrField, "covariance is external, and external_posterior is there: false"},
	{"an external posterior beside a covariance", "batch: 64", "batch: 64\nexternal_posterior: {file: p, form: full}", ErrField, "covariance is hessian, and external_posterior is there: true"},
	{"no damping rule", "rule: auto", "rule: \"\"", ErrField, "damping.rule is missing"},
	{"no damping", "epsilon: 0.125", "epsilon: 0", ErrField, "damping.epsilon"},
	{"negative rho", "rho: 1\n", "rho: -1\n", ErrField, "damping.rho"},
	{"infinite rho", "rho: 1\n", "rho: .inf\n", ErrNotFinite, "damping.rho"},
	{"negative rho of a candidate", "- rho: 10", "- rho: -10", ErrField, "damping.candidates[1].rho"},
	{"rho of a candidate that is NaN", "- rho: 10", "- rho: .nan", ErrNotFinite, "damping.candidates[1].rho"},
	{"temperature of 0", "act: 0.5", "act: 0", ErrField, "temperatures.nll.act"},
	{"temperature that is NaN", "act: 0.5", "act: .nan", ErrNotFinite, "temperatures.nll.act is NaN"},
	{"temperature that is infinite", "ens: 1e-06", "ens: .inf", ErrNotFinite, "temperatures.ood.ens is +Inf"},
	{"figure that is NaN", "nll: 0.16", "nll: .nan", ErrNotFinite, "held_out.before.in_domain.nll"},
	{"figure under a pointer", "auroc: 0.94", "auroc: -.inf", ErrNotFinite, "held_out.after.ood_nll.auroc"},
	{"grid that is NaN", "[3, 4]", "[3, .nan]", ErrNotFinite, "grids.nll.value[1][1]"},
	{"grid with a row less", "[[1, 2], [3, 4]]", "[[1, 2]]", ErrField, "grids.nll.value has 1 rows"},
	{"grid with a short row", "[[0.5, 0.75]]", "[[0.5]]", ErrField, "grids.auroc.value"},
	{"temperature beyond all tuning", "act: 0.5", "act: 1e-308", ErrField, "temperatures.nll.act is 1e-308, want 1e-06 to 1e+06"},
	{"temperature beyond float64", "ens: 1e-06", "ens: 1e300", ErrField, "temperatures.ood.ens is 1e+300, want 1e-60 to 1e+60"},
	{"tuned on nothing", "tuned_on: ood", "tuned_on: x", ErrField, "temperatures.ood.tuned_on"},
	{"optimum of no temperature", "ts: 1.5", "optimum: {act: 1, tuned_on: nll}\n  ts: 1.5", ErrField, "temperatures.optimum.ens"},
	{"optimum that is NaN", "ts: 1.5", "optimum: {act: .nan, ens: 1, tuned_on: nll}\n  ts: 1.5", ErrNotFinite, "temperatures.optimum.act"},
	{"optimum tuned on something else", "ts: 1.5", "optimum: {act: 1, ens: 1, tuned_on: ood}\n  ts: 1.5", ErrField, "temperatures.optimum.tuned_on"},
	{"likelihood tuned on something else", "tuned_on: nll", "tuned_on: ood", ErrField, "temperatures.nll.tuned_on"},
	{"no lambda0", "lambda0: 0.303964", "lambda0: 0", ErrField, "mean_field.lambda0"},
	{"ratio below 1", "max_ratio: 1.75", "max_ratio: 0.5", ErrField, "mean_field.max_ratio"},
	{"infinite ratio", "max_ratio: 1.75", "max_ratio: .inf", ErrNotFinite, "mean_field.max_ratio"},
	{"a median margin beside a score", "max_ratio: 1.75", "max_ratio: 1.75\n  median_margin: 2.5", ErrField, "mean_field.median_margin must be left out with ood_score"},
	{"unknown score", "name: react", "name: softmin", ErrField, "ood_score.name is \"softmin\", want one of"},
	{"score that needs no fitting", "name: react", "name: energy", ErrField, "ood_score is energy, and scores is present: true, want false"},
	{"similarity of no median", "name: react", "name: studentized", ErrField, "ood_score.median is -2, want a positive number"},
	{"no scale", "scale: 0.5", "scale: 0", ErrField, "ood_score.scale"},
	{"one quantile", "[0.125, 0.5, 0.875]", "[0.125]", ErrField, "ood_score.quantiles has 1 numbers"},
	{"other quantiles than examples", "examples: 3\n", "examples: 4\n", ErrField, "ood_score.quantiles has 3 numbers, want 4 of 4 examples"},
	{"quantiles of nothing", "examples: 3\n", "examples: -3\n", ErrField, "ood_score.examples is -3, want at least 0"},
	{"quantiles that fall", "[0.125, 0.5, 0.875]", "[0.125, 0.875, 0.5]", ErrField, "ood_score.quantiles are not ascending numbers in [0,1]"},
	{"quantiles beyond one", "[0.125, 0.5, 0.875]", "[0.125, 0.5, 1.5]", ErrField, "ood_score.quantiles are not"},
	{"a quantile that is NaN", "[0.125, 0.5, 0.875]", "[0.125, .nan, 0.875]", ErrNotFinite, "ood_score.quantiles[1]"},
	{"another score's tensors", "name: react", "name: knn", ErrTensors, "score knn: 3 tensors, want 2"},
	{"figures of nothing", "{examples: 100, error: 0.015, nll: 0.16", "{examples: 0, error: 0.015, nll: 0.16", ErrField, "held_out.before.in_domain.examples"},
	{"negative likelihood", "nll: 0.16", "nll: -0.16", ErrField, "held_out.before.in_domain.nll"},
	{"OOD figures of nothing", "{examples: 150, accuracy: 0.7", "{examples: 0, accuracy: 0.7", ErrField, "held_out.before.ood.examples"},
	{"unknown role", "role: ood", "role: test", ErrField, "datasets[2].role"},
	{"no training data", "role: train", "role: val", ErrField, "needs the roles train and val"},
	{"dataset of nothing", "count: 100", "count: 0", ErrField, "datasets[1].count"},
	{"negative number of bad examples", "bad: 2", "bad: -2", ErrField, "datasets[0].bad"},
	{"dataset from nowhere", "spec: ood/", "spec: \"\"", ErrField, "datasets[2].spec"},
	{"negative batch", "batch: 64", "batch: -64", ErrField, "batch is -64"},
	{"batch without end", "batch: 64", "batch: 65537", ErrField, "batch is 65537, want 0 to 65536"},
	{"other structure than the posterior's", "structure: full", "structure: kron", ErrTensors, "Q_A is missing"},
	{"other features than the posterior's", "feature_dim: 2", "feature_dim: 4", ErrShape, "F64 [3 3 3], want F64 [3 5 5]"},
	{"features that overflow", "feature_dim: 2\n  classes: 3", "feature_dim: 16777215\n  classes: 16777215", ErrField, "labels"},
	{"fewer features than the posterior's", "feature_dim: 2", "feature_dim: 1", ErrShape, ""},
}

func TestInvalidManifestsAreRefused(t *testing.T) {
	t.Parallel()
	files := inMemory(t, written(t, full(), withData()))
	document, err := folder.Unseal(files[ManifestName].Data, resealHint)
	if err != nil {
		t.Fatal(err)
	}
	for _, invalid := range invalidManifests {
		t.Run(invalid.name, func(t *testing.T) {
			if !bytes.Contains(document, []byte(invalid.old)) {
				t.Fatalf("the manifest does not say %q:\n%s", invalid.old, document)
			}
			files[ManifestName].Data = folder.Seal(bytes.Replace(document, []byte(invalid.old), []byte(invalid.new), 1))
			_, err := OpenFS(files)
			oneLine(t, err, invalid.err, invalid.text)
		})
	}

	// The posterior of so many features cannot be that large.
	t.Run("posterior that overflows", func(t *testing.T) {
		edited := bytes.Replace(document, []byte("feature_dim: 2\n  classes: 3"), []byte("feature_dim: 16777214\n  classes: 16777215"), 1)
		edited = edited[:bytes.Index(edited, []byte("\n# The class names"))]
		files[ManifestName].Data = folder.Seal(edited)
		_, err := OpenFS(files)
		oneLine(t, err, ErrShape, "overflows")
	})
	t.Run("empty document", func(t *testing.T) {
		files[ManifestName].Data = folder.Seal([]byte("\n"))
		_, err := OpenFS(files)
		oneLine(t, err, ErrYAML, "empty")
	})
	t.Run("endless manifest", func(t *testing.T) {
		files[ManifestName].Data = folder.Seal(append(bytes.Repeat([]byte("#\n"), MaxManifest/2), document...))
		_, err := OpenFS(files)
		oneLine(t, err, ErrTooLarge, "4194304")
	})
	for name, data := range map[string][]byte{
		"no seal":            document,
		"nothing":            nil,
		"nothing but a seal": folder.Seal(nil),
		"seal of other text": append(bytes.Clone(document), folder.Seal([]byte("x\n"))[2:]...),
		"old seal":           append(folder.Seal(document), '\n'),
	} {
		t.Run(name, func(t *testing.T) {
			files[ManifestName].Data = data
			_, err := OpenFS(files)
			oneLine(t, err, ErrSeal, "mfgs reseal")
		})
	}
}

// withFile puts another file into a bundle, whose hashes then fit.
func withFile(t *testing.T, files fstest.MapFS, name string, data []byte) {
	t.Helper()
	document, err := folder.Unseal(files[ManifestName].Data, resealHint)
	if err != nil {
		t.Fatal(err)
	}
	old := sum(files[name].Data)
	if !bytes.Contains(document, []byte(old)) {
		t.Fatalf("the manifest lacks the hash of %s", name)
	}
	files[ManifestName].Data = folder.Seal(bytes.Replace(document, []byte(old), []byte(sum(data)), 1))
	files[name].Data = data
}

func TestInvalidPosteriorsAreRefused(t *testing.T) {
	t.Parallel()
	list := func(p *calibrate.Posterior) (list []safetensors.Tensor) {
		for _, t := range tensors(p) {
			list = append(list, safetensors.Tensor{Name: t.name, Shape: t.shape, Data: *t.data})
		}
		return list
	}
	set := func(tensor, i int, v float64) func([]safetensors.Tensor) []safetensors.Tensor {
		return func(list []safetensors.Tensor) []safetensors.Tensor {
			list[tensor].Data.([]float64)[i] = v
			return list
		}
	}
	for _, test := range []struct {
		name   string
		b      Bundle
		change func([]safetensors.Tensor) []safetensors.Tensor
		err    error
		text   string
	}{
		{"NaN", full(), set(0, 5, math.NaN()), ErrNotFinite, "tensor blocks"},
		{"infinity", kron(), set(0, 1, math.Inf(-1)), ErrNotFinite, "tensor Q_A"},
		{"negative variance of a weight", full(), set(0, 9+4, -1), ErrNegative, "tensor blocks"},
		{"negative leverage", full(), set(1, 8, -1), ErrNegative, "tensor leverage"},
		{"negative eigenvalue of A", kron(), set(1, 0, -1), ErrNegative, "tensor lambda_A"},
		{"negative eigenvalue of B", kron(), set(3, 0, -1), ErrNegative, "tensor lambda_B"},
		{"negative V", kron(), set(4, 0, -1), ErrNegative, "tensor V"},
		{"missing tensor", full(), func(l []safetensors.Tensor) []safetensors.Tensor { return l[:1] }, ErrTensors, "leverage is missing"},
		{"unknown tensor", full(), func(l []safetensors.Tensor) []safetensors.Tensor {
			return append(l, safetensors.Tensor{Name: "extra", Shape: []int{1}, Data: []float64{1}})
		}, ErrTensors, `"extra" is unknown`},
		{"transposed", kron(), func(l []safetensors.Tensor) []safetensors.Tensor {
			l[4].Shape = []int{9}
			return l
		}, ErrShape, "F64 [9], want F64 [3 3]"},
		{"float32", full(), func(l []safetensors.Tensor) []safetensors.Tensor {
			l[1].Data = make([]float32, 9)
			return l
		}, ErrShape, "F32 [3 3], want F64 [3 3]"},
		{"larger than its tensors", full(), func(l []safetensors.Tensor) []safetensors.Tensor {
			return append(l, safetensors.Tensor{Name: "extra", Shape: []int{1000}, Data: make([]float64, 1000)})
		}, ErrTooLarge, "its tensors take 288"},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := inMemory(t, written(t, test.b, WriteOptions{}))
			var data bytes.Buffer
			if err := safetensors.Encode(&data, test.change(list(test.b.Posterior)), nil); err != nil {
				t.Fatal(err)
			}
			withFile(t, files, PosteriorName, data.Bytes())
			_, err := OpenFS(files)
			oneLine(t, err, test.err, test.text)
		})
	}

	t.Run("not safetensors", func(t *testing.T) {
		files := inMemory(t, written(t, full(), WriteOptions{}))
		withFile(t, files, PosteriorName, []byte("short"))
		_, err := OpenFS(files)
		oneLine(t, err, safetensors.ErrTruncated, PosteriorName)
	})
}

// Off the diagonal, covariances may be negative.
func TestNegativeCovariancesAreAccepted(t *testing.T) {
	t.Parallel()
	b := full()
	for _, x := range [][]float64{b.Posterior.Blocks, b.Posterior.Leverage} {
		for i := range x {
			if i%9%4 != 0 {
				x[i] = -x[i]
			}
		}
	}
	if _, err := Open(written(t, b, WriteOptions{})); err != nil {
		t.Error(err)
	}
}

func TestResealAfterAnEdit(t *testing.T) {
	t.Parallel()
	dir := written(t, full(), withData())
	path := filepath.Join(dir, ManifestName)
	edit := func(change func(string) string) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(change(string(data))), 0o666); err != nil {
			t.Fatal(err)
		}
	}

	edit(func(s string) string { return strings.Replace(s, "two\n", "three\n", 1) })
	if _, err := Open(dir); !errors.Is(err, ErrSeal) {
		t.Fatalf("after an edit: %v", err)
	}
	if err := Reseal(dir); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if b.Manifest.Labels[1] != "three\nlines" {
		t.Errorf("labels %q", b.Manifest.Labels)
	}

	// Editors append, cut the last newline, or take the seal away.
	edit(func(s string) string { return strings.TrimSuffix(s, "\n") })
	if err := Reseal(dir); err != nil {
		t.Fatal(err)
	}
	edit(func(s string) string { return s + "# a note" })
	if err := Reseal(dir); err != nil {
		t.Fatal(err)
	}
	edit(func(s string) string { return s[:strings.LastIndex(s, "# sha256: ")] })
	if err := Reseal(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(data, []byte("# sha256: ")); n != 1 || !bytes.Contains(data, []byte("# a note\n")) {
		t.Errorf("%d seals in\n%s", n, data)
	}
	if _, err := Open(dir); err != nil {
		t.Error(err)
	}

	// A second time changes nothing.
	if err := Reseal(dir); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, data) {
		t.Errorf("resealed twice: %v\n%s", err, again)
	}

	// A bundle that Open would refuse is not resealed.
	for _, change := range []func(string) string{
		func(s string) string { return strings.Replace(s, "batch: 64", "bacth: 64", 1) },
		func(s string) string {
			return strings.Replace(s, sum([]byte("a model")), sum([]byte("another model")), 1)
		},
		func(s string) string {
			return strings.Replace(s, sum([]byte("its weights")), sum([]byte("other weights")), 1)
		},
	} {
		edit(change)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := Reseal(dir); err == nil || !strings.HasPrefix(err.Error(), dir) {
			t.Errorf("error %v", err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
			t.Errorf("the manifest was changed (%v)", err)
		}
		wantFiles(t, dir, ManifestName, CurvatureName, ModelName, ModelDataName, PosteriorName, SampleName, ScoresName)
		edit(func(string) string { return string(data) })
	}

	if err := Reseal(t.TempDir()); !errors.Is(err, ErrMissing) {
		t.Errorf("an empty folder: %v", err)
	}
}

// FuzzManifest holds that a manifest that is accepted says the same after it
// was written and read again.
func FuzzManifest(f *testing.F) {
	for _, test := range []struct {
		b Bundle
		o WriteOptions
	}{{full(), withData()}, {kron(), WriteOptions{}}} {
		files := inMemory(f, written(f, test.b, test.o))
		document, err := folder.Unseal(files[ManifestName].Data, resealHint)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(document)
		for _, invalid := range invalidManifests {
			f.Add(bytes.Replace(document, []byte(invalid.old), []byte(invalid.new), 1))
		}
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		m, err := parse(document)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q is longer than a line", err)
			}
			return
		}
		if _, err := m.document(); err != nil {
			t.Errorf("%v\n%s", err, document)
		}
	})
}
