package featurize

import (
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// A dataset through the network and a file of its features are the same source but for names and
// fingerprints.
func TestSourcesGiveTheSameExamples(t *testing.T) {
	e := extractor(t, "grey", Config{Batch: 7})
	path := labelled(t, t.TempDir(), 1200)
	all, _ := stream(t, e, openData(t, path, dataset.Options{}), StreamConfig{})
	labels := make([]uint8, all.N)
	for i, y := range all.Labels {
		labels[i] = uint8(y)
	}
	ready := write(t, t.TempDir(), "f.npz", npz(t,
		"features", npy(all.Features, all.N, e.d), "logits", npy(all.Logits, all.N, e.k), "labels", npy(labels, all.N)))
	for _, limit := range []int{0, 1, 700, 5000} {
		features, err := dataset.OpenFeatures(ready+"[100:]", dataset.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer features.Close()
		done, total := 0, 0
		c := StreamConfig{Limit: limit, Progress: func(d, t int) { done, total = d, t }}
		var of [2]collected
		for i, s := range []rows.Source{e.Source(openData(t, path+"[100:]", dataset.Options{}), c), ReadyMade(features, c)} {
			if s.Features() != e.d || s.Logits() != e.k || !s.Labelled() || s.Fingerprint() != "" {
				t.Errorf("%d features, %d logits, labelled %v, fingerprint %q", s.Features(), s.Logits(), s.Labelled(), s.Fingerprint())
			}
			stats, err := s.Stream(t.Context(), collect(&of[i]))
			if err != nil || stats.Examples != s.Len() || of[i].N != s.Len() || done != total || total != s.Len() {
				t.Fatalf("%d of %d examples, progress %d of %d: %v", of[i].N, s.Len(), done, total, err)
			}
			if len(s.Fingerprint()) != 64 {
				t.Errorf("fingerprint %q after the stream", s.Fingerprint())
			}
		}
		equal(t, &of[1], &of[0])
		if want := "f.npz"; of[1].From != want || !slices.Equal(of[0].Positions, of[1].Positions) {
			t.Errorf("examples of %q, want %q", of[1].From, want)
		}
	}
}

// Shards, and any ranges of whole blocks, give together what one pass gives, bit for bit: with a
// limit the same examples of it too.
func TestShardsGiveWhatOnePassGives(t *testing.T) {
	e := extractor(t, "grey", Config{Batch: 64})
	path := labelled(t, t.TempDir(), 5*rows.BlockSize+7) + "[100:]"
	for _, limit := range []int{0, 1, 3, 700} {
		var want collected
		whole := e.Source(openData(t, path, dataset.Options{}), StreamConfig{Limit: limit})
		if _, err := whole.Stream(t.Context(), collect(&want)); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 2, 3, 16} {
			var got collected
			for i := 1; i <= n; i++ {
				ds := openData(t, path, dataset.Options{Shard: rows.Shard{Index: i, Count: n}})
				done, total := 0, 0
				c := StreamConfig{Limit: limit, Progress: func(d, t int) { done, total = d, t }}
				s, before := e.Source(ds, c), got.N
				stats, err := s.Stream(t.Context(), collect(&got))
				if err != nil || got.N-before != s.Len() || stats.Examples != s.Len() || done != total ||
					total != s.Len() {
					t.Fatalf("shard %d of %d: %d examples, %d handed over, want %d: %v", i, n, stats.Examples, got.N-before, s.Len(), err)
				}
			}
			equal(t, &got, &want)
		}
		// Of a part of a source, from any block on.
		var got collected
		ds := openData(t, path, dataset.Options{})
		for _, blocks := range [][2]int{{0, 2}, {2, 3}, {3, 0}} {
			c := StreamConfig{From: blocks[0] * rows.BlockSize, To: blocks[1] * rows.BlockSize, Limit: limit}
			if _, err := e.Source(ds, c).Stream(t.Context(), collect(&got)); err != nil {
				t.Fatal(err)
			}
		}
		equal(t, &got, &want)
	}
}

func TestShardsOfReadyMadeFeatures(t *testing.T) {
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
			s := ReadyMade(f, StreamConfig{Limit: limit})
			stats, err := s.Stream(t.Context(), collect(to))
			if err != nil || stats.Examples != s.Len() {
				t.Fatalf("shard %d: %d examples, want %d: %v", i, stats.Examples, s.Len(), err)
			}
		}
		equal(t, &got, &want)
	}
}

// The fingerprint of a shard is that of the same slice.
func TestFingerprintsOfShards(t *testing.T) {
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
