package calibration

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// repeated warns of a set in which many examples occur more than once.
func repeated(name string, s *part.Counts) string {
	const many, least = 0.2, 10
	n := int(math.Round(s.Repeats() * float64(s.Examples)))
	if n < least || float64(n) < many*float64(s.Examples) {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d examples have the same features as another: duplicates make results look more certain than they are; remove them", name, n, s.Examples)
}

// fewTraining warns of a tiny training set.
func fewTraining(s *part.Counts) string {
	const least = 10
	switch {
	case s.Examples == 1:
		return "train: the posterior is computed from a single example: give the training data of the network, or thousands of similar examples"
	case s.Examples < least:
		return fmt.Sprintf("train: the posterior is computed from %d examples: give the training data of the network, or thousands of similar examples", s.Examples)
	}
	return ""
}

// absentValidation warns of classes without validation examples.
func absentValidation(s *part.Counts, h layer.Head, names []string) string {
	if s.Labelled == 0 {
		return ""
	}
	gone := absent(s.Labels)
	switch present := len(s.Labels) - len(gone); {
	case len(gone) == 0:
		return ""
	case h.MultiLabel():
		return fmt.Sprintf("val: %s of %d validation examples: calibration neither tunes nor measures them", haveNo(gone, h, names), s.Examples)
	case present == 1:
		only := 0
		for k, n := range s.Labels {
			if n > 0 {
				only = k
			}
		}
		return fmt.Sprintf("val: all %d validation examples are of class %s: calibration neither tunes nor measures the others; give examples of all classes, and shuffle data sorted by class before slicing it", s.Examples, className(only, names))
	}
	hint := "give more examples, or examples of all"
	if !byChance(len(gone), len(s.Labels), s.Examples) {
		hint = "if the data is sorted by class, take a random part of it"
	}
	return fmt.Sprintf("val: %s among %d validation examples: calibration neither tunes nor measures them; %s", haveNo(gone, h, names), s.Examples, hint)
}

// byChance reports whether n random examples of equally frequent classes may well lack as many classes as are gone.
func byChance(gone, classes, n int) bool {
	expected := float64(classes) * math.Pow(1-1/float64(classes), float64(n))
	return float64(gone) <= expected+3*math.Sqrt(expected)
}

// absentTrain warns of classes without training examples, by their labels. Without labels it warns of classes that
// the network predicts on the validation data and hardly ever on the training data.
func absentTrain(s, val *part.Counts, h layer.Head, names []string) string {
	const (
		hardly = 0.02 // of the frequency in the validation data
		least  = 20   // expected examples
		why    = "the posterior has no information about their weights, and the leverage of their inputs is high"
		slice  = "if the data is sorted by class, use a limit, which subsamples evenly"
	)
	if s.Labelled > 0 {
		gone := absent(s.Labels)
		if len(gone) == 0 {
			return ""
		}
		if h.MultiLabel() {
			return fmt.Sprintf("train: %s of %d training examples: %s", haveNo(gone, h, names), s.Examples, why)
		}
		hint := slice
		if byChance(len(gone), len(s.Labels), s.Examples) {
			hint = "give more examples"
		}
		return fmt.Sprintf("train: %s among %d training examples: %s; %s", haveNo(gone, h, names), s.Examples, why, hint)
	}
	if val.Examples == 0 {
		return ""
	}
	var gone []int
	for k, n := range val.Predicted {
		expected := float64(n) / float64(val.Examples) * float64(s.Examples)
		if expected >= least && float64(s.Predicted[k]) < hardly*expected {
			gone = append(gone, k)
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return fmt.Sprintf("train: the network predicts almost none of %s among %d training examples, and many in the validation data: %s; %s", listed(gone, h, names), s.Examples, why, slice)
}

// absent returns the classes whose count is 0.
func absent(counts []int) []int {
	var gone []int
	for k, n := range counts {
		if n == 0 {
			gone = append(gone, k)
		}
	}
	return gone
}

// haveNo says that classes have no examples.
func haveNo(gone []int, h layer.Head, names []string) string {
	verb := "have no example"
	if h.MultiLabel() {
		verb = "hold for none"
	}
	if len(gone) == 1 {
		verb = strings.Replace(strings.Replace(verb, "have", "has", 1), "hold", "holds", 1)
	}
	return listed(gone, h, names) + " " + verb
}

// listed names classes if they are few, and else says how many they are.
func listed(gone []int, h layer.Head, names []string) string {
	const few = 3
	noun, all := "classes", h.Classes()
	if h.MultiLabel() {
		noun = "labels"
	}
	if len(gone) > few {
		return fmt.Sprintf("%d of %d %s", len(gone), all, noun)
	}
	list := make([]string, len(gone))
	for i, k := range gone {
		list[i] = className(k, names)
	}
	if len(gone) == 1 {
		noun = strings.TrimSuffix(strings.TrimSuffix(noun, "s"), "e")
	}
	return fmt.Sprintf("%s %s", noun, strings.Join(list, ", "))
}

// className is the number of a class, with its name if it has one.
func className(k int, names []string) string {
	if k < len(names) {
		return fmt.Sprintf("%d (%.40q)", k, names[k])
	}
	return fmt.Sprint(k)
}

// subsampled warns of sets that are larger than what is tuned on.
func subsampled(p *part.Part) (warnings []string) {
	for _, s := range p.Sets {
		n := s.Count
		if s.Stream {
			n = s.Examples()
		}
		if s.Role != bundle.Train && n > source.MaxTuning {
			warnings = append(warnings, fmt.Sprintf("%s: %d of %d examples are used for tuning, subsampled evenly", s.Role, source.MaxTuning, n))
		}
	}
	return warnings
}

// dataWarnings collects the warnings noted while reading, such as of sets that overlap, and adds those about repeated
// examples and absent classes. Some may be "". Without counts, as in an update, it does not check the training data.
func dataWarnings(p *part.Part) []string {
	warnings := subsampled(p)
	for _, set := range p.Sets {
		for _, s := range set.Shards {
			warnings = append(warnings, s.Warnings...)
		}
	}
	for _, set := range p.Sets {
		for _, s := range set.Shards {
			for _, w := range s.Shared {
				if !slices.Contains(warnings, w) {
					warnings = append(warnings, w)
				}
			}
		}
	}
	head, names := p.Recipe.Head.Head, p.Recipe.Classes
	count := func(b *rows.Batch) *part.Counts {
		c := part.NewCounts(head)
		c.Add(head, b)
		return c
	}
	val := count(p.Val)
	if p.Counts != nil {
		warnings = append(warnings, fewTraining(p.Counts), absentTrain(p.Counts, val, head, names))
	}
	warnings = append(warnings, absentValidation(val, head, names))
	if p.Counts != nil {
		warnings = append(warnings, repeated("train", p.Counts))
	}
	warnings = append(warnings, repeated("val", val))
	if p.OOD != nil {
		warnings = append(warnings, repeated("ood", count(p.OOD)))
	}
	return warnings
}

// detection is how well a score detects out-of-distribution data.
type detection struct {
	name  string
	auroc float64
}

// belowChance warns of scores whose AUROC is significantly below ½, with n validation and m OOD examples.
func belowChance(scores []detection, n, m int) string {
	// The standard deviation of the AUROC of a random score: Mann and Whitney (1947).
	chance := math.Sqrt(float64(n+m+1) / (12 * float64(n) * float64(m)))
	var below []string
	best := detection{auroc: 0.5}
	for _, s := range scores {
		switch {
		case s.auroc < 0.5-3*chance:
			below = append(below, fmt.Sprintf("%s (AUROC %.2f)", s.name, s.auroc))
		case s.auroc > best.auroc:
			best = s
		}
	}
	if below == nil {
		return ""
	}
	way := "check that it is out-of-distribution data"
	if best.name != "" {
		way = fmt.Sprintf("%s has %.2f", best.name, best.auroc)
	}
	return fmt.Sprintf("ood: worse than chance at detecting the %d OOD examples among the %d validation examples: %s: do not use it; %s", m, n, strings.Join(below, ", "), way)
}
