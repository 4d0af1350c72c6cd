package featurize

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/synthetic"
)

const (
	cacheExt   = ".rows"
	partialExt = ".partial"

	abandonedFor = 7 * 24 * time.Hour
)

// recipe returns the hash of what is done with the data.
func (c *Cache) recipe(w *Network, ds *dataset.Dataset, pass StreamConfig) (string, error) {
	want := pass.selects(ds)
	options, folders := c.Options, ds.FolderLabels()
	if folders != nil || options.Unlabelled { // class names decide no other label
		options.LabelClasses = nil
	}
	fields := map[string]any{
		"model": w.cut.model, "features": w.cut.features, "logits": w.cut.logits, "preprocess": w.Preprocess(),
		"batch": w.batch, "provider": w.cut.provider, "runtime": w.cut.runtime, "count": want.limit, "options": options,
	}
	if w.cut.kind != "" {
		fields["kind"] = w.cut.kind
	}
	if w.cut.decoding != nil {
		fields["decoding"] = w.cut.decoding
	}
	if w.cut.state != "" {
		fields["state"] = w.cut.state
	}
	if w.cut.fixed != "" {
		fields["fixed"] = w.cut.fixed
	}
	if folders != nil {
		fields["folders"] = folders
	}
	if pass.Synthetic {
		fields["synthetic_ood"] = synthetic.Name
	}
	if c.Options.Shard.Count > 0 {
		fields["of"] = want.all
	}
	id, err := json.Marshal(fields)
	sum := sha256.Sum256(id)
	return hex.EncodeToString(sum[:]), err
}

// name returns the name of the store of some data.
func (c *Cache) name(recipe, fingerprint string) string {
	return recipe[:32] + "-" + fingerprint[:32] + cacheExt
}

