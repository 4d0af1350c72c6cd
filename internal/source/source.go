// Package source opens the data of a calibration or comparison, datasets that run through a network or files of
// precomputed features, and records what is skipped.
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
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// MaxTuning is the most validation or OOD examples that are kept in memory for tuning. Larger sets are subsampled,
// spread evenly.
const MaxTuning = 50_000

// Set is an open source of features and logits: a dataset run through a network, or a file of
// precomputed features.
type Set struct {
	Name        string // "train", "val", …
	Spec        string
	Fingerprint string           // set by Identify
	Data        *dataset.Dataset // nil for precomputed features
	Config      featurize.StreamConfig
	IgnoredBy   []string // messages about skipped files

	file       file
	notes      *Notes
	multiLabel bool
	features   *dataset.Features  // nil for a dataset
	network    *featurize.Network // nil for precomputed features

	first []record // read by First; nil before
}

// record is an example, or the error of reading it.
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
	Columns             []string           // of tables that feed the only input together, see [dataset.Options]
	MaxBad              int                // records that may be skipped
	Cache               string             // folder that keeps features, "" for none
	Limit               int                // examples at most, spread evenly; 0 is all
	MultiLabel          bool               // labels are targets
	Kind                head.Kind          // whose labels are texts, or lists of tags
	Shard               rows.Shard         // the shard to read of each set
	IgnoreUnknownLabels bool               // treat labels that the model does not have as missing
	Synthetic           bool               // make synthetic OOD images from the sets' images
	Fingerprint         bool               // sets will be identified after they have been read
	Notes               *Notes
}

// Notes collects messages about skipped records and files, and passes on progress and a warning.
type Notes struct {
	Bad, Ignored []string
	Progress     func(stage, unit string, done, total int) // may be nil
	// Warn receives a warning for each set whose labels were guessed, and one if the features cache cannot be used. It
	// may be nil.
	Warn func(string)

	uncached bool // the features cache failed
}

// Step reports progress.
func (n *Notes) Step(stage, unit string, done, total int) {
	if n.Progress != nil {
		n.Progress(stage, unit, done, total)
	}
}

// cacheFailed warns that the features cache cannot be used. From then on nothing is stored in it, in any set.
func (n *Notes) cacheFailed(err error) {
	if !n.uncached {
		n.warn("%v: continuing without it", err)
	}
	n.uncached = true
}

func (n *Notes) warn(format string, args ...any) {
	if n.Warn != nil {
		n.Warn(fmt.Sprintf(format, args...))
	}
}

