package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap/bench"
)

// Headline says in a line how the probabilities and the OOD score of a bundle compare with the network itself, "" if
// the evaluation does not have them, or not the network.
func Headline(e *bench.Evaluation) string {
	names := []string{network, string(e.Bundle.Probabilities.Method), e.Bundle.OODScore.Name}
	for _, name := range names {
		if !slices.ContainsFunc(e.Methods, func(m bench.MethodResult) bool { return m.Name == name }) {
			return ""
		}
	}
	v := newView(e, Options{}, names[1], names[2])
	if v.before.InDomain == nil || v.after.InDomain == nil {
		return ""
	}
	return v.headline()
}

// Violated returns the sentences about guarantees of abstention and prediction sets that are violated significantly on
// the test data. measured is false if none was measured there.
func Violated(e *bench.Evaluation) (sentences []string, measured bool) {
	v := &view{e: e}
	all := v.guarantees()
	for _, g := range all {
		if g.violated {
			sentences = append(sentences, g.sentence)
		}
	}
	return sentences, len(all) > 0
}

// headline is the result in a line.
func (v *view) headline() (headline string) {
	before, after := v.before.InDomain, v.after.InDomain
	if before == nil || after == nil {
		return "What was measured"
	}
	if v.e.Implausible {
		return "The accuracy is implausibly low: check the labels, the order of the classes and the inputs"
	}
	ece, known := after.Differences[network]["ece"]
	switch {
	case v.after == v.before:
		headline = "The network’s own probabilities are used: no method is significantly better"
		if v.seemsCalibrated(before) {
			headline = "The network’s own probabilities are used: they show no significant calibration error"
		}
	case known && ece.Significant() && ece.Difference < 0:
		headline = "Better calibrated than the network"
	case known && ece.Significant():
		headline = "Worse calibrated than the network"
	case v.significantSign(after, "nll") < 0:
		headline = "Better probabilities than the network’s own"
	case v.significantSign(after, "nll") > 0:
		headline = "Worse probabilities than the network’s own"
	case v.seemsCalibrated(before):
		headline = "No significant calibration error, before or after"
	default:
		headline = "No significant difference from the network"
	}
	return headline + v.oodHeadline()
}

// verdict is the result in plain words: a headline, and sentences with intervals.
func (v *view) verdict() (headline string, sentences []string) {
	before, after := v.before.InDomain, v.after.InDomain
	if before == nil || after == nil {
		return v.headline(), nil
	}
	headline = v.headline()
	sentences = append(sentences, v.calibrationSentence(before, after))
	if s := v.errorSentence(before, after); s != "" {
		sentences = append(sentences, s)
	}
	sentences = append(sentences, v.oodSentences()...)
	for _, g := range v.guarantees() {
		sentences = append(sentences, g.sentence)
	}
	return headline, sentences
}

// oodHeadline says whether all out-of-distribution sets are detected significantly better, or all worse, than by the
// network's own uncertainty.
func (v *view) oodHeadline() string {
	better, worse, sets := 0, 0, 0
	for _, r := range v.score.OOD {
		if r.Name == syntheticSet {
			continue
		}
		sets++
		switch d, ok := r.Differences[network]["auroc"]; {
		case !ok || !d.Significant():
		case d.Difference > 0:
			better++
		default:
			worse++
		}
	}
	switch {
	case sets > 0 && better == sets:
		return ". Better OOD detection"
	case sets > 0 && worse == sets:
		return ". Worse OOD detection"
	}
	return ""
}

// significantSign is the sign of a significant difference to the network, else 0.
func (v *view) significantSign(m *metrics.Labelled, figure string) float64 {
	if d, ok := m.Differences[network][figure]; ok && d.Significant() {
		return math.Copysign(1, d.Difference)
	}
	return 0
}

// seemsCalibrated reports whether the debiased calibration error may be 0.
func (v *view) seemsCalibrated(m *metrics.Labelled) bool {
	i, ok := m.Intervals["debiased_ce"]
	return m.DebiasedCE == 0 || ok && i[0] <= 0
}

