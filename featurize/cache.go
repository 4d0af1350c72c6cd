package featurize

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/standin"
	"github.com/mfgs/mfgs/internal/files"
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
func (c *Cache) recipe(e *Extractor, ds *dataset.Dataset, want selection) (string, error) {
	options, folders := c.Options, ds.FolderLabels()
	if folders != nil || options.Unlabelled { // class names decide no other label
		options.LabelClasses = nil
	}
	fields := map[string]any{
		"model": e.model, "features": e.features, "logits": e.logits, "preprocess": e.Preprocess(),
		"batch": e.batch, "provider": e.provider, "runtime": e.runtime, "count": want.limit, "options": options,
	}
	if folders != nil {
		fields["folders"] = folders
	}
	if want.standIns {
		fields["stand-ins"] = standin.Name
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

// streamCached is Stream with the rows of the cache, which it fills where it has none. It returns
// the fingerprint of the data, too. Of an earlier stream it needs nothing: a store knows.
func (e *Extractor) streamCached(ctx context.Context, ds *dataset.Dataset, c StreamConfig,
	yield func(*rows.Batch) error) (rows.Stats, string, error) {
	s := caching{Cache: c.Cache, e: e, ds: ds, c: c, yield: yield}
	s.c.Cache, s.c.From, s.c.Before = nil, 0, rows.Stats{}
	s.want = s.c.selects(ds)
	if s.want.narrow { // stores are of whole shards
		c.Cache = nil
		stats, err := e.Stream(ctx, ds, c, yield)
		fingerprint := ""
		if err == nil {
			fingerprint, err = ds.Fingerprint(ctx)
		}
		return stats, fingerprint, err
	}
	if c.From > s.want.from {
		s.yield = func(b *rows.Batch) error {
			if b.Positions[b.N-1] < c.From {
				return nil
			}
			first, _ := slices.BinarySearch(b.Positions, c.From)
			return yield(b.Slice(first, b.N))
		}
	}
	var err error
	if s.recipe, err = s.Cache.recipe(e, ds, s.want); err != nil {
		return rows.Stats{}, "", err
	}
	if s.stamp, err = ds.Stamp(); err != nil {
		return rows.Stats{}, "", err
	}
	store, f, err := s.find(ctx, s.recipe, s.stamp, ds)
	if err != nil {
		return rows.Stats{}, "", err
	}
	// What the recipe says of a store made elsewhere need not be true.
	if store != nil && (store.Labelled() != ds.HasLabels() || !s.fits(store) ||
		store.Len()+len(store.Bad()) != s.want.count) {
		f.Close()
		store = nil
	}
	if store == nil {
		return s.fill(ctx)
	}
	defer f.Close()
	stats, err := s.stored(ctx, store)
	return stats, store.Fingerprint(), err
}

// caching is a stream with a cache.
type caching struct {
	*Cache
	e             *Extractor
	ds            *dataset.Dataset
	c             StreamConfig
	want          selection
	yield         func(*rows.Batch) error
	recipe, stamp string
}

// fits reports whether a store's examples have features and logits of the network's.
func (s *caching) fits(store *rows.Store) bool {
	return store.Features() == s.e.d && store.Logits() == s.e.k
}

// stored yields what a store has.
func (s *caching) stored(ctx context.Context, store *rows.Store) (rows.Stats, error) {
	bad := make([]string, len(store.Bad()))
	for i, b := range store.Bad() {
		bad[i] = b.Message
		if i >= s.c.MaxBad {
			return rows.Stats{Bad: bad[:i+1]}, &TooManyBadError{Allowed: s.c.MaxBad, Bad: bad[:i+1]}
		}
		if s.c.Bad != nil {
			s.c.Bad(b)
		}
	}
	done, from := 0, filepath.Base(s.ds.Path())
	total := store.Len()
	if store.End() == nil {
		done, total = len(bad), s.want.count
	}
	return store.Stream(ctx, func(b *rows.Batch) error {
		b.From = from
		done += b.N
		if err := s.yield(b); err != nil {
			return err
		}
		s.c.report(done, total)
		return nil
	})
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
func (s *caching) fill(ctx context.Context) (stats rows.Stats, fingerprint string, err error) {
	if err := os.MkdirAll(s.Dir, files.FolderMode); err != nil {
		return stats, "", cacheError(err)
	}
	files.Sweep(s.Dir)
	files.SweepGrowing(s.Dir, strings.Repeat("[0-9a-f]", 32)+"-"+strings.Repeat("[0-9a-f]", 32)+partialExt, abandonedFor)
	to, err := s.begin()
	if err != nil {
		return stats, "", cacheError(err)
	}
	defer func() { to.leave(err) }()
	c, w := s.c, to.writer
	if to.store != nil {
		if stats, err = s.stored(ctx, to.store); err != nil {
			return stats, "", err
		}
		if to.store.End() != nil { // all but its name
			fingerprint = to.store.Fingerprint()
			if err = to.finish(s.name(s.recipe, fingerprint)); err != nil {
				return stats, "", &writeError{cacheError(err)}
			}
			s.ds.Remember(fingerprint)
			return stats, fingerprint, nil
		}
		c.From, c.Before = to.store.Next(), stats
	}
	c.Bad = func(b rows.Bad) {
		w.Bad(b)
		if s.c.Bad != nil {
			s.c.Bad(b)
		}
	}
	stats, err = s.e.Stream(ctx, s.ds, c, func(b *rows.Batch) error {
		if err := w.Add(b); err != nil {
			return &writeError{cacheError(err)}
		}
		return s.yield(b)
	})
	if err != nil {
		return stats, "", err
	}
	if fingerprint, err = s.ds.Fingerprint(ctx); err != nil {
		return stats, "", err
	}
	if err = w.End(rows.End{Fingerprint: fingerprint, Labelled: s.ds.HasLabels()}); err == nil {
		err = to.finish(s.name(s.recipe, fingerprint))
	}
	if err != nil {
		return stats, "", &writeError{cacheError(err)}
	}
	return stats, fingerprint, nil
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

// begin goes on with what an earlier run of the same recipe has left of the same data, or begins
// anew. Where the data have changed just now, or another process does the same, nobody can go on
// with what this one leaves.
func (s *caching) begin() (*filling, error) {
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
