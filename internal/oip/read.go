package oip

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/internal/jsontensor"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Parameters that say where the elements of tensors are.
const (
	binarySize   = "binary_data_size"   // of a tensor: its number of bytes after the JSON
	binaryAll    = "binary_data_output" // of a request: all outputs after the JSON
	binaryOne    = "binary_data"        // of an output: its bytes are after the JSON
	classes      = "classification"     // of an output: its largest classes
	sharedRegion = "shared_memory_region"
)

// ReadRequest reads the body of a request. header is the value of [Header], "" if it is absent and the whole body is
// JSON. Data are lists of elements, flat or nested like the shape. Floats may be NaN, Infinity and -Infinity, as in
// Triton, but not null. Binary tensors may share the memory of body.
func ReadRequest(body []byte, header string, l Limits) (*Request, error) {
	r := &Request{}
	d, err := newReader(body, header, l)
	if err == nil {
		err = d.request(r)
	}
	if err = d.end("request", err); err != nil {
		return nil, err
	}
	return r, nil
}

// ReadResponse reads the body of a response, as ReadRequest does that of a request.
func ReadResponse(body []byte, header string, l Limits) (*Response, error) {
	r := &Response{}
	d, err := newReader(body, header, l)
	if err == nil {
		err = d.response(r)
	}
	if err = d.end("response", err); err != nil {
		return nil, err
	}
	return r, nil
}

// A reader reads one body.
type reader struct {
	jsontensor.Parser
	tail   []byte // unread bytes after the JSON
	texts  int64  // bound of the bytes of strings in the JSON; 0 once memory for them is reserved
	limits Limits
	budget budget
}

func newReader(body []byte, header string, l Limits) (*reader, error) {
	l = l.withDefaults()
	d := &reader{limits: l, budget: l.budget()}
	if int64(len(body)) > l.Bytes {
		return d, Errorf(TooLarge, "a body of %d bytes: at most %d are taken", len(body), l.Bytes)
	}
	n := len(body)
	if header != "" {
		v, err := strconv.ParseUint(header, 10, 63)
		if err != nil || v > uint64(n) {
			return d, Errorf(Invalid, "%s %s: want the length of the JSON, which is at most that of the body, %d",
				Header, show(header), n)
		}
		n = int(v)
	}
	d.Parser = jsontensor.Parser{Text: body[:n:n], Strict: true}
	d.tail, d.texts = body[n:], int64(n)
	return d, nil
}

// end gives an error the status Invalid if it has none, and refuses trailing bytes.
func (d *reader) end(what string, err error) error {
	if err == nil && len(d.tail) > 0 {
		err = fmt.Errorf("%d bytes are left after those of the tensors", len(d.tail))
	}
	return classified(what, err)
}

// classified gives an error the status Invalid if it has none.
func classified(what string, err error) error {
	if e := (*Error)(nil); err == nil || errors.As(err, &e) {
		return err
	}
	return Errorf(Invalid, "%s: %w", what, err)
}

// object reads an object and refuses duplicate keys.
func (d *reader) object(member func(key string) error) error {
	seen := map[string]bool{}
	return d.Members(func(key string) error {
		if seen[key] {
			return fmt.Errorf("%s comes twice", show(key))
		}
		if len(seen) == maxParameters {
			return fmt.Errorf("more than %d members of an object", maxParameters)
		}
		seen[key] = true
		d.Peek()
		return member(key)
	})
}

// null reads null, which is the same as an absent member.
func (d *reader) null() bool { return d.Literal("null") }

