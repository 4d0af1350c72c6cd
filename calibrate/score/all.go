package score

import (
	"fmt"
	"slices"
	"strings"
)

// All are the scores, in the order of tables.
var All = []Score{
	studentized, mf0, leverage, guardedMargin,
	maxLogit, energy, gen, entropy, studentizedEnergy, marginLeverage,
	react, ash, fdbd, mahalanobis, relativeMahalanobis, residual, vim, knn,
	columnMahalanobis, columnKNN, errorOdds,
	learned,
}

// Find returns the score with a name.
func Find(name string) (*Score, bool) {
	i := slices.IndexFunc(All, func(s Score) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return &All[i], true
}

// Check reports a name that is not in All.
func Check(name string) error {
	if _, ok := Find(name); !ok {
		return fmt.Errorf("there is no score %.70q, want one of %s", name, strings.Join(Names(), ", "))
	}
	return nil
}

// Names returns the names of All but the baselines.
func Names() (names []string) {
	for _, s := range All {
		if !s.Baseline {
			names = append(names, s.Name)
		}
	}
	return names
}
