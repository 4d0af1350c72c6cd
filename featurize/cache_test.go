package featurize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// labelled makes an IDX pair of n grey images with labels 0 to 3.
func labelled(t testing.TB, dir string, n int) string {
	labels := make([]byte, n)
	for i := range labels {
		labels[i] = byte(i % 4)
	}
	write(t, dir, "x-labels-idx1-ubyte", idx(labels, n))
	return write(t, dir, "x-images-idx3-ubyte", idx(pixels(1, n, 8, 8), n, 8, 8))
}

// entries lists a folder, which may be missing.
func entries(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func equal(t testing.TB, got, want *collected) {
	t.Helper()
	if got.N != want.N || !slices.Equal(got.Features, want.Features) || !slices.Equal(got.Logits, want.Logits) ||
		!slices.Equal(got.Positions, want.Positions) || !slices.Equal(got.Labels, want.Labels) ||
		!slices.Equal(got.Targets, want.Targets) {
		t.Error("other rows came")
	}
}

// changed sets the time of change of all files below a folder.
func changed(t testing.TB, dir string, at time.Time) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, at, at))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// nameIn returns the name of a dataset's store.
func nameIn(t testing.TB, c *Cache, e *Network, ds *dataset.Dataset, limit int) string {
	t.Helper()
	recipe, err := c.recipe(e, ds, StreamConfig{Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	fingerprint, err := ds.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c.name(recipe, fingerprint)
}

func TestASecondRunComesFromTheCacheAlone(t *testing.T) {
	t.Parallel()
	images := photos(t, n, 8, 8, 3, 4, 22)
	digits := labelled(t, t.TempDir(), 1200) + "[100:1137]"
	for _, tt := range []struct {
		name, model, data string
		limit             int
	}{
		{"images, two of them bad", "conv", images, 0},
		{"a part of the images", "conv", images, 15},
		{"labelled", "grey", digits, 0},
		{"a part of the labelled", "grey", digits, 700},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := newExtractor(tt.model, Config{Batch: 7})
			if err != nil {
				t.Fatal(err)
			}
			ds := openData(t, tt.data, dataset.Options{})
			plain, without := stream(t, e, ds, StreamConfig{MaxBad: 2, Limit: tt.limit})
			c := StreamConfig{MaxBad: 2, Limit: tt.limit, Cache: &Cache{Dir: filepath.Join(t.TempDir(), "new", "cache")}}
			first, stats := stream(t, e, ds, c)
			equal(t, first, plain)
			if stats.Cached || len(entries(t, c.Cache.Dir)) != 1 {
				t.Fatalf("stats %+v, files %q", stats, entries(t, c.Cache.Dir))
			}

			// From here on, running the network is an error.
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := pass(t.Context(), e.Rows, ds, StreamConfig{MaxBad: 2}, collect(&collected{})); err == nil {
				t.Fatal("a closed extractor runs")
			}
			done, total := -1, 0
			c.Progress = func(d, t int) { done, total = d, t }
			second, stats := stream(t, e, ds, c)
			equal(t, second, plain)
			if !stats.Cached || !slices.Equal(stats.Messages(), without.Messages()) {
				t.Errorf("stats %+v, want the bad records %v", stats, without.Bad)
			}
			if done != total || total != first.N {
				t.Errorf("progress ended at %d of %d", done, total)
			}
		})
	}
}

func TestTheCacheAllowsNoMoreBadRecordsThanAreAllowed(t *testing.T) {
	t.Parallel()
	e := extractor(t, "conv", Config{})
	ds := openData(t, photos(t, n, 8, 8, 3, 4, 22), dataset.Options{})
	cache := &Cache{Dir: t.TempDir()}
	// Failing leaves nothing, and asking again for less fails just the same.
	for range 2 {
		_, err := pass(t.Context(), e.Rows, ds, StreamConfig{MaxBad: 1, Cache: cache}, collect(&collected{}))
		testerr.OneLine(t, err, "0022.png", "MaxBad allows 1")
		if left := entries(t, cache.Dir); len(left) > 0 {
			t.Fatalf("the cache holds %q", left)
		}
	}
	stream(t, e, ds, StreamConfig{MaxBad: 2, Cache: cache})
	for allowed, word := range []string{"0004.png", "0022.png"} {
		stats, err := pass(t.Context(), e.Rows, ds, StreamConfig{MaxBad: allowed, Cache: cache}, collect(&collected{}))
		testerr.OneLine(t, err, word)
		var bad *TooManyBadError
		if !errors.As(err, &bad) || len(bad.Bad) != allowed+1 || len(stats.Bad) <= allowed {
			t.Errorf("got %#v, stats %+v", err, stats)
		}
	}
}