func (v *view) calibrationSentence(before, after *metrics.Labelled) string {
	on := fmt.Sprintf("on %s", text.Plural(after.N, v.kind()+" example"))
	if v.after == v.before {
		s := fmt.Sprintf("The calibration error is %s%s %s.", percent.words(before.ECE), v.intervalOf(before.Intervals, "ece"), on)
		if v.seemsCalibrated(before) {
			s += " The debiased error is not significantly above 0."
		}
		return s
	}
	d, known := after.Differences[network]["ece"]
	s := fmt.Sprintf("Calibration error %s from %s to %s%s %s", changed(d, known), percent.words(before.ECE), percent.words(after.ECE),
		v.intervalOf(after.Intervals, "ece"), on)
	if known && !d.Significant() {
		s += fmt.Sprintf("; the difference of %s points (%s) is not significant", percent.short(d.Difference), percent.within(d.Interval))
	}
	s += "."
	if v.seemsCalibrated(after) {
		s += " The debiased error is not significantly above 0."
	}
	return s
}

func changed(d metrics.Difference, known bool) string {
	switch {
	case !known || !d.Significant():
		return "went"
	case d.Difference < 0:
		return "fell"
	}
	return "rose"
}

// intervalOf formats the interval of a figure, to follow it; "" if it has none.
func (v *view) intervalOf(intervals map[string]metrics.Interval, figure string) string {
	if i, ok := intervals[figure]; ok {
		return fmt.Sprintf(" (%s: %s)", v.level(), percent.within(i))
	}
	return ""
}

func (v *view) level() string { return plain.level(v.e.Bootstrap.Level) }

// level formats a confidence level.
func (unit) level(p float64) string { return fmt.Sprintf("%g %%", 100*p) }

func (v *view) errorSentence(before, after *metrics.Labelled) string {
	what := "of the examples are misclassified"
	if v.multiLabel() {
		what = "of the decisions, one per label and example, are wrong"
	}
	within := v.intervalOf(after.Intervals, "error")
	if within == "" { // the resamples of no errors have none
		within = v.proportionInterval(after.Error, after.N)
	}
	if v.after == v.before {
		return fmt.Sprintf("%s %s%s.", percent.words(before.Error), what, within)
	}
	if before.Error == after.Error {
		return fmt.Sprintf("%s %s, as before%s%s.", percent.words(after.Error), what, within, v.changesOf(after))
	}
	s := fmt.Sprintf("%s %s%s, %s before", percent.words(after.Error), what, within, percent.words(before.Error))
	if v.significantSign(after, "error") == 0 {
		s += ", not a significant difference"
	}
	return s + v.changesOf(after) + "."
}

// changesOf says how many predictions are not the network's, "" for none.
func (v *view) changesOf(after *metrics.Labelled) string {
	if after.ClassChanges == 0 {
		return ""
	}
	what := "class is"
	if v.multiLabel() {
		what = "labels are"
	}
	return fmt.Sprintf("; the predicted %s not the network’s for %s", what, text.Plural(after.ClassChanges, "example"))
}

// oodSentences say for each out-of-distribution set how much of it is detected.
func (v *view) oodSentences() (all []string) {
	if len(v.score.OOD) == 0 {
		return []string{"OOD detection was not measured, since no OOD data was given."}
	}
	for i, r := range v.score.OOD {
		of := name(r.Name)
		if r.Name == syntheticSet {
			of = "synthetic OOD images, made from the " + v.kind() + " images,"
		}
		found := bench.OODResult{Name: r.Name, DetectionResult: r.DetectionResult}
		s := fmt.Sprintf("OOD detection: %s of %s are detected%s at a false-alarm rate of 5 %%",
			percent.words(1-found.FPR95), of, v.detectedInterval(r.Intervals))
		if own := v.before.OOD; v.score != v.before && i < len(own) {
			s += fmt.Sprintf(", and %s by the network’s own uncertainty", percent.words(1-own[i].FPR95))
			if d, ok := r.Differences[network]["fpr95"]; ok && !d.Significant() {
				s += ", not a significant difference"
			}
		}
		all = append(all, s+".")
	}
	return all
}

