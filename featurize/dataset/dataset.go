package dataset

import (
	"context"
	"fmt"
	"iter"
	"math"
)

// Options says what the caller knows about the classes and wants from the
// source. The zero value takes everything as it comes.
type Options struct {
	// LabelClasses are the model's class names in label order, used to map
	// folder names to labels. May be nil.
	LabelClasses []string

	// Classes is K: labels must lie in [0,K). Zero means unknown, and then
	// labels need only be non-negative.
	Classes int

	// Unlabelled says that labels are not wanted, as for out-of-distribution data whose classes are
	// not the model's: none are read or checked, and HasLabels reports false.
	Unlabelled bool

	// StrayLabels says that a label outside [0,K) makes an example without a
	// label, instead of an error. It means nothing to MultiLabel.
	StrayLabels bool

	// MultiLabel says that the head tells K labels independently of each other:
	// labels are K numbers an example, each 0 or 1, and come as Example.Targets.
	MultiLabel bool `json:",omitempty"`

	// Inputs names the model's inputs. An .npz with several arrays is then
	// read only as far as they are named here. Nil takes all its arrays.
	Inputs []string

	// Widths says how many numbers one example has in each of Inputs, 0 where
	// that is open. A table's columns are told apart by it. May be nil.
	Widths []int `json:",omitempty"`

	// Fingerprint says that the fingerprint will be asked for: a pass over the examples hashes what
	// it reads.
	Fingerprint bool `json:"-"`
}

// Layout says what the axes of an image mean.
type Layout string

const (
	None Layout = ""    // not an image, or not known
	HW   Layout = "HW"  // height, width: one grey channel
	HWC  Layout = "HWC" // channels last
	CHW  Layout = "CHW" // channels first
)

// An Array is one named tensor of one example, without a batch dimension.
type Array struct {
	Name   string // the input it is meant for; "" is the model's only input
	Shape  []int  // may be shared by the examples of a dataset: not to be modified
	Layout Layout

	// Data holds the elements in row-major order: []uint8, []int8, []uint16, []int16, []uint32,
	// []int32, []uint64, []int64, []float32 (also for float16 sources), []float64, []bool or
	// []string; or Text, which has yet to become one of them. It belongs to the receiver.
	Data any
}

// An Example is one record of a dataset. Either Inputs or Encoded is set.
type Example struct {
	Index   int     // position in the source, before slicing
	Name    string  // for messages: a file's relative path, also in an archive, or file[index]
	Label   int     // class in [0,K), or -1 where there is none
	Targets []uint8 // under MultiLabel: K times 0 or 1, or nil where there are none
	Inputs  []Array
	Encoded []byte // a PNG or JPEG file: see Decode
}

// A RecordError concerns one record only: the rest of the dataset can be used.
type RecordError struct {
	Name  string
	Index int
	Err   error
}

func (e *RecordError) Error() string { return e.Name + ": " + e.Err.Error() }
func (e *RecordError) Unwrap() error { return e.Err }

// Ignored counts files that were passed over for one reason.
type Ignored struct {
	Reason string // "not PNG or JPEG"
	Count  int
	First  string // path of the first such file
}

// A Dataset is an open source of examples. Its methods may be called
// concurrently, each pass of Examples on its own.
type Dataset struct {
	opened
	classes int
	stray   bool
	multi   bool
}

// Open opens the dataset named by spec; see the package documentation for its
// syntax. The error is one line that names the file.
func Open(spec string, o Options) (*Dataset, error) {
	if o.Classes < 0 {
		panic(fmt.Sprintf("dataset: Options.Classes is %d", o.Classes))
	}
	if o.LabelClasses != nil && o.Classes > 0 && len(o.LabelClasses) != o.Classes {
		return nil, fmt.Errorf("there are %d class names for a model of %d classes", len(o.LabelClasses), o.Classes)
	}
	s, err := ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	src, err := openSource(s, o)
	if err != nil {
		return nil, err
	}
	d := &Dataset{opened: opened{spec: spec, src: src}, classes: o.Classes, stray: o.StrayLabels, multi: o.MultiLabel}
	if err := d.open(s, src.base().Count, src.base().Format, o.Fingerprint); err != nil {
		src.Close()
		return nil, err
	}
	return d, nil
}

// Format returns the recognised format, as in format:path.
func (d *Dataset) Format() string { return d.src.base().Format }

// Ragged reports whether the arrays of one example may have another shape than those of the next,
// as sequences do that are written as JSON lines. Encoded images are none of them.
func (d *Dataset) Ragged() bool { return d.src.base().Ragged }

// IsText reports whether examples are written as text, value by value: one that
// does not suit the model is then no more than a bad record.
func (d *Dataset) IsText() bool { return d.src.base().Text }

// Classes returns the names of the class folders in byte-wise order, nil where there are none. The
// order is not that of the labels where folders are mapped by class name or integer.
func (d *Dataset) Classes() []string { return d.src.base().Classes }

// Ignored returns what lay in the dataset's folder or archive and was passed over.
func (d *Dataset) Ignored() []Ignored { return d.src.base().Ignored }

// Examples reads the examples in order. An error of type *RecordError concerns
// the one record that comes with it (its Index, Name and Label are set), and
// the iteration goes on; any other error ends it.
func (d *Dataset) Examples(ctx context.Context) iter.Seq2[Example, error] {
	checked := d.HasLabels() && !d.multi // targets are checked where they are read
	return func(yield func(Example, error) bool) {
		d.src.Examples(d.from, d.to, func(e Example, err error) bool {
			if cause := context.Cause(ctx); cause != nil {
				yield(Example{Label: -1}, cause)
				return false
			}
			if err == nil && checked && (e.Label < 0 || d.classes > 0 && e.Label >= d.classes) {
				if !d.stray {
					yield(e, labelRangeError(e, d.classes))
					return false
				}
				e.Label = -1
			}
			return yield(e, err)
		})
	}
}

func labelRangeError(e Example, classes int) error {
	return fmt.Errorf("%s: %s", e.Name, labelRange(e.Label, classes))
}

// labelRange words where a label should lie.
func labelRange(label, classes int) string {
	if classes == 0 {
		return fmt.Sprintf("label %d is negative", label)
	}
	return fmt.Sprintf("label %d is outside [0,%d), the model's classes", label, classes)
}

// singleLabels refuses labels of one class an example under MultiLabel.
func singleLabels(path string, o Options) error {
	if !o.MultiLabel || o.Unlabelled {
		return nil
	}
	return fmt.Errorf("%s: its labels are one class an example; want %s: labels [N,K] in an .npz, or lists in JSON lines",
		path, wantTargets(o.Classes))
}

// wantTargets words what labels a multi-label head of k labels wants.
func wantTargets(k int) string {
	if k == 0 {
		return "a 0 or 1 for each of the head's labels"
	}
	return fmt.Sprintf("a 0 or 1 for each of the head's %d labels", k)
}

// mul multiplies sizes, reporting false on overflow or a negative factor.
func mul(factors ...int) (int, bool) {
	p := 1
	for _, f := range factors {
		if f < 0 || f > 0 && p > math.MaxInt/f {
			return 0, false
		}
		p *= f
	}
	return p, true
}
