package part

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// most is a manifest with as many shards as there can be, and many bad records.
func most(t *testing.T, bad int) *Manifest {
	m := example(t, 1).Manifest
	m.Format = Version
	m.Recipe.Settings.MaxBad = bad
	m.Sets = nil
	for _, role := range roles {
		s := Set{Role: role, Spec: "-", Count: rows.MaxShards << 30, Stream: true}
		for i := range rows.MaxShards {
			shard := rows.Shard{Index: i + 1, Count: rows.MaxShards}
			p := Shard{Shard: shard, Examples: 123456, Fingerprint: fingerprint}
			p.From, p.To = p.Shard.Range(s.From, s.From+s.Count)
			s.Shards = append(s.Shards, p)
		}
		m.Sets = append(m.Sets, s)
	}
	for i := range bad {
		p := &m.Sets[0].Shards[0]
		p.Bad = append(p.Bad, fmt.Sprintf("train: shards/train-000123.tar[%d]: cannot be decoded: png: invalid format", i))
	}
	return &m
}

// The manifest of a part has room for the largest number of shards, with many bad records.
func TestThereIsRoomForAllShards(t *testing.T) {
	document, err := most(t, 100_000).document()
	if err != nil {
		t.Fatal(err)
	}
	m, err := parse(document)
	if err != nil || len(m.Sets[2].Shards) != rows.MaxShards || m.Sets[0].Bad() != 100_000 {
		t.Errorf("%d bytes: %v", len(document), err)
	}
}

// A part that no reader would accept is not written.
func TestAManifestThatCannotBeReadIsNotWritten(t *testing.T) {
	p := example(t, 1)
	p.Sets[0].Shards[0].Bad = []string{strings.Repeat("x", MaxManifest)}
	dir := filepath.Join(t.TempDir(), "p")
	err := Write(dir, p, WriteOptions{})
	if !errors.Is(err, bundle.ErrTooLarge) || !strings.Contains(err.Error(), ManifestName) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("there is a part")
	}
}

// A manifest that would take long to read is refused at once.
func TestManyKeysAreRefused(t *testing.T) {
	var keys strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&keys, "extra%d: 1\n", i)
	}
	begun := time.Now()
	err := resealed(t, written(t, example(t, 1)), func(s string) string { return s + keys.String() })
	if err == nil || !strings.Contains(err.Error(), "the YAML is too large") || time.Since(begun) > 10*time.Second {
		t.Errorf("error %v after %v", err, time.Since(begun))
	}
}

// A copy of the model is that of the recipe, unless it was gathered from several files.
func TestAnotherModelIsRefused(t *testing.T) {
	with := func(sha256, more string) func(string) string {
		return func(s string) string {
			model := "  model: {sha256: " + sha256 + ", opset: 17}\n  preprocess: {source: unknown}\n"
			s = strings.Replace(s, "  batch: 0", model+more+"  batch: 1", 1)
			return s + "  - name: model.onnx\n    sha256: " + fingerprint + "\n"
		}
	}
	dir := written(t, example(t, 1))
	other := strings.Replace(fingerprint, "0", "f", 1)
	err := resealed(t, dir, with(other, ""))
	if err == nil || !strings.Contains(err.Error(), "model.onnx is not the model of the recipe") {
		t.Errorf("another model: %v", err)
	}
	weights := func(s string) string {
		return s + "  - name: model.onnx.data\n    sha256: " + fingerprint + "\n"
	}
	err = resealed(t, dir, func(s string) string { return weights(with(fingerprint, "")(s)) })
	if err == nil || !strings.Contains(err.Error(), "the model of recipe is one file") {
		t.Errorf("weights beside a model that has them: %v", err)
	}
	if err = resealed(t, dir, weights); err == nil || !strings.Contains(err.Error(), "without model.onnx") {
		t.Errorf("weights without a model: %v", err)
	}
	for name, edit := range map[string]func(string) string{
		"the same": with(fingerprint, ""), "gathered": with(other, "  gathered: true\n"),
	} {
		if err := resealed(t, dir, edit); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want that its file is missing", name, err)
		}
	}
}
