package score

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/internal/option"
)

// Default is the score that is selected unless another is requested, or detects the validation OOD data
// significantly better. Fallback takes its place where it cannot be fitted. Without a linear layer DefaultOfColumns is
// that of features, and DefaultOfLogits takes its place, or is the default without features. DefaultOfAnswers is
// that of answers that are right or wrong, and their only score.
const (
	Default          = "guarded_margin"
	Fallback         = "studentized"
	DefaultOfColumns = "column_mahalanobis"
	DefaultOfLogits  = "entropy"
	DefaultOfAnswers = "error_odds"
)

// DefaultFor is the default score for a head, and what takes its place.
func DefaultFor(h layer.Head) (first, fallback string) {
	switch {
	case !h.Nonlinear:
		return Default, Fallback
	case h.Correctness:
		return DefaultOfAnswers, DefaultOfAnswers
	case h.Features > 0:
		return DefaultOfColumns, DefaultOfLogits
	}
	return DefaultOfLogits, DefaultOfLogits
}

// Selection says which score was selected, and why. With validation OOD data, Rival has the highest AUROC of the
// scores whose gain over Base is significant, or of all others if there are none; it is selected if Gain is more
// than Needed.
type Selection struct {
	Name      string `yaml:"name" json:"name"`
	Requested bool   `yaml:"given,omitempty" json:"given,omitempty"`
	// Base is [Default] or, if that cannot be fitted, [Fallback], and Unfit says why. Base is empty if Name was
	// requested, and in bundles of earlier versions, where it was studentized.
	Base  string `yaml:"base,omitempty" json:"base,omitempty"`
	Unfit string `yaml:"unfit,omitempty" json:"unfit,omitempty"`
	// Synthetic says that the score learned from synthetic OOD data.
	Synthetic bool `yaml:"synthetic_ood,omitempty" json:"synthetic_ood,omitempty"`

	// AUROC is that of Name on the validation data, zero without OOD data. Without, or if Name was requested, the
	// other fields are zero.
	AUROC float64 `yaml:"auroc,omitempty" json:"auroc,omitempty"`
	Rival string  `yaml:"rival,omitempty" json:"rival,omitempty"`

	// Gain is the AUROC of Rival minus that of Base, and Needed the gain that chance alone may show in the
	// largest of all candidates, at 95 %: see [metrics.ChanceGains].
	Gain   float64 `yaml:"gain,omitempty" json:"gain,omitempty"`
	Needed float64 `yaml:"needed,omitempty" json:"needed,omitempty"`
}

// Candidate is how well a score detects the validation OOD data, the gain of its AUROC over that of the first
// candidate, and the gain needed to be significant: see [Selection].
type Candidate struct {
	Name        string  `json:"name"`
	metrics.OOD         // on the validation data
	Gain        float64 `json:"gain"`
	Needed      float64 `json:"needed"`
}

// String words the selection in a sentence.
func (c Selection) String() string {
	switch {
	case c.Synthetic:
		return c.Name + ": requested, and learned from synthetic OOD images; how well it detects real OOD data is not known"
	case c.Requested && c.AUROC == 0:
		return c.Name + ": requested"
	case c.Requested && c.Name == learned.Name:
		return fmt.Sprintf("%s: requested, AUROC %.4f on the validation data it was learned from", c.Name, c.AUROC)
	case c.Requested:
		return fmt.Sprintf("%s: requested, AUROC %.4f on the validation data", c.Name, c.AUROC)
	case c.Rival == "" && c.Unfit != "":
		return fmt.Sprintf("%s: the default, %s, cannot be fitted: %s", c.Name, c.usual(), c.Unfit)
	case c.Rival == "":
		return c.Name + ": the default, without OOD data to compare scores on"
	case c.Name == c.Rival:
		return fmt.Sprintf("%s: AUROC %.4f on the validation data, significantly higher than that of %s, by %.2g (threshold %.2g)",
			c.Name, c.AUROC, cmp.Or(c.Base, "studentized"), c.Gain, c.Needed)
	case c.Gain <= 0:
		return fmt.Sprintf("%s: AUROC %.4f on the validation data, and no other score has a higher one", c.Name, c.AUROC)
	}
	return fmt.Sprintf("%s: AUROC %.4f on the validation data; that of %s is %.2g higher, not significant (threshold %.2g)",
		c.Name, c.AUROC, c.Rival, c.Gain, c.Needed)
}

