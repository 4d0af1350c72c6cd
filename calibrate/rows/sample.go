package rows

import "slices"

const (
	// MaxSample is the most rows that a [Sample] has, and MaxSampleBytes the most memory.
	MaxSample      = 8192
	MaxSampleBytes = 32 << 20
)

// SampleSize returns how many rows of d features and K logits a sample has at most: as many as both
// bounds allow, yet one.
func SampleSize(d, k int) int { return max(1, min(MaxSample, MaxSampleBytes/max(1, 4*(d+k)))) }

// A Sample keeps rows of a source in bounded memory: features and logits of those whose positions
// have the smallest hashes, [SampleSize] of them. So it is the same in whatever order and parts the
// source was read, and as good as drawn at random.
type Sample struct {
	most             int
	heap             []sampled // the largest hash on top
	features, logits []float32 // of the slots
}

// sampled is a position that was drawn, and the slot of its row.
type sampled struct {
	hash     uint64
	position int
	slot     int
}

// hashOf spreads positions over all numbers, no two to the same (the finaliser of SplitMix64; Steele,
// Lea and Flood 2014).
func hashOf(position int) uint64 {
	h := uint64(position) + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Add shows the sample more rows, of positions that it was not shown before.
func (s *Sample) Add(b *Batch) {
	if b.N == 0 {
		return
	}
	d, k := len(b.Features)/b.N, len(b.Logits)/b.N
	if s.most == 0 {
		s.most = SampleSize(d, k)
	}
	for i, position := range b.Positions {
		row := sampled{hash: hashOf(position), position: position, slot: len(s.heap)}
		phi, a := b.Row(i)
		if len(s.heap) < s.most {
			s.heap = append(s.heap, row)
			s.features, s.logits = append(s.features, phi...), append(s.logits, a...)
			s.up()
			continue
		}
		if row.hash > s.heap[0].hash {
			continue
		}
		row.slot = s.heap[0].slot
		s.heap[0] = row
		copy(s.features[row.slot*d:], phi)
		copy(s.logits[row.slot*k:], a)
		s.down()
	}
}

// up moves the last row to its place in the heap, and down the first.
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

// Rows returns a copy of the rows, in the order of their positions: features and logits.
func (s *Sample) Rows() *Batch {
	inOrder := slices.Clone(s.heap)
	slices.SortFunc(inOrder, func(a, b sampled) int { return a.position - b.position })
	slots := &Batch{N: len(s.heap), Features: s.features, Logits: s.logits}
	out := &Batch{}
	for _, row := range inOrder {
		out.Append(slots.Slice(row.slot, row.slot+1))
		out.Positions = append(out.Positions, row.position)
	}
	return out
}
