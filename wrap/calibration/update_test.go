package calibration_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/approx"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// A bundle to which data is added is that of one calibration on the old and the new.
func TestAnUpdateIsOneCalibration(t *testing.T) {
	t.Parallel()
	file := classified(t, 5000, 6, 4)
	for name, c := range map[string]Config{
		"full": {Settings: bundle.Settings{Structure: calibrate.Full}},
		"sandwich": {Settings: bundle.Settings{
			Structure: calibrate.Kronecker, Covariance: calibrate.Sandwich,
			Damping: calibrate.Damping{Relative: 1}, OODScore: score.Default,
		}},
	} {
		dir := t.TempDir()
		c.PrecomputedFeatures, c.Val, c.OOD, c.KeepCurvature = true, file+"[4400:]", file+"[:100]", true
		c.Train, c.Out = file+"[:3000]", filepath.Join(dir, "one")
		mustCalibrate(t, c)
		one := c.Out
		c.Train, c.Out = file+"[:1024]", filepath.Join(dir, "b")
		mustCalibrate(t, c)

		// Once in another place, and then in its own.
		other := filepath.Join(dir, "other")
		r, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: file + "[1024:2048]", Out: other})
		if err != nil {
			t.Fatal(err)
		}
		if r.Examples.Train != 2048 || r.Bundle != other {
			t.Errorf("%s: report %+v", name, r)
		}
		before := read(t, filepath.Join(c.Out, bundle.ManifestName))
		if _, err := Update(t.Context(), UpdateConfig{Bundle: other, Train: file + "[2048:3000]"}); err != nil {
			t.Fatal(err)
		}
		if string(before) != string(read(t, filepath.Join(c.Out, bundle.ManifestName))) {
			t.Errorf("%s: the old bundle has changed", name)
		}
		got, err := bundle.Open(other)
		if err != nil {
			t.Fatal(err)
		}
		specs, count := []string{}, 0
		for _, d := range got.Manifest.Datasets {
			if d.Role == bundle.Train {
				specs, count = append(specs, strings.TrimPrefix(d.Spec, file)), count+d.Count
			}
		}
		if !slices.Equal(specs, []string{"[:1024]", "[1024:2048]", "[2048:3000]"}) || count != 3000 {
			t.Errorf("%s: training data %q of %d examples", name, specs, count)
		}
		sameNumbers(t, name, other, one, 1e-12)

		for what, u := range map[string]struct {
			c    UpdateConfig
			want string
		}{
			"the first":    {UpdateConfig{Train: file + "[:1024]"}, "is already in the bundle"},
			"the last":     {UpdateConfig{Train: file + "[2048:3000]"}, "is already in the bundle"},
			"another name": {UpdateConfig{Train: file + "[00:1024]"}, "is already in the bundle"},
			"some of it":   {UpdateConfig{Train: file + "[2990:3600]"}, file + "[2990:3000] is already in the bundle"},
			"other data":   {UpdateConfig{Train: classified(t, 600, 3, 4)}, "3 features and 4 logits"},
			"a model":      {UpdateConfig{Train: file + "[3000:]", Model: "m.onnx"}, "the bundle was calibrated with precomputed features"},
			"taken":        {UpdateConfig{Train: file + "[3000:]", Out: c.Out}, "use Force"},
			"nothing":      {UpdateConfig{}, "there is nothing to update"},
		} {
			before := read(t, filepath.Join(other, bundle.ManifestName))
			u.c.Bundle = other
			_, err := Update(t.Context(), u.c)
			says(t, err, u.want)
			if string(before) != string(read(t, filepath.Join(other, bundle.ManifestName))) {
				t.Errorf("%s, %s: the bundle has changed", name, what)
			}
		}
	}
}

