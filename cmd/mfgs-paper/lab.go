package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/compare"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// A lab calibrates networks and evaluates methods, and caches results.
type lab struct {
	data, models, scratch string
	examples              string // folder of the documentation's networks

	fingerprint string // of program and data
	seeds       []int  // of the MNIST networks
	runtime     wrap.Runtime
	log         io.Writer
	making      string // the current part, for the log
	began       time.Time

	sets    map[string]*benchmark // prepared benchmarks, by name
	bundles sync.Map              // *calibration.Report by subject
	locks   namedLocks            // one per path of sums

	mu      sync.Mutex                      // guards answers and log
	answers map[request]map[string][]answer // by method; one per draw
}

func newLab(data, models, scratch string, seeds []int, log io.Writer) *lab {
	return &lab{
		data: data, models: models, scratch: scratch, seeds: seeds, log: log,
		examples: filepath.Join(models, "..", "testdata", "examples"),
		runtime:  wrap.Runtime{Install: true, Threads: threadsPerTask()},
		answers:  map[request]map[string][]answer{},
		sets:     map[string]*benchmark{},
	}
}

// say logs a line of progress.
func (l *lab) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.log, "%-8s %6.1f s  %s\n", l.making, time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
}

func (l *lab) warn(warnings []string) {
	for _, w := range warnings {
		l.say("warning: %s", w)
	}
}

// A benchmark is a data set to calibrate and evaluate on, with its networks.
type benchmark struct {
	name       string // as in paper.json
	preprocess *preprocess.Spec

	train, val, valOOD, test string // SPECs; valOOD is "" if nothing is tuned on OOD data
	ood                      []bench.NamedSpec
	valOODName               string // the set that valOOD is part of, if several benchmarks share a name

	seeds   []int          // of the default networks
	trained map[string]int // how many networks exist of each other kind
	// network returns the file of a network; kind is "" for the default kind.
	network func(kind string, seed int) string
	// fisher reports whether some posterior of a network needs the Fisher matrix. Nil if that is unknown.
	fisher func(kind string, seed int) bool
	// files returns the other networks that a method needs, as in compare.Config.With. Nil if none.
	files func(method string, q request) map[string][]string
}

// How many networks slow methods run on.
const (
	someNetworks = 3
	moreNetworks = 5 // with two draws each
)

// A subject identifies a bundle.
type subject struct {
	set  *benchmark
	kind string // of network
	seed int
	posterior
}

// A posterior is the settings of a calibration. The zero value is the default of mfgs: the inverse
// Hessian, its structure by size, its damping chosen by validation likelihood.
type posterior struct {
	covariance calibrate.Covariance
	damping    calibrate.Damping
	structure  calibrate.Structure
}

// String describes a posterior, for logs, tables and file names.
func (p posterior) String() string {
	name := map[calibrate.Covariance]string{"": "H^-1", calibrate.Hessian: "H^-1", calibrate.Fisher: "J^-1",
		calibrate.Sandwich: "H^-1JH^-1"}[p.covariance]
	if p.structure != "" {
		name += " " + string(p.structure)
	}
	switch {
	case p.damping.Absolute > 0:
		return fmt.Sprintf("%s, eps = %g", name, p.damping.Absolute)
	case p.damping.Relative > 0:
		return fmt.Sprintf("%s, rho = %g", name, p.damping.Relative)
	}
	return name
}

func (l *lab) bundlePath(s subject) string {
	name := fmt.Sprintf("%s %s %s%d %v", s.set.name, s.set.valOODName, s.kind, s.seed, s.posterior)
	return filepath.Join(l.scratch, "bundles", l.fingerprint, fileName(name))
}

// sumsPath is the folder of the accumulated sums, which all posteriors of a network share.
func (l *lab) sumsPath(s subject) string {
	name := fmt.Sprintf("%s %s %s%d %s", s.set.name, s.set.valOODName, s.kind, s.seed, s.structure)
	if s.withFisher() {
		name += " with fisher"
	}
	return filepath.Join(l.scratch, "sums", l.fingerprint, fileName(name))
}

// withFisher reports whether the sums include the Fisher matrix, for this or another posterior of the network.
func (s subject) withFisher() bool {
	return s.covariance.NeedsFisher() || s.structure == "" && s.set.fisher != nil && s.set.fisher(s.kind, s.seed)
}

// calibrate calibrates a subject unless that was done. With curvature, the bundle keeps the curvature, which
// methods otherwise recompute.
func (l *lab) calibrate(ctx context.Context, s subject, curvature bool) (*calibration.Report, error) {
	sums, out := l.sumsPath(s), l.bundlePath(s)
	defer l.locks.lock(sums)()
	if r, ok := l.bundles.Load(s); ok {
		return r.(*calibration.Report), nil
	}
	if !exists(sums) { // its path holds the fingerprint, and the folder appears atomically
		if _, err := l.accumulate(ctx, s); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(out), files.FolderMode); err != nil {
		return nil, err
	}
	l.say("calibrating %s, %s, %v", s.set.name, filepath.Base(s.set.network(s.kind, s.seed)), s.posterior)
	damping := s.damping
	r, err := calibration.Merge(ctx, calibration.MergeConfig{
		Parts: []string{sums}, Out: out, Force: true, KeepCurvature: curvature,
		Covariance: cmp.Or(s.covariance, calibrate.Hessian), Damping: &damping, Runtime: l.runtime,
	})
	if err != nil {
		return nil, err
	}
	l.warn(r.Warnings)
	l.bundles.Store(s, r)
	return r, nil
}

