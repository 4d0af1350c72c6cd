package score

import "slices"

// All are the scores that can be asked for by name, in the order of tables.
var All = []Score{
	studentized, mf0, leverage,
	maxLogit, energy, gen, entropy, studentizedEnergy, marginLeverage,
	react, ash, fdbd, mahalanobis, relativeMahalanobis, residual, vim, knn,
	learned,
}

// Find returns the score with a name.
func Find(name string) (Score, bool) {
	i := slices.IndexFunc(All, func(s Score) bool { return s.Name == name })
	if i < 0 {
		return Score{}, false
	}
	return All[i], true
}

// Names lists those of All.
func Names() []string {
	names := make([]string, len(All))
	for i, s := range All {
		names[i] = s.Name
	}
	return names
}
