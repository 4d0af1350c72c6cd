package wrap

import (
	"context"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/internal/option"
)

// Runtime says how networks run. The zero value runs them on the CPU, with an ONNX Runtime that is found on this
// machine; nothing is installed. A process loads ONNX Runtime once: Library and Install have no effect after that.
type Runtime struct {
	Library string `yaml:"-"` // file or folder of ONNX Runtime's library; "": the usual places
	// Install allows ONNX Runtime to be installed into the user's cache if none is found, unless the environment
	// variable MFGS_NO_INSTALL forbids it.
	Install bool `yaml:"-"`
	// Installing, if set, is called with the stage of an installation, and its bytes done so far and in all.
	Installing func(stage string, done, total int64) `yaml:"-"`

	Provider string `yaml:"provider"` // one of ort.Providers; "" is the CPU
	Threads  int    `yaml:"threads"`  // per inference; 0: one for each CPU
	Batch    int    `yaml:"batch"`    // examples per inference; 0: chosen automatically. A fixed batch of the model wins
}

// Validate reports invalid values.
func (r *Runtime) Validate() error {
	switch {
	case r.Threads < 0:
		return option.Errorf("%s %d is negative", option.Threads, r.Threads)
	case r.Batch < 0:
		return option.Errorf("%s %d is negative", option.Batch, r.Batch)
	case r.Provider != "" && !slices.Contains(ort.Providers(), r.Provider):
		return option.Errorf("%s %.70q: want %s", option.Provider, r.Provider, strings.Join(ort.Providers(), ", "))
	}
	return nil
}

// OnCPU reports whether networks run on the CPU.
func (r *Runtime) OnCPU() bool { return r.Provider == "" || r.Provider == ort.CPU }

// Load loads ONNX Runtime, unless one is loaded and Library asks for no other. The end of ctx ends an installation.
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
