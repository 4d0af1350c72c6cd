package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
)

var update = flag.Bool("update", false, "write the Markdown that is shown")

// hostile is what a class, a file or a text may be called.
const hostile = `</style><script>alert("x")</script><img src=http://example.com onerror=x>` + "\x1b[31m|`*_{{.}}[a](b)"

// labelled are figures on a test set, of which the calibration error less the network's own is between two ends.
func labelled(ece, low, high float64) *metrics.Labelled {
	interval := func(v float64) metrics.Interval { return metrics.Interval{v * .8, v * 1.3} }
	l := &metrics.Labelled{
		InDomain:    metrics.InDomain{N: 2000, Error: .05, NLL: .2, ECE: ece, Brier: .08},
		Reliability: metrics.Reliability{DebiasedCE: ece * .9, ClasswiseECE: ece / 5},
		Selective:   metrics.Selective{AURC: .004, Risk80: .001, Risk90: .01, Risk95: .02},
		Certainty: metrics.Certainty{
			Intervals: map[string]metrics.Interval{
				"ece": interval(ece), "error": interval(.05), "debiased_ce": interval(ece * .9), "risk80": interval(.001), "risk95": interval(.02),
			},
		},
	}
	if low != 0 {
		l.Differences = map[string]map[string]metrics.Difference{
			network: {"ece": {Difference: (low + high) / 2, Interval: metrics.Interval{low, high}}},
		}
	}
	return l
}

func detected(name string, fpr float64, different bool) bench.OODResult {
	r := bench.OODResult{Name: name}
	r.OOD = metrics.OOD{N: 500, Accuracy: .9, AUROC: .97, AUPRIn: .96, AUPROut: .95, FPR95: fpr}
	r.Intervals = map[string]metrics.Interval{"fpr95": {fpr * .5, fpr * 1.5}, "auroc": {.96, .98}}
	if different {
		d := metrics.Difference{Difference: -.3, Interval: metrics.Interval{-.4, -.2}}
		r.Differences = map[string]map[string]metrics.Difference{network: {"fpr95": d}}
	}
	return r
}

