package telemetry

import (
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/mfgs/mfgs/calibrate/drift"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// heldOut draws the predictions of 500 validation examples, and of others like them, or shifted.
func heldOut(t testing.TB) *bundle.Reference {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	values := func() drift.Reference {
		v := make([]float64, 500)
		for i := range v {
			v[i] = rng.Float64()
		}
		r, err := drift.NewReference(v, 20)
		if err != nil {
			t.Fatal(err)
		}
		return *r
	}
	return &bundle.Reference{Confidence: values(), Entropy: values(), OODScore: values(), Classes: []int{200, 200, 100}}
}

func predicted(rng *rand.Rand, shift float64) wrap.Prediction {
	percentile, abstain := rng.Float64(), rng.IntN(2) == 0
	p := wrap.Prediction{
		Class: rng.IntN(5) / 2, Confidence: rng.Float64(), Entropy: rng.Float64(),
		OODScore:      min(1, rng.Float64()+shift),
		OODPercentile: &percentile, Abstain: &abstain, PredictionSet: []int{0, 2},
	}
	if abstain {
		p.AbstainReason = "out-of-distribution"
	}
	return p
}

func petsBundle(t testing.TB) Bundle {
	return Bundle{
		SHA256: "3b1f", Classes: []string{"cat", "dog", "axolotl"}, Reference: heldOut(t),
		Pending: func() (int, int) { return 2, 5 },
	}
}

func load(t testing.TB, m *Metrics, model string, b Bundle) *Observer {
	t.Helper()
	o, err := m.Load(model, b)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// page returns the answer to a scrape.
func page(t testing.TB, m *Metrics) string {
	t.Helper()
	r := httptest.NewRecorder()
	request := httptest.NewRequest("GET", "/metrics", nil)
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	m.Handler().ServeHTTP(r, request)
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", r.Code, err, body)
	}
	return string(body)
}

// value returns the value of a series as text, "" if there is none.
func value(page, series string) string {
	for line := range strings.Lines(page) {
		if v, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func TestCountsAreExposed(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	o := load(t, m, "pets", petsBundle(t))
	o.Execution(7)
	o.Request(3*time.Millisecond, time.Millisecond, 1500*time.Microsecond)
	o.Failure(Rejected)
	o.Failure("by magic")
	yes, half := true, 0.5
	o.Predictions([]wrap.Prediction{
		{Class: 2, Confidence: 0.97, Entropy: 0.1, OODScore: 0.3, OODPercentile: &half, Abstain: &yes,
			AbstainReason: "uncertain and out-of-distribution", PredictionSet: []int{}},
		{Class: 9, Confidence: math.NaN(), Entropy: math.Inf(1), OODScore: math.NaN()},
		{Labels: []int{0, 1}, Confidence: 0.5, Entropy: 0.2, OODScore: 0.2},
	})
	m.LoadFailed("pets")
	text := page(t, m)
	for series, want := range map[string]string{
		`nv_inference_request_success{model="pets",version="1"}`:                          "1",
		`nv_inference_request_failure{model="pets",reason="REJECTED",version="1"}`:        "1",
		`nv_inference_request_failure{model="pets",reason="OTHER",version="1"}`:           "1",
		`nv_inference_request_failure{model="pets",reason="CANCELED",version="1"}`:        "0",
		`nv_inference_request_failure{model="pets",reason="BACKEND",version="1"}`:         "0",
		`nv_inference_count{model="pets",version="1"}`:                                    "7",
		`nv_inference_exec_count{model="pets",version="1"}`:                               "1",
		`nv_inference_request_duration_us{model="pets",version="1"}`:                      "3000",
		`nv_inference_queue_duration_us{model="pets",version="1"}`:                        "1000",
		`nv_inference_compute_infer_duration_us{model="pets",version="1"}`:                "1500",
		`nv_inference_pending_request_count{model="pets",version="1"}`:                    "2",
		`mfgs_pending_examples{model="pets"}`:                                             "5",
		`mfgs_request_duration_seconds_bucket{model="pets",le="0.0025"}`:                  "0",
		`mfgs_request_duration_seconds_bucket{model="pets",le="0.005"}`:                   "1",
		`mfgs_queue_duration_seconds_sum{model="pets"}`:                                   "0.001",
		`mfgs_inference_batch_size_bucket{model="pets",le="8"}`:                           "1",
		`mfgs_prediction_confidence_count{model="pets"}`:                                  "2",
		`mfgs_prediction_confidence_bucket{model="pets",le="0.95"}`:                       "1",
		`mfgs_prediction_entropy_nats_count{model="pets"}`:                                "2",
		`mfgs_prediction_ood_percentile_ratio_bucket{model="pets",le="0.5"}`:              "1",
		`mfgs_prediction_ood_percentile_ratio_count{model="pets"}`:                        "1",
		`mfgs_prediction_set_size_bucket{model="pets",le="0"}`:                            "1",
		`mfgs_prediction_set_size_count{model="pets"}`:                                    "1",
		`mfgs_abstentions_total{model="pets",reason="uncertain and out-of-distribution"}`: "1",
		`mfgs_abstentions_total{model="pets",reason="uncertain"}`:                         "0",
		`mfgs_predicted_class_total{class="axolotl",model="pets"}`:                        "1",
		`mfgs_predicted_class_total{class="cat",model="pets"}`:                            "1",
		`mfgs_predicted_class_total{class="dog",model="pets"}`:                            "1",
		`mfgs_predicted_class_total{class="other",model="pets"}`:                          "1",
		`mfgs_bundle_info{model="pets",sha256="3b1f",version="1"}`:                        "1",
		`mfgs_bundle_loads_total{model="pets"}`:                                           "1",
		`mfgs_bundle_load_failures_total{model="pets"}`:                                   "1",
		`mfgs_drift_window_examples{model="pets",quantity="ood_score"}`:                   "3",
		`mfgs_drift_alarm{model="pets",quantity="ood_score"}`:                             "0",
	} {
		if got := value(text, series); got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
	for _, name := range []string{"go_goroutines ", "go_build_info{", "process_open_fds "} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("no %s", name)
		}
	}
}

// Abstentions are counted by reason; answered examples are not.
func TestAbstentionsHaveTheirReasons(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	o := load(t, m, "pets", petsBundle(t))
	yes, no := true, false
	for i, reason := range []string{"uncertain", "out-of-distribution", "uncertain and out-of-distribution"} {
		for range i + 1 {
			o.Predictions([]wrap.Prediction{{Abstain: &yes, AbstainReason: reason}, {Abstain: &no}, {}})
		}
	}
	text := page(t, m)
	for reason, want := range map[string]string{"uncertain": "1", "out-of-distribution": "2", "uncertain and out-of-distribution": "3"} {
		if got := value(text, `mfgs_abstentions_total{model="pets",reason="`+reason+`"}`); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

// Prometheus' linter accepts our metrics; its complaints are about those with Triton's names.
func TestNamesFollowConventions(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	load(t, m, "pets", petsBundle(t)).Predictions([]wrap.Prediction{{}})
	problems, err := promlint.New(strings.NewReader(page(t, m))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	triton := 0
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "nv_") {
			triton++
			continue
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if triton == 0 {
		t.Error("the linter finds no counter that does not end in _total: it looks at nothing")
	}
}

// A reloaded bundle continues its counters, and drift begins again. An unloaded one leaves no series, even if its
// observer is used once more.
func TestModelsComeAndGo(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	empty := page(t, m)
	if strings.Contains(empty, "model=") {
		t.Error("there are series of models before any is loaded")
	}
	rng := rand.New(rand.NewPCG(2, 2))
	first := load(t, m, "a", petsBundle(t))
	for range 100 {
		first.Predictions([]wrap.Prediction{predicted(rng, 0.5)})
	}
	load(t, m, "b", petsBundle(t))
	if got := value(page(t, m), `mfgs_drift_alarm{model="a",quantity="ood_score"}`); got != "1" {
		t.Fatalf("the alarm of 100 shifted examples is %q, want 1", got)
	}
	again := petsBundle(t)
	again.SHA256, again.Classes = "77", []string{"cat", "dog", "newt"}
	second := load(t, m, "a", again)
	first.Request(time.Second, 0, 0)
	second.Request(time.Second, 0, 0)
	text := page(t, m)
	for series, want := range map[string]string{
		`nv_inference_request_success{model="a",version="1"}`:         "2",
		`mfgs_bundle_loads_total{model="a"}`:                          "2",
		`mfgs_bundle_info{model="a",sha256="77",version="1"}`:         "1",
		`mfgs_bundle_info{model="a",sha256="3b1f",version="1"}`:       "",
		`mfgs_drift_alarm{model="a",quantity="ood_score"}`:            "0",
		`mfgs_predicted_class_total{class="newt",model="a"}`:          "0",
		`mfgs_predicted_class_total{class="axolotl",model="a"}`:       "",
		`mfgs_predicted_class_total{class="axolotl",model="b"}`:       "0",
		`mfgs_prediction_ood_percentile_ratio_count{model="a"}`:       "100",
		`mfgs_drift_window_examples{model="a",quantity="confidence"}`: "0",
	} {
		if got := value(text, series); got != want {
			t.Errorf("after it was loaded again, %s is %q, want %q", series, got, want)
		}
	}
	m.Unload("a")
	m.Unload("nobody")
	second.Request(time.Second, 0, 0)
	second.Predictions([]wrap.Prediction{predicted(rng, 0)})
	if text = page(t, m); strings.Contains(text, `model="a"`) || !strings.Contains(text, `model="b"`) {
		t.Error("unloading a left some of it, or took b with it")
	}
	m.Unload("b")
	families := func(text string) []string {
		seen := map[string]bool{}
		for line := range strings.Lines(text) {
			name, _, _ := strings.Cut(line, " ")
			name, _, _ = strings.Cut(name, "{")
			seen[name] = true
		}
		return slices.Sorted(maps.Keys(seen))
	}
	if got, want := families(page(t, m)), families(empty); !slices.Equal(got, want) {
		t.Errorf("after all are unloaded there are\n%v\nwant\n%v", got, want)
	}
}

func TestAnInvalidReferenceIsRefused(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	for _, lie := range []func(*bundle.Reference){
		func(r *bundle.Reference) { r.Entropy.Below[0] = -1 },
		func(r *bundle.Reference) { r.Classes[0] = -1 },
	} {
		b := petsBundle(t)
		lie(b.Reference)
		if _, err := m.Load("a", b); err == nil || !strings.Contains(err.Error(), "validation ") {
			t.Errorf("%+v: error %v", b.Reference, err)
		}
	}
	if text := page(t, m); strings.Contains(text, "mfgs_bundle_info") {
		t.Error("it is shown as serving")
	}
}

// There are at most 65 series of classes, whatever their names.
func TestSeriesOfClassesAreBounded(t *testing.T) {
	t.Parallel()
	held := heldOut(t)
	held.Classes = make([]int, 1000)
	for i := range held.Classes {
		held.Classes[i] = i
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("class ", i)
	}
	for name, c := range map[string]struct {
		b     Bundle
		count int
		some  map[int]string
	}{
		"names":        {Bundle{Classes: []string{"a", "b"}}, 3, map[int]string{0: "a", 1: "b", 2: "other", -1: "other"}},
		"same names":   {Bundle{Classes: []string{"a", "a"}}, 3, map[int]string{0: "0", 1: "1"}},
		"empty":        {Bundle{Classes: []string{"a", ""}}, 3, map[int]string{0: "0", 1: "1"}},
		"named other":  {Bundle{Classes: []string{"a", "other"}}, 3, map[int]string{0: "0", 1: "1"}},
		"no text":      {Bundle{Classes: []string{"\xff", "b"}}, 3, map[int]string{0: "�", 1: "b"}},
		"long":         {Bundle{Classes: []string{strings.Repeat("x", 999)}}, 2, map[int]string{0: strings.Repeat("x", 128)}},
		"nothing":      {Bundle{}, 1, map[int]string{0: "other"}},
		"many":         {Bundle{Classes: many}, 65, map[int]string{0: "class 0", 63: "class 63", 64: "other"}},
		"the frequent": {Bundle{Classes: many, Reference: held}, 65, map[int]string{0: "other", 935: "other", 936: "class 936", 999: "class 999"}},
		"no names":     {Bundle{Reference: held}, 65, map[int]string{0: "other", 936: "936"}},
	} {
		m := New(Config{})
		o := load(t, m, "m", c.b)
		if got := testutil.CollectAndCount(m.classes); got != c.count {
			t.Errorf("%s: %d series, want %d", name, got, c.count)
		}
		for class, want := range c.some {
			o.Predictions([]wrap.Prediction{{Class: class}})
			if got := testutil.ToFloat64(m.classes.WithLabelValues("m", want)); got == 0 {
				t.Errorf("%s: class %d did not count as %q", name, class, want)
			}
		}
		if len(page(t, m)) == 0 {
			t.Error("no page")
		}
	}
}

// Of 400 models with 1,000 examples each, distributed like the validation data, at most a fraction FalseAlarm alarms in
// any of the three quantities, within 3 standard errors. A shift alarms, and the index shows where.
func TestDrift(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	const models, alpha = 400, 0.1
	alarms := 0
	for range models {
		// The probability is over the draw of the validation data as well.
		r := &bundle.Reference{Classes: []int{50, 40, 10}}
		for _, to := range []*drift.Reference{&r.Confidence, &r.Entropy, &r.OODScore} {
			v := make([]float64, 100)
			for i := range v {
				v[i] = rng.Float64()
			}
			held, err := drift.NewReference(v, 20)
			if err != nil {
				t.Fatal(err)
			}
			*to = *held
		}
		w, err := newWatch(r, Config{FalseAlarm: alpha, Window: 100})
		if err != nil {
			t.Fatal(err)
		}
		p := make([]wrap.Prediction, 1000)
		for i := range p {
			p[i] = predicted(rng, 0)
		}
		w.add(p)
		if slices.ContainsFunc(w.standings(), func(s standing) bool { return s.alarm }) {
			alarms++
		}
	}
	if most := models * (alpha + 3*math.Sqrt(alpha*(1-alpha)/models)); float64(alarms) > most {
		t.Errorf("%d of %d models alarmed without drift, want at most %.0f", alarms, models, most)
	}

	m := New(Config{Window: 200})
	o := load(t, m, "m", petsBundle(t))
	for range 300 {
		p := predicted(rng, 0.3)
		p.Class = 2
		o.Predictions([]wrap.Prediction{p})
	}
	for _, s := range o.drift.standings() {
		drifted := s.quantity == "ood_score" || s.quantity == "class"
		if drifted != (s.PSI > 2*s.Level95) || s.alarm != (s.quantity == "ood_score") || s.Examples != 200 {
			t.Errorf("after a shift of the score and the classes: %+v", s)
		}
	}
}

// If one quantity drifts, only that one alarms, at the exposed level, which accounts for three tests.
func TestOnlyTheDriftingQuantityAlarms(t *testing.T) {
	t.Parallel()
	at := map[string]float64{"confidence": 0, "entropy": 10, "ood_score": 20} // where the validation values begin
	held := func(name string) drift.Reference {
		v := make([]float64, 500)
		for i := range v {
			v[i] = at[name] + float64(i)/500
		}
		r, err := drift.NewReference(v, 20)
		if err != nil {
			t.Fatal(err)
		}
		return *r
	}
	for _, drifts := range []string{"", "confidence", "entropy", "ood_score"} {
		m := New(Config{FalseAlarm: 0.03})
		o := load(t, m, "m", Bundle{Reference: &bundle.Reference{
			Confidence: held("confidence"), Entropy: held("entropy"), OODScore: held("ood_score"), Classes: []int{500},
		}})
		rng := rand.New(rand.NewPCG(7, 7))
		value64 := func(name string) float64 {
			if name == drifts {
				return at[name] + 0.9
			}
			return at[name] + rng.Float64()
		}
		for range 100 {
			o.Predictions([]wrap.Prediction{{
				Confidence: value64("confidence"), Entropy: value64("entropy"), OODScore: value64("ood_score"),
			}})
		}
		text := page(t, m)
		for name := range at {
			want := "0"
			if name == drifts {
				want = "1"
			}
			if got := value(text, `mfgs_drift_alarm{model="m",quantity="`+name+`"}`); got != want {
				t.Errorf("where %q drifts, the alarm of %s is %q", drifts, name, got)
			}
			level := value(text, `mfgs_drift_log10_alarm_level{model="m",quantity="`+name+`"}`)
			if level != "2" { // log10(3/0.03)
				t.Errorf("the level of %s is %q, want 2", name, level)
			}
		}
	}
}

// Requests, reloads and scrapes at the same time, for the race detector; no count is lost.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	o := load(t, m, "m", petsBundle(t))
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(4, uint64(i)))
			for range 200 {
				o.Predictions([]wrap.Prediction{predicted(rng, 0), predicted(rng, 0)})
				o.Request(time.Millisecond, 0, 0)
				o.Execution(2)
			}
		})
	}
	group.Go(func() {
		for range 20 {
			if _, err := m.Load("m", Bundle{Classes: []string{"cat", "dog", "axolotl"}}); err != nil {
				t.Error(err)
			}
			load(t, m, "other", petsBundle(t))
			page(t, m)
			m.Unload("other")
		}
	})
	group.Wait()
	if got := value(page(t, m), `mfgs_prediction_confidence_count{model="m"}`); got != "1600" {
		t.Errorf("%s predictions were counted, want 1600", got)
	}
}