// Open opens a set under a name. classes is the number of classes that labels may name, 0 if
// unknown. Canceling ctx stops waiting for the first bytes of standard input.
func (o *Opener) Open(ctx context.Context, name, spec string, classes int, labelled bool) (*Set, error) {
	opts := dataset.Options{
		LabelClasses: o.Classes, Columns: o.Columns, Classes: classes, MultiLabel: o.MultiLabel,
		Texts: o.Kind == head.CTC, Tags: o.Kind == head.Tags, Unlabelled: !labelled,
		IgnoreUnknownLabels: o.IgnoreUnknownLabels, Shard: o.Shard, Fingerprint: o.Fingerprint,
	}
	s := &Set{
		Name: name, Spec: spec, notes: o.Notes, multiLabel: o.MultiLabel, network: o.Network,
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
	opts.Steps, opts.Streams = o.Network.HasSteps(), o.Network.Streams()
	opts.Inputs, opts.Widths = o.Network.InputNames(), o.Network.InputWidths()
	d, err := dataset.Open(ctx, spec, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if d.Len() < 0 {
		s.Config.Limit = 0 // cannot be spread over a stream; Keep bounds what is kept
	}
	s.file, s.Data = d, d
	if labelled && d.LabelledByOrder() {
		o.Notes.warn("%s: class folders are matched to classes by their order, since none has the name of a class: %s", name, numbered(d.Classes()))
	}
	s.Config.Synthetic = o.Synthetic
	for _, i := range d.Ignored() {
		s.IgnoredBy = append(s.IgnoredBy, fmt.Sprintf("%s: %d files skipped: %s, such as %s", name, i.Count, i.Reason, i.First))
	}
	if !o.Synthetic { // reported once, for the images
		o.Notes.Ignored = append(o.Notes.Ignored, s.IgnoredBy...)
	}
	s.Config.MaxBad = o.MaxBad
	if o.Cache != "" {
		s.Config.Cache = &featurize.Cache{Dir: o.Cache, Options: opts}
	}
	return s, nil
}

// numbered lists at most the first five names with their positions.
func numbered(names []string) string {
	var list []string
	for i, n := range names {
		if i == 5 {
			list = append(list, "…")
			break
		}
		list = append(list, fmt.Sprintf("%d is %s", i, text.Name(n)))
	}
	return strings.Join(list, ", ")
}

// OneStream refuses SPECs, by the names of their sets, if several are standard input.
func OneStream(specs map[string]string) error {
	var names []string
	for name, spec := range specs {
		if dataset.IsStream(spec) {
			names = append(names, name)
		}
	}
	if len(names) > 1 {
		slices.Sort(names)
		return fmt.Errorf("%s: standard input can be read only once: give files for all but one",
			strings.Join(names, " and "))
	}
	return nil
}

// HasTargets reports whether a file of precomputed features has the labels of a
// multi-label head: for each example a 0 or 1 for each of its logits.
func HasTargets(spec string) bool {
	f, err := dataset.OpenFeatures(spec, dataset.Options{MultiLabel: true})
	if err != nil {
		return false // Open reports the error
	}
	defer f.Close()
	return f.HasLabels() && f.Logits() > 1
}

// Close closes the file.
func (s *Set) Close() { s.file.Close() }

// Path returns the path of the file or folder.
func (s *Set) Path() string { return s.file.Path() }

// Use runs the examples through another network that takes the same inputs.
func (s *Set) Use(w *featurize.Network) { s.network = w }

// Size returns the number of examples, -1 for a stream.
func (s *Set) Size() int { return s.file.Len() }

// Slice returns the positions of all examples.
func (s *Set) Slice() (from, to int) { return s.file.Slice() }

// Range returns the positions of the shard.
func (s *Set) Range() (from, to int) { return s.file.Range() }

// Len returns how many examples of all shards are used.
func (s *Set) Len() int {
	if s.Config.Limit > 0 {
		return min(s.Size(), s.Config.Limit)
	}
	return s.Size()
}

// Wanted returns how many examples of the shard are read, -1 for a stream.
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

// How much First reads: firstExamples, rounded up to whole batches, or firstBytes.
const (
	firstExamples = 32
	firstBytes    = 64 << 20
)

// First yields the first examples of the set, whatever the shard, so that all shards agree on what they are.
// They are read once, not decoded, and used to find whether data are images, to check the head,
// and for the probe. Reading a stream later starts with them again. The errors are those of the dataset.
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
		to = min(to, from+most+s.Config.MaxBad) // short of the end, so that the stream can start again
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

// Pixels reports whether the examples are pixels, which preprocessing turns into the
// model's input. It looks at the first readable one: a set has only one kind.
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
	return false, nil // reading all of it will report why
}

// identity returns the fingerprint of a set from that of its data: synthetic images are other data.
func (s *Set) identity(data string) string {
	if !s.Config.Synthetic || data == "" {
		return data
	}
	sum := sha256.Sum256([]byte("synthetic_ood " + synthetic.Name + " " + data))
	return hex.EncodeToString(sum[:])
}

// CheckSynthetic reports why synthetic images cannot be made from a set: they need images that can be read twice. It
// looks at the first readable example.
func (s *Set) CheckSynthetic(ctx context.Context) error {
	why := ""
	switch {
	case s.Data == nil:
		why = "this dataset has precomputed features"
	case s.Size() < 0:
		why = "this dataset can be read only once"
	default:
		_, err := s.Pixels(ctx)
		if !errors.Is(err, synthetic.ErrNoImage) {
			return err
		}
		why = strings.TrimPrefix(err.Error(), s.Name+": ")
	}
	return fmt.Errorf("%s: %s: auto makes synthetic OOD images from images, and %s: give a dataset instead of auto", s.Name, s.Spec, why)
}

// Fits reports precomputed features with other dimensions than a head's; whose names the head in messages.
func (s *Set) Fits(h layer.Head, whose string) error {
	if s.Data != nil {
		return nil
	}
	if d, k := s.Widths(); d != h.Features || k != h.Logits {
		return fmt.Errorf("%s: %s has %d features and %d logits, %s %d and %d", s.Name, s.Spec, d, k, whose, h.Features, h.Logits)
	}
	return nil
}

// Identify computes the set's fingerprint, if it is unknown. That of a stream is known after it has been
// read.
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

// Stamp changes when the data change, see [dataset.Dataset]. It is "" if they have changed just
// now.
func (s *Set) Stamp() (string, error) {
	stamp, err := s.file.Stamp()
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	return stamp, nil
}

// IsRecorded reports whether an identified set is the data recorded in a bundle, whatever its
// SPEC. If these were read in shards, it identifies the same shards of the set, unless that is a stream.
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

// Shares says what two identified sets have in common, as far as known; "" is nothing.
func (s *Set) Shares(other *Set) string {
	// Empty shards of different folders have the same fingerprint.
	if from, to := s.Range(); s.Fingerprint == other.Fingerprint && from < to {
		return "are the same data"
	}
	if both := s.Overlap(other); both != "" {
		return "share " + both
	}
	return ""
}

// Overlap names the slice of a file or folder that two sets share, "" if there is none.
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

// Ignored counts the files that were skipped.
func (s *Set) Ignored() int {
	n := 0
	if s.Data != nil {
		for _, i := range s.Data.Ignored() {
			n += i.Count
		}
	}
	return n
}

// Batches yields the set's features and logits in order. They are finite, and the caller owns them. It ends after an
// error, which names the set.
func (s *Set) Batches(ctx context.Context) iter.Seq2[*rows.Batch, error] {
	return func(yield func(*rows.Batch, error) bool) {
		c := s.counting()
		defer s.note(c.Stats)
		var batches iter.Seq2[*rows.Batch, error]
		if s.features != nil {
			batches = featurize.Precomputed(ctx, s.features, c)
		} else {
			batches = s.network.Rows(ctx, s.Data, c)
		}
		for b, err := range batches {
			if err == nil {
				b.From = cmp.Or(b.From, filepath.Base(s.file.Path()))
				err = CheckFinite(b)
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

// Results is Batches for a fused network, whose results may not be finite. A batch of skipped records has N = 0.
func (s *Set) Results(ctx context.Context) iter.Seq2[featurize.Results, error] {
	return func(yield func(featurize.Results, error) bool) {
		c := s.counting()
		defer s.note(c.Stats)
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

// counting returns the configuration of a pass, with Stats, Progress and the state of the cache, and releases what
// First has read.
func (s *Set) counting() featurize.StreamConfig {
	s.first = nil
	c := s.Config
	c.Progress = func(done, total int) { s.notes.Step(s.Name, "examples", done, total) }
	if c.Stats == nil {
		c.Stats = &rows.Stats{}
	}
	if c.Cache != nil {
		cache := *c.Cache
		cache.ReadOnly, cache.Failed = s.notes.uncached, s.notes.cacheFailed
		c.Cache = &cache
	}
	return c
}

// note adds the skipped records to the notes.
func (s *Set) note(stats *rows.Stats) {
	for _, b := range stats.Bad {
		s.notes.Bad = append(s.notes.Bad, s.Name+": "+b.Message)
	}
}

// Fetch reads examples again, by their positions, as they were given to the network. It leaves out those that
// cannot be read any more, which are all of a stream and of precomputed features.
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

// CheckFinite returns an error for the first feature or logit that is NaN or infinite.
func CheckFinite(b *rows.Batch) error {
	for i := range b.N {
		d, k := len(b.Features)/b.N, len(b.Logits)/b.N
		err := CheckRow("feature", b.Features[i*d:(i+1)*d])
		if err == nil {
			err = CheckRow("logit", b.Logits[i*k:(i+1)*k])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name(i), err)
		}
	}
	return nil
}

// CheckRow returns an error for the first value of an example that is NaN or infinite. what names the values.
func CheckRow(what string, values []float32) error {
	for j, v := range values {
		if v-v != 0 { // NaN, for both
			return fmt.Errorf("%s %d is %v; want a finite number: is an input value missing, or the preprocessing wrong?", what, j, v)
		}
	}
	return nil
}

// Collect reads a whole set into memory.
func (s *Set) Collect(ctx context.Context) (*rows.Batch, error) {
	out := &rows.Batch{}
	s.Reserve(out)
	for b, err := range s.Batches(ctx) {
		if err == nil {
			err = s.Keep(out, b)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Reserve makes room for the set's examples in out.
func (s *Set) Reserve(out *rows.Batch) {
	features, logits := s.Widths()
	most := out.N + max(0, s.Wanted()) // unknown for a stream
	out.Features = slices.Grow(out.Features, most*features-len(out.Features))
	out.Logits = slices.Grow(out.Logits, most*logits-len(out.Logits))
}

// Keep appends a batch of the set to out, without names. It refuses more than MaxTuning examples of a stream;
// other sets are limited when they are read.
func (s *Set) Keep(out, b *rows.Batch) error {
	if !s.Labelled() || s.multiLabel {
		b.Labels = nil
	}
	b.Names = nil
	if s.Size() < 0 && out.N+b.N > MaxTuning {
		return fmt.Errorf("%s: %s: the stream has more than %d examples, and a stream cannot be subsampled: give fewer, or a file",
			s.Name, s.Spec, MaxTuning)
	}
	out.Append(b)
	return nil
}
