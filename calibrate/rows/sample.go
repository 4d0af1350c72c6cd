package rows

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/mfgs/mfgs/internal/safetensors"
)

// Bounds of a [Sample].
const (
	maxSample      = 8192 // rows
	maxSampleBytes = 16 << 20
)

// SampleSize returns the largest number of rows of d features in a sample: 8,192 or 16 MiB, and at least one.
func SampleSize(d int) int { return max(1, min(maxSample, maxSampleBytes/max(1, 4*d))) }

// A Sample keeps the features of the [SampleSize] rows of a source whose positions have the smallest hashes. It
// does not depend on the order or the parts in which the source was read, and is as good as a random sample.
type Sample struct {
	most     int
	heap     []sampled // the largest hash on top
	features []float32 // of the slots
}

// sampled is a position in the sample and the slot of its row.
type sampled struct {
	hash     uint64
	position int
	slot     int
}

// Hash is a bijection that scatters positions (the finaliser of SplitMix64; Steele, Lea and Flood 2014).
func Hash(position int) uint64 {
	h := uint64(position) + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Add offers the sample more rows, of positions not offered before.
func (s *Sample) Add(b *Batch) {
	if b.N == 0 {
		return
	}
	d := len(b.Features) / b.N
	if s.most == 0 {
		s.most = SampleSize(d)
	}
	for i, position := range b.Positions {
		row := sampled{hash: Hash(position), position: position, slot: len(s.heap)}
		phi, _ := b.Row(i)
		if len(s.heap) < s.most {
			s.heap = append(s.heap, row)
			s.features = append(s.features, phi...)
			s.up()
			continue
		}
		if row.hash > s.heap[0].hash {
			continue
		}
		row.slot = s.heap[0].slot
		s.heap[0] = row
		copy(s.features[row.slot*d:], phi)
		s.down()
	}
}

// up moves the last row to its place in the heap.
func (s *Sample) up() {
	for i := len(s.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if s.heap[parent].hash >= s.heap[i].hash {
			return
		}
		s.heap[parent], s.heap[i] = s.heap[i], s.heap[parent]
		i = parent
	}
}

// down moves the first row to its place in the heap.
func (s *Sample) down() {
	for i := 0; ; {
		largest := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.heap); child++ {
			if s.heap[child].hash > s.heap[largest].hash {
				largest = child
			}
		}
		if largest == i {
			return
		}
		s.heap[i], s.heap[largest] = s.heap[largest], s.heap[i]
		i = largest
	}
}

// Rows returns a copy of the features, in the order of their positions.
func (s *Sample) Rows() *Batch {
	inOrder := slices.Clone(s.heap)
	slices.SortFunc(inOrder, func(a, b sampled) int { return a.position - b.position })
	slots := &Batch{N: len(s.heap), Features: s.features}
	out := &Batch{}
	for _, row := range inOrder {
		out.Append(slots.Slice(row.slot, row.slot+1))
		out.Positions = append(out.Positions, row.position)
	}
	return out
}

// sampleVersion is the format version of encoded samples.
const sampleVersion = "1"

// Encode writes the sample as a sealed safetensors file (see [safetensors.EncodeSealed]) with mfgs.sample, "1", in its
// metadata. Its tensors, for m rows in the order of their positions, are
//
//	positions  I64 [m]    ascending
//	features   F32 [m,d]
//
// d is 0 for an empty sample. The same sample gives the same bytes.
func (s *Sample) Encode(w io.Writer) error {
	b := s.Rows()
	return safetensors.EncodeSealed(w, []safetensors.Tensor{
		{Name: "positions", Shape: []int{b.N}, Data: wide(b.Positions)},
		{Name: "features", Shape: []int{b.N, len(b.Features) / max(1, b.N)}, Data: b.Features},
	}, map[string]string{"mfgs.sample": sampleVersion})
}

// DecodeSample reads and checks the size bytes that [Sample.Encode] wrote.
func DecodeSample(r io.ReaderAt, size int64) (*Sample, error) {
	f, err := safetensors.NewSealedFile(r, size)
	if err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}
	b, err := decodeSample(f)
	if err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}
	s := &Sample{}
	s.Add(b)
	return s, nil
}

func decodeSample(f *safetensors.File) (*Batch, error) {
	if v := f.Metadata()["mfgs.sample"]; v != sampleVersion || len(f.Tensors()) != 2 {
		return nil, fmt.Errorf("format version %.20q with %d tensors, want %q with 2", v, len(f.Tensors()), sampleVersion)
	}
	positions, err := safetensors.Read[int64](f, "positions")
	if err != nil {
		return nil, err
	}
	b := &Batch{N: len(positions)}
	for i, p := range positions {
		if p < 0 || Block(int(p)) >= MaxBlocks || i > 0 && p <= positions[i-1] {
			return nil, fmt.Errorf("position %d is out of order, want ascending positions", p)
		}
		b.Positions = append(b.Positions, int(p))
	}
	t, err := f.Lookup("features")
	if err != nil {
		return nil, err
	}
	if len(t.Shape) != 2 || t.Shape[0] != b.N {
		return nil, fmt.Errorf("features have shape %v, want %d rows", t.Shape, b.N)
	}
	if b.N > SampleSize(t.Shape[1]) {
		return nil, fmt.Errorf("%d rows of %d features, want at most %d", b.N, t.Shape[1], SampleSize(t.Shape[1]))
	}
	if b.Features, err = safetensors.Read[float32](f, t.Name); err != nil {
		return nil, err
	}
	for i, v := range b.Features {
		if x := float64(v); math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("feature %d is %v, want a finite number", i, v)
		}
	}
	return b, nil
}
