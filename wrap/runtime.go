package wrap

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/install"
)

// Runtime says how networks are run. The zero value runs them on the CPU with an ONNX Runtime found on this
// machine, and installs nothing. A process loads one ONNX Runtime: Library and Install count only where none is
// loaded yet.
type Runtime struct {
	Library string `yaml:"-"` // the file of ONNX Runtime's library, or its folder; "": the usual places
	// Install allows ONNX Runtime to be installed into the user's cache where none is found. The variable
	// MFGS_NO_INSTALL forbids it all the same.
	Install bool `yaml:"-"`
	// Installing, if set, is called with what an installation does, and the bytes done so far and in all.
	Installing func(stage string, done, total int64) `yaml:"-"`

	Provider string `yaml:"provider"` // one of ort.Providers; "" is the CPU
	Threads  int    `yaml:"threads"`  // of one inference; 0 is one for each CPU
	Batch    int    `yaml:"batch"`    // examples per inference; 0 chooses, and a model with a fixed batch keeps its own
}

// Validate reports numbers that mean nothing.
func (r *Runtime) Validate() error {
	switch {
	case r.Threads < 0:
		return fmt.Errorf("threads %d is negative", r.Threads)
	case r.Batch < 0:
		return fmt.Errorf("batch %d is negative", r.Batch)
	case r.Provider != "" && !slices.Contains(ort.Providers(), r.Provider):
		return fmt.Errorf("provider %.70q: want %s", r.Provider, strings.Join(ort.Providers(), ", "))
	}
	return nil
}

// OnCPU reports whether networks are run by the processors.
func (r *Runtime) OnCPU() bool { return r.Provider == "" || r.Provider == ort.CPU }

// Load makes ONNX Runtime ready, unless it is and no other is asked for. When ctx ends, so does
// an installation.
func (r *Runtime) Load(ctx context.Context) error {
	if _, ok := ort.Loaded(); ok && r.Library == "" {
		return nil
	}
	setup := install.Config{Flag: r.Library, Install: r.Install}
	if r.Installing != nil {
		setup.Progress = r.Installing
	}
	lib, err := install.Ensure(ctx, setup)
	if err != nil {
		return err
	}
	return ort.Load(lib)
}