// An update chooses the damping by the rule that the bundle was made with.
func TestAnUpdateKeepsTheRuleOfDamping(t *testing.T) {
	t.Parallel()
	file := classified(t, 2500, 6, 4)
	for _, d := range []calibrate.Damping{{}, {Absolute: 40}, {Relative: 0.02}} {
		c := Config{
			PrecomputedFeatures: true, Val: file + "[2000:]", KeepCurvature: true,
			Train: file + "[:2000]", Out: filepath.Join(t.TempDir(), "one"),
			Settings: bundle.Settings{Structure: calibrate.Kronecker, Damping: d},
		}
		want := mustCalibrate(t, c)
		c.Train, c.Out = file+"[:1024]", filepath.Join(t.TempDir(), "b")
		mustCalibrate(t, c)
		got, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: file + "[1024:2000]"})
		if err != nil {
			t.Fatal(err)
		}
		if g, w := got.Damping, want.Damping; g.Rule != w.Rule || !approx.Relative(g.Epsilon, w.Epsilon, 1e-9) {
			t.Errorf("damping %v: the update has %+v, one calibration %+v", d, g, w)
		}
	}
}

// Blocks that are added lie behind the bundle's own, wherever they lie in their file: sums and sample have the
// bytes of one calibration.
func TestAnUpdateAddsBlocksAfterTheExistingOnes(t *testing.T) {
	t.Parallel()
	file := classified(t, 3000, 6, 4)
	c := Config{
		PrecomputedFeatures: true, Val: file + "[2560:]", KeepCurvature: true,
		Train: file + "[:2560]", Out: filepath.Join(t.TempDir(), "one"),
		Settings: bundle.Settings{Structure: calibrate.Full},
	}
	mustCalibrate(t, c)
	one := c.Out
	for name, cuts := range map[string][]string{
		"as they lie": {"[:1024]", "[1024:1536]", "[1536:2560]"}, "at once": {"[:2048]", "[2048:2560]"},
	} {
		c.Train, c.Out = file+cuts[0], filepath.Join(t.TempDir(), "b")
		mustCalibrate(t, c)
		for _, cut := range cuts[1:] {
			if _, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: file + cut}); err != nil {
				t.Fatal(err)
			}
		}
		for _, part := range []string{bundle.CurvatureName, bundle.SampleName} {
			if !bytes.Equal(read(t, filepath.Join(c.Out, part)), read(t, filepath.Join(one, part))) {
				t.Errorf("%s: another %s", name, part)
			}
		}
	}
}

// A bundle that another process has changed meanwhile stands as that has left it.
func TestAnUpdateLosesNoOther(t *testing.T) {
	t.Parallel()
	file := classified(t, 2500, 4, 3)
	c := Config{
		PrecomputedFeatures: true, Val: file + "[2000:]", KeepCurvature: true,
		Train: file + "[:1000]", Out: filepath.Join(t.TempDir(), "b"),
		Settings: bundle.Settings{Structure: calibrate.Full},
	}
	mustCalibrate(t, c)
	var other []byte
	u := UpdateConfig{Bundle: c.Out, Train: file + "[1000:1500]"}
	u.Progress = func(p Progress) {
		if p.Stage == "val" && other == nil {
			if _, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: file + "[1500:2000]"}); err != nil {
				t.Error(err)
			}
			other = read(t, filepath.Join(c.Out, bundle.ManifestName))
		}
	}
	_, err := Update(t.Context(), u)
	says(t, err, c.Out+" has changed since it was opened: update it again")
	if !bytes.Equal(read(t, filepath.Join(c.Out, bundle.ManifestName)), other) {
		t.Error("the other update is lost")
	}
}

// Data from another file are added after the bundle's, with other validation data.
func TestAnUpdateFromAnotherFile(t *testing.T) {
	t.Parallel()
	file := classified(t, 3000, 4, 3)
	dir := t.TempDir()
	again := write(t, dir, "again.npz", read(t, file)) // begins at position 0 again
	c := Config{
		PrecomputedFeatures: true, Train: file, Val: file + "[:500]", KeepCurvature: true,
		Out:      filepath.Join(dir, "b"),
		Settings: bundle.Settings{Structure: calibrate.Full},
	}
	mustCalibrate(t, c)
	r, err := Update(t.Context(), UpdateConfig{
		Bundle: c.Out, Train: again + "[:700]", Val: again + "[700:1200]", OOD: again + "[1200:]",
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Examples.Train != 3700 || r.Examples.Val != 500 || r.Examples.OOD != 1800 {
		t.Errorf("examples %+v", r.Examples)
	}
	_, err = Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: again})
	says(t, err, "is already in the bundle")

	_, err = Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: file + "[2900:]"})
	says(t, err, file+"[2900:3000] is already in the bundle")

	// Validation data that is not what it was is refused, and so is what eval would read.
	if err := os.Rename(classified(t, 2999, 4, 3), again); err != nil {
		t.Fatal(err)
	}
	other := classified(t, 2000, 4, 3)
	_, err = Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: other + "[1:]"})
	says(t, err, "has changed since the bundle was written", "with Val")
	_, err = bench.Evaluate(t.Context(), bench.Config{
		Bundle: c.Out, Test: file, Methods: []string{"mle", "knn"},
	})
	says(t, err, "the bundle was updated", "with Train")
}

