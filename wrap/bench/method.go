package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/parallel"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// method is a name of Config.Methods with what it is.
type method struct {
	name, doc string
	baseline  bool // see [score.Score]
}

// registry has the methods in the order of tables.
var registry = func() (all []method) {
	for _, m := range measure.Methods {
		all = append(all, method{m.Name, m.Doc, false})
	}
	all = append(all, method{measure.Served, "the OOD score that the bundle uses", false})
	for _, s := range score.All {
		if measure.IsScore(s.Name) {
			all = append(all, method{s.Name, s.Doc, s.Baseline})
		}
	}
	return all
}()

// Methods returns what Config.Methods may hold, beside scores that are baselines.
func Methods() (names []string) {
	for _, m := range registry {
		if !m.baseline {
			names = append(names, m.name)
		}
	}
	return names
}

func find(name string) int {
	return slices.IndexFunc(registry, func(m method) bool { return m.name == name })
}

// DescribeMethod describes a method of Methods in a few words.
func DescribeMethod(name string) string {
	return registry[find(name)].doc
}

// DefaultMethods are the methods if Config.Methods is nil, and matrix if the bundle has it. Those that need a linear
// layer are left out where there is none.
func DefaultMethods() []string { return []string{"mle", "ts", "mf0", measure.Served, "leverage"} }

// CheckMethods reports names that are not of Methods, or named twice.
func CheckMethods(names []string) error {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("method %q is listed twice", name)
		}
		if find(name) < 0 {
			return &UnknownMethodError{name}
		}
	}
	return nil
}

// UnknownMethodError is returned for a name that is not of Methods.
type UnknownMethodError struct{ Method string }

// Error names the method and the known ones.
func (e *UnknownMethodError) Error() string {
	return fmt.Sprintf("method %q is unknown, want some of %s", e.Method, strings.Join(Methods(), ", "))
}

// request is a name of Config.Methods.
type request struct {
	name       string
	taken      bool        // by the Comparators
	comparator *Comparator // nil for methods of Methods
}

// request adds requests for names of methods, and returns the names that the Comparators take.
func (b *bench) request(names []string) (taken []string, err error) {
	var own []string
	for _, name := range names {
		r := &request{name: name, taken: b.Comparators != nil && b.Comparators.Takes(name)}
		if r.taken {
			taken = append(taken, name)
		} else {
			own = append(own, name)
		}
		b.requests = append(b.requests, r)
	}
	return taken, CheckMethods(own)
}

// needsFitting reports whether the method is a score that is fitted to training data.
func (r *request) needsFitting() bool {
	s, is := score.Find(r.name)
	return is && s.NeedsFitting()
}

// bench is one run of Evaluate.
type bench struct {
	Config
	requests []*request
	notes    source.Notes
	warnings []string

	attached    *attach.Attached
	cut         *attach.Cut // nil for precomputed features
	manifest    *bundle.Manifest
	head        layer.Head
	calibration *calibrate.Calibration
	product     parallel.Product // nil: calibrate's own
	closers     []func() error

	sets    []*Set               // that are measured, the test set first
	opened  map[bundle.Role]*Set // for fitting and tuning
	fitted  []*score.Fitted      // fitted scores that the bundle does not serve
	decided []DecisionResult
	texts   []TextResult
	tags    []TagResult
	detail  *Detail
}

// suit drops default methods that need a linear layer where there is none, and refuses them if they were asked for.
func (b *bench) suit() error {
	var suited []*request
	for _, r := range b.requests {
		switch {
		case r.taken || measure.Suits(r.name, b.head):
			suited = append(suited, r)
		case len(b.Methods) > 0:
			needs := "a linear last layer, and the bundle was calibrated without one"
			switch s, is := score.Find(r.name); {
			case is && s.Correctness != b.head.Correctness:
				needs = "another kind of head: error_odds is for answers that are right or wrong, and their only score"
			case is && s.Suits(layer.Head{Nonlinear: true, Features: 1}):
				needs = "features, and the bundle was calibrated without any"
			}
			return fmt.Errorf("method %s needs %s: leave it out", r.name, needs)
		}
	}
	b.requests = suited
	return nil
}

// addMatrix adds matrix scaling to the default methods if the bundle has it.
func (b *bench) addMatrix() {
	if p := b.manifest.Probabilities; len(b.Methods) == 0 && p != nil && p.Matrix {
		after := slices.IndexFunc(b.requests, func(r *request) bool { return r.name == "ts" })
		b.requests = slices.Insert(b.requests, after+1, &request{name: "matrix"})
	}
}

// resolveScores replaces ood_score by the name of the score that the bundle serves.
func (b *bench) resolveScores() {
	served := b.calibration.Served().Name
	asked := func(list []*request, name string) bool {
		return slices.ContainsFunc(list, func(o *request) bool { return o.name == name })
	}
	var kept []*request
	for _, r := range b.requests {
		if r.name == measure.Served {
			if asked(b.requests, served) {
				continue
			}
			r = &request{name: served}
		}
		kept = append(kept, r)
	}
	if b.Detailed {
		for _, name := range []string{"mle", b.servedMethod(), served} {
			if !asked(kept, name) {
				at := len(kept)
				if name == "mle" { // the baseline
					at = 0
				}
				kept = slices.Insert(kept, at, &request{name: name})
			}
		}
	}
	b.requests = kept
}

// servedMethod is the method that gives the bundle's probabilities.
func (b *bench) servedMethod() string {
	return string(cmp.Or(b.calibration.Method, calibrate.MF0))
}

// checkPairwise refuses mf1 if it has too many classes to be exported.
func (b *bench) checkPairwise() error {
	pairwise := func(r *request) bool { return r.name == measure.Pairwise && !r.taken }
	k := b.head.Logits
	if b.head.Link == layer.Softmax && k > fuse.MaxMF1Classes && slices.ContainsFunc(b.requests, pairwise) {
		return fmt.Errorf("method %s: the bundle has %d classes, want at most %d: its cost grows with their square", measure.Pairwise, k, fuse.MaxMF1Classes)
	}
	return nil
}
