package wrap

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/files"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// write writes the bundle.
func write(cfg *Config, in *sources, f *calibrate.Fitted, r *Report, datasets []bundle.Dataset) error {
	m := bundle.Manifest{
		Tool:          "mfgs " + Version(),
		Head:          r.Head.Head,
		Probabilities: &f.Choice,
		Damping:       r.Damping,
		Temperatures: bundle.Temperatures{
			NLL:     bundle.Pair{Temperatures: f.NLL, TunedOn: "nll"},
			OOD:     bundle.Pair{Temperatures: f.OOD, TunedOn: "nll"},
			Optimum: &bundle.Pair{Temperatures: f.Optimum, TunedOn: "nll"},
			TS:      f.TS,
			TSOOD:   f.TSOOD,
		},
		MeanField: bundle.MeanField{
			Lambda0: f.Lambda0, MedianVariance: f.MedianVariance, MaxRatio: f.Ratio, MedianMargin: f.MedianMargin,
		},
		HeldOut:  r.HeldOut.HeldOut,
		Datasets: datasets,
		Warnings: r.Warnings,
		Labels:   in.classes,
		Grids:    &bundle.Grids{NLL: &f.NLLGrid},
	}
	if f.OODTuned {
		m.Temperatures.OOD.TunedOn = "ood"
		m.Grids.AUROC = &f.AUROCGrid
	}
	o := bundle.WriteOptions{Force: cfg.Force, Keep: cfg.keep()}
	if in.cut != nil {
		m.Model = &bundle.Model{SHA256: r.Model.SHA256, Producer: r.Model.Producer, Opset: r.Model.Opset}
		m.Batch = in.cut.Batch()
		m.Preprocess = r.Preprocess.Spec
		m.Bytes = r.Preprocess.Source == Assumed && m.Preprocess == nil
		if !cfg.NoModel {
			if err := addModel(&o, in.cut.Model); err != nil {
				return err
			}
		}
	}
	return bundle.Write(cfg.Out, bundle.Bundle{Manifest: m, Posterior: f.Posterior}, o)
}

// addModel has the bundle hold a model: a copy of its file or, where weights lie
// in others, what gathers them, in one file if they fit.
func addModel(o *bundle.WriteOptions, m *onnx.Model) error {
	if m.SelfContained() {
		o.Model = func(w io.Writer) error { return copyModel(w, m) }
		return nil
	}
	files, err := m.Files(bundle.ModelName)
	if err != nil {
		return fmt.Errorf("%w; leave the model out of the bundle with --no-model", err)
	}
	o.Model = files[0].Write
	if len(files) == 2 {
		o.ModelData = files[1].Write
	}
	return nil
}

// copyModel copies the file of a model that is one.
func copyModel(w io.Writer, m *onnx.Model) error {
	f, err := files.Open(m.Path())
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, h), f); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != m.SHA256() {
		return fmt.Errorf("%s changed while it was being calibrated", m.Path())
	}
	return nil
}
