package attach

import (
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/onnx/fuse"
)

var (
	Intervals = intervals
	Single    = single
	Scores    = scores
	GraphOf   = func(t *fuse.Terms) score.Terms[string] { return terms{t} }
)
