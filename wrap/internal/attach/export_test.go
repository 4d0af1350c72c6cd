package attach

const FarRatio = farRatio

var (
	Intervals = intervals
	Margins   = margins
	Scores    = scores
)
