package bundle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/onnx/tensor"
)

const (
	// A probe has at most MaxProbeExamples, whose inputs, features and logits take at most MaxProbeBytes.
	MaxProbeExamples = 4
	MaxProbeBytes    = 4 << 20

	// probeHeader is more than the size of the file's header.
	probeHeader = 64 << 10
	inputPrefix = "input."
)

// A Probe is a few validation examples with the results of the calibration. With it a server checks that its model
// computes the same.
type Probe struct {
	N        int             // examples, 1 to MaxProbeExamples
	Inputs   []tensor.Tensor // the model's inputs, each [N, …]
	Features []float32       // [N,d]
	Logits   []float32       // [N,K]
}

// ProbeRoom returns how many examples of the given size fit into a probe.
func ProbeRoom(bytes int64) int { return int(min(MaxProbeExamples, MaxProbeBytes/max(1, bytes))) }

// Check reports a probe that a reader would refuse.
func (p *Probe) Check(h layer.Head) error { return p.Encode(io.Discard, h) }

// Encode writes the probe of a head in the format of the package documentation. The same probe gives the same
// bytes.
func (p *Probe) Encode(w io.Writer, h layer.Head) error {
	list := []safetensors.Tensor{
		{Name: "features", Shape: []int{p.N, h.Features}, Data: p.Features},
		{Name: "logits", Shape: []int{p.N, h.Logits}, Data: p.Logits},
	}
	for _, t := range p.Inputs {
		if t.Type().Safetensors() == "" {
			return fmt.Errorf("input %q of a probe has data of type %T", t.Name, t.Data)
		}
		data, err := binary.Append(nil, binary.LittleEndian, t.Data)
		if err != nil {
			return fmt.Errorf("input %q: %w", t.Name, err)
		}
		shape := make([]int, len(t.Shape))
		for i, d := range t.Shape {
			shape[i] = int(d)
		}
		list = append(list, safetensors.Tensor{Name: inputPrefix + t.Name, Shape: shape, Data: data, Type: t.Type()})
	}
	var b bytes.Buffer
	if err := safetensors.Encode(&b, list, nil); err != nil {
		return err
	}
	// Write nothing that cannot be read.
	if _, err := DecodeProbe(bytes.NewReader(b.Bytes()), int64(b.Len()), h); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}

// DecodeProbe reads and checks size bytes that Encode wrote. Inputs are in the order of the file; whether they
// are those of the model is not checked.
func DecodeProbe(r io.ReaderAt, size int64, h layer.Head) (*Probe, error) {
	if size > MaxProbeBytes+probeHeader {
		return nil, fmt.Errorf("%w: %d bytes, a probe takes at most %d", ErrTooLarge, size, MaxProbeBytes)
	}
	f, err := safetensors.NewFile(r, size)
	if err != nil {
		return nil, err
	}
	logits, err := f.Lookup("logits")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTensors, err)
	}
	p := &Probe{}
	if len(logits.Shape) == 2 {
		p.N = logits.Shape[0]
	}
	if p.N < 1 || p.N > MaxProbeExamples {
		return nil, fmt.Errorf("tensor logits: %w: %v, want 1 to %d rows", ErrShape, logits.Shape, MaxProbeExamples)
	}
	if p.Features, err = probeRows(f, "features", p.N, h.Features); err != nil {
		return nil, err
	}
	if p.Logits, err = probeRows(f, "logits", p.N, h.Logits); err != nil {
		return nil, err
	}
	for _, info := range f.Tensors() {
		if name, ok := strings.CutPrefix(info.Name, inputPrefix); ok {
			t, err := probeInput(f, info, p.N)
			if err != nil {
				return nil, fmt.Errorf("tensor %s: %w", info.Name, err)
			}
			t.Name = name
			p.Inputs = append(p.Inputs, t)
		} else if info.Name != "features" && info.Name != "logits" {
			return nil, fmt.Errorf("%w: %.70q is unknown", ErrTensors, info.Name)
		}
	}
	if len(p.Inputs) == 0 {
		return nil, fmt.Errorf("%w: no tensor is an %s…", ErrTensors, inputPrefix)
	}
	return p, nil
}

// probeRows reads features or logits.
func probeRows(f *safetensors.File, name string, n, width int) ([]float32, error) {
	info, err := f.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTensors, err)
	}
	if want := []int{n, width}; info.Type != tensor.Float32 || !slices.Equal(info.Shape, want) {
		return nil, fmt.Errorf("tensor %s: %w: %s %v, want F32 %v", name, ErrShape, info.Type.Safetensors(), info.Shape, want)
	}
	all, err := safetensors.Read[float32](f, name)
	if err != nil {
		return nil, err
	}
	for i, v := range all {
		if v-v != 0 { // NaN, for both
			return nil, fmt.Errorf("tensor %s: %w: element %d is %v", name, ErrNotFinite, i, v)
		}
	}
	return all, nil
}

// probeInput reads one of the model's inputs, without its name.
func probeInput(f *safetensors.File, info safetensors.Info, n int) (t tensor.Tensor, err error) {
	if len(info.Shape) == 0 || info.Shape[0] != n || info.Len() == 0 {
		return t, fmt.Errorf("%w: %v, want %d rows", ErrShape, info.Shape, n)
	}
	for _, d := range info.Shape {
		t.Shape = append(t.Shape, int64(d))
	}
	section, err := f.Section(info.Name)
	if err != nil {
		return t, err
	}
	data, err := io.ReadAll(section)
	if err != nil {
		return t, err
	}
	value, size := info.Type.Value(), len(data)/info.Len()
	for i := range info.Len() {
		if v := value(data[i*size : (i+1)*size]); math.IsInf(v, 0) { // NaN is a missing value
			return t, fmt.Errorf("%w: element %d is %v", ErrNotFinite, i, v)
		}
	}
	if t.Data, err = info.Type.Make(info.Len()); err != nil {
		return t, err
	}
	_, err = binary.Decode(data, binary.LittleEndian, t.Data)
	return t, err
}

// readProbe reads the probe of a valid manifest, nil if it has none.
func readProbe(fsys fs.FS, m *Manifest) (*Probe, error) {
	if m.Probe == nil {
		return nil, nil
	}
	f, size, err := open(fsys, ProbeName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := readAll(f, ProbeName, size, MaxProbeBytes+probeHeader)
	if err != nil {
		return nil, err
	}
	if err := checkHash(bytes.NewReader(data), *m.Probe); err != nil {
		return nil, err
	}
	p, err := DecodeProbe(bytes.NewReader(data), int64(len(data)), m.Head.Head)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ProbeName, err)
	}
	return p, nil
}
