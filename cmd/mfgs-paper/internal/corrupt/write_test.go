package corrupt

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
)

// rainbow returns n small images, each of one colour and labelled with its index.
func rainbow(n, channels int) *images.Images {
	g := &images.Images{Width: 4, Height: 3, Channels: channels}
	for i := range n {
		g.Pixels = append(g.Pixels, bytes.Repeat([]byte{byte(i), byte(2 * i), byte(3 * i)}[:channels], 4*3)...)
		g.Labels = append(g.Labels, byte(i))
	}
	return g
}

func TestCorruptedImagesAreWrittenOnce(t *testing.T) {
	t.Parallel()
	for _, channels := range []int{1, 3} {
		dir := t.TempDir()
		g := rainbow(6, channels)
		all := Corruptions()
		if len(all) != 1+15*Severities {
			t.Fatalf("%d corruptions", len(all))
		}
		for _, c := range []Corruption{all[0], all[3], all[75]} {
			spec, err := writeCorrupted(g, dir, c)
			if err != nil {
				t.Fatal(err)
			}
			back, err := images.Read(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			want := g.Image(5)
			if c.Severity > 0 {
				im := Image{Width: 4, Height: 3, Channels: channels, Pixels: want}
				if im, err = Apply(c.Kind, c.Severity, im, 5); err != nil {
					t.Fatal(err)
				}
				want = im.Pixels
			}
			if !slices.Equal(back.Image(5), want) || !slices.Equal(back.Labels, g.Labels) || back.Channels != channels {
				t.Errorf("%d channels, %v: image 5 is %v, want %v; labels %v", channels, c, back.Image(5), want, back.Labels)
			}

			// A changed first image and a short file are replaced; a change at the end goes unnoticed.
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
				if _, err := writeCorrupted(g, dir, c); err != nil {
					t.Fatal(err)
				}
				now, err := os.ReadFile(spec)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Equal(now, changed) != test.kept || !test.kept && !bytes.Equal(now, whole) {
					t.Errorf("%v: changed at %d of %d, kept %v", c, test.at, len(whole), !test.kept)
				}
			}
			if err := os.Truncate(spec, int64(len(whole)-1)); err != nil {
				t.Fatal(err)
			}
			if _, err := writeCorrupted(g, dir, c); err != nil {
				t.Fatal(err)
			}
			if now, err := os.ReadFile(spec); err != nil || !bytes.Equal(now, whole) {
				t.Errorf("%v: a short file stays: %v", c, err)
			}
		}
	}
}

func TestEachCorruptionHasItsOwnFile(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range Corruptions() {
		names[c.fileName()] = true
	}
	if len(names) != 76 || !names["uncorrupted"] || !names["jpeg-compression-5"] {
		t.Errorf("%d names: %v", len(names), names)
	}
}
