// Package score lists the scores of unfamiliarity: one number an example, larger for what
// is less like the training data.
//
// A [Score] is one entry of [All] and stands in a file of its own. Its formula is written
// once, over [Terms], and serves twice: [Score.Values] computes it in float64 from what a
// calibration gives, and the fused ONNX graph is written by the same function over the
// names of tensors. JSON keys, CSV columns, graph outputs, metadata, tables and the methods
// of an evaluation follow from the list.
package score

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// All are the scores in the order in which they are shown.
var All = []Score{oodScore, leverage}

// A Score is one score of unfamiliarity.
type Score struct {
	Name string // key in JSON, column in CSV, output of the graph
	Doc  string // one line for tables and help

	// Bounded says that the score is in (0,1].
	Bounded bool
	// Double says that float32 has too few digits for it: the graph gives float64.
	Double bool

	// The formula, instantiated for numbers and for names of tensors in a graph.
	rows  func(Terms[Rows]) Rows
	graph func(Terms[string]) string
}

// Emit writes the formula into a graph and returns the name of the result, [N,1].
func (s Score) Emit(t Terms[string]) string { return s.graph(t) }

// Values computes the score of the examples, one number each.
func (s Score) Values(x Examples) []float64 {
	x.check()
	values := s.rows(terms{x})
	if len(values.Data) != x.N {
		panic(fmt.Sprintf("score: %s gives %d numbers for %d examples", s.Name, len(values.Data), x.N))
	}
	return values.Data
}

// Index returns the place in All of the score with a name, or -1.
func Index(name string) int {
	return slices.IndexFunc(All, func(s Score) bool { return s.Name == name })
}

// EncodeJSON writes an object and behind its own fields one for each of All, by its name; a nil
// value is left out. Like an encoder without HTML it leaves <, > and & as they are.
func EncodeJSON(w *bytes.Buffer, object any, value func(i int) any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(object); err != nil {
		return err
	}
	w.Truncate(w.Len() - len("}\n"))
	for i, s := range All {
		v := value(i)
		if v == nil {
			continue
		}
		if w.Bytes()[w.Len()-1] != '{' {
			w.WriteByte(',')
		}
		w.WriteByte('"')
		w.WriteString(s.Name)
		w.WriteString(`":`)
		if x, ok := v.(*float64); ok && finite(*x) {
			w.Write(appendFloat(w.AvailableBuffer(), *x))
			continue
		}
		if err := e.Encode(v); err != nil {
			return err
		}
		w.Truncate(w.Len() - len("\n"))
	}
	return w.WriteByte('}')
}

func finite(x float64) bool { return x-x == 0 }

// appendFloat writes a number as package json does, in less time.
func appendFloat(b []byte, x float64) []byte {
	size := math.Abs(x)
	if size == 0 || size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(b, x, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, x, 'e', -1, 64)
	if n := len(b); b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' { // 1e-09 is 1e-9
		b[n-2], b = b[n-1], b[:n-1]
	}
	return b
}

// Terms are what formulas are made of: the values that an example has and operations on them. A
// value has a row for each of the N examples: one number, or one for each of the K logits.
// Operations on two values act element by element; a single number stands for each of K.
type Terms[V any] interface {
	Logits() V       // [N,K], the network's own
	Variance() V     // [N,K], of the logits under the posterior, at T_ens = 1
	Leverage() V     // [N,1], φᵀ(A+δI)⁻¹φ
	Margin() V       // [N,1], of 1 - max p under the temperatures for out-of-distribution data (package meanfield)
	MedianMargin() V // its median over held-out examples in distribution

	Number(x float64) V
	Add(x, y V) V
	Sub(x, y V) V
	Mul(x, y V) V
	Div(x, y V) V
	Exp(x V) V
	Log(x V) V
	Sqrt(x V) V

	// Over the logits: [N,1] of [N,K].
	Max(x V) V
	Sum(x V) V
	Mean(x V) V
}

// Examples are what a calibration gives of N examples with K logits, row-major.
type Examples struct {
	N, K         int
	Logits       []float32 // [N,K]
	Variance     []float64 // [N,K]
	Leverage     []float64 // [N]
	Margin       []float64 // [N]
	MedianMargin float64   // positive
}

func (x Examples) check() {
	if n := x.N; len(x.Logits) != n*x.K || len(x.Variance) != n*x.K || len(x.Leverage) != n || len(x.Margin) != n {
		panic(fmt.Sprintf("score: %d logits, %d variances, %d leverages and %d margins for %d examples of %d logits",
			len(x.Logits), len(x.Variance), len(x.Leverage), len(x.Margin), n, x.K))
	}
}
