package featurize

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/files"
)

// A stream from a position is the rest of the whole, bit for bit, in the same batches.
func TestAStreamFromAPositionIsTheRestOfTheWhole(t *testing.T) {
	t.Parallel()
	const sequences = 5000
	ids, mask := sentences(sequences, 6)
	broken := map[int]string{5: "{", 520: "[]", 4099: "{"}
	lines := write(t, t.TempDir(), "x.jsonl", sentenceLines(ids, mask, broken))
	digits := labelled(t, t.TempDir(), 3*rows.BlockSize+9)
	images := photos(t, 40, 8, 8, 3, 4, 22)
	for _, test := range []struct {
		name, model, data string
		limit, batch      int
		at                []int
	}{
		{"images, two of them bad", "conv", images, 0, 7, []int{1, 4, 5, 22, 23, 39, 40}},
		{"a part of them", "conv", images, 15, 4, []int{5, 23, 39}},
		{"of blocks", "grey", digits + "[100:]", 0, 64, []int{100, 512, 700, 1024}},
		{"in batches that do not end with blocks", "grey", digits + "[100:]", 0, 100, []int{512, 1024, 1536}},
		{"a part of them", "grey", digits + "[100:]", 700, 64, []int{512, 1024}},
		{"of different lengths", "sequence", lines, 0, 16, []int{512, 4096, 4608}},
		{"a part of those", "sequence", lines, 900, 16, []int{512, 4608}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := extractor(t, test.model, Config{Batch: test.batch})
			open := func() *dataset.Dataset {
				return openData(t, test.data, dataset.Options{Inputs: e.InputNames(), Fingerprint: true})
			}
			var batches []int // where each begins
			want := &collected{}
			c := StreamConfig{MaxBad: 3, Limit: test.limit}
			ds := open()
			all, err := pass(t.Context(), e.Rows, ds, c, func(b *rows.Batch) error {
				batches = append(batches, b.Positions[0])
				return collect(want)(b)
			})
			if err != nil {
				t.Fatal(err)
			}
			print, err := ds.Fingerprint(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range test.at {
				first, _ := slices.BinarySearch(want.Positions, at)
				before := rows.Stats{Examples: first}
				for _, b := range all.Bad {
					if b.Position < at {
						before.Bad = append(before.Bad, b)
					}
				}
				got, done, total := &collected{}, 0, 0
				ds := open()
				stats, err := pass(t.Context(), e.Rows, ds, StreamConfig{
					From: at, Stats: &before, MaxBad: 3, Limit: test.limit,
					Progress: func(d, t int) { done, total = d, t },
				}, func(b *rows.Batch) error {
					if begin := b.Positions[0]; begin != want.Positions[first] && !slices.Contains(batches, begin) {
						t.Errorf("from %d: a batch begins with %d", at, begin)
					}
					return collect(got)(b)
				})
				if err != nil {
					t.Fatal(err)
				}
				rest := &collected{Batch: *want.Slice(first, want.N)}
				equal(t, got, rest)
				if stats.Examples != all.Examples || !slices.Equal(stats.Bad, all.Bad) {
					t.Errorf("from %d: %+v, want %+v", at, stats, all)
				}
				if done != total || total != all.Examples+len(all.Bad) {
					t.Errorf("from %d: progress ends with %d of %d", at, done, total)
				}
				if again, err := ds.Fingerprint(t.Context()); err != nil || again != print {
					t.Errorf("from %d: fingerprint %s, %v, want %s", at, again, err, print)
				}
			}
		})
	}
}

// aged is labelled data that have not changed for long.
func aged(t *testing.T, n int) string {
	t.Helper()
	path := labelled(t, t.TempDir(), n)
	changed(t, filepath.Dir(path), time.Now().Add(-time.Hour))
	return path
}

// filled fills a cache, and returns the name and the bytes of the store.
func filled(t *testing.T, e *Network, path string, c StreamConfig) (name string, data []byte) {
	t.Helper()
	stream(t, e, openData(t, path, dataset.Options{}), c)
	names := entries(t, c.Cache.Dir)
	if len(names) != 1 {
		t.Fatalf("the cache holds %q", names)
	}
	data, err := os.ReadFile(filepath.Join(c.Cache.Dir, names[0]))
	if err != nil {
		t.Fatal(err)
	}
	return names[0], data
}

