package calibration

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// weights reads the last layer's weights and bias, as [head.Head.Weights] does.
type weights func() (w, b []float32, err error)

// training returns what OOD scores are fitted to: the curvature's sums, the sample, and the last layer if the
// model is available.
func training(c *calibrate.Curvature, p *part.Part, layer weights) (*score.Training, error) {
	sample := &rows.Batch{}
	if p.Sample != nil {
		sample = p.Sample.Rows()
	}
	if layer == nil || p.Recipe.Head.Nonlinear {
		return c.Training(nil, nil, sample), nil
	}
	w, b, err := layer()
	if err != nil {
		return nil, err
	}
	return c.Training(w, b, sample), nil
}

// weightsOf reads the weights from the file of the calibrated model.
func weightsOf(path string, h bundle.Head) weights {
	return func() (w, b []float32, err error) {
		model, err := onnx.Open(path)
		if err != nil {
			return nil, nil, err
		}
		if model, err = head.Fix(model, h.Fix); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		_, found, err := attach.FindHead(model, h)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		return found.Weights()
	}
}

// weightsOfPart is weightsOf for the model in a part, whose hashes it checks.
func weightsOfPart(dir string, m *part.Manifest) weights {
	return func() (w, b []float32, err error) {
		for _, name := range []string{part.ModelName, part.ModelDataName} {
			if check := m.Copy(dir, name); check != nil {
				if err := check(io.Discard); err != nil {
					return nil, nil, err
				}
			}
		}
		return weightsOf(filepath.Join(dir, part.ModelName), m.Recipe.Head)()
	}
}
