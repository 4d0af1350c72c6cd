package wrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// readyBlock is how many ready-made examples are read at once.
const readyBlock = 512

// set is an open source of features and logits: a dataset run through the
// network, or a file of ready-made features.
type set struct {
	name     string // "train", "val", …
	spec     string
	data     *dataset.Dataset
	features *dataset.Features
	network  *network
	config   featurize.StreamConfig

	fingerprint string // set by identify
}

// opener opens sets for one head.
type opener struct {
	network *network // nil: sets are files of ready-made features
	classes []string // class names in label order, nil if unknown
	inputs  Inputs
	limit   int
	multi   bool // labels are targets, as a multi-label head wants them
	stray   bool // labels that are no classes of the model's are none
	notes   *notes
}

// notes gathers what a report tells of records and files passed over.
type notes struct {
	bad, ignored []string
	progress     func(Progress)
}

func (n *notes) step(stage, unit string, done, total int) {
	if n.progress != nil {
		n.progress(Progress{Stage: stage, Unit: unit, Done: done, Total: total})
	}
}

// open opens the set that has a part in the work under a name. classes is how
// many labels may tell apart, 0 if that is not known yet.
func (o *opener) open(name, spec string, classes int, labelled bool) (*set, error) {
	opts := dataset.Options{LabelClasses: o.classes, Classes: classes, Unlabelled: !labelled, StrayLabels: o.stray, MultiLabel: o.multi}
	s := &set{name: name, spec: spec, network: o.network}
	var err error
	if o.network == nil {
		if s.features, err = dataset.OpenFeatures(spec, opts); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.config.Limit = o.limit
		return s, nil
	}
	opts.Inputs, opts.Widths = o.network.InputNames(), o.network.InputWidths()
	if s.data, err = dataset.Open(spec, opts); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s.data.Len() == 0 {
		s.close()
		return nil, fmt.Errorf("%s: %s holds no examples", name, spec)
	}
	for _, i := range s.data.Ignored() {
		o.notes.ignored = append(o.notes.ignored, fmt.Sprintf("%s: %d files passed over: %s, such as %s", name, i.Count, i.Reason, i.First))
	}
	s.config = featurize.StreamConfig{Limit: o.limit, MaxBad: o.inputs.MaxBad}
	if o.inputs.Cache != "" {
		s.config.Cache = &featurize.Cache{Dir: o.inputs.Cache, Options: opts}
	}
	return s, nil
}

// hasTargets reports whether a file of ready-made features has the labels of a
// multi-label head: for each example a 0 or 1 for each of its logits.
func hasTargets(spec string) bool {
	f, err := dataset.OpenFeatures(spec, dataset.Options{MultiLabel: true})
	if err != nil {
		return false // what is wrong will show when it is opened
	}
	defer f.Close()
	return f.HasLabels() && f.Logits() > 1
}

func (s *set) close() {
	if s.data != nil {
		s.data.Close()
	}
	if s.features != nil {
		s.features.Close()
	}
}

// size returns how many examples there are, and len how many of them are used.
func (s *set) size() int {
	if s.data != nil {
		return s.data.Len()
	}
	return s.features.Len()
}

func (s *set) len() int {
	if s.config.Limit > 0 {
		return min(s.size(), s.config.Limit)
	}
	return s.size()
}

func (s *set) labelled() bool {
	if s.data != nil {
		return s.data.HasLabels()
	}
	return s.features.HasLabels()
}

// pixels reports whether the examples hold pixels, of which preprocessing makes the
// model's input, as the first that can be read tells: a source is all of one kind.
func (s *set) pixels(ctx context.Context) (bool, error) {
	var bad []string
	for example, err := range s.data.Examples(ctx) {
		if err == nil {
			err = example.Decode()
		}
		if e := (*dataset.RecordError)(nil); errors.As(err, &e) {
			if bad = append(bad, e.Error()); len(bad) <= s.config.MaxBad {
				continue
			}
			err = &featurize.TooManyBadError{Allowed: s.config.MaxBad, Bad: bad}
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", s.name, err)
		}
		pixels, err := s.network.Pixels(&example)
		if err != nil {
			return false, fmt.Errorf("%s: %s: %w", s.name, example.Name, err)
		}
		return pixels, nil
	}
	return false, nil // which reading all of it will tell
}

