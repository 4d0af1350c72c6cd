package attach

import (
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/onnx/fuse"
)

const FarRatio = farRatio

var (
	Intervals = intervals
	Single    = single
	Margins   = margins
	Scores    = scores
	GraphOf   = func(t *fuse.Terms) score.Terms[string] { return terms{t} }
)
