package external

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Why a posterior is refused, beside the errors of package safetensors.
var (
	ErrNames  = errors.New("not the tensors of a posterior")
	ErrShape  = errors.New("the shape does not fit the model's last layer")
	ErrNumber = errors.New("not a finite number")
)

// reader reads the tensors of a file into a posterior.
type reader struct {
	*Posterior
	file      *safetensors.File
	shapes    map[string][]int
	taken     map[string]bool
	rounding  float64 // of the coarsest type that was read, relative
	biasFirst bool
}

func newReader(f *safetensors.File, p *Posterior) *reader {
	r := &reader{Posterior: p, file: f, shapes: map[string][]int{}, taken: map[string]bool{}, rounding: 0x1p-52}
	for _, t := range f.Tensors() {
		r.shapes[t.Name] = t.Shape
	}
	return r
}

// programs are tried in this order. The tensor mark says that a file is of a program, which also keeps the tensors
// unused, that do not matter.
var programs = []struct {
	name   string
	marks  []string
	unused []string
	read   func(*reader) error
}{
	{"laplace-torch", []string{"H", "H.0.0"}, []string{"loss", "prior_mean", "n_data", "n_outputs"}, (*reader).laplace},
	{"vbll", []string{"W_mean"}, nil, (*reader).vbll},
	{"sngp", []string{"beta.weight"}, []string{"precision", "is_fit", "max_variance"}, (*reader).sngp},
	{"", []string{"covariance", "precision"}, nil, (*reader).any},
}

func (r *reader) read() error {
	switch bias := r.file.Metadata()["bias"]; bias {
	case "", "last":
	case "first":
		r.biasFirst = true
	default:
		return fmt.Errorf("metadata bias %.40q, want last or first", bias)
	}
	for _, p := range programs {
		if !slices.ContainsFunc(p.marks, r.has) {
			continue
		}
		r.Program = p.name
		if err := p.read(r); err != nil {
			return err
		}
		for _, t := range r.file.Tensors() {
			if !r.taken[t.Name] && !slices.Contains(p.unused, t.Name) {
				return fmt.Errorf("tensor %.70q: %w: it is unknown beside %s: leave it out", t.Name, ErrNames, p.marks[0])
			}
		}
		return nil
	}
	var marks []string
	for _, p := range programs {
		marks = append(marks, p.marks...)
	}
	_, err := r.file.Lookup(marks[0])
	return fmt.Errorf("%w: want one of %s: %w", ErrNames, strings.Join(marks, ", "), err)
}

func (r *reader) has(name string) bool {
	_, ok := r.shapes[name]
	return ok
}

// tensor reads a tensor that must have one of some shapes, and says which.
func (r *reader) tensor(name string, shapes ...[]int) (data []float64, which int, err error) {
	info, err := r.file.Lookup(name)
	if err != nil {
		return nil, 0, err
	}
	which = slices.IndexFunc(shapes, func(s []int) bool { return slices.Equal(s, info.Shape) })
	if which < 0 {
		return nil, 0, fmt.Errorf("tensor %q: %w: %v, want %s for %d logits and %d features", name, ErrShape, info.Shape,
			strings.Join(strings.Fields(fmt.Sprint(shapes)), " "), r.head.Logits, r.head.Features)
	}
	switch info.Type {
	case tensor.Float32:
		single, err := safetensors.Read[float32](r.file, name)
		if err != nil {
			return nil, 0, err
		}
		data = make([]float64, len(single))
		for i, v := range single {
			data[i] = float64(v)
		}
		r.rounding = 0x1p-23
	default:
		if data, err = safetensors.Read[float64](r.file, name); err != nil {
			return nil, 0, fmt.Errorf("%w or F32", err)
		}
	}
	for i, v := range data {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, 0, fmt.Errorf("tensor %q: entry %d: %w: %v", name, i, ErrNumber, v)
		}
	}
	r.taken[name] = true
	return data, which, nil
}

// matrix reads a symmetric matrix of order n.
func (r *reader) matrix(name string, n, most int) ([]float64, error) {
	if err := order(name, n, most); err != nil {
		return nil, err
	}
	m, _, err := r.tensor(name, []int{n, n})
	if err != nil {
		return nil, err
	}
	return m, symmetrise(name, m, n)
}

func order(name string, n, most int) error {
	if n > most {
		return fmt.Errorf("tensor %q: a matrix of order %d, and at most %d is read: use a posterior with Kronecker factors or a diagonal", name, n, most)
	}
	return nil
}

// number reads a single positive number, 1 if it is not there.
func (r *reader) number(name string) (float64, error) {
	if !r.has(name) {
		return 1, nil
	}
	v, _, err := r.tensor(name, nil, []int{1})
	if err != nil {
		return 0, err
	}
	return v[0], positive(name, v)
}

