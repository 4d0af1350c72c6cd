package dataset

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset/internal/numpy"
	"github.com/mfgs/mfgs/featurize/tensor"
)

// IDX: two zero bytes, a type byte, the number of dimensions, each dimension as a big-endian
// uint32, then the elements, big-endian. http://yann.lecun.com/exdb/mnist
var idxTypes = map[byte]tensor.Type{
	0x08: tensor.Uint8, 0x09: tensor.Int8, 0x0b: tensor.Int16, 0x0c: tensor.Int32, 0x0d: tensor.Float32,
	0x0e: tensor.Float64,
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

// sniffIDX passes over what may as well be a dark picture of class 0 in CIFAR's format.
func sniffIDX(p *Peek) (bool, error) {
	return isIDX(p.Head) && !(p.Ext == ".bin" && (cifar10.fits(p, p.Size) || cifar100.fits(p, p.Size))), nil
}

func openIDX(path string, o Options) (_ Source, err error) {
	s := &arraySource{names: filepath.Base(path)}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	images, err := s.openIDX(path)
	if err != nil {
		return nil, err
	}
	if len(images.Shape) == 0 {
		return nil, fmt.Errorf("%s: holds one number an example, as labels files do; name the images file", path)
	}
	s.inputs = []namedArray{{"", imageLayout(images.Type, images.Shape), images}}
	if lp := labelsPath(path); lp != "" && !o.Unlabelled {
		if err := singleLabels(lp, o); err != nil {
			return nil, err
		}
		if s.labels, err = s.openIDX(lp); err != nil {
			return nil, err
		}
		if len(s.labels.Shape) != 0 || s.labels.Type.IsFloat() {
			return nil, fmt.Errorf("%s: labels are %s with %d dimensions; want integers with 1", lp, s.labels.Type,
				len(s.labels.Shape)+1)
		}
		if s.labels.Count != images.Count {
			return nil, fmt.Errorf("%s: %d labels for the %d examples of %s", lp, s.labels.Count, images.Count, path)
		}
	}
	s.Count, s.Labelled = images.Count, s.labels != nil
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

// openIDX opens one IDX file.
func (s *arraySource) openIDX(path string) (*numpy.Array, error) {
	f, err := s.Open(path)
	if err != nil {
		return nil, err
	}
	return readIDX(path, f, f.Size())
}

// readIDX reads the header of an IDX file, plain or gzipped.
func readIDX(name string, f io.ReaderAt, size int64) (*numpy.Array, error) {
	var r io.Reader = io.NewSectionReader(f, 0, size)
	limit, data := size, numpy.Plain
	magic := make([]byte, 2)
	if _, err := f.ReadAt(magic, 0); err == nil && bytes.Equal(magic, gzipMagic) {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%s: broken gzip header: %w", name, err)
		}
		r, data = z, numpy.Gzip
		limit = size * numpy.MaxInflate
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
	a, err := numpy.NewArray(name, numpy.Stored(idxTypes[head[2]], binary.BigEndian), dims, limit-int64(start))
	if err != nil {
		return nil, err
	}
	if limit == size && a.Bytes() != size-int64(start) {
		return nil, fmt.Errorf("%s: corrupt: its header promises %d examples of %d bytes, the file holds %d bytes of data",
			name, a.Count, a.Item, size-int64(start))
	}
	a.Open = data(f, int64(start), size)
	return a, nil
}
