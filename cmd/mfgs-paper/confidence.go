package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/corrupt"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/wrap/bench"
)

const (
	confidenceTitle = "Confidence under shift (not in the paper)"
	confidenceTable = "confidence" // as in paper.json
)

// The rows.
const (
	scalingRow  = "T. Scale"
	hotRow      = "T x 1.1"
	noiseRow    = "feature noise"
	withinRow   = "feature noise, within classes"
	mf0Row      = "mf0"
	mf0NoiseRow = "mf0, feature noise"
)

func confidenceTrials(kind string) []trial {
	return []trial{
		{row: scalingRow, method: "ts", network: kind},
		{row: hotRow, method: "hot", network: kind},
		{row: noiseRow, method: "noise", network: kind},
		{row: withinRow, method: "noise_within", network: kind},
		{row: mf0Row, method: "mf0", network: kind},
		{row: mf0NoiseRow, method: "mf0_noise", network: kind},
	}
}

// A confidenceSet is a kind of networks with the data that they are tested on.
type confidenceSet struct {
	name  string // as in paper.json
	kind  string
	title string
	note  string
	// corrupted says that corrupted test images are among the data, and other that digits of another source are.
	corrupted, other bool
}

const shortMNISTName = mnistName + ", 15 epochs"

var confidenceSets = []confidenceSet{
	{name: mnistName, title: mnistName, corrupted: true, other: true},
	{
		name: shortMNISTName, kind: short, title: "MNIST, networks kept aside", corrupted: true, other: true,
		note: "Networks trained for 15 epochs, which do not interpolate.",
	},
	{name: cifar10Name, title: cifar10Name, corrupted: true},
	{
		name: shiftName, title: "CIFAR-10, a network kept aside", corrupted: true,
		note: "The ResNet-20 that was trained on the original pixels, with 2,000 test images for validation. Its other test images are under shift themselves.",
	},
	{
		name: smallDigitsName, title: "Digits of 8 × 8 pixels, a network kept aside", other: true,
		note: "The network of `models/digits-mlp`, with 300 digits for validation, on MNIST's test digits scaled to 8 × 8.",
	},
}

// Places of a confidenceSet.
const (
	testData    = "test data"
	otherDigits = "other digits"
)

// shiftedSeverities are the severities of the corrupted images.
var shiftedSeverities = []int{3, 5}

func severityName(severity int) string { return fmt.Sprintf("severity %d", severity) }

// data lists the names of the data, test data first.
func (c confidenceSet) data() []string {
	all := []string{testData}
	if c.corrupted {
		for _, severity := range shiftedSeverities {
			all = append(all, severityName(severity))
		}
	}
	if c.other {
		all = append(all, otherDigits)
	}
	return all
}

func (c confidenceSet) place(data, row string) place {
	return place{confidenceTable, c.name + ", " + data, row}
}

// confidenceQuantity is the NLL, with a larger resolution under shift.
func confidenceQuantity(data string) quantity {
	if data == testData {
		return nllOf
	}
	return shiftNLL
}

// benchmarkOf returns the benchmark of a confidenceSet, and the SPEC of its digits of another source, or "".
func (l *lab) benchmarkOf(ctx context.Context, c confidenceSet) (set *benchmark, other string, err error) {
	own, shift, err := l.cifar10(ctx)
	if err != nil {
		return nil, "", err
	}
	small := filepath.Join(l.models, "digits-mlp", "digits-images-idx3-ubyte.gz")
	switch c.name {
	case cifar10Name:
		return own, "", nil
	case shiftName:
		return shift, "", nil
	case smallDigitsName:
		set = l.smallDigits()
		other, err = l.otherDigits(ctx, l.mnist().test, set, func(from, to *images.Images) (crop, inner int) {
			return digitSide(from.Height), to.Height // MNIST's margins
		})
		return set, other, err
	}
	set = l.mnist()
	other, err = l.otherDigits(ctx, small, set, func(from, to *images.Images) (crop, inner int) {
		return from.Height, digitSide(to.Height)
	})
	return set, other, err
}

