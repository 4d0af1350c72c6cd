package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/wrap/bench"
)

// examples is the section with example inputs.
func (v *view) examples() section {
	s := section{ID: "examples", Title: "Examples"}
	s.Lead = []string{"Each with its label, the prediction, the prediction of the network alone, and its OOD percentile, the fraction of validation examples with a lower OOD score."}
	if v.e.Detail.Manifest.Head.Steps > 0 {
		s.Lead[0] += " All are those of one step, such as a pixel, of the example: the one that was drawn for the measurements."
	}
	for _, g := range v.e.Detail.Galleries {
		s.Galleries = append(s.Galleries, v.gallery(g))
	}
	return s
}

func (v *view) gallery(g bench.Gallery) gallery {
	var out gallery
	switch g.Kind {
	case bench.Uncertain:
		out = gallery{Title: "Most uncertain", Lead: sentence(v.kind()) + " examples with the highest uncertainty."}
	case bench.Wrong:
		out = gallery{Title: "Most confidently wrong", Lead: sentence(v.kind()) + " examples that are misclassified with the lowest uncertainty. Some may have wrong labels."}
	case bench.MostOOD:
		out = gallery{Title: "Highest OOD scores", Lead: sentence(v.kind()) + " examples with the highest OOD scores."}
	case bench.LeastOOD:
		out = gallery{Title: "Missed OOD inputs: " + name(g.Set), Lead: "Out-of-distribution examples with the lowest OOD scores."}
	}
	for _, e := range g.Examples {
		out.Cards = append(out.Cards, v.card(e))
	}
	return out
}

func (v *view) card(e bench.GalleryExample) card {
	c := card{Name: name(e.Name)}
	fact := func(term, value string) { c.Facts = append(c.Facts, [2]string{term, value}) }
	if v.multiLabel() {
		if e.Labels != nil {
			fact("labels", v.labels(e.Labels))
		}
		fact("predicted", v.labels(e.PredictedLabels))
		fact("confidence", percent.words(e.Confidence))
		if v.after != v.before {
			fact("network", percent.words(e.NetworkConfidence))
		}
	} else if e.Reading != nil {
		what := "text"
		if e.Reading.Tags != nil {
			what = "tags"
		}
		given, right := e.Reading.Answer()
		fact(what, short(given))
		fact("right with probability", percent.words(e.Confidence))
		if e.Label >= 0 && e.Label != layer.Right {
			fact("right "+what, short(right))
		}
		if v.after != v.before {
			fact("by the network", percent.words(e.NetworkConfidence))
		}
	} else {
		switch len(e.Step) {
		case 0:
		case 1:
			fact("step", fmt.Sprint(e.Step[0]))
		case 2:
			fact("pixel", fmt.Sprintf("row %d, column %d", e.Step[0], e.Step[1]))
		default:
			fact("step", fmt.Sprint(e.Step))
		}
		if e.Label >= 0 {
			fact("label", v.brief(e.Label))
		}
		fact("predicted", v.brief(e.Predicted)+", "+percent.words(e.Confidence))
		if v.after != v.before {
			fact("network", v.brief(e.Network)+", "+percent.words(e.NetworkConfidence))
		}
	}
	if !math.IsNaN(e.OODPercentile) {
		fact("OOD percentile", percent.words(e.OODPercentile))
	} else {
		fact("ood_score", plain.write(e.OODScore))
	}
	if e.Input != nil {
		show(&c, e.Input, v.e.Detail.Exif)
	}
	return c
}

// brief is the shortened name of a class.
func (v *view) brief(k int) string { return short(v.label(k)) }

// short shortens a text.
func short(text string) string {
	const most = 28
	s := []rune(text)
	if len(s) <= most {
		return text
	}
	return string(s[:most-1]) + "…"
}

// mostLabels bounds the labels named for an example.
const mostLabels = 4

func (v *view) labels(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	var names []string
	for _, k := range list[:min(len(list), mostLabels)] {
		names = append(names, v.brief(k))
	}
	if more := len(list) - mostLabels; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
