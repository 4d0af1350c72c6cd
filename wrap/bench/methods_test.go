package bench

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/models"
)

// evaluated are the results by name.
func evaluated(t *testing.T, cfg Config) map[string]MethodResult {
	t.Helper()
	e, err := Evaluate(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(e); err != nil {
		t.Error(err)
	}
	if len(e.Warnings) > 0 {
		t.Errorf("warnings %q", e.Warnings)
	}
	by := map[string]MethodResult{}
	for i, m := range e.Methods {
		if m.Name != cfg.Methods[i] {
			t.Errorf("method %d is %s, want %s", i, m.Name, cfg.Methods[i])
		}
		by[m.Name] = m
	}
	return by
}

// Each set has its own figures, in the order they were asked for.
func TestEachSetHasSeparateFigures(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	part := strings.Replace(digits(t, models.DigitsTest), "[1500:1797]", "[1500:1600]", 1)
	cfg := Config{
		Bundle: dir, Test: digits(t, models.DigitsTest), Methods: []string{"mf0", "ts"},
		Shifts: []NamedSpec{{"part", part}, {"validation", digits(t, models.DigitsVal)}},
		OOD:    []NamedSpec{{"digits", part}, {"drawings", digits(t, models.OODTest)}},
	}
	e, err := Evaluate(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range e.Methods {
		for i, shift := range cfg.Shifts {
			alone, err := Evaluate(t.Context(), Config{Bundle: dir, Test: shift.Spec, Methods: []string{m.Name}})
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Shifts[i]; got.Name != shift.Name || got.InDomain != alone.Methods[0].InDomain.InDomain {
				t.Errorf("%s: under shift %+v, %s alone %+v", m.Name, got, shift.Name, alone.Methods[0].InDomain.InDomain)
			}
		}
		if m.InDomain.N != 297 || m.OOD[0].Name != "digits" || m.OOD[0].N != 100 || m.OOD[1].Name != "drawings" || m.OOD[1].N != 300 ||
			!(m.OOD[0].AUROC < 0.6) || !(m.OOD[1].AUROC > 0.7) {
			t.Errorf("%s: in domain %+v, out of distribution %+v", m.Name, m.InDomain.InDomain, m.OOD)
		}
	}
}

// Class names determine labels: features from a cache have the labels of the current names.
func TestTheCacheDependsOnClassNames(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	e := newBench(Config{Bundle: dir, Test: digits(t, models.DigitsTest), Methods: []string{"mle"}})
	t.Cleanup(e.close)
	if err := e.check(); err != nil {
		t.Fatal(err)
	}
	if err := e.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	var lines strings.Builder
	for i, name := range names[:5] {
		row := "[" + strings.Repeat(fmt.Sprintf("0.%d,", i), 7) + "1]"
		fmt.Fprintf(&lines, "{\"image\": [%s%s], \"label\": %q}\n", strings.Repeat(row+",", 7), row, name)
	}
	spec := filepath.Join(t.TempDir(), "rows.jsonl")
	write(t, filepath.Dir(spec), "rows.jsonl", []byte(lines.String()))
	o := e.opener(nil, 0)
	o.Cache = t.TempDir()
	for range 2 { // in turn, so that each finds the other's file
		for _, want := range [][]int{{0, 1, 2, 3, 4}, {9, 8, 7, 6, 5}} {
			o.Classes = slices.Clone(names)
			if want[0] == 9 {
				slices.Reverse(o.Classes)
			}
			s, err := o.Open(t.Context(), "rows", spec, 10, true)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Collect(t.Context())
			s.Close()
			if err != nil || !slices.Equal(got.Labels, want) {
				t.Errorf("labels %v, want %v (%v)", got, want, err)
			}
		}
	}
}
