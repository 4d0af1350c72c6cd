package featurize

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A network with logits for each step of an example, such as each token of a sentence, is calibrated on one step of
// each example, and then answers for all of them. One, because the steps of an example depend on each other:
// statistics that take them for independent are too certain. Which one is drawn by the example's position, from the
// steps that have a label or, without labels, from those that count.

// drawsSteps reports whether the network gives one step of each example.
func (w *Network) drawsSteps() bool { return w.cut != nil && w.cut.steps > 0 }

// stepInput returns the input that says which step of each example is wanted.
func (w *Network) stepInput(drawn []int64) tensor.Tensor {
	return tensor.Tensor{Name: w.cut.stepInput, Shape: []int64{int64(len(drawn))}, Data: drawn}
}

// draw draws a step of a decoded example, whose label becomes that of the record. A label map gets the geometry of the
// preprocessed image first. The error is a *dataset.RecordError.
func (w *Network) draw(r *record, ex *dataset.Example) error {
	if !w.HasSteps() {
		return nil
	}
	s := &r.steps
	s.counts = counting(ex, w.mask)
	if err := s.label(ex, r.part); err != nil {
		return &dataset.RecordError{Name: ex.Name, Index: ex.Index, Err: err}
	}
	random := rows.Hash(r.position) >> 1 // not negative as an int
	r.label = -1
	switch at := s.choose(random); {
	case at >= 0:
		if s.drawn = at; s.labels != nil {
			r.label = int(s.labels[at])
		}
	case s.labels != nil:
		return &dataset.RecordError{Name: ex.Name, Index: ex.Index, Err: errNoneLeft}
	default:
		s.drawn = int(random)
	}
	if w.drawsSteps() {
		s.labels, s.counts = nil, nil // those of a batch of maps would take as much memory as its images
	}
	return nil
}

// choose draws a step: of those with a label that count or, if none does, of those with a label; without labels of
// those that count. It is -1 if there is none, as where all count, whose number is not known yet.
func (s *recordSteps) choose(random uint64) int {
	if s.labels == nil {
		return pick(len(s.counts), random, func(i int) bool { return s.counts[i] })
	}
	labelled := func(i int) bool { return s.labels[i] >= 0 }
	if len(s.counts) == len(s.labels) {
		at := pick(len(s.labels), random, func(i int) bool { return labelled(i) && s.counts[i] })
		if at >= 0 {
			return at
		}
	}
	return pick(len(s.labels), random, labelled)
}

// pick returns one of the numbers below n that may be drawn, -1 if none may.
func pick(n int, random uint64, may func(int) bool) int {
	number := uint64(0)
	for i := range n {
		if may(i) {
			number++
		}
	}
	if number == 0 {
		return -1
	}
	left := random % number
	for i := range n {
		switch {
		case !may(i):
		case left == 0:
			return i
		default:
			left--
		}
	}
	return -1
}

// DrawnStep returns which step of an example the rows of a network that is cut at a head with steps are of, as an index
// for each axis of the steps: [step] of a sequence, [row, column] of a map. It does not change the example.
func (w *Network) DrawnStep(ctx context.Context, example *dataset.Example) (at []int, err error) {
	ex := *example
	if err := ex.Decode(); err != nil {
		return nil, err
	}
	pipes, err := w.resolve(&ex)
	if err != nil {
		return nil, err
	}
	b, err := newBatch(w.inputs, pipes, 1)
	if err != nil {
		return nil, err
	}
	if err := b.set(0, &ex); err != nil {
		return nil, err
	}
	r := record{part: &part{batch: b}, position: ex.Index}
	if err := w.draw(&r, &ex); err != nil {
		return nil, err
	}
	one := w.results(1, 1)
	if err := w.infer(ctx, b.tensors(1), one); err != nil {
		return nil, err
	}
	at = make([]int, len(one.Steps[0]))
	step := r.steps.drawn
	for axis := len(at) - 1; axis >= 0; axis-- {
		n := int(one.Steps[0][axis])
		at[axis], step = step%n, step/n
	}
	return at, nil
}

var errNoneLeft = errors.New("no step that counts, or pixel that the crop leaves, has a label")

