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
	"strings"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/files"
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
type Cache struct {
	Dir string
	// Options are those the datasets were opened with: they decide about labels.
	Options dataset.Options
}

const cacheExt = ".rows"

// recipe identifies what is done with the data.
func (c *Cache) recipe(e *Extractor, want selection) (string, error) {
	fields := map[string]any{
		"model": e.model, "features": e.features, "logits": e.logits, "preprocess": e.Preprocess(),
		"batch": e.batch, "provider": e.provider, "runtime": e.runtime, "count": want.limit, "options": c.Options,
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
// the fingerprint of the data, too.
func (e *Extractor) streamCached(ctx context.Context, ds *dataset.Dataset, c StreamConfig,
	yield func(*rows.Batch) error) (rows.Stats, string, error) {
	cache := c.Cache
	c.Cache = nil
	want := c.selects(ds)
	if want.narrow { // stores are of whole shards
		stats, err := e.Stream(ctx, ds, c, yield)
		fingerprint := ""
		if err == nil {
			fingerprint, err = ds.Fingerprint(ctx)
		}
		return stats, fingerprint, err
	}
	recipe, err := cache.recipe(e, want)
	if err != nil {
		return rows.Stats{}, "", err
	}
	stamp, err := ds.Stamp()
	if err != nil {
		return rows.Stats{}, "", err
	}
	store, f, err := cache.find(ctx, recipe, stamp, ds)
	if err != nil {
		return rows.Stats{}, "", err
	}
	// What the recipe says of a store made elsewhere need not be true.
	if store != nil && (store.Features() != e.d || store.Logits() != e.k || store.Labelled() != ds.HasLabels() ||
		store.Len()+len(store.End().Bad) != want.count) {
		f.Close()
		store = nil
	}
	if store == nil {
		return e.fill(ctx, ds, c, cache, recipe, stamp, yield)
	}
	defer f.Close()
	bad := store.End().Bad
	if len(bad) > c.MaxBad {
		return rows.Stats{Bad: bad}, "", &TooManyBadError{Allowed: c.MaxBad, Bad: bad[:c.MaxBad+1]}
	}
	done, from := 0, filepath.Base(ds.Path())
	stats, err := store.Stream(ctx, func(b *rows.Batch) error {
		b.From = from
		done += b.N
		if err := yield(b); err != nil {
			return err
		}
		c.report(done, store.Len())
		return nil
	})
	return stats, store.Fingerprint(), err
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

// fill runs the network and stores what it gives.
func (e *Extractor) fill(ctx context.Context, ds *dataset.Dataset, c StreamConfig, cache *Cache, recipe, stamp string,
	yield func(*rows.Batch) error) (stats rows.Stats, fingerprint string, err error) {
	failed := func(err error) error { return fmt.Errorf("features cache: %w", err) }
	if err := os.MkdirAll(cache.Dir, files.FolderMode); err != nil {
		return stats, "", failed(err)
	}
	draft, err := files.NewDraft(cache.Dir)
	if err != nil {
		return stats, "", failed(err)
	}
	defer draft.Close()
	const unnamed = "store"
	f, err := draft.Create(unnamed)
	if err != nil {
		return stats, "", failed(err)
	}
	w, err := rows.NewWriter(f, map[string]string{"recipe": recipe, "stamp": stamp})
	if err != nil {
		return stats, "", failed(err)
	}
	stats, err = e.Stream(ctx, ds, c, func(b *rows.Batch) error {
		if err := w.Add(b); err != nil {
			return failed(err)
		}
		return yield(b)
	})
	if err != nil {
		return stats, "", err
	}
	if fingerprint, err = ds.Fingerprint(ctx); err != nil {
		return stats, "", err
	}
	name := cache.name(recipe, fingerprint)
	err = w.End(rows.End{Fingerprint: fingerprint, Labelled: ds.HasLabels(), Bad: stats.Bad})
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(draft.Path(unnamed), draft.Path(name))
	}
	if err == nil {
		err = draft.Move(name)
	}
	if err != nil {
		return stats, "", failed(err)
	}
	return stats, fingerprint, nil
}