func positive(name string, list []float64) error {
	for i, v := range list {
		if !(v > 0) {
			return fmt.Errorf("tensor %q: entry %d is %v, want a positive number", name, i, v)
		}
	}
	return nil
}

// sizes returns n for vectors of all weights and, for those of W alone, which comes first if there is no bias.
func (r *reader) sizes() (all, weights int) {
	k := r.head.Logits
	return k * r.head.Dim(), k * r.head.Features
}

// place returns where a vector of n has the weight of a logit and augmented feature, or -1.
func (r *reader) place(n, logit, feature int) int {
	k, d := r.head.Logits, r.head.Features
	switch constant := n == k*d; {
	case feature == d && constant:
		return -1
	case feature == d && r.biasFirst:
		return logit
	case feature == d:
		return k*d + logit
	case r.biasFirst && !constant:
		return k + logit*d + feature
	}
	return logit*d + feature
}

// setMean sets the mean from a vector of all weights.
func (r *reader) setMean(v []float64) {
	k, d := r.head.Logits, r.head.Features
	r.w = make([]float64, 0, k*d)
	for i := range k {
		for j := range d {
			r.w = append(r.w, v[r.place(len(v), i, j)])
		}
		if len(v) > k*d {
			r.b = append(r.b, v[r.place(len(v), i, d)])
		}
	}
}

// readMean reads the mean from the tensors of W and b; optional says that the first may be left out.
func (r *reader) readMean(weight, bias string, optional bool) (err error) {
	k, d := r.head.Logits, r.head.Features
	if optional && !r.has(weight) {
		return nil
	}
	if r.w, _, err = r.tensor(weight, []int{k, d}); err != nil {
		return err
	}
	if r.has(bias) {
		r.b, _, err = r.tensor(bias, []int{k})
	}
	return err
}

// setDiagonal sets a diagonal covariance from the variances of all weights.
func (r *reader) setDiagonal(v []float64) {
	k, d := r.head.Logits, r.head.Dim()
	r.Form, r.axes = Diagonal, &axes{qa: identity(d), v: make([]float64, d*k)}
	for i := range d {
		for j := range k {
			if at := r.place(len(v), j, i); at >= 0 {
				r.axes.v[i*k+j] = v[at]
			}
		}
	}
}

func identity(n int) []float64 {
	m := make([]float64, n*n)
	for i := range n {
		m[i*n+i] = 1
	}
	return m
}

// setFull sets a covariance of all weights, of order n.
func (r *reader) setFull(sigma []float64, n int) {
	k, d := r.head.Logits, r.head.Dim()
	places := make([]int, 0, k*d)
	for i := range k {
		for j := range d {
			places = append(places, r.place(n, i, j))
		}
	}
	r.Form, r.sigma, r.blocks = Full, make([]float64, k*d*k*d), make([]float64, 0, k*d*d)
	for a, from := range places {
		row := r.sigma[a*k*d : (a+1)*k*d]
		for b, to := range places {
			if from >= 0 && to >= 0 {
				row[b] = sigma[from*n+to]
			}
		}
		logit := a / d
		r.blocks = append(r.blocks, row[logit*d:(logit+1)*d]...)
	}
	if r.head.Link == layer.Softmax {
		return
	}
	r.sigma = nil // separate logits have variances alone
}

// rows returns a matrix of order m, d or D, as one of order D, with the bias last.
func (r *reader) rows(c []float64, m int) []float64 {
	d := r.head.Dim()
	if m == d && !(r.biasFirst && r.head.Bias) {
		return c
	}
	out := make([]float64, d*d)
	at := func(i int) int { // in c
		switch {
		case m < d && i == m:
			return -1
		case m == d && i == d-1:
			return 0
		case m == d:
			return i + 1
		}
		return i
	}
	for i := range d {
		for j := range d {
			if a, b := at(i), at(j); a >= 0 && b >= 0 {
				out[i*d+j] = c[a*m+b]
			}
		}
	}
	return out
}

// setShared sets the covariance of order m that every logit has.
func (r *reader) setShared(name string, c []float64, m int) error {
	d, k := r.head.Dim(), r.head.Logits
	q, lambda, err := spectrum(name, r.rows(c, m), d, r.rounding)
	if err != nil {
		return err
	}
	r.Form, r.axes = Shared, &axes{qa: q, v: make([]float64, 0, d*k)}
	for _, v := range lambda {
		r.axes.v = append(r.axes.v, slices.Repeat([]float64{v}, k)...)
	}
	return nil
}
