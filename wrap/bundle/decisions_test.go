package bundle

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/mfgs/mfgs/calibrate/conformal"
)

func TestDecisionsAreKeptAndChecked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "b")
	b := full()
	want := &conformal.Decisions{
		Plan: conformal.Plan{
			TargetError: 0.01, FalseAlarm: 0.05, Alpha: 0.1, Sets: conformal.RAPS, Confidence: 0.95,
		},
		Examples:   300,
		Doubt:      &conformal.Rule{Threshold: 1.0 / 3, Examples: 280, Accepted: 250},
		Unfamiliar: &conformal.Rule{Threshold: 0.7, Examples: 300, Accepted: 290},
		Set: &conformal.Sets{
			Score: conformal.RAPS, Alpha: 0.1, Penalty: 0.01, Free: 1, Thresholds: []float64{0.9}, Examples: 300,
		},
		Promises: []string{"much: and \"more\""},
	}
	b.Manifest.Decisions = want
	if err := Write(dir, b, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	read, err := Open(dir)
	if err != nil || !reflect.DeepEqual(read.Manifest.Decisions, want) {
		t.Fatalf("%+v, %v; want %+v", read.Manifest.Decisions, err, want)
	}
	m := read.Manifest
	lying := *want
	lying.Unfamiliar = nil
	m.Decisions = &lying
	oneLine(t, m.Validate(), ErrField, "decisions: unfamiliar is given: false, want true")
	m.Decisions = want
	m.Format, m.Probabilities, m.HeldOut.MF0, m.OODScore, m.Scores = 1, nil, nil, nil, nil
	oneLine(t, m.Validate(), ErrField, "decisions is a field of format 2")
}
