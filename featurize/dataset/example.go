package dataset

import (
	"fmt"
	"reflect"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// An Array is one named tensor of one example, without a batch dimension.
type Array struct {
	Name   string // the input it is meant for; "" is the model's only input
	Shape  []int  // may be shared by the examples of a dataset: not to be modified
	Layout tensor.Layout

	Orientation uint8 // EXIF's of an image in a file, by which Data is not turned: 1 to 8, or 0 for none
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

// Bytes returns about how much memory the example takes.
func (e *Example) Bytes() int {
	n := len(e.Encoded)
	for _, a := range e.Inputs {
		if v := reflect.ValueOf(a.Data); v.Kind() == reflect.Slice {
			n += v.Len() * int(v.Type().Elem().Size())
		}
	}
	return n
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

// A refusal is what is wrong with a whole file, not with a line.
type refusal struct{ msg string }

func (e *refusal) Error() string { return e.msg }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

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

	// IgnoreUnknownLabels says that an example whose label is none of the K classes has none, instead of
	// being an error. It means nothing to MultiLabel. Caches of features know it by its first name.
	IgnoreUnknownLabels bool `json:"StrayLabels"`

	// MultiLabel says that the head tells K labels independently of each other:
	// labels are K numbers an example, each 0 or 1, and come as Example.Targets.
	MultiLabel bool `json:",omitempty"`

	// Inputs names the model's inputs. An .npz with several arrays is then
	// read only as far as they are named here. Nil takes all its arrays.
	Inputs []string

	// Widths says how many numbers one example has in each of Inputs, 0 where
	// that is open. A table's columns are told apart by it. May be nil.
	Widths []int `json:",omitempty"`

	// Shard is the part of the slice that is read, and that the fingerprint is of. A stream is all of
	// its shard: it decides the position of its first example, (Index-1)·StreamPositions.
	Shard rows.Shard `json:",omitzero"`

	// Fingerprint says that the fingerprint will be asked for: a pass over the examples hashes what
	// it reads.
	Fingerprint bool `json:"-"`

	// Stream is what a SPEC of - reads. Nil is the process's standard input.
	Stream *Stream `json:"-"`
}

// A Spec is a SPEC taken apart: format:path[from:to].
type Spec struct {
	Format   string // "" to be recognised
	Path     string
	From, To int // of the slice; To is -1 for the end
	sliced   bool
	several  bool // Path is a pattern
}

// maxFeatures bounds d and K, so that a block of examples has a sane size.
const maxFeatures = 1 << 20
