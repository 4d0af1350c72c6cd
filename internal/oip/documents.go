package oip

import (
	"bytes"
	"strings"

	"github.com/mfgs/mfgs/internal/oip/inference"
)

// Config is a model's configuration as in Triton: the answer to GET /v2/models/NAME/config.
type Config struct {
	Name         string         `json:"name"`
	Platform     string         `json:"platform"`
	Backend      string         `json:"backend"`
	MaxBatchSize int32          `json:"max_batch_size"` // 0: dims include the batch
	Input        []ConfigTensor `json:"input"`
	Output       []ConfigTensor `json:"output"`
}

// A ConfigTensor is an input or output of a Config. Its dims leave out the batch unless MaxBatchSize is 0.
type ConfigTensor struct {
	Name     string  `json:"name"`
	DataType string  `json:"data_type"` // such as TYPE_FP32
	Dims     []int64 `json:"dims"`
}

// Config returns the configuration of a model that takes up to maxBatch examples in a request. Dims of one number per
// example are [1], as Triton has no empty ones.
func (m *Metadata) Config(maxBatch int32) Config {
	c := Config{Name: m.Name, Platform: m.Platform, MaxBatchSize: maxBatch}
	c.Backend = strings.TrimSuffix(m.Platform, "_onnx")
	tensors := func(all []TensorMetadata) (out []ConfigTensor) {
		for _, t := range all {
			dims := t.Shape
			if maxBatch > 0 && len(dims) > 0 {
				dims = dims[1:]
			}
			if len(dims) == 0 {
				dims = []int64{1}
			}
			out = append(out, ConfigTensor{t.Name, byDatatype[t.Datatype].Triton(), dims})
		}
		return out
	}
	c.Input, c.Output = tensors(m.Inputs), tensors(m.Outputs)
	return c
}

// Proto returns c as a gRPC message.
func (c Config) Proto() *inference.ModelConfigResponse {
	m := &inference.ModelConfig{Name: c.Name, Platform: c.Platform, Backend: c.Backend, MaxBatchSize: c.MaxBatchSize}
	typ := func(name string) inference.DataType { return inference.DataType(inference.DataType_value[name]) }
	for _, t := range c.Input {
		m.Input = append(m.Input, &inference.ModelInput{Name: t.Name, DataType: typ(t.DataType), Dims: t.Dims})
	}
	for _, t := range c.Output {
		m.Output = append(m.Output, &inference.ModelOutput{Name: t.Name, DataType: typ(t.DataType), Dims: t.Dims})
	}
	return &inference.ModelConfigResponse{Config: m}
}

// Statistics counts requests: the answer to GET /v2/models/NAME/stats.
type Statistics struct {
	Models []ModelStatistics `json:"model_stats"`
}

// ModelStatistics counts the requests to a model.
type ModelStatistics struct {
	Name       string         `json:"name"`
	Version    string         `json:"version"`
	Last       uint64         `json:"last_inference"`  // milliseconds since 1970, 0 before the first
	Inferences uint64         `json:"inference_count"` // examples
	Executions uint64         `json:"execution_count"` // batches
	Requests   RequestsByStep `json:"inference_stats"`
}

// RequestsByStep counts requests and the time of each of their steps.
type RequestsByStep struct {
	Success       Times `json:"success"`
	Fail          Times `json:"fail"`
	Queue         Times `json:"queue"`
	ComputeInput  Times `json:"compute_input"`
	ComputeInfer  Times `json:"compute_infer"`
	ComputeOutput Times `json:"compute_output"`
}

// Times is a count with the sum of durations.
type Times struct {
	Count uint64 `json:"count"`
	NS    uint64 `json:"ns"`
}

func (t Times) proto() *inference.StatisticDuration {
	return &inference.StatisticDuration{Count: t.Count, Ns: t.NS}
}

