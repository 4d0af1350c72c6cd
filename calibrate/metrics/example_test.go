package metrics_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

func Example() {
	logp := []float64{ // three examples of two classes
		math.Log(0.9), math.Log(0.1),
		math.Log(0.2), math.Log(0.8),
		math.Log(0.6), math.Log(0.4),
	}
	in, err := metrics.Classify(logp, 2, []int{0, 1, 1}, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("error %.3f, NLL %.3f nats, ECE %.3f\n", in.Error, in.NLL, in.ECE)

	ood, err := metrics.Detect([]float64{0.1, 0.2, 0.4}, []float64{0.3, 0.5})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("AUROC %.3f, detection accuracy %.3f\n", ood.AUROC, ood.Accuracy)
	// Output:
	// error 0.333, NLL 0.415 nats, ECE 0.300
	// AUROC 0.833, detection accuracy 0.833
}

// A 95 % interval for an AUROC, with the two samples resampled independently.
func ExampleResample() {
	in, out := []float64{1, 2, 3, 4, 5, 6, 7, 8}, []float64{4.5, 6.5, 8.5, 9, 10}
	detection, err := metrics.Detection(in, out, 0, 1, "auroc")
	if err != nil {
		log.Fatal(err)
	}
	sizes, methods := []int{len(in), len(out)}, []*metrics.Statistics{detection}
	figures, err := metrics.Resample(context.Background(), sizes, methods, metrics.ResampleOptions{Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	interval, _ := figures[0]["auroc"].Interval(0.95)
	fmt.Printf("AUROC in [%.2f, %.2f]\n", interval[0], interval[1])
	// Output: AUROC in [0.60, 1.00]
}
