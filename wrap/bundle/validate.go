package bundle

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize/preprocess"
)

// What can be wrong with a bundle.
var (
	ErrMissing      = errors.New("the file is missing")
	ErrTooLarge     = errors.New("the file is too large")
	ErrSeal         = errors.New("the seal is broken")
	ErrYAML         = errors.New("the manifest is malformed")
	ErrVersion      = errors.New("the format is unknown")
	ErrUnknownField = errors.New("the manifest has an unknown field")
	ErrField        = errors.New("a field of the manifest is wrong")
	ErrNotFinite    = errors.New("a number is not finite")
	ErrHash         = errors.New("the file is damaged: its sha256 is not that of the manifest")
	ErrTensors      = errors.New("the posterior has other tensors than its structure asks for")
	ErrShape        = errors.New("a tensor has the wrong type or shape")
	ErrNegative     = errors.New("a variance is negative")
)

// Validate reports what a manifest says that cannot be, or leaves out.
func (m *Manifest) Validate() error {
	if m.Format < oldest || m.Format > Version {
		return fmt.Errorf("%w: format %d, want %d to %d", ErrVersion, m.Format, oldest, Version)
	}
	if err := finite(reflect.ValueOf(m), ""); err != nil {
		return err
	}
	var first error
	check := func(ok bool, format string, args ...any) {
		if !ok && first == nil {
			first = fmt.Errorf("%w: %s", ErrField, fmt.Sprintf(format, args...))
		}
	}
	wrap := func(field string, err error) {
		if err != nil {
			check(false, "%s: %v", field, err)
		}
	}
	hash := func(field, s string) {
		check(isHash(s), "%s is %.70q, want 64 hexadecimal digits in lower case", field, s)
	}
	file := func(field string, f *File, name string) {
		if f != nil {
			check(f.Name == name, "%s.name is %q, want %q", field, f.Name, name)
			hash(field+".sha256", f.SHA256)
		}
	}
	positive := func(field string, v float64) {
		check(v > 0, "%s is %v, want a positive number", field, v)
	}
	notNegative := func(field string, v float64) {
		check(v >= 0, "%s is %v, want at least 0", field, v)
	}
	count := func(field string, n, least int) {
		check(n >= least, "%s is %d, want at least %d", field, n, least)
	}
	grid := func(field string, g *calibrate.Grid) {
		if g == nil {
			return
		}
		check(len(g.Value) == len(g.Act), "%s.value has %d rows, want %d", field, len(g.Value), len(g.Act))
		for _, row := range g.Value {
			check(len(row) == len(g.Tau), "%s.value has a row of %d numbers, want %d", field, len(row), len(g.Tau))
		}
	}

	if m.Format == 1 {
		// Fields that format 2 added.
		check(m.Probabilities == nil, "probabilities is a field of format 2, and this is format 1")
		check(!m.Bytes, "bytes is a field of format 2, and this is format 1")
		check(m.HeldOut.MF0 == nil, "held_out.mf0 is a field of format 2, and this is format 1")
		check(m.Preprocess != nil, "preprocess is missing, and this is format 1")
		if p := m.Preprocess; p != nil {
			check(p.Pad == nil, "preprocess.pad is a field of format 2, and this is format 1")
		}
		if p := m.Preprocess; p != nil && p.Resize != nil {
			r := p.Resize
			check(r.Mode != preprocess.Fit && r.Mode != preprocess.Height, "preprocess.resize.mode %s is of format 2, and this is format 1", r.Mode)
		}
		check(m.MeanField.MedianMargin == 0, "mean_field.median_margin is a field of format 2, and this is format 1")
	} else {
		positive("mean_field.median_margin", m.MeanField.MedianMargin)
		if check(m.Probabilities != nil, "probabilities is missing"); m.Probabilities != nil {
			wrap("probabilities.method", m.Probabilities.Method.Validate())
			notNegative("probabilities.ts_needed", m.Probabilities.TSNeeded)
			notNegative("probabilities.mf0_needed", m.Probabilities.MF0Needed)
		}
	}

	check(!m.Bytes || m.Preprocess == nil, "bytes is for a bundle without preprocess")
	check(m.Tool != "", "tool is missing")
	if m.Model != nil {
		hash("model.sha256", m.Model.SHA256)
		file("model.file", m.Model.File, ModelName)
		file("model.data", m.Model.Data, ModelDataName)
		check(m.Model.Data == nil || m.Model.File != nil, "model.data is given without model.file, whose weights it has")
		check(m.Head.FeaturesTensor != "" && m.Head.LogitsTensor != "", "head.features and head.logits must name tensors of the model")
	}
	head := m.Head.Head
	wrap("head", head.Validate())
	check(m.Head.Approximation == "" || m.Head.Approximation == "relu", "head.approximation is %.70q, want relu or none", m.Head.Approximation)
	// Larger matrices than these do not fit into a file.
	check(m.Head.Features < 1<<24 && m.Head.Logits < 1<<24, "head has %d features and %d logits, want fewer than 2^24", m.Head.Features, m.Head.Logits)
	if n := len(m.Labels); n > 0 {
		check(n == head.Classes(), "labels has %d names for %d classes", n, head.Classes())
	}
	if m.Preprocess != nil {
		wrap("preprocess", m.Preprocess.Validate())
	}

	wrap("covariance", m.Covariance.Validate())
	check(m.Structure == calibrate.Full || m.Structure == calibrate.Kronecker, "structure is %q, want %s or %s", m.Structure, calibrate.Full, calibrate.Kronecker)
	check(m.Damping.Rule != "", "damping.rule is missing")
	_, err := calibrate.ParseDamping(m.Damping.Rule)
	wrap("damping.rule", err)
	positive("damping.epsilon", m.Damping.Epsilon)
	notNegative("damping.rho", m.Damping.Rho)
	for i, c := range m.Damping.Candidates {
		notNegative(fmt.Sprintf("damping.candidates[%d].rho", i), c.Rho)
	}

	// Wide enough for anything that tuning gives, and narrow enough for float64.
	within := func(field string, v, lo, hi float64) {
		check(v >= lo && v <= hi, "%s is %v, want %g to %g", field, v, lo, hi)
	}
	pair := func(field string, p Pair, tunedOn ...string) {
		within(field+".act", p.Act, 1e-6, 1e6)
		within(field+".ens", p.Ens, 1e-60, 1e60)
		check(slices.Contains(tunedOn, p.TunedOn), "%s.tuned_on is %q, want %s", field, p.TunedOn, strings.Join(tunedOn, " or "))
	}
	t := m.Temperatures
	pair("temperatures.nll", t.NLL, "nll")
	if t.Optimum != nil {
		pair("temperatures.optimum", *t.Optimum, "nll")
	}
	pair("temperatures.ood", t.OOD, "ood", "nll")
	within("temperatures.ts", t.TS, 1e-6, 1e6)
	if t.TSOOD != 0 {
		within("temperatures.ts_ood", t.TSOOD, 1e-6, 1e6)
	}
	within("mean_field.lambda0", m.MeanField.Lambda0, 1e-6, 1e6)
	positive("mean_field.median_variance", m.MeanField.MedianVariance)
	check(m.MeanField.MaxRatio >= 1, "mean_field.max_ratio is %v, want at least 1", m.MeanField.MaxRatio)

	figures := func(field string, f Figures) {
		count(field+".in_domain.examples", f.InDomain.N, 1)
		notNegative(field+".in_domain.nll", f.InDomain.NLL)
		if f.OOD != nil {
			count(field+".ood.examples", f.OOD.N, 2)
		}
		if f.OODNLL != nil {
			count(field+".ood_nll.examples", f.OODNLL.N, 2)
		}
	}
	figures("held_out.before", m.HeldOut.Before)
	figures("held_out.ts", m.HeldOut.TS)
	figures("held_out.after", m.HeldOut.After)
	if m.HeldOut.MF0 != nil {
		figures("held_out.mf0", *m.HeldOut.MF0)
	}

	roles := map[Role]int{Train: 0, Val: 0, OOD: 0}
	for i, d := range m.Datasets {
		field := fmt.Sprintf("datasets[%d]", i)
		_, known := roles[d.Role]
		check(known, "%s.role is %q, want %s, %s or %s", field, d.Role, Train, Val, OOD)
		roles[d.Role]++
		check(d.Spec != "", "%s.spec is missing", field)
		hash(field+".fingerprint", d.Fingerprint)
		count(field+".count", d.Count, 1)
		count(field+".ignored", d.Ignored, 0)
		count(field+".bad", d.Bad, 0)
	}
	check(roles[Train] > 0 && roles[Val] > 0, "datasets lacks one of the roles %s and %s", Train, Val)
	check(0 <= m.Batch && m.Batch <= MaxBatch, "batch is %d, want 0 to %d", m.Batch, MaxBatch)

	file("posterior", &m.Posterior, PosteriorName)
	file("curvature", m.Curvature, CurvatureName)
	if m.Grids != nil {
		grid("grids.nll", m.Grids.NLL)
		grid("grids.auroc", m.Grids.AUROC)
	}
	return first
}

