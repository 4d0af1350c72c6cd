package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/mfgs/mfgs/calibrate/conformal"
)

const (
	validation     = 4000 // examples per split; half tune, half set thresholds
	confidence     = 0.95
	falseAlarmRate = 0.05
	targetCoverage = 0.9 // the target coverage of answers
)

var alphas = []float64{0.1, 0.05, 0.01}

// results are the figures of each split, by name.
type results struct {
	network
	pools  []*pool
	fresh  int
	figure map[string][]float64
}

// measure splits the pool at random, sets thresholds on one part and measures the rest.
func measure(n network, pools []*pool, splits int) (*results, error) {
	r := &results{network: n, pools: pools, fresh: pools[0].n - validation, figure: map[string][]float64{}}
	figures := make([]map[string]float64, splits)
	failed := make([]error, splits)
	work := make(chan int)
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := range work {
				figures[i], failed[i] = split(n, pools, rand.New(rand.NewPCG(uint64(i), 14)))
			}
		})
	}
	for i := range splits {
		work <- i
	}
	close(work)
	wait.Wait()
	for i, f := range figures {
		if failed[i] != nil {
			return nil, fmt.Errorf("split %d: %w", i, failed[i])
		}
		for name, v := range f {
			r.figure[name] = append(r.figure[name], v)
		}
	}
	return r, nil
}

// A side is a subset of a pool, with probabilities.
type side struct {
	*conformal.Examples
	losses conformal.Losses
	ood    []float64
}

// at returns examples of a pool, with temperature scaling.
func (p *pool) at(order []int, temperature float64) side {
	s := side{Examples: &conformal.Examples{Classes: p.k}}
	for _, i := range order {
		probabilities := softmax(p.of(i), temperature)
		s.Probabilities = append(s.Probabilities, probabilities...)
		s.Labels = append(s.Labels, p.labels[i])
		loss := 0.0
		if slices.Index(probabilities, slices.Max(probabilities)) != p.labels[i] {
			loss = 1
		}
		s.losses.Uncertainty = append(s.losses.Uncertainty, conformal.Uncertainty(probabilities))
		s.losses.Loss = append(s.losses.Loss, loss)
		s.ood = append(s.ood, p.ood[i])
	}
	return s
}

