package bundle

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// OODScore says how ood_score, ood_percentile and ood_pvalue are computed, see score.Served, and why this score was
// selected.
type OODScore struct {
	score.Selection `yaml:",inline"`

	// Set by Write, from [Bundle.Score].
	Median    float64   `yaml:"median"`             // on validation data
	Scale     float64   `yaml:"scale"`              // positive
	Examples  int       `yaml:"examples,omitempty"` // that the quantiles are of; 0 is unknown, in older bundles
	Quantiles []float64 `yaml:"quantiles,flow"`     // of ood_score, 2 to 257 in ascending order
}

// served returns the score of a valid manifest, without its tensors.
func (m *Manifest) served() *score.Served {
	o := m.OODScore
	if o == nil { // older than the choice of scores
		mf0, _ := score.Find("mf0")
		return &score.Served{Fitted: score.Fitted{Score: mf0}, Median: cmp.Or(m.MeanField.MedianMargin, 1), Scale: 1}
	}
	s, _ := score.Find(o.Name)
	return &score.Served{Fitted: score.Fitted{Score: s}, Median: o.Median, Scale: o.Scale, Quantiles: o.Quantiles,
		Examples: o.Examples}
}

// describeScore sets the manifest's fields of a score.
func (m *Manifest) describeScore(s *score.Served) error {
	m.Scores = nil
	if s == nil || s.Quantiles == nil { // older than the choice of scores
		if m.OODScore != nil {
			return fmt.Errorf("the manifest describes the score %s, and the bundle has none", m.OODScore.Name)
		}
		return nil
	}
	if m.OODScore == nil || m.OODScore.Name != s.Name {
		return fmt.Errorf("the bundle has the score %s, and the manifest does not describe it", s.Name)
	}
	o := *m.OODScore
	o.Median, o.Scale, o.Quantiles, o.Examples = s.Median, s.Scale, s.Quantiles, s.Examples
	m.OODScore, m.MeanField.MedianMargin = &o, 0
	return nil
}

// oodScore checks the section ood_score.
func (c *checks) oodScore(m *Manifest) {
	o := m.OODScore
	if o == nil {
		c.that(m.Scores == nil, "scores needs ood_score")
		c.that(!m.Head.Nonlinear, "ood_score is missing")
		c.positive("mean_field.median_margin", m.MeanField.MedianMargin)
		return
	}
	c.that(m.MeanField.MedianMargin == 0, "mean_field.median_margin must be left out with ood_score")
	s, known := score.Find(o.Name)
	if !known {
		c.that(false, "ood_score.name is %.70q, want one of %v", o.Name, score.Names())
		return
	}
	c.that(s.Suits(m.Head.Head), "ood_score.name is %s, which the head does not have", o.Name)
	if s.Similarity {
		c.positive("ood_score.median", o.Median)
	}
	c.positive("ood_score.scale", o.Scale)
	c.notNegative("ood_score.needed", o.Needed)
	n := len(o.Quantiles)
	c.that(2 <= n && n <= score.MostQuantiles, "ood_score.quantiles has %d numbers, want 2 to %d", n, score.MostQuantiles)
	c.count("ood_score.examples", o.Examples, 0)
	if o.Examples > 0 { // else the bundle gives no p-values
		want := max(2, min(o.Examples, score.MostQuantiles))
		c.that(n == want, "ood_score.quantiles has %d numbers, want %d of %d examples", n, want, o.Examples)
	}
	c.that(slices.IsSorted(o.Quantiles) && (n == 0 || o.Quantiles[0] >= 0 && o.Quantiles[n-1] <= 1),
		"ood_score.quantiles are not ascending numbers in [0,1]")
	c.that(s.NeedsFitting() == (m.Scores != nil), "ood_score is %s, and scores is present: %t, want %t",
		o.Name, m.Scores != nil, s.NeedsFitting())
	c.file("scores", m.Scores, ScoresName)
}

// encodeScore writes the tensors of a score.
func encodeScore(w io.Writer, s *score.Served) error {
	var list []safetensors.Tensor
	for _, t := range s.Tensors {
		list = append(list, safetensors.Tensor{Name: t.Name, Shape: t.Shape, Data: t.Data})
	}
	return safetensors.Encode(w, list, nil)
}

// readScore reads the score of a valid manifest.
func readScore(fsys fs.FS, m *Manifest) (*score.Served, error) {
	s := m.served()
	if m.Scores == nil {
		return s, nil
	}
	k, d := m.Head.Logits, m.Head.Features
	f, size, err := open(fsys, ScoresName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// The manifest bounds the size of the file.
	limit := 8*s.MostNumbers(k, d) + headerRoom
	if size > limit {
		return nil, fmt.Errorf("%s: %w: %d bytes, the tensors of %s take at most %d", ScoresName, ErrTooLarge, size, s.Name, limit)
	}
	data, err := readAll(f, ScoresName, size, limit)
	if err != nil {
		return nil, err
	}
	if err := checkHash(bytes.NewReader(data), *m.Scores); err != nil {
		return nil, err
	}
	st, err := safetensors.NewFile(bytes.NewReader(data), size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ScoresName, err)
	}
	var tensors score.Tensors
	for _, info := range st.Tensors() {
		t := score.Tensor{Name: info.Name, Shape: info.Shape}
		if info.Type != tensor.Float64 {
			return nil, fmt.Errorf("%s: tensor %s: %w: %s, want F64", ScoresName, info.Name, ErrShape, info.Type.Safetensors())
		}
		if t.Data, err = safetensors.Read[float64](st, info.Name); err != nil {
			return nil, fmt.Errorf("%s: %w", ScoresName, err)
		}
		tensors = append(tensors, t)
	}
	fitted, err := s.With(k, d, tensors)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", ScoresName, ErrTensors, err)
	}
	s.Fitted = *fitted
	return s, nil
}
