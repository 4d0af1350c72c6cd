package featurize

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/files"
)

// Cache keeps the rows of whole streams in a folder, one file each. A file's
// name is the hash of all that determines its rows: model with all its weights,
// head, preprocessing, the dataset's fingerprint, labels, batch size, provider
// and version of the runtime. A file that does not hold what it should is taken
// for missing and written anew. Many programs may use one folder at a time.
//
// A file is, all little-endian:
//
//	offset      bytes       content
//	0           8           "mfgsrow2"
//	8           32          the key, SHA-256
//	40          4, 4        d, K
//	48          n·row       each example's features and logits, float32 [d+K], then its
//	                        targets, t bytes of 0 or 1; row is 4(d+K) + t
//	…           4n          int32 [n] labels, -1 for none
//	…           8n          int64 [n] positions
//	…           m           JSON: messages about records that were skipped
//	…           8, 8, 8     n, m, t
//	…           32          SHA-256 of everything before it
type Cache struct {
	Dir string
	// Options are those the datasets were opened with: they decide about labels.
	Options dataset.Options
}

const (
	cacheMagic  = "mfgsrow2"
	cacheHeader = 48
	cacheFooter = 56
	// maxBadMessages bounds the JSON section.
	maxBadMessages = 64 << 20
)

// key identifies the rows of a stream.
func (c *Cache) key(ctx context.Context, e *Extractor, ds *dataset.Dataset, total int) ([32]byte, error) {
	fingerprint, err := ds.Fingerprint(ctx)
	if err != nil {
		return [32]byte{}, err
	}
	id, err := json.Marshal(map[string]any{
		"format": cacheMagic, "model": e.model, "features": e.features, "logits": e.logits,
		"preprocess": e.Preprocess(), "batch": e.batch, "provider": e.provider, "runtime": e.runtime,
		"dataset": fingerprint, "count": total, "options": c.Options,
	})
	if err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(id), nil
}

func (e *Extractor) streamCached(ctx context.Context, ds *dataset.Dataset, c StreamConfig, yield func(*rows.Batch) error) (Stats, error) {
	c.check()
	cache := c.Cache
	c.Cache = nil
	key, err := cache.key(ctx, e, ds, c.total(ds.Len()))
	if err != nil {
		return Stats{}, err
	}
	path := filepath.Join(cache.Dir, hex.EncodeToString(key[:])+".rows")
	f, err := openRows(path, key, e.d, e.k)
	switch {
	case err == nil:
		defer f.Close()
		if len(f.bad) > c.MaxBad {
			return Stats{Bad: f.bad}, &TooManyBadError{Allowed: c.MaxBad, Bad: f.bad[:c.MaxBad+1]}
		}
		return f.stream(ctx, c.report, yield)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errStaleRows) && !errors.As(err, new(*files.IrregularError)):
		return Stats{}, fmt.Errorf("features cache: %w", err)
	}

	if err := os.MkdirAll(cache.Dir, files.FolderMode); err != nil {
		return Stats{}, fmt.Errorf("features cache: %w", err)
	}
	w, err := createRows(path, key, e.d, e.k)
	if err != nil {
		return Stats{}, fmt.Errorf("features cache: %w", err)
	}
	defer w.abandon()
	stats, err := e.Stream(ctx, ds, c, func(b *rows.Batch) error {
		if err := w.add(b); err != nil {
			return fmt.Errorf("features cache: %w", err)
		}
		return yield(b)
	})
	if err != nil {
		return stats, err
	}
	if err := w.finish(stats.Bad); err != nil {
		return stats, fmt.Errorf("features cache: %w", err)
	}
	return stats, nil
}

// rowsWriter writes a cache file under a temporary name.
type rowsWriter struct {
	path      string
	draft     *files.Draft
	f         *files.File
	h         hash.Hash
	buf       []byte
	labels    []int32
	positions []int64
	targets   int // of each example
}

