package dataset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/featurize/tensor"
)

// CIFAR's binary version: records of label bytes, then 3072 bytes of image,
// planes R, G, B of 32×32. https://www.cs.toronto.edu/~kriz/cifar.html
type cifarKind struct {
	format  string
	record  int
	labelAt int    // CIFAR-100 records begin with the coarse label
	limits  []byte // each label byte lies below its limit
}

const cifarPixels = 3 * 32 * 32

var (
	cifar10  = cifarKind{"cifar10", 1 + cifarPixels, 0, []byte{10}}
	cifar100 = cifarKind{"cifar100", 2 + cifarPixels, 1, []byte{20, 100}}
)

// fits reports whether f looks like a file of this kind: its size, and the
// labels of its first records.
func (k cifarKind) fits(f *os.File, size int64) bool {
	if size%int64(k.record) != 0 {
		return false
	}
	labels := make([]byte, len(k.limits))
	for i := int64(0); i < min(100, size/int64(k.record)); i++ {
		if _, err := f.ReadAt(labels, i*int64(k.record)); err != nil {
			return false
		}
		for j, y := range labels {
			if y >= k.limits[j] {
				return false
			}
		}
	}
	return true
}

func sniffCIFAR(path string, f *os.File, size int64) (string, error) {
	for _, k := range []cifarKind{cifar10, cifar100} {
		if k.fits(f, size) {
			return k.format, nil
		}
	}
	return "", fmt.Errorf("%s: not CIFAR binary: want records of %d (CIFAR-10) or %d (CIFAR-100) bytes with labels in range, got %d bytes",
		path, cifar10.record, cifar100.record, size)
}

// cifarFiles returns the .bin files of a folder, apart for training and test.
func cifarFiles(folder string) (train, test []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, fileError(folder, err)
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || strings.HasPrefix(name, ".") || filepath.Ext(name) != ".bin" {
			continue
		}
		path := filepath.Join(folder, name)
		if strings.HasPrefix(name, "test") {
			test = append(test, path)
		} else {
			train = append(train, path)
		}
	}
	return train, test, nil
}

type cifarSource struct {
	meta  info
	kind  cifarKind
	parts []*arrayFile // of whole records
	files []*os.File
}

func openCIFAR(path string, kind cifarKind, o Options) (_ source, err error) {
	if err := singleLabels(path, o); err != nil {
		return nil, err
	}
	s := &cifarSource{kind: kind}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	s.meta = info{path: path, format: kind.format, labelled: !o.Unlabelled}
	parts := []string{path}
	if isDir(path) {
		train, test, err := cifarFiles(path)
		if err != nil {
			return nil, err
		}
		parts = train
		if len(train) == 0 {
			parts = test
		} else if len(test) > 0 {
			s.meta.ignored = []Ignored{{"a test part, to be named by itself", len(test), filepath.Base(test[0])}}
		}
		if len(parts) == 0 {
			return nil, fmt.Errorf("%s: no .bin files", path)
		}
	}
	for _, p := range parts {
		f, size, err := openRegular(p)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, f)
		if size%int64(kind.record) != 0 {
			return nil, fmt.Errorf("%s: truncated or not %s: %d bytes are not whole records of %d", p, kind.format, size, kind.record)
		}
		n := int(size / int64(kind.record))
		a, err := newArrayFile(p, stored(tensor.Uint8, binary.BigEndian), []int{n, kind.record}, size)
		if err != nil {
			return nil, err
		}
		a.open = plainData(f, 0, size)
		s.parts = append(s.parts, a)
		s.meta.count += n
	}
	return s, nil
}

func (s *cifarSource) info() *info  { return &s.meta }
func (s *cifarSource) Close() error { return closeAll(s.files...) }

func (s *cifarSource) examples(from, to int, yield func(Example, error) bool) {
	start := 0
	for _, p := range s.parts {
		end := start + p.count
		if end > from && start < to {
			more, err := s.part(p, max(from, start)-start, min(to, end)-start, start, yield)
			if err != nil {
				yield(Example{Label: -1}, err)
				return
			}
			if !more {
				return
			}
		}
		start = end
	}
}

// part yields records from…to-1 of one file, whose first is example start.
func (s *cifarSource) part(p *arrayFile, from, to, start int, yield func(Example, error) bool) (more bool, err error) {
	r, err := p.from(from)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	shape := []int{3, 32, 32}
	base := filepath.Base(p.name)
	for i := from; i < to; i++ {
		data, err := r.read(1)
		if err != nil {
			return false, err
		}
		record := data.([]uint8)
		e := Example{Index: start + i, Name: base + "[" + strconv.Itoa(i) + "]", Label: -1}
		if s.meta.labelled {
			e.Label = int(record[s.kind.labelAt])
		}
		e.Inputs = []Array{{Shape: shape, Layout: CHW, Data: record[s.kind.record-cifarPixels:]}}
		if !yield(e, nil) {
			return false, nil
		}
	}
	return true, nil
}

func (s *cifarSource) hash(ctx context.Context, h hash.Hash, _, _ int) error {
	for i, f := range s.files {
		if err := hashReader(ctx, h, f, s.parts[i].bytes()); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return nil
}
