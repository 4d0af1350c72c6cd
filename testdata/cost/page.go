package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mfgs/mfgs/testdata/internal/evidence"
)

const (
	title   = "Cost of a calibration"
	command = "go run -C testdata -buildvcs=true ./cost -mfgs $PWD/mfgs"
)

// writePage writes docs/evidence/cost.md.
func writePage(file string, r *results) error { return evidence.Write(file, title, command, text(r)) }

// text is the page below its first lines.
func text(r *results) string {
	return fmt.Sprintf(page, table(r.training), table(r.layer), table(r.imagenet))
}

func table(write func(*strings.Builder)) string {
	var b strings.Builder
	write(&b)
	return b.String()
}

func (r *results) training(b *strings.Builder) {
	b.WriteString("| features, classes, structure |")
	for _, n := range sizes {
		fmt.Fprintf(b, " at %s |", thousands(n))
	}
	b.WriteString(" µs each | peak MB at 1,000 | at 10,000 | at 100,000 |\n|---|---|---|---|---|---|---|---|\n")
	for i, row := range r.heads {
		fmt.Fprintf(b, "| %d, %d, %s |", heads[i].features, heads[i].classes, heads[i].structure)
		for _, c := range row {
			fmt.Fprintf(b, " %.2f |", c.cpu)
		}
		last := len(row) - 1
		fmt.Fprintf(b, " %.3g |", 1e6*(row[last].cpu-row[last-1].cpu)/float64(sizes[last]-sizes[last-1]))
		for _, c := range row {
			fmt.Fprintf(b, " %.0f |", c.peak)
		}
		b.WriteString("\n")
	}
}

func (r *results) layer(b *strings.Builder) {
	b.WriteString("| varied | smaller size | CPU s | peak MB | larger size | CPU s then | peak MB then | ms each |\n|---|---|---|---|---|---|---|---|\n")
	for _, c := range r.resnet50 {
		fmt.Fprintf(b, "| %s | %s | %.1f | %.0f | %s | %.1f | %.0f | "+c.digitsEach+" |\n", c.what, thousands(c.from), c.then.cpu,
			c.then.peak, thousands(c.to), c.now.cpu, c.now.peak, 1e3*c.each())
	}
}

// imagenet extrapolates to the training and validation sets of ImageNet-1k. A worker has two processors.
func (r *results) imagenet(b *strings.Builder) {
	const (
		training, validation = 1_281_167, 50_000
		imagesPerSecond      = 34.9 // docs/benchmarks.md, with the curvature
		processors           = 2
	)
	b.WriteString("| workers | training data | validation data | merging | tuning | total | speed-up |\n|---|---|---|---|---|---|---|\n")
	if r.resnet50 == nil {
		return
	}
	tuning, part := r.resnet50[1].each(), r.resnet50[2].each()
	var alone float64
	for _, workers := range []int{1, 8, 64} {
		train := training / imagesPerSecond / float64(workers)
		val := validation / imagesPerSecond / float64(workers)
		merging := part * float64(workers) / processors
		if workers == 1 {
			merging = 0
		}
		tune := tuning * validation / processors
		total := train + val + merging + tune
		if workers == 1 {
			alone = total
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s | %s | %s | %.2g |\n", workers, duration(train), duration(val), duration(merging),
			duration(tune), duration(total), alone/total)
	}
}

// duration is seconds as they are read: 5 s, 2.5 min, 10 h 38 min.
func duration(seconds float64) string {
	switch d := time.Duration(math.Round(seconds)) * time.Second; {
	case seconds == 0:
		return "–"
	case seconds < 100:
		return fmt.Sprintf("%.2g s", seconds)
	case d < 100*time.Minute:
		return fmt.Sprintf("%.3g min", d.Minutes())
	default:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
}

// thousands is 1,000 for 1000.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

const page = `
How much processor time and memory a calibration needs, and what that means for ImageNet. [Costs](../scale.md#costs)
explains the terms.

## Method

The command runs ` + "`mfgs calibrate`" + ` and ` + "`mfgs merge`" + ` on random precomputed features, each run in its own process.
No network runs. The tables give CPU seconds, because wall-clock time depends on what else runs on the machine,
and the peak memory of the process. There are 2,000 validation and 1,000 OOD examples, unless the text says otherwise.

## Training examples

CPU seconds by the number of training examples. *µs each* is the time per example between 10,000 and 100,000.

%s
From 10,000 examples on, memory does not depend on their number. Below, the sample of features grows that OOD scores are
fitted with; it has at most 8,192 examples and 16 MiB.

## A ResNet-50's last layer

2,048 features, 1,000 classes, Kronecker structure.

%s
The first row has one damping, 200 validation and 100 OOD examples. The second has 1,000 training examples and tries four
dampings. The third has 200 validation and 100 OOD examples, and includes tuning. Each part covers one block of 512
examples.

## ImageNet

The paper's largest dataset: 1,281,167 training and 50,000 validation images, ResNet-50. **Extrapolated, not run**, from
the ` + "`mfgs calibrate`" + ` of the [benchmarks](../benchmarks.md#calibration), which reads
[34.9](../benchmarks.md#calibration "ResNet-50, 768 images by 16 · first") images/s on two cores, and from the table above.
Each worker is a machine with two such cores. Validation data are in as many shards as the training data. One worker
merges and tunes.

%s
An engine such as Spark adds the time to start tasks and move data.

## Spark

ResNet-50 at 224 × 224: 3,000 training images in 4 partitions, 100 validation images in 2, on two cores of an AMD EPYC,
with one worker per core. ` + "`testdata/spark/scale.py`" + ` measured this once; the command above does not repeat it.

| | seconds | images/s | seconds after the last image |
|---|---|---|---|
| mfgs calibrate, one core | 128.0 | 24.2 | |
| Spark, one worker of one core | 142.9 | 21.7 | 9.0 |
| mfgs calibrate, two cores | 68.1 | 45.5 | |
| Spark, two workers of one core | 85.6 | 36.2 | 9.4 |

| | without Spark | with Spark |
|---|---|---|
| speed-up on two cores | 1.88 | 1.67 |

| | one core | two cores |
|---|---|---|
| time that Spark adds | 12 %% | 26 %% |

Merging, fetching and tuning took 9 seconds with one worker and with two: more workers do not make them faster. The
driver and the master have a core to themselves when there is one worker; with two workers they share the workers'
cores. Each partition costs about 0.5 seconds to start mfgs, and transferred a part of 42 to 54 MB, which is some 80 MB
now.
`
