package layer_test

import (
	"math"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
)

func TestLinksAreKnownByName(t *testing.T) {
	t.Parallel()
	for _, l := range layer.All {
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(layer.Names(), string(l)) {
			t.Errorf("%s is not among %s", l, layer.Names())
		}
	}
	for _, l := range []layer.Link{"", "Softmax", "probit"} {
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "softmax, sigmoid or one-vs-rest") {
			t.Errorf("%q: error %v, want the links that there are", l, err)
		}
	}
}

// numbers computes with float64.
type numbers struct{}

func (numbers) Number(x float64) float64 { return x }
func (numbers) Add(x, y float64) float64 { return x + y }
func (numbers) Sub(x, y float64) float64 { return x - y }
func (numbers) Mul(x, y float64) float64 { return x * y }
func (numbers) Neg(x float64) float64    { return -x }
func (numbers) Abs(x float64) float64    { return math.Abs(x) }
func (numbers) Expm1(x float64) float64  { return math.Expm1(x) }
func (numbers) Log1p(x float64) float64  { return math.Log1p(x) }

// log 2σ(y) is log 2 - log(1 + exp(-y)), and has its digits near y = 0, where it is y/2.
func TestLogWeightsOfOneVsRestAreLogSigmoids(t *testing.T) {
	for _, y := range []float64{
		-700, -30, -3, -0.011, -0.0099, -1e-3, -1e-9, 0, 1e-12, 1e-5, 0.0099, 0.011, 2, 40, 800,
	} {
		want := -math.Log1p(math.Expm1(-y) / 2) // 1/(2σ(y)) - 1, with all its digits
		if y < -600 {                           // beyond the exponent of Expm1
			want = y + math.Ln2
		}
		if got := layer.LogWeights[float64](numbers{}, layer.OneVsRest, y); !approx.Relative(got, want, 1e-13) {
			t.Errorf("log 2σ(%v) = %v, want %v", y, got, want)
		}
	}
	if got := layer.LogWeights[float64](numbers{}, layer.Softmax, 1.5); got != 1.5 {
		t.Errorf("the weight of a logit under softmax is %v", got)
	}
}

func TestOnlySigmoidsAreTrainedSeparately(t *testing.T) {
	t.Parallel()
	for l, want := range map[layer.Link]bool{
		layer.Softmax: false, layer.Sigmoid: true, layer.OneVsRest: true, "": false,
	} {
		if got := l.Separate(); got != want {
			t.Errorf("%q is separate: %v, want %v", l, got, want)
		}
	}
}

func TestASigmoidThatIsNormalisedIsOneVsRest(t *testing.T) {
	for l, want := range map[layer.Link]layer.Link{
		layer.Sigmoid: layer.OneVsRest, layer.OneVsRest: layer.OneVsRest, layer.Softmax: layer.Softmax,
	} {
		if got := l.Normalise(); got != want {
			t.Errorf("%s normalised is %s, want %s", l, got, want)
		}
	}
	if of := layer.ByOperator(); of["Sigmoid"] != layer.Sigmoid || of["LogSoftmax"] != layer.Softmax || len(of) != 3 {
		t.Errorf("operators and links: %v", of)
	}
}
