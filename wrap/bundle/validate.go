package bundle

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

// What can be wrong with a bundle.
var (
	ErrMissing      = errors.New("the file is missing")
	ErrTooLarge     = errors.New("the file is too large")
	ErrSeal         = folder.ErrSeal
	ErrYAML         = folder.ErrYAML
	ErrVersion      = errors.New("the format is unknown")
	ErrUnknownField = folder.ErrUnknownField
	ErrField        = errors.New("a field of the manifest is wrong")
	ErrNotFinite    = folder.ErrNotFinite
	ErrHash         = errors.New("the file is damaged: its sha256 does not match the manifest")
	ErrTensors      = errors.New("the tensors do not match the manifest")
	ErrShape        = errors.New("a tensor has the wrong type or shape")
	ErrNegative     = errors.New("a variance is negative")
)

// Validate reports the first field of a manifest that is wrong or missing.
func (m *Manifest) Validate() error {
	if m.Format < oldest || m.Format > Version {
		return fmt.Errorf("%w: format %d, want %d to %d", ErrVersion, m.Format, oldest, Version)
	}
	if err := folder.Finite(m); err != nil {
		return err
	}
	var c checks
	if m.Format == 1 {
		c.format1(m)
	} else {
		c.format2(m)
	}
	c.that(!m.Bytes || m.Preprocess == nil, "bytes must be left out with preprocess")
	c.that(m.Tool != "", "tool is missing")
	c.model(m)
	c.head(m)
	if m.Preprocess != nil {
		c.nested("preprocess", m.Preprocess.Validate())
	}
	c.settings(m)
	c.prior(m)
	c.posterior(m)
	c.temperatures(m)
	c.figures("held_out.before", &m.Validation.Before)
	c.figures("held_out.ts", &m.Validation.TS)
	c.figures("held_out.after", &m.Validation.After)
	if m.Validation.Matrix != nil {
		c.figures("held_out.matrix", m.Validation.Matrix)
	}
	if m.Validation.MF0 != nil {
		c.figures("held_out.mf0", m.Validation.MF0)
	}
	c.datasets(m)
	c.that(0 <= m.Batch && m.Batch <= MaxBatch, "batch is %d, want 0 to %d", m.Batch, MaxBatch)
	c.file("posterior", &m.Posterior, PosteriorName)
	c.file("curvature", m.Curvature, CurvatureName)
	c.file("sample", m.Sample, SampleName)
	c.that(m.Sample == nil || m.Curvature != nil, "sample needs curvature")
	c.file("probe", m.Probe, ProbeName)
	c.that(m.Probe == nil || m.Model != nil, "probe needs a model")
	if m.Grids != nil {
		c.grid("grids.nll", m.Grids.NLL)
		c.grid("grids.auroc", m.Grids.AUROC)
	}
	for key := range m.Extensions {
		c.that(strings.HasPrefix(key, extensionPrefix), "extension %.70q does not begin with %q", key, extensionPrefix)
	}
	return c.err
}

// checks keeps the first error of a manifest. Some methods check one section each, and the others are
// their building blocks. Errors name fields as bundle.yaml does.
type checks struct{ err error }

func (c *checks) that(ok bool, format string, args ...any) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrField, fmt.Sprintf(format, args...))
	}
}

// nested adds an error of another package's validation.
func (c *checks) nested(field string, err error) {
	c.that(err == nil, "%s: %v", field, option.Respell(err, option.Name.Key))
}

func (c *checks) hash(field, s string) {
	c.that(folder.IsHash(s), "%s is %.70q, want 64 hexadecimal digits in lower case", field, s)
}

func (c *checks) file(field string, f *File, name string) {
	if f != nil {
		c.that(f.Name == name, "%s.name is %q, want %q", field, f.Name, name)
		c.hash(field+".sha256", f.SHA256)
	}
}

func (c *checks) positive(field string, v float64) {
	c.that(v > 0, "%s is %v, want a positive number", field, v)
}

func (c *checks) notNegative(field string, v float64) {
	c.that(v >= 0, "%s is %v, want at least 0", field, v)
}