// evaluation is one of a network of three classes that mf0 calibrates.
func evaluation() *bench.Evaluation {
	grid := func() *calibrate.Grid {
		values := [][]float64{{.5, .4}, {.3, math.Inf(1)}, {.4, .6}}
		return &calibrate.Grid{Act: []float64{.5, 1, 2}, Tau: []float64{1e-3, 1}, Value: values}
	}
	m := &bundle.Manifest{
		Tool: "mfgs test", Labels: []string{"cat", hostile, ""},
		Head:      bundle.Head{Head: layer.Head{Features: 8, Logits: 3, Link: layer.Softmax}},
		MeanField: bundle.MeanField{MedianVariance: 2}, Grids: &bundle.Grids{NLL: grid(), AUROC: grid()},
		Datasets: []bundle.Dataset{
			{Role: bundle.Train, Spec: "train.csv", Count: 5000}, {Role: bundle.Val, Spec: hostile, Count: 1000},
		},
		Decisions: &conformal.Decisions{Plan: conformal.Plan{Alpha: .1}, Set: &conformal.Sets{Alpha: .1},
			Guarantees: []string{"sets miss at most 0.1", "not under distribution shift"}},
	}
	m.Temperatures.NLL.Temperatures = layer.Temperatures{Act: 1.1, Ens: .003}
	m.Temperatures.OOD.Temperatures = layer.Temperatures{Act: 2, Ens: 1}
	curve := func(bend float64) (points []metrics.Point) {
		for x := 0.; x <= 1; x += .05 {
			points = append(points, metrics.Point{X: x, Y: math.Pow(x, bend)})
		}
		return points
	}
	bins := func(off float64) (all []bench.ReliabilityBin) {
		for i := range 10 {
			b := bench.ReliabilityBin{}
			if i > 2 {
				low := float64(i) / 10
				b.Bin = metrics.Bin{N: 10 * i, Right: i * i, Confidence: low + .05, Accuracy: low + off}
				b.Interval = metrics.Interval{low + off - .1, min(1, low+off+.1)}
			}
			all = append(all, b)
		}
		return all
	}
	classes := func(ece float64) []metrics.ClassFigures {
		return []metrics.ClassFigures{
			{N: 900, Error: .04, ECE: ece}, {N: 1100, Error: .06, ECE: ece / 3}, {ECE: ece / 9},
		}
	}
	covered, size, empty := .93, 1.2, .01
	d := &bench.Detail{
		Manifest: m, Probabilities: "mf0", Score: "studentized",
		Sets: []bench.MeasuredSet{{Name: "test", Spec: hostile, N: 2000}, {Name: "far", Spec: "far.csv", N: 500}},
		Scores: bench.ScoreCounts{Edges: []float64{.2, .4, .6, .8}, Sets: []string{"test", "far"}, N: []int{2000, 500},
			Counts: [][]int{{1000, 900, 100}, {5, 95, 400}}},
		Sizes:   []bench.SetSizes{{Set: "test", Sizes: []int{20, 1500, 480}}},
		Classes: map[string][]metrics.ClassFigures{"mle": classes(.09), "mf0": classes(.03)},
		Curves: map[string]bench.Curves{
			"mle":         {Bins: bins(-.1), Risk: curve(2), ROC: [][]metrics.Point{curve(.5)}},
			"mf0":         {Bins: bins(.01), Risk: curve(3), ROC: [][]metrics.Point{curve(.3)}},
			"studentized": {ROC: [][]metrics.Point{curve(.1)}},
		},
	}
	d.Galleries = []bench.Gallery{
		{Kind: bench.Wrong, Set: "test", Examples: []bench.GalleryExample{
			{Name: hostile, Label: 0, Predicted: 1, Network: 1,
				Confidence: .999, NetworkConfidence: 1, OODScore: .4, OODPercentile: .31,
				Input: &dataset.Example{Inputs: []dataset.Array{{Data: []string{hostile}}}}},
			{Name: "b.png", Label: 0, Predicted: 2, OODPercentile: math.NaN(), Input: &dataset.Example{Inputs: []dataset.Array{
				{Shape: []int{2, 3}, Layout: tensor.HW, Data: []uint8{0, 50, 100, 150, 200, 255}}}}},
		}},
		{Kind: bench.LeastOOD, Set: "far", Examples: []bench.GalleryExample{{Name: "c", Label: -1, OODPercentile: .02}}},
	}
	return &bench.Evaluation{
		Bins:   10,
		Bundle: wrap.BundleInfo{Path: "some/folder/" + "b" + hostile, Summary: bundle.Summary{Structure: "full", Covariance: "hessian"}},
		Methods: []bench.MethodResult{
			{Name: "mle", InDomain: labelled(.031, 0, 0), OOD: []bench.OODResult{detected("far", .4, false)}},
			{Name: "mf0", InDomain: labelled(.004, -.035, -.02), OOD: []bench.OODResult{detected("far", .2, true)}},
			{Name: "studentized", OOD: []bench.OODResult{detected("far", .03, true)}},
		},
		Decisions: []bench.DecisionResult{
			{Set: "test", Realised: conformal.Realised{N: 2000, Covered: &covered, SetSize: &size, EmptySets: &empty}},
		},
		Detail:    d,
		Bootstrap: bench.BootstrapInfo{Resamples: 1000, Level: .95},
		Warnings:  []string{"far: " + hostile},
	}
}

func pageOf(e *bench.Evaluation, o Options) *page {
	return newView(e, o, e.Detail.Probabilities, e.Detail.Score).page()
}

