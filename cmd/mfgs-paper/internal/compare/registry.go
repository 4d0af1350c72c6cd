package compare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/onnxlayers"
	"github.com/mfgs/mfgs/wrap/bench"
)

// registry has the methods in the order of tables: those of a bundle (mf0 with any covariance, mf1 tuned by
// itself), then the comparators.
var registry = slices.Concat(ofBundle(), []*method{
	mf1, mf2, ukf, mc, bnnKFAC, rue,
	ensemble, jackknife, ensembleLL, jackknifeLL,
	dropout, bnnVI, bnnLLVI, edl,
	hot, noise, noiseWithin, mf0Noise,
})

// ofBundle returns the methods of package bench.
func ofBundle() (all []*method) {
	for _, name := range bench.Methods() {
		switch name {
		case mf0.name:
			all = append(all, mf0)
		case mf1.name:
		default:
			all = append(all, &method{name: name, doc: bench.DescribeMethod(name)})
		}
	}
	return all
}

// allFiles lists the files that Config.With may hold.
func allFiles() []*files {
	list := []*files{swagFiles}
	for _, m := range registry {
		if m.files != nil {
			list = append(list, m.files)
		}
	}
	return list
}

// Methods returns the names of all methods.
func Methods() []string {
	names := make([]string, len(registry))
	for i, m := range registry {
		names[i] = m.name
	}
	return names
}

// DescribeMethod describes a method in a few words.
func DescribeMethod(name string) string { return find(name).doc }

