package methods

import (
	"fmt"

	"github.com/mfgs/mfgs/calibrate/layer"
)

// MaxBytes bounds what one set of examples is prepared into.
const MaxBytes = 8 << 30

// Covariance gives covariances of logits under a Gaussian over weights, at ensemble temperature 1.
type Covariance interface {
	// Covariances writes the covariance S of the K logits of each example to dst
	// [n,K(K+1)/2]: the rows of its upper triangle one after another. phi are features
	// [n,d], or whatever else the covariance is made for, as in rows.Batch.
	Covariances(dst []float64, phi []float32, n int) error
}

// Variances is what a Covariance may have besides, for those who need no more.
type Variances interface {
	// Variances writes the diagonal of the covariance of each example to dst [n,K].
	Variances(dst []float64, phi []float32, n int) error
}

// checkSoftmax refuses heads whose logits do not compete.
func checkSoftmax(h layer.Head) error {
	if h.Link != layer.Softmax || h.Logits < 2 {
		return fmt.Errorf("the head has %d logits with link %s, want a softmax of at least 2", h.Logits, h.Link)
	}
	return nil
}

// checkSize refuses sets that would take more than MaxBytes: n examples of each numbers
// of size bytes.
func checkSize(n, each, size int) error {
	if bytes := float64(n) * float64(each) * float64(size); bytes > MaxBytes {
		return fmt.Errorf("%d examples would take %.1f GB of memory, want at most %.1f: take fewer with a limit, or fewer samples", n, bytes/1e9, MaxBytes/1e9)
	}
	return nil
}