// Data is known again however a bundle came about and wherever it lies. Of a file that has changed
// since, it is not known what was in the bundle.
func TestAnUpdateOfAMergedBundleKnowsItsData(t *testing.T) {
	t.Parallel()
	file := classified(t, 4000, 4, 3)
	dir := t.TempDir()
	elsewhere := write(t, dir, "elsewhere.npz", read(t, file))
	link := filepath.Join(dir, "link.npz")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	c := Config{PrecomputedFeatures: true, Train: file + "[:3000]", Val: file + "[3000:]",
		Settings: bundle.Settings{
			Structure: calibrate.Full,
		}}
	all := parts(t, c, 3)
	out := filepath.Join(dir, "b")
	if _, err := Merge(t.Context(), MergeConfig{Parts: all, Out: out, KeepCurvature: true}); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{
		file + "[:3000]", file + "[0:3000]", filepath.Dir(file) + "/./" + filepath.Base(file) + "[:3000]",
		elsewhere + "[:3000]", file + "[:1024]", elsewhere + "[:1024]", link + "[2999:3100]",
	} {
		_, err := Update(t.Context(), UpdateConfig{Bundle: out, Train: spec})
		says(t, err, "is already in the bundle", "add each example once")
	}

	// Now with another file, and validation data configured.
	if err := os.Rename(classified(t, 3500, 4, 3), file); err != nil {
		t.Fatal(err)
	}
	r, err := Update(t.Context(), UpdateConfig{Bundle: out, Train: file + "[2900:3100]", Val: elsewhere + "[3000:]"})
	if err != nil || !slices.ContainsFunc(r.Warnings, func(w string) bool {
		return strings.Contains(w, "share "+file+"[2900:3000], which has changed since")
	}) {
		t.Errorf("warnings %q: %v", r.Warnings, err)
	}
}

// A bundle of a network is updated with its own model and preprocessing.
func TestAnUpdateRunsTheModelAgain(t *testing.T) {
	t.Parallel()
	c := config(t, filepath.Join(t.TempDir(), "b"))
	images := strings.TrimSuffix(c.Train, "[0:1200]")
	if images == c.Train {
		t.Fatalf("training data is %s", c.Train)
	}
	c.Structure, c.KeepCurvature = calibrate.Kronecker, true
	one := c
	one.Out = filepath.Join(t.TempDir(), "one")
	mustCalibrate(t, one)
	c.Train = images + "[0:512]"
	mustCalibrate(t, c)
	r, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: images + "[512:1200]"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Examples.Train != 1200 || r.Model == nil || r.Head.LogitError == 0 {
		t.Errorf("report %+v", r)
	}
	sameNumbers(t, "digits", c.Out, one.Out, 1e-10)
	if a, b := list(t, c.Out), list(t, one.Out); !slices.Equal(a, b) {
		t.Errorf("files %q, want %q", a, b)
	}
	opened(t, c.Out, Options{})

	without := quick(config(t, filepath.Join(t.TempDir(), "without")))
	mustCalibrate(t, without)
	_, err = Update(t.Context(), UpdateConfig{Bundle: without.Out, Train: c.Train})
	says(t, err, "has no curvature", "with KeepCurvature")
	_, err = Update(t.Context(), UpdateConfig{Bundle: t.TempDir(), Train: c.Train})
	says(t, err, "not a bundle")
}