func (c *checks) within(field string, v, lo, hi float64) {
	c.that(v >= lo && v <= hi, "%s is %v, want %g to %g", field, v, lo, hi)
}

func (c *checks) count(field string, n, least int) {
	c.that(n >= least, "%s is %d, want at least %d", field, n, least)
}

// format1 refuses fields that format 2 added, and asks for what it made optional.
func (c *checks) format1(m *Manifest) {
	absent := func(ok bool, field string) { c.that(ok, "%s is a field of format 2, and this is format 1", field) }
	absent(m.Probabilities == nil, "probabilities")
	absent(!m.Bytes, "bytes")
	absent(m.Settings == nil, "settings")
	absent(m.Validation.Matrix == nil, "held_out.matrix")
	absent(m.Validation.MF0 == nil, "held_out.mf0")
	for _, f := range []Figures{m.Validation.Before, m.Validation.TS, m.Validation.After} {
		for _, o := range []*metrics.OOD{f.OOD, f.OODNLL} {
			absent(o == nil || o.FPR95OOD == 0, "held_out….fpr95_ood")
		}
	}
	absent(m.Sample == nil, "sample")
	absent(m.Probe == nil, "probe")
	c.that(m.Preprocess != nil, "preprocess is missing, and this is format 1")
	if p := m.Preprocess; p != nil {
		absent(p.Pad == nil, "preprocess.pad")
		absent(p.Exif == nil || !*p.Exif, "preprocess.exif")
		absent(p.Crop == nil || p.Crop.Round == "", "preprocess.crop.round")
		if r := p.Resize; r != nil {
			absent(r.Arithmetic == "", "preprocess.resize.arithmetic")
			c.that(r.Mode == "" || r.Mode == preprocess.Shortest || r.Mode == preprocess.Exact,
				"preprocess.resize.mode %s is of format 2, and this is format 1", r.Mode)
			c.that(r.Filter == "" || r.Filter == preprocess.Nearest || r.Filter == preprocess.Bilinear ||
				r.Filter == preprocess.Bicubic, "preprocess.resize.filter %s is of format 2, and this is format 1", r.Filter)
		}
	}
	absent(m.MeanField.MedianMargin == 0, "mean_field.median_margin")
	absent(m.OODScore == nil, "ood_score")
	absent(m.Decisions == nil, "decisions")
	absent(m.External == nil, "external_posterior")
	absent(m.Reference == nil, "reference")
	absent(m.ClassFrequencies == nil, "class_frequencies")
	absent(m.PriorEstimate == nil, "prior_estimate")
	absent(m.Scores == nil, "scores")
	for _, d := range m.Datasets {
		absent(d.Parts == nil, "datasets.parts")
	}
	absent(len(m.Extensions) == 0, extensionPrefix+"…")
}

// format2 asks for the fields that format 2 added.
func (c *checks) format2(m *Manifest) {
	c.oodScore(m)
	c.reference(m)
	if d := m.Decisions; d != nil {
		c.nested("decisions", d.Check(m.Head.Head))
		tuned := m.Validation.After.N // one half; the other sets thresholds
		c.that(d.InUse == m.HasPrior(), "decisions.in_use is %t, and class frequencies in use are there: %t", d.InUse, m.HasPrior())
		c.that(d.InUse || d.Examples == tuned || d.Examples == tuned-1,
			"decisions: examples is %d, want the other half of the validation data: held_out has %d", d.Examples, tuned)
	}
	c.that(m.Probabilities != nil, "probabilities is missing")
	if p := m.Probabilities; p != nil {
		c.nested("probabilities.method", p.Method.Validate())
		c.notNegative("probabilities.ts_needed", p.TSNeeded)
		c.notNegative("probabilities.matrix_needed", p.MatrixNeeded)
		c.notNegative("probabilities.mf0_needed", p.MF0Needed)
		c.that(p.NoPosterior == m.Head.Nonlinear && (!p.NoPosterior || p.Method != calibrate.MF0),
			"probabilities.method is %s and no_posterior is %t, and head.nonlinear is %t", p.Method, p.NoPosterior, m.Head.Nonlinear)
		simple := p.Method == calibrate.MLE || p.Method == calibrate.TS
		c.that(!simple || !p.Matrix, "probabilities.method is %s, want matrix or mf0 in a bundle with matrix scaling", p.Method)
		c.that(p.Method != calibrate.Matrix || p.Matrix, "probabilities.method is matrix, and matrix is missing")
		keep := p.KeepClass || m.Settings != nil && m.Settings.KeepClass
		c.that(simple || !keep, "probabilities.method is %s, and keep_class allows only ts and mle", p.Method)
	}
}

