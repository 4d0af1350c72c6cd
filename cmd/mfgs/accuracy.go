package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/metrics"
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
		"the order of the classes (--classes) and the preprocessing (--preprocess)", set, 100*(1-m.Error), m.N, classes)}
}

// calibrationWarning checks the accuracy on the validation images of a calibration.
func calibrationWarning(c calibration.Config, r *calibration.Report) []string {
	if c.PrecomputedFeatures || r.Preprocess == nil || r.Preprocess.Spec == nil || r.Head.MultiLabel() {
		return nil
	}
	return accuracyWarning("val", r.Validation.Before.InDomain, r.Head.Classes())
}

// evaluationWarning checks the accuracy on the test images of an evaluation.
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
	if cmp.Or(c.Preprocess, b.Manifest.Preprocess) == nil || h.MultiLabel() {
		return nil
	}
	return accuracyWarning("test", e.Methods[i].InDomain.InDomain, h.Classes())
}