func TestAnErrorOfYieldLeavesNoCacheFile(t *testing.T) {
	t.Parallel()
	e := extractor(t, "conv", Config{Batch: 3})
	ds := openData(t, photos(t, n, 8, 8, 3), dataset.Options{})
	cache, stop := &Cache{Dir: t.TempDir()}, errors.New("stop")
	if _, err := pass(t.Context(), e.Rows, ds, StreamConfig{Cache: cache},
		func(*rows.Batch) error { return stop }); err != stop {
		t.Fatal(err)
	}
	if left := entries(t, cache.Dir); len(left) > 0 {
		t.Errorf("the cache holds %q", left)
	}
	// From a file that is there the error comes through too.
	stream(t, e, ds, StreamConfig{Cache: cache})
	if _, err := pass(t.Context(), e.Rows, ds, StreamConfig{Cache: cache},
		func(*rows.Batch) error { return stop }); err != stop {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := pass(ctx, e.Rows, ds, StreamConfig{Cache: cache}, collect(&collected{})); err != stop {
		t.Error(err)
	}
}

// A stream from the cache can be canceled, as one that runs the network can.
func TestACachedStreamCanBeCancelled(t *testing.T) {
	t.Parallel()
	e := extractor(t, "grey", Config{})
	ds := openData(t, labelled(t, t.TempDir(), 1200), dataset.Options{})
	cache, stop := &Cache{Dir: t.TempDir()}, errors.New("stop")
	stream(t, e, ds, StreamConfig{Cache: cache})
	ctx, cancel := context.WithCancelCause(t.Context())
	blocks := 0
	_, err := pass(ctx, e.Rows, ds, StreamConfig{Cache: cache}, func(*rows.Batch) error {
		blocks++
		cancel(stop)
		return nil
	})
	if err != stop || blocks != 1 {
		t.Errorf("%v after %d blocks, want it to stop after the first", err, blocks)
	}
}

// Everything that changes the rows changes the key.
func TestTheKeyCoversAllThatDeterminesTheRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := labelled(t, dir, 40)
	options := dataset.Options{Classes: 4}
	e := extractor(t, "grey", Config{Batch: 7})
	ds := openData(t, path, options)
	key := func(c *Cache, e *Network, ds *dataset.Dataset, limit int) string {
		t.Helper()
		return nameIn(t, c, e, ds, limit)
	}
	cache := &Cache{Options: options}
	seen := map[string]string{key(cache, e, ds, 40): "the first"}
	differs := func(name string, k string) {
		t.Helper()
		if other, ok := seen[k]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[k] = name
	}
	same := func(name string, k string) {
		t.Helper()
		if _, ok := seen[k]; !ok {
			t.Errorf("%s has a key of its own", name)
		}
	}

	same("another extractor", key(cache, extractor(t, "grey", Config{Batch: 7, Threads: 1}), ds, 40))
	same("the default provider by name", key(cache, extractor(t, "grey", Config{Batch: 7, Provider: "cpu"}), ds, 40))
	same("another folder", key(&Cache{Dir: "elsewhere", Options: options}, e, ds, 40))
	same("a copy of the data", key(cache, e, openData(t, labelled(t, t.TempDir(), 40), options), 40))

	differs("another batch", key(cache, extractor(t, "grey", Config{Batch: 8}), ds, 40))
	differs("another model", key(cache, extractor(t, "batch4", Config{}), ds, 40))
	differs("another preprocessing", key(cache, extractor(t, "grey", Config{Batch: 7, Preprocess: &preprocess.Spec{Scale: 1}}), ds, 40))
	stored, turned := *e.Preprocess(), *e.Preprocess()
	stored.Exif, turned.Exif = new(false), new(true)
	differs("images as they are stored", key(cache, extractor(t, "grey", Config{Batch: 7, Preprocess: &stored}), ds, 40))
	same("images turned, as they are by default", key(cache, extractor(t, "grey", Config{Batch: 7, Preprocess: &turned}), ds, 40))
	differs("fewer examples", key(cache, e, ds, 39))
	differs("a slice", key(cache, e, openData(t, path+"[:39]", options), 39))
	differs("a slice elsewhere", key(cache, e, openData(t, path+"[1:40]", options), 39))
	differs("no labels", key(cache, e, openData(t, path, dataset.Options{Unlabelled: true}), 40))
	for field, change := range map[string]func(*cut){
		"provider": func(c *cut) { c.provider = "cuda" },
		"features": func(c *cut) { c.features = "another" },
		"logits":   func(c *cut) { c.logits = "another" },
		"runtime":  func(c *cut) { c.runtime = "another" },
	} {
		other, where := *e, *e.cut
		change(&where)
		other.cut = &where
		differs("another "+field, key(cache, &other, ds, 40))
	}

	if loaded, ok := ort.Loaded(); !ok || loaded.Version == "" || e.cut.runtime != loaded.Version {
		t.Errorf("the key holds version %q of the runtime, %q is loaded", e.cut.runtime, loaded.Version)
	}
	// Options decide about labels, for which a reader may have no place in its fingerprint.
	for name, o := range map[string]dataset.Options{
		"more classes": {Classes: 5}, "no labels wanted": {Classes: 4, Unlabelled: true}, "class names": {Classes: 4, LabelClasses: []string{"a", "b", "c", "d"}},
		"other class names": {Classes: 4, LabelClasses: []string{"b", "a", "c", "d"}}, "many labels": {Classes: 4, MultiLabel: true},
	} {
		differs(name, key(&Cache{Options: o}, e, ds, 40))
	}

	flip := func(name string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)-1] ^= 1
		write(t, dir, name, data)
	}
	flip("x-images-idx3-ubyte")
	differs("another pixel", key(cache, e, openData(t, path, options), 40))
	flip("x-images-idx3-ubyte")
	flip("x-labels-idx1-ubyte")
	differs("another label", key(cache, e, openData(t, path, options), 40))
}

