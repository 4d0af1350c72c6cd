package compare

import (
	"slices"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
)

// logitCovariance is a covariance of logits whose variances are also available alone.
type logitCovariance interface {
	methods.Covariance
	methods.Variances
}

// computed caches the covariances of blocks of examples, which several methods and draws need. The features of
// a block must not change.
type computed struct {
	logitCovariance
	room *int                   // how many more numbers may be cached
	kept map[*float32][]float64 // by the address of a block's first feature
}

// maxComputed bounds the numbers cached for all covariances.
const maxComputed = 8 << 20

// Covariances implements methods.Covariance.
func (c *computed) Covariances(dst []float64, phi []float32, n int) error {
	if kept := c.kept[&phi[0]]; len(kept) == len(dst) {
		copy(dst, kept)
		return nil
	}
	if err := c.logitCovariance.Covariances(dst, phi, n); err != nil {
		return err
	}
	if len(dst) <= *c.room && c.kept[&phi[0]] == nil {
		*c.room -= len(dst)
		c.kept[&phi[0]] = slices.Clone(dst)
	}
	return nil
}
