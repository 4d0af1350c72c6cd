package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx/files"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// A lab calibrates and evaluates, and remembers what it did.
type lab struct {
	data, models, scratch string

	seeds   []int // of the MNIST networks
	runtime wrap.Runtime

	log   io.Writer
	part  string // what is being made, for the log
	began time.Time

	bundles map[subject]*wrap.Report
	answers map[request]map[string]answer // by method
	sets    map[string]*benchmark         // those that were made ready, by name
}

func newLab(data, models, scratch string, seeds []int, log io.Writer) *lab {
	return &lab{
		data: data, models: models, scratch: scratch, seeds: seeds, log: log,
		runtime: wrap.Runtime{Setup: wrap.Setup{Install: true}},
		bundles: map[subject]*wrap.Report{},
		answers: map[request]map[string]answer{},
		sets:    map[string]*benchmark{},
	}
}

// say writes a line of progress.
func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(l.log, "%-8s %6.1f s  %s\n", l.part, time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
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

	// network returns the file of a network: kind is "" for the usual one.
	network func(kind string, seed int) string
	// files names the trained networks that a method needs, as bench.Config.With does; nil where
	// there are none.
	files func(method string, q request) map[string][]string
}

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
}

// String describes a posterior as the log and the tables do.
func (p posterior) String() string {
	name := map[calibrate.Covariance]string{"": "H^-1", calibrate.Hessian: "H^-1", calibrate.Fisher: "J^-1",
		calibrate.Sandwich: "H^-1JH^-1"}[p.covariance]
	switch {
	case p.damping.Absolute > 0:
		return fmt.Sprintf("%s, eps = %g", name, p.damping.Absolute)
	case p.damping.Relative > 0:
		return fmt.Sprintf("%s, rho = %g", name, p.damping.Relative)
	}
	return name
}

// An answer is what wrap says of a method on data that nothing was tuned on.
type answer struct {
	figures
	damping *bundle.Damping // of the bundle
	note    string
	overTS  *metrics.Difference // of the NLL on a set under shift to temperature scaling's, on the same examples
}

func (l *lab) bundlePath(s subject) string {
	return filepath.Join(l.scratch, "bundles", fileName(fmt.Sprintf("%s %s %s%d %v", s.set.name, s.set.told, s.kind, s.seed, s.posterior)))
}

// calibrate makes the bundle of a subject, unless there is one.
func (l *lab) calibrate(ctx context.Context, s subject) (*wrap.Report, error) {
	if r := l.bundles[s]; r != nil {
		return r, nil
	}
	model := s.set.network(s.kind, s.seed)
	if err := trained(model); err != nil {
		return nil, err
	}
	out := l.bundlePath(s)
	if err := os.MkdirAll(filepath.Dir(out), files.FolderMode); err != nil {
		return nil, err
	}
	l.say("calibrating %s, %s, %v", s.set.name, filepath.Base(model), s.posterior)
	r, err := wrap.Calibrate(ctx, wrap.Config{
		Model: model, Train: s.set.train, Val: s.set.val, OOD: s.set.valOOD,
		Out: out, Force: true,
		Covariance: s.covariance, Damping: s.damping,
		Inputs: l.inputs(s.set), Runtime: l.runtime,
	})
	if err != nil {
		return nil, err
	}
	l.warn(r.Warnings)
	l.bundles[s] = r
	return r, nil
}

// inputs says how a benchmark is read, and where its features are kept.
func (l *lab) inputs(b *benchmark) wrap.Inputs {
	return wrap.Inputs{Preprocess: b.preprocess, Cache: l.cache(b.name)}
}

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

// ask returns the answers to methods, by their names. Those that were not asked for
// before are evaluated in one pass.
func (l *lab) ask(ctx context.Context, q request, methods []string) (map[string]answer, error) {
	known := l.answers[q]
	if known == nil {
		known = map[string]answer{}
		l.answers[q] = known
	}
	var open []string
	for _, m := range methods {
		if _, ok := known[m]; !ok && !slices.Contains(open, m) {
			open = append(open, m)
		}
	}
	if len(open) == 0 {
		return known, nil
	}
	e, err := l.evaluate(ctx, q, open, q.set.ood, nil)
	if err != nil {
		return nil, err
	}
	for i, m := range open {
		known[m] = answer{figures: figuresOf(e.Methods[i]), damping: &e.Bundle.Damping, note: e.Methods[i].Note}
	}
	return known, nil
}

// A request is what one call of bench.Evaluate can answer.
type request struct {
	subject
	layers  int
	members members
}

// Members are the networks of an ensemble: those of the seeds from one up to another, which is not
// among them. There are none of a method of one network.
type members struct{ from, to int }

// label returns what paper.json has for the seed of what was asked.
func (q request) label() any {
	switch q.members.to - q.members.from {
	case 0:
		return q.seed
	case 1:
		return q.members.from
	}
	return fmt.Sprintf("%d-%d", q.members.from, q.members.to-1)
}

func (l *lab) evaluate(ctx context.Context, q request, methods []string, ood,
	shifts []bench.NamedSpec) (*bench.Evaluation, error) {
	if _, err := l.calibrate(ctx, q.subject); err != nil {
		return nil, err
	}
	c := bench.Config{
		Bundle: l.bundlePath(q.subject), Test: q.set.test, OOD: ood, Shifts: shifts, Methods: methods, Layers: q.layers,
		Inputs: l.inputs(q.set), Runtime: l.runtime,
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
	e, err := bench.Evaluate(ctx, c)
	if err != nil {
		return nil, err
	}
	l.warn(e.Warnings)
	return e, nil
}

// fill adds what the methods of c ask for.
func (b *benchmark) fill(c *bench.Config, q request) error {
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

// Figures are one row's numbers: fractions, and nats. Nil is one that there is none of.
type figures struct {
	Error *float64 `json:"error"`
	NLL   *float64 `json:"nll"`
	ECE   *float64 `json:"ece"`

	// Of sets under shift.
	DebiasedCE *float64 `json:"debiased_ce,omitempty"`
	AURC       *float64 `json:"aurc,omitempty"`

	// OOD by set, under the temperatures for telling it, and OODNLL, under those for likelihood.
	OOD    map[string]detection `json:"ood,omitempty"`
	OODNLL map[string]detection `json:"ood_nll,omitempty"`
}

// A detection says how well one set is told.
type detection struct {
	Accuracy float64 `json:"accuracy"`
	AUROC    float64 `json:"auroc"`
	AUPRIn   float64 `json:"aupr_in"`
	AUPROut  float64 `json:"aupr_out"`
}

func figuresOf(m bench.MethodResult) figures {
	var f figures
	if in := m.InDomain; in != nil {
		f.Error, f.NLL, f.ECE = &in.Error, &in.NLL, &in.ECE
	}
	sets := func(results []bench.OODResult) map[string]detection {
		told := map[string]detection{}
		for _, r := range results {
			told[r.Name] = detectionOf(r.OOD)
		}
		return told
	}
	f.OOD, f.OODNLL = sets(m.OOD), sets(m.OODNLL)
	return f
}

func detectionOf(o metrics.OOD) detection {
	return detection{o.Accuracy, o.AUROC, o.AUPRIn, o.AUPROut}
}