// Where class folders label the examples, class names matter for the labels that they give the folders alone.
func TestTheKeyOfFoldersCoversTheirLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{"a", "b", "c", "d"}
	for i, class := range names {
		if err := os.Mkdir(filepath.Join(dir, class), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, class), "x.png", pngOf(t, pixels(i, 8, 8, 1), 8, 8, 1))
	}
	e := extractor(t, "grey", Config{Batch: 7})
	key := func(o dataset.Options) string {
		return nameIn(t, &Cache{Options: o}, e, openData(t, dir, o), 4)
	}
	own := key(dataset.Options{Classes: 4})
	if got := key(dataset.Options{Classes: 4, LabelClasses: names}); got != own {
		t.Error("the names of the folders, in their order, change the key")
	}
	if got := key(dataset.Options{Classes: 4, LabelClasses: []string{"b", "a", "c", "d"}}); got == own {
		t.Error("names in another order do not change the key")
	}
	unlabelled := key(dataset.Options{Classes: 4, Unlabelled: true})
	if got := key(dataset.Options{Classes: 4, Unlabelled: true, LabelClasses: names}); got != unlabelled || got == own {
		t.Error("names change the key of data whose labels are not wanted, or that is the key of labelled data")
	}
}

func TestTheKeyCoversExternalWeights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var keys [2]string
	ds := openData(t, write(t, dir, "x.npy", npy(random(1, 15), 3, 5)), dataset.Options{})
	for i := range keys {
		for _, name := range []string{"external.onnx", "external.onnx.data"} {
			data, err := os.ReadFile(filepath.Join("..", "testdata", "onnx", name))
			if err != nil {
				t.Fatal(err)
			}
			if name == "external.onnx.data" {
				data[3] ^= byte(i)
			}
			write(t, dir, name, data)
		}
		m, err := onnx.Open(filepath.Join(dir, "external.onnx"))
		if err != nil {
			t.Fatal(err)
		}
		h, err := head.Find(m, head.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(Config{Model: m, Head: h})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		keys[i] = nameIn(t, new(Cache), e, ds, 3)
	}
	if keys[0] == keys[1] {
		t.Error("other weights have the same key")
	}
}