func find(name string) *method {
	i := slices.IndexFunc(registry, func(m *method) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return registry[i]
}

// CheckMethods returns an error for invalid or repeated entries of Config.Methods.
func CheckMethods(names []string) error {
	_, err := parseMethods(names)
	return err
}

func parseMethods(names []string) ([]*request, error) {
	out := make([]*request, 0, len(names))
	for i, text := range names {
		if slices.Contains(names[:i], text) {
			return nil, fmt.Errorf("method %q is listed twice", text)
		}
		r, err := parseMethod(text)
		if err != nil {
			return nil, fmt.Errorf("method %q: %w", text, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// filesOf returns the files that the method takes, nil for none.
func (r *request) filesOf() *files {
	if r.covariance == swag {
		return swagFiles
	}
	return r.files
}

const (
	defaultSamples = 100     // if a method does not say how many
	maxSamples     = 100_000 // memory per example is proportional to it
)

// parseMethod parses NAME[:M][@COVARIANCE[/STRUCTURE]].
func parseMethod(text string) (*request, error) {
	name, of, hasOf := strings.Cut(text, "@")
	name, samples, hasSamples := strings.Cut(name, ":")
	r := &request{text: text, method: find(name)}
	if r.method == nil {
		return nil, fmt.Errorf("unknown, want some of %s", strings.Join(Methods(), ", "))
	}
	if r.sampled {
		r.samples = defaultSamples
	}
	if hasSamples {
		if !r.sampled {
			return nil, fmt.Errorf("%s draws no samples: leave out :%s", name, samples)
		}
		n, err := strconv.Atoi(samples)
		if err != nil || n < 1 || n > maxSamples {
			return nil, fmt.Errorf("%q samples, want a number from 1 to %d", samples, maxSamples)
		}
		r.samples = n
	}
	if hasOf {
		return r, r.parseCovariance(of)
	}
	return r, nil
}

// parseCovariance parses COVARIANCE[/STRUCTURE].
func (r *request) parseCovariance(text string) error {
	if !r.gaussian {
		return fmt.Errorf("%s has no covariance: leave out @%s", r.name, text)
	}
	covariance, structure, hasStructure := strings.Cut(text, "/")
	r.covariance = covariance
	if covariance != swag && calibrate.Covariance(covariance).Validate() != nil {
		return fmt.Errorf("covariance %q, want hessian, fisher, sandwich or swag", covariance)
	}
	if !hasStructure {
		return nil
	}
	r.structure = calibrate.Structure(structure)
	switch {
	case r.structure != calibrate.Full && r.structure != calibrate.Kronecker:
		return fmt.Errorf("structure %q, want full or kron", structure)
	case covariance == swag:
		return errors.New("swag has its own structure: leave out /" + structure)
	}
	return nil
}

// overLayers reports whether the method's posterior covers several layers.
func (b *comparison) overLayers(r *request) bool {
	return b.Layers > 1 && r.layered && r.covariance != swag
}

// given returns the method's files in With.
func (b *comparison) given(r *request) []string {
	if f := r.filesOf(); f != nil {
		return b.With[f.name]
	}
	return nil
}

// needsTrain reports whether the method reads training data. A Gaussian one does not if the bundle stores the
// curvature.
func (b *comparison) needsTrain(r *request) bool {
	if !r.train || len(b.given(r)) > 0 {
		return false
	}
	return !r.gaussian || b.overLayers(r) || !b.keeps(b.keyOf(r).curvature())
}

// keyOf returns the covariance of a Gaussian request.
func (b *comparison) keyOf(r *request) dampedKey {
	return dampedKey{
		cmp.Or(r.structure, b.manifest.Structure),
		cmp.Or(calibrate.Covariance(r.covariance), b.manifest.Covariance),
	}
}

func (k dampedKey) curvature() curvatureKey {
	return curvatureKey{k.structure, k.covariance.NeedsFisher()}
}

// keeps reports whether the bundle stores a curvature for the requested training data and preprocessing.
func (b *comparison) keeps(k curvatureKey) bool {
	m := b.manifest
	return b.session.Bundle().KeepsCurvature() && b.Train == "" && b.Preprocess == nil && m.Structure == k.structure &&
		(!k.fisher || m.Covariance.NeedsFisher())
}

// random reports whether the method depends on a seed.
func (b *comparison) random(r *request) bool {
	return r.sampled || r.method == edl && len(b.given(r)) == 0
}

// runsNetworks reports whether the method runs networks other than the one cut at its head.
func (b *comparison) runsNetworks(r *request) bool {
	return b.overLayers(r) || len(b.given(r)) > 0 && r.filesOf().run
}

// checkRequest checks the options of a method.
func (b *comparison) checkRequest(r *request) error {
	switch {
	case b.Layers > 1 && r.covariance == swag:
		return errors.New("swag is for the last layer only: leave out --layers")
	case b.Layers > 1 && r.covariance == string(calibrate.Sandwich):
		return errors.New("the sandwich is for the last layer only: want hessian or fisher")
	case b.Layers > 1 && r.structure == calibrate.Full:
		return errors.New("several layers have the Kronecker structure: leave out /full")
	}
	f := r.filesOf()
	if f == nil {
		return nil
	}
	n := len(b.given(r))
	if n < f.least {
		return fmt.Errorf("%d files with --%s, want at least %d", n, f.flag(), f.least)
	}
	if f.most > 0 && n > f.most {
		return fmt.Errorf("%d files with --%s, want at most %d", n, f.flag(), f.most)
	}
	return nil
}

// checkFiles finds errors that would otherwise stop a method after others are done.
func (b *comparison) checkFiles(r *request) error {
	if b.overLayers(r) {
		_, err := onnxlayers.Find(b.model, b.modelHead, b.Layers)
		return err
	}
	if r.check == nil {
		return nil
	}
	return r.check(b, r)
}

// checkUnused returns an error for options of methods that were not requested.
func (b *comparison) checkUnused() error {
	if b.Evidence != "" {
		if err := methods.Evidence(b.Evidence).Validate(); err != nil {
			return err
		}
	}
	type option struct {
		flag, wants string
		given       bool
		used        func(r *request) bool
	}
	named := func(m *method) func(*request) bool { return func(r *request) bool { return r.method == m } }
	tuned := func(r *request) bool { return !r.plain(b.Layers) }
	var options []option
	kinds := allFiles()
	for name := range b.With {
		if !slices.ContainsFunc(kinds, func(f *files) bool { return f.name == name }) {
			return fmt.Errorf("no method takes files named %q, want one of %s", name, fileNames())
		}
	}
	for _, f := range kinds {
		used := func(r *request) bool { return r.filesOf() == f }
		options = append(options, option{f.flag(), f.of, len(b.With[f.name]) > 0, used})
	}
	options = append(options,
		option{"evidence", "method edl", b.Evidence != "", named(edl)},
		option{"dropout-rate", "method dropout", b.DropoutRate != 0, named(dropout)},
		option{"layers", "one of mf0, mf1, mf2, ukf, mc and bnn-kfac", b.Layers > 1, func(r *request) bool { return r.layered }},
		option{"val", "a method that is tuned", b.Val != "", tuned},
		option{"val-ood", "a method that is tuned", b.ValOOD != "", tuned},
	)
	for _, o := range options {
		if o.given && !slices.ContainsFunc(b.requests, o.used) {
			return fmt.Errorf("--%s is for %s: add one with --methods", o.flag, o.wants)
		}
	}
	return nil
}

func fileNames() string {
	var names []string
	for _, f := range allFiles() {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}
