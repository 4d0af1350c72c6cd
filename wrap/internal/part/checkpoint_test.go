package part

import (
	"errors"
	"testing"
)

// A checkpoint is read as one, and cannot be merged.
func TestACheckpointIsNotMerged(t *testing.T) {
	t.Parallel()
	p := example(t, 1, 2)
	for i := range p.Sets {
		for j := range p.Sets[i].Shards {
			shard := &p.Sets[i].Shards[j]
			shard.Progress, shard.Fingerprint = &Progress{Next: shard.To, Stamp: "a stamp"}, ""
		}
	}
	dir := written(t, p)
	if _, err := Open(dir, nil); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("opened: %v", err)
	}
	if _, _, err := Merge(t.Context(), []string{dir}, nil, nil); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("merged: %v", err)
	}
	got, err := OpenCheckpoint(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if field, a, b := Difference(&p.Sets, &got.Sets); field != "" {
		t.Errorf("%s is %s, and was %s", field, b, a)
	}
	if err := Discard(dir); err != nil {
		t.Error(err)
	}
	if _, err := OpenCheckpoint(dir, nil); err == nil {
		t.Error("it is there still")
	}
	if err := Discard(dir); err != nil {
		t.Errorf("once more: %v", err)
	}
	// A shard without a fingerprint cannot become a part, and reading ends where the shard does.
	shard := &p.Sets[0].Shards[0]
	shard.Progress = &Progress{Next: shard.To + 5000}
	if err := p.Validate(); !errors.Is(err, ErrField) {
		t.Errorf("read beyond its end: %v", err)
	}
	if shard.Progress = nil; !errors.Is(p.Validate(), ErrField) {
		t.Error("a part without a fingerprint is valid")
	}
}
