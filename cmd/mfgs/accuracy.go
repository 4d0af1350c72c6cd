package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// lowAccuracy reports whether the figures suggest wrong labels or preprocessing: accuracy no better than chance,
// or most predictions wrong at high confidence.
func lowAccuracy(m metrics.InDomain, classes int) bool {
	const (
		enough = 20 // examples
		often  = 0.5
		excess = 0.3 // of mean confidence over accuracy
	)
	if m.N < enough || classes < 2 {
		return false
	}
	chance := 1 / float64(classes)
	byChance := chance + 3*math.Sqrt(chance*(1-chance)/float64(m.N))
	return 1-m.Error <= byChance || m.Error > often && m.ECE > excess
}

// accuracyWarning returns a slice of one warning if the accuracy on a set is far too low, else nil.
func accuracyWarning(set string, m metrics.InDomain, classes int) []string {
	if !lowAccuracy(m, classes) {
		return nil
	}
	return []string{fmt.Sprintf("%s: the accuracy is only %.1f %% on %d examples of %d classes: check the labels, "+
		"the order of the classes (--classes), and the preprocessing (--preprocess) or the order of columns", set, 100*(1-m.Error), m.N, classes)}
}

// calibrationWarning checks the accuracy on the validation data of a calibration, and the scale of pixels.
func calibrationWarning(c calibration.Config, r *calibration.Report) []string {
	if c.PrecomputedFeatures || r.Head.MultiLabel() {
		return nil
	}
	warnings := accuracyWarning("val", r.Validation.Before.InDomain, r.Head.Classes())
	if r.Preprocess != nil && forScaledPixels(r.Preprocess.Spec) {
		warnings = append(warnings, "preprocessing: mean and std are for pixels from 0 to 1, and these are from 0 to 255: "+
			"add scale: 0.00392156862745098 to the file if the model expects that")
	}
	return warnings
}

// forScaledPixels reports whether mean and std look like those of pixels from 0 to 1, and nothing scales to these.
func forScaledPixels(s *preprocess.Spec) bool {
	return s != nil && (s.Scale == 0 || s.Scale == 1) && len(s.Std) > 0 && slices.Max(s.Std) < 1 &&
		(len(s.Mean) == 0 || slices.Max(s.Mean) <= 1)
}

// evaluationWarning checks the accuracy on the test data of an evaluation.
func evaluationWarning(c bench.Config, e *bench.Evaluation) []string {
	i := slices.IndexFunc(e.Methods, func(m bench.MethodResult) bool { return m.Name == "mle" && m.InDomain != nil })
	if i < 0 || e.Model == nil {
		return nil
	}
	b, err := bundle.Open(c.Bundle)
	if err != nil {
		return nil
	}
	h := b.Manifest.Head.Head
	if h.MultiLabel() {
		return nil
	}
	return accuracyWarning("test", e.Methods[i].InDomain.InDomain, h.Classes())
}
