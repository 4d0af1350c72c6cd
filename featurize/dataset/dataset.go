package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"iter"
	"math"
	"os"
	"strings"
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

	// Unlabelled says that labels are not wanted, as for out-of-distribution
	// data whose classes are not the model's: none are read or checked, and
	// HasLabels reports false.
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

	// Data holds the elements in row-major order: []uint8, []int8, []uint16,
	// []int16, []uint32, []int32, []uint64, []int64, []float32 (also for
	// float16 sources), []float64, []bool or []string; or Text, which has yet to
	// become one of them. It belongs to the receiver.
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
	spec     string
	src      source
	from, to int
	classes  int
	stray    bool
	multi    bool
}

// info is what a source knows about itself once opened.
type info struct {
	path     string
	format   string
	count    int
	labelled bool
	classes  []string
	ignored  []Ignored
	ragged   bool
	text     bool // jsonl and csv
}

// A source reads one format. Positions are absolute.
type source interface {
	info() *info
	// examples yields from…to-1 in order. After a *RecordError it may go on;
	// any other error is its last.
	examples(from, to int, yield func(Example, error) bool)
	// hash adds all that determines from…to-1 and their labels.
	hash(ctx context.Context, h hash.Hash, from, to int) error
	Close() error
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
	s, err := parseSpec(spec, exists)
	if err != nil {
		return nil, err
	}
	src, err := openSource(s, o)
	if err != nil {
		return nil, err
	}
	d := &Dataset{spec: spec, src: src, classes: o.Classes, stray: o.StrayLabels, multi: o.MultiLabel}
	if d.from, d.to, err = s.bounds(src.info().count); err != nil {
		src.Close()
		return nil, err
	}
	return d, nil
}

// openSource recognises the format where s leaves it open, and opens it.
func openSource(s parsedSpec, o Options) (source, error) {
	format := s.format
	if format == "" || format == "cifar" {
		sniffed, err := sniff(s.path)
		if err != nil {
			return nil, err
		}
		if format == "cifar" && !strings.HasPrefix(sniffed, "cifar") {
			return nil, fmt.Errorf("%s: not CIFAR binary: no .bin file of records of 3073 or 3074 bytes", s.path)
		}
		format = sniffed
	}
	if fi, err := os.Stat(s.path); err != nil {
		return nil, fileError(s.path, err)
	} else if wantsFolder := format == "folder"; wantsFolder != fi.IsDir() && !strings.HasPrefix(format, "cifar") {
		if wantsFolder {
			return nil, fmt.Errorf("%s: a file, not a folder of images", s.path)
		}
		return nil, fmt.Errorf("%s: a folder, not a file of format %s", s.path, format)
	}
	switch format {
	case "idx":
		return openIDX(s.path, o)
	case "folder":
		return openFolder(s.path, o)
	case "tar":
		return openTar(s.path, o)
	case "image":
		return openImage(s.path)
	case "cifar10":
		return openCIFAR(s.path, cifar10, o)
	case "cifar100":
		return openCIFAR(s.path, cifar100, o)
	case "npy":
		return openNPY(s.path)
	case "npz":
		return openNPZ(s.path, o)
	case "jsonl":
		return openJSONL(s.path, o)
	case "csv":
		return openCSV(s.path, o)
	}
	return nil, fmt.Errorf("%s: %s is not supported: %s", s.path, laterFormats[format], supported)
}

// Spec returns the SPEC as it was given to Open.
func (d *Dataset) Spec() string { return d.spec }

// Path returns the file or folder that holds the examples.
func (d *Dataset) Path() string { return d.src.info().path }

// Format returns the recognised format, as in format:path.
func (d *Dataset) Format() string { return d.src.info().format }

// Slice returns the positions of the examples in the source, from the first to
// the one after the last.
func (d *Dataset) Slice() (from, to int) { return d.from, d.to }

// Len returns the number of examples, after slicing.
func (d *Dataset) Len() int { return d.to - d.from }

// HasLabels reports whether every example has a label.
func (d *Dataset) HasLabels() bool { return d.src.info().labelled }

// Ragged reports whether the arrays of one example may have another shape than
// those of the next, as sequences do that are written as JSON lines. Encoded
// images are none of them.
func (d *Dataset) Ragged() bool { return d.src.info().ragged }

// IsText reports whether examples are written as text, value by value: one that
// does not suit the model is then no more than a bad record.
func (d *Dataset) IsText() bool { return d.src.info().text }

// Classes returns the names of the class folders in byte-wise order, nil where
// there are none. The order is not that of the labels where folders are mapped
// by class name or integer.
func (d *Dataset) Classes() []string { return d.src.info().classes }

// Ignored returns what lay in the dataset's folder or archive and was passed over.
func (d *Dataset) Ignored() []Ignored { return d.src.info().ignored }

// Close releases the dataset's files. Passes still running fail.
func (d *Dataset) Close() error { return d.src.Close() }

// Examples reads the examples in order. An error of type *RecordError concerns
// the one record that comes with it (its Index, Name and Label are set), and
// the iteration goes on; any other error ends it.
func (d *Dataset) Examples(ctx context.Context) iter.Seq2[Example, error] {
	checked := d.HasLabels() && !d.multi // targets are checked where they are read
	return func(yield func(Example, error) bool) {
		d.src.examples(d.from, d.to, func(e Example, err error) bool {
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
	return fmt.Errorf("%s: its labels are one class an example; want %s: labels [N,K] in an .npz, or lists in JSON lines", path, wantTargets(o.Classes))
}

// wantTargets words what labels a multi-label head of k labels wants.
func wantTargets(k int) string {
	if k == 0 {
		return "a 0 or 1 for each of the head's labels"
	}
	return fmt.Sprintf("a 0 or 1 for each of the head's %d labels", k)
}

// Fingerprint returns a sha256 in hex over everything that determines the
// examples: the bounds of the slice, the content of the files (for folders
// and archives: relative paths, labels and contents of the files in the slice), and whether
// there are labels. It does not depend on where the files lie. It reads them
// all.
func (d *Dataset) Fingerprint(ctx context.Context) (string, error) {
	h := sha256.New()
	in := d.src.info()
	fmt.Fprintf(h, "%s %t %d %d\n", in.format, in.labelled, d.from, d.to)
	if err := d.src.hash(ctx, h, d.from, d.to); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashReader adds the size and content of one file to h.
func hashReader(ctx context.Context, h hash.Hash, r io.ReaderAt, size int64) error {
	fmt.Fprintf(h, "%d\n", size)
	buf := make([]byte, 256<<10)
	src := io.NewSectionReader(r, 0, size)
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := src.Read(buf)
		h.Write(buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
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