func TestADamagedCacheFileIsRewritten(t *testing.T) {
	t.Parallel()
	e := extractor(t, "conv", Config{Batch: 7})
	images := photos(t, n, 8, 8, 3, 4)
	changed(t, images, time.Now().Add(-time.Hour))
	ds := openData(t, images, dataset.Options{})
	c := StreamConfig{MaxBad: 1, Cache: &Cache{Dir: t.TempDir()}}
	want, _ := stream(t, e, ds, c)
	path := filepath.Join(c.Cache.Dir, entries(t, c.Cache.Dir)[0])
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(name string, data []byte) {
		t.Helper()
		write(t, c.Cache.Dir, filepath.Base(path), data)
		if store, f, err := c.Cache.open(filepath.Base(path),
			func(map[string]string) bool { return true }); store != nil || err != nil {
			f.Close()
			t.Fatalf("%s: opened, or %v", name, err)
		}
	}
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1 << (i % 8)
		try(fmt.Sprintf("byte %d", i), damaged)
	}
	for i := 0; i < len(whole); i += 13 {
		try(fmt.Sprintf("the first %d bytes", i), whole[:i])
	}
	try("all but the last byte", whole[:len(whole)-1])
	try("one byte more", append(bytes.Clone(whole), 0))
	try("nothing", nil)

	// The stream repairs it.
	again, stats := stream(t, e, ds, c)
	equal(t, again, want)
	if repaired, err := os.ReadFile(path); stats.Cached || err != nil || !bytes.Equal(repaired, whole) {
		t.Errorf("stats %+v, %v", stats, err)
	}
	if _, stats := stream(t, e, ds, c); !stats.Cached {
		t.Error("it is not used")
	}
	if left := entries(t, c.Cache.Dir); len(left) != 1 {
		t.Errorf("the cache holds %q", left)
	}
}

// A whole store under the right name that holds other rows than the network and the data give is not used.
func TestAStoreOfOtherRowsIsRewritten(t *testing.T) {
	t.Parallel()
	e := extractor(t, "conv", Config{Batch: 7})
	images := photos(t, n, 8, 8, 3)
	changed(t, images, time.Now().Add(-time.Hour))
	ds := openData(t, images, dataset.Options{})
	c := StreamConfig{Cache: &Cache{Dir: t.TempDir()}}
	want, _ := stream(t, e, ds, c)
	path := filepath.Join(c.Cache.Dir, entries(t, c.Cache.Dir)[0])
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*rows.Batch){
		"one feature fewer": func(b *rows.Batch) { b.Features = b.Features[:b.N*(len(b.Features)/b.N-1)] },
		"one logit fewer":   func(b *rows.Batch) { b.Logits = b.Logits[:b.N*(len(b.Logits)/b.N-1)] },
		"one example fewer": func(b *rows.Batch) { *b = *b.Slice(0, b.N-1) },
	} {
		t.Run(name, func(t *testing.T) {
			store, err := rows.Open(bytes.NewReader(whole), int64(len(whole)))
			if err != nil {
				t.Fatal(err)
			}
			var other bytes.Buffer
			w, err := rows.NewWriter(&other, store.Metadata())
			if err != nil {
				t.Fatal(err)
			}
			for b, e := range store.Blocks(t.Context()) {
				change(b)
				err = errors.Join(err, e, w.Add(b))
			}
			if err = errors.Join(err, w.End(*store.End())); err != nil {
				t.Fatal(err)
			}
			write(t, c.Cache.Dir, filepath.Base(path), other.Bytes())
			again, stats := stream(t, e, ds, c)
			equal(t, again, want)
			if stats.Cached {
				t.Error("it was used")
			}
		})
	}
}

// Files that have the size and time of change that they had are not read again, and others are.
func TestUnchangedDataAreNotReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := labelled(t, dir, 40)
	images := filepath.Join(dir, "x-images-idx3-ubyte")
	past := time.Now().Add(-time.Hour)
	age := func(at time.Time) { changed(t, dir, at) }
	age(past)
	e := extractor(t, "grey", Config{})
	c := StreamConfig{Cache: &Cache{Dir: t.TempDir()}}
	run := func() (string, rows.Stats) {
		t.Helper()
		ds := openData(t, path, dataset.Options{Fingerprint: true})
		_, stats := stream(t, e, ds, c)
		fingerprint, err := ds.Fingerprint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fingerprint, stats
	}
	first, stats := run()
	if stats.Cached || len(first) != 64 {
		t.Fatalf("fingerprint %q, %+v", first, stats)
	}
	data, err := os.ReadFile(images)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	write(t, dir, filepath.Base(images), data)
	age(past) // a wrong time, which shows that nothing was read
	if again, stats := run(); !stats.Cached || again != first {
		t.Errorf("unchanged as far as can be seen: fingerprint %q, %+v, want the first", again, stats)
	}
	age(past.Add(time.Second))
	if other, stats := run(); stats.Cached || other == first {
		t.Errorf("changed: fingerprint %q, %+v", other, stats)
	}
	data[len(data)-1] ^= 1
	write(t, dir, filepath.Base(images), data)
	age(past.Add(2 * time.Second))
	if back, stats := run(); !stats.Cached || back != first {
		t.Errorf("the first content at another time: fingerprint %q, %+v", back, stats)
	}
}