// label takes over the labels of an example of a part, with the geometry of its image.
func (s *recordSteps) label(ex *dataset.Example, p *part) (err error) {
	s.labels, s.given, s.sides = ex.Steps, len(ex.Steps), nil
	if ex.Sides == nil {
		return nil
	}
	h, w := ex.Sides[0], ex.Sides[1]
	if s.labels, h, w, err = p.batch.labels(ex, h, w); err != nil {
		return err
	}
	s.given, s.sides = len(s.labels), []int64{int64(h), int64(w)}
	return nil
}

// counting returns which steps count by the input that says so; nil if there is none, or if it leaves none.
func counting(ex *dataset.Example, mask string) []bool {
	for _, a := range ex.Inputs {
		v := reflect.ValueOf(a.Data)
		if mask == "" || a.Name != mask || v.Kind() != reflect.Slice {
			continue
		}
		counts, some := make([]bool, v.Len()), false
		for i := range counts {
			counts[i] = !v.Index(i).IsZero()
			some = some || counts[i]
		}
		if some {
			return counts
		}
	}
	return nil
}

// stepsOf sets the steps of the examples of a batch from the shape that the network says they have.
func (w *Network) stepsOf(r Results, shape []int64) error {
	if shape[0] != int64(r.N) {
		return fmt.Errorf("the model gave steps %v for %d examples, want %d on the first axis: export it with the examples there",
			shape, r.N, r.N)
	}
	for i := range r.Steps {
		r.Steps[i] = shape[1:]
	}
	return nil
}

// fits reports labels of another number of steps than the network gives.
func (r *record) fits(shape []int64) error {
	switch s := &r.steps; {
	case s.given == 0:
		return nil
	case s.sides != nil && len(shape) != 2:
		return fmt.Errorf("labels %v for steps %v: give a list with a label for each", s.sides, shape)
	case s.sides != nil && !slices.Equal(s.sides, shape):
		return preprocess.LabelMapError(s.sides, shape)
	case s.given == stepsIn(shape):
		return nil
	}
	what := fmt.Sprintf("%d steps", shape[0])
	if len(shape) > 1 {
		what = fmt.Sprintf("steps %v", shape)
	}
	return fmt.Errorf("%d labels for %s: give one for each, and -100 for a step without one", r.steps.given, what)
}

// stepsIn returns how many steps there are on axes of these lengths.
func stepsIn(shape []int64) int {
	n := 1
	for _, d := range shape {
		n *= int(d)
	}
	return n
}

// runSteps is Run for a network that gives all steps.
func (w *Network) runSteps(ctx context.Context, inputs []tensor.Tensor, n int) (all Results, err error) {
	if n == 0 {
		return w.results(0, 1), nil
	}
	for first := 0; first < n; first += w.batch {
		last := min(first+w.batch, n)
		part := make([]tensor.Tensor, len(inputs))
		for i, t := range inputs {
			part[i] = t.Slice(first, last)
		}
		r, err := w.inferAll(ctx, part, last-first)
		if err != nil {
			return Results{}, err
		}
		if first == 0 {
			all = r
		} else {
			all.add(r)
		}
	}
	return all, nil
}

// add appends the results of further examples.
func (r *Results) add(o Results) {
	r.N += o.N
	r.Steps = append(r.Steps, o.Steps...)
	for c := range r.Columns {
		r.Columns[c], r.Doubles[c] = append(r.Columns[c], o.Columns[c]...), append(r.Doubles[c], o.Doubles[c]...)
	}
}

// inferAll runs one batch of n examples, at most w.batch.
func (w *Network) inferAll(ctx context.Context, inputs []tensor.Tensor, n int) (Results, error) {
	if w.steps == 0 {
		r := w.results(n, 1)
		return r, w.infer(ctx, inputs, r)
	}
	r, _, err := w.inferFrom(ctx, inputs, n, nil)
	return r, err
}

