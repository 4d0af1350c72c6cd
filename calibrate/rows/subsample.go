package rows

// A subsample of m of n examples has one from each of m equal runs of them, so that data sorted by class keep
// their proportions. Limits on what is read or tuned on take the last of each run ([InSubsample]); scores and the
// comparison of methods take the first ([Firsts]). The numbers in bundles and reports depend on the picks, so
// both remain.

// InSubsample reports whether example i of n is the last of one of m ≤ n runs.
func InSubsample(i, n, m int) bool { return i*m/n != (i+1)*m/n }

// SubsampledBefore returns how many of the first i of n examples are [InSubsample].
func SubsampledBefore(i, n, m int) int { return i * m / n }

// Subsample returns the examples that are [InSubsample], or b itself if it is nil or has no more than m.
func (b *Batch) Subsample(m int) *Batch {
	if b == nil || b.N <= m {
		return b
	}
	var which []int
	for i := range b.N {
		if InSubsample(i, b.N, m) {
			which = append(which, i)
		}
	}
	return b.Pick(which)
}

// Firsts returns the first of each of m ≤ n runs of n examples.
func Firsts(n, m int) []int {
	which := make([]int, m)
	for j := range which {
		which[j] = j * n / m
	}
	return which
}
