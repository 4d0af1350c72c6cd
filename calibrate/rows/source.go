package rows

import "context"

// A Source streams examples in order: a dataset run through a network, a file of ready-made
// features, or a store of either.
type Source interface {
	Features() int // d
	Logits() int   // K

	// Len is how many examples a stream reads, -1 where that is not known. Those that cannot be read
	// are left out of it.
	Len() int

	// Labelled reports whether every example has a label, or targets.
	Labelled() bool

	// Stream calls yield with the examples in batches of any size; positions rise. yield runs in
	// the caller's goroutine and owns the batch. Its error ends the stream, as does the end of ctx.
	Stream(ctx context.Context, yield func(*Batch) error) (Stats, error)

	// Fingerprint is a hash of the data and of which part of them is streamed, in hex. It is
	// known when a stream has ended without an error, and "" before, unless it is remembered.
	Fingerprint() string
}

// Stats is what a stream met.
type Stats struct {
	Examples int      // that were handed over
	Bad      []string // one message for each record that was skipped
	Cached   bool     // they came from a store
}

// Bad is a record that is left out.
type Bad struct {
	Position int // in the source
	Message  string
}

// Spread reports whether example i of n is among m ≤ n that are spread evenly: folders come class
// by class.
func Spread(i, n, m int) bool { return i*m/n != (i+1)*m/n }

// SpreadBefore returns how many of the m are among the first i of n.
func SpreadBefore(i, n, m int) int { return i * m / n }