// digitSide is the side of the square that holds MNIST's digits: 20 of 28 pixels.
func digitSide(side int) int { return side * 20 / 28 }

// otherDigits writes digits of a SPEC in the size of a benchmark's.
func (l *lab) otherDigits(
	ctx context.Context, spec string, set *benchmark, sides func(from, to *images.Images) (crop, inner int),
) (string, error) {
	from, err := images.Read(ctx, spec)
	if err != nil {
		return "", err
	}
	to, err := images.Read(ctx, set.test)
	if err != nil {
		return "", err
	}
	crop, inner := sides(from, to)
	framed, err := from.Framed(crop, inner, to.Height)
	if err != nil {
		return "", err
	}
	return framed.Write(filepath.Join(l.scratch, "other digits", fileName(set.name)) + "-")
}

// confidenceShifts returns the test data, corrupted images and digits of another source.
func (l *lab) confidenceShifts(ctx context.Context, c confidenceSet) (*benchmark, []bench.NamedSpec, error) {
	set, other, err := l.benchmarkOf(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	shifts := []bench.NamedSpec{{Name: testData}}
	if c.corrupted {
		all, err := l.corrupt(ctx, set)
		if err != nil {
			return nil, nil, err
		}
		for _, severity := range shiftedSeverities {
			for i, way := range corrupt.Corruptions() {
				if way.Severity == severity {
					shifts = append(shifts, all[i])
				}
			}
		}
	}
	if c.other {
		shifts = append(shifts, bench.NamedSpec{Name: otherDigits, Spec: other})
	}
	return set, shifts, nil
}

func measureConfidence(ctx context.Context, l *lab, s *section) error {
	for _, c := range confidenceSets {
		set, shifts, err := l.confidenceShifts(ctx, c)
		if err != nil {
			return err
		}
		trials := confidenceTrials(c.kind)
		rows, err := l.measureShifts(ctx, set, trials, shifts, func(shift string, t trial) place {
			return c.place(dataOf(shift), t.row)
		})
		if err != nil {
			return err
		}
		for i, t := range trials {
			for _, data := range c.data() {
				at := c.place(data, t.row)
				other := func(r row) bool { return r.place != at }
				s.add(meanRow(at, slices.DeleteFunc(slices.Clone(rows[i]), other)))
			}
		}
	}
	return nil
}

// dataOf returns the data that a shift is part of: a corruption is of its severity.
func dataOf(shift string) string {
	if shift == testData || shift == otherDigits {
		return shift
	}
	return "severity" + shift[strings.LastIndex(shift, " "):]
}

// The claims about confidence under shift.
const (
	noiseScalingText = "under shift, a temperature fitted to noise on features has a lower NLL than temperature scaling"
	noiseHotText     = "under shift, a temperature fitted to noise on features has a lower NLL than T raised by a tenth"
	noiseTestText    = "without shift, a temperature fitted to noise on features has no higher NLL than temperature scaling"
	noiseTestHotText = "without shift, a temperature fitted to noise on features has no higher NLL than T raised by a tenth"
	withinText       = "under shift, a temperature fitted to noise within classes has a lower NLL than T raised by a tenth"
	withinTestText   = "without shift, a temperature fitted to noise within classes has no higher NLL than temperature scaling"
	mf0NoiseText     = "under shift, mf0 fitted to noise on features has no higher NLL than T raised by a tenth"
	mf0GainText      = "under shift, mf0 fitted to noise on features has a lower NLL than mf0"
	noiseMF0Text     = "under shift, a temperature fitted to noise on features has a lower NLL than mf0 fitted to the same"
)

// confidenceClaims are the claims about confidence under shift.
func confidenceClaims() []claim {
	of := func(text string, a assertion, shifted bool, row, other string) claim {
		c := claim{Text: text, assertion: a}
		for _, set := range confidenceSets {
			for _, data := range set.data() {
				if shifted == (data != testData) {
					at := set.place(data, "")
					of := contrast{at.table, at.data, row, other, confidenceQuantity(data), at.data}
					c.contrasts = append(c.contrasts, of)
				}
			}
		}
		return c
	}
	return []claim{
		of(noiseScalingText, isBetter, true, noiseRow, scalingRow),
		of(noiseHotText, isBetter, true, noiseRow, hotRow),
		of(noiseTestText, isNotWorse, false, noiseRow, scalingRow),
		of(noiseTestHotText, isNotWorse, false, noiseRow, hotRow),
		of(withinText, isBetter, true, withinRow, hotRow),
		of(withinTestText, isNotWorse, false, withinRow, scalingRow),
		of(mf0NoiseText, isNotWorse, true, mf0NoiseRow, hotRow),
		of(mf0GainText, isBetter, true, mf0NoiseRow, mf0Row),
		of(noiseMF0Text, isBetter, true, noiseRow, mf0NoiseRow),
	}
}

func writeConfidence(s *section) {
	s.write("Validation data cannot say how confidence should fall far from the training data; noise on the features can: φ + t·N(0, Cov φ) with t ~ U(0, 1.2), the label kept. " +
		"*Feature noise* is log T = b + c_D g_D + c_h g_h, where g_D and g_h are the part of the log distance of φ/|φ| to the nearest class mean, and of the log leverage, above their 90 %% quantile on " +
		"validation data, at most their largest on the noisy copies; *within classes*, the noise has the covariance of φ within classes. b and c ≥ 0 minimise the objective of temperature scaling, with the weight 0.85, plus the NLL of the noisy copies, with 0.15. *mf0, feature noise* has a pair " +
		"of temperatures that minimises the same. *T x 1.1* raises the T of temperature scaling by a tenth.")
	s.write("The columns are all test images, %d of them with the fifteen corruptions (means over these), and other digits: for MNIST the 1,797 digits of `models/digits-mlp`, scaled to 20 × 20 pixels in the middle of 28 × 28. "+
		"For CIFAR-10 no labelled images of another source were available. Nothing was tuned on shifted images.", shiftImages)
	for _, c := range confidenceSets {
		s.write("### %s", c.title)
		if c.note != "" {
			s.write("%s", c.note)
		}
		s.write("%s", c.table(s))
	}
	s.write("### Differences in NLL")
	if text := confidenceConclusion(s.claims); text != "" {
		s.write("%s %s", text, confidenceGains(s))
	}
	s.write("%s", confidenceDifferences(s.claims))
}

// confidenceDifferences returns the table of the comparisons, with their intervals.
func confidenceDifferences(claims []claim) string {
	pairs := [][2]string{
		{noiseRow, scalingRow}, {noiseRow, hotRow}, {withinRow, hotRow}, {mf0NoiseRow, hotRow}, {mf0NoiseRow, mf0Row},
	}
	head := []string{"data"}
	for _, p := range pairs {
		head = append(head, p[0]+" − "+p[1])
	}
	t := textTable(head...)
	for _, c := range confidenceSets {
		for _, data := range c.data() {
			at := c.place(data, "").data
			cells := []string{c.title + ": " + data}
			for _, p := range pairs {
				cell := ""
				if of := comparisonOf(claims, at, p[0], p[1]); of != nil {
					cell = fmt.Sprintf("%s (%s), %s", of.quantity.shown(of.Difference), of.interval(), of.Result.label())
				}
				cells = append(cells, cell)
			}
			t.row(cells...)
		}
	}
	return t.String()
}

// comparisonOf returns the comparison of two rows of this part, nil if there is none.
func comparisonOf(claims []claim, data, a, b string) *comparison {
	for _, c := range claims {
		for i, of := range c.Comparisons {
			if of.Table == confidenceTable && of.Data == data && of.A == a && of.B == b {
				return &c.Comparisons[i]
			}
		}
	}
	return nil
}

// confidenceOutcomes counts the results of the comparisons of a claim, in words.
func confidenceOutcomes(claims []claim, text string) (words string, all, none bool) {
	count, n := map[result]int{}, 0
	for _, c := range claims {
		if c.Text == text {
			for _, of := range c.Comparisons {
				count[of.Result]++
				n++
			}
		}
	}
	var parts []string
	for _, r := range []result{better, tie, worse, unclear} {
		if count[r] > 0 {
			word := strings.Replace(r.label(), "tie", "a tie", 1)
			parts = append(parts, fmt.Sprintf("%s in %d", word, count[r]))
		}
	}
	return fmt.Sprintf("%s of %d", strings.Join(parts, ", "), n), count[better] == n, n == 0
}

// confidenceConclusion says whether feature noise is better than raising T, "" if that was not measured.
func confidenceConclusion(claims []claim) string {
	scaling, _, none := confidenceOutcomes(claims, noiseScalingText)
	if none {
		return ""
	}
	raisedT, all, _ := confidenceOutcomes(claims, noiseHotText)
	clean, _, _ := confidenceOutcomes(claims, noiseTestText)
	cleanHot, _, _ := confidenceOutcomes(claims, noiseTestHotText)
	within, allWithin, _ := confidenceOutcomes(claims, withinText)
	pair, _, _ := confidenceOutcomes(claims, mf0NoiseText)
	verdict := "It does not beat T × 1.1 on all of these, so mfgs does not offer it."
	if all {
		verdict = "It beats T × 1.1 on all of these."
	}
	withinVerdict := "not better on all either"
	if allWithin {
		withinVerdict = "better on all"
	}
	return fmt.Sprintf("By its NLL under shift, feature noise compared with temperature scaling is %s, and compared with T × 1.1 %s. On test data it is %s, and %s. %s "+
		"With noise within classes it is, compared with T × 1.1, %s: %s. "+
		"mf0 fitted to the noise, compared with T × 1.1, is %s.",
		scaling, raisedT, clean, cleanHot, verdict, within, withinVerdict, pair)
}

// confidenceGains says how much the methods gain on corrupted images, and how large the ECE stays.
func confidenceGains(s *section) string {
	gain := func(a, b string) string {
		var all sample
		for _, c := range confidenceSets {
			for _, data := range c.data() {
				if strings.HasPrefix(data, "severity") {
					from, to := s.at(c.place(data, b)).over(nllOf), s.at(c.place(data, a)).over(nllOf)
					all = append(all, to.mean()-from.mean())
				}
			}
		}
		return shiftNLL.shown(all.mean())
	}
	least, most := math.Inf(1), 0.0
	for _, c := range confidenceSets {
		if c.corrupted {
			at := s.at(c.place(severityName(shiftedSeverities[1]), noiseRow)).over(eceOf)
			least, most = min(least, at.mean()), max(most, at.mean())
		}
	}
	return fmt.Sprintf("In the mean over the tables, the NLL on corrupted images changes by %s from temperature scaling to T × 1.1 and by %s to feature noise, and by %s from mf0 to mf0 fitted to the noise: "+
		"tuned so, the pair of mf0 does about what raising T does, since one T_ens scales the variances of test data and of data under shift alike. "+
		"Nothing cures the calibration: the ECE of feature noise at severity 5 is still %.0f to %.0f %%.",
		gain(hotRow, scalingRow), gain(noiseRow, scalingRow), gain(mf0NoiseRow, mf0Row), 100*least, 100*most)
}

// table returns the NLL and the ECE of all rows.
func (c confidenceSet) table(s *section) string {
	ece := eceOf.coarser(eceOf.resolution, 1)
	head := []string{""}
	for _, name := range []string{"NLL", "ECE %"} {
		for _, data := range c.data() {
			head = append(head, name+": "+data)
		}
	}
	t := numberTable(head...)
	for _, trial := range confidenceTrials(c.kind) {
		cells := []string{"**" + trial.row + "**"}
		for _, q := range []quantity{nllOf, ece} {
			for _, data := range c.data() {
				mean := s.at(c.place(data, trial.row)).over(q).mean()
				cells = append(cells, fmt.Sprintf("%.*f", q.digits, q.scale*mean))
			}
		}
		t.row(cells...)
	}
	return t.String()
}