// usual returns the default score whose place Name takes.
func (c Selection) usual() string {
	if c.Name == DefaultOfLogits {
		return DefaultOfColumns
	}
	return Default
}

// significance is the probability that another score than [Selection.Base] is selected if none is better.
const significance = 0.05

// ValidationData are the examples that scores are compared and measured on.
type ValidationData struct {
	Val            *Examples // in-distribution
	OOD, Synthetic *Examples // out-of-distribution, and synthetic ones in their place; each may be nil
}

// MostCompared bounds the in-distribution examples, and the out-of-distribution ones, that scores are compared on:
// with 2,048 features and 1,000 classes all scores together take about 5 ms of CPU time for each.
const MostCompared = 10_000

// Select returns the score to serve, fitted and measured on in-distribution validation examples: the one with this
// name or, for "", the one that [Selection] describes, compared on at most MostCompared examples of each kind.
// training may be nil: then scores that need it are left out. tried are the candidates, the default or the
// requested one first.
func Select(ctx context.Context, name string, training *Training, held ValidationData,
) (served *Served, c Selection, tried []Candidate, err error) {
	return selectAmong(ctx, name, training, held, MostCompared)
}

func selectAmong(ctx context.Context, name string, training *Training, held ValidationData, most int,
) (served *Served, c Selection, tried []Candidate, err error) {
	var list []*Fitted
	var unfit string
	if name == learned.Name {
		list, err = fitLearned(training, held)
	} else {
		list, unfit, err = fitScores(name, training, held.Val, held.OOD != nil)
	}
	if err != nil {
		return nil, c, nil, err
	}
	c = Selection{Name: list[0].Name, Requested: name != "", Unfit: unfit,
		Synthetic: name == learned.Name && held.OOD == nil}
	if !c.Requested {
		c.Base = c.Name
	}
	some := held.Val
	if len(list) > 1 {
		some, held.OOD = held.Val.subsample(most), held.OOD.subsample(most)
	}
	in, err := allValues(ctx, list, some)
	if err != nil {
		return nil, c, nil, err
	}
	at := 0
	if held.OOD != nil {
		if tried, at, err = c.compare(ctx, list, in, held.OOD); err != nil {
			return nil, c, nil, err
		}
	}
	if some != held.Val {
		in[at] = list[at].Values(*held.Val)
	}
	s := Serve(list[at], in[at])
	if held.Val.Nonlinear {
		s.raiseQuantiles()
	}
	return s, c, tried, nil
}

// CompareOnSynthetic returns how well scores detect synthetic OOD data: the default, all others that can be fitted
// and, last, the one learned from the same data. It says little about real OOD data.
func CompareOnSynthetic(ctx context.Context, training *Training, held ValidationData) ([]Candidate, error) {
	list, _, err := fitScores("", training, held.Val, true)
	if err != nil {
		return nil, err
	}
	held.OOD = nil
	if held.Val.Nonlinear {
		// The learned score takes variances.
	} else if own, err := fitLearned(training, held); err == nil {
		list = append(list, own...)
	} else if !errors.Is(err, ErrNoFit) {
		return nil, err
	}
	in, err := allValues(ctx, list, held.Val.subsample(MostCompared))
	if err != nil {
		return nil, err
	}
	tried, _, err := new(Selection).compare(ctx, list, in, held.Synthetic.subsample(MostCompared))
	return tried, err
}

// fitLearned fits the learned score to OOD data or, without any, to synthetic OOD data.
func fitLearned(training *Training, held ValidationData) ([]*Fitted, error) {
	if !learned.suits(held.Val) {
		return nil, unsuited(&learned, held.Val)
	}
	ood := cmp.Or(held.OOD, held.Synthetic)
	if ood == nil {
		return nil, fmt.Errorf("the score %s needs OOD data to learn from: "+
			"give %s, or for images %[2]s auto", learned.Name, option.OOD)
	}
	one, err := Learn(training, *held.Val, *ood)
	return []*Fitted{one}, err
}