// detectedInterval formats the interval of 1 - FPR95.
func (v *view) detectedInterval(intervals map[string]metrics.Interval) string {
	if i, ok := intervals["fpr95"]; ok {
		return fmt.Sprintf(" (%s: %s)", v.level(), percent.within(metrics.Interval{1 - i[1], 1 - i[0]}))
	}
	return ""
}

// proportionInterval formats the interval of a fraction of n examples, "" for multi-label heads, whose examples count
// in fractions.
func (v *view) proportionInterval(part float64, n int) string {
	if v.multiLabel() || n == 0 {
		return ""
	}
	low, high := conformal.ClopperPearson(int(math.Round(part*float64(n))), n, v.e.Bootstrap.Level)
	return fmt.Sprintf(" (%s: %s)", v.level(), percent.within(metrics.Interval{low, high}))
}

// A guarantee is how a decision of the bundle did on the test set, beside what it guarantees.
type guarantee struct {
	sentence string
	violated bool // significantly
}

// guarantee words that a guarantee was broken, which validation data cannot show.
func (v *view) guarantee(sentence string, broken bool) guarantee {
	if !broken || v.options.Tuned {
		return guarantee{sentence, false}
	}
	return guarantee{sentence + " The guarantee is violated significantly: this data differs from the validation data.", true}
}

// guarantees are those of the bundle's decisions on the test set.
func (v *view) guarantees() (all []guarantee) {
	for _, d := range v.e.Decisions {
		if d.Set != "test" {
			continue
		}
		plan := v.decisions().Plan
		if d.Answered != nil && d.Error != nil {
			answered := int(math.Round(*d.Answered * float64(d.N)))
			s := fmt.Sprintf("It answers %s of the %s examples, and %s of these answers are wrong%s",
				percent.words(*d.Answered), v.kind(), percent.words(*d.Error), v.proportionInterval(*d.Error, answered))
			switch {
			case plan.TargetError > 0:
				s += fmt.Sprintf("; the guarantee is at most %s", percent.words(plan.TargetError))
			case plan.TargetCoverage > 0:
				s += fmt.Sprintf("; the guarantee is that at least %s are answered", percent.words(plan.TargetCoverage))
			}
			broken := plan.TargetError > 0 && v.exceeds(*d.Error, answered, plan.TargetError) ||
				plan.TargetCoverage > 0 && v.exceeds(1-*d.Answered, d.N, 1-plan.TargetCoverage)
			all = append(all, v.guarantee(s+".", broken))
		}
		if d.OOD != nil && plan.FalseAlarm > 0 {
			s := fmt.Sprintf("%s of the %s examples are flagged as out-of-distribution%s; the guarantee is at most %s.",
				percent.words(*d.OOD), v.kind(), v.proportionInterval(*d.OOD, d.N), percent.words(plan.FalseAlarm))
			all = append(all, v.guarantee(s, v.exceeds(*d.OOD, d.N, plan.FalseAlarm)))
		}
		if d.Covered != nil && d.SetSize != nil {
			all = append(all, v.setGuarantee(d.Realised))
		}
	}
	return all
}

func (v *view) setGuarantee(d conformal.Realised) guarantee {
	sets := v.decisions().Set
	right := "contain the true class for %s of the examples%s"
	if v.multiLabel() {
		right = "contain %s of an example’s labels%s"
	}
	covered := int(math.Round(*d.Covered * float64(d.N)))
	broken := !v.multiLabel() && len(sets.Thresholds) == 1 &&
		conformal.CoverageTail(covered, d.N, sets.Examples, sets.Alpha) < (1-v.e.Bootstrap.Level)/2
	return v.guarantee(fmt.Sprintf("Prediction sets have %s classes on average and "+right+"; the target is %s.",
		plain.words(*d.SetSize), percent.words(*d.Covered), v.proportionInterval(*d.Covered, d.N),
		percent.words(1-sets.Alpha)), broken)
}

// exceeds reports whether a fraction of n examples is significantly above the guaranteed one.
func (v *view) exceeds(part float64, n int, limit float64) bool {
	if v.multiLabel() || n == 0 {
		return false
	}
	low, _ := conformal.ClopperPearson(int(math.Round(part*float64(n))), n, v.e.Bootstrap.Level)
	return low > limit
}