func (c *checks) model(m *Manifest) {
	if m.Model == nil {
		return
	}
	c.hash("model.sha256", m.Model.SHA256)
	c.file("model.file", m.Model.File, ModelName)
	c.file("model.data", m.Model.Data, ModelDataName)
	c.that(m.Model.Data == nil || m.Model.File != nil, "model.data needs model.file")
	named := m.Head.FeaturesTensor != "" || m.Head.Nonlinear && m.Head.Features == 0
	c.that(named && m.Head.LogitsTensor != "",
		"head.features and head.logits must name tensors of the model")
}

func (c *checks) head(m *Manifest) {
	h := &m.Head
	c.nested("head", h.Validate())
	c.nested("head.kind", h.Kind.Validate())
	c.that(h.Fix == "" || m.Model != nil, "head.fix needs a model")
	c.that(h.State == "" || m.Model != nil && h.Steps == 1, "head.state needs a model, and head.steps 1")
	c.that(h.Kind != head.None && (h.Nonlinear && m.Model != nil) == (h.Kind != head.Linear),
		"head.kind is %.70q, want what the logits are of without a linear layer, and only there", string(h.Kind))
	c.that(h.Kind.Decodes() == (h.Decoding != nil) && h.Correctness == (h.Decoding != nil),
		"head.kind is %.70q and head.correctness %t with a decoding: %t, want a decoding of text, which is right or wrong, for ctc alone",
		string(h.Kind), h.Correctness, h.Decoding != nil)
	if h.Decoding != nil {
		c.nested("head", h.Decoding.Validate())
		c.that(h.Decoding.Tags() == (h.Kind == head.Tags), "head.decoding has the blank %d, and head.kind is %s", h.Decoding.Blank, h.Kind)
	}
	c.that(h.Steps == 0 || h.Steps > 0 && h.Steps <= head.MaxSteps && !h.Nonlinear && !h.MultiLabel() && m.Model != nil,
		"head.steps is %d, want 0 to %d, and 0 without a linear layer of a model and for labels that do not exclude each other", h.Steps, head.MaxSteps)
	c.that(!h.Nonlinear || m.Curvature == nil, "curvature needs a linear layer")
	c.that(h.Approximation == "" || h.Approximation == head.IgnoreRelu, "head.approximation is %.70q, want relu or none", h.Approximation)
	// Larger matrices do not fit into a file.
	c.that(h.Features < 1<<24 && h.Logits < 1<<24, "head has %d features and %d logits, want fewer than 2^24", h.Features, h.Logits)
	if n := len(m.Labels); n > 0 {
		c.that(n == h.Classes(), "labels has %d names for %d classes", n, h.Classes())
	}
	c.that(!slices.Contains(m.Columns, ""), "columns has an empty name")
}

