package fuse

import "github.com/mfgs/mfgs/featurize/tensor"

// Score is an output of one number an example.
type Score struct {
	Name   string
	Double bool // float64, else float32
	// Emit writes the formula over the terms, and returns what holds the result, [N,1].
	Emit func(*Terms) string
}

// Terms are what scores are made of: tensors of the graph by their names, and operators on them,
// which compute in float64. Values are [N,1] or [N,K]; a number stands for all.
type Terms struct {
	f                                  *fuser
	logits, variance, leverage, margin string
	doubles                            map[string]string // of float32 terms, "" until one is cast
}

func newTerms(f *fuser, logits, variance, leverage, margin string) *Terms {
	return &Terms{f, logits, variance, leverage, margin, map[string]string{logits: "", variance: "", leverage: ""}}
}

// Logits returns the network's own logits, [N,K].
func (t *Terms) Logits() string { return t.logits }

// Variance returns the variances of the logits under the posterior, at T_ens = 1, [N,K].
func (t *Terms) Variance() string { return t.variance }

// Leverage returns the last of the quadratic forms, [N,1].
func (t *Terms) Leverage() string { return t.leverage }

// Margin returns the margin of 1 - max p under the pair OOD, [N,1].
func (t *Terms) Margin() string { return t.margin }

// MedianMargin returns that of a usual example.
func (t *Terms) MedianMargin() string { return t.f.number(t.f.mf.MedianMargin) }

// Number returns a constant.
func (t *Terms) Number(x float64) string { return t.f.number(x) }

// The operators act element by element.

func (t *Terms) Add(x, y string) string { return t.f.binary("Add", t.double(x), t.double(y)) }
func (t *Terms) Sub(x, y string) string { return t.f.binary("Sub", t.double(x), t.double(y)) }
func (t *Terms) Mul(x, y string) string { return t.f.binary("Mul", t.double(x), t.double(y)) }
func (t *Terms) Div(x, y string) string { return t.f.binary("Div", t.double(x), t.double(y)) }
func (t *Terms) Exp(x string) string    { return t.f.unary("Exp", t.double(x)) }
func (t *Terms) Log(x string) string    { return t.f.unary("Log", t.double(x)) }
func (t *Terms) Sqrt(x string) string   { return t.f.unary("Sqrt", t.double(x)) }

// Max and the two below are over the logits: [N,1] of [N,K].
func (t *Terms) Max(x string) string  { return t.f.reduce("ReduceMax", t.double(x), 1, true) }
func (t *Terms) Sum(x string) string  { return t.f.reduce("ReduceSum", t.double(x), 1, true) }
func (t *Terms) Mean(x string) string { return t.f.reduce("ReduceMean", t.double(x), 1, true) }

// double casts a float32 term when it is first asked for.
func (t *Terms) double(x string) string {
	cast, single := t.doubles[x]
	if !single {
		return x
	}
	if cast == "" {
		cast = t.f.cast(x, tensor.Float64)
		t.doubles[x] = cast
	}
	return cast
}

// scores makes the outputs of the scores, [N] each.
func (f *fuser) scores(t *Terms, outputs Outputs) {
	for i, s := range f.mf.Scores {
		x := s.Emit(t)
		if _, single := t.doubles[x]; s.Double {
			x = t.double(x)
		} else if !single {
			x = f.cast(x, tensor.Float32)
		}
		f.as(outputs[i].Name, func() string { return f.reshape(x, -1) })
	}
}
