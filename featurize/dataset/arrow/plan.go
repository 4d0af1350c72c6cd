package arrow

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// labelNames are the accepted names of the label's column.
var labelNames = []string{"label", "labels"}

// imageNames are the names by which one of several columns of images is the input.
var imageNames = []string{"image", "img"}

// pandasIndex is pandas' name for the row numbers.
var pandasIndex = regexp.MustCompile(`^__index_level_\d+__$`)

// A plan says how the columns of a file are used.
type plan struct {
	fields  []field
	used    []int // columns that are read
	label   int   // its place among the used, -1 for none
	image   int   // likewise
	inputs  []input
	columns []string // the names of those that feed the only input together, as far as known
	labels  dataset.Labels
	classes []int // the model's class for each of the file's class numbers; nil if they are the same
}

// An input is a model input and the columns that feed it.
type input struct {
	name    string
	columns []int // places among the used
	shape   []int // if each column has one number; nil for a column of lists
	width   int   // how many numbers the model takes, 0 if that is open
}

// newPlan decides which columns feed which inputs, and which is the label.
func newPlan(fields []field, o dataset.Options) (*plan, error) {
	p := &plan{fields: fields, label: -1, image: -1, labels: dataset.NewLabels(o)}
	if len(fields) > maxColumns {
		return nil, fmt.Errorf("%d columns, want at most %d", len(fields), maxColumns)
	}
	label, rest, err := p.findLabel(o)
	if err != nil {
		return nil, err
	}
	if err := p.findInputs(rest, o); err != nil {
		return nil, err
	}
	if label < 0 {
		return p, nil
	}
	f := &fields[label]
	what := fmt.Sprintf("column %q", f.name)
	switch {
	case !f.usable() && !f.bytes:
		return nil, fmt.Errorf("%s holds %s; want class numbers or names", what, f.what)
	case !p.labels.Takes(f.depth == 1, f.elem == tensor.String || f.bytes), f.depth > 1:
		return nil, fmt.Errorf("%s holds %s; %s", what, f.what, p.labels.Want("the head"))
	}
	if f.names != nil {
		if p.classes, err = p.labels.Renumber(f.names); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	p.label = p.use(label)
	return p, nil
}

// use marks a column as used, and returns its index among the used ones.
func (p *plan) use(column int) int {
	p.used = append(p.used, column)
	return len(p.used) - 1
}

// findLabel returns the column of the label, -1 for none or if none is wanted, and the columns that may be
// inputs.
func (p *plan) findLabel(o dataset.Options) (label int, rest []int, err error) {
	label = -1
	var named, labels []int
	for i, f := range p.fields {
		switch {
		case slices.Contains(o.Inputs, f.name):
			rest = append(rest, i)
		case slices.Contains(labelNames, f.name):
			named = append(named, i)
		case f.names != nil:
			labels = append(labels, i)
		case !pandasIndex.MatchString(f.name):
			rest = append(rest, i)
		}
	}
	if len(named) > 0 {
		labels = named
	}
	switch {
	case o.Unlabelled || len(labels) == 0:
	case len(labels) > 1:
		return -1, nil, fmt.Errorf("columns %s could each be the label: name only one of them label",
			dataset.Some(p.names(labels)))
	default:
		label = labels[0]
	}
	return label, rest, nil
}

func (p *plan) names(columns []int) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = p.fields[c].name
	}
	return names
}

// findInputs decides which columns feed the model: those with the names of its inputs; else, for a single
// input, images, the only column or list, or all numbers of a table.
func (p *plan) findInputs(rest []int, o dataset.Options) error {
	which := func(is func(*field) bool) (list []int) {
		for _, c := range rest {
			if is(&p.fields[c]) {
				list = append(list, c)
			}
		}
		return list
	}
	usable, images := which((*field).usable), which(func(f *field) bool { return f.bytes })
	lists := which(func(f *field) bool { return f.usable() && f.depth > 0 })
	numbers := which((*field).scalar)
	name, width := "", 0
	if len(o.Inputs) > 0 {
		name = o.Inputs[0]
	}
	if len(o.Widths) > 0 {
		width = o.Widths[0]
	}
	missing := slices.IndexFunc(o.Inputs, func(name string) bool {
		return !slices.ContainsFunc(usable, func(c int) bool { return p.fields[c].name == name })
	})
	// One number cannot fill a model's only input that takes more.
	row := len(o.Inputs) == 1 && width > 1 && len(numbers) > 1 &&
		slices.ContainsFunc(numbers, func(c int) bool { return p.fields[c].name == name })
	any := len(o.Inputs) <= 1
	switch {
	case len(o.Inputs) > 0 && missing < 0 && !row:
		return p.feedByName(usable, o)
	case any && len(images) > 0:
		return p.feedImages(images, name)
	case len(o.Inputs) == 1 && (len(usable) == 1 || len(lists) == 1):
		p.feed("", slices.Concat(lists, usable)[0], width)
		return nil
	case o.Inputs == nil && len(lists) > 0:
		for _, c := range usable {
			p.feed(p.fields[c].name, c, 0)
		}
		if len(usable) == 1 {
			p.inputs[0].name = ""
		}
		return nil
	case any && len(lists) == 0 && len(numbers) > 0:
		return p.feedTable(numbers, name, width, o)
	case missing >= 0:
		for _, c := range rest {
			if f := p.fields[c]; f.name == o.Inputs[missing] {
				return fmt.Errorf("column %q for the model's input holds %s; want numbers or strings, or lists of them",
					f.name, f.what)
			}
		}
		return fmt.Errorf("no column %q for the model's input; there are %s", o.Inputs[missing], p.listed(rest))
	}
	return fmt.Errorf("no column that could be a model's input; there are %s", p.listed(rest))
}

