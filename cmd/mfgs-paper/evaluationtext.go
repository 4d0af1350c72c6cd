package main

import "github.com/mfgs/mfgs/wrap/bench"

func evaluationText(e *bench.Evaluation) string { return e.Recommendation.Probabilities.Sentence }
