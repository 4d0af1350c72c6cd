package bench

import (
	"testing"

	"github.com/mfgs/mfgs/internal/wraptest"
)

func TestMain(m *testing.M) { wraptest.Main(m, nil) }

var (
	digits        = wraptest.Digits
	calibrated    = wraptest.Calibrated
	config        = wraptest.Config
	quick         = wraptest.Quick
	mustCalibrate = wraptest.MustCalibrate
	write         = wraptest.Write
	read          = wraptest.Read
	digitTensor   = wraptest.DigitTensor
	rowsOf        = wraptest.RowsOf
	says          = wraptest.Says
)
