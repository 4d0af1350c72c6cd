package rows

// BlockSize is the number of source positions in a block. Blocks are cut from position 0 of the
// source, whatever the batches are, and are the unit in which examples are summed and stored.
const BlockSize = 512

// Block returns the index of the block that holds a position.
func Block(position int) int { return position / BlockSize }

// Blocks gathers batches into blocks.
type Blocks struct {
	yield   func(*Batch) error
	pending *Batch
}

// NewBlocks returns Blocks that pass each block with examples to yield, which owns it.
func NewBlocks(yield func(*Batch) error) *Blocks { return &Blocks{yield: yield} }

// Add takes the next examples, and yields the blocks that they complete.
func (b *Blocks) Add(batch *Batch) error {
	for from := 0; from < batch.N; {
		index, to := Block(batch.Positions[from]), from+1
		for to < batch.N && Block(batch.Positions[to]) == index {
			to++
		}
		if b.pending != nil && Block(b.pending.Positions[0]) != index {
			if err := b.Flush(); err != nil {
				return err
			}
		}
		if b.pending == nil {
			b.pending = &Batch{}
		}
		b.pending.Append(batch.Slice(from, to))
		from = to
	}
	return nil
}

// Flush yields the last block, when there are no more examples.
func (b *Blocks) Flush() error {
	last := b.pending
	if last == nil {
		return nil
	}
	b.pending = nil
	return b.yield(last)
}
