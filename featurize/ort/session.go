package ort

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	onnx "github.com/yalue/onnxruntime_go"

	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// SessionConfig says what a session runs, and how.
type SessionConfig struct {
	// Graph is the serialised ONNX model, at most 2 GiB.
	Graph []byte
	// Folder is the folder of the graph's external weights; "" if it has none. Weights outside of it are refused.
	Folder string
	// Inputs and Outputs are the names of the tensors that Run takes and returns, in order. Empty means all of the
	// graph's.
	Inputs, Outputs []string
	// Threads is the number of threads per call of Run; 0 means one per CPU of this process.
	Threads int
	// Spin lets idle threads wait in a busy loop. A session that runs alone gains a few microseconds per call; other
	// work on the machine is slowed down.
	Spin bool
	// Provider is one of Providers; "" means CPU.
	Provider string
}

// maxThreads bounds SessionConfig.Threads, which every session starts.
const maxThreads = 1024

// ErrClosed is returned by the methods of a closed session.
var ErrClosed = errors.New("the session is closed")

// A Session is a graph made ready to run. Its methods may be called concurrently.
type Session struct {
	inputs, outputs []Info

	mu      sync.RWMutex // held for reading while the graph runs, for writing to close
	session *onnx.DynamicAdvancedSession
}

// NewSession prepares a graph. The library must be loaded ([Load]). The caller closes the session.
func NewSession(c SessionConfig) (*Session, error) {
	lib, ok := Loaded()
	if !ok {
		return nil, errors.New("no ONNX Runtime is loaded: call ort.Load before ort.NewSession")
	}
	if len(c.Graph) > math.MaxInt32 {
		return nil, fmt.Errorf("the graph has %d bytes, ONNX Runtime takes at most %d: keep large weights external",
			len(c.Graph), math.MaxInt32)
	}
	inputs, outputs, err := readInfos(c.Graph)
	if err != nil {
		return nil, err
	}
	s := new(Session)
	if s.inputs, err = choose("input", inputs, c.Inputs); err != nil {
		return nil, err
	}
	if s.outputs, err = choose("output", outputs, c.Outputs); err != nil {
		return nil, err
	}
	if len(s.inputs) == 0 {
		return nil, errors.New("the model has no inputs")
	}
	for _, i := range s.inputs {
		if i.Type == tensor.Undefined {
			return nil, fmt.Errorf("input %q is not a tensor of numbers or strings", i.Name)
		}
	}
	for _, o := range s.outputs {
		if o.Type == tensor.Undefined {
			return nil, fmt.Errorf("output %q is not a tensor of numbers or strings: name one that is", o.Name)
		}
	}
	opts, err := c.options(lib)
	if err != nil {
		return nil, err
	}
	defer opts.Destroy()
	s.session, err = onnx.NewDynamicAdvancedSessionWithONNXData(c.Graph, names(s.inputs), names(s.outputs), opts)
	if err != nil {
		return nil, fmt.Errorf("ONNX Runtime rejects the model: %w", plain(err))
	}
	return s, nil
}

// options translates c. The caller destroys the result.
func (c *SessionConfig) options(lib install.Library) (_ *onnx.SessionOptions, err error) {
	if c.Threads < 0 || c.Threads > maxThreads {
		return nil, fmt.Errorf("threads: want 0 to %d, got %d", maxThreads, c.Threads)
	}
	o, err := onnx.NewSessionOptions()
	if err != nil {
		return nil, plain(err)
	}
	defer func() {
		if err != nil {
			o.Destroy()
		}
	}()
	threads, spin := c.Threads, "0"
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if c.Spin {
		spin = "1"
	}
	steps := []func() error{
		func() error { return o.SetIntraOpNumThreads(threads) },
		func() error { return o.SetInterOpNumThreads(1) },
		// Errors are returned, so the runtime need not print them.
		func() error { return o.SetLogSeverityLevel(onnx.LoggingLevelFatal) },
		func() error { return o.AddSessionConfigEntry("session.intra_op.allow_spinning", spin) },
		func() error { return o.AddSessionConfigEntry("session.inter_op.allow_spinning", spin) },
	}
	if c.Folder != "" {
		steps = append(steps, func() error {
			return o.AddSessionConfigEntry("session.model_external_initializers_file_folder_path", c.Folder)
		})
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, plain(err)
		}
	}
	return o, c.appendProvider(o, lib)
}

