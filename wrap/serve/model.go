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

// A model is a bundle under a name. A request uses the revision that is current when it arrives, whatever is loaded
// meanwhile.
type model struct {
	Bundle
	config *Config
	slots  *engine.Slots

	metrics *telemetry.Metrics
	changed func() // called when the model is loaded or unloaded

	current    atomic.Pointer[revision] // nil: not loaded
	statistics statistics

	loading sync.Mutex // held while the revision is replaced

	mu     sync.Mutex
	reason string // why the last attempt to load failed; "" if it succeeded
}

// A revision is one opening of a bundle, ready to answer.
type revision struct {
	handle *wrap.Handle
	engine *engine.Engine

	sha256  string // of the bundle
	classes []string
	batch   int32 // most examples in one inference
	threads int   // of one inference

	metadata    *oip.Metadata
	description *description
	resultBytes int64 // memory of the results of an example, or of a step where the model answers for each
	steps       int   // axes of steps in the outputs, if it does
	observer    *telemetry.Observer
	reference   *bundle.Reference // for drift; nil if the bundle has none
	sequences   sequences
}

// use calls f with the current revision, which stays open until f returns.
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

// lastError returns why the last attempt to load the bundle failed, or "".
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

// load opens the bundle as it is now, runs its probe, and replaces the current revision, which is closed when its last
// request is answered. If the bundle has not changed, nothing happens unless always is set.
func (m *model) load(ctx context.Context, always bool) error {
	m.loading.Lock()
	defer m.loading.Unlock()
	return m.replace(ctx, always)
}

// loadAsked is load for a request. If the client leaves before loading begins, nothing is loaded; once begun,
// loading is completed.
func (m *model) loadAsked(ctx context.Context) error {
	m.loading.Lock()
	defer m.loading.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := m.replace(context.WithoutCancel(ctx), true)
	switch {
	case err == nil:
		return nil
	case m.current.Load() != nil:
		return invalid("model %q could not be reloaded, and keeps its old version: %v", m.Name, err)
	}
	return invalid("model %q could not be loaded: %v", m.Name, err)
}

// replace is load for callers that hold m.loading.
func (m *model) replace(ctx context.Context, always bool) error {
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

// unload stops serving the bundle once all waiting requests are answered.
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
	// Requests that hold it go on; the engine is closed after the last of them.
	err := rev.handle.Close()
	return cmp.Or(rev.engine.Close(context.Background()), err)
}

// open opens the bundle and runs its probe.
func (m *model) open(ctx context.Context) (*revision, error) {
	c := m.config
	p, threads, err := m.openThreaded(ctx)
	if err != nil {
		return nil, err
	}
	if p.Inputs() == nil {
		p.Close()
		return nil, fmt.Errorf("%s: the bundle was calibrated with precomputed features and has no model to serve", m.Dir)
	}
	if err := p.Probe(ctx); err != nil && !errors.Is(err, wrap.ErrNoProbe) {
		p.Close()
		return nil, fmt.Errorf("%s: the bundle does not reproduce its predictions at calibration: %w", m.Dir, err)
	} else if err != nil {
		c.Log.Warn("bundle served without a check", "model", m.Name, "bundle", m.Dir, "reason", err.Error())
	}
	rev := &revision{
		handle: wrap.NewHandle(p), sha256: p.SHA256(), classes: p.Classes(),
		batch: int32(p.Batch()), threads: threads,
		metadata: metadataOf(m.Name, p, p.SHA256()), reference: p.Reference(),
	}
	rev.description, rev.resultBytes = describe(p, rev.metadata), resultBytes(rev.metadata)
	rev.steps = p.Head().Steps
	rev.engine = engine.New(engine.Config{
		Run:      rev.runner(p),
		MaxBatch: p.Batch(), MaxQueue: c.MaxQueue, Delay: max(0, c.Delay), Slots: m.slots, Width: threads,
	})
	return rev, nil
}

// runner returns the function that runs a batch and counts it.
func (rev *revision) runner(p *wrap.Predictor) engine.Runner {
	return func(ctx context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
		outputs, err := runFrom(ctx, p, inputs)
		if err == nil {
			rev.observer.Execution(int(outputs[0].Shape[0]))
		}
		return outputs, err
	}
}

// runFrom runs inputs, and the state at which they begin if that follows them: then the state at which they end follows
// the outputs.
func runFrom(ctx context.Context, p *wrap.Predictor, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
	own := len(p.Inputs())
	if len(inputs) == own {
		return p.Run(ctx, inputs)
	}
	outputs, next, err := p.RunFrom(ctx, inputs[:own], inputs[own:])
	return append(outputs, next...), err
}

// telemetry describes the revision for metrics.
func (rev *revision) telemetry() telemetry.Bundle {
	return telemetry.Bundle{
		SHA256: rev.sha256, Classes: rev.classes, Pending: rev.engine.Depth, Reference: rev.reference,
	}
}

// sumOf returns the SHA-256 of the bundle in a folder, from its manifest, which covers all files: the same as
// [wrap.Predictor.SHA256]. If the seal is broken it is some other hash, and "" if there is no manifest. Modification
// times would not do: copies may keep those of their originals, and clocks may go back.
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
