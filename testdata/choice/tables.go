package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/testdata/internal/trained"
)

// overall writes the losses of the rule and of each method.
func overall(w io.Writer, networks []trained.Network, losses map[int][]loss) {
	fmt.Fprintln(w, "| validation examples | rule: mean | largest mean of a network | worst draw | always matrix scaling: mean, worst | always mf0 | always temperature scaling | always the network's softmax |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|")
	for _, size := range sizes {
		all := losses[size]
		largest, of := 0.0, ""
		for _, n := range networks {
			if mean, _, count := summary(all, n.Name, "rule"); count > 0 && mean >= largest {
				largest, of = mean, n.Name
			}
		}
		mean, worst, _ := summary(all, "", "rule")
		fmt.Fprintf(w, "| %d | %.4f | %.4f (%s) | %.4f |", size, mean, largest, of, worst)
		for _, m := range []calibrate.Method{calibrate.Matrix, calibrate.MF0, calibrate.TS, calibrate.MLE} {
			mean, worst, _ := summary(all, "", string(m))
			fmt.Fprintf(w, " %.4f, %.4f |", mean, worst)
		}
		fmt.Fprintln(w)
	}
}

// byNetwork writes the losses of the rule by network and size.
func byNetwork(w io.Writer, networks []trained.Network, losses map[int][]loss) {
	fmt.Fprint(w, "| network |")
	for _, size := range sizes {
		fmt.Fprintf(w, " %d |", size)
	}
	fmt.Fprint(w, "\n|---|")
	for range sizes {
		fmt.Fprint(w, "---|")
	}
	fmt.Fprintln(w)
	for _, n := range networks {
		fmt.Fprintf(w, "| %s |", n.Name)
		for _, size := range sizes {
			mean, worst, count := summary(losses[size], n.Name, "rule")
			if count == 0 {
				fmt.Fprint(w, " – |")
				continue
			}
			chosen := map[calibrate.Method]int{}
			for _, l := range losses[size] {
				if l.network == n.Name {
					chosen[l.chosen]++
				}
			}
			fmt.Fprintf(w, " %.4f, %.4f; %d·%d·%d·%d |", mean, worst, chosen[calibrate.MLE], chosen[calibrate.TS],
				chosen[calibrate.Matrix], chosen[calibrate.MF0])
		}
		fmt.Fprintln(w)
	}
}

// likelihood writes the mean NLL of the selected method and of temperature scaling, by network and size.
func likelihood(w io.Writer, networks []trained.Network, losses map[int][]loss) {
	fmt.Fprint(w, "| network, method |")
	for _, size := range sizes {
		fmt.Fprintf(w, " %d |", size)
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(sizes)))
	for _, n := range networks {
		for _, m := range []struct{ title, of string }{{"temperature scaling", "ts"}, {"selected", "rule"}} {
			fmt.Fprintf(w, "| %s, %s |", n.Name, m.title)
			for _, size := range sizes {
				mean, _, count := summary(losses[size], n.Name, m.of)
				if count == 0 {
					fmt.Fprint(w, " – |")
					continue
				}
				fmt.Fprintf(w, " %.3f |", mean+least(losses[size], n.Name))
			}
			fmt.Fprintln(w)
		}
	}
}

// least returns the mean of the least NLL of all methods.
func least(losses []loss, network string) (mean float64) {
	count := 0.0
	for _, l := range losses {
		if l.network == network {
			mean += l.least
			count++
		}
	}
	return mean / count
}

// summary returns the mean and the largest loss of a choice, for one network or, if "", all.
func summary(losses []loss, network, choice string) (mean, worst float64, count int) {
	for _, l := range losses {
		if network == "" || l.network == network {
			mean += l.of[choice]
			worst = max(worst, l.of[choice])
			count++
		}
	}
	return mean / float64(max(count, 1)), worst, count
}
