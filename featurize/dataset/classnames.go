package dataset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/text"
)

// mapFolders returns the label of each folder, and whether it follows from their order only; see the package
// documentation for the rules. The folders are sorted. names, the model's classes, may be nil; k may be 0 for unknown.
func mapFolders(folders, names []string, k int) (labels []int, byOrder bool, err error) {
	if labels, err := matchClasses(folders, names); labels != nil || err != nil {
		return labels, false, err
	}
	if labels, err := byInteger(folders, k); labels != nil || err != nil {
		return labels, false, err
	}
	if k == 0 {
		k = len(names)
	}
	if k != 0 && len(folders) != k {
		return nil, false, fmt.Errorf("%d class folders (%s) for %d classes: name the folders by class name or by integer label, or give the class names with %s",
			len(folders), Some(folders), k, option.Classes)
	}
	labels = make([]int, len(folders))
	for i := range labels {
		labels[i] = i
	}
	return labels, true, nil
}

// matchClasses returns nil labels if no folder has the name of a class. Case is ignored unless class
// names differ by it only.
func matchClasses(folders, names []string) ([]int, error) {
	exact, folded, twice := map[string]int{}, map[string]int{}, map[string]int{}
	for i, n := range names {
		if _, dup := exact[n]; dup {
			twice[n] = i // an error only if a folder has this name
		} else {
			exact[n] = i
		}
		if _, dup := folded[strings.ToLower(n)]; dup {
			folded[strings.ToLower(n)] = -1
		} else {
			folded[strings.ToLower(n)] = i
		}
	}
	labels := make([]int, len(folders))
	taken := map[int]string{}
	var unknown []string
	for i, f := range folders {
		y, ok := exact[f]
		if !ok {
			y, ok = folded[strings.ToLower(f)]
		}
		if !ok || y < 0 {
			unknown = append(unknown, f)
			continue
		}
		if j, dup := twice[names[y]]; dup {
			return nil, fmt.Errorf("folder %s: the class name %q is used for both %d and %d; name the folders by integer label",
				f, names[y], y, j)
		}
		if other, dup := taken[y]; dup {
			return nil, fmt.Errorf("folders %s and %s are both class %q", other, f, names[y])
		}
		taken[y] = f
		labels[i] = y
	}
	switch {
	case len(unknown) == len(folders):
		return nil, nil
	case len(unknown) > 0:
		return nil, fmt.Errorf("%d of %d class folders are not among the %d class names: %s", len(unknown),
			len(folders), len(names), Some(unknown))
	}
	return labels, nil
}

// byInteger returns nil labels if a folder's name is not an integer.
func byInteger(folders []string, k int) ([]int, error) {
	labels := make([]int, len(folders))
	taken := map[int]string{}
	for i, f := range folders {
		y, err := strconv.Atoi(f)
		if err != nil || f[0] == '+' || f[0] == '-' {
			return nil, nil
		}
		labels[i] = y
		if other, dup := taken[y]; dup {
			return nil, fmt.Errorf("folders %s and %s are both class %d", other, f, y)
		}
		taken[y] = f
	}
	if k == 0 {
		return labels, nil
	}
	if i := slices.IndexFunc(labels, func(y int) bool { return y >= k }); i >= 0 {
		return nil, fmt.Errorf("class folder %s is outside [0,%d), the model's classes, which count from 0", folders[i], k)
	}
	return labels, nil
}

// Some lists at most the first five names.
func Some(names []string) string {
	short := make([]string, 0, 6)
	for i, name := range names {
		if i == 5 {
			short = append(short, "…")
			break
		}
		short = append(short, text.Name(name))
	}
	return strings.Join(short, ", ")
}
