package calibration_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// withSynthetic is the calibration of the digits' network, with synthetic OOD data.
func withSynthetic(t testing.TB) Config {
	t.Helper()
	const images = "../../models/digits-mlp/digits-images-idx3-ubyte.gz"
	return Config{
		Model: "../../models/digits-mlp/model.onnx", Train: images + "[0:1100]", Val: images + "[1100:1797]",
		OOD: SyntheticOOD, Out: filepath.Join(t.TempDir(), "out"),
		Settings: bundle.Settings{Structure: calibrate.Kronecker, Damping: calibrate.Damping{Relative: 1}},
	}
}

// The synthetic images of a shard are made from its own validation images: together they are those of one pass.
func TestSyntheticImagesOfAllShardsAreThoseOfOnePass(t *testing.T) {
	t.Parallel()
	c := withSynthetic(t)
	c.Shard = rows.Shard{Index: 1, Count: 1}
	if _, err := Accumulate(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	both := group(t, parts(t, c, 2)...)
	for _, name := range []string{part.ValName, part.SyntheticName} {
		if !bytes.Equal(read(t, filepath.Join(both, name)), read(t, filepath.Join(c.Out, name))) {
			t.Errorf("another %s", name)
		}
	}
	if bytes.Equal(read(t, filepath.Join(both, part.ValName)), read(t, filepath.Join(both, part.SyntheticName))) {
		t.Error("the synthetic images are the validation examples")
	}
	// A feature cache distinguishes images from synthetic ones.
	cached := c
	cached.Cache = t.TempDir()
	for _, name := range []string{"first", "second"} {
		cached.Out = filepath.Join(t.TempDir(), name)
		if _, err := Accumulate(t.Context(), cached); err != nil {
			t.Fatal(err)
		}
		sameFiles(t, name+" with a cache", cached.Out, c.Out)
	}
	p, err := part.Open(both, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.SyntheticOOD.N != p.Val.N || p.OOD != nil {
		t.Errorf("%d synthetic images for %d validation examples, beside out-of-distribution data %v", p.SyntheticOOD.N, p.Val.N, p.OOD)
	}
}

func TestSyntheticOODDataNeedImages(t *testing.T) {
	t.Parallel()
	c := withSynthetic(t)
	features := classified(t, 100, 4, 3)
	for name, test := range map[string]struct {
		change func(c *Config)
		want   string
	}{
		"precomputed features": {func(c *Config) {
			*c = Config{PrecomputedFeatures: true, Train: features, Val: features, OOD: SyntheticOOD, Out: c.Out}
		},
			"auto makes synthetic OOD images from images, and this dataset has precomputed features: give a dataset instead of auto"},
		"no validation data": {func(c *Config) { c.Val, c.Shard = "", rows.Shard{Index: 1, Count: 2} },
			"there is no validation data"},
		"arrays": {func(c *Config) {
			c.Val = write(t, t.TempDir(), "v.npz", npz(t, map[string]array{
				"image": arrayOf(random(3, 30*64), 30, 1, 8, 8), "labels": arrayOf(make([]int64, 30), 30),
			}))
		}, "this is not an image with 8-bit pixels, but an array [1 8 8] of float32: give a dataset instead of auto"},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			test.change(&c)
			_, err := Accumulate(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// Only the learned score depends on synthetic OOD data: temperatures and figures are as without.
func TestSyntheticOODDataAreUsedForScoresOnly(t *testing.T) {
	t.Parallel()
	c := withSynthetic(t)
	c.OODScore, c.KeepCurvature = "learned", true
	r := mustCalibrate(t, c)
	without := c
	without.OOD, without.OODScore, without.Out = "", "", filepath.Join(t.TempDir(), "without")
	plain := mustCalibrate(t, without)
	if got, want := r.Temperatures, plain.Temperatures; got.OODTuned || got.NLL != want.NLL || got.OOD != want.OOD {
		t.Errorf("temperatures %+v, without synthetic images %+v", r.Temperatures, plain.Temperatures)
	}
	if r.Validation.After.OOD != nil || r.Validation.Scores != nil || r.Examples.OOD != 0 ||
		r.Examples.SyntheticOOD != r.Examples.Val {
		t.Errorf("synthetic images are out-of-distribution data: %+v, %+v", r.Validation, r.Examples)
	}
	tried := r.Validation.SyntheticOOD
	if len(tried) < 10 || tried[0].Name != "guarded_margin" || tried[len(tried)-1].Name != "learned" {
		t.Fatalf("scores on synthetic images: %+v", tried)
	}
	if learned := tried[len(tried)-1].AUROC; !(learned > 0.98) {
		t.Errorf("the learned score detects the synthetic images that it is learned from with AUROC %v", learned)
	}
	if o := r.OODScore; o.Name != "learned" || !o.Requested || !o.Synthetic || !strings.Contains(o.Reason, "synthetic OOD images") {
		t.Errorf("score %+v", o)
	}

	// Nothing is learned from examples that set thresholds, nor from images made from them.
	half := c
	half.Out, half.Decisions = filepath.Join(t.TempDir(), "half"), conformal.Plan{Alpha: 0.1}
	all, some := tried[0].N, mustCalibrate(t, half).Validation.SyntheticOOD[0].N
	if some != (all+1)/2 {
		t.Errorf("with decisions scores are tried on %d synthetic images, without on %d", some, all)
	}

	b, err := bundle.Open(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	sets := b.Manifest.Datasets
	if len(sets) != 3 || sets[2].Role != bundle.SyntheticOOD || sets[2].Spec != c.Val ||
		sets[2].Fingerprint == sets[1].Fingerprint {
		t.Errorf("datasets %+v", sets)
	}
	together := merged(t, parts(t, c, 2)...)
	sameCalibration(t, "parts", together, c.Out, 1e-9)
	other, err := bundle.Open(together)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := b.Score.Tensors.Of("part_weights").Data, other.Score.Tensors.Of("part_weights").Data
	for i, w := range mine {
		if !approx.Equal(theirs[i], w, 1e-6) {
			t.Errorf("weight %d is %v of parts, %v of one pass", i, theirs[i], w)
		}
	}

	u, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: classifiedDigits(t)})
	if err != nil {
		t.Fatal(err)
	}
	if u.OODScore.Name != "learned" || u.Examples.SyntheticOOD != r.Examples.SyntheticOOD {
		t.Errorf("updated, the score is %+v of %+v", u.OODScore, u.Examples)
	}
}

// classifiedDigits are images that no set has, without labels.
func classifiedDigits(t testing.TB) string {
	pixels := make([]byte, 20*64)
	for i := range pixels {
		pixels[i] = byte(i * i)
	}
	return write(t, t.TempDir(), "more-images-idx3-ubyte", idx(pixels, 20, 8, 8))
}

func TestTheLearnedScoreNeedsOODData(t *testing.T) {
	t.Parallel()
	c := withSynthetic(t)
	c.OOD, c.OODScore = "", "learned"
	_, err := Calibrate(t.Context(), c)
	says(t, err, "the score learned needs OOD data to learn from", "give OOD")
	_, err = Merge(t.Context(), MergeConfig{Parts: parts(t, c, 1), Out: filepath.Join(t.TempDir(), "b")})
	says(t, err, "the score learned needs OOD data to learn from", "OOD auto")
}

// Figures on synthetic OOD data are marked as such, and do not count for recommendations.
func TestSyntheticOODDataAreReportedSeparately(t *testing.T) {
	t.Parallel()
	c := withSynthetic(t)
	mustCalibrate(t, c)
	e := bench.Config{Bundle: c.Out, Test: c.Val, OOD: []bench.NamedSpec{{Name: "synthetic_ood", Spec: SyntheticOOD}}}
	r, err := bench.Evaluate(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Methods {
		if len(m.OOD) != 1 || m.OOD[0].Name != "synthetic_ood" {
			t.Errorf("%s: %+v", m.Name, m.OOD)
		}
	}
	if r.Recommendation.Score != nil {
		t.Errorf("recommended by synthetic images: %+v", r.Recommendation.Score)
	}
	for _, n := range []bench.NamedSpec{{Name: "synthetic_ood", Spec: c.Val}, {Name: "real", Spec: SyntheticOOD}} {
		e.OOD = []bench.NamedSpec{n}
		_, err := bench.Evaluate(t.Context(), e)
		says(t, err, "no other dataset may have this name")
	}
}

// A calibration that is interrupted while it reads synthetic images gives the same bytes when it is resumed.
func TestACalibrationWithSyntheticOODDataIsResumed(t *testing.T) {
	t.Parallel()
	c := withSynthetic(t)
	c.OODScore, c.Runtime.Batch = "learned", 64
	mustCalibrate(t, c)
	again := c
	again.Resume, again.Out = true, filepath.Join(t.TempDir(), "again")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	again.Progress = func(p Progress) {
		if p.Stage == "synthetic_ood" && p.Done > 600 {
			cancel()
		}
	}
	if _, err := Calibrate(ctx, again); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	again.Progress = nil
	var went []string
	again.Notice = func(s string) { went = append(went, s) }
	mustCalibrate(t, again)
	if !slices.ContainsFunc(went, func(s string) bool { return strings.HasPrefix(s, "synthetic_ood: resuming after 436 ") }) {
		t.Errorf("notices %q, want that the synthetic images are resumed after a whole block", went)
	}
	sameFiles(t, "resumed", again.Out, c.Out)
}
