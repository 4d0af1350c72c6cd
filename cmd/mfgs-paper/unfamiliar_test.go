package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/gallery"
)

// Sets are written as the network takes them, the part to be tuned on apart from the one that is tested.
func TestUnfamiliarSetsAreWritten(t *testing.T) {
	t.Parallel()
	g := &gallery.Gallery{Width: 4, Height: 4, Channels: 3, Labels: make([]byte, 10)}
	for i := range 10 {
		g.Pixels = append(g.Pixels, slices.Repeat([]byte{byte(20 * i)}, 48)...)
	}
	for _, channels := range []int{1, 3} {
		m := maker{filepath.Join(t.TempDir(), "made"), 2, channels, 2, 5}
		u, err := m.from("a set", g)
		if err != nil {
			t.Fatal(err)
		}
		for spec, want := range map[string][]byte{u.heldOut(): {0, 40}, u.test().Spec: {80, 120, 160}} {
			got, err := gallery.ReadImages(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if got.Width != 2 || got.Height != 2 || got.Channels != channels || got.Len() != len(want) {
				t.Fatalf("%s: %d images of %d × %d × %d", spec, got.Len(), got.Width, got.Height, got.Channels)
			}
			for i, v := range want {
				if !slices.Equal(got.Image(i), slices.Repeat([]byte{v}, 4*channels)) {
					t.Errorf("%s: image %d is %v, want %d", spec, i, got.Image(i), v)
				}
			}
		}
		for _, name := range []string{uniformNoise, gaussianNoise} {
			u, err := m.noise(name)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := gallery.ReadImages(t.Context(), u.test().Spec); err != nil || got.Len() != 3 {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Every network meets two sets or more, as one is tuned on and another comes, and none twice.
func TestPairs(t *testing.T) {
	t.Parallel()
	sets := map[string][]string{}
	for _, e := range encounters {
		if slices.Contains(sets[e.network], e.set) {
			t.Errorf("%v is there twice", e)
		}
		sets[e.network] = append(sets[e.network], e.set)
		if e.why == "" || !slices.Contains([]nearness{near, far, noise}, e.nearness) {
			t.Errorf("%v is %q, because it has %q", e, e.nearness, e.why)
		}
	}
	for network, all := range sets {
		if len(all) < 2 {
			t.Errorf("%s meets %v alone", network, all)
		}
	}
}
