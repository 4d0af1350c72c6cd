package main

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// implausible warns of an accuracy on a set that is far too low.
func implausible(set string, m metrics.InDomain) string {
	return fmt.Sprintf("%s: the accuracy is only %.1f %% on %d examples: check the labels, "+
		"the order of the classes (--classes), and the preprocessing (--preprocess)", set, 100*(1-m.Error), m.N)
}

// calibrationWarning checks the accuracy on the validation data of a calibration, and the scale of pixels.
func calibrationWarning(c calibration.Config, r *calibration.Report) []string {
	if c.PrecomputedFeatures || r.Head.MultiLabel() {
		return nil
	}
	var warnings []string
	m := r.Validation.Before.InDomain
	if r.Head.Correctness {
		if m.Error > 0.95 {
			warnings = append(warnings, fmt.Sprintf("val: only %.1f %% of %s are right: check the labels, the symbols (--alphabet), and the preprocessing (--preprocess)",
				100*(1-m.Error), text.Plural(m.N, "text")))
		}
	} else if m.Implausible(r.Head.Classes()) {
		warnings = append(warnings, implausible("val", m))
	}
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
func evaluationWarning(e *bench.Evaluation) []string {
	if !e.Implausible {
		return nil
	}
	i := slices.IndexFunc(e.Methods, func(m bench.MethodResult) bool { return m.Name == "mle" })
	return []string{implausible("test", e.Methods[i].InDomain.InDomain)}
}
