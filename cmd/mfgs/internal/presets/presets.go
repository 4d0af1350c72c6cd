// Package presets finds out whether images would suit a network better under other preprocessing,
// by trying it on some labelled ones.
package presets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/cmd/mfgs/internal/pretrained"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// bounds of what is tried.
const (
	mostExamples = 128
	mostTime     = time.Minute
)

// trying says what is tried, and on what.
type trying struct {
	model   *onnx.Model
	head    *head.Head
	used    *preprocess.Spec // what was done to the images
	runtime wrap.Runtime

	data    string // SPEC of labelled images
	classes []string
	maxBad  int
}

// Calibration returns what to say of the held-out images of a calibration that has come out far too
// low: "" where it has not, or nothing can be tried.
func Calibration(ctx context.Context, c calibration.Config, r *calibration.Report) string {
	m := r.HeldOut.Before.InDomain
	classes := r.Head.Classes()
	if c.ReadyMade || r.Preprocess == nil || r.Preprocess.Spec == nil || r.Head.MultiLabel() || !Low(m, classes) {
		return ""
	}
	t := trying{used: r.Preprocess.Spec, runtime: c.Runtime, data: c.Val, classes: c.Classes, maxBad: c.MaxBad}
	var err error
	if t.model, err = onnx.OpenCopy(c.Model); err == nil {
		defer t.model.Close()
		t.head, err = head.Find(t.model, c.Head)
	}
	return "val: " + t.advice(ctx, m, classes, err)
}

// Evaluation returns what to say of the test images of an evaluation, likewise.
func Evaluation(ctx context.Context, c bench.Config, e *bench.Evaluation) string {
	i := slices.IndexFunc(e.Methods, func(m bench.MethodResult) bool { return m.Name == "mle" && m.InDomain != nil })
	if i < 0 || e.Model == nil {
		return ""
	}
	m := e.Methods[i].InDomain.InDomain
	b, err := bundle.Open(c.Bundle)
	if err != nil {
		return ""
	}
	h := b.Manifest.Head.Head
	used := cmp.Or(c.Preprocess, b.Manifest.Preprocess)
	if used == nil || h.MultiLabel() || !Low(m, h.Classes()) {
		return ""
	}
	t := trying{used: used, runtime: c.Runtime, data: c.Test, classes: b.Manifest.Labels, maxBad: c.MaxBad}
	attached, err := attach.Open(b, c.Model, used)
	if err == nil {
		defer attached.Close()
		t.model, t.head, t.used = attached.Model, attached.Head, attached.Preprocessing(c.Preprocess)
	}
	return "test: " + t.advice(ctx, m, h.Classes(), err)
}

// advice tries what there is, unless err says that it cannot be, and says what was found.
func (t *trying) advice(ctx context.Context, m metrics.InDomain, classes int, err error) string {
	var trials []Trial
	if err == nil {
		trials, err = t.try(ctx)
	}
	if err != nil {
		return fmt.Sprintf("%s; other preprocessing could not be tried: %v", low(m, classes), err)
	}
	return Advice(trials, m, classes)
}

// A Trial is how often a network is right under some preprocessing.
type Trial struct {
	Name     string // of the preset, or path of a file
	Used     bool   // it is what was done already
	Right    int
	Examples int
}

// Low reports whether figures on labelled data say that something is wrong before the network: it
// is no better than chance, or wrong on more than half of the examples while it believes to be
// right on many more.
func Low(m metrics.InDomain, classes int) bool {
	const (
		enough = 20 // examples
		often  = 0.5
		more   = 0.3 // of all examples, in which confidence is above accuracy
	)
	if m.N < enough || classes < 2 {
		return false
	}
	chance := 1 / float64(classes)
	byChance := chance + 3*math.Sqrt(chance*(1-chance)/float64(m.N))
	return 1-m.Error <= byChance || m.Error > often && m.ECE > more
}

// try runs the network on some images under each preset, under what is written beside the model,
// and as they were: the best is the first. It returns nil where the network takes no images, or
// they cannot be read again.
func (t *trying) try(ctx context.Context) ([]Trial, error) {
	inputs := pretrained.Targets(t.model)
	if _, images := pretrained.Suggest(inputs, nil); !images || dataset.IsStream(t.data) {
		return nil, nil
	}
	if err := t.runtime.Load(ctx); err != nil {
		return nil, err
	}
	run := attach.RunConfig(t.runtime.Provider, t.runtime.Threads, t.runtime.Batch)
	run.Preprocess = t.used
	cut, err := attach.OpenCut(t.model, t.head, run)
	if err != nil {
		return nil, err
	}
	defer cut.Close()

	until, stop := context.WithTimeout(ctx, mostTime)
	defer stop()
	trials := []Trial{}
	for _, candidate := range candidates(t.model.Path(), inputs[0], cut.Preprocess()) {
		e, err := cut.Under(candidate.spec)
		if err != nil {
			continue // it does not suit the model
		}
		right, n, err := t.accuracy(until, e)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case until.Err() != nil:
			return sorted(trials), nil
		case errors.As(err, new(*preprocess.ShapeError)) || err == nil && n == 0:
			continue // nor the images
		case err != nil:
			return nil, err
		}
		trials = append(trials, Trial{candidate.name, candidate.used, right, n})
	}
	return sorted(trials), nil
}

