package calibration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/external"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// A target says where a bundle is written, and has what the parts of a calibration do not.
type target struct {
	dir                 string
	bundle.WriteOptions // Curvature and Sample are set by write
	keepCurvature       bool
	model               *onnx.Info          // for the report; nil for precomputed features
	weights             weights             // of the last layer; nil without a model
	external            *external.Posterior // nil: it is computed from training data
	trained             []bundle.Dataset    // training data that the sums already had
	confirm             func() error        // called before writing, may refuse it; may be nil
	estimate            *bundle.PriorEstimate
}

// manifest describes a bundle, except for its figures.
func manifest(p *part.Part, to *target, f *calibrate.Fitted) *bundle.Manifest {
	m := &bundle.Manifest{
		Tool:          "mfgs " + wrap.Version(),
		Head:          p.Recipe.Head,
		Settings:      &p.Recipe.Settings,
		Probabilities: &f.Choice,
		Temperatures:  bundle.Temperatures{TS: f.TS, TSOOD: f.TSOOD, Smoothing: f.Smoothing},
		OODScore:      &bundle.OODScore{Selection: f.ScoreChoice},
		Labels:        p.Recipe.Classes,
		Columns:       p.Recipe.Columns,
	}
	if !f.Posterior.Head.Nonlinear {
		describePosterior(m, p, f)
	}
	m.PriorEstimate = to.estimate
	m.Datasets = slices.Clone(to.trained)
	for i := range p.Sets {
		m.Datasets = append(m.Datasets, describeSet(&p.Sets[i]))
	}
	if pre := p.Recipe.Preprocess; pre != nil {
		m.Model, m.Batch = p.Recipe.Model, p.Recipe.Batch
		m.Preprocess = pre.Spec
		m.Bytes = pre.Source == bundle.Assumed && pre.Spec == nil
	}
	return m
}

// describePosterior describes the posterior, and what was tuned with it.
func describePosterior(m *bundle.Manifest, p *part.Part, f *calibrate.Fitted) {
	m.Covariance, m.Structure, m.External = f.Posterior.Covariance, f.Posterior.Structure, p.Recipe.External
	if m.External == nil {
		rule := p.Recipe.Settings.Damping.String()
		m.Damping = bundle.Damping{Rule: rule, Epsilon: f.Posterior.Epsilon, Rho: f.Rho, Candidates: f.Candidates}
	}
	t := &m.Temperatures
	t.NLL, t.OOD = bundle.Pair{Temperatures: f.NLL, TunedOn: "nll"}, bundle.Pair{Temperatures: f.OOD, TunedOn: "nll"}
	t.Optimum = &bundle.Pair{Temperatures: f.Optimum, TunedOn: "nll"}
	m.MeanField = bundle.MeanField{Lambda0: f.Lambda0, MedianVariance: f.MedianVariance, MaxRatio: f.Ratio}
	m.Grids = &bundle.Grids{NLL: &f.NLLGrid}
	if f.OODTuned {
		t.OOD.TunedOn = "ood"
		m.Grids.AUROC = &f.AUROCGrid
	}
}

// write writes the bundle.
func write(p *part.Part, to *target, f *calibrate.Fitted, m *bundle.Manifest) error {
	o := to.WriteOptions
	if to.keepCurvature {
		o.Curvature = p.Sums.Encode
		if p.Sample != nil {
			o.Sample = p.Sample.Encode
		}
	}
	if to.confirm != nil {
		if err := to.confirm(); err != nil {
			return err
		}
	}
	return bundle.Write(to.dir, bundle.Bundle{Manifest: *m, Posterior: f.Posterior, Score: f.Score, Probe: p.Probe}, o)
}

// describeSet describes a dataset for the manifest.
func describeSet(s *part.Set) bundle.Dataset {
	d := bundle.Dataset{
		Role: s.Role, Spec: s.Spec, Fingerprint: s.Shards[0].Fingerprint,
		Count: s.Examples(), Ignored: s.Shards[0].Ignored, Bad: s.Bad(),
	}
	if s.Role != bundle.Train {
		d.Count = min(d.Count, source.MaxTuning)
	}
	if len(s.Shards) > 1 {
		for _, p := range s.Shards {
			d.Parts = append(d.Parts, bundle.DatasetPart{Shard: p.Shard, Fingerprint: p.Fingerprint})
		}
		d.Fingerprint = bundle.FingerprintOf(d.Parts)
	}
	return d
}

// modelFiles returns functions that write a model into a bundle or part: a copy of its file or, if it has weights
// in other files, one file with all of them, or a second one with the weights if one is too small. data is nil
// unless there is a second file.
func modelFiles(m *onnx.Model, log *journal) (model, data func(io.Writer) error, err error) {
	if m.SelfContained() {
		return func(w io.Writer) error { return copyModel(w, m, log) }, nil, nil
	}
	files, err := m.Files(bundle.ModelName)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; leave the model out of the bundle with %s", err, option.NoModel)
	}
	if len(files) == 2 {
		data = log.copying(files[1].Write, files[1].Size)
	}
	return log.copying(files[0].Write, files[0].Size), data, nil
}

// copyModel copies the file of a self-contained model.
func copyModel(w io.Writer, m *onnx.Model, log *journal) error {
	f, err := m.File()
	if err != nil {
		return err
	}
	defer f.Close()
	var size int64
	if info, err := os.Stat(m.Path()); err == nil {
		size = info.Size()
	}
	h := sha256.New()
	write := func(w io.Writer) error {
		_, err := io.Copy(io.MultiWriter(w, h), f)
		return err
	}
	if err := log.copying(write, size)(w); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != m.SHA256() {
		return fmt.Errorf("%s changed while it was being calibrated", m.Path())
	}
	return nil
}
