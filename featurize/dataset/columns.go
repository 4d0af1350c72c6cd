package dataset

import (
	"fmt"
	"slices"
)

// mostNamed bounds the columns whose names are known: bundles keep them.
const mostNamed = 1 << 12

// InOrder returns the places among names of the columns of a table that feed an input together: those of o.Columns,
// else all. known are their names, nil if some are empty or repeated, or if there are too many.
func InOrder(names []string, o Options) (places []int, known []string, err error) {
	if o.Columns == nil {
		for i := range names {
			places = append(places, i)
		}
		sorted := slices.Sorted(slices.Values(names))
		if len(names) <= mostNamed && len(slices.Compact(sorted)) == len(names) && sorted[0] != "" {
			known = names
		}
		return places, known, nil
	}
	for _, want := range o.Columns {
		i := slices.Index(names, want)
		if i < 0 {
			return nil, nil, fmt.Errorf("no column %q, which the model's input was calibrated with; there are %s", want, Some(names))
		}
		if slices.Contains(names[i+1:], want) {
			return nil, nil, fmt.Errorf("two columns are called %q", want)
		}
		places = append(places, i)
	}
	return places, o.Columns, nil
}
