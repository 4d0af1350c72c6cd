package featurize

import (
	"fmt"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/option"
)

// StreamConfig says which examples a pass reads, and what it tolerates. The zero value reads the whole
// dataset and tolerates nothing.
type StreamConfig struct {
	// From is the first position to read. Examples are batched as in a pass that starts at 0, so that
	// results do not depend on From: the network runs the whole batch that contains it.
	From int
	// Limit is the most examples that are read, spread evenly over the dataset; 0 reads all. A shard
	// gets those of them that it contains.
	Limit  int
	MaxBad int    // how many unreadable records to skip; one more is an error
	Cache  *Cache // where Rows keeps what it computes; nil keeps nothing
	// Stats counts examples and unreadable records, on top of what an earlier pass counted before
	// From. A bad record is counted before the examples after it are yielded. Nil counts from nothing.
	Stats *rows.Stats
	// Passes is how often Results runs each batch; 0 is once. For a network that draws random numbers
	// each pass has other results, which are [n,Passes,width].
	Passes    int
	Synthetic bool // run on synthetic OOD images made from the examples, see package synthetic
	Progress  func(done, total int)
}

// Cache keeps the features and logits of whole datasets in a folder, in files RECIPE-DATA.rows that are
// stores (see package rows). RECIPE is a hash of everything but the data that determines features and
// labels: model with all weights, head, preprocessing, options of the dataset, shard, number of
// examples, batch size, provider and version of the runtime. DATA is the data's fingerprint.
//
// The fingerprint is computed in the pass that computes the features. It is not computed again if the
// data's files have the paths, sizes and modification times that a store of the recipe records.
//
// A file that is not a valid store counts as missing and is overwritten. Several programs may use one
// folder at the same time.
//
// An interrupted run leaves its rows in RECIPE-STAMP.partial, where STAMP is a hash of the data's paths,
// sizes and modification times. The next run with the same recipe and stamp computes the rest. Partial
// files are removed after a week.
//
// If the folder cannot be read or written, rows come from the network, and Failed is called.
type Cache struct {
	Dir string
	// Options are those that the datasets were opened with: labels depend on them.
	Options dataset.Options
	// ReadOnly takes what there is, and stores nothing.
	ReadOnly bool
	// Failed, if set, receives the error for which a pass goes on without the folder. What it had stored of
	// the pass is removed by then.
	Failed func(error)
}

// ErrNoExamples reports a dataset without examples, or without one that can be read. The dataset's name precedes it.
var ErrNoExamples = dataset.ErrNoExamples

// TooManyBadError reports more unreadable records than allowed.
type TooManyBadError struct {
	Allowed int
	Bad     []string // one message each
}

func (e *TooManyBadError) Error() string {
	last := e.Bad[len(e.Bad)-1]
	if e.Allowed == 0 {
		return fmt.Sprintf("%s (use %s N to skip up to N such records)", last, option.MaxBad)
	}
	return fmt.Sprintf("%s: %d unreadable records, %s allows %d", last, len(e.Bad), option.MaxBad, e.Allowed)
}

// check panics if a number makes no sense, and sets Stats.
func (c *StreamConfig) check() {
	if c.From < 0 || c.Limit < 0 || c.MaxBad < 0 || c.Passes < 0 {
		panic(fmt.Sprintf("featurize: StreamConfig has From %d, Limit %d, MaxBad %d and Passes %d",
			c.From, c.Limit, c.MaxBad, c.Passes))
	}
	if c.Stats == nil {
		c.Stats = &rows.Stats{}
	}
}

func (c *StreamConfig) report(done, total int) {
	if c.Progress != nil {
		c.Progress(done, total)
	}
}

// A selection is the examples that a StreamConfig selects from a source.
type selection struct {
	first      int  // first position of the source's slice
	begin      int  // first position of its shard
	from, to   int  // positions to read
	all, limit int  // examples in the slice, and how many of them are selected; both -1 for a stream
	count      int  // selected examples in from…to-1; for a stream an upper bound
	whole      bool // from…to is the whole slice, not a part
}

// A Sliced is a source that can be read in shards: a dataset, or a file of precomputed features.
type Sliced interface {
	Len() int
	Slice() (from, to int)
	Range() (from, to int)
}

// selects returns what is selected from a source.
func (c *StreamConfig) selects(s Sliced) selection {
	first, last := s.Slice()
	from, to := s.Range()
	w := selection{first: first, begin: from, from: min(max(from, c.From), to), to: to, all: s.Len(), limit: s.Len()}
	w.whole = w.from == first && w.to == last
	if c.Limit > 0 && w.all >= 0 {
		w.limit = min(c.Limit, w.all)
	}
	if w.from < w.to {
		w.count = w.before(w.to) - w.before(w.from)
	}
	return w
}

// Count returns how many examples are read from a source, unreadable ones included; -1 for a stream.
func (c *StreamConfig) Count(s Sliced) int {
	if w := c.selects(s); w.all >= 0 {
		return w.count
	}
	return -1
}

// total is the total that Progress reports, if done examples were read before; 0 if unknown.
func (w *selection) total(done int) int {
	if w.all < 0 {
		return 0
	}
	return done + w.count
}

// wants reports whether the example at a position is selected. In a stream all are, as both all and
// limit are -1.
func (w *selection) wants(position int) bool {
	return rows.InSubsample(position-w.first, w.all, w.limit)
}

// before returns how many of the slice's selected examples are before a position.
func (w *selection) before(position int) int {
	return rows.SubsampledBefore(position-w.first, w.all, w.limit)
}

// missing reports whether having read so few examples is an error: a part of a source may have none.
func (w *selection) missing(examples int) bool { return examples == 0 && w.whole }