func TestMetricsAllocateNothing(t *testing.T) {
	m := New(Config{})
	o := load(t, m, "m", petsBundle(t))
	p := []wrap.Prediction{predicted(rand.New(rand.NewPCG(5, 5)), 0)}
	if n := testing.AllocsPerRun(1000, func() {
		o.Predictions(p)
		o.Request(time.Millisecond, time.Microsecond, time.Microsecond)
		o.Execution(3)
		o.Failure(Other)
	}); n != 0 {
		t.Errorf("a request allocates %v times, want none", n)
	}
}

func TestConfigurationsOutOfRangePanic(t *testing.T) {
	t.Parallel()
	wrong := []Config{
		{FalseAlarm: 1}, {FalseAlarm: -0.1}, {FalseAlarm: math.NaN()}, {Window: -1}, {Window: 1 << 30},
	}
	for _, c := range wrong {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v: taken", c)
				}
			}()
			New(c)
		}()
	}
}

// Two servers in one process, or a program with metrics of its own, do not interfere.
func TestNothingIsGlobal(t *testing.T) {
	before, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	load(t, New(Config{}), "m", Bundle{})
	load(t, New(Config{}), "m", Bundle{})
	after, err := prometheus.DefaultGatherer.Gather()
	if err != nil || len(after) != len(before) {
		t.Errorf("the default registry has %d families, had %d: %v", len(after), len(before), err)
	}
}

func BenchmarkPredictions(b *testing.B) {
	rng := rand.New(rand.NewPCG(6, 6))
	p := make([]wrap.Prediction, 64)
	for i := range p {
		p[i] = predicted(rng, 0)
	}
	o := load(b, New(Config{}), "m", petsBundle(b))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o.Predictions(p[i%64 : i%64+1])
	}
}

func BenchmarkRequest(b *testing.B) {
	o := load(b, New(Config{}), "m", petsBundle(b))
	b.ReportAllocs()
	for b.Loop() {
		o.Request(time.Millisecond, time.Microsecond, time.Microsecond)
	}
}
