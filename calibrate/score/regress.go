package score

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// penalty is that of a regression's weights: ½·penalty·|w|² is added to the mean loss.
const penalty = 0.01

// regress fits a logistic regression of out-of-distribution rows of d numbers against in-distribution ones, each kind
// with half of the weight, penalised weights and none of them negative. It returns the weights without the intercept.
//
// The loss is convex. Newton steps in the free weights are projected onto the feasible set (Bertsekas 1982).
func regress(in, out [][]float64, d int) ([]float64, error) {
	if len(in) == 0 || len(out) == 0 {
		return nil, errors.New("no example has finite values of all scores")
	}
	l := &loss{in: in, out: out, d: d}
	w := make([]float64, d+1) // the last is the intercept
	value, slope, curvature := l.at(w)
	for range 100 {
		step, decrease := l.newton(w, slope, curvature)
		if !(decrease > 1e-14*value) {
			break
		}
		next, least := make([]float64, d+1), value
		for size := 1.0; size > 1e-10; size /= 2 {
			for j := range next {
				if next[j] = w[j] - size*step[j]; j < d {
					next[j] = math.Max(0, next[j])
				}
			}
			if least = l.value(next); least < value {
				break
			}
		}
		if !(least < value) {
			break
		}
		w = next
		value, slope, curvature = l.at(w)
	}
	for _, v := range w[:d] {
		if v > 0 {
			return w[:d], nil
		}
	}
	return nil, errors.New("no score is higher for the OOD examples than for the in-distribution ones")
}

// loss is the loss of a regression.
type loss struct {
	in, out [][]float64
	d       int
}

// each calls f with every row, followed by 1, its target and its weight.
func (l *loss) each(f func(row []float64, target, weight float64)) {
	row := make([]float64, l.d+1)
	row[l.d] = 1
	for target, rows := range [][][]float64{l.in, l.out} {
		for _, r := range rows {
			copy(row, r)
			f(row, float64(target), 0.5/float64(len(rows)))
		}
	}
}

func (l *loss) value(w []float64) (sum float64) {
	for _, v := range w[:l.d] {
		sum += penalty / 2 * v * v
	}
	l.each(func(row []float64, target, weight float64) {
		s := floats.Dot(w, row)
		sum += weight * (math.Max(s, 0) + math.Log1p(math.Exp(-math.Abs(s))) - target*s)
	})
	return sum
}

// at returns the loss and its derivatives.
func (l *loss) at(w []float64) (value float64, slope []float64, curvature *mat.SymDense) {
	n := l.d + 1
	slope, curvature = make([]float64, n), mat.NewSymDense(n, nil)
	for j, v := range w[:l.d] {
		slope[j] = penalty * v
		curvature.SetSym(j, j, penalty)
	}
	l.each(func(row []float64, target, weight float64) {
		p := 1 / (1 + math.Exp(-floats.Dot(w, row)))
		for i, x := range row {
			slope[i] += weight * (p - target) * x
			for j := i; j < n; j++ {
				curvature.SetSym(i, j, curvature.At(i, j)+weight*p*(1-p)*x*row[j])
			}
		}
	})
	return l.value(w), slope, curvature
}

// newton returns the step to subtract, and the slope of the loss along it. Weights at zero that would become negative
// are fixed.
func (l *loss) newton(w, slope []float64, curvature *mat.SymDense) (step []float64, decrease float64) {
	var free []int
	for j := range w {
		if j == l.d || w[j] > 0 || slope[j] < 0 {
			free = append(free, j)
		}
	}
	h, g := mat.NewSymDense(len(free), nil), mat.NewVecDense(len(free), nil)
	for a, i := range free {
		g.SetVec(a, slope[i])
		for b := a; b < len(free); b++ {
			h.SetSym(a, b, curvature.At(i, free[b]))
		}
		h.SetSym(a, a, h.At(a, a)+1e-12) // singular if all probabilities are 0 or 1
	}
	step = make([]float64, len(w))
	var factor mat.Cholesky
	var x mat.VecDense
	if !factor.Factorize(h) || factor.SolveVecTo(&x, g) != nil {
		x.CloneFromVec(g)
	}
	for a, i := range free {
		step[i] = x.AtVec(a)
		decrease += step[i] * slope[i]
	}
	return step, decrease
}
