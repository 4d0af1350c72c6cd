package dataset

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/featurize/tensor"
)

// IDX: two zero bytes, a type byte, the number of dimensions, each dimension as
// a big-endian uint32, then the elements, big-endian.
// http://yann.lecun.com/exdb/mnist
var idxTypes = map[byte]tensor.Type{
	0x08: tensor.Uint8, 0x09: tensor.Int8, 0x0b: tensor.Int16, 0x0c: tensor.Int32, 0x0d: tensor.Float32, 0x0e: tensor.Float64,
}

// maxIDXDims: videos have [N,T,H,W,C], and nothing has more.
const maxIDXDims = 5

func isIDX(head []byte) bool {
	if len(head) < 4 || head[0] != 0 || head[1] != 0 || head[3] == 0 || head[3] > maxIDXDims {
		return false
	}
	_, ok := idxTypes[head[2]]
	return ok
}

type idxSource struct {
	meta   info
	images *arrayFile
	labels *arrayFile // nil where there are none
	files  []*os.File
	layout Layout
	base   string
}

func openIDX(path string, o Options) (_ source, err error) {
	s := &idxSource{base: filepath.Base(path)}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.images, err = s.openFile(path); err != nil {
		return nil, err
	}
	if len(s.images.shape) == 0 {
		return nil, fmt.Errorf("%s: holds one number an example, as labels files do; name the images file", path)
	}
	s.layout = imageLayout(s.images.dtype, s.images.shape)
	if lp := labelsPath(path); lp != "" && !o.Unlabelled {
		if err := singleLabels(lp, o); err != nil {
			return nil, err
		}
		if s.labels, err = s.openFile(lp); err != nil {
			return nil, err
		}
		if len(s.labels.shape) != 0 || s.labels.dtype.IsFloat() {
			return nil, fmt.Errorf("%s: labels are %s with %d dimensions; want integers with 1", lp, s.labels.dtype, len(s.labels.shape)+1)
		}
		if s.labels.count != s.images.count {
			return nil, fmt.Errorf("%s: %d labels for the %d examples of %s", lp, s.labels.count, s.images.count, path)
		}
	}
	s.meta = info{path: path, format: "idx", count: s.images.count, labelled: s.labels != nil}
	return s, nil
}

// labelsPath returns the existing labels file beside an images file, or "".
func labelsPath(images string) string {
	dir, base := filepath.Split(images)
	name := strings.NewReplacer("images", "labels", "idx3", "idx1", "idx4", "idx1").Replace(base)
	if name == base {
		return ""
	}
	other := name + ".gz"
	if plain, zipped := strings.CutSuffix(name, ".gz"); zipped {
		other = plain
	}
	for _, n := range []string{name, other} {
		if exists(dir + n) {
			return dir + n
		}
	}
	return ""
}

// openFile opens one IDX file, kept in s.files until Close.
func (s *idxSource) openFile(path string) (*arrayFile, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, f)
	return readIDX(path, f, size)
}

// readIDX reads the header of an IDX file, plain or gzipped.
func readIDX(name string, f io.ReaderAt, size int64) (*arrayFile, error) {
	var r io.Reader = io.NewSectionReader(f, 0, size)
	limit, data := size, plainData
	magic := make([]byte, 2)
	if _, err := f.ReadAt(magic, 0); err == nil && bytes.Equal(magic, gzipMagic) {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%s: broken gzip header: %w", name, err)
		}
		r, data = z, gzipData
		limit = size * maxInflate
	}
	head := make([]byte, 4+4*maxIDXDims)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if head = head[:n]; !isIDX(head) {
		return nil, fmt.Errorf("%s: not an IDX file (it begins % x)", name, head[:min(4, n)])
	}
	rank := int(head[3])
	start := 4 + 4*rank
	if n < start {
		return nil, fmt.Errorf("%s: truncated within its header of %d bytes", name, start)
	}
	dims := make([]int, rank)
	for i := range dims {
		dims[i] = int(binary.BigEndian.Uint32(head[4+4*i:]))
	}
	a, err := newArrayFile(name, stored(idxTypes[head[2]], binary.BigEndian), dims, limit-int64(start))
	if err != nil {
		return nil, err
	}
	if limit == size && a.bytes() != size-int64(start) {
		return nil, fmt.Errorf("%s: corrupt: its header promises %d examples of %d bytes, the file holds %d bytes of data",
			name, a.count, a.item, size-int64(start))
	}
	a.open = data(f, int64(start), size)
	return a, nil
}

func (s *idxSource) info() *info { return &s.meta }

func (s *idxSource) Close() error { return closeAll(s.files...) }

func (s *idxSource) examples(from, to int, yield func(Example, error) bool) {
	arraySource{base: s.base, inputs: []namedArray{{"", s.layout, s.images}}, labels: s.labels}.examples(from, to, yield)
}

func (s *idxSource) hash(ctx context.Context, h hash.Hash, _, _ int) error {
	for _, f := range s.files {
		fi, err := f.Stat()
		if err != nil {
			return fileError(f.Name(), err)
		}
		if err := hashReader(ctx, h, f, fi.Size()); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return nil
}

type namedArray struct {
	name   string
	layout Layout
	*arrayFile
}

// An arraySource reads examples from arrays side by side.
type arraySource struct {
	base   string // examples are named base[index]
	inputs []namedArray
	labels *arrayFile // may be nil
	text   labelParser
	multi  bool // labels are targets
}

func (s arraySource) examples(from, to int, yield func(Example, error) bool) {
	fail := func(err error) { yield(Example{Label: -1}, err) }
	readers := make([]*arrayReader, len(s.inputs))
	for i, in := range s.inputs {
		r, err := in.from(from)
		if err != nil {
			fail(err)
			return
		}
		defer r.Close()
		readers[i] = r
	}
	var labels *labelReader
	if s.labels != nil {
		var err error
		if labels, err = newLabelReader(s.labels, s.text, from, to); err != nil {
			fail(err)
			return
		}
		defer labels.Close()
	}
	for i := from; i < to; i++ {
		e := Example{Index: i, Name: s.base + "[" + strconv.Itoa(i) + "]", Label: -1, Inputs: make([]Array, len(readers))}
		for j, r := range readers {
			data, err := r.read(1)
			if err != nil {
				fail(err)
				return
			}
			in := &s.inputs[j]
			e.Inputs[j] = Array{Name: in.name, Shape: in.shape, Layout: in.layout, Data: data}
		}
		if labels != nil {
			var err error
			if s.multi {
				e.Targets, err = labels.targets()
			} else {
				e.Label, err = labels.next()
			}
			if err != nil {
				fail(err)
				return
			}
		}
		if !yield(e, nil) {
			return
		}
	}
}
