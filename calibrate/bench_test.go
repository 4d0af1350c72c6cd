package calibrate

import (
	"fmt"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
)

func BenchmarkAdd(b *testing.B) {
	for _, bench := range []struct {
		head      layer.Head
		structure Structure
		fisher    bool
	}{
		{layer.Head{Logits: 10, Features: 256, Bias: true, Link: layer.Softmax}, Full, false},
		{layer.Head{Logits: 10, Features: 256, Bias: true, Link: layer.Softmax}, Full, true},
		{layer.Head{Logits: 10, Features: 256, Bias: true, Link: layer.Softmax}, Kronecker, true},
		{layer.Head{Logits: 1000, Features: 1280, Bias: true, Link: layer.Softmax}, Kronecker, false},
		{layer.Head{Logits: 1000, Features: 1280, Bias: true, Link: layer.Softmax}, Kronecker, true},
	} {
		h := bench.head
		b.Run(fmt.Sprintf("K=%d/D=%d/%s/fisher=%v", h.Logits, h.Dim(), bench.structure, bench.fisher), func(b *testing.B) {
			s := newMixture(h, 4, 1, 1).draw(BlockSize, 0)
			sums := newSums(b, CurvatureConfig{Head: h, Structure: bench.structure, Fisher: bench.fisher})
			first := 0
			for b.Loop() { // one block
				if err := addAll(sums, s, first); err != nil {
					b.Fatal(err)
				}
				first += BlockSize
			}
		})
	}
}

func BenchmarkPosterior(b *testing.B) {
	for _, h := range []layer.Head{
		{Logits: 10, Features: 256, Bias: true, Link: layer.Softmax},
		{Logits: 1000, Features: 1280, Bias: true, Link: layer.Softmax},
	} {
		s := newMixture(h, 4, 1, 2).draw(8*BlockSize, 0)
		c := accumulate(b, CurvatureConfig{Head: h, Fisher: true}, s, 0)
		for _, cov := range []Covariance{Hessian, Sandwich} {
			b.Run(fmt.Sprintf("K=%d/D=%d/%s", h.Logits, h.Dim(), cov), func(b *testing.B) {
				for b.Loop() {
					if _, err := c.Posterior(cov, 1); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkFit(b *testing.B) {
	for _, h := range []layer.Head{
		{Logits: 10, Features: 256, Bias: true, Link: layer.Softmax},
		{Logits: 1000, Features: 1280, Bias: true, Link: layer.Softmax},
	} {
		m := newMixture(h, 4, 2, 3)
		train, val, ood := m.draw(8*BlockSize, 0), m.draw(2000, 0), m.draw(500, 4)
		c := accumulate(b, CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}, train, 0)
		for _, cov := range []Covariance{Hessian, Sandwich} {
			b.Run(fmt.Sprintf("K=%d/D=%d/%s", h.Logits, h.Dim(), cov), func(b *testing.B) {
				for b.Loop() {
					if _, err := Fit(b.Context(), c, val, ood, FitOptions{Covariance: cov}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
