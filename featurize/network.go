package featurize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	goimage "image"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Config says what is run, and how. Model must be set.
type Config struct {
	Model *onnx.Model
	Head  *head.Head // where to cut Model, to get features and logits; nil runs Model as it is

	// Preprocess turns images into the model's input. Nil takes the default for the input: uint8 →
	// x/255, its layout, flattened if need be, never resized.
	Preprocess *preprocess.Spec
	// ArraysOnly says that no preprocessing is known: pixels are the error preprocess.ErrUnknown.
	ArraysOnly bool

	// Doubles allows float64 outputs, which are in Results.Doubles.
	Doubles bool
	// Decoding says that the last two outputs of Model are those of text, see [head.Head.AddDecoding], which are in
	// Results.Texts. It is taken from Head if that is set.
	Decoding *head.Decoding
	// Steps is the number of axes of steps that the outputs of Model have after that of the examples, see [head.Head].
	// It is 0 if Head is set.
	Steps int
	// States are the last inputs and outputs of Model, see [head.Carry]; nil for none.
	States []head.State

	Batch    int    // examples per inference; 0 chooses. A model with a fixed batch keeps it
	Threads  int    // per inference; 0 is one per CPU
	Provider string // one of ort.Providers; "" is the CPU
}

// Network runs a model over examples: cut at its head, or as it is. It is safe for concurrent use.
type Network struct {
	cut     *cut // nil for a model that runs as it is
	session *ort.Session
	infos   []onnx.ValueInfo // of the inputs
	inputs  []input
	outputs []output       // but for those of text
	texts   bool           // there are two more outputs
	reads   *head.Decoding // nil if there is no text, or it is not known how it is read
	steps   int            // axes of steps in the outputs
	states  []head.State   // the last inputs and outputs
	mask    string         // the input that says which steps count, or ""
	fixed   bool           // the graph accepts batches of exactly this size
	chosen  bool           // the size was not asked for
	batch   int
}

// cut is what a network was cut from and where.
type cut struct {
	d, k int // features and logits per example

	// for cache keys
	model, fixed, state, features, logits, kind, provider, runtime string
	decoding                                                       *head.Decoding

	// steps is the number of axes of the steps, one of which the network gives for each example; 0 without any.
	// stepInput and stepShape are its names in the model.
	steps                int
	stepInput, stepShape string
}

// output is one of the model's outputs.
type output struct {
	name   string
	shape  []int64 // of one example: [] or [width]
	width  int     // numbers of one example
	double bool    // float64, else float32
}

// Results are the results of N consecutive examples: for each of the model's outputs, in order, its
// numbers [N] or [N,width], row-major. Output i is in Columns[i], or in Doubles[i] if it is float64;
// the other is nil.
type Results struct {
	N       int
	Columns [][]float32
	Doubles [][]float64
	// Texts holds the texts of N lines, of a network that reads them; else nil.
	Texts []Text
	// Steps holds the lengths of the axes of the N examples' steps, such as [T]; else nil. A network that is cut at its
	// head gives one step of each example. Another gives all: the numbers of an example are then [T,width], or only the
	// steps that count, for an example of a dataset.
	Steps [][]int64
	// Examples holds the positions, labels, targets and names of a dataset's examples, or of all of their steps; nil
	// from Run.
	Examples *rows.Batch
}

// A Text is what a network read in one example.
type Text struct {
	Symbols       []int64   // their numbers, see [head.Decoding]
	Probabilities []float32 // of each
}

// String returns the text, given how it is read.
func (t *Text) String(d *head.Decoding) string {
	var b strings.Builder
	for _, s := range t.Symbols {
		b.WriteString(d.Symbol(s))
	}
	return b.String()
}

// Tags returns the names of tags, "" for steps that do not count.
func (t *Text) Tags(d *head.Decoding) []string {
	tags := make([]string, len(t.Symbols))
	for i, s := range t.Symbols {
		tags[i] = d.Symbol(s)
	}
	return tags
}

