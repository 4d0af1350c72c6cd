package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/lanes"
)

// A trial is a row to be made: a method on bundles of one kind.
type trial struct {
	row    string
	paper  string // the paper's row that it stands beside; "" for its own name
	method string // of bench; "" for a row that cannot be made
	posterior
	network string // the kind of network that is calibrated; "" is the usual one
	answers string // the kind of network that answers in its place; "" for the same
	layers  int
	few     int  // of so many networks alone, 0 for all: what takes long
	once    bool // asks for one draw alone, of what no claim is about
	joint   int  // how many networks an ensemble is of; 0 for a method of one
	note    string
}

// leastDraws are those of what is drawn at random, over all networks.
const leastDraws = 10

// The dampings of the tables: chosen on held-out likelihood, and the paper's.
var dampings = []struct {
	suffix string
	calibrate.Damping
}{
	{"", calibrate.Damping{}},
	{", eps = 1", calibrate.Damping{Absolute: 1}},
}

// damped returns the trials under each of the dampings.
func damped(trials ...trial) []trial {
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

// seedsOf are the networks of a trial: of kinds that there are fewer of, the first ones.
func (b *benchmark) seedsOf(t trial) []int {
	seeds := slices.Clone(b.seeds)
	for _, kind := range []string{t.network, t.answers} {
		if kind != "" {
			seeds = slices.DeleteFunc(seeds, func(s int) bool { return s >= b.trained[kind] })
		}
	}
	if t.few > 0 && len(seeds) > t.few {
		seeds = seeds[:t.few]
	}
	return seeds
}

// draws is how often a network of a trial, the i-th, draws what it draws at random.
func (b *benchmark) draws(t trial, i int) int {
	n := max(1, len(b.seedsOf(t)))
	if sampled := strings.Contains(t.method, ":"); !sampled || t.once {
		return 1
	}
	return max(1, (leastDraws+n-1-i)/n)
}

// requests are those of a trial: one for each network or, of ensembles, which only borrow a bundle,
// one for each run of so many networks in a circle, so that all networks have the same part.
func (b *benchmark) requests(t trial) (all []request) {
	if t.method == "" {
		return nil
	}
	seeds := b.seedsOf(t)
	of := func(seed int, m members) request {
		return request{subject{b, t.network, seed, t.posterior}, t.layers, m}
	}
	if t.joint == 0 {
		for _, seed := range seeds {
			all = append(all, of(seed, members{}))
		}
		return all
	}
	circles := len(seeds)
	if t.joint == circles {
		circles = 1
	}
	for from := range circles {
		if t.joint <= len(seeds) {
			all = append(all, of(seeds[0], members{from, t.joint, len(seeds)}))
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

// measure makes the rows of a table on a benchmark. Methods of the same request are evaluated together.
func (l *lab) measure(ctx context.Context, table string, set *benchmark, trials []trial) ([]row, error) {
	type call struct {
		request
		draws int // 0: whatever others of the request ask for
	}
	var order []call
	methods, draws := map[call][]string{}, map[request]int{}
	for _, t := range trials {
		for i, q := range set.requests(t) {
			c := call{request: q}
			if t.once {
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
	// What takes longest first, so that no lane waits for it in the end. It keeps the curvature for the others.
	slices.SortStableFunc(order, func(a, b call) int { return cmp.Compare(b.layers, a.layers) })
	network := func(i int) string { return order[i].network() }
	err := lanes.Grouped(ctx, len(order), network, func(ctx context.Context, i int) error {
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
		r.Paper = t.beside(table, set.name)
		for j, q := range set.requests(t) {
			for draw, a := range l.answers[q][t.method] {
				if j == 0 && draw == 0 && a.Note != "" {
					r.Note = strings.Trim(r.Note+"; "+a.Note, "; ")
				}
				r.Runs = append(r.Runs, measurement{q.label(), cmp.Or(t.answers, t.network), q.networks(), draw, a})
			}
		}
		rows[i] = r
	}
	return rows, nil
}