func htmlOf(t *testing.T, e *bench.Evaluation, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeHTML(&b, pageOf(e, o)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// differs is a difference that may be so much smaller or larger.
func differs(by, give float64) metrics.Difference {
	return metrics.Difference{Difference: by, Interval: metrics.Interval{by - give, by + give}}
}

// A report has the figures of texts and tags.
func TestTextsAndTags(t *testing.T) {
	e := evaluation()
	f1 := .625
	e.Texts = []bench.TextResult{
		{Set: hostile, TextFigures: metrics.TextFigures{N: 1200, Exact: .75, CER: .0767, WER: 1.025}},
	}
	e.Tags = []bench.TagResult{
		{Set: "test", TagFigures: metrics.TagFigures{N: 300, Exact: .47, Steps: 2488, Accuracy: .88, F1: &f1}},
		{Set: "other", TagFigures: metrics.TagFigures{N: 9, Exact: 1, Steps: 9, Accuracy: 1}},
	}
	html := htmlOf(t, e, Options{})
	for _, want := range []string{"1,200", "75.00", "7.67", "102.50", "47.00", "2,488", "88.00", "62.50", "CER", "seqeval"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q in the report", want)
		}
	}
	if plain := htmlOf(t, evaluation(), Options{}); strings.Contains(plain, "CER") || strings.Contains(plain, "seqeval") {
		t.Error("figures of texts or tags in a report of classes")
	}
}

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		name     string
		change   func(*bench.Evaluation)
		headline string
		says     []string
	}{
		{"better", func(*bench.Evaluation) {}, "Better calibrated than the network", []string{
			"Calibration error fell from 3.10 % to 0.40 % (95 %: 0.32 to 0.52 %) on 2,000 test examples.",
			"5.00 % of the examples are misclassified, as before (95 %: 4.00 to 6.50 %).",
			"OOD detection: 97.0 % of far are detected (95 %: 95.5 to 98.5 %) at a false-alarm rate of 5 %, and 60.0 % by the network’s own uncertainty.",
			"Prediction sets have 1.20 classes on average and contain the true class for 93.0 % of the examples (95 %: 91.8 to 94.1 %); the target is 90.0 %.",
		}},
		{"worse", func(e *bench.Evaluation) { e.Methods[1].InDomain = labelled(.05, .01, .03) },
			"Worse calibrated than the network", []string{"Calibration error rose from 3.10 % to 5.00 %"}},
		{"chance", func(e *bench.Evaluation) { e.Methods[1].InDomain = labelled(.03, -.003, .001) },
			"No significant difference from the network",
			[]string{"went from 3.10 % to 3.00 % (95 %: 2.40 to 3.90 %) on 2,000 test examples; the difference of −0.10 points (−0.30 to 0.10 %) is not significant."}},
		{"labels of other classes", func(e *bench.Evaluation) { e.Implausible = true },
			"The accuracy is implausibly low: check the labels, the order of the classes and the inputs", nil},
		{"calibrated already", func(e *bench.Evaluation) {
			for i, v := range []float64{.011, .01} {
				e.Methods[i].InDomain = labelled(v, -.003, .001)
				e.Methods[i].InDomain.DebiasedCE = 0
			}
		}, "No significant calibration error, before or after", []string{"The debiased error is not significantly above 0."}},
		{"the network serves", func(e *bench.Evaluation) { e.Detail.Probabilities = "mle" },
			"The network’s own probabilities are used: no method is significantly better",
			[]string{"The calibration error is 3.10 % (95 %: 2.48 to 4.03 %) on 2,000 test examples."}},
		{"the network serves and is calibrated", func(e *bench.Evaluation) {
			e.Detail.Probabilities = "mle"
			e.Methods[0].InDomain.DebiasedCE = 0
		}, "The network’s own probabilities are used: they show no significant calibration error", nil},
		{"no OOD data", func(e *bench.Evaluation) {
			for i := range e.Methods {
				e.Methods[i].OOD = nil
			}
		}, "Better calibrated than the network", []string{"was not measured, since no OOD data was given"}},
		{"OOD inputs", func(e *bench.Evaluation) {
			d := map[string]metrics.Difference{"auroc": differs(.2, .1)}
			e.Methods[2].OOD[0].Differences = map[string]map[string]metrics.Difference{network: d}
		}, "Better calibrated than the network. Better OOD detection", nil},
		{"OOD inputs, and synthetic images", func(e *bench.Evaluation) {
			d := map[string]metrics.Difference{"auroc": differs(.2, .1)}
			e.Methods[2].OOD[0].Differences = map[string]map[string]metrics.Difference{network: d}
			for i := range e.Methods {
				e.Methods[i].OOD = append(e.Methods[i].OOD, detected(syntheticSet, .5, false))
			}
		}, "Better calibrated than the network. Better OOD detection", nil},
		{"OOD inputs, for the worse", func(e *bench.Evaluation) {
			d := map[string]metrics.Difference{"auroc": differs(-.2, .1)}
			e.Methods[2].OOD[0].Differences = map[string]map[string]metrics.Difference{network: d}
		}, "Better calibrated than the network. Worse OOD detection", nil},
		{"two sets, one of them detected better", func(e *bench.Evaluation) {
			d := map[string]metrics.Difference{"auroc": differs(.2, .1)}
			e.Methods[2].OOD[0].Differences = map[string]map[string]metrics.Difference{network: d}
			for i := range e.Methods {
				e.Methods[i].OOD = append(e.Methods[i].OOD, detected("near", .5, false))
			}
		}, "Better calibrated than the network", nil},
		{"two sets, one of them noticed worse", func(e *bench.Evaluation) {
			d := map[string]metrics.Difference{"auroc": differs(-.2, .1)}
			e.Methods[2].OOD[0].Differences = map[string]map[string]metrics.Difference{network: d}
			for i := range e.Methods {
				e.Methods[i].OOD = append(e.Methods[i].OOD, detected("near", .5, false))
			}
		}, "Better calibrated than the network", nil},
		{"synthetic images alone, detected better", func(e *bench.Evaluation) {
			d := map[string]metrics.Difference{"auroc": differs(.2, .1)}
			e.Methods[2].OOD[0].Differences = map[string]map[string]metrics.Difference{network: d}
			for i := range e.Methods {
				e.Methods[i].OOD[0].Name = syntheticSet
			}
		}, "Better calibrated than the network", nil},
		{"a smaller error, significantly", func(e *bench.Evaluation) {
			e.Methods[1].InDomain.Error = .03
			e.Methods[1].InDomain.Differences[network]["error"] = differs(-.02, .01)
		}, "Better calibrated than the network", []string{"5.00 % before.\n"}},
		{"a larger error, significantly", func(e *bench.Evaluation) {
			e.Methods[1].InDomain.Error = .07
			e.Methods[1].InDomain.Differences[network]["error"] = differs(.02, .01)
		}, "Better calibrated than the network", []string{"5.00 % before.\n"}},
		{"a smaller error, within chance", func(e *bench.Evaluation) {
			e.Methods[1].InDomain.Error = .04
			e.Methods[1].InDomain.Differences[network]["error"] = differs(-.01, .02)
		}, "Better calibrated than the network", []string{"5.00 % before, not a significant difference.\n"}},
		{"better likelihood", func(e *bench.Evaluation) {
			e.Methods[1].InDomain = labelled(.03, -.003, .001)
			e.Methods[1].InDomain.Differences[network]["nll"] = differs(-.02, .01)
		}, "Better probabilities than the network’s own", nil},
		{"worse likelihood", func(e *bench.Evaluation) {
			e.Methods[1].InDomain = labelled(.03, -.003, .001)
			e.Methods[1].InDomain.Differences[network]["nll"] = differs(.02, .01)
		}, "Worse probabilities than the network’s own", nil},
		{"no error", func(e *bench.Evaluation) {
			for i := range 2 {
				e.Methods[i].InDomain.Error = 0
				delete(e.Methods[i].InDomain.Intervals, "error")
			}
		}, "Better calibrated than the network",
			[]string{"0 % of the examples are misclassified, as before (95 %: 0 to 0.18 %)."}},
		{"answers", func(e *bench.Evaluation) {
			answered, wrong := .9, 0.
			e.Decisions[0].Answered, e.Decisions[0].Error = &answered, &wrong
		}, "Better calibrated than the network",
			[]string{"It answers 90.0 % of the test examples, and 0 % of these answers are wrong (95 %: 0 to 0.20 %)."}},
		{"guarantees", func(e *bench.Evaluation) {
			answered, wrong, flagged := .9, .03, .05
			e.Decisions[0].Answered, e.Decisions[0].Error, e.Decisions[0].OOD = &answered, &wrong, &flagged
			d := e.Detail.Manifest.Decisions
			d.Plan = conformal.Plan{TargetError: .02, FalseAlarm: .05, Alpha: .04}
			d.Set = &conformal.Sets{Alpha: .04, Examples: 1000, Thresholds: []float64{.9}}
		}, "Better calibrated than the network", []string{
			"3.00 % of these answers are wrong (95 %: 2.26 to 3.90 %); the guarantee is at most 2.00 %. The guarantee is violated significantly",
			"5.00 % of the test examples are flagged as out-of-distribution (95 %: 4.09 to 6.05 %); the guarantee is at most 5.00 %.\n",
			"the target is 96.0 %. The guarantee is violated significantly: this data differs from the validation data.",
		}},
		{"guarantees within chance", func(e *bench.Evaluation) {
			answered, wrong := .88, .03
			e.Decisions[0].Answered, e.Decisions[0].Error = &answered, &wrong
			d := e.Detail.Manifest.Decisions
			d.Plan = conformal.Plan{TargetCoverage: .89, Alpha: .05}
			d.Set = &conformal.Sets{Alpha: .05, Examples: 100, Thresholds: []float64{.9}}
		}, "Better calibrated than the network", []string{
			"; the guarantee is that at least 89.0 % are answered.\n", "the target is 95.0 %.",
		}},
		{"synthetic images", func(e *bench.Evaluation) {
			for i := range e.Methods {
				e.Methods[i].OOD[0].Name = syntheticSet
			}
		}, "Better calibrated than the network", []string{"OOD detection: 97.0 % of synthetic OOD images, made from the test images, are detected"}},
	} {
		e := evaluation()
		test.change(e)
		p := pageOf(e, Options{})
		if p.Headline != test.headline {
			t.Errorf("%s: headline %q, want %q", test.name, p.Headline, test.headline)
		}
		verdict := strings.ReplaceAll(strings.Join(p.Verdict, "\n"), "\u00a0", " ")
		if strings.HasSuffix(test.name, "within chance") && strings.Contains(verdict, "significantly") {
			t.Errorf("%s: the verdict says %s", test.name, verdict)
		}
		for _, s := range test.says {
			if !strings.Contains(verdict, s) {
				t.Errorf("%s: %q is not in\n%s", test.name, s, verdict)
			}
		}
	}
	if p := pageOf(evaluation(), Options{Tuned: true}); !strings.Contains(p.Caveats[0], "tuned on") {
		t.Errorf("caveats %q do not say what the data are", p.Caveats)
	}
}

