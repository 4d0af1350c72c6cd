package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// scoreCalibration calibrates a network with OOD data and selects the score serve, or by validation if it is "".
func (l *lab) scoreCalibration(ctx context.Context, h scoreNetwork, seed int, ood, serve string, d calibrate.Damping,
) (*calibration.Report, error) {
	model := h.set.network(h.kind, seed)
	if err := requireNetwork(model); err != nil {
		return nil, err
	}
	out := filepath.Join(l.scratch, "bundles", fileName(fmt.Sprintf("scores of %s %d", h.name, seed)))
	if err := os.MkdirAll(filepath.Dir(out), files.FolderMode); err != nil {
		return nil, err
	}
	r, err := calibration.Calibrate(ctx, calibration.Config{
		Model: model, Train: h.set.train, Val: h.set.val, OOD: ood, Out: out, Force: true,
		Preprocess: h.set.preprocess, Cache: l.cache(h.set.name), Runtime: l.runtime,
		Settings: bundle.Settings{OODScore: serve, Structure: calibrate.Kronecker, Damping: d, KeepClass: true},
	})
	if err != nil {
		return nil, err
	}
	l.warn(r.Warnings)
	return r, nil
}

// scoreFigures measures methods of a bundle on sets, by method and set.
func (l *lab) scoreFigures(ctx context.Context, h scoreNetwork, bundle string, methods []string, sets []oodSet,
) (map[string]map[string]answer, error) {
	c := bench.Config{
		Bundle: bundle, Test: h.set.test, Limit: scoreImages, Methods: methods, Alone: true, Resamples: scoreResamples,
		Preprocess: h.set.preprocess, Cache: l.cache(h.set.name), Runtime: l.runtime, Comparators: new(fieldScores),
	}
	for _, u := range sets {
		c.OOD = append(c.OOD, u.test())
	}
	e, err := bench.Evaluate(ctx, c)
	if err != nil {
		return nil, err
	}
	l.warn(e.Warnings)
	i := slices.IndexFunc(e.Methods, func(m bench.MethodResult) bool { return m.Name == score.Default })
	base := e.Methods[i]
	all := map[string]map[string]answer{}
	for _, m := range e.Methods {
		all[m.Name] = map[string]answer{}
		for i, u := range sets {
			a := answer{Damping: &e.Bundle.Damping}
			a.OOD = map[string]detection{u.name: detectionOf(m.OOD[i].OOD)}
			if m.Name != score.Default {
				a.OverDefault = map[string]metrics.Difference{u.name: lead(m.OOD[i].Certainty, base.OOD[i].Certainty)}
			}
			if best := bestOther(e.Methods, m.Name, i); best != nil {
				a.OverBest = map[string]metrics.Difference{u.name: lead(m.OOD[i].Certainty, best.OOD[i].Certainty)}
			}
			if m.InDomain != nil && !c.Comparators.Takes(m.Name) {
				a.OODNLL = map[string]detection{u.name: detectionOf(m.OODNLL[i].OOD)}
			}
			all[m.Name][u.name] = a
		}
	}
	return all, nil
}

// bestOther returns the score of mfgs with the highest AUROC on a set, other than the named one; nil if there is none.
func bestOther(methods []bench.MethodResult, name string, set int) (best *bench.MethodResult) {
	for i, m := range methods {
		if m.Name == name || !slices.Contains(ownScores(), m.Name) {
			continue
		}
		if best == nil || m.OOD[set].AUROC > best.OOD[set].AUROC {
			best = &methods[i]
		}
	}
	return best
}

// lead is the difference in AUROC between two scores on the same examples, with its paired interval.
func lead(a, b metrics.Certainty) metrics.Difference {
	s := a.Series["auroc"].Minus(b.Series["auroc"])
	interval, ok := s.Interval(scoreLevel)
	if !ok { // the same on all resamples
		interval = metrics.Interval{s.Value, s.Value}
	}
	return metrics.Difference{Difference: s.Value, Interval: interval}
}

