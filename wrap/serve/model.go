package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/folder"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
	"github.com/mfgs/mfgs/wrap/serve/internal/telemetry"
)

// A model is a bundle under a name. Requests take the revision that is current when they come, and
// keep it to their end, whatever is loaded meanwhile.
type model struct {
	Bundle
	config *Config
	slots  *engine.Slots

	metrics *telemetry.Metrics
	changed func() // is called when the model is loaded or unloaded

	current    atomic.Pointer[revision] // nil: not loaded
	statistics statistics

	loading sync.Mutex // held while a revision is exchanged for another

	mu     sync.Mutex
	reason string // why the last attempt to load failed; "" if it did not
}

// A revision is a bundle as it was opened once, ready to answer.
type revision struct {
	handle *wrap.Handle
	engine *engine.Engine

	sha256  string // of the bundle
	classes []string
	batch   int32 // examples in one inference at most
	threads int   // of one inference
	// metadata describes the bundle, and resultBytes is how much memory the results of an example take.
	metadata    *oip.Metadata
	description *description
	resultBytes int64
	observer    *telemetry.Observer
	reference   *bundle.Reference // what drift is from; nil of bundles that do not have it
}

// use calls f with the current revision, which stays until f returns.
func (m *model) use(f func(*revision, *wrap.Predictor) error) error {
	for {
		rev := m.current.Load()
		if rev == nil {
			return m.notLoaded()
		}
		err := rev.handle.Use(func(p *wrap.Predictor) error { return f(rev, p) })
		if !errors.Is(err, wrap.ErrClosed) || m.current.Load() == rev {
			return err
		}
	}
}

// lastError is why the last attempt to load the bundle failed, or "".
func (m *model) lastError() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reason
}

func (m *model) setReason(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reason = ""
	if err != nil {
		m.reason = err.Error()
	}
}

// load opens the bundle as it is now, and has it answer its held-out probe, before it takes the place of
// the revision that is serving. That one is closed when its last request is answered. Where the bundle
// is still the one that is serving, nothing happens, unless that is asked for.
func (m *model) load(ctx context.Context, always bool) error {
	m.loading.Lock()
	defer m.loading.Unlock()
	return m.exchange(ctx, always)
}

// loadAsked is load for a request. Who asks and goes away before it is begun is not waited for; what is
// begun is brought to its end.
func (m *model) loadAsked(ctx context.Context) error {
	m.loading.Lock()
	defer m.loading.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := m.exchange(context.WithoutCancel(ctx), true)
	switch {
	case err == nil:
		return nil
	case m.current.Load() != nil:
		return invalid("model %q is not loaded anew, and serves on as it was: %v", m.Name, err)
	}
	return invalid("model %q is not loaded: %v", m.Name, err)
}

// exchange is load for who holds the lock.
func (m *model) exchange(ctx context.Context, always bool) error {
	old := m.current.Load()
	if old != nil && !always && old.sha256 == sumOf(m.Dir) {
		return nil
	}
	started := time.Now()
	next, err := m.open(ctx)
	m.setReason(err)
	if err != nil {
		m.metrics.LoadFailed(m.Name)
		m.config.Log.Error("bundle not loaded", "model", m.Name, "bundle", m.Dir, "serving", old != nil, "error", err.Error())
		return err
	}
	if next.observer, err = m.metrics.Load(m.Name, next.telemetry()); err != nil {
		return cmp.Or(m.retire(next), err)
	}
	m.current.Store(next)
	m.changed()
	m.config.Log.Info("bundle loaded", "model", m.Name, "bundle", m.Dir, "sha256", next.sha256,
		"threads", next.threads,
		"seconds", time.Since(started).Seconds())
	return m.retire(old)
}

// unload stops serving the bundle, when all requests that wait are answered.
func (m *model) unload() error {
	m.loading.Lock()
	defer m.loading.Unlock()
	old := m.current.Swap(nil)
	m.changed()
	m.setReason(errUnloadedByRequest)
	if old != nil {
		m.metrics.Unload(m.Name)
		m.config.Log.Info("bundle unloaded", "model", m.Name)
	}
	return m.retire(old)
}

var errUnloadedByRequest = errors.New("it was unloaded")

// retire closes a revision that takes no more requests.
func (m *model) retire(rev *revision) error {
	if rev == nil {
		return nil
	}
	// Requests that hold it go on; the engine is closed behind the last of them.
	err := rev.handle.Close()
	return cmp.Or(rev.engine.Close(context.Background()), err)
}

// open opens the bundle, and has it answer its probe.
func (m *model) open(ctx context.Context) (*revision, error) {
	c := m.config
	p, threads, err := m.openThreaded(ctx)
	if err != nil {
		return nil, err
	}
	if p.Inputs() == nil {
		p.Close()
		return nil, fmt.Errorf("%s: the bundle was made of ready-made features and has no model to serve", m.Dir)
	}
	if err := p.Probe(ctx); err != nil && !errors.Is(err, wrap.ErrNoProbe) {
		p.Close()
		return nil, fmt.Errorf("%s: the bundle does not answer as it did when it was calibrated: %w", m.Dir, err)
	} else if err != nil {
		c.Log.Warn("bundle served untried", "model", m.Name, "bundle", m.Dir, "reason", err.Error())
	}
	rev := &revision{
		handle: wrap.NewHandle(p), sha256: p.SHA256(), classes: p.Classes(),
		batch: int32(p.Batch()), threads: threads,
		metadata: metadataOf(m.Name, p, p.SHA256()), reference: p.Reference(),
	}
	rev.description, rev.resultBytes = describe(p, rev.metadata), resultBytes(rev.metadata)
	rev.engine = engine.New(engine.Config{
		Run:      rev.runner(p),
		MaxBatch: p.Batch(), MaxQueue: c.MaxQueue, Delay: max(0, c.Delay), Slots: m.slots, Width: threads,
	})
	return rev, nil
}

// runner runs a batch, and counts it.
func (rev *revision) runner(p *wrap.Predictor) engine.Runner {
	return func(ctx context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
		outputs, err := p.Run(ctx, inputs)
		if err == nil {
			rev.observer.Execution(int(outputs[0].Shape[0]))
		}
		return outputs, err
	}
}

// telemetry says what there is to know of a bundle whose metrics are shown.
func (rev *revision) telemetry() telemetry.Bundle {
	return telemetry.Bundle{
		SHA256: rev.sha256, Classes: rev.classes, Pending: rev.engine.Depth, Reference: rev.reference,
	}
}

// sumOf is the SHA-256 of the bundle in a folder, by its manifest, which covers all files: what [wrap.Predictor.SHA256]
// gives once it is open. It is the hash of anything else where the seal is broken, and "" where there is no
// manifest. Times of files say less: copies may keep those of their originals, and clocks go back.
func sumOf(dir string) string {
	manifest, err := files.Read(filepath.Join(dir, bundle.ManifestName), bundle.MaxManifest)
	if err != nil {
		return ""
	}
	if sealed, err := folder.Unseal(manifest, ""); err == nil {
		manifest = sealed
	}
	sum := sha256.Sum256(manifest)
	return hex.EncodeToString(sum[:])
}

func (m *model) notLoaded() error {
	return notReady("model %q is not loaded: %s", m.Name, m.lastError())
}

// state describes the model in the repository.
func (m *model) state() oip.Model {
	if m.current.Load() != nil {
		return oip.Model{Name: m.Name, Version: version, State: oip.Ready, Reason: m.lastError()}
	}
	return oip.Model{Name: m.Name, Version: version, State: oip.Gone, Reason: m.lastError()}
}