// element is one of an HTML document, with the text within it.
type element struct {
	name, text string
	attributes map[string]string
}

// parse reads the document as XML: what is written closes all its elements but these.
func parse(t *testing.T, html string) (list []*element) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(strings.Replace(html, "<!DOCTYPE html>", "", 1)))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta", "img"}, xml.HTMLEntity
	var open []*element
	for {
		token, err := d.Token()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attributes: map[string]string{}}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			list, open = append(list, e), append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			for _, e := range open {
				e.text += string(token)
			}
		}
	}
}

// Names from the data are shown and not executed, and the page makes no requests.
func TestThePageIsInert(t *testing.T) {
	html := htmlOf(t, evaluation(), Options{})
	known := " html head meta title style body header main section nav footer h1 h2 h3 p ul li a div table caption thead tbody tr th td " +
		"small span figure figcaption svg path text rect details summary dl dt dd img "
	counts := map[string]int{}
	for _, e := range parse(t, html) {
		counts[e.name]++
		if !strings.Contains(known, " "+e.name+" ") {
			t.Errorf("element %s", e.name)
		}
		for a, v := range e.attributes {
			if strings.HasPrefix(a, "on") || a == "style" || a == "srcset" {
				t.Errorf("%s has %s=%q", e.name, a, v)
			}
			if a == "src" && !strings.HasPrefix(v, "data:image/") || a == "href" && !strings.HasPrefix(v, "#") {
				t.Errorf("%s leads to %s", e.name, v)
			}
		}
	}
	if counts["img"] != 1 || counts["style"] != 1 || counts["script"] != 0 {
		t.Errorf("elements: %v", counts)
	}
	if n := strings.Count(html, "alert(&#34;x&#34;)"); n < 6 {
		t.Errorf("the hostile name is shown %d times, want it for a class, in a card, of sets and in a warning", n)
	}
	if strings.Contains(html, "\x1b") {
		t.Error("a control character came through")
	}
}

