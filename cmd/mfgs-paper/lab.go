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
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/lanes"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// A lab calibrates and evaluates, and remembers what it did.
type lab struct {
	data, models, scratch string

	stamped string // what measures, and on what: see stamp
	seeds   []int  // of the MNIST networks
	runtime wrap.Runtime
	log     io.Writer
	making  string // the part, for the log
	began   time.Time

	sets    map[string]*benchmark // those that were made ready, by name
	bundles sync.Map              // *calibration.Report by subject
	locks   lanes.Locks           // of what is made of a network, by path

	mu      sync.Mutex                      // of the log, too
	answers map[request]map[string][]answer // by method, one for each draw
}

func newLab(data, models, scratch string, seeds []int, log io.Writer) *lab {
	return &lab{
		data: data, models: models, scratch: scratch, seeds: seeds, log: log,
		runtime: wrap.Runtime{Install: true, Threads: lanes.Threads()},
		answers: map[request]map[string][]answer{},
		sets:    map[string]*benchmark{},
	}
}

// say writes a line of progress.
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

// A benchmark is data to calibrate and evaluate on, and its networks.
type benchmark struct {
	name       string // as paper.json has it
	preprocess *preprocess.Spec

	train, val, valOOD, test string // SPECs; no valOOD: nothing is tuned on such data
	ood                      []bench.NamedSpec
	told                     string // the set of which valOOD is a part, where there are several benchmarks of one name

	seeds   []int          // of the usual networks
	trained map[string]int // how many networks there are of each other kind
	// network returns the file of a network: kind is "" for the usual one.
	network func(kind string, seed int) string
	// fisher reports which networks have posteriors that take the Fisher matrix; nil: it is not known before.
	fisher func(kind string, seed int) bool
	// files names the trained networks that a method needs, as compare.Config.With does; nil where
	// there are none.
	files func(method string, q request) map[string][]string
}

// How many networks what takes long is on.
const (
	someNetworks = 3
	moreNetworks = 5 // where two draws of each are enough
)

// A subject is what there is a bundle of.
type subject struct {
	set  *benchmark
	kind string // of network
	seed int
	posterior
}

// A posterior is how a bundle is made. Its zero value is what mfgs does unasked: the inverse
// Hessian in the structure that its size suggests, the damping chosen on held-out likelihood.
type posterior struct {
	covariance calibrate.Covariance
	damping    calibrate.Damping
	structure  calibrate.Structure
}

// String describes a posterior as the log and the tables do.
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
	name := fmt.Sprintf("%s %s %s%d %v", s.set.name, s.set.told, s.kind, s.seed, s.posterior)
	return filepath.Join(l.scratch, "bundles", l.stamped, fileName(name))
}

// sumsPath is where what is read for a subject is kept, for all posteriors that are made of it.
func (l *lab) sumsPath(s subject) string {
	name := fmt.Sprintf("%s %s %s%d %s", s.set.name, s.set.told, s.kind, s.seed, s.structure)
	if s.withFisher() {
		name += " with fisher"
	}
	return filepath.Join(l.scratch, "sums", l.stamped, fileName(name))
}

// withFisher reports whether the Fisher matrix is summed as well, for this posterior or for others of the network.
func (s subject) withFisher() bool {
	return s.covariance.NeedsFisher() || s.structure == "" && s.set.fisher != nil && s.set.fisher(s.kind, s.seed)
}

// calibrate makes the bundle of a subject, unless there is one, and keeps the curvature in it if that is
// asked for: methods that find none in a bundle sum it again.
func (l *lab) calibrate(ctx context.Context, s subject, curvature bool) (*calibration.Report, error) {
	sums, out := l.sumsPath(s), l.bundlePath(s)
	defer l.locks.Hold(sums)()
	if r, ok := l.bundles.Load(s); ok {
		return r.(*calibration.Report), nil
	}
	if !exists(sums) { // a part is a folder that appears whole, and this one is of the same program and data
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

// accumulate reads the data of a subject.
func (l *lab) accumulate(ctx context.Context, s subject) (*calibration.PartReport, error) {
	model, out := s.set.network(s.kind, s.seed), l.sumsPath(s)
	if err := trained(model); err != nil {
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
			OODScore:   score.Default, // to compare all takes longer than all else
			Covariance: covariance, Structure: s.structure,
		},
	})
}

// cache keeps the features of a benchmark.
func (l *lab) cache(name string) string {
	return filepath.Join(l.scratch, "features", fileName(name))
}

// fileName makes a file's name of a title.
func fileName(title string) string {
	return strings.NewReplacer(" ", "-", ",", "", "=", "", "^", "").Replace(strings.ToLower(title))
}

// trained reports a network that is not there, with the script that makes it.
func trained(path string) error {
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

// ask sees to answers to methods: one for each of so many draws of those that draw at random. Those that
// were not asked for before are evaluated in one pass.
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

// A request is what one call of compare.Evaluate can answer.
type request struct {
	subject
	layers  int
	members members
}

// Members are the networks of an ensemble: so many in a circle of some, from one on. There are none of
// a method of one network.
type members struct{ from, n, of int }

// network tells which network was asked, "" for an ensemble.
func (q request) network() string {
	if q.members.n > 0 {
		return ""
	}
	return fmt.Sprint(q.kind, q.seed)
}

// networks are the seeds of what was asked.
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

// label returns what paper.json has for the seed of what was asked.
func (q request) label() any {
	seeds := q.networks()
	if len(seeds) == 1 {
		return seeds[0]
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(seeds), "[]"), " ", ",")
}

// evaluate measures methods. Those that draw at random draw something else for every network.
func (l *lab) evaluate(
	ctx context.Context, q request, methods []string, draws int, ood, shifts []bench.NamedSpec,
) (*bench.Evaluation, error) {
	// A bundle is a folder that appears whole, and this one is of the same program and data.
	if !exists(l.bundlePath(q.subject)) {
		if _, err := l.calibrate(ctx, q.subject, q.layers > 1 || slices.ContainsFunc(methods, curved)); err != nil {
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

// curved reports whether a method is made of the curvature of a bundle's posterior.
func curved(method string) bool {
	name := strings.FieldsFunc(method, func(r rune) bool { return r == ':' || r == '@' })[0]
	return slices.Contains([]string{"mc", "mf1", "mf2", "ukf", "rue"}, name)
}

// fill adds what the methods of c ask for.
func (b *benchmark) fill(c *compare.Config, q request) error {
	if b.files == nil {
		return nil
	}
	c.With = map[string][]string{}
	for _, m := range c.Methods {
		for name, paths := range b.files(m, q) {
			for _, path := range paths {
				if err := trained(path); err != nil {
					return err
				}
			}
			c.With[name] = paths
		}
	}
	return nil
}
