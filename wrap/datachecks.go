package wrap

import (
	"fmt"
	"math"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// dataCounts counts what a set holds, as it streams by: in bounded memory.
type dataCounts struct {
	n         int
	labelled  int   // examples with labels
	labels    []int // examples of each class, or with each label of a multi-label head
	predicted []int // the same as the network has it
	repeats   repeats
}

func (s *dataCounts) add(h calibrate.Head, b *rows.Batch) {
	k := h.Logits
	if s.labels == nil {
		s.labels, s.predicted = make([]int, h.Classes()), make([]int, h.Classes())
	}
	for i := range b.N {
		s.n++
		s.repeats.add(b.Features[i*h.Features : (i+1)*h.Features])
		row := b.Logits[i*k : (i+1)*k]
		switch {
		case h.MultiLabel():
			for j, v := range row {
				if v > 0 {
					s.predicted[j]++
				}
			}
		case k == 1 && row[0] > 0:
			s.predicted[1]++
		default: // of a single logit the first of the two classes
			best := 0
			for j, v := range row {
				if v > row[best] {
					best = j
				}
			}
			s.predicted[best]++
		}
		switch {
		case len(b.Targets) > 0:
			s.labelled++
			for j, v := range b.Targets[i*k : (i+1)*k] {
				s.labels[j] += int(v)
			}
		case i < len(b.Labels) && b.Labels[i] >= 0 && b.Labels[i] < len(s.labels):
			s.labelled++
			s.labels[b.Labels[i]]++
		}
	}
}

// repeats counts examples whose features are those of an earlier one, by hash. Of more
// different ones than it keeps, it counts a part that the hash chooses.
type repeats struct {
	seen  map[uint64]struct{}
	mask  uint64 // only hashes without these bits count
	all   int    // that counted,
	again int    // and were there before
}

// mostHashes bounds the memory of repeats, to some 10 MB.
const mostHashes = 1 << 18

func (r *repeats) add(features []float32) {
	h := uint64(14695981039346656037)
	for _, v := range features {
		if v == 0 {
			v = 0 // not -0, whose bits are others
		}
		h = (h ^ uint64(math.Float32bits(v))) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	r.addHash(h)
}

func (r *repeats) addHash(h uint64) {
	if h&r.mask != 0 {
		return
	}
	r.all++
	if _, there := r.seen[h]; there {
		r.again++
		return
	}
	if r.seen == nil {
		r.seen = map[uint64]struct{}{}
	}
	r.seen[h] = struct{}{}
	for len(r.seen) > mostHashes {
		// Of what is left as large a part has been seen again as of all.
		before := len(r.seen)
		r.mask = r.mask<<1 | 1
		for h := range r.seen {
			if h&r.mask != 0 {
				delete(r.seen, h)
			}
		}
		part := float64(len(r.seen)) / float64(before)
		r.all, r.again = int(float64(r.all)*part), int(float64(r.again)*part)
	}
}

// part returns what part of the examples repeat an earlier one.
func (r *repeats) part() float64 {
	if r.all == 0 {
		return 0
	}
	return float64(r.again) / float64(r.all)
}

// repeated warns of a set many of whose examples are there several times.
func (s *dataCounts) repeated(name string) string {
	const many, least = 0.2, 10
	n := int(math.Round(s.repeats.part() * float64(s.n)))
	if n < least || float64(n) < many*float64(s.n) {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d examples have the features of another: copies say nothing new, and make all that is tuned look surer than it is; leave them out", name, n, s.n)
}

// few warns of a training set that holds next to nothing.
func (s *dataCounts) few() string {
	const least = 10
	switch {
	case s.n == 1:
		return "train: the posterior rests on a single example: give those that the network was trained on, or thousands like them"
	case s.n < least:
		return fmt.Sprintf("train: the posterior rests on %d examples: give those that the network was trained on, or thousands like them", s.n)
	}
	return ""
}

// absentHeldOut warns of classes of which the held-out data has no examples.
func (s *dataCounts) absentHeldOut(h calibrate.Head, names []string) string {
	if s.labelled == 0 {
		return ""
	}
	gone := absent(s.labels)
	switch present := len(s.labels) - len(gone); {
	case len(gone) == 0:
		return ""
	case h.MultiLabel():
		return fmt.Sprintf("val: %s of %d held-out examples: nothing is tuned or measured of them", haveNo(gone, h, names), s.n)
	case present == 1:
		only := 0
		for k, n := range s.labels {
			if n > 0 {
				only = k
			}
		}
		return fmt.Sprintf("val: all %d held-out examples are of class %s: nothing is tuned or measured of the others; give examples of all classes, in random order if a part is taken of data sorted by class", s.n, className(only, names))
	}
	hint := "give more examples, or examples of all"
	if !byChance(len(gone), len(s.labels), s.n) {
		hint = "a slice of data that is sorted by class looks like this: take a random part"
	}
	return fmt.Sprintf("val: %s among %d held-out examples: nothing is tuned or measured of them; %s", haveNo(gone, h, names), s.n, hint)
}

// byChance reports whether a random part of so many examples, of classes alike in
// size, may well lack as many classes.
func byChance(gone, classes, n int) bool {
	expected := float64(classes) * math.Pow(1-1/float64(classes), float64(n))
	return float64(gone) <= expected+3*math.Sqrt(expected)
}

// absentTrain warns of classes of which the training data has no examples, as its
// labels show or, where it has none, the network's own predictions: these it must make
// in the held-out data, and there much more often.
func (s *dataCounts) absentTrain(h calibrate.Head, val *dataCounts, names []string) string {
	const (
		hardly = 0.02 // of what the held-out data has
		least  = 20   // examples that were to be expected
		why    = "of their weights the posterior knows nothing, and leverage takes their inputs for unfamiliar ones"
		slice  = "a slice of data that is sorted by class looks like this: --limit N takes N examples spread evenly"
	)
	if s.labelled > 0 {
		gone := absent(s.labels)
		if len(gone) == 0 {
			return ""
		}
		if h.MultiLabel() {
			return fmt.Sprintf("train: %s of %d training examples: %s", haveNo(gone, h, names), s.n, why)
		}
		hint := slice
		if byChance(len(gone), len(s.labels), s.n) {
			hint = "give more examples"
		}
		return fmt.Sprintf("train: %s among %d training examples: %s; %s", haveNo(gone, h, names), s.n, why, hint)
	}
	if val.n == 0 {
		return ""
	}
	var gone []int
	for k, n := range val.predicted {
		expected := float64(n) / float64(val.n) * float64(s.n)
		if expected >= least && float64(s.predicted[k]) < hardly*expected {
			gone = append(gone, k)
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return fmt.Sprintf("train: the network finds next to none of %s among %d training examples, and many in the held-out data: %s; %s", listed(gone, h, names), s.n, why, slice)
}

// absent returns the classes of which there is none.
func absent(counts []int) []int {
	var gone []int
	for k, n := range counts {
		if n == 0 {
			gone = append(gone, k)
		}
	}
	return gone
}

// haveNo words that classes have no examples.
func haveNo(gone []int, h calibrate.Head, names []string) string {
	verb := "have no example"
	if h.MultiLabel() {
		verb = "hold for none"
	}
	if len(gone) == 1 {
		verb = strings.Replace(strings.Replace(verb, "have", "has", 1), "hold", "holds", 1)
	}
	return listed(gone, h, names) + " " + verb
}

// listed counts classes, and names them if they are few.
func listed(gone []int, h calibrate.Head, names []string) string {
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

// className is a class's number, with its name if it has one.
func className(k int, names []string) string {
	if k < len(names) {
		return fmt.Sprintf("%d (%.40q)", k, names[k])
	}
	return fmt.Sprint(k)
}

// dataWarnings warns of sets that lack what they should have; "" stands for no warning. ood may be
// nil.
func dataWarnings(in *sources, train, val, ood *dataCounts) []string {
	warnings := []string{
		train.few(), train.absentTrain(in.head, val, in.classes), val.absentHeldOut(in.head, in.classes),
	}
	for i, s := range in.sets() {
		warnings = append(warnings, []*dataCounts{train, val, ood}[i].repeated(s.Name))
	}
	return warnings
}

// detection is how well a score detects out-of-distribution data.
type detection struct {
	name  string
	auroc float64
}

// belowChance warns of scores that rank unfamiliar data, m examples, as more familiar
// than the n held-out ones, by more than chance would.
func belowChance(scores []detection, n, m int) string {
	// The AUROC of what knows nothing: Mann and Whitney (1947).
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
	way := "is --ood data that the network is not for?"
	if best.name != "" {
		way = fmt.Sprintf("%s has %.2f", best.name, best.auroc)
	}
	return fmt.Sprintf("ood: worse than chance at telling the %d unfamiliar examples from the %d held-out ones: %s: do not go by it; %s", m, n, strings.Join(below, ", "), way)
}
