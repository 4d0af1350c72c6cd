package score

import (
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

// Served is a score as predictions have it: bounded, with the fraction of validation examples that score lower and
// with a conformal p-value.
//
// With m the median on validation data, a similarity g becomes m/(m+g). Any other score s becomes, with
// z = (s-m)/scale, ½/(1-z) below the median and 1-½/(1+z) above it. Both are strictly monotone and not clipped, and
// half of the validation examples are below ½. If the score, a feature or a logit is not finite, or if the leverage
// reaches mostLeverage, it is 1.
type Served struct {
	Fitted
	Median    float64   // of the score, or of the similarity, over validation examples
	Scale     float64   // positive; not used for a similarity
	Quantiles []float64 // of the bounded score, 2 to MostQuantiles, not falling; nil if not known
	Examples  int       // the number of validation examples that have these quantiles; 0 if not known
}

// MostQuantiles bounds Served.Quantiles: steps of 1/256. Up to this number of validation examples, the quantiles are
// their scores.
const MostQuantiles = 257

// mostLeverage is where a score no longer counts. The leverage of a training example is below 1: at 1e12 an example is
// beyond a million times as far out as any of them, though its logits may look confident. Graphs clip terms in float32
// from squares of 1e28 on, which would otherwise change scores.
const mostLeverage = 1e12

// Serve standardises a score by its values on in-distribution validation examples.
func Serve(f *Fitted, values []float64) *Served {
	s := &Served{Fitted: *f, Scale: 1, Examples: len(values)}
	finite := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v-v != 0 })
	if f.Similarity {
		for i := range finite {
			finite[i] *= -1
		}
	}
	slices.Sort(finite)
	if len(finite) > 0 {
		s.Median = metrics.Quantile(finite, 0.5)
		if half := halfRange(finite); half > 0 && half-half == 0 {
			s.Scale = half
		}
	}
	if f.Similarity && !(s.Median > 0) {
		s.Median = 1
	}
	bounded := make([]float64, len(values))
	for i, v := range values {
		bounded[i] = s.Bounded(v)
	}
	slices.Sort(bounded)
	switch n := len(bounded); {
	case n == 1:
		s.Quantiles = []float64{bounded[0], bounded[0]}
	case n <= MostQuantiles:
		s.Quantiles = bounded
	default:
		s.Quantiles = make([]float64, MostQuantiles)
		for i := range s.Quantiles {
			s.Quantiles[i] = metrics.Quantile(bounded, float64(i)/float64(MostQuantiles-1))
		}
	}
	return s
}

// raiseQuantiles raises the quantiles by more than a score's rounding error. Where outputs are steps, as those of
// trees, many examples have the same score but for rounding, and would count as lower or not by chance. p-values are
// then those of slightly lower scores, and never too small.
func (s *Served) raiseQuantiles() {
	const above = 1e-7
	for i, q := range s.Quantiles {
		s.Quantiles[i] = math.Min(q+above, 1)
	}
}

// Bounded returns the bounded form of a value of the score.
func (s *Served) Bounded(value float64) float64 {
	t := terms{x: Examples{N: 1}}
	return bounded(t, s, t.Number(value), finite(t, t.Number(value))).Data[0]
}

// Values computes the bounded score of the examples, the fraction of validation examples that score lower, nil without
// quantiles, and the p-value, nil without the number of validation examples.
func (s *Served) Values(x Examples) (ood, percentile, pvalue []float64) {
	ood = make([]float64, x.N)
	if s.Quantiles != nil {
		percentile = make([]float64, x.N)
	}
	if s.Examples > 0 {
		pvalue = make([]float64, x.N)
	}
	inBlocks(x, s.Margin, func(t terms, from, to int) {
		score, known := s.oodScore(t)
		for i := range to - from {
			ood[from+i] = score.at(i, 0)
			if percentile != nil {
				percentile[from+i] = 1
				if known.at(i, 0) == 1 {
					percentile[from+i] = s.Percentile(ood[from+i])
				}
			}
			if pvalue != nil {
				at := ood[from+i]
				if known.at(i, 0) == 0 {
					at = math.Inf(1)
				}
				pvalue[from+i] = s.PValue(at)
			}
		}
	})
	return ood, percentile, pvalue
}

