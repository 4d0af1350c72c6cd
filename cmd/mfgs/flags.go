package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/cmd/mfgs/internal/pretrained"
	"github.com/mfgs/mfgs/cmd/mfgs/internal/published"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/urfave/cli/v2"
)

// Headings of the help.
const (
	dataFlags    = "data"
	methodFlags  = "methods"
	fitFlags     = "method"
	headFlags    = "last layer, if it is not found automatically"
	outputFlags  = "output"
	runtimeFlags = "inference"
	productFlags = "matrix products"
)

// jsonFlag is --json, of every command with a result.
func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Category: outputFlags, Usage: "print one JSON document on standard output"}
}

func noInstallFlag() cli.Flag {
	return &cli.BoolFlag{Name: "no-install", Category: runtimeFlags,
		Usage: "never install ONNX Runtime [$" + install.EnvNoInstall + "]"}
}

func runtimePathFlag(category string) cli.Flag {
	return &cli.StringFlag{Name: "runtime", Category: category,
		Usage: "`PATH` ONNX Runtime library, or its folder [$" + install.EnvLibrary + ", else found or installed]"}
}

func threadsFlag(category, work, otherwise string) cli.Flag {
	return countFlag("threads", category, "`N` threads per "+work+" ["+otherwise+"]")
}

// A choice is a flag with a list of values, for completion.
type choice struct {
	*cli.StringFlag
	values []string
}

// choiceFlag is a choice that accepts only the listed values; value is the default.
func choiceFlag[S ~string](name, category, usage string, value S, values []S) cli.Flag {
	c := &choice{StringFlag: &cli.StringFlag{Name: name, Category: category, Usage: usage, Value: string(value)}}
	for _, v := range values {
		c.values = append(c.values, string(v))
	}
	c.Action = func(ctx *cli.Context, v string) error { return oneOf(ctx, name, c.values) }
	return c
}

// countFlag is a flag with a non-negative integer.
func countFlag(name, category, usage string) *cli.IntFlag {
	return &cli.IntFlag{Name: name, Category: category, Usage: usage,
		Action: func(c *cli.Context, _ int) error { return notNegative(c, name) }}
}

// allCPUs is the default of --threads.
const allCPUs = "number of CPUs"

// inferenceFlags configure how the network is run; threads is the default of --threads.
func inferenceFlags(threads string) []cli.Flag {
	return []cli.Flag{
		batchFlag(), threadsFlag(runtimeFlags, "inference", threads), providerFlag(), runtimePathFlag(runtimeFlags),
		noInstallFlag(),
	}
}

func batchFlag() cli.Flag {
	return countFlag("batch", runtimeFlags, "`N` examples per inference [from the shape of the model's input]")
}

func providerFlag() cli.Flag {
	return choiceFlag("provider", runtimeFlags, "`NAME` execution provider: "+alternatives(ort.Providers())+" [cpu]", "", ort.Providers())
}

// inference reads inferenceFlags.
func (p *program) inference(c *cli.Context, bar *progress) wrap.Runtime {
	r := library(c, bar)
	r.Provider, r.Threads, r.Batch = c.String("provider"), c.Int("threads"), c.Int("batch")
	return r
}

// library reads --runtime and --no-install.
func library(c *cli.Context, bar *progress) wrap.Runtime {
	return wrap.Runtime{Library: c.String("runtime"), Install: !c.Bool("no-install"), Installing: bar.install}
}

func keepCurvatureFlag() cli.Flag {
	return &cli.BoolFlag{Name: "keep-curvature", Category: outputFlags, Usage: "store the curvature sums of the training data in the bundle, for update and eval"}
}

func maxBadFlag() cli.Flag {
	return countFlag("max-bad", dataFlags,
		"`N` skip at most N unreadable records per dataset [0]")
}

