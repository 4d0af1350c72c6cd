package bundle

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/conformal"
)

// decided are decisions that go with full.
func decided() *conformal.Decisions {
	return &conformal.Decisions{
		Plan: conformal.Plan{
			TargetError: 0.1, FalseAlarm: 0.2, Alpha: 0.1, Sets: conformal.RAPS, Confidence: 0.95,
		},
		Examples:    100, // beside the hundred that tune
		Uncertainty: &conformal.Rule{Threshold: 1.0 / 3, Examples: 85, Accepted: 60, Wrong: 1},
		OOD:         &conformal.Rule{Threshold: 0.7, Examples: 100, Accepted: 88},
		Set: &conformal.Sets{
			Score: conformal.RAPS, Alpha: 0.1, Penalty: 0.01, Free: 1, Thresholds: []float64{0.9}, Examples: 100,
		},
		Guarantees: []string{
			"at most 0.1 of the answered inputs are wrong, with probability 0.95 over the draw of 100 validation examples",
			"at most 0.2 of in-distribution inputs are flagged as out-of-distribution, with probability 0.95 over the draw of 100 validation examples",
			"prediction sets (raps) miss the label of at most 0.1 of all inputs, averaged over draws of 100 validation examples",
			"these guarantees hold for new inputs from the distribution of the validation data, and not under distribution shift",
		},
	}
}

func TestDecisionsAreKeptAndChecked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	b := full()
	want := decided()
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
	lying.OOD = nil
	m.Decisions = &lying
	oneLine(t, m.Validate(), ErrField, "decisions: ood is present: false, want true by the targets")
	m.Decisions = want
	m.Format, m.Probabilities, m.Validation.MF0, m.OODScore, m.Scores = 1, nil, nil, nil, nil
	oneLine(t, m.Validate(), ErrField, "decisions is a field of format 2")
}

// A seal says who has written a manifest last, not that it is true.
func TestResealedGuaranteesAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"a better guarantee":    {"at most 0.1 of the answered inputs are", "at most 0.001 of the answered inputs are", "guarantees[0] does not match the numbers"},
		"a smaller target":      {"target_error: 0.1", "target_error: 0.01", "uncertainty has 1 wrong of 60 accepted, which does not guarantee a target_error of 0.01"},
		"confidence 0":          {"confidence: 0.95", "confidence: 0", "confidence is 0 or missing"},
		"no confidence":         {"  confidence: 0.95\n", "", "confidence is 0 or missing"},
		"fewer mistakes":        {"wrong: 1}", "wrong: -1}", "uncertainty has -1 wrong of 60"},
		"more validation data":  {"  examples: 100\n", "  examples: 150\n", "ood was set on 100 examples, want 150"},
		"a threshold above all": {"threshold: 0.7,", "threshold: 7,", "ood has threshold 7, want 0 to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "b")
			b := full()
			b.Manifest.Decisions = decided()
			if err := Write(dir, b, WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, ManifestName)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(before, []byte("\ndecisions:"))
			head, rest := before[:at], string(before[at:])
			if !strings.Contains(rest, c.old) {
				t.Fatalf("there is no %q in %s", c.old, rest)
			}
			lying := append(slices.Clone(head), strings.Replace(rest, c.old, c.new, 1)...)
			if err := os.WriteFile(path, lying, 0o666); err != nil {
				t.Fatal(err)
			}
			oneLine(t, Reseal(dir), ErrField, "decisions: "+c.want)
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, lying) {
				t.Errorf("what is refused is changed: %v", err)
			}
		})
	}
	b := full()
	b.Manifest.Validation.After.N = 90
	b.Manifest.Decisions = decided()
	oneLine(t, Write(filepath.Join(t.TempDir(), "b"), b, WriteOptions{}), ErrField,
		"decisions: examples is 100, want the other half of the validation data: held_out has 90")
}
