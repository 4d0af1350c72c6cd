package main

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/urfave/cli/v2"
)

// A setting is a flag for a field of a calibration's Config, which a job sets in YAML.
type setting struct {
	flag cli.Flag
	of   func(*calibration.Config) any // a pointer to the field
}

func (s *setting) name() string { return s.flag.Names()[0] }

// allSettings returns the settings of all headings. Flags hold the values of one run, so each run makes its own.
func allSettings() []setting {
	return slices.Concat(
		dataSettings(), outputSettings(), fitSettings(), decisionSettings(), headSettings(), runtimeSettings())
}

func dataSettings() []setting {
	return []setting{
		{&cli.StringFlag{Name: "model", Category: dataFlags, Usage: "`FILE|DIR` trained network: an ONNX file, or a folder written by save_pretrained or Optimum, with its preprocessing and class names"},
			func(c *calibration.Config) any { return &c.Model }},
		{&cli.StringFlag{Name: "train", Category: dataFlags, Usage: "`SPEC` data that the network was trained on; only the covariances fisher and sandwich need labels"},
			func(c *calibration.Config) any { return &c.Train }},
		{&cli.StringFlag{Name: "val", Category: dataFlags, Usage: "`SPEC` labelled validation data, not used in training"},
			func(c *calibration.Config) any { return &c.Val }},
		{&cli.StringFlag{Name: "ood", Category: dataFlags, Usage: "`SPEC` out-of-distribution data, used to choose the OOD score (labels are ignored); auto: make synthetic OOD images from the validation images, to report the scores and to fit learned, not to choose a score"},
			func(c *calibration.Config) any { return &c.OOD }},
		{&cli.StringFlag{Name: "expected", Category: dataFlags, Usage: "`SPEC` probabilities that the model should give for --val, an .npy [N,C], such as the exporting library's predict_proba: warn of others"},
			func(c *calibration.Config) any { return &c.Expected }},
		{&cli.IntFlag{Name: "limit", Category: dataFlags, Usage: "`N` use at most N training examples, subsampled evenly [all]"},
			func(c *calibration.Config) any { return &c.Limit }},
		{maxBadFlag(), func(c *calibration.Config) any { return &c.MaxBad }},
		{cacheFlag(), func(c *calibration.Config) any { return &c.Cache }},
	}
}

func outputSettings() []setting {
	return []setting{
		{&cli.StringFlag{Name: "out", Category: outputFlags, Usage: "`DIR` folder to write: the bundle, or with --shard the part"},
			func(c *calibration.Config) any { return &c.Out }},
		{keepCurvatureFlag(), func(c *calibration.Config) any { return &c.KeepCurvature }},
		{&cli.BoolFlag{Name: "no-model", Category: outputFlags, Usage: "leave the model out of the bundle; eval and predict then need --model"},
			func(c *calibration.Config) any { return &c.NoModel }},
		{&cli.BoolFlag{Name: "no-probe", Category: outputFlags, Usage: "store no validation inputs in the bundle, for confidential data; a server then cannot test the bundle when it loads it"},
			func(c *calibration.Config) any { return &c.NoProbe }},
	}
}

var (
	structures  = []calibrate.Structure{calibrate.Auto, calibrate.Full, calibrate.Kronecker}
	covariances = []calibrate.Covariance{calibrate.Hessian, calibrate.Fisher, calibrate.Sandwich}
)

func fitSettings() []setting {
	return []setting{
		{&cli.StringFlag{Name: "posterior", Category: fitFlags, Usage: "`FILE` posterior of another program over the last layer's weights, as safetensors: of laplace-torch, vbll, SNGP, or a covariance [computed from --train]"},
			func(c *calibration.Config) any { return &c.Posterior }},
		{choiceFlag("covariance", fitFlags, "`NAME` how the posterior covariance is computed: "+alternatives(covariances)+" [hessian]", "", covariances),
			func(c *calibration.Config) any { return &c.Covariance }},
		{choiceFlag("structure", fitFlags, "`NAME` structure of the curvature matrix: "+alternatives(structures)+" [auto: full if it is small, else Kronecker-factored]", "", structures),
			func(c *calibration.Config) any { return &c.Structure }},
		{&choice{&cli.StringFlag{Name: "ood-score", Category: fitFlags, Usage: "`NAME` OOD score to use: " + alternatives(score.Names()) + " [guarded_margin, unless another detects --ood significantly better]"},
			score.Names()},
			func(c *calibration.Config) any { return &c.OODScore }},
		{&cli.BoolFlag{Name: "keep-class", Category: fitFlags, Usage: "never change the predicted class: no matrix scaling, no mf0"},
			func(c *calibration.Config) any { return &c.KeepClass }},
		{&cli.StringFlag{Name: "damping", Category: fitFlags, Usage: "`RULE` added to the eigenvalues of the curvature: auto, chosen on the validation data; a number (1 in the paper); or rel:NUMBER, in units of the mean eigenvalue [auto]"},
			func(c *calibration.Config) any { return &c.Damping }},
	}
}

