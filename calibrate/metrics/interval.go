package metrics

// Interval is a confidence interval: its lower and its upper end.
type Interval [2]float64

// Quantile interpolates linearly between the order statistics of sorted x, of which there must be at least
// one: numpy's default, R's type 7. q is in [0,1].
func Quantile(x []float64, q float64) float64 {
	h := q * float64(len(x)-1)
	i := int(h)
	if i+1 >= len(x) {
		return x[len(x)-1]
	}
	if x[i] == x[i+1] { // equal infinities have no difference
		return x[i]
	}
	return x[i] + (h-float64(i))*(x[i+1]-x[i])
}
