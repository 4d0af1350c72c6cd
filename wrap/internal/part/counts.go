package part

import (
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// Counts are statistics of a set for warnings, in bounded memory. [Counts.Merge] gives the statistics of several sets
// together, in any order.
type Counts struct {
	Examples  int
	Labelled  int   // examples with labels
	Labels    []int // examples of each class, or with each label of a multi-label head
	Predicted []int // likewise, of the network's predictions
	repeats   repeats
}

// NewCounts returns the counts of no examples.
func NewCounts(h layer.Head) *Counts {
	return &Counts{Labels: make([]int, h.Classes()), Predicted: make([]int, h.Classes())}
}

// Add counts more examples of a head.
func (c *Counts) Add(h layer.Head, b *rows.Batch) {
	k := h.Logits
	for i := range b.N {
		c.Examples++
		if h.Features > 0 {
			c.repeats.add(b.Features[i*h.Features : (i+1)*h.Features])
		}
		row := b.Logits[i*k : (i+1)*k]
		switch {
		case h.MultiLabel():
			for j, v := range row {
				if v > 0 {
					c.Predicted[j]++
				}
			}
		default:
			c.Predicted[h.Predicted(row)]++
		}
		switch {
		case len(b.Targets) > 0:
			c.Labelled++
			for j, v := range b.Targets[i*k : (i+1)*k] {
				c.Labels[j] += int(v)
			}
		case i < len(b.Labels) && b.Labels[i] >= 0 && b.Labels[i] < len(c.Labels):
			c.Labelled++
			c.Labels[b.Labels[i]]++
		}
	}
}

// Merge adds the counts of other examples of the same head.
func (c *Counts) Merge(o *Counts) {
	c.Examples += o.Examples
	c.Labelled += o.Labelled
	for j := range c.Labels {
		c.Labels[j] += o.Labels[j]
		c.Predicted[j] += o.Predicted[j]
	}
	c.repeats.merge(&o.repeats)
}

// Repeats returns the fraction of examples with the features of an earlier one.
func (c *Counts) Repeats() float64 { return c.repeats.fraction() }

// repeats counts examples with the same features, by hash. If there are more than mostHashes, it counts only
// hashes without any of the bits of a mask, the smallest that suffices.
type repeats struct {
	times map[uint64]int64 // examples of a hash
	mask  uint64           // a power of two less 1
}

// mostHashes bounds the memory of repeats to some 10 MB.
const mostHashes = 1 << 18

func (r *repeats) add(features []float32) {
	h := uint64(14695981039346656037)
	for _, v := range features {
		if v == 0 {
			v = 0 // -0 has other bits
		}
		h = (h ^ uint64(math.Float32bits(v))) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	r.addHash(h, 1)
}

func (r *repeats) addHash(h uint64, times int64) {
	if h&r.mask != 0 {
		return
	}
	if r.times == nil {
		r.times = map[uint64]int64{}
	}
	r.times[h] += times
	for len(r.times) > mostHashes {
		r.setMask(r.mask<<1 | 1)
	}
}

// setMask sets a mask, and drops the hashes that have any of its bits.
func (r *repeats) setMask(mask uint64) {
	r.mask = mask
	for h := range r.times {
		if h&mask != 0 {
			delete(r.times, h)
		}
	}
}

// merge adds the counts of other examples.
func (r *repeats) merge(o *repeats) {
	if o.mask > r.mask {
		r.setMask(o.mask)
	}
	for h, times := range o.times {
		r.addHash(h, times)
	}
}

// fraction returns the fraction of examples that repeat an earlier one.
func (r *repeats) fraction() float64 {
	var all int64
	for _, times := range r.times {
		all += times
	}
	if all == 0 {
		return 0
	}
	return float64(all-int64(len(r.times))) / float64(all)
}

// hashes returns the counted hashes in ascending order.
func (r *repeats) hashes() []uint64 {
	all := make([]uint64, 0, len(r.times))
	for h := range r.times {
		all = append(all, h)
	}
	slices.Sort(all)
	return all
}
