package bundle

import (
	"bytes"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

// votes is a bundle of a model without a linear layer, calibrated from its output alone.
func votes() Bundle {
	b := full()
	h := layer.Head{Logits: 3, Link: layer.Softmax, Nonlinear: true}
	entropy, _ := score.Find("entropy")
	fitted, err := entropy.Fit(nil)
	if err != nil {
		panic(err)
	}
	b.Posterior = &calibrate.Posterior{Head: h}
	b.Score = &score.Served{Fitted: *fitted, Median: -2, Scale: 0.5, Quantiles: []float64{0.125, 0.5, 0.875},
		Examples: 3}
	m := &b.Manifest
	m.Head = Head{Op: "TreeEnsembleClassifier", Node: "trees", LogitsTensor: "probabilities", Head: h, Tail: []string{"ZipMap"},
		Kind: head.Probabilities}
	m.Settings = &Settings{Head: head.Options{Kind: head.None}}
	m.Damping, m.MeanField, m.Grids, m.Labels = Damping{}, MeanField{}, nil, nil
	m.Temperatures = Temperatures{TS: 1.5, TSOOD: 2, Smoothing: 0.01}
	m.Probabilities = &calibrate.Choice{Method: calibrate.TS, TSGain: 0.1, TSNeeded: 0.005, NoPosterior: true}
	m.OODScore = &OODScore{Selection: score.Selection{Name: "entropy", Base: "entropy"}}
	m.Validation.MF0 = nil
	m.Datasets = m.Datasets[1:]
	return b
}

// columns is one with features, and a score that is fitted to them.
func columns() Bundle {
	b := votes()
	h := layer.Head{Logits: 3, Features: 2, Link: layer.Softmax, Nonlinear: true}
	knn, _ := score.Find("knn")
	fitted, err := knn.With(3, 2, score.Tensors{
		{Name: "directions", Shape: []int{2, 2}, Data: []float64{1, 0, 0, 1}}, {Name: "k", Shape: []int{1}, Data: []float64{1}}})
	if err != nil {
		panic(err)
	}
	b.Posterior, b.Score.Fitted = &calibrate.Posterior{Head: h}, *fitted
	m := &b.Manifest
	m.Head.Head, m.Head.FeaturesTensor = h, "x"
	m.Settings.Head.Features = "x"
	m.OODScore = &OODScore{Selection: score.Selection{Name: "knn", Base: "knn"}}
	m.Datasets = full().Manifest.Datasets
	return b
}

// scaled is one with matrix scaling of smoothed logits.
func scaled() Bundle {
	b := votes()
	r := b.Posterior.Head.AffineRank()
	b.Posterior.Affine = &layer.Affine{Scale: numbers(3), Offset: numbers(3), Left: numbers(3 * r),
		Right: numbers(3 * r), Smoothing: 0.01}
	m := &b.Manifest
	m.Probabilities = &calibrate.Choice{Method: calibrate.Matrix, Matrix: true, MatrixGain: 0.1,
		MatrixNeeded: 0.05, NoPosterior: true}
	m.Validation.Matrix = &Figures{InDomain: metrics.InDomain{N: 100, Error: 0.01, NLL: 0.04, ECE: 0.002, Brier: 0.02}}
	return b
}

// labels is one of labels that do not exclude each other.
func labels() Bundle {
	b := votes()
	b.Posterior.Head.Link = layer.Sigmoid
	m := &b.Manifest
	m.Head.Link, m.Temperatures.Smoothing, m.Head.Kind = layer.Sigmoid, 0, head.Scores
	m.Labels = []string{"ash", "beech", "oak"}
	return b
}

// alphabet has symbols that mean something in YAML.
var alphabet = []string{
	"", "a", " ", "#", "ß", "- b", "null", "~", "yes", "1", "1e3", "'", "\"", "\\", ",", "[", "]", "{", ":", "&", "*", "!", "|",
	"\u3000", "\u2028", "\u0085", "\ufeff", "\t", "\x7f", "😀",
}

// lines is one of a model that reads text.
func lines() Bundle {
	b := votes()
	h := layer.Head{Logits: 2, Link: layer.Softmax, Nonlinear: true, Correctness: true}
	odds, _ := score.Find("error_odds")
	fitted, err := odds.Fit(nil)
	if err != nil {
		panic(err)
	}
	b.Posterior, b.Score.Fitted = &calibrate.Posterior{Head: h}, *fitted
	m := &b.Manifest
	m.Head = Head{Op: "Softmax", Node: "softmax", LogitsTensor: "steps", Head: h, Tail: []string{}, Kind: head.CTC,
		Decoding: &head.Decoding{Of: head.Probabilities, StepsFirst: true, Alphabet: []string{"", "a", " ", "#", "ß", "- b"}}}
	m.Settings.Head.Kind, m.Labels = head.CTC, []string{"wrong", "right"}
	m.OODScore = &OODScore{Selection: score.Selection{Name: "error_odds", Base: "error_odds"}}
	return b
}

func TestABundleWithoutALayerIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	odd := lines()
	odd.Manifest.Head.Decoding.Alphabet = alphabet
	for name, b := range map[string]Bundle{"votes": votes(), "columns": columns(), "matrix scaling": scaled(), "labels": labels(), "lines": lines(), "odd symbols": odd} {
		dir := written(t, b, WriteOptions{Model: content("a model")})
		got, err := Open(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got.Posterior, b.Posterior) {
			t.Errorf("%s: posterior %+v, want %+v", name, got.Posterior, b.Posterior)
		}
		if d := b.Manifest.Head.Decoding; !reflect.DeepEqual(got.Manifest.Head.Decoding, d) {
			t.Errorf("%s: decoding %+v, want %+v", name, got.Manifest.Head.Decoding, d)
		}
		c, want := got.Calibration(), b.Manifest.Temperatures
		if c.Method != b.Manifest.Probabilities.Method || c.TS != want.TS || c.TSOOD != want.TSOOD ||
			c.Smoothing != want.Smoothing ||
			c.NLL != (layer.Temperatures{}) || c.Lambda0 != 0 || c.Score.Name != b.Score.Name {
			t.Errorf("%s: calibration %+v", name, c)
		}
		if s := got.Manifest.Summary(); s.Covariance != "" || s.Structure != "" ||
			s.Temperatures.Smoothing != want.Smoothing {
			t.Errorf("%s: summary %+v", name, s)
		}
		// What there is not is not in the file, as zero or otherwise.
		document := string(inMemory(t, dir)[ManifestName].Data)
		for _, key := range []string{"covariance", "structure", "damping:\n", "mean_field", "lambda0", "nll: {act", "grids", "mf0:", "median_variance", "rho", "epsilon"} {
			if strings.Contains(document, "\n"+key) || strings.Contains(document, "  "+key) {
				t.Errorf("%s: %q is in\n%s", name, key, document)
			}
		}
		if !strings.Contains(document, "\n  nonlinear: true\n") || !strings.Contains(document, "\n  kind: "+string(b.Manifest.Head.Kind)+"\n") {
			t.Errorf("%s: not said in\n%s", name, document)
		}
	}
}

