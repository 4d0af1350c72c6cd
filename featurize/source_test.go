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