func (c *checks) posterior(m *Manifest) {
	if m.Head.Nonlinear {
		c.that(m.Covariance == "" && m.Structure == "" && reflect.ValueOf(m.Damping).IsZero() && m.External == nil &&
			m.MeanField == MeanField{},
			"covariance, structure, damping, external_posterior and mean_field are of a posterior, and the head is nonlinear")
		return
	}
	c.within("mean_field.lambda0", m.MeanField.Lambda0, 1e-6, 1e6)
	c.positive("mean_field.median_variance", m.MeanField.MedianVariance)
	c.that(m.MeanField.MaxRatio >= 1, "mean_field.max_ratio is %v, want at least 1", m.MeanField.MaxRatio)
	c.nested("covariance", m.Covariance.Validate())
	c.that(m.Structure == calibrate.Full || m.Structure == calibrate.Kronecker,
		"structure is %q, want %s or %s", m.Structure, calibrate.Full, calibrate.Kronecker)
	c.that((m.External != nil) == m.isExternal(), "covariance is %s, and external_posterior is there: %t", m.Covariance, m.External != nil)
	if m.External != nil {
		c.that(m.External.File != "" && m.External.Form != "", "external_posterior.file or form is missing")
		c.hash("external_posterior.sha256", m.External.SHA256)
		c.that(reflect.ValueOf(m.Damping).IsZero(), "damping is of a posterior that is computed from training data, and there is external_posterior")
		c.that(m.Curvature == nil, "curvature is of a posterior that is computed from training data, and there is external_posterior")
		return
	}
	c.that(m.Damping.Rule != "", "damping.rule is missing")
	_, err := calibrate.ParseDamping(m.Damping.Rule)
	c.nested("damping.rule", err)
	c.positive("damping.epsilon", m.Damping.Epsilon)
	c.notNegative("damping.rho", m.Damping.Rho)
	for i, candidate := range m.Damping.Candidates {
		c.notNegative(fmt.Sprintf("damping.candidates[%d].rho", i), candidate.Rho)
	}
}

// isExternal reports whether another program computed the posterior.
func (m *Manifest) isExternal() bool { return m.Covariance == calibrate.External }

// Temperatures T_act and T_ens lie between the inverses of these and themselves.
const (
	MaxAct = 1e6
	MaxEns = 1e60
)

// temperatures has bounds wide enough for any result of tuning, and narrow enough for float64.
func (c *checks) temperatures(m *Manifest) {
	t := &m.Temperatures
	pair := func(field string, p Pair, tunedOn ...string) {
		c.within(field+".act", p.Act, 1/MaxAct, MaxAct)
		c.within(field+".ens", p.Ens, 1/MaxEns, MaxEns)
		c.that(slices.Contains(tunedOn, p.TunedOn), "%s.tuned_on is %q, want %s", field, p.TunedOn, strings.Join(tunedOn, " or "))
	}
	c.within("temperatures.ts", t.TS, 1e-6, 1e6)
	c.within("temperatures.smoothing", t.Smoothing, 0, layer.MaxSmoothing)
	c.that(t.Smoothing == 0 || m.Head.Nonlinear && m.Head.Link == layer.Softmax,
		"temperatures.smoothing is for a nonlinear head with the link softmax")
	if m.Head.Nonlinear {
		c.that(t.NLL == Pair{} && t.OOD == Pair{} && t.Optimum == nil, "temperatures has those of mf0, and the head is nonlinear")
	} else {
		pair("temperatures.nll", t.NLL, "nll")
		if t.Optimum != nil {
			pair("temperatures.optimum", *t.Optimum, "nll")
		}
		pair("temperatures.ood", t.OOD, "ood", "nll")
	}
	if t.TSOOD != 0 {
		c.within("temperatures.ts_ood", t.TSOOD, 1e-6, 1e6)
	}
}

func (c *checks) figures(field string, f *Figures) {
	c.count(field+".in_domain.examples", f.N, 1)
	c.notNegative(field+".in_domain.nll", f.NLL)
	if f.OOD != nil {
		c.count(field+".ood.examples", f.OOD.N, 2)
	}
	if f.OODNLL != nil {
		c.count(field+".ood_nll.examples", f.OODNLL.N, 2)
	}
}

