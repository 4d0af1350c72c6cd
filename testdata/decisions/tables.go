package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/conformal"
)

// tables writes the tables of each network.
func tables(w io.Writer, all []*results) {
	for _, r := range all {
		splits := len(r.figure["coverage  error"])
		fmt.Fprintf(w, "### %s\n\n%d splits of %d images: %d for tuning, %d for thresholds, %d for testing.\n\n",
			r.Name, splits, r.pools[0].n, validation/2, validation/2, r.fresh)
		r.sets(w)
		r.answers(w)
		r.shifted(w)
	}
}

func (r *results) sets(w io.Writer) {
	fmt.Fprintln(w, "| sets | alpha | coverage, % | SD | as guaranteed | mean set size | empty sets, % | lowest class coverage, % |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|")
	names := []string{"lac", "aps", "raps", "randomised aps", "class-conditional lac"}
	for _, name := range names {
		for _, alpha := range alphas {
			k := key(name, alpha)
			covered := r.figure[k+" coverage"]
			if covered == nil {
				continue
			}
			mean, sd := moments(covered)
			se := sd / math.Sqrt(float64(len(covered)))
			verdict, threshold := "yes", validation/2
			if name == "class-conditional lac" {
				threshold /= r.pools[0].k
			}
			switch {
			case mean < 1-alpha-3*se:
				verdict = "no"
			case mean > 1-alpha+1/float64(threshold+1)+3*se:
				verdict = "higher"
			}
			least := 1.0
			for y := range r.pools[0].k {
				class, _ := moments(r.figure[fmt.Sprintf("%s class %d", k, y)])
				least = min(least, class)
			}
			size, _ := moments(r.figure[k+" size"])
			empty, _ := moments(r.figure[k+" empty"])
			fmt.Fprintf(w, "| %s | %v | %.2f ± %.2f | %.2f | %s | %.3f | %.2f | %.1f |\n",
				name, alpha, 100*mean, 100*3*se, 100*sd, verdict, size, 100*empty, 100*least)
		}
	}
	fmt.Fprintln(w)
}

func (r *results) answers(w io.Writer) {
	fmt.Fprintln(w, "| guarantee, with confidence 95 % | answered | error of answers | violated in splits | violated on test part | not achievable |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	row := func(guarantee, name, figure string, violated func(float64) bool) {
		answered, _ := moments(r.figure[name+" accepted"])
		wrong, _ := moments(known(r.figure[name+" error"]))
		fmt.Fprintf(w, "| %s | %.2f %% | %.3f %% | %d | %d | %d |\n", guarantee, 100*answered, 100*wrong,
			count(r.figure[name+"all "+figure], violated), count(r.figure[name+" "+figure], violated),
			count(r.figure[name+"not shown"], func(v float64) bool { return v > 0 }))
	}
	above := func(target float64) func(float64) bool { return func(v float64) bool { return v > target } }
	for _, target := range r.targets {
		row(fmt.Sprintf("error ≤ %v %%", 100*target), key("error", target), "error", above(target))
	}
	row(fmt.Sprintf("answered ≥ %v %%", 100*targetCoverage), "coverage ", "accepted", func(v float64) bool { return v < targetCoverage })
	row(fmt.Sprintf("false alarms ≤ %v %%", 100*falseAlarmRate), "alarm ", "accepted", func(v float64) bool { return v < 1-falseAlarmRate })
	for _, target := range r.targets {
		row(fmt.Sprintf("false alarms ≤ %v %%, error ≤ %v %% of the rest", 100*falseAlarmRate, 100*target), key("both", target), "error", above(target))
	}
	fmt.Fprintln(w)
}

func (r *results) shifted(w io.Writer) {
	fmt.Fprintln(w, "| data | network's error | coverage of lac, alpha 0.1 | 0.05 | 0.01 | answered | error of answers | splits above target | flagged as OOD |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|")
	sides := []string{"", "two classes"}
	for _, p := range r.pools[1:] {
		sides = append(sides, p.name)
	}
	for _, name := range sides {
		title := name
		switch name {
		case "":
			title = "no shift"
		case "two classes":
			title = fmt.Sprintf("classes %d and %d only", r.hard[0], r.hard[1])
		}
		wrong, alarm := r.plainError(name), 0.0
		accepted, _ := moments(r.figure["alarm "+name+" accepted"])
		alarm = 1 - accepted
		fmt.Fprintf(w, "| %s | %.2f %% |", title, 100*wrong)
		for _, alpha := range alphas {
			covered, _ := moments(r.figure[key(string(conformal.LAC), alpha)+name+" coverage"])
			fmt.Fprintf(w, " %.1f |", 100*covered)
		}
		target := r.targets[len(r.targets)-1]
		answered, _ := moments(r.figure[key("error", target)+name+" accepted"])
		of, _ := moments(known(r.figure[key("error", target)+name+" error"]))
		fmt.Fprintf(w, " %.1f %% | %.2f %% | %d | %.1f %% |\n", 100*answered, 100*of,
			count(r.figure[key("error", target)+name+" error"], func(v float64) bool { return v > target }), 100*alarm)
	}
	fmt.Fprintln(w)
}

// plainError is the network's error on a pool.
func (r *results) plainError(name string) float64 {
	p := r.pools[0]
	if i := slices.IndexFunc(r.pools, func(p *pool) bool { return p.name == name }); i >= 0 {
		p = r.pools[i]
	}
	n, wrong := 0, 0
	for i, y := range p.labels {
		if name == "two classes" && !slices.Contains(r.hard, y) {
			continue
		}
		n++
		if a := p.of(i); slices.Index(a, slices.Max(a)) != y {
			wrong++
		}
	}
	return float64(wrong) / float64(n)
}

// known are the numbers that are not NaN.
func known(x []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(x), math.IsNaN)
}

func moments(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, math.Sqrt(sd)
}

func count(x []float64, is func(float64) bool) (n int) {
	for _, v := range x {
		if is(v) {
			n++
		}
	}
	return n
}
