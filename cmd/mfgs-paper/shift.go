package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/corrupt"
	"github.com/mfgs/mfgs/onnx/files"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/report/chart"
)

const shiftTitle = "Corrupted images: not the paper's"

// shiftImages is how many test images are spoiled in every way.
const shiftImages = 2000

// A spoiling is a way to spoil images; severity 0 is none.
type spoiling struct {
	kind     string
	severity int
}

func (s spoiling) String() string {
	if s.severity == 0 {
		return "as they are"
	}
	return fmt.Sprintf("%s %d", s.kind, s.severity)
}

// spoilings are none, and then every kind in all severities.
func spoilings() []spoiling {
	all := []spoiling{{}}
	for _, kind := range corrupt.Kinds() {
		for severity := 1; severity <= corrupt.Severities; severity++ {
			all = append(all, spoiling{kind, severity})
		}
	}
	return all
}

// some returns at most so many images of a gallery, spread evenly.
func (g *gallery) some(most int) *gallery {
	if g.len() <= most {
		return g
	}
	few := &gallery{width: g.width, height: g.height, channels: g.channels}
	for i := range most {
		at := i * g.len() / most
		few.pixels, few.labels = append(few.pixels, g.image(at)...), append(few.labels, g.labels[at])
	}
	return few
}

// spoiled returns the pixels of the first n images, each spoiled with its position as the seed.
func (g *gallery) spoiled(s spoiling, n int) ([]byte, error) {
	var all []byte
	for i := range min(n, g.len()) {
		im := corrupt.Image{Width: g.width, Height: g.height, Channels: g.channels, Pixels: g.image(i)}
		if s.severity > 0 {
			var err error
			if im, err = corrupt.Apply(s.kind, s.severity, im, uint64(i)); err != nil {
				return nil, err
			}
		}
		all = append(all, im.Pixels...)
	}
	return all, nil
}

// writeSpoiled writes a gallery spoiled, with its labels, and returns the SPEC. A file that is there is
// kept if it begins as it would be written.
func (g *gallery) writeSpoiled(dir string, s spoiling) (string, error) {
	name := filepath.Join(dir, fileName(s.String())+"-")
	images := name + "images-idx" + map[int]string{1: "3", 3: "4"}[g.channels] + "-ubyte"
	shape := []int{g.len(), g.height, g.width}
	if g.channels > 1 {
		shape = append(shape, g.channels)
	}
	if err := writeIDX(name+"labels-idx1-ubyte", g.labels, g.len()); err != nil {
		return "", err
	}
	begins, err := g.spoiled(s, 3)
	if err != nil {
		return "", err
	}
	head := 4 + 4*len(shape)
	if there, err := files.Read(images, int64(head+len(g.pixels))); err == nil &&
		len(there) == head+len(g.pixels) && bytes.HasPrefix(there[head:], begins) {
		return images, nil
	}
	pixels, err := g.spoiled(s, g.len())
	if err != nil {
		return "", err
	}
	return images, writeIDX(images, pixels, shape...)
}

// spoil writes the test images of a benchmark, spoiled in every way.
func (l *lab) spoil(ctx context.Context, set *benchmark) ([]bench.NamedSpec, error) {
	g, err := readGallery(ctx, set.test)
	if err != nil {
		return nil, err
	}
	g = g.some(shiftImages)
	ways := spoilings()
	l.say("spoiling %d images of %s in %d ways", g.len(), set.name, len(ways)-1)
	shifts, errs := make([]bench.NamedSpec, len(ways)), make([]error, len(ways))
	var wg sync.WaitGroup
	for i, s := range ways {
		wg.Go(func() {
			if errs[i] = context.Cause(ctx); errs[i] != nil {
				return
			}
			spec, err := g.writeSpoiled(filepath.Join(l.scratch, "spoiled", fileName(set.name)), s)
			shifts[i], errs[i] = bench.NamedSpec{Name: s.String(), Spec: spec}, err
		})
	}
	wg.Wait()
	return shifts, errors.Join(errs...)
}

// A shifted is a benchmark whose test images are spoiled.
type shifted struct {
	set    *benchmark
	seeds  []int
	trials []trial
	rows   [][]row // by trial and spoiling
}

// shiftTrials are those of a benchmark: with others where there are networks for them.
func shiftTrials(others bool) []trial {
	all := []trial{
		{row: "MLE", method: "mle"},
		{row: "T. Scale", method: "ts"},
		{row: "mf0", method: "mf0"},
	}
	if others {
		all = append(all, trial{row: "Deep E.(5)", method: "ensemble", joint: 5},
			trial{row: "Dropout", method: "dropout:20", network: "dropout"})
	}
	return all
}