// choose returns the wanted tensors of the graph, in the wanted order.
func choose(what string, have []Info, want []string) ([]Info, error) {
	if len(want) == 0 {
		return have, nil
	}
	chosen := make([]Info, len(want))
	for i, name := range want {
		j := slices.IndexFunc(have, func(h Info) bool { return h.Name == name })
		if j < 0 {
			return nil, fmt.Errorf("the model has no %s %q, only %s", what, name, strings.Join(names(have), ", "))
		}
		if slices.Contains(want[:i], name) {
			return nil, fmt.Errorf("%s %q is listed twice", what, name)
		}
		chosen[i] = have[j]
	}
	return chosen, nil
}

func names(infos []Info) []string {
	s := make([]string, len(infos))
	for i := range infos {
		s[i] = infos[i].Name
	}
	return s
}

// Inputs describes what Run takes, in order.
func (s *Session) Inputs() []Info { return slices.Clone(s.inputs) }

// Outputs describes what Run returns, in order.
func (s *Session) Outputs() []Info { return slices.Clone(s.outputs) }

// Close waits for running calls of Run, then frees the session. It may be called more than once.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return nil
	}
	err := s.session.Destroy()
	s.session = nil
	return err
}

// Run evaluates the graph. Inputs with names may be in any order; those without are matched by position. The outputs
// are in the session's order, in memory of their own.
//
// When ctx ends, the evaluation stops at the next operator and the error is context.Cause(ctx).
//
// A float16 or bfloat16 output must have a fully declared shape; if it has not, append a Cast to the graph, or use
// RunInto.
func (s *Session) Run(ctx context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
	call := newCall(s)
	defer call.end()
	if err := call.setInputs(inputs); err != nil {
		return nil, err
	}
	// The runtime allocates the outputs, except scalars and 16-bit floats, which the binding cannot convert.
	for i, o := range s.outputs {
		half := o.Type.IsBits()
		fixed := o.Shape != nil && !slices.Contains(o.Shape, -1)
		switch {
		case half && !fixed:
			return nil, fmt.Errorf("output %q is %s of open shape: append a Cast to float32 to the graph, or give its memory with RunInto",
				o.Name, o.Type)
		case half, fixed && len(o.Shape) == 0:
			n, err := tensor.Elements(o.Shape)
			if err == nil && n > math.MaxInt32 {
				err = fmt.Errorf("declared shape %s is too large", tensor.FormatShape(o.Shape))
			}
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", o.Name, err)
			}
			data, err := o.Type.Make(int(n))
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", o.Name, err)
			}
			// On error v is a non-nil interface with a nil pointer: do not keep it.
			v, err := carrierOf(o.Type).wrap(o.Shape, data, &call.pinner)
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", o.Name, plain(err))
			}
			call.out[i] = v
		}
	}
	if err := call.run(ctx); err != nil {
		return nil, err
	}
	outputs := make([]tensor.Tensor, len(s.outputs))
	for i, o := range s.outputs {
		data, ok := carrierOf(o.Type).unwrap(call.out[i])
		if !ok {
			return nil, fmt.Errorf("output %q came as %T, want %s", o.Name, call.out[i], o.Type)
		}
		outputs[i] = tensor.Tensor{Name: o.Name, Shape: call.out[i].GetShape(), Data: data}
	}
	return outputs, nil
}

// RunInto is Run into memory that the caller allocates: each output must have the shape and element type that the
// graph computes for these inputs, and its Data is overwritten. After an error the contents of the outputs are
// undefined.
func (s *Session) RunInto(ctx context.Context, inputs, outputs []tensor.Tensor) error {
	call := newCall(s)
	defer call.end()
	if err := call.setInputs(inputs); err != nil {
		return err
	}
	order, err := match("output", s.outputs, outputs)
	if err != nil {
		return err
	}
	for i, o := range s.outputs {
		t := outputs[order[i]]
		if t.Type() == tensor.String || len(t.Shape) == 0 {
			return fmt.Errorf("output %q: RunInto takes neither strings nor scalars", o.Name)
		}
		if call.out[i], err = call.value("output", o, t); err != nil {
			return err
		}
	}
	return call.run(ctx)
}

// A call is one evaluation: the runtime's values for its inputs and outputs, and their pinned Go memory.
type call struct {
	s       *Session
	in, out []onnx.Value
	pinner  runtime.Pinner
}