// Each contradiction to there being no layer is an error that names the field.
func TestInvalidManifestsWithoutALayerAreRefused(t *testing.T) {
	t.Parallel()
	bundles := map[string]fstest.MapFS{}
	for name, b := range map[string]Bundle{"votes": votes(), "columns": columns(), "matrix": scaled(), "labels": labels(), "lines": lines()} {
		bundles[name] = inMemory(t, written(t, b, WriteOptions{Model: content("a model")}))
	}
	for _, test := range []struct {
		name, of, old, new string
		err                error
		text               string
	}{
		{"unchanged", "votes", "link: softmax\n", "link: softmax\n", nil, ""},
		{"a covariance", "votes", "\nprobabilities:", "\ncovariance: hessian\nprobabilities:", ErrField, "covariance is hessian"},
		{"a structure", "votes", "\nprobabilities:", "\nstructure: full\nprobabilities:", ErrField, "the head is nonlinear"},
		{"a damping", "votes", "\nprobabilities:", "\ndamping: {rule: auto, epsilon: 1, rho: 1}\nprobabilities:", ErrField, "the head is nonlinear"},
		{"a mean field", "votes", "\nprobabilities:", "\nmean_field: {lambda0: 1, median_variance: 1, max_ratio: 1}\nprobabilities:", ErrField, "mean_field.lambda0 is 1"},
		{"a median margin", "votes", "\nprobabilities:", "\nmean_field: {median_margin: 1}\nprobabilities:", ErrField, "mean_field"},
		{"temperatures of mf0", "votes", "  ts: 1.5", "  nll: {act: 1, ens: 1, tuned_on: nll}\n  ts: 1.5", ErrField, "temperatures has those of mf0"},
		{"temperatures of mf0 for OOD", "votes", "  ts: 1.5", "  ood: {act: 1, ens: 1, tuned_on: ood}\n  ts: 1.5", ErrField, "temperatures has those of mf0"},
		{"an optimum of mf0", "votes", "  ts: 1.5", "  optimum: {act: 1, ens: 1, tuned_on: nll}\n  ts: 1.5", ErrField, "temperatures has those of mf0"},
		{"mf0", "votes", "method: ts", "method: mf0", ErrField, "probabilities.method is mf0 and no_posterior is true"},
		{"a posterior", "votes", ", no_posterior: true", "", ErrField, "no_posterior is false, and head.nonlinear is true"},
		{"no kind found", "votes", "kind: probabilities", "kind: none", ErrField, "head.kind is \"none\""},
		{"no kind", "votes", "  kind: probabilities\n", "", ErrField, "head.kind is \"\""},
		{"another kind", "votes", "kind: probabilities", "kind: odds", ErrField, "odds"},
		{"a bias", "votes", "bias: false", "bias: true", ErrField, "a bias and no linear layer"},
		{"a layer", "columns", "  nonlinear: true\n", "", ErrField, "nonlinear"},
		{"features of no tensor", "columns", "  features: x\n", "", ErrField, "head.features and head.logits must name tensors"},
		{"logits of no tensor", "votes", "  logits: probabilities\n", "", ErrField, "head.features and head.logits must name tensors"},
		{"training data that are not read", "votes", "datasets:\n", "datasets:\n  - {role: train, spec: t, fingerprint: \"" + strings.Repeat("1b", 32) + "\", count: 5}\n", ErrField, "without a linear layer or features not train"},
		{"features without training data", "columns", "role: train", "role: ood", ErrField, "datasets needs the roles train and val"},
		{"no validation data", "votes", "role: val", "role: ood", ErrField, "datasets needs the roles"},
		{"smoothing too large", "votes", "smoothing: 0.01", "smoothing: 1.5", ErrField, "temperatures.smoothing is 1.5, want 0 to 1"},
		{"negative smoothing", "votes", "smoothing: 0.01", "smoothing: -0.01", ErrField, "temperatures.smoothing is -0.01"},
		{"smoothing that is NaN", "votes", "smoothing: 0.01", "smoothing: .nan", ErrNotFinite, "temperatures.smoothing is NaN"},
		{"smoothing of labels", "labels", "  ts: 1.5", "  smoothing: 0.01\n  ts: 1.5", ErrField, "temperatures.smoothing is for a nonlinear head with the link softmax"},
		{"a score of leverages", "votes", "name: entropy", "name: leverage", ErrField, "ood_score.name is leverage, which the head does not have"},
		{"a score of margins", "votes", "name: entropy", "name: mf0", ErrField, "ood_score.name is mf0, which the head does not have"},
		{"a score of features", "votes", "name: entropy", "name: mahalanobis", ErrField, "ood_score.name is mahalanobis, which the head does not have"},
		{"a score of weights", "columns", "name: knn", "name: react", ErrField, "ood_score.name is react, which the head does not have"},
		{"settings of a layer", "votes", "    kind: none\n", "    link: softmax\n", ErrField, "settings.head.kind is \"\", and head.nonlinear is true"},
		{"settings of a covariance", "votes", "    kind: none\n", "    kind: none\n  covariance: hessian\n", ErrField, "is for the posterior of a linear last layer"},
		{"settings of lambda0", "votes", "    kind: none\n", "    kind: none\n  lambda0: 0.3\n", ErrField, "is for the posterior of a linear last layer"},
		{"settings of a damping", "votes", "damping: auto", "damping: rel:1", ErrField, "is for the posterior of a linear last layer"},
		{"matrix scaling that is missing", "votes", "method: ts", "method: matrix", ErrField, "probabilities.method is matrix, and matrix is missing"},
		{"smoothing of a smoothed map", "matrix", "smoothing: 0.01", "smoothing: 2", ErrField, "temperatures.smoothing is 2"},
		{"text without a decoding", "lines", "  decoding:\n    of: probabilities\n    steps_first: true\n    blank: 0\n    alphabet: [\"\", a, ' ', '#', ß, '- b']\n", "", ErrField, "want a decoding of text"},
		{"classes with a decoding", "lines", "kind: ctc", "kind: probabilities", ErrField, "want a decoding of text"},
		{"text that is no answer", "lines", "  correctness: true\n", "", ErrField, "ood_score.name is error_odds, which the head does not have"},
		{"an answer that is no text", "votes", "  nonlinear: true\n", "  nonlinear: true\n  correctness: true\n", ErrField, "ood_score.name is entropy, which the head does not have"},
		{"no blank", "lines", "[\"\", a,", "[b, a,", ErrField, "head: decoding.alphabet has \"b\" for symbol 0"},
		{"two blanks", "lines", "[\"\", a,", "[\"\", '',", ErrField, "head: decoding.alphabet has \"\" for symbol 1"},
		{"a blank that is no symbol", "lines", "blank: 0", "blank: 6", ErrField, "head: decoding.blank is 6, want 0 to 5"},
		{"a negative blank", "lines", "blank: 0", "blank: -2", ErrField, "head: decoding.blank is -2"},
		{"one symbol", "lines", "[\"\", a, ' ', '#', ß, '- b']", "['']", ErrField, "head: decoding.alphabet has 1 symbols, want 2 to 131072"},
		{"a long symbol", "lines", "'- b'", strings.Repeat("b", 65), ErrField, "want at most 64 bytes"},
		{"steps of margins", "lines", "of: probabilities", "of: none", ErrField, "head: decoding.of is \"none\""},
		{"a score of classes", "lines", "name: error_odds", "name: entropy", ErrField, "ood_score.name is entropy, which the head does not have"},
		{"a score of answers", "votes", "name: entropy", "name: error_odds", ErrField, "ood_score.name is error_odds, which the head does not have"},
	} {
		files := maps.Clone(bundles[test.of])
		document, err := folder.Unseal(files[ManifestName].Data, resealHint)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(document, []byte(test.old)) {
			t.Fatalf("%s: the manifest does not say %q:\n%s", test.name, test.old, document)
		}
		changed := folder.Seal(bytes.Replace(document, []byte(test.old), []byte(test.new), 1))
		files[ManifestName] = &fstest.MapFile{Data: changed, Mode: 0o644}
		_, err = OpenFS(files)
		if test.err == nil {
			if err != nil {
				t.Fatalf("unchanged: %v", err)
			}
			continue
		}
		t.Run(test.name, func(t *testing.T) { oneLine(t, err, test.err, test.text) })
	}
}