func createRows(path string, key [32]byte, d, k int) (*rowsWriter, error) {
	draft, err := files.NewDraft(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	f, err := draft.Create(filepath.Base(path))
	if err != nil {
		draft.Close()
		return nil, err
	}
	w := &rowsWriter{path: path, draft: draft, f: f, h: sha256.New()}
	header := append([]byte(cacheMagic), key[:]...)
	header = binary.LittleEndian.AppendUint32(header, uint32(d))
	header = binary.LittleEndian.AppendUint32(header, uint32(k))
	if err := w.write(header); err != nil {
		w.abandon()
		return nil, err
	}
	return w, nil
}

func (w *rowsWriter) write(p []byte) error {
	w.h.Write(p)
	_, err := w.f.Write(p)
	return err
}

func (w *rowsWriter) add(b *rows.Batch) error {
	d, k, t := len(b.Features)/b.N, len(b.Logits)/b.N, len(b.Targets)/b.N
	if len(w.labels) > 0 && t != w.targets {
		return fmt.Errorf("an example has %d targets, those before it %d", t, w.targets)
	}
	w.targets = t
	for i := range b.N {
		w.buf = w.buf[:0]
		for _, v := range b.Features[i*d : (i+1)*d] {
			w.buf = binary.LittleEndian.AppendUint32(w.buf, math.Float32bits(v))
		}
		for _, v := range b.Logits[i*k : (i+1)*k] {
			w.buf = binary.LittleEndian.AppendUint32(w.buf, math.Float32bits(v))
		}
		w.buf = append(w.buf, b.Targets[i*t:(i+1)*t]...)
		if err := w.write(w.buf); err != nil {
			return err
		}
		w.labels = append(w.labels, int32(b.Labels[i]))
		w.positions = append(w.positions, int64(b.Positions[i]))
	}
	return nil
}

// finish completes the file and gives it its name.
func (w *rowsWriter) finish(bad []string) error {
	messages, err := json.Marshal(bad)
	if err != nil {
		return err
	}
	var tail bytes.Buffer
	for _, part := range []any{w.labels, w.positions, messages, uint64(len(w.labels)), uint64(len(messages)), uint64(w.targets)} {
		if err := binary.Write(&tail, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	if err := w.write(tail.Bytes()); err != nil {
		return err
	}
	if _, err := w.f.Write(w.h.Sum(nil)); err != nil {
		return err
	}
	if err := w.f.Close(); err != nil {
		return err
	}
	return w.draft.Move(filepath.Base(w.path))
}

// abandon removes what finish has not given its name.
func (w *rowsWriter) abandon() { w.draft.Close() }

// errStaleRows says that a cache file is not what its name promises.
var errStaleRows = errors.New("not the rows that were asked for")

// rowsFile is a verified cache file.
type rowsFile struct {
	*os.File
	d, k, t   int // features, logits and targets of each example
	n         int
	labels    []int32
	positions []int64
	bad       []string
}

// openRows opens and verifies a cache file. Anything wrong with its contents is
// errStaleRows.
func openRows(path string, key [32]byte, d, k int) (_ *rowsFile, err error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := stat.Size()
	if size < cacheHeader+cacheFooter {
		return nil, errStaleRows
	}
	header, footer := make([]byte, cacheHeader), make([]byte, cacheFooter)
	if _, err := f.ReadAt(header, 0); err != nil {
		return nil, err
	}
	if _, err := f.ReadAt(footer, size-cacheFooter); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if string(header[:8]) != cacheMagic || [32]byte(header[8:40]) != key ||
		le.Uint32(header[40:]) != uint32(d) || le.Uint32(header[44:]) != uint32(k) {
		return nil, errStaleRows
	}
	n, m, t := le.Uint64(footer), le.Uint64(footer[8:]), le.Uint64(footer[16:])
	body := uint64(size - cacheHeader - cacheFooter)
	// Bounded first, so that the sums below cannot overflow.
	if t > body {
		return nil, errStaleRows
	}
	row := uint64(4*(d+k)) + t
	if n == 0 || n > body/(row+12) || m > maxBadMessages || n*(row+12)+m != body {
		return nil, errStaleRows
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, size-sha256.Size)); err != nil {
		return nil, err
	}
	if !bytes.Equal(h.Sum(nil), footer[24:]) {
		return nil, errStaleRows
	}
	r := &rowsFile{File: f, d: d, k: k, t: int(t), n: int(n), labels: make([]int32, n), positions: make([]int64, n)}
	tail := io.NewSectionReader(f, cacheHeader+int64(n*row), int64(n*12+m))
	for _, part := range []any{r.labels, r.positions} {
		if err := binary.Read(tail, le, part); err != nil {
			return nil, err
		}
	}
	if err := json.NewDecoder(tail).Decode(&r.bad); err != nil {
		return nil, errStaleRows
	}
	return r, nil
}

// stream yields the rows in blocks.
func (r *rowsFile) stream(ctx context.Context, report func(int, int), yield func(*rows.Batch) error) (Stats, error) {
	const size = 512
	row := 4*(r.d+r.k) + r.t
	in := bufio.NewReaderSize(io.NewSectionReader(r, cacheHeader, int64(r.n)*int64(row)), 1<<20)
	raw := make([]byte, row)
	for first := 0; first < r.n; first += size {
		if err := context.Cause(ctx); err != nil {
			return Stats{}, err
		}
		n := min(size, r.n-first)
		b := &rows.Batch{
			N: n, Features: make([]float32, n*r.d), Logits: make([]float32, n*r.k),
			Positions: make([]int, n), Labels: make([]int, n),
		}
		for i := range n {
			if _, err := io.ReadFull(in, raw); err != nil {
				return Stats{}, fmt.Errorf("features cache: %w", err)
			}
			decode(b.Features[i*r.d:(i+1)*r.d], raw)
			decode(b.Logits[i*r.k:(i+1)*r.k], raw[4*r.d:])
			b.Targets = append(b.Targets, raw[4*(r.d+r.k):]...)
			b.Labels[i], b.Positions[i] = int(r.labels[first+i]), int(r.positions[first+i])
		}
		if err := yield(b); err != nil {
			return Stats{}, err
		}
		report(first+n, r.n)
	}
	return Stats{Examples: r.n, Bad: r.bad, Cached: true}, nil
}

func decode(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
}
