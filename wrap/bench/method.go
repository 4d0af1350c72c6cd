package bench

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/wrap/internal/measure"
)

// defaultSamples is how many classifiers a method draws that is not told.
const defaultSamples = 100

// maxSamples bounds them: what is prepared of one example is in proportion.
const maxSamples = 100_000

// swag is the covariance of the last layers along a training trajectory.
const swag = "swag"

// methodKind is what is fixed about a method's name.
type methodKind struct {
	name string
	// plain methods need nothing but the bundle.
	plain bool
	// gaussian ones integrate a Gaussian over logits, of any covariance.
	gaussian bool
	// sampled ones draw classifiers, as many as are asked for.
	sampled bool
	// train says that the training set is needed, also where the covariance is the
	// bundle's.
	train bool
	about string
}

// methodKinds are in the order of tables.
var methodKinds = []methodKind{
	{name: "mle", plain: true, about: "the network's own probabilities"},
	{name: "ts", plain: true, about: "temperature scaling"},
	{name: "mf0", plain: true, gaussian: true, about: "the mean-field approximation"},
	{name: "leverage", plain: true, about: "of the features: tells out-of-distribution data only"},
	{name: "mf1", gaussian: true, about: "mean field with the variances of both logits"},
	{name: "mf2", gaussian: true, about: "mean field with their covariance too"},
	{name: "ukf", gaussian: true, about: "the unscented transform"},
	{name: "mc", gaussian: true, sampled: true, about: "sampling logits"},
	{name: "bnn-kfac", sampled: true, train: true, about: "sampling weights from the Kronecker posterior"},
	{name: "rue", sampled: true, train: true, about: "resampling: infinitesimal bootstraps"},
	{name: "ensemble", about: "networks trained apart: --ensemble"},
	{name: "jackknife", about: "networks trained on parts of the data: --jackknife"},
	{name: "ensemble-ll", sampled: true, train: true, about: "last layers fitted from random starts"},
	{name: "jackknife-ll", sampled: true, train: true, about: "last layers fitted on parts of the data"},
	{name: "dropout", sampled: true, about: "the network's own Dropout, else of features"},
	{name: "bnn-vi", sampled: true, about: "a network that draws its weights: --vi"},
	{name: "bnn-ll-vi", sampled: true, train: true, about: "a last layer fitted by variational inference"},
	{name: "edl", train: true, about: "an evidential network, --edl, else a last layer fitted so"},
}

// method is a name of Config.Methods, read.
type method struct {
	methodKind
	text       string
	samples    int                 // of a sampled one
	covariance string              // of a gaussian one: a calibrate.Covariance, swag, or "" for the bundle's
	structure  calibrate.Structure // "" for the bundle's
}

// Methods returns what Config.Methods may hold; see there for what may be added.
func Methods() []string {
	names := make([]string, len(methodKinds))
	for i, k := range methodKinds {
		names[i] = k.name
	}
	return names
}

// DescribeMethod says in a few words what a method of Methods is.
func DescribeMethod(name string) string {
	i := slices.IndexFunc(methodKinds, func(k methodKind) bool { return k.name == name })
	return methodKinds[i].about
}

// PlainMethods returns those of Methods that need nothing but the bundle.
func PlainMethods() []string { return slices.Clone(measure.Plain) }

// CheckMethods reports names that Config.Methods may not hold, or not twice.
func CheckMethods(names []string) error {
	_, err := parseMethods(names)
	return err
}

func parseMethods(names []string) ([]method, error) {
	out := make([]method, 0, len(names))
	for i, text := range names {
		if slices.Contains(names[:i], text) {
			return nil, fmt.Errorf("method %q is named twice", text)
		}
		m, err := parseMethod(text)
		if err != nil {
			return nil, fmt.Errorf("method %q: %w", text, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// parseMethod reads NAME[:M][@COVARIANCE[/STRUCTURE]].
func parseMethod(text string) (method, error) {
	m := method{text: text}
	name, of, hasOf := strings.Cut(text, "@")
	name, samples, hasSamples := strings.Cut(name, ":")
	i := slices.IndexFunc(methodKinds, func(k methodKind) bool { return k.name == name })
	if i < 0 {
		return m, fmt.Errorf("not known, want some of %s", strings.Join(Methods(), ", "))
	}
	m.methodKind = methodKinds[i]
	if m.sampled {
		m.samples = defaultSamples
	}
	if hasSamples {
		if !m.sampled {
			return m, fmt.Errorf("%s draws no samples: leave out :%s", name, samples)
		}
		n, err := strconv.Atoi(samples)
		if err != nil || n < 1 || n > maxSamples {
			return m, fmt.Errorf("%q samples, want a number from 1 to %d", samples, maxSamples)
		}
		m.samples = n
	}
	if !hasOf {
		return m, nil
	}
	if !m.gaussian {
		return m, fmt.Errorf("%s has no covariance: leave out @%s", name, of)
	}
	covariance, structure, hasStructure := strings.Cut(of, "/")
	m.covariance = covariance
	if covariance != swag && calibrate.Covariance(covariance).Validate() != nil {
		return m, fmt.Errorf("covariance %q, want hessian, fisher, sandwich or swag", covariance)
	}
	if hasStructure {
		m.structure = calibrate.Structure(structure)
		if m.structure != calibrate.Full && m.structure != calibrate.Kronecker {
			return m, fmt.Errorf("structure %q, want full or kron", structure)
		}
		if covariance == swag {
			return m, errors.New("swag has a structure of its own: leave out /" + structure)
		}
	}
	return m, nil
}

// own reports whether the bundle itself has all the method needs. Over several layers
// mf0 has another posterior.
func (m method) own(layers int) bool {
	return m.plain && m.covariance == "" && (layers <= 1 || !m.gaussian)
}
