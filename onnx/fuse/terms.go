package fuse

import "github.com/mfgs/mfgs/featurize/tensor"

// Score is an output of one number an example.
type Score struct {
	Name   string
	Double bool // float64, else float32
	// Emit writes the formula over the terms, and returns what holds the result, float64 [N,1].
	Emit func(*Terms) string
}

// Terms are what scores are made of: tensors of the graph by their names, all float64, and
// operators on them. Values are [N,1] or [N,K]; a number stands for all.
type Terms struct {
	f                                  *fuser
	logits, variance, leverage, margin string
	doubles                            map[string]string // what was cast, by its name
}

// Logits returns the network's own logits, [N,K].
func (t *Terms) Logits() string { return t.double(t.logits) }

// Variance returns the variances of the logits under the posterior, at T_ens = 1, [N,K].
func (t *Terms) Variance() string { return t.double(t.variance) }

// Leverage returns the last of the quadratic forms, [N,1].
func (t *Terms) Leverage() string { return t.double(t.leverage) }

// Margin returns the margin of 1 - max p under the pair OOD, [N,1].
func (t *Terms) Margin() string { return t.margin }

// MedianMargin returns that of a usual example.
func (t *Terms) MedianMargin() string { return t.f.number(t.f.mf.MedianMargin) }

// double casts a term when it is first asked for.
func (t *Terms) double(x string) string {
	if t.doubles[x] == "" {
		t.doubles[x] = t.f.cast(x, tensor.Float64)
	}
	return t.doubles[x]
}

func (t *Terms) Number(x float64) string { return t.f.number(x) }

func (t *Terms) Add(x, y string) string { return t.f.binary("Add", x, y) }
func (t *Terms) Sub(x, y string) string { return t.f.binary("Sub", x, y) }
func (t *Terms) Mul(x, y string) string { return t.f.binary("Mul", x, y) }
func (t *Terms) Div(x, y string) string { return t.f.binary("Div", x, y) }
func (t *Terms) Exp(x string) string    { return t.f.unary("Exp", x) }
func (t *Terms) Log(x string) string    { return t.f.unary("Log", x) }
func (t *Terms) Sqrt(x string) string   { return t.f.unary("Sqrt", x) }

func (t *Terms) Max(x string) string  { return t.f.reduce("ReduceMax", x, 1, true) }
func (t *Terms) Sum(x string) string  { return t.f.reduce("ReduceSum", x, 1, true) }
func (t *Terms) Mean(x string) string { return t.f.reduce("ReduceMean", x, 1, true) }

// scores makes the outputs of the scores, [N] each.
func (f *fuser) scores(t *Terms, outputs Outputs) {
	for i, s := range f.mf.Scores {
		x := s.Emit(t)
		if !s.Double {
			x = f.cast(x, tensor.Float32)
		}
		f.as(outputs[i].Name, func() string { return f.reshape(x, -1) })
	}
}
