package featurize

import (
	"bytes"
	"fmt"
	goimage "image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
)

// A folder's files are read once for their examples and their fingerprint, those that a limit
// leaves out as well. Not parallel: the test counts what the process reads.
func TestFilesAreReadOnce(t *testing.T) {
	const files, side = 40, 200
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 1))
	var size int64
	for i := range files {
		m := goimage.NewNRGBA(goimage.Rect(0, 0, side, side))
		for k := range m.Pix {
			m.Pix[k] = uint8(r.Uint32()) | 1
		}
		var buf bytes.Buffer
		if err := png.Encode(&buf, m); err != nil {
			t.Fatal(err)
		}
		size += int64(buf.Len())
		write(t, filepath.Join(dir, fmt.Sprint(i%2)), fmt.Sprintf("%d.png", i), buf.Bytes())
	}
	shrink := &preprocess.Spec{Resize: &preprocess.Resize{Width: 8, Height: 8}}
	e := extractor(t, "conv", Config{Preprocess: shrink})
	for _, limit := range []int{0, 10} {
		ds := openData(t, dir, dataset.Options{Fingerprint: true})
		before := readBytes(t)
		stream(t, e, ds, StreamConfig{Limit: limit})
		got, err := ds.Fingerprint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if read := readBytes(t) - before; read < size || read > size+size/10 {
			t.Errorf("limit %d: %d bytes were read of files of %d", limit, read, size)
		}
		if want, err := openData(t, dir, dataset.Options{}).Fingerprint(t.Context()); err != nil || got != want {
			t.Errorf("limit %d: fingerprint %s, want %s, %v", limit, got, want, err)
		}
	}
}

// readBytes returns how many bytes this process has read from files and the like.
func readBytes(t *testing.T) (n int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(strings.TrimSpace(string(b)), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
