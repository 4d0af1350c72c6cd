package score

import "math"

// Rows are numbers for N examples, [N,Width] row-major with Width 1 or K. One number alone
// stands for all examples.
type Rows struct {
	Data  []float64
	Width int
}

// terms evaluates formulas in float64.
type terms struct{ x Examples }

func (t terms) Logits() Rows {
	data := make([]float64, len(t.x.Logits))
	for i, v := range t.x.Logits {
		data[i] = float64(v)
	}
	return Rows{data, t.x.K}
}

func (t terms) Variance() Rows        { return Rows{t.x.Variance, t.x.K} }
func (t terms) Leverage() Rows        { return Rows{t.x.Leverage, 1} }
func (t terms) Margin() Rows          { return Rows{t.x.Margin, 1} }
func (t terms) MedianMargin() Rows    { return t.Number(t.x.MedianMargin) }
func (t terms) Number(x float64) Rows { return Rows{[]float64{x}, 1} }
func (t terms) Add(x, y Rows) Rows {
	return t.binary(x, y, func(a, b float64) float64 { return a + b })
}
func (t terms) Sub(x, y Rows) Rows {
	return t.binary(x, y, func(a, b float64) float64 { return a - b })
}
func (t terms) Mul(x, y Rows) Rows {
	return t.binary(x, y, func(a, b float64) float64 { return a * b })
}
func (t terms) Div(x, y Rows) Rows {
	return t.binary(x, y, func(a, b float64) float64 { return a / b })
}
func (t terms) Exp(x Rows) Rows {
	return t.binary(x, x, func(a, _ float64) float64 { return math.Exp(a) })
}
func (t terms) Log(x Rows) Rows {
	return t.binary(x, x, func(a, _ float64) float64 { return math.Log(a) })
}
func (t terms) Sqrt(x Rows) Rows {
	return t.binary(x, x, func(a, _ float64) float64 { return math.Sqrt(a) })
}
func (t terms) Max(x Rows) Rows  { return t.reduce(x, math.Max) }
func (t terms) Sum(x Rows) Rows  { return t.reduce(x, func(a, b float64) float64 { return a + b }) }
func (t terms) Mean(x Rows) Rows { return t.Div(t.Sum(x), t.Number(float64(x.Width))) }

// at broadcasts: one number stands for all logits, and one alone for all examples.
func (r Rows) at(example, k int) float64 {
	if len(r.Data) == 1 {
		return r.Data[0]
	}
	return r.Data[example*r.Width+min(k, r.Width-1)]
}

func (t terms) binary(x, y Rows, f func(a, b float64) float64) Rows {
	width := max(x.Width, y.Width)
	out := Rows{make([]float64, t.x.N*width), width}
	for i := range out.Data {
		out.Data[i] = f(x.at(i/width, i%width), y.at(i/width, i%width))
	}
	return out
}

func (t terms) reduce(x Rows, f func(a, b float64) float64) Rows {
	out := Rows{make([]float64, t.x.N), 1}
	for i := range out.Data {
		out.Data[i] = x.at(i, 0)
		for k := 1; k < x.Width; k++ {
			out.Data[i] = f(out.Data[i], x.at(i, k))
		}
	}
	return out
}
