package eigen

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// The zeros are compared with bisection in 200 bits.
func TestSecularZeros(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 0))
	for trial := range 100 {
		s := randomSecular(1+rng.IntN(12), trial, rng)
		size := math.Max(math.Abs(s.d[0]), math.Abs(s.d[len(s.d)-1])) + s.norm2/s.inverse
		for j := range s.d {
			l := s.zero(j)
			if !(l.to(s.d[j]) < 0) || j+1 < len(s.d) && !(l.to(s.d[j+1]) > 0) {
				t.Fatalf("trial %d: zero %d is %v above its lower pole and %v below the upper one", trial, j, -l.to(s.d[j]), l.to(s.d[min(j+1, len(s.d)-1)]))
			}
			if err := exactError(s, l, j); !approx.Equal(err, 0, 4*epsilon*size) {
				t.Errorf("trial %d: zero %d of %d off by %.3g ε", trial, j, len(s.d), err/(epsilon*size))
			}
		}
	}
}

// randomSecular has poles as close, and weights as small, as deflation leaves them.
func randomSecular(k, trial int, rng *rand.Rand) *secular {
	s := &secular{inverse: math.Pow(10, float64(trial%7)-3)}
	for range k {
		d := rng.NormFloat64()
		if trial%3 > 0 { // clusters
			d = float64(rng.IntN(3)-1) + math.Pow(10, -1-13*rng.Float64())
		}
		w := rng.NormFloat64()
		if trial%2 > 0 {
			w = math.Pow(10, -15*rng.Float64())
		}
		s.d = append(s.d, d)
		s.square = append(s.square, w*w)
		s.norm2 += w * w
	}
	slices.Sort(s.d)
	return s
}

// exactError is the distance of a zero from the true one.
func exactError(s *secular, l zero, j int) float64 {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }
	zero := func() *big.Float { return number(0) }
	f := func(x *big.Float) int {
		sum := number(s.inverse)
		for i, d := range s.d {
			diff := zero().Sub(number(d), x)
			if diff.Sign() == 0 { // at a pole: as just right of it
				if i <= j {
					return -1
				}
				return 1
			}
			sum.Add(sum, zero().Quo(number(s.square[i]), diff))
		}
		return sum.Sign()
	}
	low, high := number(s.d[j]), zero()
	if j+1 < len(s.d) {
		high.SetFloat64(s.d[j+1])
	} else {
		high.Quo(number(s.norm2*(1+16*epsilon)), number(s.inverse))
		high.Add(high, low)
	}
	for range 150 {
		mid := zero().Add(low, high)
		mid.Mul(mid, number(0.5))
		if f(mid) > 0 {
			high = mid
		} else {
			low = mid
		}
	}
	found := zero().Add(number(l.pole), number(l.distance))
	e, _ := found.Sub(found, low).Float64()
	return e
}