// listed names columns and their types.
func (p *plan) listed(columns []int) string {
	if len(columns) == 0 {
		return "only the label"
	}
	names := p.names(columns)
	for i, c := range columns {
		names[i] += " (" + p.fields[c].what + ")"
	}
	return dataset.Some(names)
}

// feed makes a column an input.
func (p *plan) feed(name string, column, width int) {
	in := input{name: name, columns: []int{p.use(column)}, width: width}
	f := &p.fields[column]
	if f.depth == 0 {
		in.shape = []int{1}
	}
	if f.shape != nil {
		in.width = 0 // all examples have the same shape: report a mismatch once
	}
	p.inputs = append(p.inputs, in)
}

func (p *plan) feedByName(usable []int, o dataset.Options) error {
	for i, name := range o.Inputs {
		columns := slices.DeleteFunc(slices.Clone(usable), func(c int) bool { return p.fields[c].name != name })
		if len(columns) > 1 {
			return fmt.Errorf("two columns are called %q", name)
		}
		width := 0
		if i < len(o.Widths) {
			width = o.Widths[i]
		}
		if p.fields[columns[0]].depth == 0 && width > 1 {
			return fmt.Errorf("the model's input %q takes %d numbers per example and its column has one; want a list",
				name, width)
		}
		p.feed(name, columns[0], width)
	}
	if len(p.inputs) == 1 {
		p.inputs[0].name = ""
	}
	return nil
}

func (p *plan) feedImages(images []int, name string) error {
	if len(images) == 1 {
		p.image = p.use(images[0])
		return nil
	}
	for _, want := range append([]string{name}, imageNames...) {
		for _, c := range images {
			if p.fields[c].name == want {
				p.image = p.use(c)
				return nil
			}
		}
	}
	return fmt.Errorf("columns %s could each be the image: name only one of them image", dataset.Some(p.names(images)))
}

func (p *plan) feedTable(numbers []int, name string, width int, o dataset.Options) error {
	places, known, err := dataset.InOrder(p.names(numbers), o)
	if err != nil {
		return err
	}
	p.columns = known
	if width > 0 && width != len(places) {
		return fmt.Errorf("%d columns of numbers besides label (%s) for the model's input %q, which takes %d numbers per example",
			len(places), dataset.Some(p.names(numbers)), name, width)
	}
	in := input{shape: []int{len(places)}}
	for _, i := range places {
		in.columns = append(in.columns, p.use(numbers[i]))
	}
	p.inputs = []input{in}
	return nil
}

// ragged reports whether examples may have different shapes.
func (p *plan) ragged() bool {
	return slices.ContainsFunc(p.inputs, func(in input) bool {
		return in.shape == nil && p.fields[p.used[in.columns[0]]].shape == nil
	})
}

// tell sets what is known of the examples. If they may have different shapes, one that does not fit the model
// is a bad record.
func (p *plan) tell(b *dataset.Base) {
	b.Labelled, b.Ragged, b.Text, b.Columns = p.label >= 0, p.ragged(), p.ragged(), p.columns
}

// A cell is the value of a column in one row.
type cell struct {
	data  any   // a slice of the elements' type, or the []byte of an image
	shape []int // nil unless the column has lists
	null  bool
	bad   error // why there is none
}

var errNullInList = errors.New("a null within a list; want a value")