// accumulate computes the sums of a subject from its data.
func (l *lab) accumulate(ctx context.Context, s subject) (*calibration.PartReport, error) {
	model, out := s.set.network(s.kind, s.seed), l.sumsPath(s)
	if err := requireNetwork(model); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(out), files.FolderMode); err != nil {
		return nil, err
	}
	l.say("reading %s, %s", s.set.name, filepath.Base(model))
	covariance := calibrate.Hessian
	if s.withFisher() {
		covariance = calibrate.Sandwich
	}
	return calibration.Accumulate(ctx, calibration.Config{
		Model: model, Train: s.set.train, Val: s.set.val, OOD: s.set.valOOD,
		Out: out, Force: true,
		Preprocess: s.set.preprocess, Cache: l.cache(s.set.name), Runtime: l.runtime,
		Settings: bundle.Settings{
			OODScore:   score.Default, // comparing all scores would dominate the time
			Covariance: covariance, Structure: s.structure,
			KeepClass: true, // mf0 is the paper's, of the network's own logits
		},
	})
}

// cache returns the folder of a benchmark's features.
func (l *lab) cache(name string) string {
	return filepath.Join(l.scratch, "features", fileName(name))
}

// fileName converts a title to a file name.
func fileName(title string) string {
	return strings.NewReplacer(" ", "-", ",", "", "=", "", "^", "").Replace(strings.ToLower(title))
}

// requireNetwork returns an error that names the training script if a network's file is missing.
func requireNetwork(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if script := filepath.Join(dir, "train.py"); exists(script) {
			return fmt.Errorf("%s: no such network: %s trains it", path, script)
		}
	}
	return fmt.Errorf("%s: no such network", path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ask fills l.answers for methods, with one answer per random draw. Methods without answers so far are evaluated in one
// pass.
func (l *lab) ask(ctx context.Context, q request, methods []string, draws int) error {
	l.mu.Lock()
	known := l.answers[q]
	if known == nil {
		known = map[string][]answer{}
		l.answers[q] = known
	}
	var open []string
	for _, m := range methods {
		if _, ok := known[m]; !ok && !slices.Contains(open, m) {
			open = append(open, m)
		}
	}
	l.mu.Unlock()
	if len(open) == 0 {
		return nil
	}
	e, err := l.evaluate(ctx, q, open, draws, q.set.ood, nil)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range e.Methods {
		known[m.Name] = append(known[m.Name], answerOf(e, m))
	}
	return nil
}

// A request identifies one call of compare.Evaluate.
type request struct {
	subject
	layers  int
	members members
}

// members are the networks of an ensemble: n from from on, cyclically among of. Zero for a method of one network.
type members struct{ from, n, of int }

// network names the network, "" for an ensemble.
func (q request) network() string {
	if q.members.n > 0 {
		return ""
	}
	return fmt.Sprint(q.kind, q.seed)
}

// networks returns the seeds of the networks.
func (q request) networks() []int {
	if q.members.n == 0 {
		return []int{q.seed}
	}
	var all []int
	for i := range q.members.n {
		all = append(all, (q.members.from+i)%q.members.of)
	}
	return all
}

// label returns the seeds as in paper.json.
func (q request) label() any {
	seeds := q.networks()
	if len(seeds) == 1 {
		return seeds[0]
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(seeds), "[]"), " ", ",")
}

// evaluate measures methods. Random draws differ between networks.
func (l *lab) evaluate(
	ctx context.Context, q request, methods []string, draws int, ood, shifts []bench.NamedSpec,
) (*bench.Evaluation, error) {
	if !exists(l.bundlePath(q.subject)) { // its path holds the fingerprint, and the folder appears atomically
		curvature := q.layers > 1 || slices.ContainsFunc(methods, needsCurvature)
		if _, err := l.calibrate(ctx, q.subject, curvature); err != nil {
			return nil, err
		}
	}
	c := compare.Config{Layers: q.layers, Config: bench.Config{
		Bundle: l.bundlePath(q.subject), Test: q.set.test, OOD: ood, Shifts: shifts, Methods: methods, Alone: true,
		Resamples: resamples, Preprocess: q.set.preprocess, Cache: l.cache(q.set.name), Runtime: l.runtime,
	}}
	for draw := range draws {
		c.Draws = append(c.Draws, uint64(1000*q.seed+draw))
	}
	if err := q.set.fill(&c, q); err != nil {
		return nil, err
	}
	of := ""
	if q.layers > 1 {
		of = fmt.Sprintf(" of %d layers", q.layers)
	}
	if q.members != (members{}) {
		of += fmt.Sprintf(" of seeds %v", q.label())
	}
	l.say("evaluating %s, %s, %v%s: %s", q.set.name, filepath.Base(q.set.network(q.kind, q.seed)), q.posterior, of, strings.Join(methods, " "))
	e, err := compare.Evaluate(ctx, c)
	if err != nil {
		return nil, err
	}
	l.warn(e.Warnings)
	return e, nil
}

// needsCurvature reports whether a method uses the curvature of the bundle's posterior.
func needsCurvature(method string) bool {
	name := strings.FieldsFunc(method, func(r rune) bool { return r == ':' || r == '@' })[0]
	return slices.Contains([]string{"mc", "mf1", "mf2", "ukf", "rue"}, name)
}

// fill adds the networks that the methods of c need.
func (b *benchmark) fill(c *compare.Config, q request) error {
	if b.files == nil {
		return nil
	}
	c.With = map[string][]string{}
	for _, m := range c.Methods {
		for name, paths := range b.files(m, q) {
			for _, path := range paths {
				if err := requireNetwork(path); err != nil {
					return err
				}
			}
			c.With[name] = paths
		}
	}
	return nil
}
