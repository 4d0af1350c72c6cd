package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
)

func TestOODSetsAreWrittenInTheNetworksFormat(t *testing.T) {
	t.Parallel()
	g := &images.Images{Width: 4, Height: 4, Channels: 3, Labels: make([]byte, 10)}
	for i := range 10 {
		g.Pixels = append(g.Pixels, slices.Repeat([]byte{byte(20 * i)}, 48)...)
	}
	for _, channels := range []int{1, 3} {
		m := oodWriter{filepath.Join(t.TempDir(), "made"), 2, channels, 2, 5}
		u, err := m.from("a set", g)
		if err != nil {
			t.Fatal(err)
		}
		for spec, want := range map[string][]byte{u.heldOut(): {0, 40}, u.test().Spec: {80, 120, 160}} {
			got, err := images.ReadUnlabelled(t.Context(), spec)
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
			if got, err := images.ReadUnlabelled(t.Context(), u.test().Spec); err != nil || got.Len() != 3 {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Tuning on one set and testing on another needs two.
func TestEveryNetworkHasTwoSetsOrMore(t *testing.T) {
	t.Parallel()
	sets := map[string][]string{}
	for _, e := range allPairs {
		if slices.Contains(sets[e.network], e.set) {
			t.Errorf("%v is there twice", e)
		}
		sets[e.network] = append(sets[e.network], e.set)
		if e.why == "" || !slices.Contains([]nearness{near, far, noise, altered}, e.nearness) {
			t.Errorf("%v is %q, because it has %q", e, e.nearness, e.why)
		}
	}
	for network, all := range sets {
		if len(all) < 2 {
			t.Errorf("%s has only %v", network, all)
		}
	}
}
