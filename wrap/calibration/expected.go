package calibration

import (
	"context"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
)

// expectedTolerance is the largest difference of a probability from the expected one that rounding to float32 explains:
// trees split at thresholds that float32 moves, and then differ by far more.
const expectedTolerance = 1e-4

// compareExpected compares the probabilities of validation examples with those that spec has for each record of their
// set, in order, such as the ones that the library gives from which the model was exported. It says what it found, and
// whether all are equal.
func compareExpected(ctx context.Context, spec string, s *source.Set, h layer.Head, val *rows.Batch) (
	found string, equal bool, err error,
) {
	expected, err := readExpected(ctx, spec, s, val, h.Classes())
	if err != nil {
		return "", false, fmt.Errorf("expected: %w", err)
	}
	logp, _ := calibrate.Plain(h, val.Logits, val.N, 1)
	c := h.Classes()
	differ, most, at := 0, 0.0, 0
	for i := range val.N {
		by := 0.0
		own := measure.ClassProbabilities(h, logp[i*len(logp)/val.N:(i+1)*len(logp)/val.N])
		for j, p := range own {
			by = math.Max(by, math.Abs(p-expected[i*c+j]))
		}
		if by > expectedTolerance {
			differ++
		}
		if by > most {
			most, at = by, i
		}
	}
	if differ == 0 {
		return fmt.Sprintf("expected: the model's probabilities are those of %s within %.1g, on %d validation examples",
			spec, math.Max(most, 1e-7), val.N), true, nil
	}
	return fmt.Sprintf("expected: the model's probabilities are not those of %s on %d of %d validation examples, by up to %.2g (%s): the export computes something else than the library, and the calibration is of the export",
		spec, differ, val.N, most, val.Name(at)), false, nil
}

// openExpected opens the expected probabilities of the records of a set.
func openExpected(ctx context.Context, spec string, s *source.Set) (*dataset.Dataset, error) {
	d, err := dataset.Open(ctx, spec, dataset.Options{Unlabelled: true})
	if err != nil {
		return nil, err
	}
	from, to := d.Slice()
	first, last := s.Slice()
	switch {
	case d.Len() < 0:
		err = fmt.Errorf("%s is a stream, want a file", spec)
	case s.Size() >= 0 && to-from != last-first:
		err = fmt.Errorf("%s has %d records, and the validation data %d: want one for each, in the same order",
			spec, to-from, last-first)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// readExpected reads the expected probabilities of the C classes for validation examples, [N,C]. One number is that of
// the second of two classes.
func readExpected(ctx context.Context, spec string, s *source.Set, val *rows.Batch, classes int) ([]float64, error) {
	d, err := openExpected(ctx, spec, s)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	from, _ := d.Slice()
	first, _ := s.Slice()
	of := map[int]int{} // index of a validation example by its position
	for i, position := range val.Positions {
		of[position] = i
	}
	out := make([]float64, val.N*classes)
	for example, err := range d.Examples(ctx) {
		if err != nil {
			return nil, err
		}
		i, wanted := of[first+example.Index-from]
		if !wanted {
			continue
		}
		p, err := probabilitiesOf(&example, classes)
		if err != nil {
			return nil, err
		}
		copy(out[i*classes:], p)
	}
	return out, nil
}

func probabilitiesOf(x *dataset.Example, classes int) ([]float64, error) {
	if len(x.Inputs) != 1 {
		return nil, fmt.Errorf("%s: %d arrays, want one of probabilities [N,%d]", x.Name, len(x.Inputs), classes)
	}
	var p []float64
	switch data := x.Inputs[0].Data.(type) {
	case []float64:
		p = data
	case []float32:
		for _, v := range data {
			p = append(p, float64(v))
		}
	default:
		return nil, fmt.Errorf("%s: %T, want float32 or float64 probabilities", x.Name, data)
	}
	if len(p) == 1 && classes == 2 {
		p = []float64{1 - p[0], p[0]}
	}
	if len(p) != classes {
		return nil, fmt.Errorf("%s: %d numbers, want the probabilities of %d classes", x.Name, len(p), classes)
	}
	for _, v := range p {
		if !(v >= -sumTolerance && v <= 1+sumTolerance) {
			return nil, fmt.Errorf("%s: %v, want probabilities", x.Name, v)
		}
	}
	return p, nil
}
