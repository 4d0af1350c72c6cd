package score

import "github.com/mfgs/mfgs/calibrate/layer"

var errorOdds = Score{
	Name:        "error_odds",
	Baseline:    true,
	Correctness: true,
	reads:       onlyLogits,
	Doc:         "log-odds that the model's answer, such as the text of a line, is wrong",
	Source:      "Hendrycks and Gimpel 2017, section 2, of the whole answer",
	rows:        errorOddsOf[Rows],
	graph:       errorOddsOf[string],
}

// errorOddsOf is log p(wrong)/p(right) of the network's own probabilities.
func errorOddsOf[V any](t Terms[V], _ Tensors) V {
	against := make([]float64, 2)
	against[1-layer.Right], against[layer.Right] = 1, -1
	return t.MatMul(t.Logits(), t.Constant("against", against, 1))
}