// Proto returns s as a gRPC message.
func (s Statistics) Proto() *inference.ModelStatisticsResponse {
	m := &inference.ModelStatisticsResponse{}
	for _, s := range s.Models {
		r := s.Requests
		m.ModelStats = append(m.ModelStats, &inference.ModelStatistics{
			Name: s.Name, Version: s.Version,
			LastInference: s.Last, InferenceCount: s.Inferences, ExecutionCount: s.Executions,
			InferenceStats: &inference.InferStatistics{
				Success: r.Success.proto(), Fail: r.Fail.proto(), Queue: r.Queue.proto(),
				ComputeInput: r.ComputeInput.proto(), ComputeInfer: r.ComputeInfer.proto(),
				ComputeOutput: r.ComputeOutput.proto(),
			},
		})
	}
	return m
}

// Proto returns s as a gRPC message.
func (s Server) Proto() *inference.ServerMetadataResponse {
	return &inference.ServerMetadataResponse{Name: s.Name, Version: s.Version, Extensions: s.Extensions}
}

// Proto returns m as a gRPC message.
func (m *Metadata) Proto() (*inference.ModelMetadataResponse, error) {
	p, err := parametersProto(m.Parameters)
	tensors := func(all []TensorMetadata) (out []*inference.ModelMetadataResponse_TensorMetadata) {
		for _, t := range all {
			out = append(out, &inference.ModelMetadataResponse_TensorMetadata{
				Name: t.Name, Datatype: t.Datatype, Shape: t.Shape})
		}
		return out
	}
	return &inference.ModelMetadataResponse{Name: m.Name, Versions: m.Versions, Platform: m.Platform,
		Inputs: tensors(m.Inputs), Outputs: tensors(m.Outputs), Parameters: p}, err
}

// IndexProto returns the models of the repository as a gRPC message.
func IndexProto(models []Model) *inference.RepositoryIndexResponse {
	m := &inference.RepositoryIndexResponse{}
	for _, x := range models {
		m.Models = append(m.Models, &inference.RepositoryIndexResponse_ModelIndex{
			Name: x.Name, Version: x.Version, State: string(x.State), Reason: x.Reason})
	}
	return m
}

// ReadIndex reads the body of POST /v2/repository/index, which may be empty, and reports whether it asks for ready
// models only.
func ReadIndex(body []byte, l Limits) (readyOnly bool, err error) {
	err = readDocument(body, l, func(d *reader, key string) error {
		if key != "ready" || d.null() {
			return d.Skip(0)
		}
		v, err := d.Scalar()
		if err == nil {
			readyOnly, err = Parameters{key: v}.Bool(key)
		}
		return err
	})
	return readyOnly, err
}

// ReadLoad reads the body of POST /v2/repository/models/NAME/load or /unload, which may be empty. It refuses parameters
// with a configuration or files: models come from their bundles only.
func ReadLoad(body []byte, l Limits) error {
	return readDocument(body, l, func(d *reader, key string) error {
		if d.null() {
			return nil
		}
		if key != "parameters" {
			return d.Skip(0)
		}
		p, err := d.parameters()
		for _, key := range p.names() {
			if err == nil {
				err = checkLoad(key)
			}
		}
		return err
	})
}

// checkLoad refuses a parameter with a configuration or a file.
func checkLoad(key string) error {
	if key == "config" || strings.HasPrefix(key, "file:") {
		return Errorf(Unsupported,
			"parameter %s: a model is loaded from its bundle, and from nothing that comes with the request", show(key))
	}
	return nil
}

// readDocument reads a small document, which may be empty.
func readDocument(body []byte, l Limits, member func(d *reader, key string) error) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	d, err := newReader(body, "", l)
	if err == nil {
		err = d.whole(func(key string) error { return member(d, key) })
	}
	return classified("request", err)
}

// LoadName returns the name of the model in a request to load or unload it. KServe's clients put it into the first
// field, which is the repository in Triton's. It refuses what ReadLoad refuses.
func LoadName(m interface {
	GetRepositoryName() string
	GetModelName() string
	GetParameters() map[string]*inference.ModelRepositoryParameter
}) (string, error) {
	for key := range m.GetParameters() {
		if err := checkLoad(key); err != nil {
			return "", err
		}
	}
	if name := m.GetModelName(); name != "" {
		return name, nil
	}
	if name := m.GetRepositoryName(); name != "" {
		return name, nil
	}
	return "", Errorf(Invalid, "the request names no model")
}