// finite refuses a NaN or an infinity anywhere in v, and names its field.
func finite(v reflect.Value, field string) error {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%w: %s is %v", ErrNotFinite, field, f)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return finite(v.Elem(), field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := finite(v.Index(i), fmt.Sprintf("%s[%d]", field, i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			switch {
			case options == "inline":
				name = field
			case field != "":
				name = field + "." + name
			}
			if err := finite(v.Field(i), name); err != nil {
				return err
			}
		}
	}
	return nil
}

// tensor is one that a posterior has.
type tensor struct {
	name        string
	shape       []int
	data        *[]float64 // where it stands in the posterior
	optional    bool
	nonnegative bool
}

// elements is the number of elements, false if it overflows.
func (t tensor) elements() (int, bool) {
	n := 1
	for _, d := range t.shape {
		if n > math.MaxInt/8/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// tensors lists those of a posterior whose head and structure are set. It is
// the one place that knows them, for reading and for writing.
func tensors(p *calibrate.Posterior) []tensor {
	k, d := p.Head.Logits, p.Head.Dim()
	if p.Structure == calibrate.Full {
		return []tensor{
			{name: "blocks", shape: []int{k, d, d}, data: &p.Blocks},
			{name: "leverage", shape: []int{d, d}, data: &p.Leverage},
		}
	}
	return []tensor{
		{name: "Q_A", shape: []int{d, d}, data: &p.QA},
		{name: "lambda_A", shape: []int{d}, data: &p.LambdaA, nonnegative: true},
		{name: "Q_B", shape: []int{k, k}, data: &p.QB, optional: true},
		{name: "lambda_B", shape: []int{k}, data: &p.LambdaB, nonnegative: true},
		{name: "V", shape: []int{d, k}, data: &p.V, nonnegative: true},
		{name: "leverage", shape: []int{d}, data: &p.Leverage, nonnegative: true},
	}
}

// validatePosterior reports tensors of the wrong size and numbers that no
// covariance has. Head and structure have been validated.
func validatePosterior(p *calibrate.Posterior) error {
	for _, t := range tensors(p) {
		data := *t.data
		if t.optional && data == nil {
			continue
		}
		if n, ok := t.elements(); !ok || len(data) != n {
			return fmt.Errorf("tensor %s: %w: %d numbers, want shape %v", t.name, ErrShape, len(data), t.shape)
		}
		for i, v := range data {
			switch {
			case math.IsNaN(v) || math.IsInf(v, 0):
				return fmt.Errorf("tensor %s: %w: element %d is %v", t.name, ErrNotFinite, i, v)
			case v < 0 && (t.nonnegative || t.onDiagonal(i)):
				return fmt.Errorf("tensor %s: %w: element %d is %v", t.name, ErrNegative, i, v)
			}
		}
	}
	return nil
}

// onDiagonal reports whether element i of the full structure's symmetric
// matrices is the variance of a weight.
func (t tensor) onDiagonal(i int) bool {
	if t.name != "blocks" && t.name != "leverage" {
		return false
	}
	d := t.shape[len(t.shape)-1]
	return i%(d*d)%(d+1) == 0
}
