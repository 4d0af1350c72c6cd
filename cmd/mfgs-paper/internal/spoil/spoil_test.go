package spoil

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/corrupt"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/gallery"
)

// rainbow is a gallery of n small images of one colour each, with their places as labels.
func rainbow(n, channels int) *gallery.Gallery {
	g := &gallery.Gallery{Width: 4, Height: 3, Channels: channels}
	for i := range n {
		g.Pixels = append(g.Pixels, bytes.Repeat([]byte{byte(i), byte(2 * i), byte(3 * i)}[:channels], 4*3)...)
		g.Labels = append(g.Labels, byte(i))
	}
	return g
}

// Spoiled images are those of package corrupt, with their labels, and what there is of them is kept.
func TestSpoiledImagesAreWrittenOnce(t *testing.T) {
	for _, channels := range []int{1, 3} {
		dir := t.TempDir()
		g := rainbow(6, channels)
		ways := Ways()
		if len(ways) != 1+15*corrupt.Severities {
			t.Fatalf("%d ways", len(ways))
		}
		for _, way := range []Way{ways[0], ways[3], ways[75]} {
			spec, err := writeSpoiled(g, dir, way)
			if err != nil {
				t.Fatal(err)
			}
			back, err := gallery.Read(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			want := g.Image(5)
			if way.Severity > 0 {
				im := corrupt.Image{Width: 4, Height: 3, Channels: channels, Pixels: want}
				if im, err = corrupt.Apply(way.Kind, way.Severity, im, 5); err != nil {
					t.Fatal(err)
				}
				want = im.Pixels
			}
			if !slices.Equal(back.Image(5), want) || !slices.Equal(back.Labels, g.Labels) || back.Channels != channels {
				t.Errorf("%d channels, %v: image 5 is %v, want %v; labels %v", channels, way, back.Image(5), want, back.Labels)
			}

			// A change at the end is not seen, one at the beginning is, and a file that is too short.
			whole, err := os.ReadFile(spec)
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range []struct {
				at   int
				kept bool
			}{{len(whole) - 1, true}, {len(whole) - 6*4*3*channels, false}} {
				changed := slices.Clone(whole)
				changed[test.at] ^= 255
				if err := os.WriteFile(spec, changed, 0o666); err != nil {
					t.Fatal(err)
				}
				if _, err := writeSpoiled(g, dir, way); err != nil {
					t.Fatal(err)
				}
				now, err := os.ReadFile(spec)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Equal(now, changed) != test.kept || !test.kept && !bytes.Equal(now, whole) {
					t.Errorf("%v: changed at %d of %d, kept %v", way, test.at, len(whole), !test.kept)
				}
			}
			if err := os.Truncate(spec, int64(len(whole)-1)); err != nil {
				t.Fatal(err)
			}
			if _, err := writeSpoiled(g, dir, way); err != nil {
				t.Fatal(err)
			}
			if now, err := os.ReadFile(spec); err != nil || !bytes.Equal(now, whole) {
				t.Errorf("%v: a short file stays: %v", way, err)
			}
		}
	}
}

func TestTheSpecIsNamedForItsWay(t *testing.T) {
	names := map[string]bool{}
	for _, way := range Ways() {
		names[way.fileName()] = true
	}
	if len(names) != 76 || !names["as-they-are"] || !names["jpeg-compression-5"] {
		t.Errorf("%d names: %v", len(names), names)
	}
}
