package featurize

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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

// Cache keeps what a network made of whole datasets in a folder: a store (see package rows) of each
// in a file RECIPE-DATA.rows. RECIPE is a hash of all but the data that determines features and
// labels: model with all its weights, head, preprocessing, options of the dataset and which shard,
// how many examples, batch size, provider and version of the runtime. DATA is from the data's
// fingerprint.
//
// The fingerprint is taken in the pass that computes the features. Data whose files have the paths,
// sizes and times of change that are noted in a store are not read again; others are, if there are
// stores of the same recipe.
//
// A file that is no store, or not as it was written, is taken for missing and written anew. Many
// programs may use one folder at a time.
//
// What a run has written that came to no end lies in RECIPE-STAMP.partial, where STAMP is from paths,
// sizes and times of change of the data, and the next run with the same goes on from there: the
// network runs over what is missing. One that nobody went on with for a week is removed.
type Cache struct {
	Dir string
	// Options are those the datasets were opened with: they decide about labels.
	Options dataset.Options
}

const (
	cacheExt   = ".rows"
	partialExt = ".partial"

	abandonedFor = 7 * 24 * time.Hour
)

// recipe identifies what is done with the data.
func (c *Cache) recipe(w *Network, ds *dataset.Dataset, want selection) (string, error) {
	options, folders := c.Options, ds.FolderLabels()
	if folders != nil || options.Unlabelled { // class names decide no other label
		options.LabelClasses = nil
	}
	fields := map[string]any{
		"model": w.cut.model, "features": w.cut.features, "logits": w.cut.logits, "preprocess": w.Preprocess(),
		"batch": w.batch, "provider": w.cut.provider, "runtime": w.cut.runtime, "count": want.limit, "options": options,
	}
	if folders != nil {
		fields["folders"] = folders
	}
	if want.synthetic {
		fields["stand-ins"] = synthetic.Name
	}
	if c.Options.Shard.Count > 0 {
		fields["of"] = want.all
	}
	id, err := json.Marshal(fields)
	sum := sha256.Sum256(id)
	return hex.EncodeToString(sum[:]), err
}

// name is that of the store of some data.
func (c *Cache) name(recipe, fingerprint string) string {
	return recipe[:32] + "-" + fingerprint[:32] + cacheExt
}

