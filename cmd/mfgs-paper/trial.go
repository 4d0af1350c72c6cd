package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
)

// A trial is a row to measure: a method on bundles of one kind.
type trial struct {
	row    string
	paper  string // the paper's row to print below it; "" for the same name
	method string // as in --methods; "" for a row that cannot be measured
	posterior
	network      string // the kind of network that is calibrated; "" for the default
	evaluated    string // the kind that is evaluated in its place; "" for the same
	layers       int
	maxNetworks  int  // for slow methods; 0 for all networks
	oneDraw      bool // a single random draw suffices: no claim is about it
	ensembleSize int  // 0 for a method of one network
	note         string
}

// minDraws is the minimal number of random draws, over all networks.
const minDraws = 10

// The dampings of the tables: chosen by validation likelihood, and the paper's.
var dampings = []struct {
	suffix string
	calibrate.Damping
}{
	{"", calibrate.Damping{}},
	{", eps = 1", calibrate.Damping{Absolute: 1}},
}

// withDampings returns the trials with each of the dampings.
func withDampings(trials ...trial) []trial {
	var all []trial
	for _, d := range dampings {
		for _, t := range trials {
			t.paper, t.damping = t.row, d.Damping
			t.row += d.suffix
			all = append(all, t)
		}
	}
	return all
}

// seedsOf returns the networks of a trial: only those that exist of its kinds.
func (b *benchmark) seedsOf(t trial) []int {
	seeds := slices.Clone(b.seeds)
	for _, kind := range []string{t.network, t.evaluated} {
		if kind != "" {
			seeds = slices.DeleteFunc(seeds, func(s int) bool { return s >= b.trained[kind] })
		}
	}
	if t.maxNetworks > 0 && len(seeds) > t.maxNetworks {
		seeds = seeds[:t.maxNetworks]
	}
	return seeds
}

// draws returns the number of random draws on the i-th network of a trial.
func (b *benchmark) draws(t trial, i int) int {
	n := max(1, len(b.seedsOf(t)))
	if sampled := strings.Contains(t.method, ":"); !sampled || t.oneDraw {
		return 1
	}
	return max(1, (minDraws+n-1-i)/n)
}

// requests returns one request per network. For ensembles, which use a bundle for its data only, it returns one per
// cyclic run of ensembleSize networks, so that all networks have the same weight.
func (b *benchmark) requests(t trial) (all []request) {
	if t.method == "" {
		return nil
	}
	seeds := b.seedsOf(t)
	of := func(seed int, m members) request {
		return request{subject{b, t.network, seed, t.posterior}, t.layers, m}
	}
	if t.ensembleSize == 0 {
		for _, seed := range seeds {
			all = append(all, of(seed, members{}))
		}
		return all
	}
	circles := len(seeds)
	if t.ensembleSize == circles {
		circles = 1
	}
	for from := range circles {
		if t.ensembleSize <= len(seeds) {
			all = append(all, of(seeds[0], members{from, t.ensembleSize, len(seeds)}))
		}
	}
	return all
}

// paperFigures returns the paper's figures for a trial's row, nil if there are none.
func (t trial) paperFigures(table, data string) *figures {
	name := cmp.Or(t.paper, t.row)
	if t.network == short { // its rows come from two of the paper's tables
		return cmp.Or(paperFigures(place{"1", data, name}), paperFigures(place{"4", data, name}))
	}
	return paperFigures(place{table, data, name})
}

// measure measures the rows of a table on a benchmark. Methods with the same request are evaluated together.
func (l *lab) measure(ctx context.Context, table string, set *benchmark, trials []trial) ([]row, error) {
	type call struct {
		request
		draws int // 0: as many as the request needs
	}
	var order []call
	methods, draws := map[call][]string{}, map[request]int{}
	for _, t := range trials {
		for i, q := range set.requests(t) {
			c := call{request: q}
			if t.oneDraw {
				c.draws = 1
			} else {
				draws[q] = max(draws[q], set.draws(t, i))
			}
			if methods[c] == nil {
				order = append(order, c)
			}
			methods[c] = append(methods[c], t.method)
		}
	}
	// Slow requests first, so that no processor idles at the end. They also keep the curvature, which others use.
	slices.SortStableFunc(order, func(a, b call) int { return cmp.Compare(b.layers, a.layers) })
	network := func(i int) string { return order[i].network() }
	err := runGrouped(ctx, len(order), network, func(ctx context.Context, i int) error {
		c := order[i]
		return l.ask(ctx, c.request, methods[c], cmp.Or(c.draws, draws[c.request]))
	})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := make([]row, len(trials))
	for i, t := range trials {
		r := row{place: place{table, set.name, t.row}, Note: t.note}
		r.Paper = t.paperFigures(table, set.name)
		for j, q := range set.requests(t) {
			for draw, a := range l.answers[q][t.method] {
				if j == 0 && draw == 0 && a.Note != "" {
					r.Note = strings.Trim(r.Note+"; "+a.Note, "; ")
				}
				r.Runs = append(r.Runs, measurement{q.label(), cmp.Or(t.evaluated, t.network), q.networks(), draw, a})
			}
		}
		rows[i] = r
	}
	return rows, nil
}