// shiftQuantities are what is printed, and the first of them drawn.
var shiftQuantities = []struct {
	name, title string
	of          quantity
	scale       float64
	digits      int
}{
	{"nll", "NLL", nllOf, 1, 3},
	{"debiased-ce", "debiased calibration error, %", debiasedOf, 100, 1},
	{"aurc", "AURC, %", aurcOf, 100, 2},
	{"error", "error, %", errorOf, 100, 1},
}

// shiftPictures is how many of them are drawn.
const shiftPictures = 3

// severities are the rows of a trial averaged over kinds, one for each severity from 0 on.
func (f *shifted) severities(trial int) []row {
	all := make([]row, corrupt.Severities+1)
	for severity := range all {
		var of []row
		for i, s := range spoilings() {
			if s.severity == severity {
				of = append(of, f.rows[trial][i])
			}
		}
		all[severity] = across(shiftPlace(f.set.name, severity, f.trials[trial]), of)
	}
	return all
}

func shiftPlace(set string, severity int, t trial) place {
	return place{"shift", fmt.Sprintf("%s, severity %d", set, severity), t.row}
}

// drawShift draws a quantity over the severities; rows are by trial and severity.
func drawShift(set string, trials []trial, rows [][]row, quantity int) picture {
	q := shiftQuantities[quantity]
	c := chart.Chart{
		Name: set + ", corrupted: " + strings.TrimSuffix(q.title, ", %"), Width: 480, Height: 340,
		X: chart.Axis{Label: "severity", Max: corrupt.Severities, Whole: true},
		Y: chart.Axis{Label: strings.Replace(q.title, ", %", " in %", 1), Percent: q.scale == 100},
	}
	for i, t := range trials {
		stroke := chart.Strokes[i%len(chart.Strokes)]
		line := chart.Series{Name: t.row, Tone: stroke.Tone, Dashes: stroke.Dashes}
		for severity, r := range rows[i] {
			line.X, line.Y = append(line.X, float64(severity)), append(line.Y, r.over(q.of).mean())
		}
		c.Series = append(c.Series, line)
	}
	return picture{"shift-" + fileName(set) + "-" + q.name + ".svg", c.Document()}
}

func figureShift(ctx context.Context, l *lab, s *section) error {
	own, _, err := l.cifar10(ctx)
	if err != nil {
		return err
	}
	s.write("The test images spoiled by a script of ours in the manner of CIFAR-10-C (Hendrycks and Dietterich, 2019): its fifteen kinds, %s, "+
		"each in five severities. How they are drawn, and how strongly, is ours, and frost is drawn rather than photographed, so that no number here can "+
		"be compared with one on CIFAR-10-C. %d test images, spread evenly and no more for the time that it takes, are spoiled in all 75 ways; severity 0 is these images as they are. "+
		"Nothing was tuned on spoiled images. Figures are means over the kinds, and over the networks; the debiased calibration error is of the top class, ℓ2. "+
		"Images of MNIST are far from the network's training data where their ground is not black, as in fog.",
		strings.Join(corrupt.Kinds(), ", "), shiftImages)
	for _, f := range []*shifted{
		{set: l.mnist(), seeds: l.seeds, trials: shiftTrials(true)},
		{set: own, seeds: []int{0}, trials: shiftTrials(false)},
	} {
		shifts, err := l.spoil(ctx, f.set)
		if err != nil {
			return err
		}
		f.rows, err = l.measureShifts(ctx, f.set, f.seeds, f.trials, shifts, func(way string, t trial) place {
			return place{"shift", f.set.name + " " + way, t.row}
		})
		if err != nil {
			return err
		}
		f.write(s)
	}
	return nil
}

// write writes what was measured on a benchmark.
func (f *shifted) write(s *section) {
	rows := make([][]row, len(f.trials))
	for i := range f.trials {
		rows[i] = s.add(f.severities(i)...)
	}
	s.write("### %s", f.set.name)
	var pictures []string
	for i, q := range shiftQuantities[:shiftPictures] {
		p := drawShift(f.set.name, f.trials, rows, i)
		s.pictures = append(s.pictures, p)
		pictures = append(pictures, fmt.Sprintf("![%s over severity](paper/%s)", strings.TrimSuffix(q.title, ", %"), p.name))
	}
	s.write("%s", strings.Join(pictures, "\n"))
	for _, q := range shiftQuantities {
		head := []string{q.title}
		for severity := range corrupt.Severities + 1 {
			head = append(head, fmt.Sprintf("severity %d", severity))
		}
		t := newTable(head...)
		for i, trial := range f.trials {
			cells := []string{trial.row}
			for _, r := range rows[i] {
				cells = append(cells, fmt.Sprintf("%.*f", q.digits, q.scale*r.over(q.of).mean()))
			}
			t.row(cells...)
		}
		s.write("%s", t)
	}
	s.write("%s", f.beyondTS())
	s.write("%s", f.byKind())
}

