package calibration

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// A job may say that there is no linear layer, and what is expected of the model; what contradicts it is an error by
// the key's name.
func TestJobsWithoutALayer(t *testing.T) {
	t.Parallel()
	const text = "model: m.onnx\nhead: {kind: none, features: x, link: softmax}\nexpected: e.npy\nood_score: column_knn\n"
	got, _, err := parseJob([]byte(text))
	want := &Job{Config: Config{Model: "m.onnx", Expected: "e.npy", Settings: bundle.Settings{
		Head: head.Options{Kind: head.None, Features: "x", Link: layer.Softmax}, OODScore: "column_knn"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got.resolvePaths("jobs", false); got.Config.Expected != "jobs/e.npy" {
		t.Errorf("the probabilities at %q", got.Config.Expected)
	}
	for text, want := range map[string]string{
		"head: {kind: forest}":                       `head: kind "forest": want none, probabilities, log-probabilities, scores, ctc or tags`,
		"head: {kind: none}\ncovariance: hessian":    "covariance is for the posterior of a linear last layer, and kind none has none",
		"head: {kind: scores}\nstructure: auto":      "structure is for the posterior",
		"head: {kind: none}\ndamping: 0.5":           "damping is for the posterior",
		"head: {kind: none}\nlambda0: 1":             "lambda0 is for the posterior",
		"head: {kind: none, approximation: relu}":    "approximation is for the posterior",
		"head: {nonlinear: true}":                    "head.nonlinear is not a key of a job",
		"head: {kind: none}\nsmoothing: 0.1":         "smoothing is not a key of a job",
		"head: {kind: none}\nood_score: softmin":     "softmin",
		"head: {kind: none, knid: 1}":                "head.knid is not a key of a job: did you mean kind?",
		"head: {kind: none}\nexpcted: e.npy":         "expcted is not a key of a job: did you mean expected?",
		"head: {kind: none}\nexpected: [e.npy]":      "expected",
		"head: {kind: none}\ntemperatures: {ts: 1}":  "temperatures is not a key of a job",
		"head: {kind: none}\nprobabilities: {ts: 1}": "probabilities is not a key of a job",
	} {
		if _, _, err := parseJob([]byte(text)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
