// Package source opens what examples are read from, datasets run through a network or files of
// precomputed features, and notes what is skipped on the way.
package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/synthetic"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// MaxTuning bounds the held-out examples of one set that are kept in memory for tuning two
// temperatures; from a larger set as many are taken, spread evenly.
const MaxTuning = 50_000

// Set is an open source of features and logits: a dataset run through a network, or a file of
// precomputed features.
type Set struct {
	Name        string // "train", "val", …
	Spec        string
	Fingerprint string           // known after Identify
	Data        *dataset.Dataset // nil for precomputed features
	Config      featurize.StreamConfig
	IgnoredBy   []string // what the report says of the files passed over

	file     file
	features *dataset.Features  // nil for a dataset
	network  *featurize.Network // nil for features

	first []record // what First has read; nil before
}

// record is an example, or why there is none.
type record struct {
	example dataset.Example
	err     error
}

// file is what datasets and files of features have in common.
type file interface {
	Len() int
	HasLabels() bool
	Path() string
	Slice() (from, to int)
	Range() (from, to int)
	Fingerprint(context.Context) (string, error)
	Stamp() (string, error)
	Close() error
}

// Opener opens sets for one head.
type Opener struct {
	Network             *featurize.Network // nil: sets are files of precomputed features
	Classes             []string           // class names in label order, nil if unknown
	MaxBad              int                // records that may be skipped
	Cache               string             // folder that keeps features, "" for none
	Limit               int                // examples at most, spread evenly; 0 is all
	MultiLabel          bool               // labels are targets
	Shard               rows.Shard         // what is read of each set
	IgnoreUnknownLabels bool               // labels that are no classes of the model's are none
	Synthetic           bool               // sets are synthetic OOD images made from theirs
	// Fingerprint says that sets will be identified after they have been streamed.
	Fingerprint bool
	Notes       *Notes
}

// Notes gathers what a report says of records and files passed over.
type Notes struct {
	Bad, Ignored []string
	Progress     func(stage, unit string, done, total int) // may be nil
}

// Step reports progress.
func (n *Notes) Step(stage, unit string, done, total int) {
	if n.Progress != nil {
		n.Progress(stage, unit, done, total)
	}
}