// trialOf returns which trial is of a method.
func (f *shifted) trialOf(method string) int {
	for i, t := range f.trials {
		if t.method == method {
			return i
		}
	}
	panic("no trial of " + method)
}

// overTS are the differences of mf0's NLL to temperature scaling's, by network, on images spoiled in such ways.
func (f *shifted) overTS(is func(spoiling) bool) (all []metrics.Difference) {
	for i, s := range spoilings() {
		if !is(s) {
			continue
		}
		for _, run := range f.rows[f.trialOf("mf0")][i].runs {
			if run.overTS != nil {
				all = append(all, *run.overTS)
			}
		}
	}
	return all
}

// meanDifference is the mean of differences that are measured on the same images or networks. Its interval is
// the mean of theirs: the standard error of a mean is at most the mean of the standard errors, however what is
// averaged goes together.
func meanDifference(all []metrics.Difference) (mean metrics.Difference) {
	for _, d := range all {
		n := float64(len(all))
		mean.Difference += d.Difference / n
		mean.Interval[0] += d.Interval[0] / n
		mean.Interval[1] += d.Interval[1] / n
	}
	return mean
}

// beyondTS says where mf0's NLL differs from temperature scaling's beyond chance.
func (f *shifted) beyondTS() string {
	var higher, lower, neither []string
	for severity := range corrupt.Severities + 1 {
		d := meanDifference(f.overTS(func(s spoiling) bool { return s.severity == severity }))
		text := fmt.Sprintf("%d (%+.4f, %+.4f to %+.4f)", severity, d.Difference, d.Interval[0], d.Interval[1])
		switch {
		case d.Interval[0] > 0:
			higher = append(higher, text)
		case d.Interval[1] < 0:
			lower = append(lower, text)
		default:
			neither = append(neither, text)
		}
	}
	list := func(severities []string) string {
		if severities == nil {
			return "nowhere"
		}
		return "at severity " + strings.Join(severities, ", ")
	}
	return fmt.Sprintf("mf0's NLL is higher than temperature scaling's by more than its paired interval %s; lower by more than it %s; within it %s. "+
		"The intervals are of 95 %%, by the bootstrap over examples, both methods on the same draws and the networks as they are; that of a mean over kinds and "+
		"networks is the mean of theirs, which is not narrower than it should be, as all spoil the same images.",
		list(higher), list(lower), list(neither))
}

// byKind is a table of the kinds.
func (f *shifted) byKind() string {
	t := newTable("kind", "MLE's error, %, at 1", "at 3", "at 5", "NLL at 5: MLE", "T. Scale", "mf0", "mf0 − T. Scale at 1 to 5",
		"higher", "lower", "of")
	for _, kind := range corrupt.Kinds() {
		cells := []string{kind}
		at := func(method string, severity int, q quantity) float64 {
			for i, s := range spoilings() {
				if s == (spoiling{kind, severity}) {
					return f.rows[f.trialOf(method)][i].over(q).mean()
				}
			}
			panic(kind)
		}
		for _, severity := range []int{1, 3, 5} {
			cells = append(cells, fmt.Sprintf("%.1f", 100*at("mle", severity, errorOf)))
		}
		for _, method := range []string{"mle", "ts", "mf0"} {
			cells = append(cells, fmt.Sprintf("%.3f", at(method, corrupt.Severities, nllOf)))
		}
		all := f.overTS(func(s spoiling) bool { return s.kind == kind })
		higher, lower := 0, 0
		for _, d := range all {
			if d.Interval[0] > 0 {
				higher++
			} else if d.Interval[1] < 0 {
				lower++
			}
		}
		t.row(append(cells, fmt.Sprintf("%+.4f", meanDifference(all).Difference), fmt.Sprint(higher), fmt.Sprint(lower),
			fmt.Sprint(len(all)))...)
	}
	return "Kind by kind, with the mean difference of the NLL, and in how many severities, network by network, it is higher or lower beyond its own interval. Of as many without any difference one in forty would be so on either side:\n\n" + t.String()
}