const decisionHeading = "abstention and prediction sets (thresholds use half of the validation data)"

func decisionSettings() []setting {
	return []setting{
		{&cli.Float64Flag{Name: "target-error", Category: decisionHeading, Usage: "`E` abstain so that at most this fraction of the answered inputs is wrong"},
			func(c *calibration.Config) any { return &c.Decisions.TargetError }},
		{&cli.Float64Flag{Name: "target-coverage", Category: decisionHeading, Usage: "`C` abstain so that at least this fraction of inputs is answered"},
			func(c *calibration.Config) any { return &c.Decisions.TargetCoverage }},
		{&cli.Float64Flag{Name: "false-alarm", Category: decisionHeading, Usage: "`F` flag at most this fraction of in-distribution inputs as OOD, and abstain on what is flagged"},
			func(c *calibration.Config) any { return &c.Decisions.FalseAlarm }},
		{&cli.Float64Flag{Name: "confidence", Category: decisionHeading, Usage: "`P` confidence level of these three guarantees [0.95]"},
			func(c *calibration.Config) any { return &c.Decisions.Confidence }},
		{&cli.Float64Flag{Name: "alpha", Category: decisionHeading, Usage: "`A` add prediction sets that miss the label for at most this fraction of inputs"},
			func(c *calibration.Config) any { return &c.Decisions.Alpha }},
		{choiceFlag("sets", decisionHeading, "`NAME` how prediction sets are built: "+alternatives(conformal.Scores)+" [lac: the smallest sets]", "", conformal.Scores),
			func(c *calibration.Config) any { return &c.Decisions.Sets }},
		{&cli.BoolFlag{Name: "class-conditional", Category: decisionHeading, Usage: "hold --alpha for each class, not only on average"},
			func(c *calibration.Config) any { return &c.Decisions.ClassConditional }},
	}
}

func headSettings() []setting {
	return []setting{
		{choiceFlag("head", headFlags, "`KIND` for a model without a linear last layer, such as a forest: what its output is, "+alternatives(head.Kinds[1:4])+" (none finds out), "+string(head.CTC)+" for a model that reads text, or "+string(head.Tags)+" for one that tags the steps of sequences", "", head.Kinds),
			func(c *calibration.Config) any { return &c.Head.Kind }},
		{&cli.StringFlag{Name: "fix", Category: headFlags, Usage: "`NAME=VALUE,…` make inputs of the model constants, such as a sample rate or a switch for training"},
			func(c *calibration.Config) any { return &c.Head.Fix }},
		{&cli.StringFlag{Name: "state", Category: headFlags, Usage: "`IN=OUT,…` inputs that hold the state of a network that runs over a stream, and the outputs that hold its next value: an example is then a sequence of steps, and its state begins at zero"},
			func(c *calibration.Config) any { return &c.Head.State }},
		{&cli.StringFlag{Name: "features", Category: headFlags, Usage: "`TENSOR` input of the last linear layer; with --head, what OOD scores may use"},
			func(c *calibration.Config) any { return &c.Head.Features }},
		{&cli.StringFlag{Name: "logits", Category: headFlags, Usage: "`TENSOR` output of the last linear layer; with --head, of probabilities or scores"},
			func(c *calibration.Config) any { return &c.Head.Logits }},
		{choiceFlag("link", headFlags, "`LINK` function from logits to probabilities: "+alternatives(layer.All), "", layer.All),
			func(c *calibration.Config) any { return &c.Head.Link }},
		{choiceFlag("approximate", headFlags, "`relu` accept a ReLU after the last layer; variances are then approximate", "",
			[]head.Approximation{head.IgnoreRelu}),
			func(c *calibration.Config) any { return &c.Head.Approximate }},
		{&cli.StringFlag{Name: "output", Category: headFlags, Usage: "`TENSOR` output to start from, if the model has several"},
			func(c *calibration.Config) any { return &c.Head.Output }},
	}
}