// unsuited is the error for a score that cannot be computed for a head: see [Score.Suits].
func unsuited(s *Score, of *Examples) error {
	switch {
	case of.Correctness:
		return option.Errorf("the score %s is of classes, and answers that are right or wrong, such as the text of a line, have only %s: leave out %s",
			s.Name, DefaultOfAnswers, option.OODScore)
	case s.Correctness:
		return option.Errorf("the score %s is of answers that are right or wrong, such as the text of a line, and the head has classes",
			s.Name)
	case s.reads == onlyFeatures:
		return option.Errorf("the score %s needs features, and without a linear last layer there are none unless %s names a tensor",
			s.Name, option.Features)
	}
	return option.Errorf("the score %s needs a linear last layer, and the head has none", s.Name)
}

// fitScores fits the score with this name or, for "", the default one and, if more is set, all others that can be
// fitted. If the default cannot be fitted, unfit says why, and the first takes its place, see [DefaultFor]. Without a
// linear layer all that can be computed are tried, baselines too.
func fitScores(name string, training *Training, of *Examples, more bool) (fitted []*Fitted, unfit string, err error) {
	first, fallback := DefaultFor(layer.Head{Nonlinear: of.Nonlinear, Features: of.D, Correctness: of.Correctness})
	first = cmp.Or(name, first)
	if err := Check(first); err != nil {
		return nil, "", err
	}
	fit := func(name string) (*Fitted, error) {
		s, _ := Find(name)
		if !s.suits(of) {
			return nil, unsuited(s, of)
		}
		if s.NeedsFitting() && training == nil {
			return nil, fmt.Errorf("score %s: %w: it needs training data other than the validation data", name, ErrNoFit)
		}
		return s.Fit(training)
	}
	one, err := fit(first)
	if name == "" && errors.Is(err, ErrNoFit) {
		_, unfit, _ = strings.Cut(err.Error(), ErrNoFit.Error()+": ")
		first = fallback
		one, err = fit(first)
	}
	if err != nil {
		return nil, "", err
	}
	fitted = []*Fitted{one}
	if !more || name != "" {
		return fitted, unfit, nil
	}
	for _, s := range All {
		if s.Name == first || s.Baseline && !of.Nonlinear || !s.suits(of) {
			continue
		}
		one, err := fit(s.Name)
		if err != nil && !errors.Is(err, ErrNoFit) {
			return nil, "", err
		}
		if err == nil {
			fitted = append(fitted, one)
		}
	}
	return fitted, unfit, nil
}

// compare compares fitted scores and records the selected one, whose index it returns. in are their values on the
// in-distribution examples.
func (c *Selection) compare(ctx context.Context, list []*Fitted, in [][]float64, ood *Examples,
) (tried []Candidate, chosen int, err error) {
	out, err := allValues(ctx, list, ood)
	if err != nil {
		return nil, 0, err
	}
	measured := make([]*metrics.Statistics, len(list))
	for i, s := range list {
		figures, err := metrics.Detect(in[i], out[i])
		if err == nil {
			measured[i], err = metrics.Detection(in[i], out[i], 0, 1, "auroc")
		}
		if err != nil {
			return nil, 0, fmt.Errorf("score %s: %w", s.Name, err)
		}
		tried = append(tried, Candidate{Name: s.Name, OOD: figures})
	}
	if c.AUROC = tried[0].AUROC; len(list) == 1 {
		return tried, 0, nil
	}
	figures, err := metrics.Resample(ctx, []int{len(in[0]), ood.N}, measured, metrics.ResampleOptions{})
	if err != nil {
		return nil, 0, err
	}
	var gains []metrics.Series
	for _, f := range figures[1:] {
		gains = append(gains, f["auroc"].Minus(figures[0]["auroc"]))
	}
	for i, needed := range metrics.ChanceGains(gains, 1-significance) {
		tried[i+1].Gain, tried[i+1].Needed = gains[i].Value, needed
	}
	best := func(among func(t Candidate) bool) (at int) {
		for i, t := range tried[1:] {
			if among(t) && (at == 0 || t.AUROC > tried[at].AUROC) {
				at = i + 1
			}
		}
		return at
	}
	chosen = best(func(t Candidate) bool { return t.Gain > t.Needed })
	rival := chosen
	if rival == 0 {
		rival = best(func(Candidate) bool { return true })
	}
	c.Rival, c.Gain, c.Needed = tried[rival].Name, tried[rival].Gain, tried[rival].Needed
	c.Name, c.AUROC = tried[chosen].Name, tried[chosen].AUROC
	return tried, chosen, nil
}
