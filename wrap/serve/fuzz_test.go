package serve_test

import (
	"image"
	"os"
	"testing"

	"github.com/mfgs/mfgs/internal/pixels"
	"github.com/mfgs/mfgs/wrap/serve"
)

// Memory is reserved for everything that is decoded, and nothing panics.
func FuzzImageIsBounded(f *testing.F) {
	jpeg, err := os.ReadFile("testdata/progressive.jpg")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(jpeg)
	f.Add([]byte("\xff\xd8\xff\xff\xff\xc2\x00\x00"))
	f.Add([]byte("\x89PNG\r\n\x1a\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		reserved, err := serve.ImageBytes(file)
		if err != nil || reserved > 1<<26 {
			return // it is refused, or too large for a test
		}
		if p, err := pixels.Decode(file); err == nil && int64(len(p.Data)) > reserved {
			t.Errorf("%v of %d bytes, and %d are reserved", image.Pt(p.Width, p.Height), len(p.Data), reserved)
		}
	})
}