func runtimeSettings() []setting {
	return []setting{
		{batchFlag(), func(c *calibration.Config) any { return &c.Runtime.Batch }},
		{threadsFlag(runtimeFlags, "inference", allCPUs), func(c *calibration.Config) any { return &c.Runtime.Threads }},
		{providerFlag(), func(c *calibration.Config) any { return &c.Runtime.Provider }},
	}
}

// flagsOf are the flags of settings.
func flagsOf(list []setting) []cli.Flag {
	flags := make([]cli.Flag, len(list))
	for i, s := range list {
		flags[i] = s.flag
	}
	return flags
}

// readSettings sets the fields whose flags are given. A command may have only some of the flags.
func readSettings(c *cli.Context, config *calibration.Config) error {
	for _, s := range allSettings() {
		name := s.name()
		if !c.IsSet(name) {
			continue
		}
		field := s.of(config)
		if text, ok := field.(encoding.TextUnmarshaler); ok {
			if err := text.UnmarshalText([]byte(c.String(name))); err != nil {
				return usagef(c.Command.Name, "%v", err)
			}
			continue
		}
		switch v := reflect.ValueOf(field).Elem(); v.Kind() {
		case reflect.Bool:
			v.SetBool(c.Bool(name))
		case reflect.Int:
			if c.Int(name) < 0 {
				return usagef(c.Command.Name, "--%s %d is negative", name, c.Int(name))
			}
			v.SetInt(int64(c.Int(name)))
		case reflect.Float64:
			if c.Float64(name) == 0 {
				return usagef(c.Command.Name, "--%s 0: want a number between 0 and 1", name)
			}
			v.SetFloat(c.Float64(name))
		default:
			v.SetString(c.String(name))
		}
	}
	if err := config.Decisions.Validate(); err != nil {
		return usagef(c.Command.Name, "%v", err)
	}
	return nil
}

// jobFlag is --file, a calibration in YAML.
func jobFlag() cli.Flag {
	return &cli.StringFlag{Name: "file", Aliases: []string{"f"}, Category: dataFlags,
		Usage: "`FILE` settings in YAML, with the keys of bundle.yaml; or a bundle's bundle.yaml, to repeat its calibration. Flags override the file"}
}

// readJob reads --file and sets the flags that are not given.
func readJob(c *cli.Context) (*calibration.Job, error) {
	path := c.String("file")
	if path == "" {
		return new(calibration.Job), nil
	}
	j, err := calibration.ReadJob(path)
	if err != nil {
		if !exists(path) {
			err = fileError(path, err)
		}
		return nil, fmt.Errorf("--file %w", err)
	}
	config := &j.Config
	if v := config.Runtime.Provider; v != "" && !c.IsSet("provider") && !slices.Contains(ort.Providers(), v) {
		return nil, usagef(c.Command.Name, "--file %s: provider %q: want %s", path, v, alternatives(ort.Providers()))
	}
	// What the command line replaces need not match the job.
	for _, role := range []bundle.Role{bundle.Train, bundle.Val, bundle.OOD} {
		if c.IsSet(string(role)) || c.IsSet(string(role)+"-features") || c.IsSet("limit") {
			delete(config.Expect.Data, role)
		}
	}
	if c.IsSet("model") && config.Model != "" {
		config.Expect.Model = ""
	}
	words := map[string]string{"preprocess": j.Preprocess, "classes": j.Classes, "alphabet": j.Alphabet, "report": j.Report}
	if c.IsSet("dry-run") || c.IsSet("shard") { // they make no bundle to report on
		words["report"] = ""
	}
	for _, s := range allSettings() {
		name := s.name()
		if slices.Contains([]string{"train", "val", "ood"}, name) && config.PrecomputedFeatures && !c.IsSet("model") {
			name += "-features"
		}
		words[name] = wordOf(s.of(config))
	}
	for name, word := range words {
		if word == "" || c.IsSet(name) {
			continue
		}
		if err := c.Set(name, word); err != nil {
			return nil, fmt.Errorf("--file %s: %s: %w", path, name, err)
		}
	}
	return j, nil
}

// wordOf writes the value of a field as a flag takes it, "" for zero.
func wordOf(field any) string {
	v := reflect.ValueOf(field).Elem()
	if v.IsZero() {
		return ""
	}
	if v.Kind() == reflect.Float64 {
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}