// However often it is interrupted, the network runs only on the missing examples, and the final store is the same.
func TestAnInterruptedFillIsContinued(t *testing.T) {
	t.Parallel()
	e := extractor(t, "grey", Config{Batch: 100})
	path := aged(t, 4*rows.BlockSize+9)
	c := StreamConfig{Cache: &Cache{Dir: t.TempDir()}}
	_, whole := filled(t, e, path, c)
	want, _ := stream(t, e, openData(t, path, dataset.Options{}), StreamConfig{})

	c.Cache = &Cache{Dir: t.TempDir()}
	stop := errors.New("stop")
	for examples := 0; ; examples += 500 {
		got := &collected{}
		stats, err := pass(t.Context(), e.Rows, openData(t, path, dataset.Options{}), c, func(b *rows.Batch) error {
			if got.N >= examples+200 {
				return stop
			}
			return collect(got)(b)
		})
		if err == nil {
			equal(t, got, want)
			if stats.Examples != want.N || stats.Cached {
				t.Errorf("%+v, want %d examples", stats, want.N)
			}
			break
		}
		if err != stop {
			t.Fatal(err)
		}
		names := entries(t, c.Cache.Dir)
		blocks := got.N / rows.BlockSize
		if blocks > 0 != (len(names) == 1) {
			t.Fatalf("after %d examples the cache holds %q", got.N, names)
		}
	}
	if names := entries(t, c.Cache.Dir); len(names) != 1 {
		t.Fatalf("the cache holds %q", names)
	}
	again, err := os.ReadFile(filepath.Join(c.Cache.Dir, entries(t, c.Cache.Dir)[0]))
	if err != nil || string(again) != string(whole) {
		t.Errorf("another store, %v", err)
	}
}

// leave leaves a partial store of the first blocks in a cache.
func leave(t *testing.T, e *Network, path string, c StreamConfig, blocks int) string {
	t.Helper()
	stop := errors.New("stop")
	n := 0
	_, err := pass(t.Context(), e.Rows, openData(t, path, dataset.Options{}), c, func(b *rows.Batch) error {
		if n += b.N; n > blocks*rows.BlockSize {
			return stop
		}
		return nil
	})
	if err != stop {
		t.Fatal(err)
	}
	names := entries(t, c.Cache.Dir)
	if len(names) != 1 || filepath.Ext(names[0]) != partialExt {
		t.Fatalf("the cache holds %q", names)
	}
	return filepath.Join(c.Cache.Dir, names[0])
}