func (d *reader) request(r *Request) error {
	var outputs []wantedOutput
	inputs := false
	err := d.whole(func(key string) (err error) {
		switch {
		case key == "inputs":
			inputs = true
			r.Inputs, err = d.tensors("input")
		case d.null():
		case key == "id":
			r.ID, err = d.text(key)
		case key == "parameters":
			r.Parameters, err = d.parameters()
		case key == "outputs":
			outputs, err = d.wantedOutputs()
		default: // such as "model_name", which KServe's client writes
			err = d.Skip(0)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !inputs {
		return errors.New(`"inputs" is missing`)
	}
	return r.setOutputs(outputs)
}

func (d *reader) response(r *Response) error {
	return d.whole(func(key string) (err error) {
		switch {
		case key == "outputs":
			r.Outputs, err = d.tensors("output")
		case d.null():
		case key == "id":
			r.ID, err = d.text(key)
		case key == "model_name":
			r.Model, err = d.text(key)
		case key == "model_version":
			r.Version, err = d.text(key)
		case key == "parameters":
			r.Parameters, err = d.parameters()
		default:
			err = d.Skip(0)
		}
		return err
	})
}

// whole reads an object that nothing follows.
func (d *reader) whole(member func(key string) error) error {
	if err := d.object(member); err != nil {
		return err
	}
	if d.Peek(); d.Pos < len(d.Text) {
		return fmt.Errorf("broken JSON: something follows the object at byte %d", d.Pos)
	}
	return nil
}

// text reads a string of limited length, the value of key.
func (d *reader) text(key string) (string, error) {
	s, err := d.String()
	if err == nil {
		err = checkLength(s)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", show(key), err)
	}
	return s, nil
}

// list reads a list of at most Limits.Tensors entries.
func (d *reader) list(entry func() error) error {
	if d.Peek() != '[' {
		return fmt.Errorf("broken JSON: want a list at byte %d", d.Pos)
	}
	d.Pos++
	n := 0
	_, err := d.Elements(func() error {
		if n++; n > d.limits.Tensors {
			return Errorf(TooLarge, "more than %d entries", d.limits.Tensors)
		}
		d.Peek()
		return entry()
	})
	return err
}

// tensors reads a list of tensors; what names their kind in errors.
func (d *reader) tensors(what string) (all []tensor.Tensor, err error) {
	err = d.list(func() error {
		t := draft{data: -1}
		if err := d.object(func(key string) error { return d.tensorMember(&t, key) }); err != nil {
			return fmt.Errorf("%s %s: %w", what, t.label(len(all)), err)
		}
		if err := d.finish(&t); err != nil {
			return fmt.Errorf("%s %s: %w", what, t.label(len(all)), err)
		}
		if slices.ContainsFunc(all, func(o tensor.Tensor) bool { return o.Name == t.Name }) {
			return fmt.Errorf("%s %q comes twice", what, t.Name)
		}
		all = append(all, t.Tensor)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%ss: %w", what, err)
	}
	return all, nil
}

// A draft is a tensor whose members are being read.
type draft struct {
	tensor.Tensor
	typ        tensor.Type
	shaped     bool
	parameters Parameters
	data       int // position of its unread data; -1: none
}

// label names a tensor in errors: by its name, or by its index if the name is not known.
func (t *draft) label(i int) string {
	if t.Name != "" {
		return show(t.Name)
	}
	return strconv.Itoa(i)
}

func (d *reader) tensorMember(t *draft, key string) (err error) {
	switch {
	case key == "name":
		t.Name, err = d.text(key)
	case key == "datatype":
		var name string
		if name, err = d.text(key); err == nil {
			t.typ, err = typeOf(name)
		}
	case key == "shape":
		t.Shape, err = d.shape()
		t.shaped = err == nil
	case d.null():
	case key == "parameters":
		t.parameters, err = d.parameters()
	case key == "data" && t.typ != tensor.Undefined && t.shaped:
		err = d.elements(t)
	case key == "data": // before its datatype and shape
		t.data = d.Pos
		err = d.Skip(0)
	default:
		err = d.Skip(0)
	}
	return err
}

// shape reads a list of sizes.
func (d *reader) shape() ([]int64, error) {
	shape := []int64{}
	if d.Peek() != '[' {
		return nil, errors.New("shape: want a list of whole numbers")
	}
	d.Pos++
	_, err := d.Elements(func() error {
		v, err := d.Scalar()
		size, whole := v.(int64)
		switch {
		case err != nil:
		case !whole:
			err = fmt.Errorf("want whole numbers, got %s", show(v))
		case len(shape) == maxDims:
			err = fmt.Errorf("more than %d dimensions", maxDims)
		}
		shape = append(shape, size)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shape: %w", err)
	}
	return shape, nil
}

// elements reads the data of a tensor with known type and shape.
func (d *reader) elements(t *draft) error {
	n, err := d.budget.take(t.typ, t.Shape)
	if err != nil {
		return err
	}
	if t.typ.IsBits() {
		return fmt.Errorf("%s has no form in JSON: send it as binary data", Datatype(t.typ))
	}
	room := int64(len(d.Text)-d.Pos) / 2 // a digit and a comma each
	if err := d.budget.keep(t.typ, min(n, room), d.texts); err != nil {
		return err
	}
	if t.typ == tensor.String {
		d.texts = 0
	}
	if t.Data, err = d.Typed(t.typ, t.Shape); err != nil {
		return fmt.Errorf("data of %s %s, which are %d elements: %w", Datatype(t.typ), tensor.FormatShape(t.Shape), n, err)
	}
	return nil
}

// finish reads the data of a tensor if they came before its type and shape, and checks that nothing is missing.
func (d *reader) finish(t *draft) error {
	if t.Name == "" {
		return errors.New(`"name" is missing`)
	}
	if t.typ == tensor.Undefined {
		return errors.New(`"datatype" is missing`)
	}
	if !t.shaped {
		return errors.New(`"shape" is missing`)
	}
	if _, ok := t.parameters[sharedRegion]; ok {
		return Errorf(Unsupported, "shared memory is not supported: send the data")
	}
	size, binary := t.parameters[binarySize]
	switch {
	case binary && (t.data >= 0 || t.Data != nil):
		return fmt.Errorf(`both "data" and %q: want one of them`, binarySize)
	case binary:
		return d.binary(t, size)
	case t.data >= 0:
		after := d.Pos
		d.Pos = t.data
		err := d.elements(t)
		d.Pos = after
		return err
	case t.Data == nil:
		return fmt.Errorf(`neither "data" nor %q`, binarySize)
	}
	return nil
}

// binary reads the data of a tensor from the bytes after the JSON.
func (d *reader) binary(t *draft, size any) error {
	n, ok := size.(int64)
	if !ok || n < 0 {
		return fmt.Errorf("%s %s: want a number of bytes", binarySize, show(size))
	}
	if n > int64(len(d.tail)) {
		return fmt.Errorf("%s %d: only %d bytes are left after the JSON, which ends where %s says",
			binarySize, n, len(d.tail), Header)
	}
	elements, err := d.budget.take(t.typ, t.Shape)
	if err != nil {
		return err
	}
	t.Data, err = d.budget.decode(t.typ, elements, d.tail[:n:n])
	d.tail = d.tail[n:]
	return err
}

// parameters reads an object of scalars.
func (d *reader) parameters() (Parameters, error) {
	p := Parameters{}
	err := d.object(func(key string) error {
		if c := d.Peek(); c == '{' || c == '[' {
			return fmt.Errorf("%s: want a string, a number, true or false", show(key))
		}
		v, err := d.Scalar()
		if x, ok := v.(float64); ok && (math.IsNaN(x) || math.IsInf(x, 0)) {
			return fmt.Errorf("%s: want a finite number, got %v", show(key), x)
		}
		if v != nil { // null is the same as absent
			p[key] = v
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	return p, nil
}

// wantedOutputs reads the list of outputs that a request asks for.
func (d *reader) wantedOutputs() (all []wantedOutput, err error) {
	err = d.list(func() error {
		var w wantedOutput
		err := d.object(func(key string) (err error) {
			switch {
			case key == "name":
				w.name, err = d.text(key)
			case d.null():
			case key == "parameters":
				w.parameters, err = d.parameters()
			default:
				err = d.Skip(0)
			}
			return err
		})
		all = append(all, w)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("outputs: %w", err)
	}
	return all, nil
}
