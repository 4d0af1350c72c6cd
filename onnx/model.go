package onnx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// Model is an ONNX model: its graph is in memory, its large weights are in their files. Calls of its own
// functions are expanded. It is immutable, and safe for concurrent use.
type Model struct {
	pb     *onnxpb.Model
	graph  *graph.Graph // as it runs
	view   func() *graph.View
	store  *store
	path   string
	sha256 string
}

// Open reads the model file at path and checks it: its structure, the size of every tensor, and that
// external data is in the model's folder. Tensors of 1 KiB and more stay in their files, which must not
// change while the model is in use.
func Open(path string) (*Model, error) { return openWith(path, nil) }

// OpenCopy is Open for a model whose files may be overwritten while it runs: ONNX Runtime maps weights
// into memory, where such writes would show. What is read, hashed and run is a private copy of the files
// below [os.TempDir], or in memory if it is small or no file can be written there. Close removes it.
func OpenCopy(path string) (*Model, error) { return OpenCopyContext(context.Background(), path) }

// OpenCopyContext is OpenCopy that ends early, with the cause of ctx, if ctx ends while files are copied. It does not
// keep ctx.
func OpenCopyContext(ctx context.Context, path string) (*Model, error) {
	if err := glance(path); err != nil {
		return nil, err
	}
	c := &copies{ctx: ctx}
	m, err := openWith(path, c)
	c.ctx = nil // models derived from this one read the copies
	if err != nil {
		c.close()
		return nil, err
	}
	return m, nil
}

// Close removes the files that [OpenCopy] made. The model, and models derived from it, can no longer be
// read, but sessions of ONNX Runtime continue. It may be called more than once. Models from [Open] or
// [Parse] need not be closed.
func (m *Model) Close() error {
	if m.store.copies == nil {
		return nil
	}
	return m.store.copies.close()
}

// File returns the bytes of the model's own file, without those of external data. The caller closes it.
func (m *Model) File() (io.ReadCloser, error) { return m.store.section(0, 0, m.store.files[0].size) }

// Held says why [OpenCopy] holds a large model in memory; nil if it does not.
func (m *Model) Held() error {
	if m.store.copies == nil {
		return nil
	}
	return m.store.copies.heldBecause()
}

// glance refuses a file that is not a model, before the slower copying.
func glance(path string) error {
	f, err := files.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := scan(f, info.Size()); err != nil {
		return fmt.Errorf("%s: %w", path, notModel(f, err))
	}
	return nil
}

func openWith(path string, c *copies) (*Model, error) {
	s, err := openStore(path, c)
	if err != nil {
		return nil, err // names the path
	}
	given, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	m, err := read(s, given)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.path = path
	return m, nil
}