// Reading returns what was read, with the label of its example.
func (t *Text) Reading(d *head.Decoding, ex *dataset.Example) (r rows.Reading, err error) {
	labelled := ex.Label >= 0
	if !d.Tags() {
		r.Text = t.String(d)
		if labelled {
			text := ex.Text
			r.Want = &text
		}
		return r, nil
	}
	if r.Tags = t.Tags(d); !labelled {
		return r, nil
	}
	if len(ex.Tags) != len(r.Tags) {
		return r, fmt.Errorf("%d tags for %d steps", len(ex.Tags), len(r.Tags))
	}
	r.WantTags = make([]string, len(ex.Tags))
	for i, tag := range ex.Tags {
		if tag == "" {
			continue
		}
		n, err := strconv.Atoi(tag)
		if err != nil || slices.Contains(d.Alphabet, tag) {
			n = slices.Index(d.Alphabet, tag)
		}
		if r.WantTags[i] = d.Symbol(int64(n)); r.WantTags[i] == "" {
			return r, fmt.Errorf("tag %d is %.40q, want one of the model's %d: %s", i, tag, len(d.Alphabet), dataset.Some(d.Alphabet))
		}
	}
	return r, nil
}

// Rows returns the features, if there are any, and logits of a network cut at its head.
func (r Results) Rows() *rows.Batch {
	b := r.Examples
	if b == nil {
		b = &rows.Batch{N: r.N}
	}
	if b.Logits = r.Columns[len(r.Columns)-1]; len(r.Columns) > 1 {
		b.Features = r.Columns[0]
	}
	return b
}

// data returns the numbers of one output.
func (r Results) data(c int) any {
	if r.Doubles[c] != nil {
		return r.Doubles[c]
	}
	return r.Columns[c]
}

// copyFrom copies count numbers of output c from other, from index from there to index to here.
func (r Results) copyFrom(other Results, c, from, to, count int) {
	if r.Doubles[c] != nil {
		copy(r.Doubles[c][to:to+count], other.Doubles[c][from:from+count])
		return
	}
	copy(r.Columns[c][to:to+count], other.Columns[c][from:from+count])
}

// ErrSeveralInputs reports preprocessing for a model with several inputs, which takes ready arrays.
var ErrSeveralInputs = errors.New("preprocessing is for models with one image input")

