package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/cmd/mfgs/internal/pretrained"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/mfgs/mfgs/wrap/report"
)

// methodNames are the names of methods in sentences and in tables of a calibration.
var methodNames = map[string]string{
	"mle": "network (uncalibrated)", "ts": "temperature scaling", "matrix": "matrix scaling", "mf0": "mfgs (mf0)", "studentized": "studentized margin",
	"guarded_margin": "guarded margin",
}

func methodName(name string) string { return cmp.Or(methodNames[name], name) }

// calibrationAnswer says in a few sentences what a calibration gained on its validation data, and how sure that is.
func calibrationAnswer(r *calibration.Report) string {
	return likelihoodSentence(r) + " " + scoreSentence(r)
}

func likelihoodSentence(r *calibration.Report) string {
	before, chosen := r.Validation.Before.NLL, r.Probabilities.Method
	after := r.Validation.TS.NLL
	switch chosen {
	case calibrate.MLE:
		return fmt.Sprintf("The network's own probabilities are used: "+
			"no calibration lowers their NLL of %s on the validation data enough.", nats(before))
	case calibrate.Matrix, calibrate.MF0:
		after = r.Validation.After.NLL
	}
	name, examples := capital(methodName(string(chosen))), r.Validation.Before.InDomain.N
	if after >= before { // half an error was added: docs/guide.md
		return fmt.Sprintf("%s is used, although the NLL on the validation data rises from %s to %s: "+
			"%s with so few errors do not support the network's confidence.",
			name, nats(before), nats(after), text.Plural(examples, "example"))
	}
	sure := significance(r.Recommendation.Probabilities, string(chosen), examples)
	return fmt.Sprintf("%s lowers the NLL on the validation data from %s to %s%s.", name, nats(before), nats(after), sure)
}

func scoreSentence(r *calibration.Report) string {
	name := methodName(r.OODScore.Name)
	before, after := r.Validation.Before.OOD, r.Validation.After.OOD
	switch {
	case before != nil && after != nil:
		sure := significance(r.Recommendation.Score, r.OODScore.Name, r.Validation.Before.InDomain.N)
		return fmt.Sprintf("OOD detection: %s has an AUROC of %s on the OOD data, the network's own confidence %s%s.",
			name, inWords(after.AUROC), inWords(before.AUROC), sure)
	case r.Validation.SyntheticOOD != nil:
		return fmt.Sprintf("OOD detection: %s, measured only on synthetic images.", name)
	}
	return fmt.Sprintf("OOD detection: %s, without OOD data to measure it on.", name)
}

// inWords writes a fraction in per cent for a sentence.
func inWords(v float64) string { return strings.Replace(percent(v), "%", " %", 1) }

// significance says whether a method differs significantly from the network on examples of the validation data, "" if
// that is not known.
func significance(r *metrics.Recommended, method string, examples int) string {
	if r == nil {
		return ""
	}
	d, ok := r.Over["mle"]
	if r.Method != method {
		if r.Method != "mle" {
			return ""
		}
		d, ok = r.Over[method] // of the opposite sign
	}
	switch {
	case !ok:
		return ""
	case d.Significant():
		return " (significant)"
	}
	return fmt.Sprintf(" (not significant with %s)", text.Plural(examples, "example"))
}

// afterCalibration is the command to run next.
func afterCalibration(r *calibration.Report, noModel bool) string {
	args := []string{"mfgs", "eval", "--bundle", r.Bundle, "--test", "SPEC", "--ood", "NAME=SPEC"}
	if noModel {
		args = append(args, "--model", "FILE")
	}
	return pretrained.Command(args...)
}

// evaluationAnswer says what was gained, which probabilities and which score to use, how sure that is, and what to do.
func evaluationAnswer(e *bench.Evaluation) string {
	probabilities, score := "no method has any.", "no OOD data was given, so no scores are compared."
	r := e.Recommendation
	if r.Probabilities != nil {
		probabilities = sentence(r.Probabilities.Sentence)
	}
	switch {
	case r.Score != nil:
		score = sentence(r.Score.Sentence)
	case slices.ContainsFunc(e.Methods, func(m bench.MethodResult) bool { return len(m.OOD) > 0 }):
		score = "synthetic images do not show which is best for real OOD data; give some with --ood NAME=SPEC."
	}
	gained := ""
	if s := report.Headline(e); s != "" {
		gained = wrapText("", printable(sentence(s)))
	}
	kept := ""
	if violated, measured := report.Violated(e); len(violated) > 0 {
		kept = wrapText("", "Guarantees: "+printable(strings.Join(violated, " ")))
	} else if measured {
		kept = "Guarantees: none is violated significantly on the test data.\n"
	}
	return gained + wrapText("", "Probabilities: "+printable(probabilities)) + wrapText("", "OOD score: "+printable(score)) + kept +
		wrapText("", "Next: "+printable(afterEvaluation(e)))
}

// afterEvaluation says what to do after an evaluation.
func afterEvaluation(e *bench.Evaluation) string {
	r := e.Recommendation
	switch s, p := r.Score, r.Probabilities; {
	case s != nil && !s.Served && s.Method != "mle" && s.Method != "ts":
		return fmt.Sprintf("to use the score %s, calibrate again with --ood-score %s.", s.Method, s.Method)
	case p != nil && !p.Served && significantlyBetter(p, e.Bundle.Summary):
		return "calibrate again with validation data that is more like this test data."
	}
	return pretrained.Command("mfgs", "predict", "--bundle", e.Bundle.Path, "INPUT...")
}

// significantlyBetter reports whether the recommended probabilities are significantly better than those of the bundle.
func significantlyBetter(p *metrics.Recommended, s bundle.Summary) bool {
	d, ok := p.Over[string(s.Probabilities.Method)]
	return ok && d.Significant()
}

// sentence ends a text with a full stop.
func sentence(s string) string { return strings.TrimSuffix(s, ".") + "." }

// capital writes the first letter large, except that of a name.
func capital(s string) string {
	if strings.HasPrefix(s, "mfgs") || s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