// PValue returns the conformal p-value of a bounded score, (1 + #{validation scores ≥ score}) / (Examples + 1), for the
// hypothesis that the example is drawn as the validation examples were (Vovk, Gammerman and Shafer, Algorithmic
// Learning in a Random World, 2005; Bates, Candès, Lei, Romano and Sesia, "Testing for outliers with conformal
// p-values", 2023). It is at least 1/(Examples + 1).
//
// Up to MostQuantiles validation examples it is exact. With more, the number of scores is bounded from above by the
// quantiles: the p-value is then too large by at most 1/256 + 1/Examples, and never too small.
//
// If validation examples and the new one are exchangeable, P(p ≤ α) ≤ α, over the draw of all of them. This assumes
// that the score does not depend on the validation examples. That of the default score does not. If the score was
// selected by these examples, or learned from them, the p-value is approximate.
func (s *Served) PValue(score float64) float64 {
	below, _ := slices.BinarySearch(s.Quantiles, score)
	return float64(1+s.atLeast(below)) / float64(1+s.Examples)
}

// atLeast is the largest possible number of validation examples with a score above the first of the quantiles, below
// of them. Quantile i is at or above the ⌊i(n-1)/(m-1)⌋ + 1 smallest of the n scores.
func (s *Served) atLeast(below int) int {
	n, m := s.Examples, len(s.Quantiles)
	if below == 0 {
		return n
	}
	return n - 1 - (below-1)*(n-1)/(m-1)
}

func (s *Served) oodScore(t Terms[Rows]) (ood, known Rows) {
	return oodScore(t, s, s.rows(t, s.Tensors))
}

// Percentile is the fraction of validation examples whose bounded score is lower, as shareOf writes it for graphs.
func (s *Served) Percentile(score float64) float64 {
	q := s.Quantiles
	// The first of equal quantiles.
	i, _ := slices.BinarySearch(q, score)
	switch {
	case i == 0:
		return 0
	case i == len(q):
		return 1
	}
	return (float64(i-1) + (score-q[i-1])/(q[i]-q[i-1])) / float64(len(q)-1)
}

// Emit writes them into a graph, [N,1]; percentile is "" without quantiles, and pvalue without the number of validation
// examples.
func (s *Served) Emit(t Terms[string]) (ood, percentile, pvalue string) {
	ood, known := oodScore(t, s, s.graph(t, s.Tensors))
	if s.Quantiles == nil {
		return ood, "", ""
	}
	quantiles, exceeded := s.Quantiles, s.Quantiles
	if t.Single() {
		quantiles, exceeded = singleQuantiles(quantiles)
	}
	rank := rankOf(t, exceeded, ood)
	percentile = shareOf(t, quantiles, rank, ood, known)
	if s.Examples > 0 {
		pvalue = pvalueOf(t, s, rank, known)
	}
	return ood, percentile, pvalue
}

// oodScore returns the bounded score of values, and known: 1 where these, the features and the logits are finite, and
// the leverage is below mostLeverage.
func oodScore[V any](t Terms[V], s *Served, value V) (ood, known V) {
	size := t.Add(t.Abs(value), t.Sum(t.Abs(t.Logits())))
	if t.D() > 0 {
		size = t.Add(size, t.Sum(t.Abs(t.Features())))
	}
	known = finite(t, size)
	if !t.Nonlinear() {
		known = t.Mul(known, t.Greater(t.Number(mostLeverage), t.Leverage()))
	}
	return bounded(t, s, value, known), known
}