func (c *checks) datasets(m *Manifest) {
	all := m.Datasets
	roles := map[Role]int{Train: 0, Val: 0, OOD: 0, SyntheticOOD: 0}
	for i, d := range all {
		field := fmt.Sprintf("datasets[%d]", i)
		_, known := roles[d.Role]
		c.that(known, "%s.role is %q, want %s, %s, %s or %s", field, d.Role, Train, Val, OOD, SyntheticOOD)
		roles[d.Role]++
		c.that(d.Spec != "", "%s.spec is missing", field)
		c.hash(field+".fingerprint", d.Fingerprint)
		c.count(field+".count", d.Count, 1)
		c.count(field+".ignored", d.Ignored, 0)
		c.count(field+".bad", d.Bad, 0)
		for j, p := range d.Parts {
			c.that(p.Shard == rows.Shard{Index: j + 1, Count: len(d.Parts)} && len(d.Parts) > 1,
				"%s.parts[%d].shard is %s, want %d/%d, of at least 2", field, j, p.Shard, j+1, len(d.Parts))
			c.hash(fmt.Sprintf("%s.parts[%d].fingerprint", field, j), p.Fingerprint)
		}
		c.that(len(d.Parts) == 0 || d.Fingerprint == FingerprintOf(d.Parts), "%s.fingerprint does not match its parts", field)
	}
	trained := !m.Head.Nonlinear || m.Head.Features > 0
	c.that((roles[Train] > 0) == trained && roles[Val] > 0,
		"datasets needs the roles %s and %s, and without a linear layer or features not %[1]s", Train, Val)
}

func (c *checks) grid(field string, g *calibrate.Grid) {
	if g == nil {
		return
	}
	c.that(len(g.Value) == len(g.Act), "%s.value has %d rows, want %d", field, len(g.Value), len(g.Act))
	for _, row := range g.Value {
		c.that(len(row) == len(g.Tau), "%s.value has a row of %d numbers, want %d", field, len(row), len(g.Tau))
	}
}

// posteriorTensor is one of the tensors of a posterior.
type posteriorTensor struct {
	name        string
	shape       []int
	data        *[]float64 // its field of the posterior
	optional    bool
	nonnegative bool
}

