package metrics

import (
	"slices"
	"strings"
)

// TagFigures are how far the tags of sequences are from the right ones, over the steps that have one.
type TagFigures struct {
	N        int     `json:"n"`        // sequences
	Exact    float64 `json:"exact"`    // fraction without a wrong tag
	Steps    int     `json:"steps"`    // in all
	Accuracy float64 `json:"accuracy"` // fraction of steps with the right tag
	// F1 is that of spans, as seqeval computes it from tags such as B-PER and I-PER: twice the number of right spans
	// over the number of spans, given and right ones. It is nil if there are no such tags.
	F1 *float64 `json:"f1"`
}

// Tags accumulates [TagFigures].
type Tags struct {
	n, exact, steps, right    int
	spans, wanted, rightSpans int
	named                     bool // tags have the form of spans
}

// Add counts the tags of a sequence, and the right ones, as many; "" is none.
func (t *Tags) Add(tags, want []string) {
	var given, right []string
	for i, w := range want {
		if w == "" || tags[i] == "" {
			continue
		}
		given, right = append(given, tags[i]), append(right, w)
		t.named = t.named || isSpan(w)
		t.steps++
		if tags[i] == w {
			t.right++
		}
	}
	t.n++
	if slices.Equal(given, right) {
		t.exact++
	}
	a, b := spansOf(given), spansOf(right)
	t.spans, t.wanted = t.spans+len(a), t.wanted+len(b)
	for _, s := range a {
		if slices.Contains(b, s) {
			t.rightSpans++
		}
	}
}

// Result returns the figures so far, nil without sequences.
func (t *Tags) Result() *TagFigures {
	if t.n == 0 {
		return nil
	}
	f := &TagFigures{
		N: t.n, Exact: float64(t.exact) / float64(t.n),
		Steps: t.steps, Accuracy: float64(t.right) / float64(max(1, t.steps)),
	}
	if t.named {
		f1 := 2 * float64(t.rightSpans) / float64(max(1, t.spans+t.wanted))
		f.F1 = &f1
	}
	return f
}

// A span is a run of steps of one kind, such as a person's name.
type span struct {
	kind     string
	from, to int
}

const prefixes = "BIES" // begin, inside, end, single

func isSpan(tag string) bool {
	return len(tag) > 1 && tag[1] == '-' && strings.IndexByte(prefixes, tag[0]) >= 0
}

// spansOf returns the spans of tags in the schemes IOB1, IOB2 and IOBES, by the rules of the CoNLL-2000 shared task's
// script, which seqeval has.
func spansOf(tags []string) (list []span) {
	open, before, kind := -1, byte('O'), "" // the first step of the span that is open, and the last tag
	for i := 0; i <= len(tags); i++ {
		now, of := byte('O'), ""
		if i < len(tags) && isSpan(tags[i]) {
			now, of = tags[i][0], tags[i][2:]
		}
		ended := before == 'O' || before == 'E' || before == 'S'
		starts := now == 'B' || now == 'S' || now != 'O' && (ended || of != kind)
		if open >= 0 && (now == 'O' || starts) {
			list = append(list, span{kind, open, i})
			open = -1
		}
		if starts {
			open = i
		}
		before, kind = now, of
	}
	return list
}