// cached yields the rows in c.Cache, which it fills first if it has none. It counts from nothing: the
// store has the records before c.From too.
func (w *Network) cached(ctx context.Context, ds *dataset.Dataset, c StreamConfig) iter.Seq2[*rows.Batch, error] {
	cache, from := c.Cache, c.From
	c.Cache, c.From = nil, 0 // stores are of whole shards
	s := caching{Cache: cache, network: w, ds: ds, c: c, count: c.selects(ds).count}
	return func(yield func(*rows.Batch, error) bool) {
		*c.Stats = rows.Stats{}
		for b, err := range s.batches(ctx) {
			if err == nil && b.Positions[b.N-1] < from {
				continue
			}
			if err == nil && b.Positions[0] < from {
				first, _ := slices.BinarySearch(b.Positions, from)
				b = b.Slice(first, b.N)
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// caching is a pass over a dataset with a cache.
type caching struct {
	*Cache
	network       *Network
	ds            *dataset.Dataset
	c             StreamConfig // for the whole shard, without Cache
	count         int          // its selected examples
	recipe, stamp string
}

// batches yields the rows of a store, or of the network.
func (s *caching) batches(ctx context.Context) iter.Seq2[*rows.Batch, error] {
	return func(yield func(*rows.Batch, error) bool) {
		store, f, err := s.lookUp(ctx)
		failed := errors.As(err, new(*cacheError))
		switch {
		case failed:
			s.failed(err)
			fallthrough
		case err == nil && store == nil && s.ReadOnly:
			s.network.computed(ctx, s.ds, s.c)(yield)
		case err != nil:
			yield(nil, err)
		case store == nil:
			s.fill(ctx, yield)
		default:
			defer f.Close()
			s.stored(ctx, store, yield)
		}
	}
}

// lookUp returns the store of these data and its file; nil if there is none that fits.
func (s *caching) lookUp(ctx context.Context) (store *rows.Store, f *os.File, err error) {
	if s.recipe, err = s.Cache.recipe(s.network, s.ds, s.c); err != nil {
		return nil, nil, err
	}
	if s.stamp, err = s.ds.Stamp(); err != nil {
		return nil, nil, err
	}
	if store, f, err = s.find(ctx, s.recipe, s.stamp, s.ds); err != nil || store == nil {
		return nil, nil, err
	}
	// A store made elsewhere may not be what its recipe says.
	if store.Labelled() != s.ds.HasLabels() || !s.fits(store) || store.Len()+len(store.Bad()) != s.count {
		return nil, nil, f.Close()
	}
	return store, f, nil
}

// fits reports whether a store has as many features and logits per example as the network.
func (s *caching) fits(store *rows.Store) bool {
	return store.Features() == s.network.cut.d && store.Logits() == s.network.cut.k
}

// stored yields the rows of a store, and reports whether more are wanted.
func (s *caching) stored(ctx context.Context, store *rows.Store, yield func(*rows.Batch, error) bool) bool {
	s.c.Stats.Cached = true
	s.c.Stats.Bad = slices.Clone(store.Bad())
	if most := s.c.MaxBad; len(store.Bad()) > most {
		s.c.Stats.Bad = s.c.Stats.Bad[:most+1]
		yield(nil, &TooManyBadError{Allowed: most, Bad: s.c.Stats.Messages()})
		return false
	}
	done, from := 0, filepath.Base(s.ds.Path())
	total := store.Len()
	if store.End() == nil {
		done, total = len(store.Bad()), s.count
	}
	for b, err := range store.Blocks(ctx) {
		if err != nil {
			yield(nil, err)
			return false
		}
		b.From = from
		s.c.Stats.Examples += b.N
		done += b.N
		if !yield(b, nil) {
			return false
		}
		s.c.report(done, total)
	}
	return true
}

// find returns the store of a recipe and the data, and its file; nil if there is none.
func (c *Cache) find(ctx context.Context, recipe, stamp string, ds *dataset.Dataset) (*rows.Store, *os.File, error) {
	entries, err := os.ReadDir(c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &cacheError{err}
	}
	some := false
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), recipe[:32]) || filepath.Ext(entry.Name()) != cacheExt {
			continue
		}
		some = true
		if stamp == "" {
			continue
		}
		store, f, err := c.open(entry.Name(),
			func(meta map[string]string) bool { return meta["recipe"] == recipe && meta["stamp"] == stamp })
		if store != nil {
			ds.Remember(store.Fingerprint())
		}
		if store != nil || err != nil {
			return store, f, err
		}
	}
	if !some {
		return nil, nil, nil
	}
	fingerprint, err := ds.Fingerprint(ctx)
	if err != nil {
		return nil, nil, err
	}
	store, f, err := c.open(c.name(recipe, fingerprint),
		func(meta map[string]string) bool { return meta["recipe"] == recipe })
	if store != nil && store.Fingerprint() != fingerprint {
		return nil, nil, f.Close()
	}
	return store, f, err
}

// open opens a store; it returns nil for a file that is not a complete store, or one that is not wanted.
func (c *Cache) open(name string, wanted func(metadata map[string]string) bool) (*rows.Store, *os.File, error) {
	f, err := files.Open(filepath.Join(c.Dir, name))
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*files.IrregularError)) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, &cacheError{err}
	}
	info, err := f.Stat()
	if err == nil {
		var meta map[string]string
		if meta, err = rows.Metadata(f, info.Size()); err == nil && wanted(meta) {
			var store *rows.Store
			if store, err = rows.Open(f, info.Size()); err == nil && store.End() != nil {
				return store, f, nil
			}
		}
	}
	f.Close()
	if err != nil && !errors.Is(err, rows.ErrStore) {
		return nil, nil, &cacheError{err}
	}
	return nil, nil, nil
}

// fill runs the network over the missing examples, and stores their rows.
func (s *caching) fill(ctx context.Context, yield func(*rows.Batch, error) bool) {
	to, err := s.begin()
	if err != nil {
		s.failed(&cacheError{err})
		s.network.computed(ctx, s.ds, s.c)(yield)
		return
	}
	err = errUnfinished
	defer func() { to.leave(err) }()
	if to.store != nil && !s.stored(ctx, to.store, yield) {
		return
	}
	if to.store == nil || to.store.End() == nil {
		for b, e := range s.missing(ctx, to) {
			if e != nil {
				err = e
			}
			if !yield(b, e) || e != nil {
				return
			}
		}
	}
	if err = s.finish(ctx, to); err != nil {
		yield(nil, err)
	}
}

// errUnfinished reports that the caller stopped early.
var errUnfinished = errors.New("not all examples were read")