func newCall(s *Session) *call {
	return &call{s: s, in: make([]onnx.Value, len(s.inputs)), out: make([]onnx.Value, len(s.outputs))}
}

// end frees the runtime's values. Go slices from them stay valid.
func (c *call) end() {
	for _, v := range slices.Concat(c.in, c.out) {
		if v != nil {
			v.Destroy()
		}
	}
	c.pinner.Unpin()
}

func (c *call) setInputs(inputs []tensor.Tensor) error {
	order, err := match("input", c.s.inputs, inputs)
	if err != nil {
		return err
	}
	for i, info := range c.s.inputs {
		t := inputs[order[i]]
		if info.Shape != nil && !fits(t.Shape, info.Shape) {
			return fmt.Errorf("input %q: want shape %s, got %s", info.Name, tensor.FormatShape(info.Shape),
				tensor.FormatShape(t.Shape))
		}
		if c.in[i], err = c.value("input", info, t); err != nil {
			return err
		}
	}
	return nil
}

// value checks t against the graph's declaration and wraps it.
func (c *call) value(what string, info Info, t tensor.Tensor) (onnx.Value, error) {
	typ, have := t.Type(), t.Len()
	if typ == tensor.Undefined {
		return nil, fmt.Errorf("%s %q: %T is not the data of a tensor", what, info.Name, t.Data)
	}
	if typ != info.Type {
		return nil, fmt.Errorf("%s %q: want %s, got %s", what, info.Name, info.Type, typ)
	}
	want, err := tensor.Elements(t.Shape)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", what, info.Name, err)
	}
	if int64(have) != want {
		return nil, fmt.Errorf("%s %q: shape %s has %d elements, the data %d", what, info.Name,
			tensor.FormatShape(t.Shape), want, have)
	}
	v, err := carrierOf(typ).wrap(t.Shape, t.Data, &c.pinner)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", what, info.Name, plain(err))
	}
	return v, nil
}

// run evaluates the graph on c.in, filling c.out.
func (c *call) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	opts, err := onnx.NewRunOptions()
	if err != nil {
		return plain(err)
	}
	defer opts.Destroy()
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	if c.s.session == nil {
		return ErrClosed
	}
	terminated := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		opts.Terminate()
		close(terminated)
	})
	err = c.s.session.RunWithOptions(c.in, c.out, opts)
	if !stop() {
		<-terminated // opts must outlive Terminate
	}
	if err == nil {
		return nil
	}
	// An output that the binding could not convert is a non-nil interface with a nil pointer, which end must not
	// see.
	for i, v := range c.out {
		if v != nil && reflect.ValueOf(v).IsNil() {
			c.out[i] = nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("onnx runtime: %w", plain(err))
}

// match returns for each of the session's tensors the index of the given one, by name, or by position without one.
func match(what string, infos []Info, given []tensor.Tensor) ([]int, error) {
	if len(given) != len(infos) {
		return nil, fmt.Errorf("want %d %ss (%s), got %d", len(infos), what, strings.Join(names(infos), ", "),
			len(given))
	}
	order := make([]int, len(infos))
	for i := range order {
		order[i] = -1
	}
	for j, t := range given {
		i := j
		if t.Name != "" {
			i = slices.IndexFunc(infos, func(info Info) bool { return info.Name == t.Name })
			if i < 0 {
				return nil, fmt.Errorf("no %s %q, only %s", what, t.Name, strings.Join(names(infos), ", "))
			}
		}
		if order[i] >= 0 {
			return nil, fmt.Errorf("%s %q is given twice", what, infos[i].Name)
		}
		order[i] = j
	}
	return order, nil
}

// fits reports whether declared allows shape.
func fits(shape, declared []int64) bool {
	return slices.EqualFunc(shape, declared, func(have, want int64) bool { return want < 0 || have == want })
}

// plain turns an error of the runtime into one line, without the binding's prefixes.
func plain(err error) error {
	msg := strings.Join(strings.Fields(err.Error()), " ")
	for _, prefix := range []string{"Error creating C session: ", "Error running network: ", "Platform-specific initialization failed: "} {
		msg = strings.TrimPrefix(msg, prefix)
	}
	const limit = 500
	if r := []rune(msg); len(r) > limit {
		msg = string(r[:limit]) + "…"
	}
	return errors.New(msg)
}
