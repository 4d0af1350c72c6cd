package rows

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/internal/option"
)

// BlockSize is the number of source positions in a block. Blocks are cut from position 0 of the source,
// independently of batches. Examples are summed and stored by block.
const BlockSize = 512

// MaxBlocks bounds the blocks of a source, so that positions do not overflow.
const MaxBlocks = 1 << 40

// Block returns the index of the block that holds a position.
func Block(position int) int { return position / BlockSize }

// MaxShards bounds the shards of a source: manifests name each of them.
const MaxShards = 1 << 12

// Shard is one of Count runs of whole blocks of a source; Index counts from 1. The zero value is the whole source.
type Shard struct{ Index, Count int }

// Validate reports a shard that does not exist.
func (s Shard) Validate() error {
	if s != (Shard{}) && (s.Count > MaxShards || s.Index < 1 || s.Index > s.Count) {
		return option.Errorf("%s %s, want I/N with I from 1 to N, and N at most %d", option.Shard, s, MaxShards)
	}
	return nil
}

// ParseShard reads I/N.
func ParseShard(text string) (s Shard, err error) {
	index, count, ok := strings.Cut(text, "/")
	if s.Index, err = strconv.Atoi(index); err == nil {
		s.Count, err = strconv.Atoi(count)
	}
	if !ok || err != nil || s == (Shard{}) || s.String() != text {
		return Shard{}, option.Errorf("%s %.40q, want I/N, such as 1/8", option.Shard, text)
	}
	return s, s.Validate()
}

// String returns I/N.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// MarshalText returns I/N.
func (s Shard) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads I/N.
func (s *Shard) UnmarshalText(text []byte) (err error) {
	*s, err = ParseShard(string(text))
	return err
}

// Range returns the shard of the positions [from,to): of B blocks, shard I of N has [B(I-1)/N, BI/N), rounded down. It
// may be empty if there are fewer blocks than shards.
func (s Shard) Range(from, to int) (first, last int) {
	if s.Count == 0 || to <= from {
		return from, to
	}
	start := Block(from)
	blocks := Block(to-1) + 1 - start
	first = max(from, (start+blocks*(s.Index-1)/s.Count)*BlockSize)
	last = min(to, (start+blocks*s.Index/s.Count)*BlockSize)
	return first, max(first, last)
}

// InBlocks cuts the examples of batches, whose positions ascend, into blocks. It yields a block when an example
// after it arrives, and the last one when the batches end without an error. The receiver owns the block.
func InBlocks(batches iter.Seq2[*Batch, error]) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		var c cutter
		for b, err := range batches {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, block := range c.add(b) {
				if !yield(block, nil) {
					return
				}
			}
		}
		if c.pending != nil {
			yield(c.pending, nil)
		}
	}
}

// A cutter collects batches into blocks.
type cutter struct {
	pending *Batch // the incomplete block, or nil
}

// add takes the next examples and returns the blocks that they complete.
func (c *cutter) add(batch *Batch) (complete []*Batch) {
	for from := 0; from < batch.N; {
		index, to := Block(batch.Positions[from]), from+1
		for to < batch.N && Block(batch.Positions[to]) == index {
			to++
		}
		if c.pending != nil && Block(c.pending.Positions[0]) != index {
			complete = append(complete, c.pending)
			c.pending = nil
		}
		if c.pending == nil {
			c.pending = &Batch{}
		}
		c.pending.Append(batch.Slice(from, to))
		from = to
	}
	return complete
}
