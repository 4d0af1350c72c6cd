package text

import "strings"

// Nearest returns up to three names that got may be a misspelling of: those the fewest edits away, at most a
// third of the letters, or else those with got as prefix.
func Nearest(got string, names []string) []string {
	const most = 3
	got = fold(got)
	var near, longer []string
	least := max(1, len(got)/3)
	for _, name := range names {
		switch d := edits(got, fold(name)); {
		case d < least:
			near, least = []string{name}, d
		case d == least && d < len(got):
			near = append(near, name)
		}
		if len(got) > 1 && strings.HasPrefix(fold(name), got) {
			longer = append(longer, name)
		}
	}
	if near == nil {
		near = longer
	}
	if len(near) > most {
		return nil
	}
	return near
}

// fold maps a_b to a-b, and capitals to small letters.
func fold(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// edits returns how many letters must be inserted, deleted, changed or swapped with their neighbour to turn a
// into b: the optimal string alignment distance.
func edits(a, b string) int {
	// Rows of the table of distances between the first letters of a and those of b.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
