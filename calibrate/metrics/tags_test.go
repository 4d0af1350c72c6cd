package metrics

import (
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// Spans are those of seqeval 1.2.2, whose results these are; but tags that name no spans have none.
func TestSpansAreThoseOfSeqeval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tags, want string }{
		{"B-PER I-PER O B-LOC", "PER 0-2, LOC 3-4"},
		{"B-PER B-PER", "PER 0-1, PER 1-2"},
		{"I-PER I-PER O I-PER", "PER 0-2, PER 3-4"},
		{"I-PER I-LOC I-LOC", "PER 0-1, LOC 1-3"},
		{"B-PER I-LOC", "PER 0-1, LOC 1-2"},
		{"S-PER E-LOC", "PER 0-1, LOC 1-2"},
		{"B-PER I-PER E-PER I-PER", "PER 0-3, PER 3-4"},
		{"S-PER I-PER", "PER 0-1, PER 1-2"},
		{"O O", ""},
		{"NOUN VERB", ""},
	} {
		var got []string
		for _, s := range spansOf(strings.Fields(tt.tags)) {
			got = append(got, s.kind+" "+string(rune('0'+s.from))+"-"+string(rune('0'+s.to)))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %s, want %s", tt.tags, strings.Join(got, ", "), tt.want)
		}
	}
}

func TestFiguresOfTags(t *testing.T) {
	t.Parallel()
	var tags Tags
	if tags.Result() != nil {
		t.Error("figures without sequences")
	}
	add := func(given, want string) {
		none := func(s string) []string {
			list := strings.Fields(s)
			for i, v := range list {
				if v == "-" {
					list[i] = ""
				}
			}
			return list
		}
		tags.Add(none(given), none(want))
	}
	add("- B-PER I-PER O", "- B-PER I-PER O")
	add("B-PER I-PER O", "B-PER O -")
	f := tags.Result() // spans: 1 of 1, and 0 of 1
	if f.N != 2 || f.Exact != 0.5 || f.Steps != 5 || f.Accuracy != 0.8 ||
		f.F1 == nil || !approx.Equal(*f.F1, 0.5, 1e-12) {
		t.Errorf("%+v", f)
	}
	var plain Tags
	plain.Add([]string{"NOUN"}, []string{"VERB"})
	if f := plain.Result(); f.F1 != nil || f.Exact != 0 || f.Accuracy != 0 {
		t.Errorf("%+v", f)
	}
}