// methods are the scores measured, by protocol.
func (h scoreNetwork) methods() (names []string) {
	for _, name := range untunedScores() {
		if !h.sigmoid || !slices.Contains(softmaxScores(), name) {
			names = append(names, name)
		}
	}
	return names
}

// A scoreBench collects rows.
type scoreBench struct {
	rows []row
}

// put adds a measurement on one network.
func (b *scoreBench) put(p place, seed int, a answer, note string) {
	at := slices.IndexFunc(b.rows, func(r row) bool { return r.place == p })
	if at < 0 {
		at = len(b.rows)
		b.rows = append(b.rows, row{place: p, Note: note})
	}
	m := measurement{Seed: seed, Networks: []int{seed}, answer: a}
	b.rows[at].Runs = append(b.rows[at].Runs, m)
}

// measureScoreNetwork measures all scores of one network on all its sets.
func (l *lab) measureScoreNetwork(ctx context.Context, b *scoreBench, h scoreNetwork, seed int) error {
	l.say("scores of %s, %s", h.name, filepath.Base(h.set.network(h.kind, seed)))
	ood, serve, names := wrap.SyntheticOOD, learnedScore, h.methods()
	if h.untuned {
		ood, serve = "", score.Default
	} else {
		names = append(names, learnedScore)
	}
	if !h.sigmoid {
		names = append(names, predictedScore)
	}
	report, err := l.scoreCalibration(ctx, h, seed, ood, serve, calibrate.Damping{})
	if err != nil {
		return err
	}
	all, err := l.scoreFigures(ctx, h, report.Bundle, names, h.sets)
	if err != nil {
		return err
	}
	for _, u := range h.sets {
		e := pairOf(h.name, u.name)
		for _, name := range names {
			by := untuned
			if name == learnedScore {
				by = synthetic
			}
			b.put(scorePlace(e, by, name), seed, all[name][u.name], "")
		}
		auroc := func(name string) string { return points(all[name][u.name].OOD[u.name].AUROC) }
		l.say("AUROC against %s: network %s, %s %s, %s %s", u.name, auroc("mle"), score.Default, auroc(score.Default),
			guardedScore, auroc(guardedScore))
	}
	if seed != h.seeds[0] { // the rest is slow
		return nil
	}
	if h.restrictedOn != "" {
		restricted, err := l.restricted(ctx, h, seed, report.Bundle)
		if err != nil {
			return err
		}
		for _, r := range restricted {
			if err := l.measureScoreNetwork(ctx, b, r, seed); err != nil {
				return err
			}
		}
	}
	if h.name == cifar10Name || h.name == smallDigitsName {
		if err := l.measureFewerValidation(ctx, b, h, seed); err != nil {
			return err
		}
	}
	h.sets = h.tunedSets()
	return l.tuneScoreNetwork(ctx, b, h, seed, calibrate.Damping{Absolute: report.Damping.Epsilon}, all)
}

// measureFewerValidation measures scores of a network that is calibrated with fewer validation images.
func (l *lab) measureFewerValidation(ctx context.Context, b *scoreBench, h scoreNetwork, seed int) error {
	val, err := images.Read(ctx, h.set.val)
	if err != nil {
		return err
	}
	for _, n := range fewerValidation {
		if n >= val.Len() {
			continue
		}
		set := *h.set
		name := filepath.Join(l.scratch, "validation", fileName(fmt.Sprintf("%s %d ", h.name, n)))
		if set.val, err = val.Subsample(n).Write(name); err != nil {
			return err
		}
		few := h
		few.set = &set
		report, err := l.scoreCalibration(ctx, few, seed, "", guardedScore, calibrate.Damping{})
		if err != nil {
			return err
		}
		all, err := l.scoreFigures(ctx, few, report.Bundle, fewerScores, h.sets)
		if err != nil {
			return err
		}
		for _, u := range h.sets {
			for _, name := range fewerScores {
				b.put(fewerPlace(pairOf(h.name, u.name), n, name), seed, all[name][u.name], "")
			}
		}
	}
	return nil
}

