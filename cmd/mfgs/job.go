package main

import (
	"fmt"
	"strconv"

	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/mfgs/mfgs/wrap/job"
	"github.com/urfave/cli/v2"
)

// jobFlag names a calibration that is written down.
func jobFlag() cli.Flag {
	return &cli.StringFlag{Name: "file", Aliases: []string{"f"}, Category: dataFlags,
		Usage: "`FILE` a calibration written down, in YAML with the keys of a bundle's bundle.yaml, or that file itself, to repeat it; flags go before what it says"}
}

// readJob reads --file, and sets the flags that are not given as it has them.
func readJob(c *cli.Context) (*job.Job, error) {
	path := c.String("file")
	if path == "" {
		return new(job.Job), nil
	}
	j, err := job.Read(path)
	if err != nil {
		if !exists(path) {
			err = fileError(path, err)
		}
		return nil, fmt.Errorf("--file %w", err)
	}
	// Of what the command line replaces, nothing is known.
	for _, role := range []bundle.Role{bundle.Train, bundle.Val, bundle.OOD} {
		if c.IsSet(string(role)) || c.IsSet(string(role)+"-features") || c.IsSet("limit") {
			delete(j.Known.Data, role)
		}
	}
	if c.IsSet("model") && j.Model != "" {
		j.Known.Model = ""
	}
	for name, value := range jobFlags(c, j) {
		if value == "" || c.IsSet(name) {
			continue
		}
		if err := c.Set(name, value); err != nil {
			return nil, fmt.Errorf("--file %s: %s: %w", path, name, err)
		}
	}
	return j, nil
}

// jobFlags are the flags that say what a job says; "" is none. Without a model its sets are ready-made.
func jobFlags(c *cli.Context, j *job.Job) map[string]string {
	suffix := ""
	if j.Model == "" && j.Known.Model == "" && !c.IsSet("model") {
		suffix = "-features"
	}
	count := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	part := func(v float64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	yes := func(b bool) string {
		if !b {
			return ""
		}
		return "true"
	}
	report := j.Report
	if c.IsSet("dry-run") || c.IsSet("shard") { // which make no bundle that one could be about
		report = ""
	}
	d := j.Decisions
	return map[string]string{
		"model": j.Model, "train" + suffix: j.Train, "val" + suffix: j.Val, "ood" + suffix: j.OOD,
		"features": j.Head.Features, "logits": j.Head.Logits, "output": j.Head.Output, "link": string(j.Head.Link),
		"approximate": string(j.Head.Approximate), "preprocess": j.Preprocess, "classes": j.Classes,
		"covariance": string(j.Covariance), "structure": string(j.Structure), "damping": j.Damping, "ood-score": j.OODScore,
		"limit": count(j.Limit), "max-bad": count(j.MaxBad), "batch": count(j.Batch), "threads": count(j.Threads),
		"provider": j.Provider, "features-cache": j.Cache, "out": j.Out, "report": report, "keep-curvature": yes(j.KeepCurvature),
		"no-model": yes(j.NoModel), "no-probe": yes(j.NoProbe),
		"target-error": part(d.TargetError), "target-coverage": part(d.TargetCoverage), "false-alarm": part(d.FalseAlarm),
		"confidence": part(d.Confidence), "alpha": part(d.Alpha), "sets": string(d.Sets),
		"class-conditional": yes(d.ClassConditional),
	}
}

// completeByJob gives a calibration what a job says that no flag does.
func completeByJob(config *calibration.Config, j *job.Job) (err error) {
	if config.Classes == nil {
		config.Classes = j.Labels
	}
	if config.Preprocess == nil {
		config.Preprocess = j.Spec
	}
	if config.Head == (head.Options{}) && config.Model != "" {
		config.Head, err = j.Locate(config.Model)
	}
	config.Lambda0, config.Known = j.Lambda0, j.Known
	return err
}