func TestManyMayFillOneCache(t *testing.T) {
	noLeaks(t)
	e := extractor(t, "grey", Config{Batch: 7})
	path := labelled(t, t.TempDir(), 500)
	cache := &Cache{Dir: filepath.Join(t.TempDir(), "cache")}
	want, _ := stream(t, e, openData(t, path, dataset.Options{}), StreamConfig{})
	var wg sync.WaitGroup
	for range 8 {
		ds := openData(t, path, dataset.Options{})
		wg.Go(func() {
			for range 3 {
				got := &collected{}
				c := StreamConfig{Cache: cache}
				if _, err := pass(context.Background(), e.Rows, ds, c, collect(got)); err != nil {
					t.Error(err)
					return
				}
				equal(t, got, want)
			}
		})
	}
	wg.Wait()
	if left := entries(t, cache.Dir); len(left) != 1 {
		t.Errorf("the cache holds %q", left)
	}
}

func TestAPassGoesOnWithoutACacheThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	e := extractor(t, "conv", Config{})
	ds := openData(t, photos(t, 3, 8, 8, 3), dataset.Options{})
	file := write(t, t.TempDir(), "file", []byte("not a folder"))
	want, _ := stream(t, e, ds, StreamConfig{})
	var failed []error
	cache := &Cache{Dir: file, Failed: func(err error) { failed = append(failed, err) }}
	got, _ := stream(t, e, ds, StreamConfig{Cache: cache})
	equal(t, got, want)
	if len(failed) != 1 {
		t.Fatalf("it failed with %v, want once", failed)
	}
	testerr.OneLine(t, failed[0], "features cache", file)
}

func TestAReadOnlyCacheStoresNothing(t *testing.T) {
	t.Parallel()
	e := extractor(t, "conv", Config{})
	ds := openData(t, photos(t, 3, 8, 8, 3), dataset.Options{})
	c := StreamConfig{Cache: &Cache{Dir: t.TempDir(), ReadOnly: true}}
	want, stats := stream(t, e, ds, c)
	if left := entries(t, c.Cache.Dir); len(left) > 0 || stats.Cached {
		t.Errorf("the cache holds %q, %+v", left, stats)
	}
	stream(t, e, ds, StreamConfig{Cache: &Cache{Dir: c.Cache.Dir}})
	got, stats := stream(t, e, ds, c)
	if equal(t, got, want); !stats.Cached {
		t.Errorf("%+v", stats)
	}
}

func TestTargetsComeWithTheRows(t *testing.T) {
	t.Parallel()
	targets := make([]uint8, n*4)
	for i := range targets {
		targets[i] = pixels(i, 1, 1, 1)[0] % 2
	}
	file := npz(t, "x", npy(random(3, n*192), n, 3, 8, 8), "labels", npy(targets, n, 4))
	ds := openData(t, write(t, t.TempDir(), "x.npz", file)+"[2:]", dataset.Options{MultiLabel: true, Classes: 4})
	e := extractor(t, "conv", Config{Batch: 7})
	c := StreamConfig{Cache: &Cache{Dir: t.TempDir()}}
	for _, cached := range []bool{false, true} {
		got, stats := stream(t, e, ds, c)
		if !slices.Equal(got.Targets, targets[2*4:]) || stats.Cached != cached {
			t.Errorf("targets %d, want %d; stats %+v", got.Targets, targets[2*4:], stats)
		}
		if slices.ContainsFunc(got.Labels, func(l int) bool { return l != -1 }) || len(got.Labels) != n-2 {
			t.Errorf("labels %d", got.Labels)
		}
	}
	// Those that are not wanted are not there.
	ds = openData(t, ds.Path(), dataset.Options{MultiLabel: true, Unlabelled: true})
	if got, _ := stream(t, e, ds, c); got.Targets != nil {
		t.Errorf("targets %d", got.Targets)
	}
}
