package featurize

import (
	"iter"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
)

func gather(t *testing.T, to *collected, batches iter.Seq2[*rows.Batch, error]) {
	t.Helper()
	for b, err := range batches {
		if err == nil {
			err = collect(to)(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A dataset through the network and a file of its features are the same source but for names and
// fingerprints.
func TestSourcesGiveTheSameExamples(t *testing.T) {
	t.Parallel()
	e := extractor(t, "grey", Config{Batch: 7})
	path := labelled(t, t.TempDir(), 1200)
	all, _ := stream(t, e, openData(t, path, dataset.Options{}), StreamConfig{})
	labels := make([]uint8, all.N)
	for i, y := range all.Labels {
		labels[i] = uint8(y)
	}
	ready := write(t, t.TempDir(), "f.npz", npz(t,
		"features", npy(all.Features, all.N, e.cut.d), "logits", npy(all.Logits, all.N, e.cut.k), "labels", npy(labels, all.N)))
	for _, limit := range []int{0, 1, 700, 5000} {
		features, err := dataset.OpenFeatures(ready+"[100:]", dataset.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer features.Close()
		done, total := 0, 0
		c := StreamConfig{Limit: limit, Progress: func(d, t int) { done, total = d, t }}
		var of [2]collected
		ds := openData(t, path+"[100:]", dataset.Options{})
		want := c.Count(ds)
		for i, batches := range []func(StreamConfig) iter.Seq2[*rows.Batch, error]{
			func(c StreamConfig) iter.Seq2[*rows.Batch, error] { return e.Rows(t.Context(), ds, c) },
			func(c StreamConfig) iter.Seq2[*rows.Batch, error] { return Precomputed(t.Context(), features, c) },
		} {
			c.Stats = &rows.Stats{}
			gather(t, &of[i], batches(c))
			if c.Stats.Examples != want || of[i].N != want || done != total || total != want {
				t.Fatalf("%d of %d examples, progress %d of %d: %+v", of[i].N, want, done, total, c.Stats)
			}
		}
		if n := c.Count(features); n != want {
			t.Errorf("%d examples of the file are read, want %d", n, want)
		}
		equal(t, &of[1], &of[0])
		if want := "f.npz"; of[1].From != want || !slices.Equal(of[0].Positions, of[1].Positions) {
			t.Errorf("examples of %q, want %q", of[1].From, want)
		}
	}
}

// Shards give together what one pass gives, bit for bit: with a limit the same examples of it too.
func TestShardsGiveWhatOnePassGives(t *testing.T) {
	t.Parallel()
	e := extractor(t, "grey", Config{Batch: 64})
	path := labelled(t, t.TempDir(), 5*rows.BlockSize+7) + "[100:]"
	for _, limit := range []int{0, 1, 3, 700} {
		var want collected
		gather(t, &want, e.Rows(t.Context(), openData(t, path, dataset.Options{}), StreamConfig{Limit: limit}))
		for _, n := range []int{1, 2, 3, 16} {
			var got collected
			for i := 1; i <= n; i++ {
				ds := openData(t, path, dataset.Options{Shard: rows.Shard{Index: i, Count: n}})
				done, total := 0, 0
				c := StreamConfig{Limit: limit, Stats: &rows.Stats{}, Progress: func(d, t int) { done, total = d, t }}
				before := got.N
				gather(t, &got, e.Rows(t.Context(), ds, c))
				if n := c.Count(ds); got.N-before != n || c.Stats.Examples != n || done != total || total != n {
					t.Fatalf("shard %d: %d examples, %d handed over, want %d", i, c.Stats.Examples, got.N-before, n)
				}
			}
			equal(t, &got, &want)
		}
	}
}

func TestShardsOfPrecomputedFeatures(t *testing.T) {
	t.Parallel()
	const n = 3*rows.BlockSize + 5
	labels := make([]uint8, n)
	path := write(t, t.TempDir(), "f.npz", npz(t,
		"features", npy(random(1, 2*n), n, 2), "logits", npy(random(2, 3*n), n, 3), "labels", npy(labels, n)))
	for _, limit := range []int{0, 2, 900} {
		var want collected
		var got collected
		for i := range 5 { // the first of all, then each of 4
			o := dataset.Options{}
			to := &want
			if i > 0 {
				o.Shard, to = rows.Shard{Index: i, Count: 4}, &got
			}
			f, err := dataset.OpenFeatures(path, o)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			c := StreamConfig{Limit: limit, Stats: &rows.Stats{}}
			gather(t, to, Precomputed(t.Context(), f, c))
			if c.Stats.Examples != c.Count(f) {
				t.Fatalf("shard %d: %d examples, want %d", i, c.Stats.Examples, c.Count(f))
			}
		}
		equal(t, &got, &want)
	}
}

// The fingerprint of a shard is that of the same slice.
func TestFingerprintsOfShards(t *testing.T) {
	t.Parallel()
	dir := photos(t, rows.BlockSize+3, 2, 2, 1)
	for i, slice := range []string{"[:512]", "[512:]"} {
		for _, wanted := range []bool{false, true} {
			shard := openData(t, dir, dataset.Options{Shard: rows.Shard{Index: i + 1, Count: 2}, Fingerprint: wanted})
			for _, err := range shard.Examples(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
			}
			got, err := shard.Fingerprint(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want, err := openData(t, dir+slice, dataset.Options{}).Fingerprint(t.Context())
			if err != nil || got != want {
				t.Errorf("shard %d has fingerprint %s, slice %s %s: %v", i+1, got, slice, want, err)
			}
		}
	}
}
