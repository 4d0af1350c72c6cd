package wrap

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx/fuse"
)

// A Map is the predictions for the pixels of one picture, [Height,Width] in row-major order. It has the fields of
// [Prediction] that are worth their memory for each pixel.
type Map struct {
	Input         string // name of the record
	Height, Width int    // of the model's output

	Class      []int32 // the most probable
	Confidence []float32
	OODScore   []float32
	// Uncertain and OOD say which pixels should not be answered, and why, as Prediction.AbstainReason does; nil for
	// bundles without such a decision.
	Uncertain, OOD []bool
}

// Abstains reports whether a pixel should not be answered.
func (m *Map) Abstains(pixel int) bool {
	return m.Uncertain != nil && m.Uncertain[pixel] || m.OOD != nil && m.OOD[pixel]
}

// HasMaps reports whether the model answers for each pixel of a picture, as [Predictor.PredictMaps] needs.
func (p *Predictor) HasMaps() bool { return p.steps() == mapAxes }

const mapAxes = 2

// ErrNoMaps is the error of [Predictor.PredictMaps] for a model that does not answer for each pixel of a picture.
var ErrNoMaps = errors.New("the model does not answer for each pixel of a picture")

// PredictMaps evaluates a dataset as [Predictor.PredictDataset] does, with a map for each record. It does not read
// labels. Memory is that of a few batches, whose size is [Runtime].Batch.
func (p *Predictor) PredictMaps(ctx context.Context, spec string, report *DatasetReport) iter.Seq2[Map, error] {
	return func(yield func(Map, error) bool) {
		if report == nil {
			report = new(DatasetReport)
		}
		*report = DatasetReport{}
		if err := p.predictMaps(ctx, spec, report, yield); err != nil {
			yield(Map{}, err)
		}
	}
}

// predictMaps returns the error that ends the iteration; nil if there is none, or yield has ended it.
func (p *Predictor) predictMaps(
	ctx context.Context, spec string, report *DatasetReport, yield func(Map, error) bool,
) error {
	if !p.HasMaps() {
		return ErrNoMaps
	}
	notes := &source.Notes{}
	s, err := p.openDataset(ctx, spec, false, notes, report)
	if err != nil {
		return err
	}
	defer s.Close()
	report.Ignored = append(report.Ignored, notes.Ignored...)
	report.Total = max(s.Wanted(), 0)
	bad := badRecords{met: &rows.Stats{}}
	s.Config.Stats = bad.met
	yieldBad := func(err error) bool { return yield(Map{}, err) }
	for r, err := range s.Results(ctx) {
		first := 0 // pixel of the next picture
		for _, sides := range r.Steps {
			h, w := int(sides[0]), int(sides[1])
			if first+h*w > r.Examples.N {
				return fmt.Errorf("%w: some do not count by its mask", ErrNoMaps)
			}
			name := r.Examples.Name(first)
			if !bad.before(r.Examples.Positions[first], yieldBad) {
				return nil
			}
			m, err := p.mapOf(p.tensors(r), first, h, w)
			if m.Input = name; err != nil {
				m, err = Map{}, &RecordError{name, err}
			}
			if !yield(m, err) {
				return nil
			}
			first += h * w
		}
		if !bad.before(math.MaxInt, yieldBad) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mapOf returns the map of the picture whose first pixel is a row of the results of Run.
func (p *Predictor) mapOf(r []Tensor, first, h, w int) (Map, error) {
	n, k, c, d := h*w, p.head.Logits, p.head.Classes(), p.bundle.Manifest.Decisions
	logits := r[fuse.Logits].Data.([]float32)
	probabilities := r[fuse.Probabilities].Data.([]float32)
	scores := r[fuse.FirstScore(p.head)].Data.([]float64)
	m := Map{Height: h, Width: w, Class: make([]int32, n), Confidence: make([]float32, n), OODScore: make([]float32, n)}
	if d != nil && d.Uncertainty != nil {
		m.Uncertain = make([]bool, n)
	}
	if d != nil && d.OOD != nil {
		m.OOD = make([]bool, n)
	}
	one := make([]float64, c)
	for i := range n {
		at := first + i
		if err := source.CheckRow("logit", row(logits, at, k)); err != nil {
			return Map{}, fmt.Errorf("row %d, column %d: %w", i/w, i%w, err)
		}
		sum := scores[at]
		for j, v := range row(probabilities, at, c) {
			one[j] = float64(v)
			sum += one[j]
		}
		if math.IsNaN(sum) || math.IsInf(sum, 0) {
			return Map{}, fmt.Errorf("row %d, column %d: %w", i/w, i%w, errNotFinite)
		}
		a := measure.AnswerOf(p.head, one)
		m.Class[i], m.Confidence[i], m.OODScore[i] = int32(a.Class), float32(a.Confidence), float32(scores[at])
		if d == nil {
			continue
		}
		uncertain, ood := d.Exceeds(one, scores[at])
		if m.Uncertain != nil {
			m.Uncertain[i] = uncertain
		}
		if m.OOD != nil {
			m.OOD[i] = ood
		}
	}
	return m, nil
}
