package images

import (
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/pixels"
)

func TestResizeIsBilinear(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		in            pixels.Pixels
		height, width int
		want          []uint8
	}{
		// New pixels lie at .25, .75, 1.25 and 1.75, old ones at .5 and 1.5.
		{"wider", pixels.Pixels{Data: []uint8{0, 100}, Height: 1, Width: 2, Channels: 1}, 1, 4, []uint8{0, 25, 75, 100}},
		// The filter is two pixels wide on either side: weights are in proportion to .75, .75 and .25.
		{"narrower", pixels.Pixels{Data: []uint8{0, 0, 100, 100}, Height: 1, Width: 4, Channels: 1}, 1, 2, []uint8{14, 86}},
		{"higher", pixels.Pixels{Data: []uint8{0, 100}, Height: 2, Width: 1, Channels: 1}, 4, 1, []uint8{0, 25, 75, 100}},
		{
			"channels apart", pixels.Pixels{Data: []uint8{0, 9, 200, 100, 9, 0}, Height: 1, Width: 2, Channels: 3}, 1, 4,
			[]uint8{0, 9, 200, 25, 9, 150, 75, 9, 50, 100, 9, 0},
		},
		{"as it is", pixels.Pixels{Data: []uint8{1, 2, 3, 4}, Height: 2, Width: 2, Channels: 1}, 2, 2, []uint8{1, 2, 3, 4}},
	} {
		if got := Resize(test.in, test.height, test.width); !slices.Equal(got.Data, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got.Data, test.want)
		}
	}
	flat := pixels.Pixels{Data: slices.Repeat([]uint8{77}, 5*7*3), Height: 5, Width: 7, Channels: 3}
	for _, side := range []int{1, 3, 11} {
		if got := Resize(flat, side, side); !slices.Equal(got.Data, slices.Repeat([]uint8{77}, side*side*3)) {
			t.Errorf("an even image at side %d is uneven", side)
		}
	}
}

func TestChannelsAreConverted(t *testing.T) {
	t.Parallel()
	colours := pixels.Pixels{Data: []uint8{255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9}, Height: 1, Width: 4, Channels: 3}
	if got := ToGrey(colours); got.Channels != 1 || !slices.Equal(got.Data, []uint8{76, 150, 29, 9}) {
		t.Errorf("in grey %v", got.Data)
	}
	one := pixels.Pixels{Data: []uint8{3, 4}, Height: 1, Width: 2, Channels: 1}
	if got := ToRGB(one); got.Channels != 3 || !slices.Equal(got.Data, []uint8{3, 3, 3, 4, 4, 4}) {
		t.Errorf("in colour %v", got.Data)
	}
}