// A browser takes the style sheet only by its hash.
func TestThePolicyKnowsTheStyles(t *testing.T) {
	html := htmlOf(t, evaluation(), Options{})
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(html)[1]
	sum := sha256.Sum256([]byte(style))
	var policy string
	for _, e := range parse(t, html) {
		if e.attributes["http-equiv"] == "Content-Security-Policy" {
			policy = e.attributes["content"]
		}
	}
	want := "default-src 'none'; img-src data:; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	if policy != want {
		t.Errorf("policy %s\nwant   %s", policy, want)
	}
	for _, outside := range []string{"url(", "@import", "http:", "https:"} {
		if strings.Contains(style, outside) {
			t.Errorf("the styles have %s", outside)
		}
	}
}

// Each figure has a name for those who do not see it and its numbers, but for the dots of classes, which
// are in the table beside it.
func TestFiguresHaveNamesAndNumbers(t *testing.T) {
	p := pageOf(evaluation(), Options{})
	figures := 0
	for _, s := range p.Sections {
		for _, f := range s.Figures {
			figures++
			if !strings.Contains(string(f.SVG), `role="img" aria-label="`) || strings.Contains(string(f.SVG), `aria-label=""`) {
				t.Errorf("%s has no name", f.Title)
			}
			if len(f.Table.Rows) == 0 && s.ID != "classes" {
				t.Errorf("%s has no numbers", f.Title)
			}
			for _, row := range f.Table.Rows {
				if len(row) != len(f.Table.Head) {
					t.Errorf("%s: a row of %d cells below %d", f.Title, len(row), len(f.Table.Head))
				}
			}
		}
		for _, table := range s.Tables {
			for _, row := range table.Rows {
				if len(row) != len(table.Head) {
					t.Errorf("%s: a row of %d cells below %d", table.Caption, len(row), len(table.Head))
				}
			}
		}
	}
	if figures != 10 {
		t.Errorf("%d figures: want two reliability diagrams and where examples are, risk, ROC, scores, sets, classes and two maps", figures)
	}
	ids := map[string]bool{}
	list := parse(t, htmlOf(t, evaluation(), Options{}))
	for _, e := range list {
		if id := e.attributes["id"]; id != "" && ids[id] {
			t.Errorf("id %s twice", id)
		} else {
			ids[id] = true
		}
	}
	for _, e := range list {
		if href := e.attributes["href"]; e.name == "a" && !ids[strings.TrimPrefix(href, "#")] {
			t.Errorf("%s leads nowhere", href)
		}
	}
}