// Parse is Open for a model in memory, such as an embedded one; name is for errors. The model keeps data,
// which must not be modified. External data is refused.
func Parse(name string, data []byte) (*Model, error) {
	s := &store{files: []file{{name: name, data: data, size: int64(len(data))}}}
	m, err := read(s, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func read(s *store, given string) (*Model, error) {
	size := s.files[0].size
	if size == 0 {
		return nil, errors.New("not an ONNX model: the file is empty")
	}
	r, err := s.section(0, 0, size)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	skeleton, err := scan(r, size)
	if err != nil {
		return nil, notModel(r, err)
	}
	pb := new(onnxpb.Model)
	if err := proto.Unmarshal(skeleton, pb); err != nil {
		return nil, fmt.Errorf("not an ONNX model, or a damaged one: %w", err)
	}
	if pb.GetGraph() == nil || len(pb.GetOpsetImport()) == 0 {
		return nil, errors.New("not an ONNX model: it has no graph or no operator set")
	}
	err = eachTensor(pb, func(t *onnxpb.Tensor) error {
		if t.GetDataLocation() == 1 {
			if t.GetSpan() != nil {
				return fmt.Errorf("tensor %q has both external data and its own", t.GetName())
			}
			if err := s.resolve(given, t); err != nil {
				return fmt.Errorf("tensor %q: %w", t.GetName(), err)
			}
		}
		return checkTensor(t)
	})
	if err != nil {
		return nil, err
	}
	for _, t := range pb.GetGraph().GetSparseInitializer() {
		if err := checkSparse(t); err != nil {
			return nil, err
		}
	}
	if pb, err = graph.Inline(pb); err != nil {
		return nil, err
	}
	sum, err := s.sum()
	if err != nil {
		return nil, err
	}
	return newModel(withDefaultDomain(pb), s, sum)
}

// notModel is the error for a file that scan refuses.
func notModel(r io.ReaderAt, err error) error {
	if errors.Is(err, errNodes) {
		return err
	}
	var head [20]byte
	n, _ := r.ReadAt(head[:], 0)
	if strings.HasPrefix(string(head[:n]), "version https://git-") {
		return errors.New("a Git LFS pointer, not the model itself; fetch it with git lfs pull")
	}
	return fmt.Errorf("not an ONNX model, or a damaged one: %w", err)
}

// withDefaultDomain returns a model that imports the default operators, which cutting and appending need. A
// model with scikit-learn's operators alone may not import them. A model that uses them without importing
// them is returned as it is.
func withDefaultDomain(m *onnxpb.Model) *onnxpb.Model {
	const version = 13 // has all operators that mfgs writes, and every runtime in use supports it
	imported := slices.ContainsFunc(m.GetOpsetImport(),
		func(o *onnxpb.OperatorSet) bool { return onnxpb.IsDefault(o.GetDomain()) })
	onnxpb.EachNode(m.GetGraph().GetNode(), func(n *onnxpb.Node) {
		imported = imported ||
			onnxpb.IsDefault(n.GetDomain())
	})
	if imported {
		return m
	}
	m = onnxpb.Shallow(m)
	m.OpsetImport = append(slices.Clip(m.OpsetImport), &onnxpb.OperatorSet{Domain: proto.String(""),
		Version: proto.Int64(version)})
	return m
}

func newModel(pb *onnxpb.Model, s *store, sum string) (*Model, error) {
	g, err := graph.New(pb)
	if err != nil {
		return nil, err
	}
	view := sync.OnceValue(func() *graph.View { return graph.NewView(pb, g, s, s.mayGive()) })
	return &Model{pb: pb, graph: g, view: view, store: s, sha256: sum}, nil
}

// Proto returns the model's message, which must not be modified.
func (m *Model) Proto() *onnxpb.Model { return m.pb }

// Graph returns the model's graph as it runs.
func (m *Model) Graph() *graph.Graph { return m.graph }

// View returns the model's graph in plain operators.
func (m *Model) View() *graph.View { return m.view() }

// A Payload is the bytes of a new tensor.
type Payload struct {
	Tensor *onnxpb.Tensor
	Raw    []byte
}

// Derive returns a model with another graph that shares the files of m, and its SHA256. Large payloads
// become files of it, so that they can be written as external data.
func (m *Model) Derive(pb *onnxpb.Model, payloads ...Payload) (*Model, error) {
	s := *m.store
	s.files = slices.Clip(s.files)
	for _, p := range payloads {
		if len(p.Raw) < spanMin {
			p.Tensor.RawData = p.Raw
			continue
		}
		number, length := int32(len(s.files)), int64(len(p.Raw))
		p.Tensor.Span = &onnxpb.Span{File: &number, Offset: proto.Int64(0), Length: &length}
		s.files = append(s.files, file{name: p.Tensor.GetName(), data: p.Raw, derived: true, size: length})
	}
	derived, err := newModel(pb, &s, m.sha256)
	if err != nil {
		return nil, err
	}
	derived.path = m.path
	return derived, nil
}

// Size is the size of the model's files in bytes, those of external data included.
func (m *Model) Size() int64 {
	var n int64
	for _, f := range m.store.files {
		n += f.size
	}
	return n
}

// Metadata returns the model's metadata_props.
func (m *Model) Metadata() map[string]string {
	all := map[string]string{}
	for _, e := range m.pb.GetMetadataProps() {
		all[e.GetKey()] = e.GetValue()
	}
	return all
}

// Path returns the path the model was opened from, "" for a model from memory.
func (m *Model) Path() string { return m.path }

// SHA256 identifies the model, in hexadecimal: the SHA-256 of its file or, if it has external data, the
// SHA-256 of the binary hashes of that file and of each file of external data, in the order of first use.
// A model cut from another has that one's hash.
func (m *Model) SHA256() string { return m.sha256 }

// Opset returns the version of the default operators: 13 if the model neither imports nor uses them, 0 if it
// uses them without importing them.
func (m *Model) Opset() int64 { return m.graph.Opset }

// IRVersion returns the version of the file format.
func (m *Model) IRVersion() int64 { return m.pb.GetIrVersion() }

// Producer returns the name and version of the tool that wrote the model, if recorded.
func (m *Model) Producer() string {
	return strings.TrimSpace(m.pb.GetProducerName() + " " + m.pb.GetProducerVersion())
}

// Inputs returns the model's inputs, without the weights that older formats list among them.
func (m *Model) Inputs() []ValueInfo {
	var in []ValueInfo
	for _, v := range m.pb.GetGraph().GetInput() {
		if !m.graph.Initialized(v.GetName()) {
			in = append(in, InfoOf(v))
		}
	}
	return in
}

// Outputs returns the model's outputs.
func (m *Model) Outputs() []ValueInfo {
	var out []ValueInfo
	for _, v := range m.pb.GetGraph().GetOutput() {
		out = append(out, InfoOf(v))
	}
	return out
}

// eachTensor calls do for every tensor of a model, until it returns an error.
func eachTensor(m *onnxpb.Model, do func(*onnxpb.Tensor) error) error {
	for _, t := range tensors(nil, m) {
		if err := do(t); err != nil {
			return err
		}
	}
	return nil
}

// tensors appends every tensor in a message: initializers, attributes, those of subgraphs and of
// functions.
func tensors(list []*onnxpb.Tensor, m any) []*onnxpb.Tensor {
	switch m := m.(type) {
	case *onnxpb.Model:
		return tensorsOf(tensors(list, m.GetGraph()), m.GetFunctions())
	case *onnxpb.Function:
		return tensorsOf(tensorsOf(list, m.GetNode()), m.GetAttributeProto())
	case *onnxpb.Graph:
		list = tensorsOf(append(list, m.GetInitializer()...), m.GetSparseInitializer())
		return tensorsOf(list, m.GetNode())
	case *onnxpb.Node:
		return tensorsOf(list, m.GetAttribute())
	case *onnxpb.Attribute:
		list = tensors(append(list, m.GetTensors()...), m.GetT())
		list = tensors(tensorsOf(list, m.GetSparseTensors()), m.GetSparseTensor())
		return tensorsOf(list, onnxpb.Subgraphs(m))
	case *onnxpb.SparseTensor:
		return tensors(tensors(list, m.GetValues()), m.GetIndices())
	case *onnxpb.Tensor:
		if m != nil {
			list = append(list, m)
		}
	}
	return list
}

func tensorsOf[M any](list []*onnxpb.Tensor, messages []M) []*onnxpb.Tensor {
	for _, m := range messages {
		list = tensors(list, m)
	}
	return list
}

// SelfContained reports whether the model is one file, without external data.
func (m *Model) SelfContained() bool {
	return !slices.ContainsFunc(m.store.files[1:], func(f file) bool { return !f.derived })
}

// Info names a model file, and describes its inputs and outputs.
type Info struct {
	Path     string `json:"path,omitempty"`
	SHA256   string `json:"sha256"`
	Opset    int64  `json:"opset"`
	Producer string `json:"producer"`
	// Inputs and Outputs are absent if the model was not opened, as in merging.
	Inputs  []ValueInfo `json:"inputs,omitempty"`
	Outputs []ValueInfo `json:"outputs,omitempty"`
}

// Info describes the model.
func (m *Model) Info() *Info {
	return &Info{
		Path: m.Path(), SHA256: m.SHA256(), Opset: m.Opset(), Producer: m.Producer(),
		Inputs: m.Inputs(), Outputs: m.Outputs(),
	}
}
