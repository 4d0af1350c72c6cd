package wrap

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/install"
)

// Setup says where ONNX Runtime is looked for, and whether it may be installed.
// The zero value looks in the usual places and installs nothing.
type Setup = install.Config

// Runtime says how networks are run. The zero value runs them on the CPU with
// an ONNX Runtime found on this machine, and installs nothing. A process loads
// one ONNX Runtime: Setup counts only where none is loaded yet.
type Runtime struct {
	Setup    Setup  `yaml:"-"`
	Provider string `yaml:"provider"` // one of ort.Providers; "" is the CPU
	Threads  int    `yaml:"threads"`  // of one inference; 0 is one for each CPU
	Batch    int    `yaml:"batch"`    // examples per inference; 0 chooses, and a model with a fixed batch keeps its own
}

// Validate reports numbers that mean nothing.
func (r *Runtime) Validate() error {
	if r.Threads < 0 || r.Batch < 0 {
		return fmt.Errorf("threads are %d and batch %d, want no negative numbers", r.Threads, r.Batch)
	}
	return nil
}

// OnCPU reports whether networks are run by the processors.
func (r *Runtime) OnCPU() bool { return r.Provider == "" || r.Provider == ort.CPU }

// Load makes ONNX Runtime ready, unless it is and no other is asked for. When ctx ends, so does
// an installation.
func (r *Runtime) Load(ctx context.Context) error {
	if _, ok := ort.Loaded(); ok && r.Setup.Flag == "" {
		return nil
	}
	lib, err := install.Ensure(ctx, r.Setup)
	if err != nil {
		return err
	}
	return ort.Load(lib)
}

// Config is that of a network; the model, and how images become its input, are set by the caller.
func (r *Runtime) Config() featurize.Config {
	return featurize.Config{Batch: r.Batch, Threads: r.Threads, Provider: r.Provider}
}