// Without decisions the page shows what sets would be, and says that the bundle has none.
func TestThePageShowsPotentialSetsWithoutDecisions(t *testing.T) {
	e := evaluation()
	covered, size := .91, 1.5
	e.Decisions, e.Detail.Sizes, e.Detail.Manifest.Decisions = nil, nil, nil
	e.Detail.Trial = &bench.SetTrial{Alpha: .1, Held: 1000, Sizes: []int{0, 500, 500}}
	e.Detail.Trial.Realised = conformal.Realised{N: 1000, Covered: &covered, SetSize: &size}
	var b bytes.Buffer
	if err := writeMarkdown(&b, pageOf(e, Options{})); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(b.String(), "\u00a0", " ")
	for _, want := range []string{
		"### What would prediction sets look like?", "at most 10.0 % of all inputs", "fitted to 1,000 of the test examples",
		"| test | 1,000 | – | – | – | 91.00 % | 1.500 | – |", "| 2 | 500 | 50.00 % |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the report", want)
		}
	}
	e.Detail.Trial = nil
	if html := htmlOf(t, e, Options{}); strings.Contains(html, "prediction set") {
		t.Error("sets are shown where there are none")
	}
}

func TestMarkdown(t *testing.T) {
	var b bytes.Buffer
	if err := writeMarkdown(&b, pageOf(evaluation(), Options{Tuned: true})); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/report.md"
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("the Markdown is another than %s: look at what changed, with -update", golden)
	}
	// Beside what the report folds itself, nothing is markup.
	text := regexp.MustCompile(`</?(details|summary)>`).ReplaceAllString(b.String(), "")
	if i := strings.IndexAny(text, "<\x1b"); i >= 0 {
		t.Errorf("not escaped: %q", text[max(0, i-20):i+20])
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"a|b": `a\|b`, "<b>&": "&lt;b&gt;&amp;", "@team #1 GH-2": `&#64;&#8203;team \#&#8203;1 GH-&#8203;2`, "x\n# y": `x \#&#8203; y`, "http://a www.b.c": "http&#58;//a www&#46;b.c", "`a` *b* _c_ [d](e)": "\\`a\\` \\*b\\* \\_c\\_ \\[d\\](e)",
		"3.1 % (95 %: 2 – 4)": "3.1 % (95 %: 2 – 4)", "- a": `\- a`, "+": `\+`, "12. a": `12\. a`, "1) a": `1\) a`, "1.5 a": "1.5 a", "-a": "-a",
	} {
		if got := escape(in); got != want {
			t.Errorf("%q is written as %q, want %q", in, got, want)
		}
	}
}

// A summary is HTML, where backslashes of Markdown would be seen.
func TestSummariesAreHTML(t *testing.T) {
	e := evaluation()
	for i := range e.Methods {
		for j := range e.Methods[i].OOD {
			e.Methods[i].OOD[j].Name = "a_b<c @d #1"
		}
	}
	var b bytes.Buffer
	if err := writeMarkdown(&b, pageOf(e, Options{})); err != nil {
		t.Fatal(err)
	}
	if want := "<summary>ROC curve: a_b&lt;c @&#8203;d #&#8203;1</summary>"; !strings.Contains(b.String(), want) {
		t.Errorf("%s is not in\n%s", want, b.String())
	}
}

func TestWriteIsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"r.html", "r.md", "R.HTM"} {
		path := filepath.Join(dir, name)
		if err := Write(path, evaluation(), Options{}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "r.pdf"):            "want a name that ends in .html or .md",
		filepath.Join(dir, "none", "r.html"):   "none",
		filepath.Join(dir, "folder.html"):      "folder.html",
		filepath.Join(dir, "r.html", "r.html"): "r.html",
	} {
		if strings.HasSuffix(path, "folder.html") {
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := Write(path, evaluation(), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", path, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 4 {
		t.Errorf("what is left: %v, %v", left, err)
	}
	e := evaluation()
	e.Detail = nil
	if err := Write(filepath.Join(dir, "x.html"), e, Options{}); err == nil {
		t.Error("no error without detail")
	}
}

func TestNumbers(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{percent.words(.0314), "3.14 %"}, {percent.words(.972), "97.2 %"}, {percent.words(.99996), "100.00 %"}, {percent.words(1), "100 %"},
		{percent.words(.9996), "99.96 %"}, {percent.words(.00012), "0.012 %"}, {percent.words(.004), "0.40 %"},
		{percent.words(1e-9), "0.00 %"}, {percent.words(0), "0 %"}, {percent.write(math.NaN()), "– %"},
		{nats.write(math.Inf(1)), "∞"}, {text.Count(1234567), "1,234,567"}, {text.Count(999), "999"}, {text.Plural(1, "class"), "1 class"},
		{text.Plural(2, "class"), "2 classes"}, {text.Plural(1000, "example"), "1,000 examples"},
	} {
		if got := strings.ReplaceAll(test.got, "\u00a0", " "); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	points := []metrics.Point{{X: 0, Y: 0}, {X: .2, Y: .8}, {X: .2, Y: .9}, {X: 1, Y: 1}}
	for x, want := range map[float64]float64{0: 0, .1: .4, .2: .9, .6: .95, 1: 1} {
		if got := along(points, x); !approx.Equal(got, want, 1e-12) {
			t.Errorf("at %v the curve is %v high, want %v", x, got, want)
		}
	}
}

// violated is the text about a guarantee that does not hold.
const violated = "The guarantee is violated significantly"

// A violation is reported exactly if the two-sided test at the report's level is significant: the figures are at both
// sides of the limit.
func TestOnlySignificantViolationsAreReported(t *testing.T) {
	const n = 2000
	// firstBroken is the first number of n that violates the guarantee.
	firstBroken := func(guaranteed float64) int {
		for k := int(guaranteed * n); ; k++ {
			if low, _ := conformal.ClopperPearson(k, n, .95); low > guaranteed {
				return k
			}
		}
	}
	for _, test := range []struct {
		name  string
		plan  conformal.Plan
		count int // the first that is too many of n
		set   func(r *conformal.Realised, share float64)
	}{
		{"error", conformal.Plan{TargetError: .02, Alpha: .1}, firstBroken(.02), func(r *conformal.Realised, share float64) {
			all := 1.
			r.Answered, r.Error = &all, &share
		}},
		{"coverage", conformal.Plan{TargetCoverage: .9, Alpha: .1}, firstBroken(.1), func(r *conformal.Realised, share float64) {
			answered, wrong := 1-share, 0.
			r.Answered, r.Error = &answered, &wrong
		}},
		{"false alarms", conformal.Plan{FalseAlarm: .05, Alpha: .1}, firstBroken(.05), func(r *conformal.Realised, share float64) {
			r.OOD = &share
		}},
	} {
		for _, too := range []bool{false, true} {
			e := evaluation()
			e.Detail.Manifest.Decisions.Plan = test.plan
			e.Detail.Manifest.Decisions.Set.Examples = 100
			e.Decisions[0].Covered, e.Decisions[0].SetSize = nil, nil
			count := test.count - 1
			if too {
				count++
			}
			test.set(&e.Decisions[0].Realised, float64(count)/n)
			verdict := strings.Join(pageOf(e, Options{}).Verdict, "\n")
			if got := strings.Contains(verdict, violated); got != too {
				t.Errorf("%s, %d of %d: called broken %t, want %t:\n%s", test.name, count, n, got, too, verdict)
			}
			tuned := strings.Join(pageOf(e, Options{Tuned: true}).Verdict, "\n")
			if strings.Contains(tuned, violated) {
				t.Errorf("%s: on data that were tuned on a guarantee is called violated", test.name)
			}
		}
	}
}

// The coverage of sets varies with the examples that set their threshold. For one threshold its distribution is
// known, and a probability below 2.5 % is reported as a violation. For several it is unknown, and none is reported.
func TestOnlySignificantUndercoverageIsReported(t *testing.T) {
	const n, held, alpha = 2000, 400, .1
	first := 0
	for conformal.CoverageTail(first, n, held, alpha) < .025 {
		first++
	}
	for _, test := range []struct {
		covered    int
		thresholds []float64
		link       layer.Link
		want       bool
	}{
		{first, []float64{.9}, layer.Softmax, false}, {first - 1, []float64{.9}, layer.Softmax, true},
		{n / 2, []float64{.9, .8, .7}, layer.Softmax, false}, {n / 2, []float64{.9}, layer.Sigmoid, false},
	} {
		e := evaluation()
		e.Detail.Manifest.Head.Link = test.link
		e.Detail.Manifest.Decisions.Set = &conformal.Sets{Alpha: alpha, Examples: held, Thresholds: test.thresholds}
		covered := float64(test.covered) / n
		e.Decisions[0].Covered = &covered
		verdict := strings.Join(pageOf(e, Options{}).Verdict, "\n")
		e.Bundle.Decisions, e.Detail = e.Detail.Manifest.Decisions.Clone(), nil
		e.Bundle.Decisions.MultiLabel = test.link == layer.Sigmoid
		if sentences, measured := Violated(e); (len(sentences) > 0) != test.want || !measured {
			t.Errorf("%d of %d covered, %v, %s: violated %q, measured %t", test.covered, n, test.thresholds, test.link, sentences, measured)
		}
		if got := strings.Contains(verdict, violated); got != test.want || !strings.Contains(verdict, "the target is") {
			t.Errorf("%d of %d covered, %d thresholds, %s: called broken %t, want %t:\n%s",
				test.covered, n, len(test.thresholds), test.link, got, test.want, verdict)
		}
	}
}

// A star is at a figure whose difference to the network is significantly, and at no other.
func TestStarsMarkSignificantDifferences(t *testing.T) {
	e := evaluation()
	d := e.Methods[1].InDomain.Differences[network]
	d["error"], d["nll"] = differs(.001, .002), differs(.1, .05)
	rows := pageOf(e, Options{}).Sections[0].Tables[0].Rows
	stars := func(row []cell) (all []string) {
		for i, c := range row {
			if c.Significant {
				all = append(all, labelledHead()[i])
			}
		}
		return all
	}
	if got := stars(rows[1]); strings.Join(got, "; ") != "NLL, nats; ECE" || stars(rows[0]) != nil {
		t.Errorf("stars at %q, and at %q of the network itself", got, stars(rows[0]))
	}
}

// The network and temperature scaling are always drawn, mf0 only if it is the bundle's method. The text names the
// bundle's method, and each curve has its mark in the legend.
func TestTheCurvesOfAFewMethodsAreDrawn(t *testing.T) {
	for serves, want := range map[string]string{
		"mf0": "network (uncalibrated); temperature scaling; mean-field, selected",
		"ts":  "network (uncalibrated); temperature scaling, selected",
		"mle": "network (uncalibrated), selected; temperature scaling",
	} {
		e := evaluation()
		e.Methods = append(e.Methods, bench.MethodResult{Name: "ts", InDomain: labelled(.01, -.03, -.01)})
		e.Detail.Curves["ts"] = e.Detail.Curves["mf0"]
		e.Detail.Probabilities = serves
		v := newView(e, Options{}, e.Detail.Probabilities, e.Detail.Score)
		var drawn []string
		for _, l := range v.drawn() {
			drawn = append(drawn, l.title)
		}
		if got := strings.Join(drawn, "; "); got != want {
			t.Errorf("where %s serves, %q are drawn, want %q", serves, got, want)
		}
		var legend []string
		for _, s := range v.selective().Figures[0].Legend {
			legend = append(legend, s.Name)
		}
		if got := strings.Join(legend, "; "); got != want {
			t.Errorf("where %s serves, the legend is %q, want %q", serves, got, want)
		}
	}
}

// The headline needs no detail, only the methods that it compares.
func TestHeadlineNeedsNoDetail(t *testing.T) {
	e := evaluation()
	e.Bundle.Probabilities.Method, e.Bundle.OODScore.Name = calibrate.Method(e.Detail.Probabilities), e.Detail.Score
	want := pageOf(e, Options{}).Headline
	e.Detail = nil
	if got := Headline(e); got != want || got == "" {
		t.Errorf("%q, want %q", got, want)
	}
	e.Methods = slices.DeleteFunc(e.Methods, func(m bench.MethodResult) bool { return m.Name == network })
	if got := Headline(e); got != "" {
		t.Errorf("without the network: %q", got)
	}
}