// fileError returns an error of the file system with the path named once.
func fileError(path string, err error) error {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such file or folder", path)
	case errors.As(err, &pe):
		return fmt.Errorf("%s: %w", path, pe.Err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// pathKinds says what the path of a flag must be.
var pathKinds = map[string]string{
	"bundle":    "the folder that calibrate wrote",
	"model":     "the ONNX file of the network",
	"posterior": "the safetensors file of another program's posterior",
}

// checkPaths returns an error that names the flag if its path does not exist.
func checkPaths(c *cli.Context, names ...string) error {
	for _, name := range names {
		if path := c.String(name); path != "" {
			if err := checkPath(path, pathKinds[name]); err != nil {
				return fmt.Errorf("--%s %w", name, err)
			}
		}
	}
	return nil
}

// checkPath returns an error if a path does not exist; want says what it must be.
func checkPath(path, want string) error {
	_, err := os.Stat(path)
	if err == nil {
		return nil
	}
	if s, e := os.Lstat(path); e == nil && s.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s: broken link: give %s", path, want)
	}
	return fmt.Errorf("%w: give %s", fileError(path, err), want)
}

// maxSideFile bounds class names, preprocessing and other small files, in bytes.
const maxSideFile = 16 << 20

func readSideFile(path string) ([]byte, error) {
	data, err := files.Read(path, maxSideFile)
	if err != nil {
		return nil, fileError(path, err)
	}
	return data, nil
}

// readClasses reads class names in label order from a file; see pretrained.Classes.
func readClasses(path string) ([]string, error) {
	data, err := readSideFile(path)
	if err != nil {
		return nil, err
	}
	names, err := pretrained.Classes(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return names, nil
}

func readPrior(path string) (map[string]float64, error) {
	prior, err := calibration.ReadPrior(path)
	if err != nil && !exists(path) {
		err = fileError(path, err)
	}
	return prior, err
}

func bundleFlag() cli.Flag {
	return &cli.StringFlag{Name: "bundle", Category: dataFlags, Usage: "`DIR` bundle: the folder that calibrate wrote"}
}

func modelFlag() cli.Flag {
	return &cli.StringFlag{Name: "model", Category: dataFlags, Usage: "`FILE` the network, if the bundle does not contain it"}
}

// cacheFlag is the folder of the features cache.
func cacheFlag() cli.Flag {
	return &cli.StringFlag{Name: "features-cache", Category: dataFlags, Usage: "`DIR` cache of extracted features, reused while model, data and preprocessing are unchanged; an interrupted run continues from it"}
}

// preprocessFlag is --preprocess; otherwise describes the default.
func preprocessFlag(otherwise string) cli.Flag {
	usage := "`FILE|PRESET` how images become the model's input: a YAML file, transformers' preprocessor_config.json, timm's config.json, torchvision:WEIGHTS, or " + alternatives(preprocess.Presets) + " [" + otherwise + "]"
	return &choice{&cli.StringFlag{Name: "preprocess", Category: dataFlags, Usage: usage, TakesFile: true}, preprocess.Presets}
}

// bundlePreprocessing reads --preprocess for the model of a bundle, nil if it is not given.
func bundlePreprocessing(c *cli.Context) (*preprocess.Spec, error) {
	arg := c.String("preprocess")
	if arg == "" {
		return nil, nil
	}
	return readPreprocessing(arg, cmp.Or(c.String("model"), filepath.Join(c.String("bundle"), bundle.ModelName)))
}

// readPreprocessing reads the value of --preprocess: a preset, which is fitted to the model's input, torchvision
// weights, or a file.
func readPreprocessing(arg, model string) (*preprocess.Spec, error) {
	if name, ok := strings.CutPrefix(arg, published.TorchvisionPrefix); ok {
		s, err := published.Torchvision(name)
		if err != nil {
			return nil, fmt.Errorf("--preprocess %s: %w", arg, err)
		}
		return &s, nil
	}
	if slices.Contains(preprocess.Presets, arg) {
		m, err := onnx.Open(model)
		if err != nil {
			return nil, fmt.Errorf("--preprocess %s depends on the model: %w", arg, err)
		}
		inputs := pretrained.Targets(m)
		if len(inputs) != 1 {
			return nil, fmt.Errorf("--preprocess %s: presets are for models with one input, and %s has %d", arg, model, len(inputs))
		}
		s, err := preprocess.Preset(arg, inputs[0])
		return &s, err
	}
	s, err := pretrained.Preprocessing(arg)
	if errors.Is(err, fs.ErrNotExist) || err != nil && !exists(arg) {
		return nil, fmt.Errorf("--preprocess %s: no such file or preset: want a file, torchvision:WEIGHTS, or %s", arg, alternatives(preprocess.Presets))
	}
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// modelFolder reads the folder that --model names, nil if that is a file.
func modelFolder(model string) (*pretrained.Folder, error) {
	if s, err := os.Stat(model); model == "" || err != nil || !s.IsDir() {
		return nil, nil
	}
	return pretrained.Open(model)
}

// applyFolder fills in the preprocessing and class names of a folder where no flag gives them, and reports which.
func applyFolder(f *pretrained.Folder, config *calibration.Config, say func(string)) error {
	preprocessing, classes := false, config.Classes == nil
	if config.Preprocess == nil && (f.Preprocess != nil || f.Unusable != nil) {
		m, err := onnx.Open(f.Model)
		if err != nil {
			return err
		}
		if _, images := pretrained.Suggest(pretrained.Targets(m), nil); images {
			if f.Unusable != nil {
				return fmt.Errorf("%w; or give --preprocess", f.Unusable)
			}
			config.Preprocess, preprocessing = f.Preprocess, true
		}
	}
	if classes {
		config.Classes = f.Classes
	}
	for _, line := range f.Taken(preprocessing, classes) {
		say(f.Path + ": " + line)
	}
	return nil
}

// parseNames splits a,b,c; nil for "".
func parseNames(s string) []string {
	if s == "" {
		return nil
	}
	names := strings.Split(s, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
	}
	return names
}

// parseMethods is parseNames for methods, which it checks.
func parseMethods(s string) ([]string, error) {
	methods := parseNames(s)
	err := bench.CheckMethods(methods)
	if unknown := (*bench.UnknownMethodError)(nil); errors.As(err, &unknown) {
		err = fmt.Errorf("%w: for other methods see mfgs-paper compare", err)
	}
	return methods, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
