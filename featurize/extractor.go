package featurize

import (
	"context"
	"errors"
	"fmt"
	goimage "image"
	"math"
	"slices"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
)

// Config says what an Extractor runs. Model and Head must be set.
type Config struct {
	Model *onnx.Model
	Head  *onnx.Head

	// Preprocess turns images into the model's input. Nil takes the default for
	// the input: uint8 → x/255, layout and flattening as it wants, never a resize.
	Preprocess *preprocess.Spec

	Batch    int    // examples per inference; 0 chooses. A model with a fixed batch keeps its own
	Threads  int    // of one inference; 0 is one for each CPU
	Provider string // one of ort.Providers; "" is the CPU
}

// Extractor runs a cut model. It is safe for concurrent use.
type Extractor struct {
	session *ort.Session
	inputs  []input
	fixed   bool // the graph runs batches of exactly this size
	chosen  bool // nobody asked for this size
	batch   int
	d, k    int // features and logits per example

	// identity of what is run, for cache keys
	cut                               *onnx.Model
	model, features, logits, provider string
}

// input is one of the model's inputs and how it is filled.
type input struct {
	info onnx.ValueInfo
	pipe *preprocess.Pipeline // its sizes may be open
}

// Rows are n consecutive results: features [n,d] and logits [n,K], row-major.
type Rows struct {
	N        int
	Features []float32
	Logits   []float32
}

// ErrSeveralInputs is that of preprocessing for a model that takes ready arrays.
var ErrSeveralInputs = errors.New("preprocessing is for models with one image input")