// singleQuantiles are quantiles as float32 holds them, and those that a score has to exceed to be above them: of
// examples with the same score, more by a score's rounding error, so that equal scores are not higher by chance.
func singleQuantiles(sorted []float64) (rounded, exceeded []float64) {
	const equal, above = 1e-9, 1e-6 // relative
	for i, q := range sorted {
		rounded = append(rounded, float64(float32(q)))
		if i > 0 && q-sorted[i-1] < equal*q || i+1 < len(sorted) && sorted[i+1]-q < equal*q {
			q = min(q*(1+above), 1)
		}
		exceeded = append(exceeded, float64(float32(q)))
		if i > 0 {
			exceeded[i] = max(exceeded[i], exceeded[i-1])
		}
	}
	return rounded, exceeded
}

// rankOf is how many of sorted numbers are below x, which is finite. It finds the block of them in which x lies, and
// then the place there: all of them would take the memory of 257 numbers for each pixel of a map.
func rankOf[V any](t Terms[V], sorted []float64, x V) V {
	width := int(math.Ceil(math.Sqrt(float64(len(sorted)))))
	blocks := slices.Clone(sorted)
	for len(blocks)%width != 0 {
		blocks = append(blocks, 2) // above all scores, which are at most 1
	}
	var ends []float64 // of blocks but the last
	for i := width; i < len(blocks); i += width {
		ends = append(ends, blocks[i-1])
	}
	if len(ends) == 0 {
		return t.Sum(t.Greater(x, t.Constant("quantiles", blocks, width)))
	}
	block := t.Sum(t.Greater(x, t.Constant("quantile ends", ends, len(ends))))
	within := t.Sum(t.Greater(x, t.At(block, "quantiles", blocks, width)))
	return t.Add(t.Mul(block, t.Number(float64(width))), within)
}

// shareOf is the fraction of validation examples that score lower, interpolated between quantiles, and 1 where the
// score is not known. rank is how many quantiles are lower.
func shareOf[V any](t Terms[V], quantiles []float64, rank, ood, known V) V {
	n := len(quantiles)
	low, slope := make([]float64, n+1), make([]float64, n+1) // 0 below the first quantile, and above the last
	for i := 1; i < n; i++ {
		low[i] = quantiles[i-1]
		if width := quantiles[i] - low[i]; width > 0 {
			slope[i] = min(1/width, math.MaxFloat32) // of equal quantiles only the first is reached
		}
	}
	above := t.Mul(t.Sub(ood, t.At(rank, "quantiles below", low, 1)), t.At(rank, "slopes", slope, 1))
	if t.Single() { // a score just above equal quantiles is not above them all
		above = t.MinOf(above, t.Number(1))
	}
	whole := t.MaxOf(t.Sub(rank, t.Number(1)), t.Number(0))
	return t.OrOne(t.Div(t.Add(whole, above), t.Number(float64(n-1))), known)
}

// pvalueOf is [Served.PValue] for a score above so many quantiles, and the least where the score is not known.
func pvalueOf[V any](t Terms[V], s *Served, rank, known V) V {
	n := t.Number(float64(len(s.Quantiles)))
	rank = t.Add(n, t.Mul(known, t.Sub(rank, n)))
	all := make([]float64, len(s.Quantiles)+1)
	for below := range all {
		all[below] = float64(1+s.atLeast(below)) / float64(1+s.Examples)
	}
	return t.At(rank, "p-values", all, 1)
}

// finite is 1 where x is finite, else 0.
func finite[V any](t Terms[V], x V) V { return t.Greater(t.Number(math.MaxFloat64), t.Abs(x)) }

// bounded is the bounded form of a value, and 1 where it is not known.
func bounded[V any](t Terms[V], s *Served, value, known V) V {
	var ood V
	if m := t.Number(s.Median); s.Similarity {
		ood = t.Div(m, t.Sub(m, value))
	} else {
		one, half := t.Number(1), t.Number(0.5)
		z := t.Div(t.Sub(value, m), t.Number(s.Scale))
		above := t.Greater(z, t.Number(0))
		near := t.Div(half, t.Add(t.Abs(z), one))
		ood = t.Add(above, t.Mul(near, t.Sub(one, t.Add(above, above))))
	}
	return t.OrOne(ood, known)
}
