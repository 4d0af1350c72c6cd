package dataset

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// The same photographs from class folders, from WebDataset's shards and from a stream of one, turn by
// turn: images a second of the folder, and how many times that the others give.
func BenchmarkShards(b *testing.B) {
	photos, err := Open(b.Context(), sharedData(b, "imagenet/ilsvrc_val.tar"), Options{Classes: 1000})
	if err != nil {
		b.Fatal(err)
	}
	defer photos.Close()
	dir := b.TempDir()
	var all, shard bytes.Buffer
	whole, part, n := tar.NewWriter(&all), tar.NewWriter(&shard), 0
	add := func(w *tar.Writer, name string, content []byte) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			b.Fatal(err)
		}
	}
	for e, err := range photos.Examples(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		write(b, dir, fmt.Sprintf("folder/%d/%06d.jpg", e.Label, n), e.Encoded)
		for _, w := range []*tar.Writer{whole, part} {
			add(w, fmt.Sprintf("%06d.cls", n), fmt.Append(nil, e.Label))
			add(w, fmt.Sprintf("%06d.jpg", n), e.Encoded)
		}
		if n++; n%250 == 0 {
			part.Close()
			write(b, dir, fmt.Sprintf("shard-%d.tar", n/250-1), shard.Bytes())
			shard.Reset()
			part = tar.NewWriter(&shard)
		}
	}
	whole.Close()
	specs := []string{"folder", "shard-{0..3}.tar", "tar:-"}
	for _, decoded := range []bool{false, true} {
		b.Run(map[bool]string{false: "read", true: "decoded"}[decoded], func(b *testing.B) {
			took := map[string]time.Duration{}
			for b.Loop() {
				for _, spec := range specs {
					start, path := time.Now(), filepath.Join(dir, spec)
					if spec == "tar:-" {
						path = spec
					}
					in := NewStream(bytes.NewReader(all.Bytes()), stdinPath)
					d, err := Open(b.Context(), path, Options{Classes: 1000, Stream: in})
					if err != nil {
						b.Fatal(err)
					}
					got := 0
					for e, err := range d.Examples(context.Background()) {
						if err == nil && decoded {
							err = e.Decode()
						}
						if err != nil {
							b.Fatal(err)
						}
						got++
					}
					d.Close()
					if got != n {
						b.Fatalf("%s: %d images, want %d", spec, got, n)
					}
					took[spec] += time.Since(start)
				}
			}
			b.ReportMetric(float64(b.N*n)/took["folder"].Seconds(), "images/s")
			for _, spec := range specs[1:] {
				b.ReportMetric(took["folder"].Seconds()/took[spec].Seconds(), spec)
			}
		})
	}
}
