package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/wrap/bench"
)

// A trial is a row to be made: a method on bundles of one kind.
type trial struct {
	row    string
	paper  string // the paper's row that it stands beside; "" for its own name
	method string // of wrap; "" for a row that cannot be made
	posterior
	network string // the kind of network; "" is the usual one
	layers  int
	first   bool // of the first seed's network alone: what takes long
	joint   int  // how many networks an ensemble is of; 0 for a method of one
	note    string
}

// The dampings of the tables: chosen on held-out likelihood, and the paper's.
var dampings = []struct {
	suffix string
	calibrate.Damping
}{
	{"", calibrate.Damping{}},
	{", eps = 1", calibrate.Damping{Absolute: 1}},
}

// requests are those of a trial: one for each seed, or a single one; of ensembles, which only
// borrow a bundle, one for each of the disjoint ones that the trained networks make up.
func (t trial) requests(set *benchmark, seeds []int) []request {
	if t.method == "" {
		return nil
	}
	of := func(seed int, m members) request {
		return request{subject{set, t.network, seed, t.posterior}, t.layers, m}
	}
	var all []request
	if t.joint > 0 {
		for from := 0; from+t.joint <= trainedApart; from += t.joint {
			all = append(all, of(seeds[0], members{from, from + t.joint}))
		}
		return all
	}
	for _, seed := range seeds {
		all = append(all, of(seed, members{}))
		if t.first {
			break
		}
	}
	return all
}

// beside returns the paper's numbers that stand beside a trial's row, nil where there are none.
func (t trial) beside(table, data string) *figures {
	name := cmp.Or(t.paper, t.row)
	if t.network == short { // its rows are of two of the paper's tables
		return cmp.Or(paperSays(place{"1", data, name}), paperSays(place{"4", data, name}))
	}
	return paperSays(place{table, data, name})
}

// measure makes the rows of a table on a benchmark with one network for each seed.
// Methods of the same request are evaluated together.
func (l *lab) measure(ctx context.Context, table string, set *benchmark, seeds []int, trials []trial) ([]row, error) {
	var order []request
	methods := map[request][]string{}
	for _, t := range trials {
		for _, q := range t.requests(set, seeds) {
			if methods[q] == nil {
				order = append(order, q)
			}
			methods[q] = append(methods[q], t.method)
		}
	}
	answers := map[request]map[string]answer{}
	for _, q := range order {
		a, err := l.ask(ctx, q, methods[q])
		if err != nil {
			return nil, err
		}
		answers[q] = a
	}
	rows := make([]row, len(trials))
	for i, t := range trials {
		r := row{place: place{table, set.name, t.row}, note: t.note}
		r.paper = t.beside(table, set.name)
		for j, q := range t.requests(set, seeds) {
			a := answers[q][t.method]
			r.runs = append(r.runs, measurement{q.label(), a})
			if j == 0 && a.note != "" {
				r.note = strings.Trim(r.note+"; "+a.note, "; ")
			}
		}
		rows[i] = r
	}
	return rows, nil
}

// mnist is the paper's split of MNIST and notMNIST.
func (l *lab) mnist() *benchmark {
	if b := l.sets[mnistName]; b != nil {
		return b
	}
	file := func(parts ...string) string { return filepath.Join(append([]string{l.data}, parts...)...) }
	train := file("mnist", "train-images-idx3-ubyte.gz")
	other := file("notmnist", "notmnist-images-idx3-ubyte.gz")
	b := &benchmark{
		name:   mnistName,
		train:  train + "[0:55000]",
		val:    train + "[55000:60000]",
		valOOD: other + "[0:5000]",
		test:   file("mnist", "t10k-images-idx3-ubyte.gz"),
		ood:    []bench.NamedSpec{{Name: notMNIST, Spec: other + "[5000:]"}},
	}
	model := func(seed int) string {
		name := "model.onnx"
		if seed > 0 {
			name = fmt.Sprintf("seed%d.onnx", seed)
		}
		return filepath.Join(l.models, "mnist-mlp", name)
	}
	of := func(format string, args ...any) string {
		return filepath.Join(l.models, "mnist-methods", fmt.Sprintf(format, args...))
	}
	b.network = func(kind string, seed int) string {
		switch kind {
		case "":
			return model(seed)
		case short:
			return filepath.Join(l.models, "mnist-mlp", fmt.Sprintf("short%d.onnx", seed))
		}
		return of("%s%d.onnx", kind, seed)
	}
	b.files = func(method string, q request) map[string][]string {
		seed := q.seed
		switch name, _, _ := strings.Cut(method, ":"); name {
		case "ensemble":
			var all []string
			for i := q.members.from; i < q.members.to; i++ {
				all = append(all, model(i))
			}
			if len(all) == 1 { // the method wants two: the mean of a network and itself is that network
				all = append(all, all...)
			}
			return map[string][]string{"ensemble": all}
		case "mf0@swag":
			return map[string][]string{"swag": trajectory(of("swag%d", seed), 101, 120)}
		case "bnn-vi":
			return map[string][]string{"bnn-vi": {of("vi%d.onnx", seed)}}
		case "edl":
			return map[string][]string{"edl": {of("edl%d.onnx", seed)}}
		}
		return nil
	}
	l.sets[mnistName] = b
	return b
}