// fill fills an example from a row, which has a cell for each used column.
func (p *plan) fill(e *dataset.Example, row []cell) error {
	for i, c := range row {
		if c.bad != nil {
			return fmt.Errorf("column %q: %w", p.fields[p.used[i]].name, c.bad)
		}
	}
	if p.label >= 0 {
		if err := p.fillLabel(e, &row[p.label]); err != nil {
			return fmt.Errorf("column %q: %w", p.fields[p.used[p.label]].name, err)
		}
	}
	if p.image >= 0 {
		c, name := &row[p.image], p.fields[p.used[p.image]].name
		if c.null {
			return fmt.Errorf("column %q is null; want the bytes of a PNG or JPEG file, not only its path", name)
		}
		image := c.data.([]byte)
		if err := dataset.CheckEncoded(int64(len(image))); err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
		e.Encoded = image
		return nil
	}
	inputs := make([]dataset.Array, len(p.inputs))
	for i := range p.inputs {
		var err error
		if inputs[i], err = p.array(&p.inputs[i], row); err != nil {
			return err
		}
	}
	e.Inputs = inputs
	return nil
}

func (p *plan) fillLabel(e *dataset.Example, c *cell) error {
	data := c.data
	if b, ok := data.([]byte); ok && p.fields[p.used[p.label]].bytes {
		data = []string{string(b)}
	}
	if err := p.labels.Read(e, data, c.shape != nil, c.null); err != nil {
		return err
	}
	if p.classes != nil && e.Steps != nil {
		return p.renumber(e.Steps)
	}
	if p.classes != nil && e.Label >= 0 && !c.null {
		if e.Label >= len(p.classes) {
			return fmt.Errorf("label %d is outside [0,%d), the classes that the file names", e.Label, len(p.classes))
		}
		e.Label = p.classes[e.Label]
	}
	return nil
}

// renumber turns the file's classes of steps into those of the model.
func (p *plan) renumber(steps []int32) error {
	for i, y := range steps {
		if int(y) >= len(p.classes) {
			return fmt.Errorf("step %d: label %d is outside [0,%d), the classes that the file names", i, y, len(p.classes))
		}
		if y >= 0 {
			steps[i] = int32(p.classes[y])
		}
	}
	return nil
}

// array returns the array for one input.
func (p *plan) array(in *input, row []cell) (dataset.Array, error) {
	a := dataset.Array{Name: in.name, Shape: in.shape}
	for _, c := range in.columns {
		f := &p.fields[p.used[c]]
		if !row[c].null {
			continue
		}
		if f.depth > 0 || !f.elem.IsFloat() {
			return a, fmt.Errorf("column %q is null; want a value", f.name)
		}
		row[c].data = []float64{math.NaN()} // as an empty cell of CSV
	}
	if len(in.columns) > 1 {
		a.Data = p.gather(in, row)
		return a, nil
	}
	c := &row[in.columns[0]]
	f := &p.fields[p.used[in.columns[0]]]
	a.Data = c.data
	if in.shape != nil {
		return a, nil
	}
	a.Shape = c.shape
	n := product(c.shape)
	if f.shape != nil {
		if product(f.shape) != n {
			return a, fmt.Errorf("column %q has %d elements; want %v, as its type says", f.name, n, f.shape)
		}
		a.Shape = f.shape
	}
	switch {
	case n == 0:
		return a, fmt.Errorf("column %q: an empty list", f.name)
	case in.width > 0 && n != in.width:
		return a, fmt.Errorf("column %q has %d elements; the model's input takes %d", f.name, n, in.width)
	case f.elem == tensor.Uint8:
		a.Layout = dataset.ImageLayout(f.elem, a.Shape)
	}
	return a, nil
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// gather makes one array of a row of numbers: int64 if all are integers, else float64.
func (p *plan) gather(in *input, row []cell) any {
	whole := !slices.ContainsFunc(in.columns, func(c int) bool {
		f := &p.fields[p.used[c]]
		return f.elem.IsFloat() || f.elem == tensor.Uint64
	})
	if whole {
		out := make([]int64, len(in.columns))
		for i, c := range in.columns {
			_, out[i] = number(row[c].data)
		}
		return out
	}
	out := make([]float64, len(in.columns))
	for i, c := range in.columns {
		out[i], _ = number(row[c].data)
	}
	return out
}

// number returns the first element as either kind of number.
func number(data any) (float64, int64) {
	switch d := data.(type) {
	case []bool:
		if d[0] {
			return 1, 1
		}
		return 0, 0
	case []uint8:
		return float64(d[0]), int64(d[0])
	case []int8:
		return float64(d[0]), int64(d[0])
	case []uint16:
		return float64(d[0]), int64(d[0])
	case []int16:
		return float64(d[0]), int64(d[0])
	case []uint32:
		return float64(d[0]), int64(d[0])
	case []int32:
		return float64(d[0]), int64(d[0])
	case []uint64:
		return float64(d[0]), int64(d[0])
	case []int64:
		return float64(d[0]), d[0]
	case []float32:
		return float64(d[0]), int64(d[0])
	case []float64:
		return d[0], int64(d[0])
	}
	panic(fmt.Sprintf("arrow: a number of type %T", data)) // scalar refuses others
}