func softmax(a []float32, temperature float64) []float64 {
	p, most, sum := make([]float64, len(a)), float64(slices.Max(a)), 0.0
	for k, v := range a {
		p[k] = math.Exp((float64(v) - most) / temperature)
		sum += p[k]
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

// temperature minimises the NLL by golden-section search over its logarithm.
func (p *pool) temperature(order []int) float64 {
	nll := func(log float64) (sum float64) {
		for _, i := range order {
			sum -= math.Log(math.Max(softmax(p.of(i), math.Exp(log))[p.labels[i]], 1e-300))
		}
		return sum
	}
	low, high := -2.0, 2.0
	for high-low > 1e-3 {
		third := (high - low) * 0.381966
		if nll(low+third) < nll(high-third) {
			high -= third
		} else {
			low += third
		}
	}
	return math.Exp((low + high) / 2)
}

// split measures one random split.
func split(n network, pools []*pool, rng *rand.Rand) (map[string]float64, error) {
	f := map[string]float64{}
	order := rng.Perm(pools[0].n)
	var tuning, setting []int
	for i, at := range order[:validation] {
		if i%2 == 0 {
			tuning = append(tuning, at)
		} else {
			setting = append(setting, at)
		}
	}
	fresh := order[validation:]
	t := pools[0].temperature(tuning)
	tune, set := pools[0].at(tuning, t), pools[0].at(setting, t)
	sides := map[string]side{"": pools[0].at(fresh, t)}
	var hard []int
	for _, i := range fresh {
		if slices.Contains(n.hard, pools[0].labels[i]) {
			hard = append(hard, i)
		}
	}
	sides["two classes"] = pools[0].at(hard, t)
	for _, p := range pools[1:] {
		sides[p.name] = p.at(fresh[:3000], t)
	}
	if err := sets(f, tune, set, sides); err != nil {
		return nil, err
	}
	randomised(f, rng, set, sides[""])
	// The guarantee is for all examples that nothing was tuned on, including those that set thresholds.
	sides["all"] = pools[0].at(order[validation:], t).with(set)
	return f, answers(f, n.targets, tune, set, sides)
}

func (s side) with(o side) side {
	s.losses.Uncertainty = append(s.losses.Uncertainty, o.losses.Uncertainty...)
	s.losses.Loss = append(s.losses.Loss, o.losses.Loss...)
	s.ood = append(s.ood, o.ood...)
	return s
}

// sets measures prediction sets.
func sets(f map[string]float64, tune, set side, sides map[string]side) error {
	for _, score := range conformal.Scores {
		for _, alpha := range alphas {
			for _, conditional := range []bool{false, true} {
				if conditional && (score != conformal.LAC || alpha < 0.05) {
					continue
				}
				options := conformal.SetOptions{Score: score, Alpha: alpha, ClassConditional: conditional}
				s, err := conformal.Fit(tune.Examples, set.Examples, options)
				if err != nil {
					return err
				}
				name := key(string(score), alpha)
				if conditional {
					name = "class-conditional " + name
				}
				f[name+" penalty"] = s.Penalty
				for from, x := range sides {
					if from != "" && (score != conformal.LAC || conditional) {
						continue
					}
					cover(f, name+from, x.Examples, s.Set)
				}
			}
		}
	}
	return nil
}

func key(what string, alpha float64) string { return fmt.Sprintf("%s %v ", what, alpha) }

// cover measures prediction sets: coverage, size, the fraction that is empty, and coverage by class.
func cover(f map[string]float64, name string, x *conformal.Examples, set func(p []float64) []int) {
	n, size, empty, covered := len(x.Labels), 0, 0, 0
	hit, of := make([]float64, x.Classes), make([]float64, x.Classes)
	for i, y := range x.Labels {
		in := set(x.Probabilities[i*x.Classes : (i+1)*x.Classes])
		of[y]++
		if slices.Contains(in, y) {
			covered++
			hit[y]++
		}
		size += len(in)
		if len(in) == 0 {
			empty++
		}
	}
	for y := range hit {
		if of[y] > 0 {
			f[fmt.Sprintf("%s class %d", name, y)] = hit[y] / of[y]
		}
	}
	f[name+" coverage"] = float64(covered) / float64(n)
	f[name+" size"] = float64(size) / float64(n)
	f[name+" empty"] = float64(empty) / float64(n)
}

// randomised measures APS with randomisation, for comparison.
func randomised(f map[string]float64, rng *rand.Rand, set, fresh side) {
	scores := func(p []float64) []float64 {
		u, all := rng.Float64(), make([]float64, len(p))
		for k, v := range p {
			for _, w := range p {
				if w > v {
					all[k] += w
				}
			}
			all[k] += u * v
		}
		return all
	}
	var of []float64
	for i, y := range set.Labels {
		of = append(of, scores(set.Probabilities[i*set.Classes : (i+1)*set.Classes])[y])
	}
	slices.Sort(of)
	for _, alpha := range alphas {
		at := of[int(math.Ceil(float64(len(of)+1)*(1-alpha)-1e-9))-1]
		cover(f, key("randomised aps", alpha), fresh.Examples, func(p []float64) (in []int) {
			for k, v := range scores(p) {
				if v <= at {
					in = append(in, k)
				}
			}
			return in
		})
	}
}

// answers measures abstention: by uncertainty alone, and by uncertainty among examples not flagged as OOD.
func answers(f map[string]float64, targets []float64, tune, set side, sides map[string]side) error {
	covering, err := conformal.ToleranceLimit(set.losses.Uncertainty, targetCoverage, confidence)
	if err != nil {
		return err
	}
	alarm, err := conformal.ToleranceLimit(set.ood, 1-falseAlarmRate, confidence)
	if err != nil {
		return err
	}
	var among conformal.Losses
	for i, v := range set.ood {
		if v < alarm.Threshold {
			among.Uncertainty = append(among.Uncertainty, set.losses.Uncertainty[i])
			among.Loss = append(among.Loss, set.losses.Loss[i])
		}
	}
	none := math.Inf(1)
	for _, target := range targets {
		alone := atTarget(f, key("error", target), target, tune.losses, set.losses)
		both := atTarget(f, key("both", target), target, tune.losses, among)
		for name, x := range sides {
			accept(f, key("error", target)+name, x, alone.Threshold, none)
			accept(f, key("both", target)+name, x, both.Threshold, alarm.Threshold)
		}
	}
	for name, x := range sides {
		accept(f, "coverage "+name, x, covering.Threshold, none)
		accept(f, "alarm "+name, x, 1, alarm.Threshold)
	}
	return nil
}

// atTarget returns the threshold for a target error. It accepts nothing if the target cannot be guaranteed.
func atTarget(f map[string]float64, name string, target float64, tune, set conformal.Losses) conformal.Rule {
	rule, err := conformal.TargetError(tune, set, target, confidence)
	f[name+"not shown"] = 0
	if err != nil {
		f[name+"not shown"], rule.Threshold = 1, -1
	}
	return rule
}

// accept measures the fraction of examples accepted, and their error, NaN if there are none.
func accept(f map[string]float64, name string, x side, uncertainty, ood float64) {
	n, wrong := 0.0, 0.0
	for i, d := range x.losses.Uncertainty {
		if d <= uncertainty && x.ood[i] <= ood {
			n++
			wrong += x.losses.Loss[i]
		}
	}
	f[name+" accepted"] = n / float64(len(x.losses.Uncertainty))
	f[name+" error"] = wrong / n
}