// trajectory returns the files of the last layers after each of some epochs.
func trajectory(dir string, from, to int) []string {
	var all []string
	for epoch := from; epoch <= to; epoch++ {
		all = append(all, filepath.Join(dir, fmt.Sprintf("epoch%d.onnx", epoch)))
	}
	return all
}

const (
	trainedApart = 5       // networks of the usual kind, trained from scratch
	short        = "short" // the kind of those trained for 15 epochs, which do not interpolate
)

// mnistTable measures trials and writes the table.
func (l *lab) mnistTable(ctx context.Context, s *section, table string, trials []trial) ([]row, error) {
	rows, err := l.measure(ctx, table, l.mnist(), l.seeds, trials)
	if err != nil {
		return nil, err
	}
	return s.add(rows...), nil
}

// mnistColumns are those of the tables on MNIST and notMNIST.
func mnistColumns() []column {
	return append(append(append([]column{}, inDomain...), detecting(notMNIST, false)...), detecting(notMNIST, true)...)
}

// damped returns the trials under each of the dampings.
func damped(trials ...trial) []trial {
	var all []trial
	for _, d := range dampings {
		for _, t := range trials {
			t.paper, t.damping = t.row, d.Damping
			t.row += d.suffix
			t.first = t.first || d.suffix != "" && strings.HasPrefix(t.method, "mc:")
			all = append(all, t)
		}
	}
	return all
}

// table1Trials are its upper and its lower half.
func table1Trials() (sampling, covariances []trial) {
	sampling = damped(
		trial{row: "M=20", method: "mc:20"},
		trial{row: "M=100", method: "mc:100"},
		trial{row: "M=500", method: "mc:500"},
		trial{row: "mf0", method: "mf0"},
		trial{row: "mf1", method: "mf1"},
		trial{row: "mf2", method: "mf2"},
	)
	covariances = damped(
		trial{row: "J^-1", method: "mf0", posterior: posterior{covariance: calibrate.Fisher}},
		trial{row: "H^-1JH^-1", method: "mf0", posterior: posterior{covariance: calibrate.Sandwich}},
	)
	return sampling, append(covariances, trial{row: "SWAG", method: "mf0@swag", note: "the covariance is that of 20 epochs of training; nothing is added to it"})
}

func table1(ctx context.Context, l *lab, s *section) error {
	upper, lower := table1Trials()
	sampling, err := l.mnistTable(ctx, s, "1", upper)
	if err != nil {
		return err
	}
	covariances, err := l.mnistTable(ctx, s, "1", lower)
	if err != nil {
		return err
	}
	s.write("Sampling and the three approximations of the same integral, with H⁻¹ of the last layer:")
	s.write("%s", render(sampling, mnistColumns()...))
	s.write("mf0 with other covariances:")
	s.write("%s", render(covariances, mnistColumns()...))
	s.write("%s", chosenDampings(append(sampling, covariances...)))
	return nil
}

// chosenDampings says what automatic damping came to.
func chosenDampings(rows []row) string {
	var b strings.Builder
	for _, r := range rows {
		name := map[string]string{"mf0": "H⁻¹", "J^-1": "J⁻¹", "H^-1JH^-1": "H⁻¹JH⁻¹"}[r.row]
		if name == "" {
			continue
		}
		var each []string
		for _, run := range r.runs {
			each = append(each, fmt.Sprintf("ρ = %.3g (ε = %.2g)", run.damping.Rho, run.damping.Epsilon))
		}
		fmt.Fprintf(&b, "- %s: %s\n", name, strings.Join(each, ", "))
	}
	return "Damping that was chosen on held-out likelihood, network by network; ρ is in units of the mean eigenvalue:\n\n" + b.String()
}

func table2Trials() []trial {
	var trials []trial
	for _, method := range []struct{ row, method string }{{"M=500", "mc:500"}, {"mf0", "mf0"}} {
		for layers, name := range []string{"last layer", "top two layers", "all three layers"} {
			t := trial{row: method.row + ", " + name, method: method.method}
			if layers > 0 { // the last layer's posterior is the bundle's
				t.layers = layers + 1
				t.note = "Kronecker-factored blocks, one a layer"
				t.first = strings.HasPrefix(t.method, "mc:")
			}
			trials = append(trials, t)
		}
	}
	return trials
}

