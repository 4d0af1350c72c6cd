package dataset

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strconv"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// CIFAR's binary version: records of label bytes, then 3072 bytes of image,
// planes R, G, B of 32×32. https://www.cs.toronto.edu/~kriz/cifar.html
type cifarKind struct {
	format  string
	record  int
	labelAt int    // CIFAR-100 records begin with the coarse label
	limits  []byte // each label byte is less than its limit
}

const cifarPixels = 3 * 32 * 32

var (
	cifar10  = cifarKind{"cifar10", 1 + cifarPixels, 0, []byte{10}}
	cifar100 = cifarKind{"cifar100", 2 + cifarPixels, 1, []byte{20, 100}}
)

// fits reports whether f may be of this kind, by its size and the labels of its first records.
func (k cifarKind) fits(f io.ReaderAt, size int64) bool {
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

// sniffCIFAR recognises .bin files, and folders that have them and neither images nor sub-folders.
func sniffCIFAR(kind cifarKind) func(*Peek) (bool, error) {
	return func(p *Peek) (bool, error) {
		if !p.Folder {
			return p.Ext == ".bin" && kind.fits(p, p.Size), cifarMisfit(p.Path, p.Ext, p, p.Size)
		}
		first, err := firstCIFAR(p.Path)
		if first == "" || err != nil {
			return false, err
		}
		f, size, err := openRegular(first)
		if err != nil {
			return false, err
		}
		defer f.Close()
		return kind.fits(f, size), cifarMisfit(first, ".bin", f, size)
	}
}

// cifarMisfit refuses a .bin file that is of neither kind.
func cifarMisfit(path, ext string, f io.ReaderAt, size int64) error {
	if ext != ".bin" || cifar10.fits(f, size) || cifar100.fits(f, size) {
		return nil
	}
	return fmt.Errorf("%s: not CIFAR binary: want records of %d (CIFAR-10) or %d (CIFAR-100) bytes with labels in range, got %d bytes",
		path, cifar10.record, cifar100.record, size)
}

type cifarSource struct {
	Base
	kind  cifarKind
	parts []*arrays.Array // of whole records
}

func openCIFAR(kind cifarKind) func(string, Options) (Source, error) {
	return func(path string, o Options) (Source, error) {
		s := &cifarSource{Base: Base{Format: kind.format, Labelled: !o.Unlabelled}, kind: kind}
		if err := s.openParts(path, o); err != nil {
			s.Close()
			return nil, err
		}
		return s, nil
	}
}

func (s *cifarSource) openParts(path string, o Options) error {
	if err := singleLabels(path, o); err != nil {
		return err
	}
	parts := []string{path}
	if isDir(path) {
		train, test, err := cifarFiles(path)
		if err != nil {
			return err
		}
		parts = train
		if len(train) == 0 {
			parts = test
		} else if len(test) > 0 {
			s.Ignored = []Ignored{{"a test part, to be named by itself", len(test), filepath.Base(test[0])}}
		}
		if len(parts) == 0 {
			return fmt.Errorf("%s: no .bin files", path)
		}
	}
	for _, p := range parts {
		f, err := s.Open(p)
		if err != nil {
			return err
		}
		size := f.Size()
		if size%int64(s.kind.record) != 0 {
			return fmt.Errorf("%s: truncated or not %s: %d bytes are not whole records of %d", p, s.kind.format, size,
				s.kind.record)
		}
		n := int(size / int64(s.kind.record))
		a, err := arrays.NewArray(p, arrays.Stored(tensor.Uint8, binary.BigEndian), []int{n, s.kind.record}, size)
		if err != nil {
			return err
		}
		a.Open = arrays.Plain(f, 0, size)
		s.parts = append(s.parts, a)
		s.Count += n
	}
	return nil
}

// Examples reads one part after another.
func (s *cifarSource) Examples(from, to int) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		start := 0
		for _, p := range s.parts {
			end := start + p.Count
			if end > from && start < to {
				more, err := s.part(p, max(from, start)-start, min(to, end)-start, start, yield)
				if err != nil {
					yield(Example{Label: -1}, err)
				}
				if !more || err != nil {
					return
				}
			}
			start = end
		}
	}
}

// part yields records from…to-1 of one file, whose first is example start.
func (s *cifarSource) part(p *arrays.Array, from, to, start int, yield func(Example, error) bool) (more bool,
	err error) {
	r, err := p.From(from)
	if err != nil {
		return false, err
	}
	defer func() {
		if closed := r.Close(); more {
			err = closed
		}
	}()
	shape := []int{3, 32, 32}
	base := filepath.Base(p.Name)
	for i := from; i < to; i++ {
		data, err := r.Read(1)
		if err != nil {
			return false, err
		}
		record := data.([]uint8)
		e := Example{Index: start + i, Name: base + "[" + strconv.Itoa(i) + "]", Label: -1}
		if s.Labelled {
			e.Label = int(record[s.kind.labelAt])
		}
		e.Inputs = []Array{{Shape: shape, Layout: tensor.CHW, Data: record[s.kind.record-cifarPixels:]}}
		if !yield(e, nil) {
			return false, nil
		}
	}
	return true, nil
}
