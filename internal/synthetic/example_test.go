package synthetic

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	goimage "image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/pixels"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// syntheticImages reads the synthetic OOD data of a dataset, by the positions of their images.
func syntheticOf(t *testing.T, spec string, o dataset.Options) map[int]dataset.Example {
	t.Helper()
	d, err := dataset.Open(t.Context(), spec, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	made := map[int]dataset.Example{}
	for e, err := range d.Examples(context.Background()) {
		if err == nil {
			err = Replace(&e)
		}
		if err != nil {
			t.Fatal(err)
		}
		made[e.Index] = e
	}
	return made
}

// The synthetic image depends on the pixels and the position in the source, not on how the image is stored.
func TestSyntheticImagesDependOnPositionsInTheSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const h, w = 6, 5
	grey := ramp(3 * h * w)
	colour := func(i, y, x, c int) byte { return byte(7*i + 31*y + 13*x + 90*c) }
	last, first, encoded := []byte{}, []byte{}, [][]byte{}
	for i := range 3 {
		img := goimage.NewNRGBA(goimage.Rect(0, 0, w, h))
		for y := range h {
			for x := range w {
				last = append(last, colour(i, y, x, 0), colour(i, y, x, 1), colour(i, y, x, 2))
				img.SetNRGBA(x, y, color.NRGBA{colour(i, y, x, 0), colour(i, y, x, 1), colour(i, y, x, 2), 255})
			}
		}
		for c := range 3 {
			for y := range h {
				for x := range w {
					first = append(first, colour(i, y, x, c))
				}
			}
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, b.Bytes())
	}
	for i, b := range encoded {
		write(t, dir, fmt.Sprintf("folder/%d.png", i), b)
	}
	for name, c := range map[string]struct {
		spec     string
		pixels   []byte
		channels int
	}{
		"grey":           {write(t, dir, "grey-images-idx3-ubyte", idx(grey, 3, h, w)), grey, 1},
		"channels last":  {write(t, dir, "last-images-idx4-ubyte", idx(last, 3, h, w, 3)), last, 3},
		"channels first": {write(t, dir, "first-images-idx4-ubyte", idx(first, 3, 3, h, w)), last, 3},
		"files":          {dir + "/folder", last, 3},
	} {
		got := syntheticOf(t, c.spec, dataset.Options{Unlabelled: true})
		if len(got) != 3 {
			t.Fatalf("%s: %d examples", name, len(got))
		}
		size := h * w * c.channels
		for i := range 3 {
			p := &pixels.Pixels{Data: c.pixels[i*size : (i+1)*size], Height: h, Width: w, Channels: c.channels}
			want := Of(p, i)
			a := got[i].Inputs[0]
			if !bytes.Equal(a.Data.([]uint8), want.Data) || a.Shape[0] != h || a.Shape[1] != w ||
				a.Layout == tensor.CHW {
				t.Errorf("%s: synthetic image %d is %v of layout %s, and not that of its image", name, i, a.Shape, a.Layout)
			}
		}
		some := syntheticOf(t, c.spec+"[1:3]", dataset.Options{Unlabelled: true})
		for i := 1; i < 3; i++ {
			if !bytes.Equal(some[i].Inputs[0].Data.([]uint8), got[i].Inputs[0].Data.([]uint8)) {
				t.Errorf("%s: another synthetic image %d in a slice", name, i)
			}
		}
	}
}

func TestAShardHasTheSyntheticImagesOfTheWholeSource(t *testing.T) {
	t.Parallel()
	path := write(t, t.TempDir(), "images-idx3-ubyte", idx(ramp(1300*4), 1300, 2, 2))
	all, joined := syntheticOf(t, path, dataset.Options{}), map[int]dataset.Example{}
	for i := 1; i <= 3; i++ {
		for at, e := range syntheticOf(t, path, dataset.Options{Shard: rows.Shard{Index: i, Count: 3}}) {
			joined[at] = e
		}
	}
	if len(joined) != 1300 {
		t.Fatalf("%d examples in all shards", len(joined))
	}
	for at, e := range joined {
		if !slices.Equal(e.Inputs[0].Data.([]uint8), all[at].Inputs[0].Data.([]uint8)) {
			t.Fatalf("another synthetic image at %d", at)
		}
	}
}

func TestSyntheticOODDataNeedImages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct{ spec, want string }{
		"a table": {write(t, dir, "t.csv", []byte("a,b\n1,2\n")), "this is not an image with 8-bit pixels, but an array"},
		"vectors": {write(t, dir, "v-images-idx2-ubyte", idx(ramp(6), 2, 3)),
			"this is not an image with 8-bit pixels, but an array [3] of uint8"},
	} {
		d, err := dataset.Open(t.Context(), c.spec, dataset.Options{Unlabelled: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for e, err := range d.Examples(t.Context()) {
			if err == nil {
				err = Replace(&e)
			}
			if !errors.Is(err, ErrNoImage) || errors.As(err, new(*dataset.RecordError)) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want %q", name, err, c.want)
			}
		}
		d.Close()
	}
}

// ramp is 0, 1, 2, … as bytes.
func ramp(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// write puts a file into dir and returns its path.
func write(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// idx makes an IDX file of bytes.
func idx(data []byte, dims ...int) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, data...)
}