func table2(ctx context.Context, l *lab, s *section) error {
	rows, err := l.mnistTable(ctx, s, "2", table2Trials())
	if err != nil {
		return err
	}
	s.write("%s", render(rows, mnistColumns()...))
	return nil
}

func table4Trials() []trial {
	var trials []trial
	for _, m := range []int{1, 2, 3, 5} {
		trials = append(trials, trial{row: fmt.Sprintf("Deep E.(%d)", m), method: "ensemble", joint: m})
	}
	trials = append(trials, []trial{
		{row: "RUE", method: "rue:500"},
		{row: "MLE", method: "mle"},
		{row: "T. Scale", method: "ts"},
		{row: "EDL", method: "edl"},
		{row: "Dropout", method: "dropout:100", network: "dropout", note: "a network trained with dropout, of which MLE is another row than above; M = 100"},
		{row: "BNN(VI)", method: "bnn-vi:100", note: "a network trained so, all layers; M = 100"},
		{row: "BNN(KFAC)", method: "bnn-kfac:100", layers: 3, first: true, note: "all layers; M = 100, tuned on a fifth of the held-out data"},
	}...)
	trials = append(trials, damped(trial{row: "mf0", method: "mf0"})...)
	return append(trials, trial{row: "leverage", method: "leverage", note: "of mfgs, not of the paper: it tells unfamiliar inputs and gives no probabilities"})
}

// lastLayerTrials are rows that stand in for ensembles of hundreds of networks.
func lastLayerTrials() []trial {
	return []trial{
		{row: "Deep E.(500), last layers", paper: "Deep E.(500)", method: "ensemble-ll:500", first: true},
		{row: "JKnife(500), last layers", paper: "JKnife(500)", method: "jackknife-ll:500", first: true},
	}
}

func table4(ctx context.Context, l *lab, s *section) error {
	rows, err := l.mnistTable(ctx, s, "4", table4Trials())
	if err != nil {
		return err
	}
	s.write("Deep E.(M) is the mean over M whole networks, each trained from a seed of its own. Of the %d that there are, as many ensembles "+
		"are measured as share no network, and ± is over these. Deep E.(1) is a single network with T_act tuned, as ensembles have it.", trainedApart)
	s.write("%s", render(rows, mnistColumns()...))
	proxies, err := l.mnistTable(ctx, s, "4", lastLayerTrials())
	if err != nil {
		return err
	}
	s.write("### Last layers in the place of networks")
	s.write("Where the paper trains 500 whole networks, 500 last layers were fitted here on the features of one: they differ far less " +
		"than networks do, and say nothing of the paper's rows. No claim is judged by them.")
	s.write("%s", render(proxies, mnistColumns()...))
	return nil
}

// shortTrials are the rows of table 1, and two to compare them with, on networks that do not
// interpolate, 500 draws of the first alone. There is no SWAG: it goes on from networks that do.
func shortTrials() []trial {
	upper, lower := table1Trials()
	trials := append([]trial{{row: "MLE", method: "mle"}, {row: "T. Scale", method: "ts"}}, upper...)
	for _, t := range lower {
		if t.row != "SWAG" {
			trials = append(trials, t)
		}
	}
	for i := range trials {
		trials[i].network = short
		trials[i].first = trials[i].first || trials[i].method == "mc:500"
	}
	return trials
}

func tableShort(ctx context.Context, l *lab, s *section) error {
	rows, err := l.mnistTable(ctx, s, "short", shortTrials())
	if err != nil {
		return err
	}
	s.write("Networks that were trained as the others, but for 15 epochs instead of 100. The others interpolate: they make no error on their " +
		"training data and have a loss of about 1e-9 there, where the Hessian and the Fisher matrix nearly vanish. These make some, at a loss of " +
		"0.004 to 0.009, so that the paper's damping of 1 meets curvature of another size; and their test figures are nearer to those of the paper's " +
		"network. The paper's numbers below the rows are those of its tables 1 and 4.")
	s.write("%s", render(rows, mnistColumns()...))
	s.write("%s", chosenDampings(rows))
	return nil
}

func ukfTrials() []trial {
	return damped(trial{row: "mf0", method: "mf0"}, trial{row: "ukf", method: "ukf"})
}

func tableUKF(ctx context.Context, l *lab, s *section) error {
	rows, err := l.mnistTable(ctx, s, "ukf", ukfTrials())
	if err != nil {
		return err
	}
	s.write("%s", render(rows, mnistColumns()...))
	return nil
}