// cached is Rows with the rows of c.Cache, which it fills where it has none. It counts anew what an
// earlier pass has met: the store has all of it.
func (w *Network) cached(ctx context.Context, ds *dataset.Dataset, c StreamConfig) iter.Seq2[*rows.Batch, error] {
	cache, from := c.Cache, c.From
	c.Cache, c.From = nil, 0 // stores are of whole shards
	s := caching{Cache: cache, network: w, ds: ds, c: c, want: c.selects(ds)}
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

// caching is a pass with a cache.
type caching struct {
	*Cache
	network       *Network
	ds            *dataset.Dataset
	c             StreamConfig // of the pass over all of the data
	want          selection
	recipe, stamp string
}

// batches reads the store, or fills one.
func (s *caching) batches(ctx context.Context) iter.Seq2[*rows.Batch, error] {
	return func(yield func(*rows.Batch, error) bool) {
		store, f, err := s.lookUp(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		if store == nil {
			s.fill(ctx, yield)
			return
		}
		defer f.Close()
		s.stored(ctx, store, yield)
	}
}

// lookUp returns the store of these data, with its file; nil where there is none that fits.
func (s *caching) lookUp(ctx context.Context) (store *rows.Store, f *os.File, err error) {
	if s.recipe, err = s.Cache.recipe(s.network, s.ds, s.want); err != nil {
		return nil, nil, err
	}
	if s.stamp, err = s.ds.Stamp(); err != nil {
		return nil, nil, err
	}
	if store, f, err = s.find(ctx, s.recipe, s.stamp, s.ds); err != nil || store == nil {
		return nil, nil, err
	}
	// What the recipe says of a store made elsewhere need not be true.
	if store.Labelled() != s.ds.HasLabels() || !s.fits(store) || store.Len()+len(store.Bad()) != s.want.count {
		return nil, nil, f.Close()
	}
	return store, f, nil
}

// fits reports whether a store's examples have features and logits of the network's.
func (s *caching) fits(store *rows.Store) bool {
	return store.Features() == s.network.cut.d && store.Logits() == s.network.cut.k
}

// stored yields what a store has, and reports whether there is to be more.
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
		done, total = len(store.Bad()), s.want.count
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

// find returns the store of a recipe and the data, with its file, or nil where there is none.
func (c *Cache) find(ctx context.Context, recipe, stamp string, ds *dataset.Dataset) (*rows.Store, *os.File, error) {
	entries, err := os.ReadDir(c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("features cache: %w", err)
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

// open opens a store, or returns nil for what is not one as was wanted.
func (c *Cache) open(name string, wanted func(metadata map[string]string) bool) (*rows.Store, *os.File, error) {
	f, err := files.Open(filepath.Join(c.Dir, name))
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*files.IrregularError)) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("features cache: %w", err)
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
		return nil, nil, fmt.Errorf("features cache: %w", err)
	}
	return nil, nil, nil
}

// fill runs the network over what is missing, and stores what it gives.
func (s *caching) fill(ctx context.Context, yield func(*rows.Batch, error) bool) {
	to, err := s.begin()
	if err != nil {
		yield(nil, cacheError(err))
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

// errUnfinished says that nobody wanted the rest of what is stored.
var errUnfinished = errors.New("not all examples were wanted")

// missing computes what a store lacks, and adds it.
func (s *caching) missing(ctx context.Context, to *filling) iter.Seq2[*rows.Batch, error] {
	c := s.c
	if to.store != nil {
		c.From = to.store.Next()
		c.Stats.Cached = false
	}
	told := len(c.Stats.Bad)
	return func(yield func(*rows.Batch, error) bool) {
		for b, err := range s.network.computed(ctx, s.ds, c) {
			if err == nil {
				told = to.tell(c.Stats.Bad, told)
				err = to.add(b)
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
		to.tell(c.Stats.Bad, told)
	}
}

// finish makes the store complete, unless it is all but its name, and gives it that.
func (s *caching) finish(ctx context.Context, to *filling) error {
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
			return &writeError{cacheError(err)}
		}
	}
	if err := to.finish(s.name(s.recipe, fingerprint)); err != nil {
		return &writeError{cacheError(err)}
	}
	return nil
}

func cacheError(err error) error { return fmt.Errorf("features cache: %w", err) }

// A writeError says that a store cannot be written: what there is of it takes the room that may be
// missing.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }

// A filling is a store that is written.
type filling struct {
	writer *rows.Writer
	store  *rows.Store             // what there is already; nil where there is nothing
	finish func(name string) error // gives the store its name
	leave  func(err error)         // ends writing, for an error or without one
}

// tell tells the writer of the records that could not be read from the one of an index on, and returns
// how many there are.
func (f *filling) tell(bad []rows.Bad, from int) int {
	for _, b := range bad[from:] {
		f.writer.Bad(b)
	}
	return len(bad)
}

// add stores examples.
func (f *filling) add(b *rows.Batch) error {
	if err := f.writer.Add(b); err != nil {
		return &writeError{cacheError(err)}
	}
	return nil
}

// begin goes on with what an earlier run of the same recipe has left of the same data, or begins
// anew. Where the data have changed just now, or another process does the same, nobody can go on
// with what this one leaves.
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

// grow writes to a file that outlives this process, and goes on with what it holds.
func (s *caching) grow(g *files.Growing) (to *filling, err error) {
	head := int64(0)
	to = &filling{finish: g.Move, leave: func(err error) {
		if err != nil && (g.Size() <= head || errors.As(err, new(*writeError))) {
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
	if err == nil && store.Len() > 0 && s.fits(store) && store.Len()+len(store.Bad()) <= s.want.count &&
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
