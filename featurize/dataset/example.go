package dataset

import (
	"fmt"
	"reflect"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// An Array is one named tensor of one example, without a batch dimension.
type Array struct {
	Name   string // the model's input; "" is the only one
	Shape  []int  // may be shared between examples: not to be modified
	Layout tensor.Layout

	Orientation uint8 // the EXIF orientation of an image file, 1 to 8, which is not applied to Data; 0 for none
	// Data holds the elements in row-major order: []uint8, []int8, []uint16, []int16, []uint32,
	// []int32, []uint64, []int64, []float32 (also for float16 sources), []float64, []bool or
	// []string; or Text, which is not converted yet. It belongs to the receiver.
	Data any
}

// An Example is one record of a dataset. Either Inputs or Encoded is set.
type Example struct {
	Index   int      // position in the source, before slicing
	Name    string   // for messages: a relative path, in a folder or archive, or file[index]
	Label   int      // class in [0,K), or -1 for none
	Text    string   // under Texts: the right text, where Label is not -1
	Tags    []string // under Tags: names or numbers, "" for a step without one, where Label is not -1
	Steps   []int32  // under Steps: the class of each step, -1 for one without, or nil for none
	Sides   []int    // of a map whose pixels Steps are: [H,W]; nil of a sequence
	Targets []uint8  // under MultiLabel: K times 0 or 1, or nil for none
	Inputs  []Array
	Encoded []byte // a PNG or JPEG file: see Decode

	Stream    string // under Streams: the stream that the example continues, "" for none
	StreamEnd bool   // under Streams: the example is the last of its stream

	labelMap *labelMap // that Decode decodes to Steps, or nil
}

// Bytes estimates the memory that the example takes.
func (e *Example) Bytes() int {
	n := len(e.Encoded) + 4*len(e.Steps)
	if e.labelMap != nil {
		n += len(e.labelMap.encoded)
	}
	for _, a := range e.Inputs {
		if v := reflect.ValueOf(a.Data); v.Kind() == reflect.Slice {
			n += v.Len() * int(v.Type().Elem().Size())
		}
	}
	return n
}

// A labelMap is a PNG file with the class of each pixel of an image, which the caller's workers decode.
type labelMap struct {
	path    string
	encoded []byte
	decode  func(e *Example, m *labelMap) error // sets Steps
}

// readLabels reads the label map's file with a function for those of images, and returns what the digest covers beside
// the image, which is nothing if one of the two could not be read.
func (e *Example) readLabels(read func(path string) ([]byte, error)) (image, labels []byte, err error) {
	if e.labelMap == nil {
		return e.Encoded, nil, nil
	}
	if e.labelMap.encoded, err = read(e.labelMap.path); err != nil {
		return nil, nil, fmt.Errorf("label map %s: %w", e.labelMap.path, err)
	}
	return e.Encoded, e.labelMap.encoded, nil
}

// ErrNoExamples is the error of Open for a file without examples, whose name precedes it.
var ErrNoExamples = arrays.ErrNoExamples

// A RecordError concerns one record only: the rest of the dataset can be used.
type RecordError struct {
	Name  string
	Index int
	Err   error
}

func (e *RecordError) Error() string { return e.Name + ": " + e.Err.Error() }

func (e *RecordError) Unwrap() error { return e.Err }

// Ignored counts files that are not read for one reason.
type Ignored struct {
	Reason string // "not PNG or JPEG"
	Count  int
	First  string // path of the first such file
}

// A refusal is an error about a whole file, not about one record.
type refusal struct{ msg string }

func (e *refusal) Error() string { return e.msg }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// Options says what the caller knows about the classes and wants from the source. The zero value
// accepts everything.
type Options struct {
	// LabelClasses are the model's class names in label order, which names of folders and labels are
	// looked up in. May be nil.
	LabelClasses []string

	// Classes is K: labels must lie in [0,K). Zero means unknown, and then
	// labels need only be non-negative.
	Classes int

	// Unlabelled ignores labels, as for out-of-distribution data whose classes are not the model's: they
	// are neither read nor checked, and HasLabels reports false.
	Unlabelled bool

	// IgnoreUnknownLabels treats an example whose label is none of the K classes as unlabelled; else it
	// is an error. It has no effect with MultiLabel. The JSON name is an old one, which the keys of
	// existing caches contain.
	IgnoreUnknownLabels bool `json:"StrayLabels"`

	// MultiLabel is for a head that predicts K labels independently: each example has K numbers, 0 or 1,
	// in Example.Targets.
	MultiLabel bool `json:",omitempty"`

	// Texts is for models that read text: the label of an example is its text, in Example.Text.
	Texts bool `json:",omitempty"`
	// Tags is for models that tag the steps of sequences: the label of an example is a list of tags, in Example.Tags.
	Tags bool `json:",omitempty"`
	// Steps is for models with an answer for each step of an example: the label of an example is a list of classes, or
	// of rows of them for the pixels of a map, in Example.Steps.
	Steps bool `json:",omitempty"`

	// Streams is for models that run over streams: the key "stream" of a line of StreamJSONL names the stream that it
	// continues, and "stream_end" is true in the last line of one, in Example.Stream and StreamEnd. They are inputs if
	// these have their names. A dataset refuses such lines, as its records are whole streams.
	Streams bool `json:",omitempty"`

	// Inputs are the names of the model's inputs. Of an .npz with several arrays only these are read.
	// Nil reads all.
	Inputs []string

	// Widths says how many numbers one example has in each of Inputs, 0 if unknown. It decides which
	// columns of a table feed an input. May be nil.
	Widths []int `json:",omitempty"`

	// Columns are the columns of a table that feed the model's only input together, in order, as [Dataset.Columns] of
	// another table has them. Others are not read. Nil takes all columns in their order.
	Columns []string `json:",omitempty"`

	// Shard is the part of the slice that is read, and that the fingerprint covers. A stream is one whole
	// shard, and its first example is at position (Index-1)·StreamPositions.
	Shard rows.Shard `json:",omitzero"`

	// Fingerprint makes passes over the examples hash what they read, because Dataset.Fingerprint will be
	// called.
	Fingerprint bool `json:"-"`

	// Stream is read for the SPEC -. Nil is the process's standard input.
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