// missing computes the rows that a store lacks, and adds them.
func (s *caching) missing(ctx context.Context, to *filling) iter.Seq2[*rows.Batch, error] {
	c := s.c
	if to.store != nil {
		c.From = to.store.Next()
		c.Stats.Cached = false
	}
	noted := len(c.Stats.Bad)
	return func(yield func(*rows.Batch, error) bool) {
		for b, err := range s.network.computed(ctx, s.ds, c) {
			if err == nil && !to.failed {
				noted = to.note(c.Stats.Bad, noted)
				if err := to.writer.Add(b); err != nil {
					s.abandon(to, err)
				}
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
		to.note(c.Stats.Bad, noted)
	}
}

// finish completes the store, if it is not complete yet, and gives it its name.
func (s *caching) finish(ctx context.Context, to *filling) error {
	if to.failed {
		return nil
	}
	var fingerprint string
	if to.store != nil && to.store.End() != nil {
		fingerprint = to.store.Fingerprint()
		s.ds.Remember(fingerprint)
	} else {
		var err error
		if fingerprint, err = s.ds.Fingerprint(ctx); err != nil {
			return err
		}
		if err := to.writer.End(rows.End{Fingerprint: fingerprint, Labelled: s.ds.HasLabels()}); err != nil {
			s.abandon(to, err)
			return nil
		}
	}
	if err := to.finish(s.name(s.recipe, fingerprint)); err != nil {
		s.abandon(to, err)
	}
	return nil
}

// abandon removes a store that cannot be written, since it may take the space that is missing.
func (s *caching) abandon(to *filling, err error) {
	failure := &cacheError{err}
	to.leave(failure)
	to.failed, to.leave = true, func(error) {}
	s.failed(failure)
}

// failed reports that the pass goes on without the folder.
func (s *caching) failed(err error) {
	if s.Failed != nil {
		s.Failed(err)
	}
}

// A cacheError reports that the folder cannot be read or written. The data and the network may be all right.
type cacheError struct{ err error }

func (e *cacheError) Error() string { return "features cache: " + e.err.Error() }
func (e *cacheError) Unwrap() error { return e.err }

// A filling is a store being written.
type filling struct {
	writer *rows.Writer
	store  *rows.Store             // what an earlier run has stored; nil for nothing
	finish func(name string) error // gives the store its name
	leave  func(err error)         // ends writing, successfully or because of err
	failed bool                    // it could not be written, and is no more
}

// note stores the bad records from an index on, and returns how many there are in all.
func (f *filling) note(bad []rows.Bad, from int) int {
	for _, b := range bad[from:] {
		f.writer.Bad(b)
	}
	return len(bad)
}

// begin continues the partial file of an earlier run with the same recipe and data, or begins a new
// one. If the data have just changed, or another process is writing the same file, the rows go to a
// temporary file that no later run can continue.
func (s *caching) begin() (*filling, error) {
	if err := os.MkdirAll(s.Dir, files.FolderMode); err != nil {
		return nil, err
	}
	files.Sweep(s.Dir)
	files.SweepGrowing(s.Dir, strings.Repeat("[0-9a-f]", 32)+"-"+strings.Repeat("[0-9a-f]", 32)+partialExt, abandonedFor)
	if s.stamp != "" {
		g, err := files.Grow(filepath.Join(s.Dir, s.recipe[:32]+"-"+s.stamp[:32]+partialExt))
		if err == nil {
			return s.grow(g)
		}
		if !errors.Is(err, files.ErrInUse) && !errors.As(err, new(*files.IrregularError)) {
			return nil, err
		}
	}
	draft, err := files.NewDraft(s.Dir)
	if err != nil {
		return nil, err
	}
	const unnamed = "store"
	f, err := draft.Create(unnamed)
	if err == nil {
		to := &filling{leave: func(error) { draft.Close() }}
		to.finish = func(name string) error {
			err := f.Close()
			if err == nil {
				err = os.Rename(draft.Path(unnamed), draft.Path(name))
			}
			if err == nil {
				err = draft.Move(name)
			}
			return err
		}
		if to.writer, err = rows.NewWriter(f, s.metadata()); err == nil {
			return to, nil
		}
	}
	draft.Close()
	return nil, err
}

func (s *caching) metadata() map[string]string {
	return map[string]string{"recipe": s.recipe, "stamp": s.stamp}
}

// grow continues a partial file, which outlives this process.
func (s *caching) grow(g *files.Growing) (to *filling, err error) {
	head := int64(0)
	to = &filling{finish: g.Move, leave: func(err error) {
		if err != nil && (g.Size() <= head || errors.As(err, new(*cacheError))) {
			g.Remove()
		} else {
			g.Close()
		}
	}}
	defer func() {
		if err != nil {
			to.leave(err)
		}
	}()
	store, err := rows.Open(g, g.Size())
	if err != nil && !errors.Is(err, rows.ErrStore) {
		return nil, err
	}
	if err == nil && store.Len() > 0 && s.fits(store) && store.Len()+len(store.Bad()) <= s.count &&
		store.Metadata()["recipe"] == s.recipe && store.Metadata()["stamp"] == s.stamp {
		to.store = store
		if store.End() == nil {
			err = g.Cut(store.Size())
			to.writer = store.Append(g)
		}
		return to, err
	}
	if err := g.Cut(0); err != nil {
		return nil, err
	}
	to.writer, err = rows.NewWriter(g, s.metadata())
	head = g.Size()
	return to, err
}