// A continued fill reuses complete blocks without running the network on them.
func TestCompleteBlocksOfAnInterruptedFillAreReused(t *testing.T) {
	t.Parallel()
	e := extractor(t, "grey", Config{Batch: 64})
	path := aged(t, 4*rows.BlockSize+9)
	want, _ := stream(t, e, openData(t, path, dataset.Options{}), StreamConfig{})
	c := StreamConfig{Cache: &Cache{Dir: t.TempDir()}}
	partial := leave(t, e, path, c, 3)
	data, err := os.ReadFile(partial)
	if err != nil {
		t.Fatal(err)
	}
	// Other numbers in the first block, and a torn third one.
	f, err := os.Open(partial)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	store, err := rows.Open(f, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(partial + "2")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w, err := rows.NewWriter(out, map[string]string{"recipe": store.Metadata()["recipe"], "stamp": store.Metadata()["stamp"]})
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range store.Blocks(t.Context()) {
		if err == nil {
			if b.Positions[0] == 0 {
				b.Features[0]++
			}
			err = w.Add(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(partial+"2", partial); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(partial)
	if err == nil {
		err = os.Truncate(partial, info.Size()-3)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, _ := stream(t, e, openData(t, path, dataset.Options{}), c)
	want.Features[0]++
	equal(t, got, want)
}

// A store that lacks nothing but its name gets it.
func TestAWholeStoreGetsItsName(t *testing.T) {
	t.Parallel()
	e, err := newExtractor("grey", Config{Batch: 64})
	if err != nil {
		t.Fatal(err)
	}
	path := aged(t, 3*rows.BlockSize)
	c := StreamConfig{Cache: &Cache{Dir: t.TempDir()}}
	partial := leave(t, e, path, c, 2)
	name, data := filled(t, e, path, c)
	write(t, c.Cache.Dir, filepath.Base(partial), data)
	if err := os.Remove(filepath.Join(c.Cache.Dir, name)); err != nil {
		t.Fatal(err)
	}
	e.Close() // no network runs
	again, whole := filled(t, e, path, c)
	if again != name || string(whole) != string(data) {
		t.Errorf("the cache holds %s", again)
	}
}

// Files that another process is writing are left alone, and files that are not stores are replaced.
func TestAPartialStoreThatCannotBeHadIsLeftAlone(t *testing.T) {
	t.Parallel()
	e := extractor(t, "grey", Config{Batch: 64})
	path := aged(t, 3*rows.BlockSize)
	c := StreamConfig{Cache: &Cache{Dir: t.TempDir()}}
	partial := leave(t, e, path, c, 2)
	before, err := os.ReadFile(partial)
	if err != nil {
		t.Fatal(err)
	}
	other, err := files.Grow(partial)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := stream(t, e, openData(t, path, dataset.Options{}), StreamConfig{})
	got, _ := stream(t, e, openData(t, path, dataset.Options{}), c)
	equal(t, got, want)
	other.Close()
	if after, err := os.ReadFile(partial); err != nil || string(after) != string(before) {
		t.Errorf("it was changed, %v", err)
	}
	for name, content := range map[string][]byte{"nothing": nil, "no store": []byte("something else"), "of another recipe": otherRecipe(t, before)} {
		c := StreamConfig{Cache: &Cache{Dir: t.TempDir()}}
		write(t, c.Cache.Dir, filepath.Base(partial), content)
		got, stats := stream(t, e, openData(t, path, dataset.Options{}), c)
		equal(t, got, want)
		if names := entries(t, c.Cache.Dir); stats.Cached || len(names) != 1 || filepath.Ext(names[0]) != cacheExt {
			t.Errorf("%s: %+v, the cache holds %q", name, stats, names)
		}
	}
}

// A stream from a position takes what it can from the cache, and fills it whole.
func TestTheCacheServesTheRestOfAStream(t *testing.T) {
	t.Parallel()
	e := extractor(t, "grey", Config{Batch: 64})
	path := aged(t, 3*rows.BlockSize+9)
	want, all := stream(t, e, openData(t, path, dataset.Options{}), StreamConfig{})
	c := StreamConfig{
		Cache: &Cache{Dir: t.TempDir()}, From: rows.BlockSize, Stats: &rows.Stats{Examples: rows.BlockSize},
	}
	for _, cached := range []bool{false, true} {
		got := &collected{}
		stats, err := pass(t.Context(), e.Rows, openData(t, path, dataset.Options{}), c, collect(got))
		equal(t, got, &collected{Batch: *want.Slice(rows.BlockSize, want.N)})
		if err != nil || stats.Cached != cached || stats.Examples != all.Examples {
			t.Errorf("%+v, %v, want %d examples", stats, err, all.Examples)
		}
	}
}

func TestAbandonedFillsAreRemoved(t *testing.T) {
	t.Parallel()
	e := extractor(t, "grey", Config{Batch: 64})
	path := aged(t, 2*rows.BlockSize)
	c := StreamConfig{Cache: &Cache{Dir: t.TempDir()}}
	partial := leave(t, e, path, c, 1)
	other := write(t, c.Cache.Dir, "a download.partial", []byte("x"))
	changed(t, c.Cache.Dir, time.Now().Add(-8*24*time.Hour))
	stream(t, e, openData(t, path, dataset.Options{Unlabelled: true}), c)
	if _, err := os.Stat(partial); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there still, %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// otherRecipe is a store's head with another recipe.
func otherRecipe(t *testing.T, data []byte) []byte {
	t.Helper()
	store, err := rows.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := rows.NewWriter(&out, map[string]string{"recipe": "another", "stamp": store.Metadata()["stamp"]})
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range store.Blocks(t.Context()) {
		if err := errors.Join(err, w.Add(b)); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}
