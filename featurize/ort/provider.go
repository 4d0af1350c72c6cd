package ort

import (
	"fmt"
	"strings"

	"github.com/mfgs/mfgs/internal/install"
	onnx "github.com/yalue/onnxruntime_go"
)

// The execution providers that a session can ask for.
const (
	CPU      = "cpu"
	CUDA     = "cuda"
	TensorRT = "tensorrt" // with CUDA for what TensorRT does not take
	CoreML   = "coreml"
	DirectML = "directml"
	OpenVINO = "openvino"
)

// Providers lists the names that SessionConfig.Provider takes. Which of them a
// library really has shows when a session is made.
func Providers() []string {
	return []string{CPU, CUDA, TensorRT, CoreML, DirectML, OpenVINO}
}

// builds says for each provider which builds of ONNX Runtime have it, and what
// it wants of the machine.
var builds = map[string]string{
	CUDA:     "a GPU build, such as that in the Python package onnxruntime-gpu, with the CUDA and cuDNN that it was made for",
	TensorRT: "a GPU build, such as that in the Python package onnxruntime-gpu, with the CUDA, cuDNN and TensorRT that it was made for",
	CoreML:   "an official build for macOS",
	DirectML: "a build for Windows such as that in the Python package onnxruntime-directml",
	OpenVINO: "a build such as that in the Python package onnxruntime-openvino, for Intel processors on Linux or Windows",
}

// A ProviderError says that the loaded library has no such provider, or that the
// provider cannot work on this machine.
type ProviderError struct {
	Provider string
	Library  install.Library
	Err      error
}

func (e *ProviderError) Error() string {
	return fmt.Sprintf("provider %s is not to be had from ONNX Runtime %s at %s (%s): use provider cpu, or set %s to the library of %s",
		e.Provider, e.Library.Version, e.Library.Path, strings.TrimRight(e.Err.Error(), ". "), install.EnvLibrary,
		builds[e.Provider])
}

func (e *ProviderError) Unwrap() error { return e.Err }

// appendProvider adds the provider to o, in front of the CPU that is always there.
func (c *SessionConfig) appendProvider(o *onnx.SessionOptions, lib install.Library) error {
	var err error
	switch c.Provider {
	case "", CPU:
	case CUDA:
		err = appendCUDA(o)
	case TensorRT:
		if err = appendTensorRT(o); err == nil {
			err = appendCUDA(o)
		}
	case CoreML:
		err = o.AppendExecutionProviderCoreMLV2(nil)
	case DirectML:
		// DirectML works with neither memory patterns nor parallel execution.
		if err = o.SetMemPattern(false); err == nil {
			err = o.AppendExecutionProviderDirectML(0)
		}
	case OpenVINO:
		err = o.AppendExecutionProviderOpenVINO(nil)
	default:
		return fmt.Errorf("unknown provider %q: want one of %s", c.Provider, strings.Join(Providers(), ", "))
	}
	if err != nil {
		return &ProviderError{Provider: c.Provider, Library: lib, Err: plain(err)}
	}
	return nil
}

// appendCUDA asks for products in float32. By default the provider rounds their
// operands to TF32's 10 bits on GPUs that can, which is 5e-4 of a logit variance.
func appendCUDA(o *onnx.SessionOptions) error {
	p, err := onnx.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer p.Destroy()
	if err := p.Update(map[string]string{"use_tf32": "0"}); err != nil {
		return err
	}
	return o.AppendExecutionProviderCUDA(p)
}

func appendTensorRT(o *onnx.SessionOptions) error {
	p, err := onnx.NewTensorRTProviderOptions()
	if err != nil {
		return err
	}
	defer p.Destroy()
	return o.AppendExecutionProviderTensorRT(p)
}
