package export

import (
	"testing"

	"github.com/mfgs/mfgs/internal/wraptest"
)

func TestMain(m *testing.M) { wraptest.Main(m, nil) }

// external is a model that keeps its weights in another file.
const external = "../../testdata/onnx/external.onnx"

type array struct {
	Data any
	Dims []int
}

func npz(t testing.TB, arrays map[string]array) []byte {
	t.Helper()
	m := map[string]wraptest.Array{}
	for name, a := range arrays {
		m[name] = wraptest.Array(a)
	}
	return wraptest.NPZ(t, m)
}

var (
	structures    = wraptest.Structures
	digits        = wraptest.Digits
	config        = wraptest.Config
	quick         = wraptest.Quick
	calibrated    = wraptest.Calibrated
	mustCalibrate = wraptest.MustCalibrate
	opened        = wraptest.Opened
	write         = wraptest.Write
	read          = wraptest.Read
	list          = wraptest.List
	random        = wraptest.Random
	digitTensor   = wraptest.DigitTensor
	selector      = wraptest.Selector
	says          = wraptest.Says
)