// Open opens the set that has a part in the work under a name. classes is how
// many classes labels may name, 0 if that is not known yet. The end of ctx ends the waiting for the first
// bytes of standard input.
func (o *Opener) Open(ctx context.Context, name, spec string, classes int, labelled bool) (*Set, error) {
	opts := dataset.Options{
		LabelClasses: o.Classes, Classes: classes, MultiLabel: o.MultiLabel, Unlabelled: !labelled,
		IgnoreUnknownLabels: o.IgnoreUnknownLabels, Shard: o.Shard, Fingerprint: o.Fingerprint,
	}
	s := &Set{
		Name: name, Spec: spec, network: o.Network,
		Config: featurize.StreamConfig{Limit: o.Limit},
	}
	if o.Network == nil {
		f, err := dataset.OpenFeatures(spec, opts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.file, s.features = f, f
		return s, nil
	}
	opts.Inputs, opts.Widths = o.Network.InputNames(), o.Network.InputWidths()
	d, err := dataset.Open(ctx, spec, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if d.Len() == 0 {
		d.Close()
		return nil, fmt.Errorf("%s: %s holds no examples", name, spec)
	}
	if d.Len() < 0 {
		s.Config.Limit = 0 // which could not be spread; Collect bounds what is kept
	}
	s.file, s.Data = d, d
	s.Config.Synthetic = o.Synthetic
	for _, i := range d.Ignored() {
		s.IgnoredBy = append(s.IgnoredBy, fmt.Sprintf("%s: %d files passed over: %s, such as %s", name, i.Count, i.Reason, i.First))
	}
	o.Notes.Ignored = append(o.Notes.Ignored, s.IgnoredBy...)
	s.Config.MaxBad = o.MaxBad
	if o.Cache != "" {
		s.Config.Cache = &featurize.Cache{Dir: o.Cache, Options: opts}
	}
	return s, nil
}

// OneStream refuses SPECs, by the names of their sets, of which several are standard input.
func OneStream(specs map[string]string) error {
	var names []string
	for name, spec := range specs {
		if dataset.IsStream(spec) {
			names = append(names, name)
		}
	}
	if len(names) > 1 {
		slices.Sort(names)
		return fmt.Errorf("%s: standard input cannot be all of them, as it is read once: give files for all but one",
			strings.Join(names, " and "))
	}
	return nil
}

// HasTargets reports whether a file of precomputed features has the labels of a
// multi-label head: for each example a 0 or 1 for each of its logits.
func HasTargets(spec string) bool {
	f, err := dataset.OpenFeatures(spec, dataset.Options{MultiLabel: true})
	if err != nil {
		return false // what is wrong will show when it is opened
	}
	defer f.Close()
	return f.HasLabels() && f.Logits() > 1
}

// Close closes the file.
func (s *Set) Close() { s.file.Close() }

// Path returns the path of the file or folder.
func (s *Set) Path() string { return s.file.Path() }

// Size returns how many examples there are, -1 of a stream, and Len how many of them are used.
func (s *Set) Size() int { return s.file.Len() }

// Slice returns the positions of the examples there are, and Range those of the shard that is read.
func (s *Set) Slice() (from, to int) { return s.file.Slice() }
func (s *Set) Range() (from, to int) { return s.file.Range() }

// Len returns how many examples are used, of all shards.
func (s *Set) Len() int {
	if s.Config.Limit > 0 {
		return min(s.Size(), s.Config.Limit)
	}
	return s.Size()
}

// Wanted returns how many examples are read, of the shard: -1 of a stream.
func (s *Set) Wanted() int { return s.Config.Count(s.file) }

// Labelled reports whether the examples have labels, or targets.
func (s *Set) Labelled() bool { return s.file.HasLabels() }

// Widths returns how many features and logits an example has.
func (s *Set) Widths() (features, logits int) {
	if s.features != nil {
		return s.features.Dim(), s.features.Logits()
	}
	return s.network.FeatureDim(), s.network.Logits()
}

// How much is read ahead of the pass over a set: so many examples, in whole batches, or so many bytes.
const (
	firstExamples = 32
	firstBytes    = 64 << 20
)

// First gives the first examples of the set's slice, whatever the shard: all shards are to find the same.
// They are read once, and not decoded yet: by them it is found what they are, a head is proven on them,
// and a bundle keeps some. What is read of a stream comes again. The errors are those of the dataset.
func (s *Set) First(ctx context.Context) iter.Seq2[dataset.Example, error] {
	return func(yield func(dataset.Example, error) bool) {
		if s.first == nil {
			s.first = s.readFirst(ctx)
		}
		if cause := context.Cause(ctx); cause != nil {
			s.first = nil
			yield(dataset.Example{}, cause)
			return
		}
		for _, r := range s.first {
			if !yield(r.example, r.err) {
				return
			}
		}
	}
}

func (s *Set) readFirst(ctx context.Context) []record {
	batch := s.network.Batch()
	most := (firstExamples + batch - 1) / batch * batch
	from, to := s.Data.Slice()
	if s.Size() < 0 {
		from, to = s.Data.Range()
		to = min(to, from+most+s.Config.MaxBad) // short of the end, so that the stream begins anew
	}
	list, good, size := []record{}, 0, 0
	for example, err := range s.Data.Between(ctx, from, to) {
		list = append(list, record{example, err})
		if err == nil {
			good++
			size += example.Bytes()
		}
		if good == most || size >= firstBytes || len(list)-good > s.Config.MaxBad {
			break
		}
	}
	return list
}

// Pixels reports whether the examples hold pixels, of which preprocessing makes the
// model's input, as the first that can be read tells: a source is all of one kind.
func (s *Set) Pixels(ctx context.Context) (bool, error) {
	var bad []string
	for example, err := range s.First(ctx) {
		if err == nil && s.Config.Synthetic {
			err = synthetic.Replace(&example)
		} else if err == nil {
			err = example.Decode()
		}
		if e := (*dataset.RecordError)(nil); errors.As(err, &e) {
			if bad = append(bad, e.Error()); len(bad) <= s.Config.MaxBad {
				continue
			}
			err = &featurize.TooManyBadError{Allowed: s.Config.MaxBad, Bad: bad}
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", s.Name, err)
		}
		pixels, err := s.network.Pixels(&example)
		if err != nil {
			return false, fmt.Errorf("%s: %s: %w", s.Name, example.Name, err)
		}
		return pixels, nil
	}
	return false, nil // reading all of it will show why
}

// identity is the fingerprint of the set whose data have one: stand-ins for images are other data.
func (s *Set) identity(data string) string {
	if !s.Config.Synthetic || data == "" {
		return data
	}
	sum := sha256.Sum256([]byte("stand-ins " + synthetic.Name + " " + data))
	return hex.EncodeToString(sum[:])
}

// CheckSynthetic reports a set of which no stand-ins can be made, as the first example that can be read
// tells: they are made of images, which are read once more.
func (s *Set) CheckSynthetic(ctx context.Context) error {
	why := ""
	switch {
	case s.Data == nil:
		why = "it holds ready-made features"
	case s.Size() < 0:
		why = "it can be read only once"
	default:
		_, err := s.Pixels(ctx)
		if !errors.Is(err, synthetic.ErrNoImage) {
			return err
		}
		why = strings.TrimPrefix(err.Error(), s.Name+": ")
	}
	return fmt.Errorf("%s: %s: stand-ins are made of images, and %s: give data in place of auto", s.Name, s.Spec, why)
}

// Fits reports precomputed features that are not those of a head; whose says in messages whose it
// is.
func (s *Set) Fits(h layer.Head, whose string) error {
	if s.Data != nil {
		return nil
	}
	if d, k := s.Widths(); d != h.Features || k != h.Logits {
		return fmt.Errorf("%s: %s has %d features and %d logits, %s %d and %d", s.Name, s.Spec, d, k, whose, h.Features, h.Logits)
	}
	return nil
}

// Identify finds the set's fingerprint, if it is not known yet. That of a stream is when it has been
// streamed.
func (s *Set) Identify(ctx context.Context) (err error) {
	if s.Fingerprint != "" {
		return nil
	}
	data, err := s.file.Fingerprint(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	s.Fingerprint = s.identity(data)
	return nil
}

// Stamp is what tells that the data have not changed, see [dataset.Dataset]; "" where they have just
// now.
func (s *Set) Stamp() (string, error) {
	stamp, err := s.file.Stamp()
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	return stamp, nil
}

// IsRecorded reports whether a set, which is identified, is the data that a bundle names, whatever its
// SPEC. Where these were read in parts, the set is cut as they were; a stream cannot be.
func (o *Opener) IsRecorded(ctx context.Context, s *Set, classes int, d *bundle.Dataset) (bool, error) {
	if len(d.Parts) == 0 || s.Size() < 0 {
		return d.Fingerprint == s.Fingerprint, nil
	}
	for _, p := range d.Parts {
		of := *o
		of.Shard, of.Notes = p.Shard, &Notes{}
		shard, err := of.Open(ctx, s.Name, s.Spec, classes, s.Labelled())
		if err != nil {
			return false, err
		}
		err = shard.Identify(ctx)
		shard.Close()
		if err != nil || shard.Fingerprint != p.Fingerprint {
			return false, err
		}
	}
	s.Fingerprint = d.Fingerprint
	return true, nil
}

// Shares says what the set has in common with another, both identified: "" where
// nothing is known of.
func (s *Set) Shares(other *Set) string {
	if s.Fingerprint == other.Fingerprint {
		return "are the same data"
	}
	if both := s.Overlap(other); both != "" {
		return "share " + both
	}
	return ""
}

// Overlap names the slice of a file or folder that is in two sets, "" if there is none.
func (s *Set) Overlap(other *Set) string {
	from, to := s.file.Slice()
	otherFrom, otherTo := other.file.Slice()
	from, to = max(from, otherFrom), min(to, otherTo)
	if from >= to || !sameFile(s.file.Path(), other.file.Path()) {
		return ""
	}
	return fmt.Sprintf("%s[%d:%d]", s.file.Path(), from, to)
}

func sameFile(a, b string) bool {
	fa, err := os.Stat(a)
	if err != nil {
		return false
	}
	fb, err := os.Stat(b)
	return err == nil && os.SameFile(fa, fb)
}

// Ignored counts the files that were passed over.
func (s *Set) Ignored() int {
	n := 0
	if s.Data != nil {
		for _, i := range s.Data.Ignored() {
			n += i.Count
		}
	}
	return n
}

// Batches runs over the set's examples in order. All that it gives is finite, and whoever takes a batch
// owns it. An error, which names the set, is the last.
func (s *Set) Batches(ctx context.Context, h layer.Head, n *Notes) iter.Seq2[*rows.Batch, error] {
	return func(yield func(*rows.Batch, error) bool) {
		c := s.counting(n)
		defer s.note(n, c.Stats)
		var batches iter.Seq2[*rows.Batch, error]
		if s.features != nil {
			batches = featurize.Precomputed(ctx, s.features, c)
		} else {
			batches = s.network.Rows(ctx, s.Data, c)
		}
		for b, err := range batches {
			if err == nil {
				b.From = cmp.Or(b.From, filepath.Base(s.file.Path()))
				err = CheckFinite(h, b)
			}
			if err != nil {
				yield(nil, fmt.Errorf("%s: %w", s.Name, err))
				return
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// Results is Batches for a fused network, whose results may not be finite.
func (s *Set) Results(ctx context.Context, n *Notes) iter.Seq2[featurize.Results, error] {
	return func(yield func(featurize.Results, error) bool) {
		c := s.counting(n)
		defer s.note(n, c.Stats)
		for r, err := range s.network.Results(ctx, s.Data, c) {
			if err != nil {
				err = fmt.Errorf("%s: %w", s.Name, err)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// counting returns how the set is read, with something to count with, and forgets what was read ahead.
func (s *Set) counting(n *Notes) featurize.StreamConfig {
	s.first = nil
	c := s.Config
	c.Progress = func(done, total int) { n.Step(s.Name, "examples", done, total) }
	if c.Stats == nil {
		c.Stats = &rows.Stats{}
	}
	return c
}

// note notes the records that were skipped.
func (s *Set) note(n *Notes, met *rows.Stats) {
	for _, b := range met.Bad {
		n.Bad = append(n.Bad, s.Name+": "+b.Message)
	}
}

// Fetch reads some of the examples once more, by their positions, as Stream gave them to the network.
// Those that cannot be read any more are left out, and all of a set without data, or that can be read
// only once.
func (s *Set) Fetch(ctx context.Context, positions []int) (map[int]*dataset.Example, error) {
	fetched := map[int]*dataset.Example{}
	if s.Data == nil || s.Size() < 0 {
		return fetched, nil
	}
	for _, at := range slices.Sorted(slices.Values(positions)) {
		for example, err := range s.Data.Between(ctx, at, at+1) {
			if err == nil && s.Config.Synthetic {
				err = synthetic.Replace(&example)
			}
			if err == nil {
				fetched[at] = &example
			} else if cause := context.Cause(ctx); cause != nil {
				return nil, cause
			}
		}
	}
	return fetched, nil
}

// CheckFinite reports the first feature or logit that is NaN or infinite.
func CheckFinite(h layer.Head, b *rows.Batch) error {
	if err := CheckColumn("feature", b.Features, h.Features, b.Name); err != nil {
		return err
	}
	return CheckColumn("logit", b.Logits, h.Logits, b.Name)
}

// CheckColumn reports the first of what the network made of examples, each so
// many numbers, that is NaN or infinite.
func CheckColumn(what string, values []float32, each int, name func(i int) string) error {
	for j, v := range values {
		if v-v != 0 { // NaN, for both
			return fmt.Errorf("%s: %s %d is %v, want a finite number: does the preprocessing fit the model?", name(j/each), what, j%each, v)
		}
	}
	return nil
}

// Collect reads a whole set into memory.
func (s *Set) Collect(ctx context.Context, h layer.Head, n *Notes) (*rows.Batch, error) {
	out := &rows.Batch{}
	s.Reserve(out, h)
	for b, err := range s.Batches(ctx, h, n) {
		if err == nil {
			err = s.Keep(out, h, b)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Reserve makes room for the set's examples behind those that are in memory already.
func (s *Set) Reserve(out *rows.Batch, h layer.Head) {
	most := out.N + max(0, s.Wanted()) // a stream does not say
	out.Features = slices.Grow(out.Features, most*h.Features-len(out.Features))
	out.Logits = slices.Grow(out.Logits, most*h.Logits-len(out.Logits))
}

// Keep adds a batch of the set to what is in memory, without names. Of a stream it refuses more than
// MaxTuning examples; of other sets the limit says how many are read.
func (s *Set) Keep(out *rows.Batch, h layer.Head, b *rows.Batch) error {
	if !s.Labelled() || h.MultiLabel() {
		b.Labels = nil
	}
	b.Names = nil
	if s.Size() < 0 && out.N+b.N > MaxTuning {
		return fmt.Errorf("%s: %s: more than %d examples come, and which of them to tune on cannot be spread over a stream: give fewer, or a file",
			s.Name, s.Spec, MaxTuning)
	}
	out.Append(b)
	return nil
}