// inferFrom is inferAll for a network that gives all steps, with its states before the first step, as it takes them, or
// nil for zeros. It also returns those after the last.
func (w *Network) inferFrom(
	ctx context.Context, inputs []tensor.Tensor, n int, from []tensor.Tensor,
) (Results, []tensor.Tensor, error) {
	given := w.given(n)
	if n != given {
		inputs = slices.Clone(inputs)
		for i, t := range inputs {
			inputs[i] = t.Pad(given)
		}
	}
	if from == nil {
		var err error
		if from, err = w.zeros(given); err != nil {
			return Results{}, nil, err
		}
	}
	outputs, err := w.session.Run(ctx, slices.Concat(inputs, from))
	if err != nil {
		return Results{}, nil, err
	}
	outputs, next := outputs[:len(w.outputs)], outputs[len(w.outputs):]
	r := Results{N: n, Columns: make([][]float32, len(w.outputs)), Doubles: make([][]float64, len(w.outputs)),
		Steps: make([][]int64, n)}
	shape := outputs[0].Shape[:1+w.steps]
	if shape[0] != int64(given) {
		return Results{}, nil, fmt.Errorf("the model gave steps %v for %d examples, want %d on the first axis: export it with the examples there",
			shape, given, given)
	}
	for i := range r.Steps {
		r.Steps[i] = shape[1:]
	}
	t := stepsIn(shape[1:])
	for c, o := range w.outputs {
		if want := given * t * o.width; outputs[c].Len() != want {
			return Results{}, nil, fmt.Errorf("the model gave %v with %d numbers for steps %v, want %d", outputs[c].Name, outputs[c].Len(), shape, want)
		}
		if o.double {
			r.Doubles[c] = outputs[c].Data.([]float64)[:n*t*o.width]
		} else {
			r.Columns[c] = outputs[c].Data.([]float32)[:n*t*o.width]
		}
	}
	return r, next, nil
}

// inferSteps is inferJob for a network that gives all steps: the results are those of the steps that count, and so are
// their examples.
func (w *Network) inferSteps(ctx context.Context, j *job) error {
	for _, p := range j.parts {
		if p.n == 0 {
			continue
		}
		var err error
		if p.results, err = w.inferAll(ctx, p.batch.tensors(p.n), p.n); err != nil {
			return p.failed(ctx, j, err)
		}
		p.batch = nil
	}
	w.checkLabels(j)
	j.results = w.noSteps()
	// Where all steps of all records count the results are those of the run: those of maps are too many to copy.
	good := 0
	for _, r := range j.records {
		if r.bad == "" {
			good++
		}
	}
	shared := len(j.parts) == 1 && good > 0 && good == j.parts[0].n && w.mask == ""
	if shared {
		j.results.Columns, j.results.Doubles = j.parts[0].results.Columns, j.parts[0].results.Doubles
	}
	for i := range j.records {
		r := &j.records[i]
		if r.bad != "" {
			continue
		}
		w.addCounted(&j.results, r, shared)
	}
	return nil
}

// noSteps returns the results of no examples.
func (w *Network) noSteps() Results {
	r := w.results(0, 1)
	r.Examples = &rows.Batch{}
	return r
}

// addCounted adds the results of the steps of a record that count, unless they are shared, and what is known of them.
func (w *Network) addCounted(to *Results, r *record, shared bool) {
	from, x := r.part.results, to.Examples
	shape := from.Steps[r.row]
	labels := r.steps.labels
	to.N++
	to.Steps = append(to.Steps, shape)
	n := stepsIn(shape)
	x.Positions, x.Labels = slices.Grow(x.Positions, n), slices.Grow(x.Labels, n)
	x.Steps, x.Names = slices.Grow(x.Steps, n), slices.Grow(x.Names, n)
	for t := range n {
		if len(r.steps.counts) == n && !r.steps.counts[t] {
			continue
		}
		for c, o := range w.outputs {
			at := (r.row*n + t) * o.width
			if shared {
				break
			}
			if o.double {
				to.Doubles[c] = append(to.Doubles[c], from.Doubles[c][at:at+o.width]...)
			} else {
				to.Columns[c] = append(to.Columns[c], from.Columns[c][at:at+o.width]...)
			}
		}
		label := -1
		if labels != nil {
			label = int(labels[t])
		}
		x.N++
		x.Positions, x.Labels = append(x.Positions, r.position), append(x.Labels, label)
		x.Steps, x.Names = append(x.Steps, t), append(x.Names, r.name)
	}
}
