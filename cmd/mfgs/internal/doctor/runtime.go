package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

const setup = "mfgs setup"

// library finds ONNX Runtime as every command does, without installing it, and runs a small model.
func (c Config) library(ctx context.Context) Check {
	const name = "ONNX Runtime"
	lib, err := install.Find(install.Config{Flag: c.Library})
	if err == nil {
		err = ort.Load(lib)
	}
	if loaded, ok := ort.Loaded(); ok && err == nil {
		lib.Version = loaded.Version
		err = try(ctx, ort.CPU)
	}
	if err == nil {
		return Check{name, OK, fmt.Sprintf("%s at %s, found by %s, runs a test model", lib.Version, lib.Path, lib.Source), ""}
	}
	var missing *install.NotFoundError
	if errors.As(err, &missing) {
		found := "version " + install.MinVersion + " or newer not found"
		if len(missing.Passed) > 0 {
			found += "; rejected: " + strings.Join(missing.Passed, "; ")
		}
		return Check{name, Fail, found, without(install.EnvNoInstall) + setup}
	}
	found, source := err.Error(), lib.Source
	if wrong := (*install.LibraryError)(nil); errors.As(err, &wrong) {
		found, source = fmt.Sprintf("%s, found by %s: %s", wrong.Path, wrong.Source, wrong.Reason), wrong.Source
	}
	fix := without(install.EnvNoInstall) + setup + " --force"
	switch source {
	case install.SourceFlag:
		fix = setup
	case install.SourceEnvironment:
		fix = without(install.EnvLibrary) + setup
	case install.SourceExecutable: // found before an installed one
		fix = fmt.Sprintf("mv %s %s && %s", quoted(lib.Path), quoted(lib.Path+".old"), setup)
	}
	return Check{name, Fail, found, fix}
}

// without returns the beginning of a command line that unsets a variable, "" if it is not set.
func without(variable string) string {
	switch {
	case os.Getenv(variable) == "":
		return ""
	case runtime.GOOS == "windows":
		return "Remove-Item Env:" + variable + "; "
	}
	return "unset " + variable + "; "
}

// quoted quotes a path for shells.
func quoted(path string) string {
	if !strings.ContainsAny(path, " \t\"'`$&|;<>()*?[]#~!{}") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// try runs a small model on zeros.
func try(ctx context.Context, provider string) error {
	graph, err := fs.ReadFile(models.DigitsMLP(), models.DigitsModel)
	if err != nil {
		return err
	}
	s, err := ort.NewSession(ort.SessionConfig{Graph: graph, Provider: provider, Threads: 1})
	if err != nil {
		return err
	}
	defer s.Close()
	in := s.Inputs()[0]
	zeros := tensor.Tensor{Name: in.Name}
	for _, d := range in.Shape {
		zeros.Shape = append(zeros.Shape, max(d, 1))
	}
	n, err := tensor.Elements(zeros.Shape)
	if err != nil {
		return err
	}
	zeros.Data = make([]float32, n)
	outputs, err := s.Run(ctx, []tensor.Tensor{zeros})
	if err != nil {
		return err
	}
	for _, v := range outputs[0].Data.([]float32) {
		if v := float64(v); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("provider %s: a test model returns %v, want finite numbers", provider, v)
		}
	}
	return nil
}

// providers checks which providers can run a model here. Only the requested one must.
func (c Config) providers(ctx context.Context) Check {
	const name = "providers"
	if _, ok := ort.Loaded(); !ok {
		return Check{name, Warn, "not tested without ONNX Runtime", setup}
	}
	var have []string
	var refused error
	for _, p := range ort.Providers() {
		if err := try(ctx, p); err == nil {
			have = append(have, p)
		} else if p == c.Provider {
			refused = err
		}
	}
	if refused == nil {
		return Check{name, OK, strings.Join(have, ", "), ""}
	}
	if e := (*ort.ProviderError)(nil); errors.As(refused, &e) {
		refused = e.Err
	}
	return Check{name, Fail, fmt.Sprintf("no %s (%v), but %s", c.Provider, refused, strings.Join(have, ", ")), providerFix(c.Provider)}
}

func providerFix(provider string) string {
	mac, windows := runtime.GOOS == "darwin", runtime.GOOS == "windows"
	switch {
	case provider == ort.CoreML && mac:
		return setup + " --force"
	case ort.PythonPackage(provider) == "" || mac || provider == ort.DirectML && !windows:
		return "mfgs doctor --provider " + ort.CPU
	}
	python := "python3"
	if windows {
		python = "python"
	}
	return fmt.Sprintf(`%s -m pip install %s && mfgs doctor --provider %s --runtime "$(%s -c 'import onnxruntime; print(*onnxruntime.__path__)')/capi"`,
		python, ort.PythonPackage(provider), provider, python)
}

// bundle opens a bundle and probes it.
func (c Config) bundle(ctx context.Context) Check {
	const name = "bundle"
	lib, ok := ort.Loaded()
	if !ok {
		return Check{name, Warn, c.Bundle + ": not tested without ONNX Runtime", setup}
	}
	p, err := wrap.Open(ctx, c.Bundle, wrap.Options{Model: c.Model,
		Runtime: wrap.Runtime{Library: lib.Path, Provider: c.Provider}})
	if err == nil {
		defer p.Close()
		err = p.Probe(ctx)
	}
	again := fmt.Sprintf("mfgs calibrate --file %s --out NEW", quoted(filepath.Join(c.Bundle, bundle.ManifestName)))
	switch {
	case err == nil:
		return Check{name, OK, c.Bundle + " passes its self-test", ""}
	case errors.Is(err, wrap.ErrNoProbe):
		return Check{name, Warn, fmt.Sprintf("%s opens; %v", c.Bundle, err), again}
	}
	return Check{name, Fail, fmt.Sprintf("%s: %v", c.Bundle, err), again}
}
