package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/compare"
	_ "github.com/mfgs/mfgs/featurize/dataset/arrow" // registers the formats that mfgs reads
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap/bench"
)

// compareBundle is the command compare.
func compareBundle(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg, asJSON, err := parseCompare(args, stdout)
	if err != nil {
		return err
	}
	e, err := compare.Evaluate(ctx, cfg)
	if err != nil {
		return err
	}
	for _, w := range e.Warnings {
		fmt.Fprintln(stderr, "mfgs-paper: warning:", text.Line(w))
	}
	if asJSON {
		j := json.NewEncoder(stdout)
		j.SetEscapeHTML(false)
		j.SetIndent("", "  ")
		return j.Encode(e)
	}
	_, err = io.WriteString(stdout, evaluationText(e))
	return err
}

func parseCompare(args []string, stdout io.Writer) (c compare.Config, asJSON bool, err error) {
	var ood, shifts, with []string
	var methods, draws, pixels string
	list := func(to *[]string) func(string) error {
		return func(s string) error { *to = append(*to, s); return nil }
	}
	c.Runtime.Install = true
	f := flag.NewFlagSet("mfgs-paper compare", flag.ContinueOnError)
	f.StringVar(&c.Bundle, "bundle", "", "`DIR` with the bundle (required)")
	f.StringVar(&c.Test, "test", "", "`SPEC` of labelled test data, as for mfgs eval (required)")
	f.Func("ood", "`NAME=SPEC` of out-of-distribution data; may be repeated", list(&ood))
	f.Func("shift", "`NAME=SPEC` of labelled data under shift; may be repeated", list(&shifts))
	f.StringVar(&methods, "methods", "", "methods `A,B,C` to evaluate, each NAME[:M][@COVARIANCE[/STRUCTURE]] (default "+strings.Join(bench.DefaultMethods(), ",")+"):\n"+describeMethods())
	f.StringVar(&c.Train, "train", "", "`SPEC` of training data (default that of the calibration)")
	f.StringVar(&c.Val, "val", "", "`SPEC` of validation data to tune on (default that of the calibration)")
	f.StringVar(&c.ValOOD, "val-ood", "", "`SPEC` of out-of-distribution data to tune on (default that of the calibration)")
	f.IntVar(&c.Layers, "layers", 0, "use the last `N` dense layers for mf0, mf1, mf2, ukf, mc and bnn-kfac (default 1)")
	f.Func("with", "`NAME=FILE` of another network for a method, or of a checkpoint for swag; may be repeated", list(&with))
	f.StringVar(&c.Evidence, "evidence", "", "`NAME` of the function from logits to evidence in edl: relu, softplus or exp (default from the file)")
	f.Float64Var(&c.DropoutRate, "dropout-rate", 0, "dropout probability `P` (default the network's own, otherwise tuned)")
	f.Uint64Var(&c.Seed, "seed", 0, "random seed `N`")
	f.StringVar(&draws, "draws", "", "`SEEDS` of the random draws, separated by commas (default --seed)")
	f.BoolVar(&c.PerClass, "per-class", false, "also report each class of the test data")
	f.IntVar(&c.Limit, "limit", 0, "use at most `N` examples of each test, OOD and shift set")
	f.StringVar(&c.Model, "model", "", "model `FILE`, for a bundle without one")
	f.StringVar(&pixels, "preprocess", "", "`FILE` with preprocessing (default the bundle's)")
	f.IntVar(&c.MaxBad, "max-bad", 0, "skip at most `N` unreadable records")
	f.StringVar(&c.Cache, "features-cache", "", "keep features in `DIR` between runs")
	f.IntVar(&c.Runtime.Batch, "batch", 0, "batch size `N`")
	f.IntVar(&c.Runtime.Threads, "threads", 0, "threads per inference `N`")
	f.StringVar(&c.Runtime.Provider, "provider", "", "execution provider `NAME`: "+strings.Join(ort.Providers(), ", "))
	f.BoolVar(&asJSON, "json", false, "print JSON, as mfgs eval does")
	if err := parseFlags(f, args, stdout, "--bundle DIR --test SPEC"); err != nil {
		return c, false, err
	}
	for name, value := range map[string]string{"bundle": c.Bundle, "test": c.Test} {
		if value == "" {
			return c, false, &usageError{"--" + name + " is required"}
		}
	}
	layers := false
	f.Visit(func(f *flag.Flag) { layers = layers || f.Name == "layers" })
	if layers && c.Layers < 1 {
		return c, false, &usageError{fmt.Sprintf("--layers is %d, want at least 1", c.Layers)}
	}
	if methods != "" {
		c.Methods = strings.Split(methods, ",")
	}
	read := func(flag string, err error) error {
		if err == nil {
			return nil
		}
		return &usageError{"--" + flag + ": " + err.Error()}
	}
	var oodErr, shiftErr, withErr, drawsErr error
	c.OOD, oodErr = bench.ParseNamedSpecs(ood)
	c.Shifts, shiftErr = bench.ParseNamedSpecs(shifts)
	c.With, withErr = parseWith(with)
	c.Draws, drawsErr = parseDraws(draws)
	err = cmp.Or(read("ood", oodErr), read("shift", shiftErr), read("with", withErr), read("draws", drawsErr),
		read("methods", compare.CheckMethods(c.Methods)))
	if err == nil && pixels != "" {
		c.Preprocess, err = readPreprocessing(pixels)
	}
	return c, asJSON, err
}

// describeMethods lists the values of --methods.
func describeMethods() string {
	var b strings.Builder
	for _, name := range compare.Methods() {
		fmt.Fprintf(&b, "%-20s %s\n", name, compare.DescribeMethod(name))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// parseWith parses NAME=FILE.
func parseWith(args []string) (map[string][]string, error) {
	with := map[string][]string{}
	for _, arg := range args {
		name, file, ok := strings.Cut(arg, "=")
		if !ok || name == "" || file == "" {
			return nil, fmt.Errorf("%s: want NAME=FILE", arg)
		}
		with[name] = append(with[name], file)
	}
	return with, nil
}

func parseDraws(list string) (seeds []uint64, err error) {
	if list == "" {
		return nil, nil
	}
	for s := range strings.SplitSeq(list, ",") {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("seed %q: want whole numbers from 0, separated by commas", s)
		}
		seeds = append(seeds, seed)
	}
	return seeds, nil
}

func readPreprocessing(path string) (*preprocess.Spec, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--preprocess: %w", err)
	}
	defer file.Close()
	s, err := preprocess.Load(file)
	if err != nil {
		return nil, fmt.Errorf("--preprocess %s: %w", path, err)
	}
	return &s, nil
}
