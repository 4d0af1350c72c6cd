package arrow

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// benchImages names the variable with a folder of JPEG files, in sub-folders, that BenchmarkImages reads
// in place of made ones.
const benchImages = "MFGS_BENCH_IMAGES"

// photos returns JPEG files of 224 × 224 pixels with about as much detail as photographs.
func photos(b *testing.B, n int) [][]byte {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	files := make([][]byte, n)
	for i := range files {
		m := image.NewRGBA(image.Rect(0, 0, 224, 224))
		for y := range 224 {
			for x := range 224 {
				v := uint8((x*i+y*y)/7 + random.IntN(40))
				m.Set(x, y, color.RGBA{v, v / 2, 255 - v, 255})
			}
		}
		var buf bytes.Buffer
		if err := jpeg.Encode(&buf, m, &jpeg.Options{Quality: 90}); err != nil {
			b.Fatal(err)
		}
		files[i] = buf.Bytes()
	}
	return files
}

// BenchmarkImages compares the same JPEG files in a folder, in Parquet files and in Arrow streams: by
// turns, as read and as decoded. It reports the folder's images per second, and the others' as parts
// of that.
func BenchmarkImages(b *testing.B) {
	var files [][]byte
	folder := os.Getenv(benchImages)
	if folder != "" {
		paths, err := filepath.Glob(filepath.Join(folder, "*", "*"))
		if err != nil || len(paths) == 0 {
			b.Fatalf("%s: no images, %v", folder, err)
		}
		for _, path := range paths[:min(len(paths), 1000)] {
			content, err := os.ReadFile(path)
			if err != nil {
				b.Fatal(err)
			}
			files = append(files, content)
		}
	} else {
		files = photos(b, 400)
	}
	dir := b.TempDir()
	var values []parquet.ByteArray
	for i, content := range files {
		values = append(values, content)
		class := filepath.Join(dir, "folder", fmt.Sprint(i%10))
		if err := os.MkdirAll(class, 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(class, fmt.Sprintf("%04d.jpg", i)), content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	specs := []string{"folder"}
	for name, content := range map[string][]byte{
		"plain.parquet":  parquetOf(b, compress.Codecs.Uncompressed, values...),
		"snappy.parquet": parquetOf(b, compress.Codecs.Snappy, values...),
		"zstd.parquet":   parquetOf(b, compress.Codecs.Zstd, values...),
		"plain.arrows":   streamOf(b, ipc.WithCompressConcurrency(1), files...),
		"lz4.arrows":     streamOf(b, ipc.WithLZ4(), files...),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			b.Fatal(err)
		}
		specs = append(specs, name)
	}
	for _, decode := range []bool{false, true} {
		b.Run(map[bool]string{false: "read", true: "decoded"}[decode], func(b *testing.B) {
			took := map[string]time.Duration{}
			for b.Loop() {
				for _, spec := range specs {
					took[spec] += pass(b, filepath.Join(dir, spec), len(files), decode)
				}
			}
			b.ReportMetric(float64(b.N*len(files))/took["folder"].Seconds(), "images/s")
			for _, spec := range specs[1:] {
				b.ReportMetric(took["folder"].Seconds()/took[spec].Seconds(), spec)
			}
		})
	}
}

// pass reads all images of a SPEC, and returns how long that took.
func pass(b *testing.B, spec string, want int, decode bool) time.Duration {
	b.Helper()
	start := time.Now()
	d, err := dataset.Open(b.Context(), spec, dataset.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	n := 0
	for e, err := range d.Examples(b.Context()) {
		if err == nil && decode {
			err = e.Decode()
		}
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	if n != want {
		b.Fatalf("%s has %d images, want %d", spec, n, want)
	}
	return time.Since(start)
}

// BenchmarkLists reads lists of 128 numbers.
func BenchmarkLists(b *testing.B) {
	const rows, width = 20_000, 128
	lists := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Float32)
	values := lists.ValueBuilder().(*array.Float32Builder)
	random := rand.New(rand.NewPCG(1, 2))
	for range rows {
		lists.Append(true)
		for range width {
			values.Append(random.Float32())
		}
	}
	content := tableOf(b, lists.NewArray(), parquet.WithDictionaryDefault(false))
	path := written(b, "lists.parquet", content)
	b.SetBytes(4 * rows * width)
	for b.Loop() {
		pass(b, path, rows, false)
	}
}
