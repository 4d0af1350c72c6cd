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
	TensorRT = "tensorrt" // with CUDA for what TensorRT does not support
	CoreML   = "coreml"
	DirectML = "directml"
	OpenVINO = "openvino"
)

// Providers lists the values of SessionConfig.Provider. A library need not have all of them: NewSession reports that.
func Providers() []string {
	return []string{CPU, CUDA, TensorRT, CoreML, DirectML, OpenVINO}
}

// builds says for each provider which builds of ONNX Runtime have it, and what it needs.
var builds = map[string]string{
	CUDA:     "a GPU build, such as that in the Python package onnxruntime-gpu, with the CUDA and cuDNN that it was made for",
	TensorRT: "a GPU build, such as that in the Python package onnxruntime-gpu, with the CUDA, cuDNN and TensorRT that it was made for",
	CoreML:   "an official build for macOS",
	DirectML: "a build for Windows such as that in the Python package onnxruntime-directml",
	OpenVINO: "a build such as that in the Python package onnxruntime-openvino, for Intel processors on Linux or Windows",
}

// A ProviderError reports that the loaded library lacks a provider, or that it does not work on this machine.
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

// appendProvider adds the provider to o, before the CPU, which is always present.
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
		// DirectML supports neither memory patterns nor parallel execution.
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

// appendCUDA requests matrix products in float32. By default the provider rounds operands to TF32's 10 bits if the GPU
// supports it, which is 5e-4 of a logit variance.
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