// A linear head has no smoothing and no kind.
func TestALinearHeadHasNothingOfANonlinearOne(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(m *Manifest)
		text   string
	}{
		"smoothing":     {func(m *Manifest) { m.Temperatures.Smoothing = 0.1 }, "temperatures.smoothing is for a nonlinear head"},
		"a kind":        {func(m *Manifest) { m.Head.Kind = head.Probabilities }, "head.kind is \"probabilities\""},
		"no posterior":  {func(m *Manifest) { m.Probabilities.NoPosterior = true }, "no_posterior is true, and head.nonlinear is false"},
		"no layer":      {func(m *Manifest) { m.Head.Nonlinear = true }, "which the head does not have"},
		"no covariance": {func(m *Manifest) { m.Covariance = "" }, "covariance"},
	} {
		read, err := Open(written(t, full(), withFiles()))
		if err != nil {
			t.Fatal(err)
		}
		m := read.Manifest
		test.change(&m)
		t.Run(name, func(t *testing.T) { oneLine(t, m.Validate(), ErrField, test.text) })
	}
}

// Of tensors, a bundle without a layer has those of matrix scaling alone.
func TestTensorsWithoutALayer(t *testing.T) {
	t.Parallel()
	blocks := safetensors.Tensor{Name: "blocks", Shape: []int{3, 2, 2}, Data: numbers(12)}
	for name, test := range map[string]struct {
		b      Bundle
		change func([]safetensors.Tensor) []safetensors.Tensor
		err    error
		text   string
	}{
		"a posterior":   {votes(), func(l []safetensors.Tensor) []safetensors.Tensor { return append(l, blocks) }, ErrTensors, `"blocks" is unknown`},
		"a missing map": {scaled(), func(l []safetensors.Tensor) []safetensors.Tensor { return l[1:] }, ErrTensors, "is missing"},
		"a map that is NaN": {scaled(), func(l []safetensors.Tensor) []safetensors.Tensor {
			l[0].Data.([]float64)[1] = math.NaN()
			return l
		}, ErrNotFinite, "tensor "},
	} {
		t.Run(name, func(t *testing.T) {
			files := inMemory(t, written(t, test.b, WriteOptions{Model: content("a model")}))
			var list []safetensors.Tensor
			for _, tensor := range tensors(test.b.Posterior) {
				list = append(list, safetensors.Tensor{Name: tensor.name, Shape: tensor.shape,
					Data: append([]float64(nil), *tensor.data...)})
			}
			var data bytes.Buffer
			if err := safetensors.Encode(&data, test.change(list), nil); err != nil {
				t.Fatal(err)
			}
			withFile(t, files, PosteriorName, data.Bytes())
			_, err := OpenFS(files)
			oneLine(t, err, test.err, test.text)
		})
	}
}