// identify reads all of the set for its fingerprint.
func (s *set) identify(ctx context.Context) error {
	var err error
	if s.data != nil {
		s.fingerprint, err = s.data.Fingerprint(ctx)
	} else {
		s.fingerprint, err = s.features.Fingerprint(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// source returns the file or folder of the set, and which of its examples it takes.
func (s *set) source() (path string, from, to int) {
	if s.data != nil {
		path = s.data.Path()
		from, to = s.data.Slice()
	} else {
		path = s.features.Path()
		from, to = s.features.Slice()
	}
	return path, from, to
}

// shares says what the set has in common with another, both identified: "" where
// nothing is known of.
func (s *set) shares(other *set) string {
	if s.fingerprint == other.fingerprint {
		return "are the same data"
	}
	path, from, to := s.source()
	otherPath, otherFrom, otherTo := other.source()
	from, to = max(from, otherFrom), min(to, otherTo)
	if from >= to || !sameFile(path, otherPath) {
		return ""
	}
	return fmt.Sprintf("share %s[%d:%d]", path, from, to)
}

func sameFile(a, b string) bool {
	fa, err := os.Stat(a)
	if err != nil {
		return false
	}
	fb, err := os.Stat(b)
	return err == nil && os.SameFile(fa, fb)
}

// ignored counts the files that were passed over.
func (s *set) ignored() int {
	n := 0
	if s.data != nil {
		for _, i := range s.data.Ignored() {
			n += i.Count
		}
	}
	return n
}

// stream yields the set's examples in order and returns how many there were,
// and how many were bad. All that is yielded is finite. Errors name the set,
// those of yield as well.
func (s *set) stream(ctx context.Context, h calibrate.Head, n *notes, yield func(*rows.Batch) error) (examples, bad int, err error) {
	checked := func(b *rows.Batch) error {
		if b.Names == nil { // ready-made, or from the cache
			path, _, _ := s.source()
			b.Names = make([]string, b.N)
			for i, p := range b.Positions {
				b.Names[i] = fmt.Sprintf("%s[%d]", filepath.Base(path), p)
			}
		}
		if err := checkFinite(h, b); err != nil {
			return err
		}
		return yield(b)
	}
	return s.count(n, func(c featurize.StreamConfig) (featurize.Stats, error) {
		if s.data == nil {
			examples, err := s.streamReady(ctx, n, checked)
			return featurize.Stats{Examples: examples}, err
		}
		return s.network.extractor.Stream(ctx, s.data, c, checked)
	})
}

// streamFused is stream for a fused network, whose results may not be finite.
func (s *set) streamFused(ctx context.Context, n *notes, yield func(featurize.Results, *rows.Batch) error) (examples, bad int, err error) {
	return s.count(n, func(c featurize.StreamConfig) (featurize.Stats, error) {
		return s.network.Stream(ctx, s.data, c, yield)
	})
}

// count runs a stream of the set and notes what it met.
func (s *set) count(n *notes, stream func(featurize.StreamConfig) (featurize.Stats, error)) (examples, bad int, err error) {
	c := s.config
	c.Progress = func(done, total int) { n.step(s.name, "examples", done, total) }
	stats, err := stream(c)
	for _, b := range stats.Bad {
		n.bad = append(n.bad, s.name+": "+b)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", s.name, err)
	}
	return stats.Examples, len(stats.Bad), nil
}

// streamReady streams a file of features. Like those of a dataset, fewer
// examples than all are spread evenly.
func (s *set) streamReady(ctx context.Context, n *notes, yield func(*rows.Batch) error) (int, error) {
	all, total := s.size(), s.len()
	seen, done := 0, 0
	n.step(s.name, "examples", 0, total)
	for b, err := range s.features.Blocks(ctx, readyBlock) {
		if err != nil {
			return done, err
		}
		var wanted []int
		for i := range b.N {
			at := seen
			seen++
			if at*total/all != (at+1)*total/all {
				wanted = append(wanted, i)
			}
		}
		if len(wanted) == 0 {
			continue
		}
		if len(wanted) < b.N {
			b = b.Pick(wanted)
		}
		if err := yield(b); err != nil {
			return done, err
		}
		done += b.N
		n.step(s.name, "examples", done, total)
	}
	if done == 0 {
		return 0, fmt.Errorf("%s holds no examples", s.spec)
	}
	return done, nil
}

// checkFinite reports the first feature or logit that is NaN or infinite.
func checkFinite(h calibrate.Head, b *rows.Batch) error {
	if err := checkColumn("feature", b.Features, h.Features, b.Name); err != nil {
		return err
	}
	return checkColumn("logit", b.Logits, h.Logits, b.Name)
}

// checkColumn reports the first of what the network made of examples, each so
// many numbers, that is NaN or infinite.
func checkColumn(what string, values []float32, each int, names func(i int) string) error {
	for j, v := range values {
		if v-v != 0 { // NaN, for both
			return fmt.Errorf("%s: %s %d is %v, want a finite number: does the preprocessing fit the model?", names(j/each), what, j%each, v)
		}
	}
	return nil
}

// collect reads a whole set into memory. Held-out sets are small; the training
// set is never collected.
func (s *set) collect(ctx context.Context, h calibrate.Head, n *notes) (*rows.Batch, int, error) {
	out := &rows.Batch{
		Features: make([]float32, 0, s.len()*h.Features),
		Logits:   make([]float32, 0, s.len()*h.Logits),
	}
	_, bad, err := s.stream(ctx, h, n, func(b *rows.Batch) error {
		if !s.labelled() || h.MultiLabel() {
			b.Labels = nil
		}
		b.Names = nil
		out.Append(b)
		return nil
	})
	return out, bad, err
}
