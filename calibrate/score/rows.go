package score

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Rows are numbers for N examples, row-major with Width of them each. A single row, and a single number of a row,
// broadcast.
type Rows struct {
	Data  []float64
	Width int
}

// Numbers returns the terms that compute formulas for examples, in float64.
func Numbers(x Examples) Terms[Rows] { return terms{x: x} }

type terms struct {
	x        Examples
	products *[]cachedProduct // if not nil, caches products for other formulas
}

// cachedProduct is a product of rows and a matrix.
type cachedProduct struct{ x, m, product Rows }

func (t terms) Link() layer.Link { return t.x.Link }
func (t terms) K() int           { return t.x.K }
func (t terms) D() int           { return t.x.D }
func (t terms) Single() bool     { return false }
func (t terms) Nonlinear() bool  { return t.x.Nonlinear }

func (t terms) Center() []float64 { return nil }

func (t terms) Features() Rows { return widened(t.x.Features, t.x.D) }
func (t terms) Logits() Rows   { return widened(t.x.Logits, t.x.K) }
func (t terms) Variance() Rows { return Rows{t.x.Variance, t.x.K} }
func (t terms) Leverage() Rows { return Rows{t.x.Leverage, 1} }
func (t terms) Margin() Rows   { return Rows{t.x.Margin, 1} }

func (t terms) Constant(name string, data []float64, width int) Rows {
	if width < 1 || len(data)%width != 0 {
		panic(fmt.Sprintf("score: constant %s of %d numbers with %d columns", name, len(data), width))
	}
	return Rows{data, width}
}
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
func (t terms) MinOf(x, y Rows) Rows { return t.binary(x, y, math.Min) }
func (t terms) MaxOf(x, y Rows) Rows { return t.binary(x, y, math.Max) }
func (t terms) Greater(x, y Rows) Rows {
	return t.binary(x, y, func(a, b float64) float64 {
		if a > b {
			return 1
		}
		return 0
	})
}
func (t terms) OrOne(x, known Rows) Rows { return t.binary(x, known, math.Pow) } // x⁰ = 1

func (t terms) Neg(x Rows) Rows   { return t.unary(x, func(a float64) float64 { return -a }) }
func (t terms) Abs(x Rows) Rows   { return t.unary(x, math.Abs) }
func (t terms) Exp(x Rows) Rows   { return t.unary(x, math.Exp) }
func (t terms) Log(x Rows) Rows   { return t.unary(x, math.Log) }
func (t terms) Sqrt(x Rows) Rows  { return t.unary(x, math.Sqrt) }
func (t terms) Expm1(x Rows) Rows { return t.unary(x, math.Expm1) }
func (t terms) Log1p(x Rows) Rows { return t.unary(x, math.Log1p) }

func (t terms) Max(x Rows) Rows        { return t.reduce(x, math.Max) }
func (t terms) Min(x Rows) Rows        { return t.reduce(x, math.Min) }
func (t terms) Sum(x Rows) Rows        { return t.reduce(x, func(a, b float64) float64 { return a + b }) }
func (t terms) SumSquares(x Rows) Rows { return t.Sum(t.Mul(x, x)) }
func (t terms) Mean(x Rows) Rows       { return t.Div(t.Sum(x), t.Number(float64(x.Width))) }

func (t terms) Largest(x Rows, k int) Rows {
	if k < 1 || k > x.Width {
		panic(fmt.Sprintf("score: the %d largest of %d numbers", k, x.Width))
	}
	n := len(x.Data) / x.Width
	out := Rows{make([]float64, 0, n*k), k}
	for i := range n {
		first := len(out.Data)
		for _, v := range x.Data[i*x.Width : (i+1)*x.Width] {
			largest := out.Data[first:]
			if len(largest) == k {
				if cmp.Compare(v, largest[k-1]) <= 0 {
					continue
				}
				largest = largest[:k-1]
			}
			at, _ := slices.BinarySearchFunc(largest, v, func(a, b float64) int { return cmp.Compare(b, a) })
			out.Data = slices.Insert(out.Data[:first+len(largest)], first+at, v)
		}
	}
	return out
}