// elements is the number of elements, false if it overflows.
func (t posteriorTensor) elements() (int, bool) {
	n := 1
	for _, d := range t.shape {
		if n > math.MaxInt/8/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// tensors lists the tensors of a posterior whose head and structure are set, for reading and writing.
func tensors(p *calibrate.Posterior) []posteriorTensor {
	k, d := p.Head.Logits, p.Head.Dim()
	list := affineTensors(p)
	if p.Head.Nonlinear {
		return list
	}
	if p.Structure == calibrate.Full {
		return append(list,
			posteriorTensor{name: "blocks", shape: []int{k, d, d}, data: &p.Blocks},
			posteriorTensor{name: "leverage", shape: []int{d, d}, data: &p.Leverage},
		)
	}
	if p.Covariance == calibrate.External {
		return append(list,
			posteriorTensor{name: "Q_A", shape: []int{d, d}, data: &p.QA},
			posteriorTensor{name: "V", shape: []int{d, k}, data: &p.V, nonnegative: true},
			posteriorTensor{name: "leverage", shape: []int{d, d}, data: &p.Leverage},
		)
	}
	return append(list, []posteriorTensor{
		{name: "Q_A", shape: []int{d, d}, data: &p.QA},
		{name: "lambda_A", shape: []int{d}, data: &p.LambdaA, nonnegative: true},
		{name: "Q_B", shape: []int{k, k}, data: &p.QB, optional: true},
		{name: "lambda_B", shape: []int{k}, data: &p.LambdaB, nonnegative: true},
		{name: "V", shape: []int{d, k}, data: &p.V, nonnegative: true},
		{name: "leverage", shape: []int{d}, data: &p.Leverage, nonnegative: true},
	}...)
}

// affineTensors lists the tensors of matrix scaling, where the posterior has it.
func affineTensors(p *calibrate.Posterior) []posteriorTensor {
	f, k, r := p.Affine, p.Head.Logits, p.Head.AffineRank()
	if f == nil {
		return nil
	}
	list := []posteriorTensor{
		{name: "matrix_scale", shape: []int{k}, data: &f.Scale},
		{name: "matrix_offset", shape: []int{k}, data: &f.Offset},
	}
	if r > 0 {
		list = append(list, posteriorTensor{name: "matrix_left", shape: []int{k, r}, data: &f.Left},
			posteriorTensor{name: "matrix_right", shape: []int{r, k}, data: &f.Right})
	}
	return list
}

// validatePosterior reports tensors of the wrong size, and numbers that no covariance has. Head and structure
// must be valid.
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

// onDiagonal reports whether element i of the full structure's symmetric matrices is the variance of a weight.
func (t posteriorTensor) onDiagonal(i int) bool {
	if t.name != "blocks" && t.name != "leverage" {
		return false
	}
	d := t.shape[len(t.shape)-1]
	return i%(d*d)%(d+1) == 0
}

// settings checks that recorded settings do not contradict their results.
func (c *checks) settings(m *Manifest) {
	s := m.Settings
	if s == nil {
		return
	}
	c.nested("settings", s.Validate())
	c.that(s.Covariance == m.Covariance, "settings.covariance is %s, and covariance is %s", s.Covariance, m.Covariance)
	c.that((s.Head.Kind != head.Linear) == m.Head.Nonlinear, "settings.head.kind is %q, and head.nonlinear is %t", s.Head.Kind, m.Head.Nonlinear)
	c.that(!m.Head.Nonlinear || s.Head.Kind == head.None || s.Head.Kind == m.Head.Kind,
		"settings.head.kind is %s, and head.kind is %s", s.Head.Kind, m.Head.Kind)
	c.that(s.Structure == "" || s.Structure == calibrate.Auto || s.Structure == m.Structure,
		"settings.structure is %s, and structure is %s", s.Structure, m.Structure)
	c.that(m.Head.Nonlinear || m.isExternal() || s.Damping.String() == m.Damping.Rule, "settings.damping is %s, and damping.rule is %s", s.Damping, m.Damping.Rule)
	c.that(s.Lambda0 == m.MeanField.Lambda0, "settings.lambda0 is %v, and mean_field.lambda0 is %v", s.Lambda0, m.MeanField.Lambda0)
	c.that(s.OODScore == "" || m.OODScore != nil && s.OODScore == m.OODScore.Name,
		"settings.ood_score is %s, and ood_score.name is not", s.OODScore)
	// One number is that of a softmax of two logits or of a sigmoid of one, by its kind.
	single := m.Head.Nonlinear && m.Head.Classes() == 2
	c.that(s.Head.Link == "" || s.Head.Link == m.Head.Link || single, "settings.head.link is %s, and head.link is %s", s.Head.Link, m.Head.Link)
	var plan conformal.Plan
	if m.Decisions != nil {
		plan = m.Decisions.Plan
	}
	c.that(s.Decisions == plan, "settings.decisions does not match decisions")
}

// prior checks class_frequencies, and that class frequencies in use can be resolved.
func (c *checks) prior(m *Manifest) {
	if f := m.ClassFrequencies; f != nil {
		c.that(!m.Head.MultiLabel(), "class_frequencies is for classes that exclude each other, and the head is multi-label")
		c.frequencies("class_frequencies", f, m.Head.Classes(), 1e-15)
	}
	if e := m.PriorEstimate; e != nil {
		c.that(e.Spec != "", "prior_estimate.spec is missing")
		c.that(e.Significant, "prior_estimate.significant is false, want true")
		c.that(m.Settings == nil || m.Settings.Prior == nil, "settings.prior and prior_estimate exclude each other")
		c.frequencies("prior_estimate.frequencies", e.Frequencies, m.Head.Classes(), 0)
		c.frequencies("prior_estimate.low", e.Low, m.Head.Classes(), 0)
		c.frequencies("prior_estimate.high", e.High, m.Head.Classes(), 0)
	}
	if !m.HasPrior() {
		return
	}
	c.that(m.ClassFrequencies != nil, "class frequencies in use need class_frequencies")
	c.that(m.Probabilities != nil && m.Probabilities.Method != calibrate.MLE, "probabilities.method is mle, and class frequencies in use correct only the other methods")
	if c.err == nil {
		_, err := m.ResolvePrior()
		c.nested("settings", err)
	}
}

// frequencies checks class frequencies.
func (c *checks) frequencies(field string, f []float64, classes int, least float64) {
	c.that(len(f) == classes, "%s has %d numbers for %d classes", field, len(f), classes)
	for _, v := range f {
		c.that(v >= least && v <= 1, "%s has %v, want %g to 1", field, v, least)
	}
}