// New cuts the model and prepares it to run. The runtime's library must be
// loaded (ort.Load), and the caller closes the Extractor.
func New(c Config) (*Extractor, error) {
	cut, err := onnx.Cut(c.Model, c.Head)
	if err != nil {
		return nil, err
	}
	graph, folder, err := cut.Runnable()
	if err != nil {
		return nil, err
	}
	e := &Extractor{
		d: c.Head.FeatureDim, k: c.Head.Classes, cut: cut,
		model: c.Model.SHA256(), features: c.Head.Features, logits: c.Head.Logits, provider: c.Provider,
	}
	if e.provider == "" {
		e.provider = ort.CPU
	}
	infos := cut.Inputs()
	if len(infos) == 0 {
		return nil, errors.New("the model has no inputs that its logits depend on")
	}
	if c.Preprocess != nil && len(infos) > 1 {
		return nil, fmt.Errorf("the model has %d inputs: %w", len(infos), ErrSeveralInputs)
	}
	for _, info := range infos {
		in, err := newInput(info, c.Preprocess, len(infos) == 1)
		if err != nil {
			return nil, err
		}
		e.inputs = append(e.inputs, in)
	}
	if e.fixed, e.batch, err = batchSize(e.inputs, c.Batch); err != nil {
		return nil, err
	}
	e.chosen = c.Batch == 0 && !e.fixed
	outputs := cut.Outputs()
	e.session, err = ort.NewSession(ort.SessionConfig{
		Graph: graph, Folder: folder,
		Inputs:  names(infos),
		Outputs: names(outputs),
		Threads: c.Threads, Provider: c.Provider,
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

func names(infos []onnx.ValueInfo) []string {
	n := make([]string, len(infos))
	for i, v := range infos {
		n[i] = v.Name
	}
	return n
}

// newInput prepares to fill an input, by the default preprocessing where spec is
// nil. only says that the model has no other.
func newInput(info onnx.ValueInfo, spec *preprocess.Spec, only bool) (input, error) {
	switch {
	case info.Type == onnx.Undefined:
		return input{}, fmt.Errorf("input %q is a sequence, a map or optional; want a tensor: export the model with tensors as inputs", info.Name)
	case info.Shape == nil:
		return input{}, fmt.Errorf("input %q has no declared shape; want at least its number of axes", info.Name)
	}
	target := preprocess.Target{Name: info.Name, Elem: info.Type.String()}
	for _, d := range info.Shape {
		target.Shape = append(target.Shape, d.Value)
	}
	if spec == nil {
		s := preprocess.For(target)
		if !only && len(info.Shape) < 4 {
			s.Scale = 0 // bytes beside other inputs are masks and categories, not pixels
		}
		spec = &s
	}
	pipe, err := preprocess.New(*spec, target)
	if err != nil {
		return input{}, err
	}
	if _, err := alloc(target.Elem, 0); err != nil {
		return input{}, fmt.Errorf("input %q: %w", info.Name, err)
	}
	return input{info: info, pipe: pipe}, nil
}

// maxBatchElements bounds the elements of one batch of inputs where the batch
// size is not given: 16 images of 3×224×224.
const (
	maxBatchElements = 2_500_000
	maxBatch         = 256
)

// weight is how many numbers the network makes of one of an input's elements: a
// token becomes an embedding.
func (in *input) weight() float64 {
	if t := in.info.Type; t == onnx.Int32 || t == onnx.Int64 {
		return 256
	}
	return 1
}

// open reports whether the model leaves sizes of its inputs open.
func (e *Extractor) open() bool {
	return slices.ContainsFunc(e.inputs, func(in input) bool { return !in.pipe.Resolved() })
}

// most returns how many examples of the given sizes are run at once.
func (e *Extractor) most(pipes []*preprocess.Pipeline) int {
	if !e.chosen {
		return e.batch
	}
	elements := 1.0
	for i, p := range pipes {
		elements = max(elements, float64(p.Len())*e.inputs[i].weight())
	}
	return int(max(1, min(float64(e.batch), maxBatchElements/elements)))
}

// openElements is a guess at the product of sizes that nothing has settled yet,
// by their number: an image's.
var openElements = []float64{1, 224, 224 * 224, 3 * 224 * 224}

// batchSize returns how many examples one inference takes, and whether the
// graph insists on it.
func batchSize(inputs []input, asked int) (fixed bool, batch int, err error) {
	elements, work := 1.0, 1.0
	for _, in := range inputs {
		n, open := 1.0, 0
		for _, d := range in.pipe.Shape() {
			if d < 0 {
				open++
			} else {
				n *= float64(d)
			}
		}
		n *= openElements[min(open, len(openElements)-1)]
		elements, work = max(elements, n), max(work, n*in.weight())
		if b := int(in.info.Shape[0].Value); b > 0 {
			if fixed && b != batch {
				return false, 0, fmt.Errorf("the model's inputs have batches of %d and of %d", batch, b)
			}
			fixed, batch = true, b
		}
	}
	switch {
	case asked < 0:
		return false, 0, fmt.Errorf("batches of %d examples, want a positive number, or 0 to choose", asked)
	case fixed && float64(batch)*elements > math.MaxInt32:
		return false, 0, fmt.Errorf("the model takes batches of exactly %d examples, %.3g numbers in all: export it with an open first axis", batch, float64(batch)*elements)
	case fixed:
		return true, batch, nil
	case asked > 0:
		return false, asked, nil
	}
	batch = maxBatch
	for batch > 1 && float64(batch)*work > maxBatchElements {
		batch /= 2
	}
	return false, batch, nil
}

// Batch returns how many examples one inference takes.
func (e *Extractor) Batch() int { return e.batch }

// FeatureDim returns d.
func (e *Extractor) FeatureDim() int { return e.d }

// Logits returns K.
func (e *Extractor) Logits() int { return e.k }

// Inputs describes what Run takes, in the model's order: those of its inputs
// that the logits depend on.
func (e *Extractor) Inputs() []onnx.ValueInfo { return e.cut.Inputs() }

// InputNames returns the names of Inputs.
func (e *Extractor) InputNames() []string { return names(e.Inputs()) }

// InputWidths returns how many numbers one example has in each of Inputs, 0
// where the model leaves that open: dataset.Options.Widths.
func (e *Extractor) InputWidths() []int {
	widths := make([]int, len(e.inputs))
	for i, in := range e.inputs {
		widths[i] = max(0, in.pipe.Len())
	}
	return widths
}

// Preprocess returns the preprocessing with everything written out that the
// model's input decides, or nil for a model with several inputs, which takes
// ready arrays only.
func (e *Extractor) Preprocess() *preprocess.Spec {
	if len(e.inputs) > 1 {
		return nil
	}
	s := e.inputs[0].pipe.Spec()
	return &s
}

// Close releases the runtime's memory.
func (e *Extractor) Close() error { return e.session.Close() }

// Run evaluates ready model inputs of n examples each, n being the first
// dimension of all of them. Any n is run, in batches the model can take.
func (e *Extractor) Run(ctx context.Context, inputs []ort.Tensor) (Rows, error) {
	n, err := e.count(inputs)
	if err != nil {
		return Rows{}, err
	}
	if 0 < n && n <= e.batch {
		return e.infer(ctx, slices.Clone(inputs), n)
	}
	out := Rows{N: n, Features: make([]float32, 0, n*e.d), Logits: make([]float32, 0, n*e.k)}
	for first := 0; first < n; first += e.batch {
		part := make([]ort.Tensor, len(inputs))
		for i, t := range inputs {
			part[i] = slice(t, first, min(first+e.batch, n))
		}
		rows, err := e.infer(ctx, part, min(e.batch, n-first))
		if err != nil {
			return Rows{}, err
		}
		out.Features, out.Logits = append(out.Features, rows.Features...), append(out.Logits, rows.Logits...)
	}
	return out, nil
}

// count checks that the inputs agree about n.
func (e *Extractor) count(inputs []ort.Tensor) (int, error) {
	if len(inputs) != len(e.inputs) {
		return 0, fmt.Errorf("got %d inputs, want %d: %q", len(inputs), len(e.inputs), e.InputNames())
	}
	n := -1
	for _, t := range inputs {
		if len(t.Shape) == 0 {
			return 0, fmt.Errorf("input %q has no batch axis", t.Name)
		}
		if n >= 0 && int(t.Shape[0]) != n {
			return 0, fmt.Errorf("input %q holds %d examples, another %d", t.Name, t.Shape[0], n)
		}
		n = int(t.Shape[0])
		size := int64(1)
		for i, d := range t.Shape {
			// Without the second condition n examples of nothing would cost n
			// rows of results.
			if d < 0 || i > 0 && d == 0 || d > 0 && size > math.MaxInt32*1024/d {
				return 0, fmt.Errorf("input %q has shape %v, want positive sizes", t.Name, t.Shape)
			}
			size *= d
		}
		if got := length(t.Data); int64(got) != size {
			return 0, fmt.Errorf("input %q has %d values for shape %v, want %d", t.Name, got, t.Shape, size)
		}
	}
	return n, nil
}

// infer runs one batch of n ≤ e.batch examples, filled up for a fixed batch, for
// which it changes inputs.
func (e *Extractor) infer(ctx context.Context, inputs []ort.Tensor, n int) (Rows, error) {
	if e.fixed && n < e.batch {
		for i, t := range inputs {
			inputs[i] = pad(t, e.batch)
		}
	}
	outputs, err := e.session.Run(ctx, inputs)
	if err != nil {
		return Rows{}, err
	}
	rows := Rows{N: n}
	for i, want := range []int{e.d, e.k} {
		data, ok := outputs[i].Data.([]float32)
		size := e.batch
		if !e.fixed {
			size = n
		}
		if !ok || len(data) != size*want {
			return Rows{}, fmt.Errorf("the model gave %v %s for %d examples as %s, want [%d,%d]: is the first axis of its input the batch?",
				outputs[i].Shape, outputs[i].DType(), size, outputs[i].Name, size, want)
		}
		if i == 0 {
			rows.Features = data[:n*want]
		} else {
			rows.Logits = data[:n*want]
		}
	}
	return rows, nil
}

// resolve returns the pipelines of all inputs, with open sizes settled by an
// example.
func (e *Extractor) resolve(ex *dataset.Example) ([]*preprocess.Pipeline, error) {
	pipes := make([]*preprocess.Pipeline, len(e.inputs))
	for i, in := range e.inputs {
		array, err := find(ex, in.info.Name, len(e.inputs) == 1)
		if err != nil {
			return nil, err
		}
		if pipes[i], err = in.pipe.Resolve(image(*array)); err != nil {
			return nil, err
		}
	}
	return pipes, nil
}

// Images preprocesses images for a model with one input, for Run. Where the
// model leaves sizes open, all must have that of the first.
func (e *Extractor) Images(images []goimage.Image) ([]ort.Tensor, error) {
	if len(e.inputs) > 1 {
		return nil, fmt.Errorf("the model has %d inputs, want one that takes images", len(e.inputs))
	}
	if len(images) == 0 {
		return nil, errors.New("no images")
	}
	var b batch
	for i, img := range images {
		array, err := dataset.FromImage(img)
		ex := &dataset.Example{Inputs: []dataset.Array{array}}
		if err == nil && b == nil {
			var pipes []*preprocess.Pipeline
			if pipes, err = e.resolve(ex); err == nil {
				b, err = newBatch(e.inputs, pipes, len(images))
			}
		}
		if err == nil {
			err = b.set(i, ex)
		}
		if err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
	}
	return b.tensors(len(images)), nil
}
