package wrap_test

import (
	"github.com/mfgs/mfgs/internal/wraptest"
)

type array = wraptest.Array

var (
	structures        = wraptest.Structures
	digits            = wraptest.Digits
	config            = wraptest.Config
	quick             = wraptest.Quick
	calibrated        = wraptest.Calibrated
	mustCalibrate     = wraptest.MustCalibrate
	opened            = wraptest.Opened
	predicted         = wraptest.Predicted
	predictError      = wraptest.PredictError
	write             = wraptest.Write
	read              = wraptest.Read
	list              = wraptest.List
	random            = wraptest.Random
	digitTensor       = wraptest.DigitTensor
	rowsOf            = wraptest.RowsOf
	says              = wraptest.Says
	idx               = wraptest.IDX
	labelsOf          = wraptest.LabelsOf
	sampled           = wraptest.Sampled
	cut               = wraptest.Cut
	npz               = wraptest.NPZ
	arrayOf           = wraptest.ArrayOf
	parts             = wraptest.Parts
	merged            = wraptest.Merged
	group             = wraptest.Group
	sameFiles         = wraptest.SameFiles
	classified        = wraptest.Classified
	tossed            = wraptest.Tossed
	reseal            = wraptest.Reseal
	servedPair        = wraptest.ServedPair
	studentized       = wraptest.Studentized
	equalsTheFormulas = wraptest.EqualsTheFormulas
	tree              = wraptest.Tree
	arrays            = wraptest.Arrays
	total             = wraptest.Total
	close32           = wraptest.Close32
	externalConfig    = wraptest.ExternalConfig
	decided           = wraptest.Decided
	alike             = wraptest.Alike
	external          = wraptest.External
	multiLabelModel   = wraptest.MultiLabelModel
	oneVsRestModel    = wraptest.OneVsRestModel
	float32s          = wraptest.Float32s
	float64s          = wraptest.Float64s
)
