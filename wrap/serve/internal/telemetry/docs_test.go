package telemetry

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"gopkg.in/yaml.v3"

	"github.com/mfgs/mfgs/wrap"
)

// series are all that the registry shows of a model, by name, each with the values of its labels; and the
// families that they are of. Prometheus adds job and instance.
func series(t *testing.T) (labels map[string]map[string][]string, families []string) {
	t.Helper()
	m := New(Config{})
	load(t, m, "m", petsBundle(t)).Predictions([]wrap.Prediction{{}})
	m.LoadFailed("m")
	all, err := prometheus.Gatherers{m.registry}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels = map[string]map[string][]string{}
	for _, f := range all {
		families = append(families, f.GetName())
		values := map[string][]string{"job": nil, "instance": nil}
		for _, one := range f.Metric {
			for _, l := range one.Label {
				values[l.GetName()] = append(values[l.GetName()], l.GetValue())
			}
		}
		if f.GetType() != dto.MetricType_HISTOGRAM {
			labels[f.GetName()] = values
			continue
		}
		labels[f.GetName()+"_sum"], labels[f.GetName()+"_count"] = values, values
		values = maps.Clone(values)
		for _, b := range f.Metric[0].Histogram.Bucket {
			values["le"] = append(values["le"], strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
		}
		labels[f.GetName()+"_bucket"] = values
	}
	return labels, families
}

var (
	metricName = regexp.MustCompile(`\b(?:nv|mfgs|go|process)_\w+`)
	selectors  = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	selector   = regexp.MustCompile(`^\s*(\w+)(=~|=|!=|!~)"([^"]*)"\s*$`)
	grouping   = regexp.MustCompile(`\b(?:by|on|without|group_left) \(([^)]*)\)`)
	legend     = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
)

// checkQuery reports the metrics, labels and values of labels in a query that do not exist, and returns
// the metrics.
func checkQuery(t *testing.T, query string, exist map[string]map[string][]string) []string {
	t.Helper()
	names := metricName.FindAllString(query, -1)
	if len(names) == 0 {
		t.Errorf("%s: no metric", query)
	}
	known := map[string]bool{}
	for _, name := range names {
		if exist[name] == nil {
			t.Errorf("%s: there is no %s", query, name)
		}
		for l := range exist[name] {
			known[l] = true
		}
	}
	for _, s := range selectors.FindAllStringSubmatch(query, -1) {
		for one := range strings.SplitSeq(s[2], ",") {
			l := selector.FindStringSubmatch(one)
			if l == nil {
				t.Errorf("%s: %q is no selector", query, one)
				continue
			}
			values, ok := exist[s[1]][l[1]]
			if !ok {
				t.Errorf("%s: %s has no label %s", query, s[1], l[1])
			}
			if l[2] == "=" && !slices.Contains(values, l[3]) {
				t.Errorf("%s: %s of %s is one of %v", query, l[1], s[1], values)
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			if !known[strings.TrimSpace(l)] {
				t.Errorf("%s: no metric of it has a label %s", query, l)
			}
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(query, pair[:1]) != strings.Count(query, pair[1:]) {
			t.Errorf("%s: %s do not match", query, pair)
		}
	}
	return names
}

// The dashboard queries existing metrics only, and shows all metrics of models.
func TestTheDashboardUsesExistingMetrics(t *testing.T) {
	t.Parallel()
	exist, families := series(t)
	raw, err := os.ReadFile("../../../../docs/serve/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	shown, ids := map[string]bool{}, map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %d, %q: the same id twice, too wide, or without a query", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, query := range p.Targets {
			known := map[string][]string{}
			for _, name := range checkQuery(t, query.Expr, exist) {
				shown[name] = true
				maps.Copy(known, exist[name])
			}
			for _, l := range legend.FindAllStringSubmatch(query.LegendFormat, -1) {
				if _, ok := known[l[1]]; !ok {
					t.Errorf("panel %q: no metric of it has the label %s of its legend", p.Title, l[1])
				}
			}
		}
	}
	for _, v := range board.Templating.List {
		if v.Name != "datasource" {
			checkQuery(t, v.Definition, exist)
		}
	}
	for _, f := range families {
		ours := strings.HasPrefix(f, "mfgs_") || strings.HasPrefix(f, "nv_")
		if ours && !shown[f] && !shown[f+"_bucket"] {
			t.Errorf("%s is on no panel", f)
		}
	}
}

// The document on metrics names all of them, and no others.
func TestTheDocumentNamesAllMetrics(t *testing.T) {
	t.Parallel()
	_, families := series(t)
	raw, err := os.ReadFile("../../../../docs/serving.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range families {
		if strings.HasPrefix(f, "mfgs_") || strings.HasPrefix(f, "nv_") {
			want = append(want, f)
		}
	}
	got := regexp.MustCompile(`\b(?:nv|mfgs)_\w+[a-z0-9]\b`).FindAllString(string(raw), -1)
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("the page names\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Alerts have Prometheus' format (its promtool checks the grammar of queries), and use existing metrics.
func TestAlertsUseExistingMetrics(t *testing.T) {
	t.Parallel()
	exist, _ := series(t)
	raw, err := os.ReadFile("../../../../docs/serve/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			checkQuery(t, r.Expr, exist)
			if r.For != "" {
				if _, err := time.ParseDuration(r.For); err != nil {
					t.Errorf("%s: %v", r.Alert, err)
				}
			}
			if r.Alert == "" || seen[r.Alert] || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("an alert without a name of its own, severity and summary: %+v", r)
			}
			seen[r.Alert] = true
		}
	}
	if len(seen) == 0 {
		t.Error("no alerts")
	}
}
