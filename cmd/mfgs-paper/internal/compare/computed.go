package compare

import (
	"slices"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
)

// logitCovariance is a covariance of logits that has the variances by themselves.
type logitCovariance interface {
	methods.Covariance
	methods.Variances
}

// computed is a covariance of logits that keeps what it computed of examples, since several methods and
// draws want the same. What it is asked for must stay as it is.
type computed struct {
	logitCovariance
	room *int                   // numbers that more can be kept of
	kept map[*float32][]float64 // by the first feature of a block of examples
}

// mostComputed is how many numbers are kept of all covariances.
const mostComputed = 8 << 20

// Covariances is that of the covariance.
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