// sorted puts the best first, and of those that are as good the one that is used.
func sorted(trials []Trial) []Trial {
	slices.SortStableFunc(trials, func(a, b Trial) int { return cmp.Compare(b.Right, a.Right) })
	return trials
}

// candidate is preprocessing to be tried.
type candidate struct {
	name string
	spec preprocess.Spec
	used bool
}

// candidates are what is used, what is written beside the model, and the presets, each once.
func candidates(model string, t preprocess.Target, used *preprocess.Spec) []candidate {
	list := []candidate{{"as it is", *used, true}}
	add := func(name string, s preprocess.Spec) {
		if s.Exif == nil { // it is no part of a preset
			s.Exif = used.Exif
		}
		p, err := preprocess.New(s, t)
		if err != nil {
			return
		}
		s = p.Spec()
		if i := slices.IndexFunc(list, func(c candidate) bool { return reflect.DeepEqual(c.spec, s) }); i < 0 {
			list = append(list, candidate{name, s, false})
		} else if list[i].used {
			list[i].name = name
		}
	}
	if beside := pretrained.Beside(model); beside.Preprocess != nil {
		add(beside.PreprocessFile, *beside.Preprocess)
	}
	for _, name := range preprocess.Presets {
		if s, err := preprocess.Preset(name, t); err == nil {
			add(name, s)
		}
	}
	return list
}

// accuracy counts how often the network is right.
func (t *trying) accuracy(ctx context.Context, e *featurize.Extractor) (right, n int, err error) {
	h, classes := attach.Head(t.head), t.classes
	if classes == nil {
		classes = t.head.Labels
	}
	o := source.Opener{
		Network: e.Network, Extractor: e, Classes: classes, MaxBad: t.maxBad, Limit: mostExamples,
		Notes: &source.Notes{},
	}
	set, err := o.Open(ctx, "images", t.data, h.Classes(), true)
	if err != nil {
		return 0, 0, err
	}
	defer set.Close()
	if !set.Labelled() {
		return 0, 0, nil
	}
	for b, err := range e.Batches(ctx, set.Data, set.Config) {
		if err != nil {
			return 0, 0, err
		}
		for i := range b.N {
			if b.Labels[i] >= 0 {
				n++
				if h.Predicted(b.Logits[i*h.Logits:][:h.Logits]) == int(b.Labels[i]) {
					right++
				}
			}
		}
	}
	return right, n, nil
}

// low says how low the figures are.
func low(m metrics.InDomain, classes int) string {
	return fmt.Sprintf("the network is right on %.1f %% of %d examples of %d classes", 100*(1-m.Error), m.N, classes)
}

// Advice says in a sentence what trials have shown, of a network with such figures.
func Advice(trials []Trial, m metrics.InDomain, classes int) string {
	if len(trials) == 0 {
		return low(m, classes) + ": look at the labels, the order of the classes, and preprocessing"
	}
	tried := make([]string, len(trials))
	used := 0.
	for i, t := range trials {
		tried[i] = fmt.Sprintf("%s %.1f %%", t.Name, 100*t.share())
		if t.Used {
			used = t.share()
			tried[i] += ", which is what was done"
		}
	}
	says := low(m, classes)
	found := fmt.Sprintf("tried on %d of them: %s", trials[0].Examples, strings.Join(tried, "; "))
	if best := trials[0]; !best.Used && best.share() >= used+best.margin() {
		return fmt.Sprintf("%s: pixels seem to become its input in another way: try --preprocess %s (%s)", says,
			pretrained.Quote(best.Name), found)
	}
	return fmt.Sprintf("%s, and no preset does better: look at the labels, the order of the classes and what the network "+
		"was trained on (%s)", says, found)
}

func (t Trial) share() float64 { return float64(t.Right) / float64(max(1, t.Examples)) }

// margin is two standard errors of the difference of two shares, at most.
func (t Trial) margin() float64 { return 2 * math.Sqrt(0.5/float64(max(1, t.Examples))) }