func (t terms) MatMul(x, m Rows) Rows {
	if len(m.Data) != x.Width*m.Width {
		panic(fmt.Sprintf("score: product of rows of %d numbers and a matrix of %d with %d columns", x.Width, len(m.Data),
			m.Width))
	}
	n := len(x.Data) / x.Width
	out := Rows{make([]float64, n*m.Width), m.Width}
	if n == 0 {
		return out
	}
	if t.products != nil {
		for _, k := range *t.products {
			if &k.m.Data[0] == &m.Data[0] && slices.Equal(k.x.Data, x.Data) {
				return k.product
			}
		}
		defer func() { *t.products = append(*t.products, cachedProduct{x, m, out}) }()
	}
	if p := t.x.Product; p == nil || p.Multiply(out.Data, x.Data, m.Data, n, x.Width, m.Width) != nil {
		parallel.Go{}.Multiply(out.Data, x.Data, m.Data, n, x.Width, m.Width)
	}
	return out
}

func (t terms) Project(x Rows, name string, data []float64, width int) Rows {
	return t.MatMul(x, t.Constant(name, data, width))
}

func (t terms) Distances(x, rough Rows, k int, _ string, data []float64, width int) Rows {
	n := len(x.Data) / x.Width
	out := Rows{make([]float64, 0, n*k), k}
	for i := range n {
		order := make([]int, rough.Width)
		for j := range order {
			order[j] = j
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rough.at(i, a), rough.at(i, b)) })
		for _, j := range order[:k] {
			var sum float64
			for c, v := range data[j*width : (j+1)*width] {
				sum += (x.at(i, c) - v) * (x.at(i, c) - v)
			}
			out.Data = append(out.Data, sum)
		}
	}
	return out
}

func (t terms) OfLargest(x Rows, _ string, data []float64, width int) Rows {
	n := len(x.Data) / x.Width
	out := Rows{make([]float64, 0, n*width), width}
	for i := range n {
		c := 0
		for j := range x.Width {
			if x.at(i, j) > x.at(i, c) {
				c = j
			}
		}
		out.Data = append(out.Data, data[c*width:(c+1)*width]...)
	}
	return out
}

func (t terms) OfClass(_ string, data []float64, width int) Rows {
	k := t.x.K
	out := Rows{make([]float64, 0, t.x.N*width), width}
	for i := range t.x.N {
		a, c := t.x.Logits[i*k:(i+1)*k], 0
		for j, v := range a {
			if v > a[c] {
				c = j
			}
		}
		if k == 1 && a[0] > 0 {
			c = 1
		}
		out.Data = append(out.Data, data[c*width:(c+1)*width]...)
	}
	return out
}

func (t terms) At(number Rows, _ string, data []float64, width int) Rows {
	out := Rows{make([]float64, 0, len(number.Data)*width), width}
	for _, i := range number.Data {
		out.Data = append(out.Data, data[int(i)*width:(int(i)+1)*width]...)
	}
	return out
}

// at returns a number, broadcasting.
func (r Rows) at(example, j int) float64 {
	row, column := r.steps()
	return r.Data[example*row+j*column]
}

func (t terms) unary(x Rows, f func(float64) float64) Rows {
	out := Rows{make([]float64, len(x.Data)), x.Width}
	for i, v := range x.Data {
		out.Data[i] = f(v)
	}
	return out
}

func (t terms) binary(x, y Rows, f func(a, b float64) float64) Rows {
	width, n := max(x.Width, y.Width), max(len(x.Data)/x.Width, len(y.Data)/y.Width)
	if x.Width != width && x.Width != 1 || y.Width != width && y.Width != 1 {
		panic(fmt.Sprintf("score: rows of %d and of %d numbers", x.Width, y.Width))
	}
	out := Rows{make([]float64, n*width), width}
	xRow, xColumn := x.steps()
	yRow, yColumn := y.steps()
	for i := range n {
		row := out.Data[i*width : (i+1)*width]
		for j := range row {
			row[j] = f(x.Data[i*xRow+j*xColumn], y.Data[i*yRow+j*yColumn])
		}
	}
	return out
}

// steps are the strides of rows and numbers, 0 where one broadcasts.
func (r Rows) steps() (row, column int) {
	if len(r.Data) > r.Width {
		row = r.Width
	}
	if r.Width > 1 {
		column = 1
	}
	return row, column
}

func (t terms) reduce(x Rows, f func(a, b float64) float64) Rows {
	n := len(x.Data) / x.Width
	out := Rows{make([]float64, n), 1}
	for i := range n {
		row := x.Data[i*x.Width : (i+1)*x.Width]
		out.Data[i] = row[0]
		for _, v := range row[1:] {
			out.Data[i] = f(out.Data[i], v)
		}
	}
	return out
}

func widened(x []float32, width int) Rows {
	data := make([]float64, len(x))
	for i, v := range x {
		data[i] = float64(v)
	}
	return Rows{data, width}
}