// tuneScoreNetwork tunes on a part of each of a network's sets, and measures on all of them. d is the damping chosen
// on in-distribution data, untuned the answers without tuning, by score and set.
func (l *lab) tuneScoreNetwork(ctx context.Context, b *scoreBench, h scoreNetwork, seed int, d calibrate.Damping,
	untuned map[string]map[string]answer) error {
	serves := map[string]string{}
	all := map[string]map[string]map[string]answer{} // by the set tuned on, score and set
	for _, u := range h.sets {
		chosen, err := l.scoreCalibration(ctx, h, seed, u.heldOut(), "", d)
		if err != nil {
			return err
		}
		l.say("for %s mfgs selects %s", u.name, chosen.OODScore.Reason)
		learned, err := l.scoreCalibration(ctx, h, seed, u.heldOut(), learnedScore, d)
		if err != nil {
			return err
		}
		// Temperatures do not depend on the selected score.
		got, err := l.scoreFigures(ctx, h, learned.Bundle, []string{score.Default, "ts", "mf0", learnedScore}, h.sets)
		if err != nil {
			return err
		}
		// Scores other than mf0 have nothing to tune.
		serves[u.name] = chosen.OODScore.Name
		if got[chosenScore] = untuned[serves[u.name]]; serves[u.name] == "mf0" {
			got[chosenScore] = got["mf0"]
		}
		all[u.name] = got
	}
	for _, u := range h.sets {
		e := pairOf(h.name, u.name)
		for _, name := range tunedScores {
			note := ""
			if name == chosenScore {
				note = serves[u.name]
			}
			b.put(scorePlace(e, tuned, name), seed, all[u.name][name][u.name], note)
			var others []answer
			for _, o := range h.sets {
				if o.name != u.name {
					others = append(others, all[o.name][name][u.name])
				}
			}
			b.put(scorePlace(e, tunedOnOther, name), seed, meanAnswer(u.name, others), "")
		}
	}
	return nil
}

// meanAnswer averages detection figures of a set.
func meanAnswer(set string, all []answer) answer {
	var r row
	var leads []metrics.Difference
	for _, a := range all {
		r.Runs = append(r.Runs, measurement{answer: a})
		leads = append(leads, a.OverDefault[set])
	}
	a := answer{figures: r.mean(), Damping: all[0].Damping}
	a.OverDefault = map[string]metrics.Difference{set: meanDifference(leads)}
	return a
}

func measureScores(ctx context.Context, l *lab, s *section) error {
	scoreNetworks, err := l.scoreNetworks(ctx)
	if err != nil {
		return err
	}
	benches := make([]scoreBench, len(scoreNetworks))
	err = runParallel(ctx, len(scoreNetworks), func(ctx context.Context, at int) error {
		i := len(scoreNetworks) - 1 - at // ImageNet's takes longest, with one network
		for _, seed := range scoreNetworks[i].seeds {
			if err := l.measureScoreNetwork(ctx, &benches[i], scoreNetworks[i], seed); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, b := range benches {
		s.add(b.rows...)
	}
	return nil
}

func writeScores(s *section) {
	of := standingsOf(s.Rows)
	s.write("%s", of.preamble())
	s.write("### Summary")
	s.write("%s", of.advice())
	s.write("### Scores without OOD data")
	s.write("%s", of.summary())
	s.draw(of.drawRanks())
	s.write("![Mean ranks of the scores, with the critical difference](paper/scores-ranks.svg)")
	s.write("%s", of.test())
	if of.hasFewer() {
		s.write("### Fewer validation examples, and predicted labels")
		s.write("%s", of.fewer())
	}
	s.write("### Scores with synthetic OOD images or OOD examples")
	s.write("On the first network of each kind, the only one that is tuned:")
	s.write("%s", of.protocols())
	s.write("### By network")
	s.write("%s", of.networks())
	s.write("%s", of.list())
}