// New prepares a model to run, cut at c.Head if that is set. All its outputs must be declared as
// float32, or float64 if c.Doubles, of shape [N] or [N,width], where N is the batch. The runtime's
// library must be loaded (ort.Load), and the caller closes the Network.
func New(c Config) (*Network, error) {
	w := &Network{}
	if h := c.Head; h != nil {
		runtime, _ := ort.Loaded()
		w.cut = &cut{
			d: h.Features, k: h.Logits, model: c.Model.SHA256(),
			fixed: c.Model.Metadata()[head.FixedKey], state: c.Model.Metadata()[head.StateKey],
			features: h.FeaturesTensor, logits: h.LogitsTensor, kind: string(h.Kind), decoding: h.Decoding,
			provider: cmp.Or(c.Provider, ort.CPU), runtime: runtime.Version, steps: h.Steps,
		}
		w.texts, c.Decoding = h.Kind.Decodes(), h.Decoding
		if w.texts && h.Decoding == nil {
			c.Batch = 1 // the shape of the results says on which axis the examples are
		}
		var err error
		if c.Model, err = head.Cut(c.Model, h); err != nil {
			return nil, err
		}
	}
	w.steps, w.mask = c.Steps, head.MaskInput(c.Model)
	w.texts, w.reads = w.texts || c.Decoding != nil, c.Decoding
	w.infos, w.states = c.Model.Inputs(), c.States
	w.infos = w.infos[:len(w.infos)-len(w.states)]
	if w.drawsSteps() {
		w.infos, w.cut.stepInput = lastOf(w.infos)
	}
	if len(w.infos) == 0 {
		return nil, errors.New("the model has no inputs that its logits depend on")
	}
	if c.Preprocess != nil && len(w.infos) > 1 {
		return nil, fmt.Errorf("the model has %d inputs: %w", len(w.infos), ErrSeveralInputs)
	}
	for _, info := range w.infos {
		in, err := newInput(info, c, len(w.infos) == 1)
		if err != nil {
			return nil, err
		}
		w.inputs = append(w.inputs, in)
	}
	outputs := c.Model.Outputs()
	numbers := outputs[:len(outputs)-len(w.states)]
	if w.drawsSteps() {
		numbers, w.cut.stepShape = lastOf(outputs)
	}
	if w.texts {
		numbers = outputs[:len(outputs)-2]
	}
	for _, info := range numbers {
		o, err := newOutput(info, c.Doubles, c.Steps)
		if err != nil {
			return nil, err
		}
		w.outputs = append(w.outputs, o)
	}
	var err error
	if w.fixed, w.batch, err = batchSize(w.inputs, c.Batch); err != nil {
		return nil, err
	}
	if w.texts && w.reads == nil && w.batch != 1 {
		return nil, fmt.Errorf("the model takes batches of %d, and to find out how its text is read it must take single examples: export it with an open batch, or one of 1",
			w.batch)
	}
	w.chosen = c.Batch == 0 && !w.fixed
	graph, folder, err := c.Model.Runnable()
	if err != nil {
		return nil, err
	}
	w.session, err = ort.NewSession(ort.SessionConfig{
		Graph: graph, Folder: folder,
		Inputs:  names(c.Model.Inputs()),
		Outputs: names(outputs),
		Threads: c.Threads, Provider: c.Provider,
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// lastOf returns infos without the last, and the name of that.
func lastOf(infos []onnx.ValueInfo) (rest []onnx.ValueInfo, last string) {
	end := len(infos) - 1
	return infos[:end:end], infos[end].Name
}

// newOutput reads the width of an output, after the axes of the examples and steps, from its declaration.
func newOutput(info onnx.ValueInfo, doubles bool, steps int) (output, error) {
	o := output{name: info.Name, width: 1, double: doubles && info.Type == tensor.Float64}
	if info.Type != tensor.Float32 && !o.double || len(info.Shape) <= steps || len(info.Shape) > steps+2 {
		return output{}, fmt.Errorf("output %q is %v, want float32 of shape [N] or [N,width]", info.Name, info)
	}
	for _, d := range info.Shape[1+steps:] {
		if d.Value <= 0 || d.Value > math.MaxInt32 {
			return output{}, fmt.Errorf("output %q is %v, want a declared width", info.Name, info)
		}
		o.shape, o.width = append(o.shape, d.Value), int(d.Value)
	}
	return o, nil
}

func names(infos []onnx.ValueInfo) []string {
	n := make([]string, len(infos))
	for i, v := range infos {
		n[i] = v.Name
	}
	return n
}

// newInput prepares an input. only says that the model has no other.
func newInput(info onnx.ValueInfo, c Config, only bool) (input, error) {
	switch {
	case info.Type == tensor.Undefined:
		return input{}, fmt.Errorf("input %q is a sequence, a map or optional; want a tensor: export the model with tensors as inputs",
			info.Name)
	case info.Shape == nil:
		return input{}, fmt.Errorf("input %q has no declared shape; want at least its number of axes", info.Name)
	}
	target := preprocess.Target{Name: info.Name, Type: info.Type}
	for _, d := range info.Shape {
		target.Shape = append(target.Shape, d.Value)
	}
	var pipe *preprocess.Pipeline
	var err error
	switch {
	case c.Preprocess != nil:
		pipe, err = preprocess.New(*c.Preprocess, target)
	case c.ArraysOnly:
		pipe, err = preprocess.Arrays(target)
	default:
		s := preprocess.For(target)
		if !only && len(info.Shape) < 4 {
			s.Scale = 0 // with several inputs, bytes are masks or categories, not pixels
		}
		pipe, err = preprocess.New(s, target)
	}
	if err != nil {
		return input{}, err
	}
	if _, err := target.Type.Make(0); err != nil {
		return input{}, fmt.Errorf("input %q: %w", info.Name, err)
	}
	return input{info: info, pipe: pipe}, nil
}

// maxBatchElements bounds the elements in a batch whose size is not given: 16 images of 3×224×224.
const (
	maxBatchElements = 2_500_000
	maxBatch         = 256
)

// weight estimates how many numbers the network computes from one element of an input: a token becomes
// an embedding.
func (in *input) weight() float64 {
	if t := in.info.Type; t == tensor.Int32 || t == tensor.Int64 {
		return 256
	}
	return 1
}

// open reports whether the model leaves sizes of its inputs open.
func (w *Network) open() bool {
	return slices.ContainsFunc(w.inputs, func(in input) bool { return !in.pipe.Resolved() })
}

// most returns how many examples of the given sizes run at once.
func (w *Network) most(pipes []*preprocess.Pipeline) int {
	if !w.chosen {
		return w.batch
	}
	elements := 1.0
	for i, p := range pipes {
		elements = max(elements, float64(p.Len())*w.inputs[i].weight())
	}
	return int(max(1, min(float64(w.batch), maxBatchElements/elements)))
}

// openElements guesses the product of n open sizes, as if they were an image's.
var openElements = []float64{1, 224, 224 * 224, 3 * 224 * 224}

// batchSize returns how many examples one inference takes, and whether the graph fixes that.
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
		return false, 0, fmt.Errorf("the model takes batches of exactly %d examples, %.3g numbers in all: export it with an open first axis",
			batch, float64(batch)*elements)
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

// FeatureDim returns d, the features per example of a Network cut at its head.
func (w *Network) FeatureDim() int { return w.mustBeCut("FeatureDim").d }

// Logits returns K, the logits per example of a Network cut at its head.
func (w *Network) Logits() int { return w.mustBeCut("Logits").k }

func (w *Network) mustBeCut(method string) *cut {
	if w.cut == nil {
		panic("featurize: " + method + " needs a network that was cut at its head")
	}
	return w.cut
}

// HasSteps reports whether the model answers for each step of an example, see [Results.Steps].
func (w *Network) HasSteps() bool { return w.steps > 0 || w.drawsSteps() }

// MaskInput returns the name of the input that says which steps count, or "".
func (w *Network) MaskInput() string { return w.mask }

// Batch returns how many examples one inference takes.
func (w *Network) Batch() int { return w.batch }

// Inputs describes what Run takes, in the model's order.
func (w *Network) Inputs() []onnx.ValueInfo { return slices.Clone(w.infos) }

// InputNames returns the names of Inputs.
func (w *Network) InputNames() []string { return names(w.infos) }

// InputWidths returns how many numbers one example has in each of Inputs, 0 if the model leaves that
// open, for dataset.Options.Widths.
func (w *Network) InputWidths() []int {
	widths := make([]int, len(w.inputs))
	for i, in := range w.inputs {
		widths[i] = max(0, in.pipe.Len())
	}
	return widths
}

// Preprocess returns the preprocessing, with everything that depends on the model's input filled in; nil
// for a model with several inputs, which takes ready arrays only.
func (w *Network) Preprocess() *preprocess.Spec {
	if len(w.inputs) > 1 {
		return nil
	}
	s := w.inputs[0].pipe.Spec()
	return &s
}

// TakesImages reports whether the model has one input, and preprocessing for it is known.
func (w *Network) TakesImages() bool { return len(w.inputs) == 1 && w.inputs[0].pipe.TakesImages() }

// Pixels reports whether preprocessing applies to a decoded example: whether it holds pixels, not only
// ready arrays.
func (w *Network) Pixels(ex *dataset.Example) (bool, error) {
	for _, in := range w.inputs {
		array, err := find(ex, in.info.Name, len(w.inputs) == 1)
		if err != nil {
			return false, err
		}
		if in.pipe.Pixels(image(*array)) {
			return true, nil
		}
	}
	return false, nil
}

// Close releases the runtime's memory.
func (w *Network) Close() error { return w.session.Close() }

// Run runs the network on ready inputs [n,…], for any n, in batches that the model accepts. The inputs
// are not copied, nor are the results.
func (w *Network) Run(ctx context.Context, inputs []tensor.Tensor) (Results, error) {
	n, err := w.count(inputs)
	if err != nil {
		return Results{}, err
	}
	if w.steps > 0 {
		return w.runSteps(ctx, inputs, n)
	}
	all := w.results(n, 1)
	for first := 0; first < n; first += w.batch {
		last := min(first+w.batch, n)
		part := make([]tensor.Tensor, len(inputs))
		for i, t := range inputs {
			part[i] = t.Slice(first, last)
		}
		if err := w.infer(ctx, part, w.slice(all, first, last)); err != nil {
			return Results{}, err
		}
	}
	return all, nil
}

// results allocates results for n examples, each run passes times.
func (w *Network) results(n, passes int) Results {
	r := Results{N: n, Columns: make([][]float32, len(w.outputs)), Doubles: make([][]float64, len(w.outputs))}
	if w.texts {
		r.Texts = make([]Text, n)
	}
	if w.drawsSteps() {
		r.Steps = make([][]int64, n)
	}
	for i, o := range w.outputs {
		if o.double {
			r.Doubles[i] = make([]float64, n*passes*o.width)
		} else {
			r.Columns[i] = make([]float32, n*passes*o.width)
		}
	}
	return r
}

// examples returns the numbers of examples first…last-1 of n.
func examples[T any](x []T, n, first, last int) []T {
	width := len(x) / max(1, n)
	return x[first*width : last*width : last*width]
}

// slice returns the results of examples first…last-1, sharing memory.
func (w *Network) slice(r Results, first, last int) Results {
	part := Results{N: last - first, Columns: make([][]float32, len(w.outputs)),
		Doubles: make([][]float64, len(w.outputs))}
	for i, o := range w.outputs {
		if o.double {
			part.Doubles[i] = examples(r.Doubles[i], r.N, first, last)
		} else {
			part.Columns[i] = examples(r.Columns[i], r.N, first, last)
		}
	}
	if r.Texts != nil {
		part.Texts = r.Texts[first:last:last]
	}
	if r.Steps != nil {
		part.Steps = r.Steps[first:last:last]
	}
	if r.Examples != nil {
		part.Examples = r.Examples.Slice(first, last)
	}
	return part
}

// count returns the number of examples n in the inputs, and checks these.
func (w *Network) count(inputs []tensor.Tensor) (int, error) {
	if len(inputs) != len(w.inputs) {
		return 0, fmt.Errorf("got %d inputs, want %d: %q", len(inputs), len(w.inputs), w.InputNames())
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
			// Without the second condition n empty examples would allocate n rows of results.
			if d < 0 || i > 0 && d == 0 || d > 0 && size > math.MaxInt32*1024/d {
				return 0, fmt.Errorf("input %q has shape %v, want positive sizes", t.Name, t.Shape)
			}
			size *= d
		}
		got := int64(t.Len())
		if got < 0 {
			return 0, fmt.Errorf("input %q has data of type %T, want a slice of values", t.Name, t.Data)
		}
		if got != size {
			return 0, fmt.Errorf("input %q has %d values for shape %v, want %d", t.Name, got, t.Shape, size)
		}
	}
	return n, nil
}

// infer runs one batch of r.N examples, at most w.batch.
func (w *Network) infer(ctx context.Context, inputs []tensor.Tensor, r Results) error {
	if !w.fixed || r.N == w.batch {
		return w.inferInto(ctx, inputs, r)
	}
	full, padded := w.results(w.batch, 1), make([]tensor.Tensor, len(inputs))
	for i, t := range inputs {
		padded[i] = t.Pad(w.batch)
	}
	if err := w.inferInto(ctx, padded, full); err != nil {
		return err
	}
	for i, o := range w.outputs {
		r.copyFrom(full, i, 0, 0, r.N*o.width)
	}
	copy(r.Texts, full.Texts)
	copy(r.Steps, full.Steps)
	return nil
}

// inferPasses runs infer passes times; r is [n,passes,width].
func (w *Network) inferPasses(ctx context.Context, inputs []tensor.Tensor, r Results, passes int) error {
	if passes == 1 {
		return w.infer(ctx, inputs, r)
	}
	one := w.results(r.N, 1)
	for pass := range passes {
		if err := w.infer(ctx, inputs, one); err != nil {
			return err
		}
		copy(r.Texts, one.Texts)
		copy(r.Steps, one.Steps)
		for c, o := range w.outputs {
			for i := range r.N {
				r.copyFrom(one, c, i*o.width, (i*passes+pass)*o.width, o.width)
			}
		}
	}
	return nil
}

// aboutShapes matches the runtime's messages about results of another shape than expected, whichever
// operator reports it.
var aboutShapes = regexp.MustCompile(`(?i)shape|dim`)

// inferInto runs one batch of a size that the graph accepts.
func (w *Network) inferInto(ctx context.Context, inputs []tensor.Tensor, r Results) error {
	into := make([]tensor.Tensor, len(w.outputs))
	for i, o := range w.outputs {
		into[i] = tensor.Tensor{Name: o.name, Shape: append([]int64{int64(r.N)}, o.shape...), Data: r.data(i)}
	}
	if w.texts {
		return w.inferText(ctx, inputs, into, r)
	}
	var shape []int64 // of the steps
	if w.drawsSteps() {
		shape = make([]int64, 1+w.cut.steps)
		into = append(into, tensor.Tensor{Name: w.cut.stepShape, Shape: []int64{int64(len(shape))}, Data: shape})
		if len(inputs) == len(w.inputs) { // the first step of each
			inputs = append(slices.Clip(inputs), w.stepInput(make([]int64, r.N)))
		}
	}
	err := w.session.RunInto(ctx, inputs, into)
	if err == nil && w.drawsSteps() {
		return w.stepsOf(r, shape)
	}
	if err == nil || ctx.Err() != nil || !aboutShapes.MatchString(err.Error()) {
		return err
	}
	// The results may have other shapes than expected, which the runtime reports in many ways: let it
	// allocate them.
	outputs, e := w.session.Run(ctx, inputs)
	if e != nil {
		return err
	}
	if e := sameShapes(outputs, into, r.N); e != nil {
		return e
	}
	return err
}

// sameShapes reports outputs for n examples that have another shape than expected.
func sameShapes(outputs, want []tensor.Tensor, n int) error {
	for i, o := range outputs {
		if want := want[i]; !slices.Equal(o.Shape, want.Shape) {
			return fmt.Errorf("the model gave %v for %d examples, want %v: check that the first axis of its input is the batch",
				ort.Info{Name: o.Name, Type: o.Type(), Shape: o.Shape}, n,
				ort.Info{Name: o.Name, Type: want.Type(), Shape: want.Shape})
		}
	}
	return nil
}

// inferText runs one batch of a network that reads text. The runtime allocates the results, since how long the longest
// text is shows then.
func (w *Network) inferText(ctx context.Context, inputs, into []tensor.Tensor, r Results) error {
	outputs, err := w.session.Run(ctx, inputs)
	if err != nil {
		return err
	}
	numbers := outputs[:len(into)]
	if err := sameShapes(numbers, into, r.N); err != nil {
		return err
	}
	for i, o := range numbers {
		if r.Doubles[i] != nil {
			copy(r.Doubles[i], o.Data.([]float64))
		} else {
			copy(r.Columns[i], o.Data.([]float32))
		}
	}
	texts, probabilities := outputs[len(into)], outputs[len(into)+1]
	if len(texts.Shape) != 2 || texts.Shape[0] != int64(r.N) || !slices.Equal(probabilities.Shape, texts.Shape) {
		return fmt.Errorf("the model gave texts %v with probabilities %v for %d examples", texts.Shape, probabilities.Shape, r.N)
	}
	width := int(texts.Shape[1])
	for i := range r.N {
		symbols := texts.Data.([]int64)[i*width : (i+1)*width]
		if end := slices.Index(symbols, -1); end >= 0 && (w.reads == nil || !w.reads.Tags()) {
			symbols = symbols[:end]
		}
		p := probabilities.Data.([]float32)[i*width:]
		r.Texts[i] = Text{Symbols: slices.Clone(symbols), Probabilities: slices.Clone(p[:len(symbols)])}
	}
	return nil
}

// resolve returns the pipelines of all inputs, with open sizes taken from an example.
func (w *Network) resolve(ex *dataset.Example) ([]*preprocess.Pipeline, error) {
	pipes := make([]*preprocess.Pipeline, len(w.inputs))
	for i, in := range w.inputs {
		array, err := find(ex, in.info.Name, len(w.inputs) == 1)
		if err != nil {
			return nil, err
		}
		if pipes[i], err = in.pipe.Resolve(image(*array)); err != nil {
			return nil, err
		}
	}
	return pipes, nil
}

// Ready decodes and preprocesses one example for Run, with shapes [1,…]. Open sizes of the inputs are
// taken from it.
func (w *Network) Ready(ex *dataset.Example) ([]tensor.Tensor, error) {
	b, err := w.ready(ex)
	if err != nil {
		return nil, err
	}
	return b.tensors(1), nil
}

// ready decodes and preprocesses one example into a batch.
func (w *Network) ready(ex *dataset.Example) (batch, error) {
	if err := ex.Decode(); err != nil {
		return nil, err
	}
	pipes, err := w.resolve(ex)
	if err != nil {
		return nil, err
	}
	b, err := newBatch(w.inputs, pipes, 1)
	if err != nil {
		return nil, err
	}
	return b, b.set(0, ex)
}

// Images preprocesses images for Run, for a model with one input. If the model leaves sizes open, all
// images must have the size of the first.
func (w *Network) Images(images []goimage.Image) ([]tensor.Tensor, error) {
	if len(w.inputs) > 1 {
		return nil, fmt.Errorf("the model has %d inputs, want one that takes images", len(w.inputs))
	}
	if len(images) == 0 {
		return nil, errors.New("no images")
	}
	example := func(i int) (*dataset.Example, error) {
		array, err := dataset.FromImage(images[i])
		return &dataset.Example{Inputs: []dataset.Array{array}}, err
	}
	first, err := example(0)
	var pipes []*preprocess.Pipeline
	if err == nil {
		pipes, err = w.resolve(first)
	}
	if err != nil {
		return nil, fmt.Errorf("image 0: %w", err)
	}
	b, err := newBatch(w.inputs, pipes, len(images))
	if err != nil {
		return nil, err
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	errs := make([]error, len(images))
	for i := range images {
		group.Go(func() error {
			ex, err := example(i)
			if err == nil {
				err = b.set(i, ex)
			}
			errs[i] = err
			return nil
		})
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
	}
	return b.tensors(len(images)), nil
}