// Settings of a posterior are refused where there is none, and none are filled in.
func TestSettingsWithoutALayer(t *testing.T) {
	t.Parallel()
	of := func(kind head.Kind, change func(*Settings)) Settings {
		s := Settings{Head: head.Options{Kind: kind}}
		change(&s)
		return s
	}
	for _, kind := range head.Kinds {
		s := of(kind, func(*Settings) {}).Complete()
		if err := s.Validate(); err != nil || s.Covariance != "" || s.Structure != "" || s.Lambda0 != 0 {
			t.Errorf("%s: %+v, %v", kind, s, err)
		}
	}
	for want, s := range map[string]Settings{
		"Covariance is for the posterior":  of(head.None, func(s *Settings) { s.Covariance = calibrate.Hessian }),
		"Structure is for the posterior":   of(head.Scores, func(s *Settings) { s.Structure = calibrate.Auto }),
		"Damping is for the posterior":     of(head.None, func(s *Settings) { s.Damping.Relative = 1 }),
		"lambda0 is for the posterior":     of(head.Probabilities, func(s *Settings) { s.Lambda0 = 1 }),
		"Approximate is for the posterior": of(head.None, func(s *Settings) { s.Head.Approximate = head.IgnoreRelu }),
		"Kind \"forest\": want none":       of("forest", func(*Settings) {}),
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
