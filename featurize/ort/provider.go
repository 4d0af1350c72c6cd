package ort

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/internal/install"
	onnx "github.com/yalue/onnxruntime_go"
)

// Names of execution providers.
const (
	CPU      = "cpu"
	CUDA     = "cuda"
	TensorRT = "tensorrt" // with CUDA for what TensorRT does not support
	CoreML   = "coreml"
	DirectML = "directml"
	OpenVINO = "openvino"
)

// An executionProvider is a row of the table of providers, all that a new one needs.
type executionProvider struct {
	name   string
	python string // Python package whose library has it; "" if there is none
	build  string // of ONNX Runtime that has it, and what it needs, for errors
	enable func(*onnx.SessionOptions) error
}

var providers = []executionProvider{
	{name: CPU, enable: func(*onnx.SessionOptions) error { return nil }}, // always there
	{
		CUDA, "onnxruntime-gpu",
		"a GPU build, such as that in the Python package onnxruntime-gpu, with the CUDA and cuDNN versions it was built for",
		appendCUDA,
	},
	{
		TensorRT, "onnxruntime-gpu",
		"a GPU build, such as that in the Python package onnxruntime-gpu, with the CUDA, cuDNN and TensorRT versions it was built for",
		appendTensorRT,
	},
	{
		CoreML, "", "an official build for macOS",
		func(o *onnx.SessionOptions) error { return o.AppendExecutionProviderCoreMLV2(nil) },
	},
	{
		DirectML, "onnxruntime-directml",
		"a build for Windows such as that in the Python package onnxruntime-directml",
		appendDirectML,
	},
	{
		OpenVINO, "onnxruntime-openvino",
		"a build such as that in the Python package onnxruntime-openvino, for Intel processors on Linux or Windows",
		func(o *onnx.SessionOptions) error { return o.AppendExecutionProviderOpenVINO(nil) },
	},
}

// Providers lists the names that SessionConfig.Provider takes. Whether a library has a provider shows when a session is
// made.
func Providers() []string {
	names := make([]string, len(providers))
	for i, p := range providers {
		names[i] = p.name
	}
	return names
}

// PythonPackage returns the name of a Python package whose library has a provider, "" if there is none.
func PythonPackage(provider string) string { return find(provider).python }

// find returns a row of the table, empty for an unknown name.
func find(name string) executionProvider {
	if i := slices.IndexFunc(providers, func(p executionProvider) bool { return p.name == name }); i >= 0 {
		return providers[i]
	}
	return executionProvider{}
}

// A ProviderError reports that the loaded library lacks a provider, or that it does not work on this machine.
type ProviderError struct {
	Provider string
	Library  install.Library
	Err      error
}

func (e *ProviderError) Error() string {
	return fmt.Sprintf("provider %s is not available in ONNX Runtime %s at %s (%s): use provider cpu, or set %s to the library of %s",
		e.Provider, e.Library.Version, e.Library.Path, strings.TrimRight(e.Err.Error(), ". "), install.EnvLibrary,
		find(e.Provider).build)
}

func (e *ProviderError) Unwrap() error { return e.Err }

// appendProvider adds the provider to o, before the CPU, which is always present.
func (c *SessionConfig) appendProvider(o *onnx.SessionOptions, lib install.Library) error {
	p := find(cmp.Or(c.Provider, CPU))
	if p.name == "" {
		return fmt.Errorf("unknown provider %q: want one of %s", c.Provider, strings.Join(Providers(), ", "))
	}
	if err := p.enable(o); err != nil {
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

// appendTensorRT adds TensorRT, and CUDA for the operators that TensorRT does not have.
func appendTensorRT(o *onnx.SessionOptions) error {
	p, err := onnx.NewTensorRTProviderOptions()
	if err != nil {
		return err
	}
	defer p.Destroy()
	if err := o.AppendExecutionProviderTensorRT(p); err != nil {
		return err
	}
	return appendCUDA(o)
}

// appendDirectML adds DirectML, which works with neither memory patterns nor parallel execution.
func appendDirectML(o *onnx.SessionOptions) error {
	if err := o.SetMemPattern(false); err != nil {
		return err
	}
	return o.AppendExecutionProviderDirectML(0)
}
